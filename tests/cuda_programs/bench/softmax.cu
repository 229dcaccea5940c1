// SPDX-License-Identifier: Apache-2.0
//
// Softmax of rows: a warp for each short row, a block for each long one; maximum and sum in one
// pass, corrected whenever the maximum rises.
#include <math.h>

#include "tests/cuda_programs/check.h"

struct Running {
  float most, sum;
};

__device__ Running join(Running a, Running b) {
  const float most = fmaxf(a.most, b.most);
  return {most, a.sum * __expf(a.most - most) + b.sum * __expf(b.most - most)};
}

__device__ Running join_warp(Running mine) {
#pragma unroll
  for (int step = 16; step > 0; step >>= 1) {
    mine =
        join(mine, {__shfl_xor_sync(~0u, mine.most, step), __shfl_xor_sync(~0u, mine.sum, step)});
  }
  return mine;
}

__global__ void by_warp(const float* in, float* out, int rows, int columns) {
  const int row = blockIdx.x * (blockDim.x / 32) + threadIdx.x / 32, lane = threadIdx.x % 32;
  if (row >= rows) return;
  Running mine = {-1e30f, 0};
  for (int i = lane; i < columns; i += 32) mine = join(mine, {in[row * columns + i], 1});
  mine = join_warp(mine);
  for (int i = lane; i < columns; i += 32) {
    out[row * columns + i] = __expf(in[row * columns + i] - mine.most) / mine.sum;
  }
}

__global__ void by_block(const float* in, float* out, int columns) {
  __shared__ Running of_warps[32];
  const float* const row = in + blockIdx.x * columns;
  Running mine = {-1e30f, 0};
  for (int i = threadIdx.x; i < columns; i += blockDim.x) mine = join(mine, {row[i], 1});
  mine = join_warp(mine);
  if (threadIdx.x % 32 == 0) of_warps[threadIdx.x / 32] = mine;
  __syncthreads();
  mine = {-1e30f, 0};
  for (int w = 0; w < blockDim.x / 32; ++w) mine = join(mine, of_warps[w]);
  for (int i = threadIdx.x; i < columns; i += blockDim.x) {
    out[blockIdx.x * columns + i] = __expf(row[i] - mine.most) / mine.sum;
  }
}

void compare(const float* in, const float* out, int rows, int columns) {
  for (int r = 0; r < rows; ++r) {
    double sum = 0;
    for (int i = 0; i < columns; ++i) sum += exp(in[r * columns + i]);
    for (int i = 0; i < columns; ++i) {
      EXPECT(fabs(out[r * columns + i] - exp(in[r * columns + i]) / sum) < 1e-5);
    }
  }
}

int main() {
  constexpr int kRows = 9, kShort = 45, kLong = 300;
  float *in, *out;
  CHECK(cudaMallocManaged(&in, kRows * kLong * sizeof(float)));
  CHECK(cudaMallocManaged(&out, kRows * kLong * sizeof(float)));
  for (int i = 0; i < kRows * kLong; ++i) in[i] = (float)(i * 7919 % 1000) / 100 - 5;
  by_warp<<<3, 128>>>(in, out, kRows, kShort);
  CHECK(cudaDeviceSynchronize());
  compare(in, out, kRows, kShort);
  by_block<<<kRows, 64>>>(in, out, kLong);
  CHECK(cudaDeviceSynchronize());
  compare(in, out, kRows, kLong);
  return verdict("softmax");
}
