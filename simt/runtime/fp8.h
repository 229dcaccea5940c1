// SPDX-License-Identifier: Apache-2.0
//
// Reals of 8 bits, as cuda_fp8.h has them. E4M3 has no infinity and one NaN of each sign, E5M2 is
// laid out as IEEE's formats. Rounding is to the nearest, ties to even, and happens once; what is
// too large becomes the largest number (__NV_SATFINITE) or infinity, in E4M3 a NaN (__NV_NOSAT).
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>
#include <type_traits>

#include "simt/runtime/conversions.h"
#include "simt/runtime/half.h"

typedef unsigned char __nv_fp8_storage_t;
typedef unsigned short __nv_fp8x2_storage_t;
typedef unsigned int __nv_fp8x4_storage_t;

enum __nv_saturation_t { __NV_NOSAT, __NV_SATFINITE };
enum __nv_fp8_interpretation_t { __NV_E4M3, __NV_E5M2 };

namespace peal::simt::cuda {

/// One of the two formats, by the width of its fraction.
struct Fp8Format {
  int fraction_bits;
  int bias;
  uint32_t largest;    ///< the bits of the largest number
  uint32_t too_large;  ///< what is beyond it without saturation

  static constexpr Fp8Format of(__nv_fp8_interpretation_t kind) {
    return kind == __NV_E4M3 ? Fp8Format{3, 7, 0x7e, 0x7f} : Fp8Format{2, 15, 0x7b, 0x7c};
  }
};

inline __nv_fp8_storage_t to_fp8(float value, __nv_saturation_t saturation,
                                 __nv_fp8_interpretation_t kind) {
  constexpr int kFloatFraction = 23, kFloatBias = 127;
  const Fp8Format format = Fp8Format::of(kind);
  const auto bits = std::bit_cast<uint32_t>(value);
  const uint32_t magnitude = bits & 0x7fffffff;
  if (magnitude > 0x7f800000) return 0x7f;
  const int shift = kFloatFraction - format.fraction_bits;
  uint32_t result = 0;
  if (magnitude < static_cast<uint32_t>(kFloatBias + 1 - format.bias) << kFloatFraction) {
    const int unit = format.bias - 1 + format.fraction_bits;  // 2^-unit is the smallest number
    const float units = std::ldexp(std::bit_cast<float>(magnitude), unit);
    result = static_cast<uint32_t>(std::nearbyint(units));
  } else {
    const uint32_t odd = magnitude >> shift & 1;
    result = (magnitude + (1U << (shift - 1)) - 1 + odd) >> shift;
    result -= static_cast<uint32_t>(kFloatBias - format.bias) << format.fraction_bits;
  }
  if (result > format.largest) {
    result = saturation == __NV_SATFINITE ? format.largest : format.too_large;
  }
  return static_cast<__nv_fp8_storage_t>((bits >> 24 & 0x80) | result);
}

inline float from_fp8(__nv_fp8_storage_t bits, __nv_fp8_interpretation_t kind) {
  const Fp8Format format = Fp8Format::of(kind);
  const int magnitude = bits & 0x7f;
  const int exponent = magnitude >> format.fraction_bits;
  const int fraction = magnitude & ((1 << format.fraction_bits) - 1);
  float value = 0;
  if (static_cast<uint32_t>(magnitude) > format.largest) {
    value = kind == __NV_E5M2 && fraction == 0 ? INFINITY : NAN;
  } else if (exponent == 0) {
    value = std::ldexp(static_cast<float>(fraction), 1 - format.bias - format.fraction_bits);
  } else {
    const auto whole = static_cast<float>(fraction + (1 << format.fraction_bits));
    value = std::ldexp(whole, exponent - format.bias - format.fraction_bits);
  }
  return (bits & 0x80) != 0 ? -value : value;
}

constexpr __nv_fp8x2_storage_t fp8_pair(__nv_fp8_storage_t low, __nv_fp8_storage_t high) {
  return static_cast<__nv_fp8x2_storage_t>(low | high << 8);
}

}  // namespace peal::simt::cuda

// ---- conversions

inline __nv_fp8_storage_t __nv_cvt_float_to_fp8(float value, __nv_saturation_t saturation,
                                                __nv_fp8_interpretation_t kind) {
  return peal::simt::cuda::to_fp8(value, saturation, kind);
}
inline __nv_fp8_storage_t __nv_cvt_double_to_fp8(double value, __nv_saturation_t saturation,
                                                 __nv_fp8_interpretation_t kind) {
  return peal::simt::cuda::to_fp8(peal::simt::cuda::odd_float(value), saturation, kind);
}
inline __nv_fp8_storage_t __nv_cvt_halfraw_to_fp8(__half_raw value, __nv_saturation_t saturation,
                                                  __nv_fp8_interpretation_t kind) {
  return peal::simt::cuda::to_fp8(__half(value), saturation, kind);
}
inline __nv_fp8_storage_t __nv_cvt_bfloat16raw_to_fp8(__nv_bfloat16_raw value,
                                                      __nv_saturation_t saturation,
                                                      __nv_fp8_interpretation_t kind) {
  return peal::simt::cuda::to_fp8(__nv_bfloat16(value), saturation, kind);
}

// Defines NAME2, which converts a PAIR: NAME converts its x and its y.
#define PEAL_SIMT_FP8_PAIR(NAME2, NAME, PAIR, X, Y)                                          \
  inline __nv_fp8x2_storage_t NAME2(PAIR value, __nv_saturation_t saturation,                \
                                    __nv_fp8_interpretation_t kind) {                        \
    return peal::simt::cuda::fp8_pair(NAME(X, saturation, kind), NAME(Y, saturation, kind)); \
  }
