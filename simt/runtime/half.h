// SPDX-License-Identifier: Apache-2.0
//
// CUDA's names for reals of 16 bits: the types, conversions, and the intrinsics that programs use
// most. An intrinsic that is not here does not compile.
#pragma once

#include <cmath>

#include "simt/runtime/conversions.h"
#include "simt/runtime/cuda_names.h"
#include "simt/runtime/real16.h"
#include "simt/runtime/vectors.h"

using __half = peal::simt::cuda::Real16<peal::simt::cuda::Binary16>;
using __half2 = peal::simt::cuda::Pair16<peal::simt::cuda::Binary16>;
using __nv_bfloat16 = peal::simt::cuda::Real16<peal::simt::cuda::Brain16>;
using __nv_bfloat162 = peal::simt::cuda::Pair16<peal::simt::cuda::Brain16>;
using __half_raw = peal::simt::cuda::Raw16<peal::simt::cuda::Binary16>;
using __half2_raw = peal::simt::cuda::RawPair16<peal::simt::cuda::Binary16>;
using __nv_bfloat16_raw = peal::simt::cuda::Raw16<peal::simt::cuda::Brain16>;
using __nv_bfloat162_raw = peal::simt::cuda::RawPair16<peal::simt::cuda::Brain16>;
using half = __half;
using half2 = __half2;
using nv_bfloat16 = __nv_bfloat16;
using nv_bfloat162 = __nv_bfloat162;

// ---- conversions: TYPE, its PAIR, their names in CUDA's functions

#define PEAL_SIMT_REAL16_CONVERSIONS(TYPE, PAIR, NAME, NAME2)                               \
  inline TYPE __float2##NAME(float value) { return value; }                                 \
  inline TYPE __float2##NAME##_rn(float value) { return value; }                            \
  inline TYPE __double2##NAME(double value) { return value; }                               \
  inline TYPE __int2##NAME##_rn(int value) { return value; }                                \
  inline TYPE __uint2##NAME##_rn(unsigned value) { return value; }                          \
  inline float __##NAME##2float(TYPE value) { return value; }                               \
  inline int __##NAME##2int_rn(TYPE value) { return __float2int_rn(value); }                \
  inline int __##NAME##2int_rz(TYPE value) { return __float2int_rz(value); }                \
  inline unsigned short __##NAME##_as_ushort(TYPE value) { return value.bits(); }           \
  inline short __##NAME##_as_short(TYPE value) { return static_cast<short>(value.bits()); } \
  inline TYPE __ushort_as_##NAME(unsigned short bits) { return TYPE::from_bits(bits); }     \
  inline TYPE __short_as_##NAME(short bits) {                                               \
    return TYPE::from_bits(static_cast<unsigned short>(bits));                              \
  }                                                                                         \
  inline PAIR __float2##NAME2##_rn(float value) { return {value, value}; }                  \
  inline PAIR __floats2##NAME2##_rn(float low, float high) { return {low, high}; }          \
  inline PAIR __float22##NAME2##_rn(float2 value) { return {value.x, value.y}; }            \
  inline float2 __##NAME2##2float2(PAIR value) { return {value.x, value.y}; }               \
  inline PAIR __##NAME##2##NAME2(TYPE value) { return {value, value}; }                     \
  inline PAIR __halves2##NAME2(TYPE low, TYPE high) { return {low, high}; }                 \
  inline TYPE __low2##NAME(PAIR pair) { return pair.x; }                                    \
  inline TYPE __high2##NAME(PAIR pair) { return pair.y; }                                   \
  inline PAIR __low2##NAME2(PAIR pair) { return {pair.x, pair.x}; }                         \
  inline PAIR __high2##NAME2(PAIR pair) { return {pair.y, pair.y}; }                        \
  inline PAIR make_##NAME2(TYPE low, TYPE high) { return {low, high}; }

PEAL_SIMT_REAL16_CONVERSIONS(__half, __half2, half, half2)
PEAL_SIMT_REAL16_CONVERSIONS(__nv_bfloat16, __nv_bfloat162, bfloat16, bfloat162)
#undef PEAL_SIMT_REAL16_CONVERSIONS

template <class Format>
float __low2float(peal::simt::cuda::Pair16<Format> pair) {
  return pair.x;
}
template <class Format>
float __high2float(peal::simt::cuda::Pair16<Format> pair) {
  return pair.y;
}

// ---- arithmetic, alike for both formats

// NAME of one, EXPRESSION of a and b
#define PEAL_SIMT_REAL16_BINARY(NAME, EXPRESSION)                                \
  template <class Format>                                                        \
  peal::simt::cuda::Real16<Format> NAME(peal::simt::cuda::Real16<Format> a,      \
                                        peal::simt::cuda::Real16<Format> b) {    \
    return EXPRESSION;                                                           \
  }                                                                              \
  template <class Format>                                                        \
  peal::simt::cuda::Pair16<Format> NAME##2(peal::simt::cuda::Pair16<Format> a,   \
                                           peal::simt::cuda::Pair16<Format> b) { \
    return {NAME(a.x, b.x), NAME(a.y, b.y)};                                     \
  }
