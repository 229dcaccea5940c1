// SPDX-License-Identifier: Apache-2.0
//
// CUDA's conversions between numbers, with the rounding in their names: _rn to the nearest (ties to
// even), _rz towards zero, _rd down, _ru up; and the same bits as another type.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <type_traits>

namespace peal::simt::cuda {

enum class Round { kNearest, kZero, kDown, kUp };

template <Round kRound, class Real>
Real to_whole(Real value) {
  switch (kRound) {
    case Round::kNearest:
      return std::nearbyint(value);
    case Round::kZero:
      return std::trunc(value);
    case Round::kDown:
      return std::floor(value);
    case Round::kUp:
      return std::ceil(value);
  }
  return value;
}

/// What does not fit becomes the nearest that does. A NaN: 0, or the highest bit alone where source
/// or result has 64 bits.
template <class Integer, Round kRound, class Real>
Integer to_integer(Real value) {
  using Limits = std::numeric_limits<Integer>;
  constexpr bool kWide = sizeof(Integer) == 8 || sizeof(Real) == 8;
  if (std::isnan(value)) {
    return kWide ? static_cast<Integer>(uint64_t{1} << (8 * sizeof(Integer) - 1)) : Integer{0};
  }
  const Real whole = to_whole<kRound>(value);
  // One beyond the largest is a power of two, so it is exact.
  const Real beyond = std::ldexp(Real{1}, Limits::digits);
  if (whole >= beyond) return Limits::max();
  if (whole < static_cast<Real>(Limits::min())) return Limits::min();
  return static_cast<Integer>(whole);
}

/// The nearest Real, or the next one in the direction of kRound.
template <class Real, Round kRound, class Number>
Real to_real(Number value) {
  const Real near = static_cast<Real>(value);
  const long double exact = static_cast<long double>(value);  // 64 bits of mantissa, or more
  const bool above = static_cast<long double>(near) > exact;
  const bool below = static_cast<long double>(near) < exact;
  constexpr Real kInfinity = std::numeric_limits<Real>::infinity();
  const bool down = kRound == Round::kDown || (kRound == Round::kZero && exact > 0);
  const bool up = kRound == Round::kUp || (kRound == Round::kZero && exact < 0);
  if (above && down) return std::nextafter(near, -kInfinity);
  if (below && up) return std::nextafter(near, kInfinity);
  return near;
}

}  // namespace peal::simt::cuda

#define PEAL_SIMT_ROUNDINGS(X, A, B, C) \
  X(A, B, C, rn, kNearest) X(A, B, C, rz, kZero) X(A, B, C, rd, kDown) X(A, B, C, ru, kUp)

// REAL to INTEGER and back: __float2int_rn(), __int2float_rn(), ...
#define PEAL_SIMT_TO_INTEGER(REAL, INTEGER, NAME, SUFFIX, ROUND)                         \
  inline INTEGER __##REAL##2##NAME##_##SUFFIX(REAL value) {                              \
    return peal::simt::cuda::to_integer<INTEGER, peal::simt::cuda::Round::ROUND>(value); \
  }                                                                                      \
  inline REAL __##NAME##2##REAL##_##SUFFIX(INTEGER value) {                              \
    return peal::simt::cuda::to_real<REAL, peal::simt::cuda::Round::ROUND>(value);       \
  }
PEAL_SIMT_ROUNDINGS(PEAL_SIMT_TO_INTEGER, float, int, int)
PEAL_SIMT_ROUNDINGS(PEAL_SIMT_TO_INTEGER, float, unsigned, uint)
PEAL_SIMT_ROUNDINGS(PEAL_SIMT_TO_INTEGER, float, long long, ll)
PEAL_SIMT_ROUNDINGS(PEAL_SIMT_TO_INTEGER, float, unsigned long long, ull)
PEAL_SIMT_ROUNDINGS(PEAL_SIMT_TO_INTEGER, double, int, int)
PEAL_SIMT_ROUNDINGS(PEAL_SIMT_TO_INTEGER, double, unsigned, uint)
PEAL_SIMT_ROUNDINGS(PEAL_SIMT_TO_INTEGER, double, long long, ll)
PEAL_SIMT_ROUNDINGS(PEAL_SIMT_TO_INTEGER, double, unsigned long long, ull)
#undef PEAL_SIMT_TO_INTEGER

#define PEAL_SIMT_NARROW(FROM, TO, NAME, SUFFIX, ROUND)                          \
  inline TO __##FROM##2##NAME##_##SUFFIX(FROM value) {                           \
    return peal::simt::cuda::to_real<TO, peal::simt::cuda::Round::ROUND>(value); \
  }
PEAL_SIMT_ROUNDINGS(PEAL_SIMT_NARROW, double, float, float)
#undef PEAL_SIMT_NARROW
#undef PEAL_SIMT_ROUNDINGS

inline int __float_as_int(float value) { return std::bit_cast<int>(value); }
inline unsigned __float_as_uint(float value) { return std::bit_cast<unsigned>(value); }
inline float __int_as_float(int bits) { return std::bit_cast<float>(bits); }
inline float __uint_as_float(unsigned bits) { return std::bit_cast<float>(bits); }
inline long long __double_as_longlong(double value) { return std::bit_cast<long long>(value); }
inline double __longlong_as_double(long long bits) { return std::bit_cast<double>(bits); }
inline int __double2hiint(double value) {
  return static_cast<int>(__double_as_longlong(value) >> 32);
}
inline int __double2loint(double value) { return static_cast<int>(__double_as_longlong(value)); }
inline double __hiloint2double(int high, int low) {
  return std::bit_cast<double>(static_cast<uint64_t>(static_cast<unsigned>(high)) << 32 |
                               static_cast<unsigned>(low));
}
