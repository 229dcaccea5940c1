// SPDX-License-Identifier: Apache-2.0
//
// A separable convolution: its weights in constant memory, rows with their halos in shared memory.
#include <math.h>
#include <string.h>

#include <vector>

#include "tests/cuda_programs/check.h"

constexpr int kRadius = 3, kWidth = 50, kHeight = 37, kThreads = 32;

__constant__ float weights[2 * kRadius + 1];

__global__ void along_rows(const float* in, float* out) {
  __shared__ float row[kThreads + 2 * kRadius];
  const int first = blockIdx.x * kThreads - kRadius;
  const float* const line = in + blockIdx.y * kWidth;
  for (int i = threadIdx.x; i < kThreads + 2 * kRadius; i += kThreads) {
    const int x = first + i;
    row[i] = x >= 0 && x < kWidth ? line[x] : 0;
  }
  __syncthreads();
  const int x = blockIdx.x * kThreads + threadIdx.x;
  float sum = 0;
  for (int i = 0; i <= 2 * kRadius; ++i) sum += weights[i] * row[threadIdx.x + i];
  if (x < kWidth) out[blockIdx.y * kWidth + x] = sum;
}

__global__ void along_columns(const float* in, float* out) {
  const int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y;
  if (x >= kWidth) return;
  float sum = 0;
  for (int i = -kRadius; i <= kRadius; ++i) {
    if (y + i >= 0 && y + i < kHeight) sum += weights[i + kRadius] * in[(y + i) * kWidth + x];
  }
  out[y * kWidth + x] = sum;
}

int main() {
  float host[2 * kRadius + 1];
  for (int i = -kRadius; i <= kRadius; ++i) host[i + kRadius] = expf(-0.3f * i * i);
  CHECK(cudaMemcpyToSymbol(weights, host, sizeof host));
  float *in, *between, *out;
  CHECK(cudaMallocManaged(&in, kWidth * kHeight * sizeof(float)));
  CHECK(cudaMalloc(&between, kWidth * kHeight * sizeof(float)));
  CHECK(cudaMallocManaged(&out, kWidth * kHeight * sizeof(float)));
  for (int i = 0; i < kWidth * kHeight; ++i) in[i] = (float)(i * 31 % 17);
  const dim3 blocks((kWidth + kThreads - 1) / kThreads, kHeight);
  along_rows<<<blocks, kThreads>>>(in, between);
  along_columns<<<blocks, kThreads>>>(between, out);
  CHECK(cudaDeviceSynchronize());
  for (int y = 0; y < kHeight; ++y) {
    for (int x = 0; x < kWidth; ++x) {
      float sum = 0;
      for (int j = -kRadius; j <= kRadius; ++j) {
        for (int i = -kRadius; i <= kRadius; ++i) {
          const bool there = x + i >= 0 && x + i < kWidth && y + j >= 0 && y + j < kHeight;
          if (there) sum += host[i + kRadius] * host[j + kRadius] * in[(y + j) * kWidth + x + i];
        }
      }
      EXPECT(fabsf(out[y * kWidth + x] - sum) < 1e-3f);
    }
  }
  return verdict("convolution");
}
