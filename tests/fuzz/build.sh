#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# Builds the fuzz targets and copies them to a folder: programs that need libc, libm and libstdc++ only and run on any
# machine of the same kind, with tests/fuzz/run.sh and tests/fuzz/corpus beside them.
#
#   tests/fuzz/build.sh [FOLDER (build/fuzz) [TARGET...]]
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
folder=${1:-build/fuzz}
shift || true
targets=("$@")
if [ ${#targets[@]} = 0 ]; then
  for source in tests/fuzz/*_fuzz.cc; do targets+=("$(basename "$source" _fuzz.cc)"); done
fi
command -v clang++ >/dev/null || { echo "build.sh: apt-get install clang libclang-rt-14-dev" >&2; exit 1; }
labels=()
for target in "${targets[@]}"; do labels+=("//tests/fuzz:${target}_fuzz"); done
log=$(mktemp)
trap 'rm -f "$log"' EXIT
bazel build --define=peal_fuzz=optimized "${labels[@]}" >"$log" 2>&1 || { cat "$log" >&2; exit 1; }
mkdir -p "$folder"
for target in "${targets[@]}"; do
  install -m 755 "bazel-bin/tests/fuzz/${target}_fuzz" "$folder/${target}_fuzz"
done
echo "$folder: ${targets[*]}"
