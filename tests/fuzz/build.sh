#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# Builds the fuzz targets and copies them to a folder: programs that need libc and libstdc++ only and run on any machine
# of the same kind, with tests/fuzz/run.sh and tests/fuzz/corpus beside them.
#
#   tests/fuzz/build.sh [FOLDER (build/fuzz) [TARGET...]]
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
folder=${1:-build/fuzz}
shift || true
targets=("$@")
[ ${#targets[@]} -gt 0 ] || mapfile -t targets < <(ls tests/fuzz/*_fuzz.cc | xargs -n1 basename | sed 's/_fuzz\.cc$//')
command -v clang++ >/dev/null || { echo "build.sh: apt-get install clang libclang-rt-14-dev" >&2; exit 1; }
bazel build "${targets[@]/#///tests/fuzz:}" 2>&1 >/dev/null | grep -v '^\(INFO\|Loading\|Analyzing\|\[\)' >&2 || true
mkdir -p "$folder"
for target in "${targets[@]}"; do
  install -m 755 "bazel-bin/tests/fuzz/${target}_fuzz" "$folder/${target}_fuzz"
done
echo "$folder: ${targets[*]}"
