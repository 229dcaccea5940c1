// SPDX-License-Identifier: Apache-2.0
//
// k-means in two dimensions: nearest centres, sums in shared memory by atomics, new centres.
#include <math.h>

#include <vector>

#include "tests/cuda_programs/check.h"

constexpr int kPoints = 600, kCentres = 4, kThreads = 64, kRounds = 6;

__host__ __device__ inline int nearest(float2 point, const float2* centres) {
  int best = 0;
  float least = 1e30f;
  for (int c = 0; c < kCentres; ++c) {
    const float x = point.x - centres[c].x, y = point.y - centres[c].y, far = x * x + y * y;
    if (far < least) least = far, best = c;
  }
  return best;
}

__global__ void assign(const float2* points, const float2* centres, int* owner, float* sums) {
  __shared__ float mine[kCentres * 3];
  if (threadIdx.x < kCentres * 3) mine[threadIdx.x] = 0;
  __syncthreads();
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < kPoints) {
    const int c = owner[i] = nearest(points[i], centres);
    atomicAdd(&mine[3 * c], points[i].x);
    atomicAdd(&mine[3 * c + 1], points[i].y);
    atomicAdd(&mine[3 * c + 2], 1.0f);
  }
  __syncthreads();
  if (threadIdx.x < kCentres * 3) atomicAdd(&sums[threadIdx.x], mine[threadIdx.x]);
}

__global__ void move(float2* centres, float* sums) {
  float* const own = sums + 3 * threadIdx.x;
  if (own[2] > 0) centres[threadIdx.x] = make_float2(own[0] / own[2], own[1] / own[2]);
  own[0] = own[1] = own[2] = 0;
}

int main() {
  float2 *points, *centres;
  int* owner;
  float* sums;
  CHECK(cudaMallocManaged(&points, kPoints * sizeof(float2)));
  CHECK(cudaMallocManaged(&centres, kCentres * sizeof(float2)));
  CHECK(cudaMallocManaged(&owner, kPoints * sizeof(int)));
  CHECK(cudaMalloc(&sums, 3 * kCentres * sizeof(float)));
  CHECK(cudaMemset(sums, 0, 3 * kCentres * sizeof(float)));
  for (int i = 0; i < kPoints; ++i) {  // four clouds
    points[i] = make_float2(i % 2 * 10 + sinf(i), i / 2 % 2 * 10 + cosf(3.0f * i));
  }
  std::vector<float2> mine(kCentres);
  for (int c = 0; c < kCentres; ++c) mine[c] = centres[c] = make_float2(3.0f + 2 * c, 2.0f + 3 * c);
  for (int round = 0; round < kRounds; ++round) {
    assign<<<(kPoints + kThreads - 1) / kThreads, kThreads>>>(points, centres, owner, sums);
    move<<<1, kCentres>>>(centres, sums);
  }
  CHECK(cudaDeviceSynchronize());
  for (int round = 0; round < kRounds; ++round) {
    std::vector<float3> all(kCentres, make_float3(0, 0, 0));
    for (int i = 0; i < kPoints; ++i) {
      float3& own = all[nearest(points[i], mine.data())];
      own.x += points[i].x, own.y += points[i].y, own.z += 1;
    }
    for (int c = 0; c < kCentres; ++c) {
      if (all[c].z > 0) mine[c] = make_float2(all[c].x / all[c].z, all[c].y / all[c].z);
    }
  }
  for (int c = 0; c < kCentres; ++c) {
    EXPECT(fabsf(centres[c].x - mine[c].x) < 1e-3f && fabsf(centres[c].y - mine[c].y) < 1e-3f);
  }
  return verdict("k_means");
}
