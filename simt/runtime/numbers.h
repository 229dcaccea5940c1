// SPDX-License-Identifier: Apache-2.0
//
// CUDA's functions of numbers that C++ has not: min and max, integer and bit intrinsics, fast math.
// Fast math is exact here: results may differ from a GPU's in the last places.
#pragma once

#include <math.h>

#include <bit>
#include <cmath>
#include <cstdint>
#include <type_traits>

#include "simt/runtime/conversions.h"

// ---- min and max: of one type, and of a signed and an unsigned one, which meet as unsigned

#define PEAL_SIMT_MIN_MAX(LEFT, RIGHT, TYPE)                              \
  constexpr TYPE min(LEFT left, RIGHT right) {                            \
    const auto a = static_cast<TYPE>(left), b = static_cast<TYPE>(right); \
    return a < b ? a : b;                                                 \
  }                                                                       \
  constexpr TYPE max(LEFT left, RIGHT right) {                            \
    const auto a = static_cast<TYPE>(left), b = static_cast<TYPE>(right); \
    return a < b ? b : a;                                                 \
  }
#define PEAL_SIMT_MIN_MAX_INTEGERS(TYPE)                         \
  PEAL_SIMT_MIN_MAX(TYPE, TYPE, TYPE)                            \
  PEAL_SIMT_MIN_MAX(unsigned TYPE, unsigned TYPE, unsigned TYPE) \
  PEAL_SIMT_MIN_MAX(TYPE, unsigned TYPE, unsigned TYPE)          \
  PEAL_SIMT_MIN_MAX(unsigned TYPE, TYPE, unsigned TYPE)
PEAL_SIMT_MIN_MAX_INTEGERS(int)
PEAL_SIMT_MIN_MAX_INTEGERS(long)
PEAL_SIMT_MIN_MAX_INTEGERS(long long)
#undef PEAL_SIMT_MIN_MAX_INTEGERS
#undef PEAL_SIMT_MIN_MAX

// As fmin and fmax: of a number and a NaN the number.
#define PEAL_SIMT_MIN_MAX_REALS(LEFT, RIGHT, TYPE)                                       \
  inline TYPE min(LEFT left, RIGHT right) { return std::fmin(TYPE{left}, TYPE{right}); } \
  inline TYPE max(LEFT left, RIGHT right) { return std::fmax(TYPE{left}, TYPE{right}); }
PEAL_SIMT_MIN_MAX_REALS(float, float, float)
PEAL_SIMT_MIN_MAX_REALS(double, double, double)
PEAL_SIMT_MIN_MAX_REALS(float, double, double)
PEAL_SIMT_MIN_MAX_REALS(double, float, double)
#undef PEAL_SIMT_MIN_MAX_REALS

inline unsigned umin(unsigned a, unsigned b) { return min(a, b); }
inline unsigned umax(unsigned a, unsigned b) { return max(a, b); }

// ---- integers

inline int __mul24(int a, int b) {
  const auto low = [](int x) { return static_cast<int64_t>(static_cast<int>(x << 8) >> 8); };
  return static_cast<int>(low(a) * low(b));
}
inline unsigned __umul24(unsigned a, unsigned b) { return (a & 0xffffff) * (b & 0xffffff); }
inline int __mulhi(int a, int b) { return static_cast<int>(int64_t{a} * b >> 32); }
inline unsigned __umulhi(unsigned a, unsigned b) {
  return static_cast<unsigned>(uint64_t{a} * b >> 32);
}
inline long long __mul64hi(long long a, long long b) {
  return static_cast<long long>(static_cast<__int128>(a) * b >> 64);
}
inline unsigned long long __umul64hi(unsigned long long a, unsigned long long b) {
  return static_cast<unsigned long long>(static_cast<unsigned __int128>(a) * b >> 64);
}
/// The mean, rounded down; rounded up.
inline int __hadd(int a, int b) { return static_cast<int>((int64_t{a} + b) >> 1); }
inline int __rhadd(int a, int b) { return static_cast<int>((int64_t{a} + b + 1) >> 1); }
inline unsigned __uhadd(unsigned a, unsigned b) {
  return static_cast<unsigned>((uint64_t{a} + b) >> 1);
}
inline unsigned __urhadd(unsigned a, unsigned b) {
  return static_cast<unsigned>((uint64_t{a} + b + 1) >> 1);
}
/// c + |a - b|
inline unsigned __sad(int a, int b, unsigned c) {
  return c + static_cast<unsigned>(a < b ? int64_t{b} - a : int64_t{a} - b);
}
inline unsigned __usad(unsigned a, unsigned b, unsigned c) { return c + (a < b ? b - a : a - b); }

// ---- bits

