#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# race_test.sh <install> <NVSHMEM's program>...: peal-cc --race of an installation that was built with ThreadSanitizer finds
# planted races, of lanes and of PEs, with their lines, and finds none in right programs.
set -u
install=$1
shift
mapfile -t programs < <(realpath "$@")
work=$(mktemp -d) || exit 2
trap 'rm -rf "$work"' EXIT
# shellcheck source=expect.sh
source "$(dirname "$0")/expect.sh"

expect "find_package(peal)" "$install" --prefix "$work/peal"
if ! grep -q __tsan_func_entry "$work/peal/lib/libpeal.so"; then
  echo "skipped: built without ThreadSanitizer: bazel test --config=tsan"
  exit 0
fi
export PATH="$work/peal/bin:$PATH" PEAL_TIMEOUT=60s
cd "$work" || exit 2
echo 'int main() {}' >none.cu
refuse "tools/install --race" peal-cc --race none.cu
expect "" "$install" --prefix "$work/peal" --race

cat >lanes.cu <<'END'
__global__ void lanes(int* sum) {
#ifdef RIGHT
  atomicAdd(sum, 1);
#else
  *sum += 1;
#endif
}
int main() {
  int* sum;
  cudaMalloc(&sum, sizeof(int));
  cudaMemset(sum, 0, sizeof(int));
  lanes<<<1, 2>>>(sum);
  return cudaDeviceSynchronize();
}
END
expect "" peal-cc --race lanes.cu -o lanes
refuse "data race" ./lanes
grep -q "lanes.cu:5" log || fail "no line of the race: $(cat log)"
grep -q "block (0,0,0) thread (1,0,0)" log || fail "no lane of the race: $(cat log)"
expect "" peal-cc --race -DRIGHT lanes.cu -o right
expect "" ./right

# The neighbour reads what is put to it without waiting for the signal.
cat >pes.cu <<'END'
#include <nvshmem.h>
#include <nvshmemx.h>
__global__ void pes(int* box, int* mine, uint64_t* flag, int* seen) {
  const int next = (nvshmem_my_pe() + 1) % nvshmem_n_pes();
  nvshmem_int_put_signal(box, mine, 64, flag, 1, NVSHMEM_SIGNAL_SET, next);
#ifdef RIGHT
  nvshmem_signal_wait_until(flag, NVSHMEM_CMP_EQ, 1);
#else
  nvshmem_quiet();
#endif
  *seen = box[63];
}
int main() {
  nvshmem_init();
  int* box = (int*)nvshmem_calloc(64, sizeof(int));
  int* mine = (int*)nvshmem_calloc(64, sizeof(int));
  int* seen = (int*)nvshmem_calloc(1, sizeof(int));
  uint64_t* flag = (uint64_t*)nvshmem_calloc(1, sizeof(uint64_t));
  nvshmem_barrier_all();
  pes<<<1, 1>>>(box, mine, flag, seen);
  cudaDeviceSynchronize();
  nvshmem_barrier_all();
  nvshmem_finalize();
}
END
expect "" peal-cc --race pes.cu -o pes
refuse "pes.cu:11" peal-run -n 2 ./pes
expect "" peal-cc --race -DRIGHT pes.cu -o right_pes
expect "" peal-run -n 2 ./right_pes
grep -q "data race" log && fail "a false alarm: $(cat log)"

for program in "${programs[@]}"; do
  name=$(basename "$program" .cu)
  expect "" peal-cc --race "$program" -o "$name"
  expect "$name: ok on 2 PEs" peal-run -n 2 "./$name"
  grep -q "data race" log && fail "a false alarm: $(cat log)"
done
finish
