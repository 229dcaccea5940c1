// SPDX-License-Identifier: Apache-2.0
//
// A radix sort of keys with values, four bits a pass: counts of each block, their prefix sums, a
// scatter that keeps equal keys in order.
#include <algorithm>
#include <vector>

#include "tests/cuda_programs/check.h"

constexpr int kBits = 4, kDigits = 1 << kBits, kThreads = 64, kCount = 1000;
constexpr int kBlocks = (kCount + kThreads - 1) / kThreads;

__global__ void count(const unsigned* keys, int shift, int* counts) {
  __shared__ int mine[kDigits];
  if (threadIdx.x < kDigits) mine[threadIdx.x] = 0;
  __syncthreads();
  const int i = blockIdx.x * kThreads + threadIdx.x;
  if (i < kCount) atomicAdd(&mine[keys[i] >> shift & (kDigits - 1)], 1);
  __syncthreads();
  if (threadIdx.x < kDigits) counts[threadIdx.x * gridDim.x + blockIdx.x] = mine[threadIdx.x];
}

__global__ void prefix(int* counts, int n) {  // by one thread
  int sum = 0;
  for (int i = 0; i < n; ++i) {
    const int own = counts[i];
    counts[i] = sum;
    sum += own;
  }
}

__global__ void scatter(const unsigned* keys, const int* values, unsigned* sorted_keys,
                        int* sorted_values, int shift, const int* offsets) {
  __shared__ unsigned digits[kThreads];
  const int i = blockIdx.x * kThreads + threadIdx.x;
  const unsigned digit = i < kCount ? keys[i] >> shift & (kDigits - 1) : kDigits;
  digits[threadIdx.x] = digit;
  __syncthreads();
  if (i >= kCount) return;
  int before = 0;
  for (int t = 0; t < threadIdx.x; ++t) before += digits[t] == digit;
  const int to = offsets[digit * gridDim.x + blockIdx.x] + before;
  sorted_keys[to] = keys[i];
  sorted_values[to] = values[i];
}

int main() {
  unsigned* keys[2];
  int *values[2], *counts;
  for (int i = 0; i < 2; ++i) {
    CHECK(cudaMallocManaged(&keys[i], kCount * sizeof(unsigned)));
    CHECK(cudaMallocManaged(&values[i], kCount * sizeof(int)));
  }
  CHECK(cudaMalloc(&counts, kDigits * kBlocks * sizeof(int)));
  std::vector<std::pair<unsigned, int>> expected;
  for (int i = 0; i < kCount; ++i) {
    keys[0][i] = (i * 2654435761u) >> (i % 3 * 9);
    values[0][i] = i;
    expected.push_back({keys[0][i], i});
  }
  std::stable_sort(expected.begin(), expected.end());
  for (int shift = 0, from = 0; shift < 32; shift += kBits, from ^= 1) {
    count<<<kBlocks, kThreads>>>(keys[from], shift, counts);
    prefix<<<1, 1>>>(counts, kDigits * kBlocks);
    scatter<<<kBlocks, kThreads>>>(keys[from], values[from], keys[from ^ 1], values[from ^ 1],
                                   shift, counts);
  }
  CHECK(cudaDeviceSynchronize());
  for (int i = 0; i < kCount; ++i) {
    EXPECT(keys[0][i] == expected[i].first && values[0][i] == expected[i].second);
  }
  return verdict("radix_sort");
}