inline unsigned long long __brevll(unsigned long long x) {
  unsigned long long result = 0;
  for (int i = 0; i < 64; ++i) result |= (x >> i & 1) << (63 - i);
  return result;
}
inline unsigned __brev(unsigned x) { return static_cast<unsigned>(__brevll(x) >> 32); }

/// Byte i of the result is byte (selector >> 4 i) & 7 of `high:low`.
inline unsigned __byte_perm(unsigned low, unsigned high, unsigned selector) {
  const uint64_t bytes = uint64_t{high} << 32 | low;
  unsigned result = 0;
  for (unsigned i = 0; i < 4; ++i) {
    const unsigned from = selector >> (4 * i) & 7;
    result |= (static_cast<unsigned>(bytes >> (8 * from)) & 0xff) << (8 * i);
  }
  return result;
}

/// 32 bits of `high:low`, shifted; the shift counts modulo 32, in _lc and _rc at most 32.
inline unsigned __funnelshift_l(unsigned low, unsigned high, unsigned shift) {
  return static_cast<unsigned>((uint64_t{high} << 32 | low) << (shift & 31) >> 32);
}
inline unsigned __funnelshift_r(unsigned low, unsigned high, unsigned shift) {
  return static_cast<unsigned>((uint64_t{high} << 32 | low) >> (shift & 31));
}
inline unsigned __funnelshift_lc(unsigned low, unsigned high, unsigned shift) {
  return shift >= 32 ? low : __funnelshift_l(low, high, shift);
}
inline unsigned __funnelshift_rc(unsigned low, unsigned high, unsigned shift) {
  return shift >= 32 ? high : __funnelshift_r(low, high, shift);
}

// ---- reals

// Templates, because later C libraries have functions of these names: those are preferred.
#define PEAL_SIMT_REAL_FUNCTION(NAME, EXPRESSION)                                                \
  template <class T>                                                                             \
  requires std::is_arithmetic_v<T>                                                               \
  auto NAME(T value) {                                                                           \
    const auto x = static_cast<double>(value);                                                   \
    return static_cast<std::conditional_t<std::is_same_v<T, float>, float, double>>(EXPRESSION); \
  }                                                                                              \
  template <class T>                                                                             \
  requires std::is_arithmetic_v<T>                                                               \
  float NAME##f(T value) { return NAME(static_cast<float>(value)); }
PEAL_SIMT_REAL_FUNCTION(rsqrt, 1.0 / std::sqrt(x))
PEAL_SIMT_REAL_FUNCTION(rcbrt, 1.0 / std::cbrt(x))
PEAL_SIMT_REAL_FUNCTION(sinpi, std::sin(std::fmod(x, 2.0) * M_PI))
PEAL_SIMT_REAL_FUNCTION(cospi, std::cos(std::fmod(x, 2.0) * M_PI))
#undef PEAL_SIMT_REAL_FUNCTION
inline float fdividef(float a, float b) { return a / b; }

inline float __sinf(float x) { return std::sin(x); }
inline float __cosf(float x) { return std::cos(x); }
inline float __tanf(float x) { return std::tan(x); }
inline void __sincosf(float x, float* sine, float* cosine) {
  *sine = std::sin(x);
  *cosine = std::cos(x);
}
inline float __expf(float x) { return std::exp(x); }
inline float __exp10f(float x) { return std::pow(10.0F, x); }
inline float __logf(float x) { return std::log(x); }
inline float __log2f(float x) { return std::log2(x); }
inline float __log10f(float x) { return std::log10(x); }
inline float __powf(float x, float y) { return std::pow(x, y); }
inline float __fdividef(float a, float b) { return a / b; }
/// To [0, 1]; of a NaN 0.
inline float __saturatef(float x) { return std::fmin(std::fmax(x, 0.0F), 1.0F); }

inline float __fadd_rn(float a, float b) { return a + b; }
inline float __fsub_rn(float a, float b) { return a - b; }
inline float __fmul_rn(float a, float b) { return a * b; }
inline float __fdiv_rn(float a, float b) { return a / b; }
inline float __fmaf_rn(float a, float b, float c) { return std::fma(a, b, c); }
inline float __frcp_rn(float x) { return 1.0F / x; }
inline float __fsqrt_rn(float x) { return std::sqrt(x); }
inline float __frsqrt_rn(float x) { return static_cast<float>(1.0 / std::sqrt(double{x})); }
inline double __dadd_rn(double a, double b) { return a + b; }
inline double __dsub_rn(double a, double b) { return a - b; }
inline double __dmul_rn(double a, double b) { return a * b; }
inline double __ddiv_rn(double a, double b) { return a / b; }
inline double __fma_rn(double a, double b, double c) { return std::fma(a, b, c); }
inline double __drcp_rn(double x) { return 1.0 / x; }
inline double __dsqrt_rn(double x) { return std::sqrt(x); }
