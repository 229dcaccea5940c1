// SPDX-License-Identifier: Apache-2.0
//
// A transposition by tiles with a column to spare, so that columns do not share banks.
#include "tests/cuda_programs/check.h"

constexpr int kTile = 32, kRows = 8, kWidth = 70, kHeight = 45;

__global__ void transpose(const int* in, int* out, int width, int height) {
  __shared__ int tile[kTile][kTile + 1];
  int x = blockIdx.x * kTile + threadIdx.x, y = blockIdx.y * kTile + threadIdx.y;
  for (int j = 0; j < kTile; j += kRows) {
    if (x < width && y + j < height) tile[threadIdx.y + j][threadIdx.x] = in[(y + j) * width + x];
  }
  __syncthreads();
  x = blockIdx.y * kTile + threadIdx.x;
  y = blockIdx.x * kTile + threadIdx.y;
  for (int j = 0; j < kTile; j += kRows) {
    if (x < height && y + j < width) out[(y + j) * height + x] = tile[threadIdx.x][threadIdx.y + j];
  }
}

int main() {
  int *in, *out;
  CHECK(cudaMallocManaged(&in, kWidth * kHeight * sizeof(int)));
  CHECK(cudaMallocManaged(&out, kWidth * kHeight * sizeof(int)));
  for (int i = 0; i < kWidth * kHeight; ++i) in[i] = i;
  const dim3 blocks((kWidth + kTile - 1) / kTile, (kHeight + kTile - 1) / kTile);
  transpose<<<blocks, dim3(kTile, kRows)>>>(in, out, kWidth, kHeight);
  CHECK(cudaDeviceSynchronize());
  for (int y = 0; y < kHeight; ++y) {
    for (int x = 0; x < kWidth; ++x) EXPECT(out[x * kHeight + y] == y * kWidth + x);
  }
  return verdict("transposition");
}
