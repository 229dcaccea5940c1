// SPDX-License-Identifier: Apache-2.0
//
// Arithmetic with each rounding: a result down and a result up enclose what is exact, next to each
// other, and the one towards zero is one of them.
#include <math.h>

#include "tests/cuda_programs/check.h"

#define TRY(FUNCTION, NEXT, ...)                                                                 \
  do {                                                                                           \
    const auto down = FUNCTION##_rd(__VA_ARGS__), up = FUNCTION##_ru(__VA_ARGS__);               \
    const auto zero = FUNCTION##_rz(__VA_ARGS__), near = FUNCTION##_rn(__VA_ARGS__);             \
    const bool right = NEXT(down, up) == up && zero == (down < 0 ? up : down) && down <= near && \
                       near <= up && down < up;                                                  \
    if (!right) printf("%s: %a %a %a %a\n", #FUNCTION, down, near, up, zero), ++*wrong;          \
  } while (0)

__global__ void enclose(int* wrong) {
  const float third = 1.0f / 3, tiny = 0x1p-40f;
  TRY(__fadd, nextafterf, 1.0f, tiny);
  TRY(__fsub, nextafterf, -1.0f, tiny);
  TRY(__fmul, nextafterf, third, -third);
  TRY(__fdiv, nextafterf, 1.0f, -3.0f);
  TRY(__frcp, nextafterf, 3.0f);
  TRY(__fsqrt, nextafterf, 2.0f);
  TRY(__fmaf, nextafterf, third, third, 1.0f);
  const double small = 0x1p-80, seventh = 1.0 / 7;
  TRY(__dadd, nextafter, 1.0, small);
  TRY(__dsub, nextafter, -1.0, small);
  TRY(__dmul, nextafter, seventh, -seventh);
  TRY(__ddiv, nextafter, 1.0, -7.0);
  TRY(__drcp, nextafter, 7.0);
  TRY(__dsqrt, nextafter, 3.0);
  TRY(__fma, nextafter, seventh, seventh, 1.0);
  if (__fadd_ru(1, 2) != 3 || __dmul_rd(0.5, 4) != 2) ++*wrong;  // exact ones stay
  if (__dadd_rd(0.1, 0.2) != 0x1.3333333333333p-2) ++*wrong;
}

int main() {
  int* wrong;
  CHECK(cudaMallocManaged(&wrong, sizeof(int)));
  *wrong = 0;
  enclose<<<1, 1>>>(wrong);
  CHECK(cudaDeviceSynchronize());
  EXPECT(*wrong == 0);
  return verdict("rounding");
}