PEAL_SIMT_FP8_PAIR(__nv_cvt_float2_to_fp8x2, __nv_cvt_float_to_fp8, float2, value.x, value.y)
PEAL_SIMT_FP8_PAIR(__nv_cvt_double2_to_fp8x2, __nv_cvt_double_to_fp8, double2, value.x, value.y)
PEAL_SIMT_FP8_PAIR(__nv_cvt_halfraw2_to_fp8x2, __nv_cvt_halfraw_to_fp8, __half2_raw,
                   __half_raw{value.x}, __half_raw{value.y})
PEAL_SIMT_FP8_PAIR(__nv_cvt_bfloat16raw2_to_fp8x2, __nv_cvt_bfloat16raw_to_fp8, __nv_bfloat162_raw,
                   __nv_bfloat16_raw{value.x}, __nv_bfloat16_raw{value.y})
#undef PEAL_SIMT_FP8_PAIR

inline __half_raw __nv_cvt_fp8_to_halfraw(__nv_fp8_storage_t bits, __nv_fp8_interpretation_t kind) {
  return __half(peal::simt::cuda::from_fp8(bits, kind));
}
inline __half2_raw __nv_cvt_fp8x2_to_halfraw2(__nv_fp8x2_storage_t bits,
                                              __nv_fp8_interpretation_t kind) {
  const auto low = static_cast<__nv_fp8_storage_t>(bits & 0xff);
  const auto high = static_cast<__nv_fp8_storage_t>(bits >> 8);
  return {__nv_cvt_fp8_to_halfraw(low, kind).x, __nv_cvt_fp8_to_halfraw(high, kind).x};
}

// ---- the classes

namespace peal::simt::cuda {

/// Conversions to it saturate.
template <__nv_fp8_interpretation_t kKind>
struct Fp8 {
  __nv_fp8_storage_t __x;

  Fp8() = default;
  explicit Fp8(double value) : __x(__nv_cvt_double_to_fp8(value, __NV_SATFINITE, kKind)) {}
  template <class Number>
  requires std::is_convertible_v<Number, float>
  explicit Fp8(Number value) : __x(to_fp8(static_cast<float>(value), __NV_SATFINITE, kKind)) {}

  explicit operator __half() const { return from_fp8(__x, kKind); }
  explicit operator __nv_bfloat16() const { return from_fp8(__x, kKind); }
  explicit operator float() const { return from_fp8(__x, kKind); }
  explicit operator double() const { return from_fp8(__x, kKind); }
  explicit operator bool() const { return (__x & 0x7f) != 0; }
  template <class Integer>
  requires std::is_integral_v<Integer>
  explicit operator Integer() const {
    return to_integer<Integer, Round::kZero>(from_fp8(__x, kKind));
  }
};

template <__nv_fp8_interpretation_t kKind>
struct alignas(2) Fp8x2 {
  __nv_fp8x2_storage_t __x;

  Fp8x2() = default;
  explicit Fp8x2(float2 value) : __x(__nv_cvt_float2_to_fp8x2(value, __NV_SATFINITE, kKind)) {}
  explicit Fp8x2(double2 value) : __x(__nv_cvt_double2_to_fp8x2(value, __NV_SATFINITE, kKind)) {}
  explicit Fp8x2(__half2 value) : __x(fp8_pair(Fp8<kKind>(value.x).__x, Fp8<kKind>(value.y).__x)) {}
  explicit Fp8x2(__nv_bfloat162 value)
      : __x(fp8_pair(Fp8<kKind>(value.x).__x, Fp8<kKind>(value.y).__x)) {}

  explicit operator float2() const {
    return {from_fp8(static_cast<__nv_fp8_storage_t>(__x & 0xff), kKind),
            from_fp8(static_cast<__nv_fp8_storage_t>(__x >> 8), kKind)};
  }
  explicit operator __half2() const {
    const float2 both = float2(*this);
    return {both.x, both.y};
  }
  explicit operator __nv_bfloat162() const {
    const float2 both = float2(*this);
    return {both.x, both.y};
  }
};

template <__nv_fp8_interpretation_t kKind>
struct alignas(4) Fp8x4 {
  __nv_fp8x4_storage_t __x;

  Fp8x4() = default;
  explicit Fp8x4(float4 value) : Fp8x4(float2{value.x, value.y}, float2{value.z, value.w}) {}
  explicit Fp8x4(double4 value) : Fp8x4(double2{value.x, value.y}, double2{value.z, value.w}) {}
  template <class Pair>
  requires std::is_constructible_v<Fp8x2<kKind>, Pair>
  explicit Fp8x4(Pair low, Pair high)
      : __x(Fp8x2<kKind>(low).__x | uint32_t{Fp8x2<kKind>(high).__x} << 16) {}

  explicit operator float4() const {
    Fp8x2<kKind> low, high;
    low.__x = static_cast<__nv_fp8x2_storage_t>(__x & 0xffff);
    high.__x = static_cast<__nv_fp8x2_storage_t>(__x >> 16);
    const float2 xy = float2(low), zw = float2(high);
    return {xy.x, xy.y, zw.x, zw.y};
  }
};

}  // namespace peal::simt::cuda

using __nv_fp8_e4m3 = peal::simt::cuda::Fp8<__NV_E4M3>;
using __nv_fp8_e5m2 = peal::simt::cuda::Fp8<__NV_E5M2>;
using __nv_fp8x2_e4m3 = peal::simt::cuda::Fp8x2<__NV_E4M3>;
using __nv_fp8x2_e5m2 = peal::simt::cuda::Fp8x2<__NV_E5M2>;
using __nv_fp8x4_e4m3 = peal::simt::cuda::Fp8x4<__NV_E4M3>;
using __nv_fp8x4_e5m2 = peal::simt::cuda::Fp8x4<__NV_E5M2>;
