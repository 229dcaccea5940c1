#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# Builds what uses NVSHMEM, without Bazel, as NVSHMEM comes as a Python wheel: its side of the comparison, and the check
# of its IBGDA transport on the software NIC (tests/gpu/clients).
#
#   perf/compare/build.sh OUT [NVSHMEM]    NVSHMEM: folder with include/ and lib/; default: the wheel
#                                          nvidia-nvshmem-cu13 of python3
#
# Leaves OUT/nvshmem_side, OUT/start_up_nvshmem, OUT/collectives_nvshmem, OUT/streams_nvshmem, OUT/nvshmem_check and
# OUT/apps/ with the applications of perf/apps. Those who run them find the wheel's libraries.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

[ $# -ge 1 ] || { sed -n '4,11s/^# \{0,1\}//p' "${BASH_SOURCE[0]}" >&2; exit 2; }
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
# Its headers use volatile as C++20 deprecates it: 3012, 3013. Not every name has its user in every scope: 177.
flags=(-std=c++20 -O3 -rdc=true -gencode "arch=compute_90,code=[sm_90,compute_90]" -I. -isystem "$nvshmem/include"
  -diag-suppress 177,3012,3013)
# The wheel has no libnvshmem_host.so for -l to find, only the one with a version.
libraries=(-L"$nvshmem/lib" -lnvshmem_device -Xlinker "$nvshmem/lib/libnvshmem_host.so.3" -lcuda)
# Command line and rows are those of peal's programs.
for shared in options report; do
  g++ -std=c++20 -O2 -I. -DFMT_HEADER_ONLY -c "perf/common/$shared.cc" -o "$out/$shared.o"
done
nvcc "${flags[@]}" perf/compare/nvshmem_side.cu "$out"/{options,report}.o -o "$out/nvshmem_side" "${libraries[@]}"
rm "$out"/{options,report}.o
for program in perf/compare/{start_up,collectives,streams}_nvshmem.cu tests/gpu/clients/nvshmem_check.cu; do
  nvcc "${flags[@]}" "$program" -o "$out/$(basename "$program" .cu)" "${libraries[@]}"
done
mkdir -p "$out/apps"
for program in perf/apps/{gups,moe,pages,stencil,transpose}.cu; do
  nvcc "${flags[@]}" "$program" -o "$out/apps/$(basename "$program" .cu)" "${libraries[@]}"
done
