// SPDX-License-Identifier: Apache-2.0
//
// Prefix sums of any length: blocks by up-sweep and down-sweep in shared memory, then their sums
// by the same kernel, then both together.
#include <vector>

#include "tests/cuda_programs/check.h"

constexpr int kBlock = 256;  // of numbers; half as many threads

__global__ void scan_blocks(const int* in, int* out, int* sums, int n) {
  __shared__ int temp[kBlock];
  const int base = blockIdx.x * kBlock, t = threadIdx.x;
  temp[2 * t] = base + 2 * t < n ? in[base + 2 * t] : 0;
  temp[2 * t + 1] = base + 2 * t + 1 < n ? in[base + 2 * t + 1] : 0;
  int offset = 1;
  for (int active = kBlock / 2; active > 0; active /= 2, offset *= 2) {
    __syncthreads();
    if (t < active) temp[offset * (2 * t + 2) - 1] += temp[offset * (2 * t + 1) - 1];
  }
  __syncthreads();
  if (t == 0) {
    if (sums != nullptr) sums[blockIdx.x] = temp[kBlock - 1];
    temp[kBlock - 1] = 0;
  }
  for (int active = 1; active < kBlock; active *= 2) {
    offset /= 2;
    __syncthreads();
    if (t < active) {
      const int left = offset * (2 * t + 1) - 1, right = offset * (2 * t + 2) - 1;
      const int was = temp[left];
      temp[left] = temp[right];
      temp[right] += was;
    }
  }
  __syncthreads();
  if (base + 2 * t < n) out[base + 2 * t] = temp[2 * t];
  if (base + 2 * t + 1 < n) out[base + 2 * t + 1] = temp[2 * t + 1];
}

__global__ void add_sums(int* out, const int* sums, int n) {
  for (int i = threadIdx.x; i < kBlock; i += blockDim.x) {
    const int at = blockIdx.x * kBlock + i;
    if (at < n) out[at] += sums[blockIdx.x];
  }
}

void scan(const int* in, int* out, int n) {
  const int blocks = (n + kBlock - 1) / kBlock;
  if (blocks == 1) {
    scan_blocks<<<1, kBlock / 2>>>(in, out, nullptr, n);
    return;
  }
  int* sums;
  CHECK(cudaMalloc(&sums, blocks * sizeof(int)));
  scan_blocks<<<blocks, kBlock / 2>>>(in, out, sums, n);
  scan(sums, sums, blocks);
  add_sums<<<blocks, kBlock / 2>>>(out, sums, n);
  CHECK(cudaFree(sums));
}

int main() {
  for (int n : {1, 255, 256, 257, 5000}) {
    std::vector<int> host(n), result(n);
    for (int i = 0; i < n; ++i) host[i] = i * 7 % 13 - 5;
    int *in, *out;
    CHECK(cudaMalloc(&in, n * sizeof(int)));
    CHECK(cudaMalloc(&out, n * sizeof(int)));
    CHECK(cudaMemcpy(in, host.data(), n * sizeof(int), cudaMemcpyHostToDevice));
    scan(in, out, n);
    CHECK(cudaMemcpy(result.data(), out, n * sizeof(int), cudaMemcpyDeviceToHost));
    int sum = 0;
    for (int i = 0; i < n; sum += host[i++]) EXPECT(result[i] == sum);
    CHECK(cudaFree(in));
    CHECK(cudaFree(out));
  }
  return verdict("scan");
}
