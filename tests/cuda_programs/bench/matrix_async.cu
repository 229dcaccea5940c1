// SPDX-License-Identifier: Apache-2.0
//
// A product of matrices whose next tiles are copied while the present ones are used: cp.async by
// CUDA's pipeline primitives, two stages.
#include <cuda_pipeline.h>

#include <vector>

#include "tests/cuda_programs/check.h"

constexpr int kSize = 64, kTile = 16;

__global__ void multiply(const float* a, const float* b, float* c) {
  __shared__ alignas(16) float of_a[2][kTile][kTile], of_b[2][kTile][kTile];
  const int row = blockIdx.y * kTile + threadIdx.y, column = blockIdx.x * kTile + threadIdx.x;
  const auto fetch = [&](int stage, int first) {
    if (threadIdx.x % 4 == 0) {  // 16 bytes each
      __pipeline_memcpy_async(&of_a[stage][threadIdx.y][threadIdx.x],
                              &a[row * kSize + first + threadIdx.x], 16);
      __pipeline_memcpy_async(&of_b[stage][threadIdx.y][threadIdx.x],
                              &b[(first + threadIdx.y) * kSize + column], 16);
    }
    __pipeline_commit();
  };
  float sum = 0;
  fetch(0, 0);
  for (int first = 0, stage = 0; first < kSize; first += kTile, stage ^= 1) {
    if (first + kTile < kSize) {
      fetch(stage ^ 1, first + kTile);
      __pipeline_wait_prior(1);
    } else {
      __pipeline_wait_prior(0);
    }
    __syncthreads();
    for (int i = 0; i < kTile; ++i)
      sum += of_a[stage][threadIdx.y][i] * of_b[stage][i][threadIdx.x];
    __syncthreads();
  }
  c[row * kSize + column] = sum;
}

int main() {
  float *a, *b, *c;
  CHECK(cudaMallocManaged(&a, kSize * kSize * sizeof(float)));
  CHECK(cudaMallocManaged(&b, kSize * kSize * sizeof(float)));
  CHECK(cudaMallocManaged(&c, kSize * kSize * sizeof(float)));
  for (int i = 0; i < kSize * kSize; ++i) a[i] = (float)(i % 9) - 4, b[i] = (float)(i % 11) - 5;
  multiply<<<dim3(kSize / kTile, kSize / kTile), dim3(kTile, kTile)>>>(a, b, c);
  CHECK(cudaDeviceSynchronize());
  for (int i = 0; i < kSize; ++i) {
    for (int j = 0; j < kSize; ++j) {
      float sum = 0;
      for (int x = 0; x < kSize; ++x) sum += a[i * kSize + x] * b[x * kSize + j];
      EXPECT(c[i * kSize + j] == sum);
    }
  }
  return verdict("matrix_async");
}
