// SPDX-License-Identifier: Apache-2.0
//
// Attention without its matrix: tiles of keys and values pass by, and each query keeps a running
// maximum, sum and output (flash attention), with a causal mask.
#include <math.h>

#include <vector>

#include "tests/cuda_programs/check.h"

constexpr int kLength = 48, kDim = 16, kTile = 16, kHeads = 2;

__global__ void attend(const float* q, const float* k, const float* v, float* out, float scale) {
  extern __shared__ float memory[];
  float *const keys = memory, *const values = memory + kTile * kDim;
  const int head = blockIdx.y, row = blockIdx.x * kTile + threadIdx.x;
  const size_t base = (size_t)head * kLength * kDim;
  float query[kDim], sum_of[kDim] = {}, most = -INFINITY, sum = 0;
  for (int d = 0; d < kDim; ++d) query[d] = q[base + row * kDim + d] * scale;
  for (int tile = 0; tile <= blockIdx.x; ++tile) {
    const int key_row = tile * kTile + threadIdx.x;
    for (int d = 0; d < kDim; ++d) {
      keys[threadIdx.x * kDim + d] = k[base + key_row * kDim + d];
      values[threadIdx.x * kDim + d] = v[base + key_row * kDim + d];
    }
    __syncthreads();
    for (int j = 0; j < kTile && tile * kTile + j <= row; ++j) {
      float score = 0;
      for (int d = 0; d < kDim; ++d) score += query[d] * keys[j * kDim + d];
      const float risen = fmaxf(most, score), shrink = expf(most - risen);
      const float weight = expf(score - risen);
      sum = sum * shrink + weight;
      for (int d = 0; d < kDim; ++d) {
        sum_of[d] = sum_of[d] * shrink + weight * values[j * kDim + d];
      }
      most = risen;
    }
    __syncthreads();
  }
  for (int d = 0; d < kDim; ++d) out[base + row * kDim + d] = sum_of[d] / sum;
}

int main() {
  constexpr int kCount = kHeads * kLength * kDim;
  float *q, *k, *v, *out;
  for (float** one : {&q, &k, &v, &out}) CHECK(cudaMallocManaged(one, kCount * sizeof(float)));
  for (int i = 0; i < kCount; ++i) q[i] = sinf(i), k[i] = cosf(2 * i), v[i] = sinf(0.3f * i);
  const float scale = 1 / sqrtf(kDim);
  CHECK(cudaFuncSetAttribute(attend, cudaFuncAttributeMaxDynamicSharedMemorySize, 64 * 1024));
  attend<<<dim3(kLength / kTile, kHeads), kTile, 2 * kTile * kDim * sizeof(float)>>>(q, k, v, out,
                                                                                     scale);
  CHECK(cudaDeviceSynchronize());
  for (int row = 0; row < kHeads * kLength; ++row) {
    const int begin = row / kLength * kLength;
    std::vector<double> expected(kDim);
    double sum = 0;
    for (int j = begin; j <= row; ++j) {
      double score = 0;
      for (int d = 0; d < kDim; ++d) score += q[row * kDim + d] * k[j * kDim + d];
      const double weight = exp(score * scale);
      sum += weight;
      for (int d = 0; d < kDim; ++d) expected[d] += weight * v[j * kDim + d];
    }
    for (int d = 0; d < kDim; ++d) EXPECT(fabs(out[row * kDim + d] - expected[d] / sum) < 1e-4);
  }
  return verdict("flash_attention");
}
