// SPDX-License-Identifier: Apache-2.0
//
// Pi by points thrown at a square: cuRAND's states set up by one kernel and used by another.
#include <curand_kernel.h>
#include <math.h>

#include "tests/cuda_programs/check.h"

constexpr int kThreads = 128, kBlocks = 4, kPoints = 400;

__global__ void set_up(curandState* states, unsigned long long seed) {
  const int id = blockIdx.x * blockDim.x + threadIdx.x;
  curand_init(seed, id, 0, &states[id]);
}

__global__ void throw_points(curandState* states, unsigned long long* inside) {
  const int id = blockIdx.x * blockDim.x + threadIdx.x;
  curandState mine = states[id];
  unsigned count = 0;
  for (int i = 0; i < kPoints; ++i) {
    const float x = curand_uniform(&mine), y = curand_uniform(&mine);
    count += x * x + y * y <= 1;
  }
  states[id] = mine;
  atomicAdd(inside, (unsigned long long)count);
}

int main() {
  curandState* states;
  unsigned long long* inside;
  CHECK(cudaMalloc(&states, kThreads * kBlocks * sizeof(curandState)));
  CHECK(cudaMallocManaged(&inside, sizeof *inside));
  *inside = 0;
  set_up<<<kBlocks, kThreads>>>(states, 2024);
  throw_points<<<kBlocks, kThreads>>>(states, inside);
  throw_points<<<kBlocks, kThreads>>>(states, inside);
  CHECK(cudaDeviceSynchronize());
  const double pi = 4.0 * *inside / (2.0 * kThreads * kBlocks * kPoints);
  EXPECT(fabs(pi - 3.14159265) < 0.01);
  return verdict("monte_carlo_pi");
}
