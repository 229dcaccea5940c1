// SPDX-License-Identifier: Apache-2.0
//
// A sum in three steps: threads, warps by shuffles, blocks by shared memory; the last block to end
// adds up what the blocks have found.
#include "tests/cuda_programs/check.h"

constexpr int kThreads = 128, kBlocks = 16, kCount = 10007;

__device__ unsigned finished;

__inline__ __device__ long long sum_of_warp(long long value) {
  for (int step = warpSize / 2; step > 0; step /= 2) {
    value += __shfl_down_sync(0xffffffff, value, step);
  }
  return value;
}

__inline__ __device__ long long sum_of_block(long long value) {
  __shared__ long long of_warps[32];
  const int lane = threadIdx.x % warpSize, warp = threadIdx.x / warpSize;
  value = sum_of_warp(value);
  if (lane == 0) of_warps[warp] = value;
  __syncthreads();
  value = threadIdx.x < blockDim.x / warpSize ? of_warps[lane] : 0;
  return warp == 0 ? sum_of_warp(value) : 0;
}

__global__ void reduce(const int* data, int n, volatile long long* partial, long long* result) {
  __shared__ bool last;
  long long mine = 0;
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) {
    mine += data[i];
  }
  mine = sum_of_block(mine);
  if (threadIdx.x == 0) {
    partial[blockIdx.x] = mine;
    __threadfence();
    last = atomicInc(&finished, gridDim.x - 1) == gridDim.x - 1;
  }
  __syncthreads();
  if (!last) return;
  mine = sum_of_block(threadIdx.x < gridDim.x ? partial[threadIdx.x] : 0);
  if (threadIdx.x == 0) *result = mine;
}

int main() {
  int* data;
  long long *partial, *result, expected = 0;
  CHECK(cudaMallocManaged(&data, kCount * sizeof(int)));
  CHECK(cudaMalloc(&partial, kBlocks * sizeof(long long)));
  CHECK(cudaMallocManaged(&result, sizeof(long long)));
  for (int i = 0; i < kCount; ++i) expected += data[i] = i * i % 1000 - 300;
  for (int round = 0; round < 3; ++round) {
    *result = 0;
    reduce<<<kBlocks, kThreads>>>(data, kCount, partial, result);
    CHECK(cudaDeviceSynchronize());
    EXPECT(*result == expected);
  }
  return verdict("reduction");
}
