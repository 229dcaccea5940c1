// SPDX-License-Identifier: Apache-2.0
//
// What satisfies a condition, packed together in its order: votes give ranks in a warp, a block's
// places come by a ticket that blocks draw in their order.
#include <vector>

#include "tests/cuda_programs/check.h"

constexpr int kThreads = 128, kCount = 2000;

__device__ unsigned ticket;
__device__ volatile int placed;  // by the blocks of lower tickets
__device__ volatile unsigned turn;

__global__ void compact(const int* in, int* out, int n) {
  __shared__ int of_warps[kThreads / 32], first;
  __shared__ unsigned mine;
  if (threadIdx.x == 0) mine = atomicAdd(&ticket, 1);
  __syncthreads();
  const int i = mine * kThreads + threadIdx.x, lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  const bool keep = i < n && in[i] % 3 == 0;
  const unsigned votes = __ballot_sync(0xffffffff, keep);
  if (lane == 0) of_warps[warp] = __popc(votes);
  __syncthreads();
  if (threadIdx.x == 0) {
    int sum = 0;
    for (int& one : of_warps) {
      const int own = one;
      one = sum;
      sum += own;
    }
    while (atomicAdd((unsigned*)&turn, 0) != mine) {
    }
    __threadfence();
    first = placed;
    placed = first + sum;
    __threadfence();
    atomicExch((unsigned*)&turn, mine + 1);
  }
  __syncthreads();
  if (keep) out[first + of_warps[warp] + __popc(votes & ((1u << lane) - 1))] = in[i];
}

int main() {
  int *in, *out, count = 0;
  CHECK(cudaMallocManaged(&in, kCount * sizeof(int)));
  CHECK(cudaMallocManaged(&out, kCount * sizeof(int)));
  std::vector<int> expected;
  for (int i = 0; i < kCount; ++i) {
    in[i] = i * i % 1001;
    if (in[i] % 3 == 0) expected.push_back(in[i]);
  }
  compact<<<(kCount + kThreads - 1) / kThreads, kThreads>>>(in, out, kCount);
  CHECK(cudaDeviceSynchronize());
  CHECK(cudaMemcpyFromSymbol(&count, placed, sizeof count));
  EXPECT(count == (int)expected.size());
  for (int i = 0; i < count; ++i) EXPECT(out[i] == expected[i]);
  return verdict("compaction");
}
