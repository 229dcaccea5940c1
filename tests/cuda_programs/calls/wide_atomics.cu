// SPDX-License-Identifier: Apache-2.0
//
// Atomics on 16 bytes and on two: no half of a value is ever seen.
#include "tests/cuda_programs/check.h"

struct alignas(16) Both {
  unsigned long long low, high;
};

__global__ void count_up(Both* both) {
  Both seen = *(volatile unsigned long long*)both == 0 ? Both{0, 0} : Both{1, ~1ull};
  for (int left = 100; left > 0;) {
    const Both next = {seen.low + 1, ~(seen.low + 1)};
    const Both was = atomicCAS(both, seen, next);
    if (was.low == seen.low && was.high == seen.high) --left;
    seen = was;
  }
}

__global__ void exchange(Both* box, int* torn, unsigned long long* sum) {
  Both mine = {threadIdx.x + 1, ~(threadIdx.x + 1ull)};
  for (int i = 0; i < 50; ++i) {
    mine = atomicExch(box, mine);
    if (mine.high != ~mine.low) atomicAdd(torn, 1);
  }
  atomicAdd(sum, mine.low);
}

__global__ void count_shorts(unsigned short* count) {
  unsigned short seen = 0, was = 1;
  while ((was = atomicCAS(count, seen, (unsigned short)(seen + 1))) != seen) seen = was;
}

int main() {
  Both* both;
  int* torn;
  unsigned long long* sum;
  unsigned short* count;
  CHECK(cudaMallocManaged(&both, sizeof(Both)));
  CHECK(cudaMallocManaged(&torn, sizeof *torn));
  CHECK(cudaMallocManaged(&sum, sizeof *sum));
  CHECK(cudaMallocManaged(&count, 2 * sizeof *count));
  *both = {0, ~0ull};
  *torn = 0;
  *sum = 0;
  count[0] = 0;
  count[1] = 0xabcd;
  count_up<<<4, 32>>>(both);
  CHECK(cudaDeviceSynchronize());
  EXPECT(both->low == 4 * 32 * 100 && both->high == ~both->low);
  *both = {1000, ~1000ull};
  exchange<<<1, 64>>>(both, torn, sum);
  count_shorts<<<2, 64>>>(count);
  CHECK(cudaDeviceSynchronize());
  EXPECT(*torn == 0 && *sum + both->low == 1000 + 64 * 65 / 2);
  EXPECT(count[0] == 128 && count[1] == 0xabcd);
  return verdict("wide_atomics");
}
