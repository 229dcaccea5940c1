// SPDX-License-Identifier: Apache-2.0
//
// Prices of options by Black and Scholes, in single precision against double.
#include <math.h>

#include "tests/cuda_programs/check.h"

constexpr int kCount = 512;
constexpr float kRate = 0.02f, kVolatility = 0.3f;

__device__ float normal_cdf(float x) { return normcdff(x); }

__global__ void prices(const float* __restrict__ stock, const float* __restrict__ strike,
                       const float* __restrict__ years, float* call, float* put) {
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < kCount; i += blockDim.x * gridDim.x) {
    const float root = sqrtf(years[i]), spread = kVolatility * root;
    const float d1 =
        (__logf(stock[i] / strike[i]) + (kRate + 0.5f * kVolatility * kVolatility) * years[i]) /
        spread;
    const float discounted = strike[i] * __expf(-kRate * years[i]);
    const float up = normal_cdf(d1), low = normal_cdf(d1 - spread);
    call[i] = stock[i] * up - discounted * low;
    put[i] = discounted * (1 - low) - stock[i] * (1 - up);
  }
}

int main() {
  float *stock, *strike, *years, *call, *put;
  for (float** one : {&stock, &strike, &years, &call, &put}) {
    CHECK(cudaMallocManaged(one, kCount * sizeof(float)));
  }
  for (int i = 0; i < kCount; ++i) {
    stock[i] = 5 + i % 25, strike[i] = 1 + i % 30, years[i] = 0.25f + i % 10;
  }
  prices<<<4, 64>>>(stock, strike, years, call, put);
  CHECK(cudaDeviceSynchronize());
  const auto cdf = [](double x) { return 0.5 * erfc(-x / sqrt(2.0)); };
  for (int i = 0; i < kCount; ++i) {
    const double spread = kVolatility * sqrt(years[i]);
    const double d1 =
        (log(stock[i] / strike[i]) + (kRate + 0.5 * kVolatility * kVolatility) * years[i]) / spread;
    const double discounted = strike[i] * exp(-kRate * years[i]);
    const double expected = stock[i] * cdf(d1) - discounted * cdf(d1 - spread);
    EXPECT(fabs(call[i] - expected) < 1e-3);
    EXPECT(fabs(call[i] - put[i] - (stock[i] - discounted)) < 1e-3);
  }
  return verdict("black_scholes");
}
