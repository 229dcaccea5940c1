#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# Builds NVSHMEM's side of the comparison, without Bazel: NVSHMEM comes as a Python wheel.
#
#   perf/compare/build.sh OUT [NVSHMEM]    NVSHMEM: folder with include/ and lib/; default: the wheel
#                                          nvidia-nvshmem-cu13 of python3
#
# Leaves OUT/nvshmem_side and OUT/start_up_nvshmem. compare.py finds the wheel's libraries when it runs them.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

[ $# -ge 1 ] || { sed -n '4,9s/^# \{0,1\}//p' "${BASH_SOURCE[0]}" >&2; exit 2; }
out=$1
nvshmem=${2:-$(python3 -c '
import importlib.util, sys
spec = importlib.util.find_spec("nvidia")
print(next((f"{p}/nvshmem" for p in spec.submodule_search_locations), ""))' 2>/dev/null || true)}
if [ ! -e "$nvshmem/include/nvshmem.h" ]; then
  echo "build.sh: no NVSHMEM at '$nvshmem'; name the folder that has include/nvshmem.h, or install nvidia-nvshmem-cu13" >&2
  exit 1
fi

mkdir -p "$out"
# Its headers use volatile as C++20 deprecates it: 3012, 3013.
flags=(-std=c++20 -O3 -rdc=true -gencode "arch=compute_90,code=[sm_90,compute_90]" -I. -isystem "$nvshmem/include"
  -diag-suppress 3012,3013)
# The wheel has no libnvshmem_host.so for -l to find, only the one with a version.
libraries=(-L"$nvshmem/lib" -lnvshmem_device -Xlinker "$nvshmem/lib/libnvshmem_host.so.3" -lcuda)
for program in nvshmem_side start_up_nvshmem; do
  nvcc "${flags[@]}" "perf/compare/$program.cu" -o "$out/$program" "${libraries[@]}"
done
