// SPDX-License-Identifier: Apache-2.0
//
// How often each byte occurs: one table for each warp in shared memory, which __match_any_sync
// keeps short, added up at the end.
#include "tests/cuda_programs/check.h"

constexpr int kBins = 256, kThreads = 64, kWarps = kThreads / 32, kBytes = 4001;

__global__ void histogram(const unsigned char* data, int n, unsigned* bins) {
  __shared__ unsigned of_warp[kWarps][kBins];
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  for (int i = threadIdx.x; i < kWarps * kBins; i += kThreads) of_warp[i / kBins][i % kBins] = 0;
  __syncthreads();
  const int step = gridDim.x * kThreads;
  for (int first = blockIdx.x * kThreads + warp * 32; first < n; first += step) {
    const int i = first + lane;
    const unsigned there = __ballot_sync(0xffffffff, i < n);
    if (i < n) {
      const unsigned same = __match_any_sync(there, data[i]);
      if (__ffs(same) - 1 == lane) of_warp[warp][data[i]] += __popc(same);
    }
    __syncwarp();
  }
  __syncthreads();
  for (int bin = threadIdx.x; bin < kBins; bin += kThreads) {
    unsigned sum = 0;
    for (int w = 0; w < kWarps; ++w) sum += of_warp[w][bin];
    if (sum != 0) atomicAdd(&bins[bin], sum);
  }
}

int main() {
  unsigned char* data;
  unsigned *bins, expected[kBins] = {};
  CHECK(cudaMallocManaged(&data, kBytes));
  CHECK(cudaMallocManaged(&bins, kBins * sizeof(unsigned)));
  CHECK(cudaMemset(bins, 0, kBins * sizeof(unsigned)));
  for (int i = 0; i < kBytes; ++i) ++expected[data[i] = (unsigned char)(i * i / 7)];
  histogram<<<8, kThreads>>>(data, kBytes, bins);
  CHECK(cudaDeviceSynchronize());
  for (int i = 0; i < kBins; ++i) EXPECT(bins[i] == expected[i]);
  return verdict("histogram");
}
