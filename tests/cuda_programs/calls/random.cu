// SPDX-License-Identifier: Apache-2.0
//
// curand_kernel.h: Philox's published vectors, numbers that cuRAND draws, what skipping skips, and
// that normal numbers are normal.
#include <curand_kernel.h>
#include <math.h>

#include "tests/cuda_programs/check.h"

struct Drawn {
  unsigned philox[4], many[4], xorwow[4], far[2], skipped[2];
  float uniform;
  double uniform_double;
};

__global__ void draw(Drawn* to) {
  curandStatePhilox4_32_10_t philox;
  curand_init(0, 0, 0, &philox);
  for (unsigned& one : to->philox) one = curand(&philox);
  curand_init(0xdeadbeefcafebabeull, 5, 3, &philox);
  const uint4 four = curand4(&philox);
  to->many[0] = four.x, to->many[1] = four.y, to->many[2] = four.z, to->many[3] = four.w;

  curandState_t xorwow;
  curand_init(0, 0, 0, &xorwow);
  for (unsigned& one : to->xorwow) one = curand(&xorwow);
  to->uniform = curand_uniform(&xorwow);
  to->uniform_double = curand_uniform_double(&xorwow);
  curand_init(1234, 77777, 1000003, &xorwow);
  for (unsigned& one : to->far) one = curand(&xorwow);
  curand_init(1234, 70000, 3, &xorwow);
  skipahead_sequence(7777, &xorwow);
  skipahead(1000000, &xorwow);
  for (unsigned& one : to->skipped) one = curand(&xorwow);
}

template <class State>
__global__ void moments(double* sums) {
  State state;
  curand_init(42, threadIdx.x, 0, &state);
  double mean = 0, square = 0, uniform = 0;
  for (int i = 0; i < 1000; ++i) {
    const double x = i % 2 ? curand_normal(&state) : curand_normal_double(&state);
    mean += x;
    square += x * x;
    uniform += curand_uniform(&state);
  }
  atomicAdd(&sums[0], mean);
  atomicAdd(&sums[1], square);
  atomicAdd(&sums[2], uniform);
}

template <class State>
void expect_moments() {
  double* sums;
  CHECK(cudaMallocManaged(&sums, 3 * sizeof(double)));
  sums[0] = sums[1] = sums[2] = 0;
  moments<State><<<1, 32>>>(sums);
  CHECK(cudaDeviceSynchronize());
  EXPECT(fabs(sums[0] / 32000) < 0.02 && fabs(sums[1] / 32000 - 1) < 0.03);
  EXPECT(fabs(sums[2] / 32000 - 0.5) < 0.01);
  CHECK(cudaFree(sums));
}

int main() {
  Drawn* drawn;
  CHECK(cudaMallocManaged(&drawn, sizeof *drawn));
  draw<<<1, 1>>>(drawn);
  CHECK(cudaDeviceSynchronize());
  const unsigned philox[] = {0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8};  // Random123's
  const unsigned xorwow[] = {0xbd7f03b6, 0x703e556d, 0x845af0c5, 0x283067fd};
  for (int i = 0; i < 4; ++i) EXPECT(drawn->philox[i] == philox[i]);
  for (int i = 0; i < 4; ++i) EXPECT(drawn->xorwow[i] == xorwow[i]);
  EXPECT(fabs(drawn->uniform - 0x1245241f * 0x1p-32) < 1e-8);
  EXPECT(drawn->uniform_double > 0 && drawn->uniform_double <= 1);
  EXPECT(drawn->far[0] == drawn->skipped[0] && drawn->far[1] == drawn->skipped[1]);
  const unsigned many[] = {0x5e995274, 0x649bf03e, 0x49c32e2f, 0xab747313};
  const unsigned far[] = {0x90da9021, 0xdcffd80d};
  for (int i = 0; i < 4; ++i) EXPECT(drawn->many[i] == many[i]);
  for (int i = 0; i < 2; ++i) EXPECT(drawn->far[i] == far[i]);
  expect_moments<curandStatePhilox4_32_10_t>();
  expect_moments<curandStateXORWOW_t>();
  return verdict("random");
}
