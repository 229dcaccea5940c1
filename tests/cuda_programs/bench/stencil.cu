// SPDX-License-Identifier: Apache-2.0
//
// Heat in a plate: five points a step with halos in shared memory, until little changes.
#include <math.h>

#include <utility>
#include <vector>

#include "tests/cuda_programs/check.h"

constexpr int kSize = 34, kTile = 8;

__global__ void relax(const float* in, float* out, float* change) {
  __shared__ float tile[kTile + 2][kTile + 2];
  const int x = blockIdx.x * kTile + threadIdx.x + 1, y = blockIdx.y * kTile + threadIdx.y + 1;
  const int i = threadIdx.x + 1, j = threadIdx.y + 1;
  tile[j][i] = in[y * kSize + x];
  if (i == 1) tile[j][0] = in[y * kSize + x - 1];
  if (i == kTile) tile[j][kTile + 1] = in[y * kSize + x + 1];
  if (j == 1) tile[0][i] = in[(y - 1) * kSize + x];
  if (j == kTile) tile[kTile + 1][i] = in[(y + 1) * kSize + x];
  __syncthreads();
  const float next = 0.25f * (tile[j][i - 1] + tile[j][i + 1] + tile[j - 1][i] + tile[j + 1][i]);
  out[y * kSize + x] = next;
  const int bits = __float_as_int(fabsf(next - tile[j][i]));
  atomicMax(reinterpret_cast<int*>(change), bits);  // of floats that are not negative
}

int main() {
  float *in, *out, *change;
  CHECK(cudaMallocManaged(&in, kSize * kSize * sizeof(float)));
  CHECK(cudaMallocManaged(&out, kSize * kSize * sizeof(float)));
  CHECK(cudaMallocManaged(&change, sizeof(float)));
  for (int i = 0; i < kSize * kSize; ++i) in[i] = out[i] = i < kSize ? 100.0f : 0.0f;
  std::vector<float> mine(in, in + kSize * kSize), next = mine;
  int steps = 0;
  do {
    *change = 0;
    relax<<<dim3(4, 4), dim3(kTile, kTile)>>>(in, out, change);
    CHECK(cudaDeviceSynchronize());
    std::swap(in, out);
    ++steps;
  } while (*change > 0.5f && steps < 200);
  for (int s = 0; s < steps; ++s, mine.swap(next)) {
    for (int y = 1; y + 1 < kSize; ++y) {
      for (int x = 1; x + 1 < kSize; ++x) {
        const int at = y * kSize + x;
        next[at] = 0.25f * (mine[at - 1] + mine[at + 1] + mine[at - kSize] + mine[at + kSize]);
      }
    }
  }
  EXPECT(steps > 5 && steps < 200);
  for (int i = 0; i < kSize * kSize; ++i) EXPECT(fabsf(in[i] - mine[i]) < 1e-4f);
  return verdict("stencil");
}