PEAL_SIMT_REAL16_BINARY(__hadd, a + b)
PEAL_SIMT_REAL16_BINARY(__hsub, a - b)
PEAL_SIMT_REAL16_BINARY(__hmul, a* b)
PEAL_SIMT_REAL16_BINARY(__hmax, std::fmax(float(a), float(b)))
PEAL_SIMT_REAL16_BINARY(__hmin, std::fmin(float(a), float(b)))
#undef PEAL_SIMT_REAL16_BINARY

template <class Format>
peal::simt::cuda::Real16<Format> __hdiv(peal::simt::cuda::Real16<Format> a,
                                        peal::simt::cuda::Real16<Format> b) {
  return a / b;
}
template <class Format>
peal::simt::cuda::Pair16<Format> __h2div(peal::simt::cuda::Pair16<Format> a,
                                         peal::simt::cuda::Pair16<Format> b) {
  return a / b;
}

/// a * b + c, rounded once: a product is exact in double, and what the sum drops decides no tie.
template <class Format>
peal::simt::cuda::Real16<Format> __hfma(peal::simt::cuda::Real16<Format> a,
                                        peal::simt::cuda::Real16<Format> b,
                                        peal::simt::cuda::Real16<Format> c) {
  return std::fma(double{float(a)}, double{float(b)}, double{float(c)});
}
template <class Format>
peal::simt::cuda::Pair16<Format> __hfma2(peal::simt::cuda::Pair16<Format> a,
                                         peal::simt::cuda::Pair16<Format> b,
                                         peal::simt::cuda::Pair16<Format> c) {
  return {__hfma(a.x, b.x, c.x), __hfma(a.y, b.y, c.y)};
}

#define PEAL_SIMT_REAL16_UNARY(NAME, EXPRESSION)                              \
  template <class Format>                                                     \
  peal::simt::cuda::Real16<Format> NAME(peal::simt::cuda::Real16<Format> a) { \
    return EXPRESSION;                                                        \
  }
PEAL_SIMT_REAL16_UNARY(__hneg, -a)
PEAL_SIMT_REAL16_UNARY(__habs, std::fabs(float(a)))
PEAL_SIMT_REAL16_UNARY(hsqrt, std::sqrt(float(a)))
PEAL_SIMT_REAL16_UNARY(hrsqrt, 1.0F / std::sqrt(float(a)))
PEAL_SIMT_REAL16_UNARY(hrcp, 1.0F / float(a))
PEAL_SIMT_REAL16_UNARY(hexp, std::exp(float(a)))
PEAL_SIMT_REAL16_UNARY(hexp2, std::exp2(float(a)))
PEAL_SIMT_REAL16_UNARY(hlog, std::log(float(a)))
PEAL_SIMT_REAL16_UNARY(hlog2, std::log2(float(a)))
PEAL_SIMT_REAL16_UNARY(hsin, std::sin(float(a)))
PEAL_SIMT_REAL16_UNARY(hcos, std::cos(float(a)))
PEAL_SIMT_REAL16_UNARY(hfloor, std::floor(float(a)))
PEAL_SIMT_REAL16_UNARY(hceil, std::ceil(float(a)))
#undef PEAL_SIMT_REAL16_UNARY

#define PEAL_SIMT_REAL16_COMPARE(NAME, OPERATOR)                                      \
  template <class Format>                                                             \
  bool NAME(peal::simt::cuda::Real16<Format> a, peal::simt::cuda::Real16<Format> b) { \
    return a OPERATOR b;                                                              \
  }
PEAL_SIMT_REAL16_COMPARE(__heq, ==)
PEAL_SIMT_REAL16_COMPARE(__hlt, <)
PEAL_SIMT_REAL16_COMPARE(__hle, <=)
PEAL_SIMT_REAL16_COMPARE(__hgt, >)
PEAL_SIMT_REAL16_COMPARE(__hge, >=)
#undef PEAL_SIMT_REAL16_COMPARE

template <class Format>
bool __hne(peal::simt::cuda::Real16<Format> a, peal::simt::cuda::Real16<Format> b) {
  return a < b || a > b;  // as CUDA: of NaNs neither this nor __heq holds
}
template <class Format>
bool __hisnan(peal::simt::cuda::Real16<Format> a) {
  return std::isnan(float(a));
}
/// 0, or the sign of infinity.
template <class Format>
int __hisinf(peal::simt::cuda::Real16<Format> a) {
  return std::isinf(float(a)) ? (float(a) > 0 ? 1 : -1) : 0;
}

template <class Format>
peal::simt::cuda::Real16<Format> atomicAdd(peal::simt::cuda::Real16<Format>* address,
                                           peal::simt::cuda::Real16<Format> value) {
  return peal::simt::cuda::update(
      address, [=](peal::simt::cuda::Real16<Format> old) { return old + value; });
}
template <class Format>
peal::simt::cuda::Pair16<Format> atomicAdd(peal::simt::cuda::Pair16<Format>* address,
                                           peal::simt::cuda::Pair16<Format> value) {
  return peal::simt::cuda::update(
      address, [=](peal::simt::cuda::Pair16<Format> old) { return old + value; });
}
