// SPDX-License-Identifier: Apache-2.0
//
// Bodies that attract each other: tiles of positions in shared memory, two buffers of positions.
#include <math.h>

#include <vector>

#include "tests/cuda_programs/check.h"

constexpr int kBodies = 96, kThreads = 32, kSteps = 3;
constexpr float kSoft = 0.01f, kStep = 0.01f;

__host__ __device__ inline float3 attract(float3 sum, float4 me, float4 other) {
  const float x = other.x - me.x, y = other.y - me.y, z = other.z - me.z;
  const float inverse = 1.0f / sqrtf(x * x + y * y + z * z + kSoft);
  const float by = other.w * inverse * inverse * inverse;
  return make_float3(sum.x + x * by, sum.y + y * by, sum.z + z * by);
}

__host__ __device__ inline void move(float4& place, float4& speed, float3 force) {
  speed.x += force.x * kStep, speed.y += force.y * kStep, speed.z += force.z * kStep;
  place.x += speed.x * kStep, place.y += speed.y * kStep, place.z += speed.z * kStep;
}

__global__ void step(const float4* places, float4* moved, float4* speeds) {
  extern __shared__ float4 tile[];
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  float4 me = places[i], speed = speeds[i];
  float3 force = make_float3(0, 0, 0);
  for (int first = 0; first < kBodies; first += blockDim.x) {
    tile[threadIdx.x] = places[first + threadIdx.x];
    __syncthreads();
    for (int j = 0; j < blockDim.x; ++j) force = attract(force, me, tile[j]);
    __syncthreads();
  }
  move(me, speed, force);
  moved[i] = me;
  speeds[i] = speed;
}

int main() {
  std::vector<float4> places(kBodies), speeds(kBodies, make_float4(0, 0, 0, 0));
  for (int i = 0; i < kBodies; ++i) {
    places[i] = make_float4(sinf(i), cosf(3.0f * i), sinf(0.5f * i), 1 + i % 3);
  }
  float4 *buffers[2], *moving;
  const size_t bytes = kBodies * sizeof(float4);
  for (float4*& buffer : buffers) CHECK(cudaMalloc(&buffer, bytes));
  CHECK(cudaMalloc(&moving, bytes));
  CHECK(cudaMemcpy(buffers[0], places.data(), bytes, cudaMemcpyHostToDevice));
  CHECK(cudaMemset(moving, 0, bytes));
  for (int s = 0; s < kSteps; ++s) {
    step<<<kBodies / kThreads, kThreads, kThreads * sizeof(float4)>>>(buffers[s % 2],
                                                                      buffers[1 - s % 2], moving);
    const std::vector<float4> before = places;
    for (int i = 0; i < kBodies; ++i) {
      float3 force = make_float3(0, 0, 0);
      for (const float4& other : before) force = attract(force, before[i], other);
      move(places[i], speeds[i], force);
    }
  }
  std::vector<float4> result(kBodies);
  CHECK(cudaMemcpy(result.data(), buffers[kSteps % 2], bytes, cudaMemcpyDeviceToHost));
  for (int i = 0; i < kBodies; ++i) {
    EXPECT(fabsf(result[i].x - places[i].x) < 1e-4f && fabsf(result[i].z - places[i].z) < 1e-4f);
  }
  return verdict("n_body");
}
