// SPDX-License-Identifier: Apache-2.0
//
// A bitonic sort: long strides in memory, short ones in shared memory.
#include <algorithm>
#include <vector>

#include "tests/cuda_programs/check.h"

constexpr int kCount = 1024, kBlock = 256;

__device__ inline void order(int& a, int& b, bool up) {
  if ((a > b) != up) return;
  const int was = a;
  a = b;
  b = was;
}

__global__ void in_memory(int* data, int width, int stride) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x, other = i ^ stride;
  if (other > i) order(data[i], data[other], (i & width) == 0);
}

__global__ void in_shared(int* data, int width, int stride) {
  __shared__ int part[kBlock];
  const int i = blockIdx.x * kBlock + threadIdx.x;
  part[threadIdx.x] = data[i];
  for (; stride > 0; stride /= 2) {
    __syncthreads();
    const int other = threadIdx.x ^ stride;
    if (other > threadIdx.x) order(part[threadIdx.x], part[other], (i & width) == 0);
  }
  __syncthreads();
  data[i] = part[threadIdx.x];
}

int main() {
  int* data;
  CHECK(cudaMallocManaged(&data, kCount * sizeof(int)));
  for (int i = 0; i < kCount; ++i) data[i] = (int)(i * 2654435761u >> 8) - 5000000;
  std::vector<int> expected(data, data + kCount);
  std::sort(expected.begin(), expected.end());
  for (int width = 2; width <= kCount; width *= 2) {
    int stride = width / 2;
    for (; stride >= kBlock; stride /= 2)
      in_memory<<<kCount / kBlock, kBlock>>>(data, width, stride);
    in_shared<<<kCount / kBlock, kBlock>>>(data, width, stride);
  }
  CHECK(cudaDeviceSynchronize());
  for (int i = 0; i < kCount; ++i) EXPECT(data[i] == expected[i]);
  return verdict("bitonic_sort");
}
