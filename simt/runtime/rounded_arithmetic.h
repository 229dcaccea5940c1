// SPDX-License-Identifier: Apache-2.0
//
// CUDA's arithmetic with another rounding than to the nearest: _rz towards zero, _rd down, _ru up.
//
// Every CUDA program reads this file: one function computes all of them.
#pragma once

#include "simt/runtime/conversions.h"

namespace peal::simt::cuda {

enum class Arithmetic { kAdd, kSubtract, kMultiply, kDivide, kRoot, kFused };

/// a + b and the like, the root of a, a * b + c, rounded once.
float compute_rounded(Round round, Arithmetic what, float a, float b, float c = 0);
double compute_rounded(Round round, Arithmetic what, double a, double b, double c = 0);

}  // namespace peal::simt::cuda

// Names of REAL begin with F; F2 is the whole name of the fused multiplication and addition.
#define PEAL_SIMT_ROUNDED_ONE(NAME, REAL, SUFFIX, ROUND, WHAT)    \
  inline REAL __##NAME##_##SUFFIX(REAL a, REAL b) {               \
    using namespace peal::simt::cuda;                             \
    return compute_rounded(Round::ROUND, Arithmetic::WHAT, a, b); \
  }
#define PEAL_SIMT_ROUNDED_REAL(F, F2, REAL, SUFFIX, ROUND)                      \
  PEAL_SIMT_ROUNDED_ONE(F##add, REAL, SUFFIX, ROUND, kAdd)                      \
  PEAL_SIMT_ROUNDED_ONE(F##sub, REAL, SUFFIX, ROUND, kSubtract)                 \
  PEAL_SIMT_ROUNDED_ONE(F##mul, REAL, SUFFIX, ROUND, kMultiply)                 \
  PEAL_SIMT_ROUNDED_ONE(F##div, REAL, SUFFIX, ROUND, kDivide)                   \
  inline REAL __##F##rcp_##SUFFIX(REAL a) { return __##F##div_##SUFFIX(1, a); } \
  inline REAL __##F##sqrt_##SUFFIX(REAL a) {                                    \
    using namespace peal::simt::cuda;                                           \
    return compute_rounded(Round::ROUND, Arithmetic::kRoot, a, REAL{0});        \
  }                                                                             \
  inline REAL __##F2##_##SUFFIX(REAL a, REAL b, REAL c) {                       \
    using namespace peal::simt::cuda;                                           \
    return compute_rounded(Round::ROUND, Arithmetic::kFused, a, b, c);          \
  }
#define PEAL_SIMT_ROUNDED(SUFFIX, ROUND)                \
  PEAL_SIMT_ROUNDED_REAL(f, fmaf, float, SUFFIX, ROUND) \
  PEAL_SIMT_ROUNDED_REAL(d, fma, double, SUFFIX, ROUND)
PEAL_SIMT_ROUNDED(rz, kZero)
PEAL_SIMT_ROUNDED(rd, kDown)
PEAL_SIMT_ROUNDED(ru, kUp)
#undef PEAL_SIMT_ROUNDED
#undef PEAL_SIMT_ROUNDED_REAL
#undef PEAL_SIMT_ROUNDED_ONE
