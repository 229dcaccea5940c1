#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# cuda_programs_test.sh <install>: peal-cc of an installation compiles the programs of this folder, two at a time and by
# -O0, which is the shorter way to the end; each says that its results are right. Those of several PEs run on 2.
set -u
install=$1
programs=$(realpath "$(dirname "$0")")
root=$(realpath "$programs/../..")
# shellcheck source=../install/expect.sh
source tests/install/expect.sh
work=$(mktemp -d) || exit 2
trap 'rm -rf "$work"' EXIT

expect "find_package(peal)" "$install" --prefix "$work/peal"
export PATH="$work/peal/bin:$PATH" PEAL_TIMEOUT=60s
cd "$work" || exit 2

compile_and_run() { # <program>.cu: leaves NAME.failed behind where it fails
  local name
  name=$(basename "$1" .cu)
  local files=("$1") start=()
  [ "$name" = mixed ] && files+=("${1%.cu}_main.cpp")
  grep -qE 'nvshmem.h|peal.h' "${files[@]}" && start=(peal-run -n 2)
  [ "$name" = mixed ] && start=()
  if ! peal-cc -O0 -I "$2" "${files[@]}" -o "$name" >"$name.log" 2>&1 ||
    ! timeout 200 "${start[@]}" "./$name" >>"$name.log" 2>&1 || ! grep -qF "$name: ok" "$name.log"; then
    touch "$name.failed"
  fi
}
export -f compile_and_run
printf '%s\0' "$programs"/{bench,calls}/*.cu | xargs -0 -P 2 -I{} bash -c 'compile_and_run "$1" "$2"' - {} "$root"
for failed in *.failed; do
  [ -e "$failed" ] && fail "${failed%.failed}: $(tail -n 20 "${failed%.failed}.log")"
done
grep -qF "kernel positive: block (1,0,0), thread (5,0,0): " asserts.log ||
  fail "asserts: does not name kernel, block and thread: $(cat asserts.log)"

# CUDA's C++ libraries, where there are any.
for cccl in "${CUDA_HOME:-/usr/local/cuda}/include/cccl" /usr/local/cuda/targets/*/include/cccl; do
  [ -e "$cccl/cuda/std/version" ] || continue
  expect "" peal-cc -O0 -I "$root" -I "$cccl" "$programs/libraries/libraries.cu" -o libraries
  expect "libraries: ok" timeout 200 ./libraries
  break
done

# What is read and does not run here is told of in a sentence.
mkdir -p cub/cub/block cub/cuda/std toolkit/crt
touch cub/cub/block/sum.cuh cub/cuda/std/version toolkit/crt/host_defines.h toolkit/crt/host_config.h
echo '#include "crt/host_defines.h"' >toolkit/cuda_fp4.h
echo '#include <thrust/sort.h>' >thrust.cu
echo '#include <cub/block/sum.cuh>' >cub.cu
echo '#include <cuda_fp4.h>' >toolkit.cu
refuse "<thrust/...> is of CUDA's C++ libraries, CCCL: give their folder by -I" peal-cc -c thrust.cu
refuse "cub/block/sum.cuh is read: CUB is written for GPUs alone" peal-cc -c -I cub cub.cu
refuse "toolkit/cuda_fp4.h is read: a header of a CUDA toolkit" peal-cc -c -isystem toolkit toolkit.cu
finish
