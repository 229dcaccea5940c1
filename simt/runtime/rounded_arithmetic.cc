// SPDX-License-Identifier: Apache-2.0
#include "simt/runtime/rounded_arithmetic.h"

#include <cfenv>
#include <cmath>

namespace peal::simt::cuda {
namespace {

int mode_of(Round round) {
  switch (round) {
    case Round::kNearest:
      return FE_TONEAREST;
    case Round::kZero:
      return FE_TOWARDZERO;
    case Round::kDown:
      return FE_DOWNWARD;
    case Round::kUp:
      return FE_UPWARD;
  }
  return FE_TONEAREST;
}

// The compiler does not know of rounding modes: what is volatile it computes here and now.
template <class Real>
Real compute(Round round, Arithmetic what, Real first, Real second, Real third) {
  volatile Real a = first, b = second, c = third, result = 0;
  const int before = std::fegetround();
  std::fesetround(mode_of(round));
  switch (what) {
    case Arithmetic::kAdd:
      result = a + b;
      break;
    case Arithmetic::kSubtract:
      result = a - b;
      break;
    case Arithmetic::kMultiply:
      result = a * b;
      break;
    case Arithmetic::kDivide:
      result = a / b;
      break;
    case Arithmetic::kRoot:
      result = std::sqrt(Real{a});
      break;
    case Arithmetic::kFused:
      result = std::fma(Real{a}, Real{b}, Real{c});
      break;
  }
  std::fesetround(before);
  return result;
}

}  // namespace

float compute_rounded(Round round, Arithmetic what, float a, float b, float c) {
  return compute(round, what, a, b, c);
}
double compute_rounded(Round round, Arithmetic what, double a, double b, double c) {
  return compute(round, what, a, b, c);
}

}  // namespace peal::simt::cuda
