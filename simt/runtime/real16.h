// SPDX-License-Identifier: Apache-2.0
//
// Reals of 16 bits: CUDA's __half (IEEE's binary16) and __nv_bfloat16 (the upper half of a float).
// Arithmetic is done in float and rounded to the nearest, ties to even, as CUDA's is.
#pragma once

#include <bit>
#include <cstdint>
#include <type_traits>

namespace peal::simt::cuda {

/// Magnitudes below `limit` as multiples of 2^-24; see Binary16.
inline uint32_t rounded_subnormal(float magnitude) {
  // The unit of the last place of floats from 0.5 to 1 is 2^-24, binary16's smallest number.
  return std::bit_cast<uint32_t>(magnitude + 0.5F) - std::bit_cast<uint32_t>(0.5F);
}

struct Binary16 {
  static uint16_t from_float(float value) {
    const auto bits = std::bit_cast<uint32_t>(value);
    const uint32_t sign = bits >> 16 & 0x8000;
    const uint32_t magnitude = bits & 0x7fffffff;
    uint32_t result = 0;
    if (magnitude > 0x7f800000) return 0x7fff;  // CUDA's only NaN
    if (magnitude >= 0x47800000) {              // 2^16
      result = 0x7c00;
    } else if (magnitude < 0x38800000) {  // 2^-14
      result = rounded_subnormal(std::bit_cast<float>(magnitude));
    } else {
      constexpr uint32_t kBias = (127 - 15) << 23;
      result = (magnitude - kBias + 0xfff + (magnitude >> 13 & 1)) >> 13;
    }
    return static_cast<uint16_t>(sign | result);
  }
  static float to_float(uint16_t bits) {
    const uint32_t sign = (bits & 0x8000U) << 16;
    const uint32_t exponent = bits >> 10 & 0x1f;
    const uint32_t fraction = bits & 0x3ff;
    if (exponent == 0) {
      const float magnitude = static_cast<float>(fraction) * 0x1p-24F;
      return std::bit_cast<float>(std::bit_cast<uint32_t>(magnitude) | sign);
    }
    const uint32_t wide = exponent == 31 ? 255 : exponent + 127 - 15;
    return std::bit_cast<float>(sign | wide << 23 | fraction << 13);
  }
};

struct Brain16 {
  static uint16_t from_float(float value) {
    const auto bits = std::bit_cast<uint32_t>(value);
    if ((bits & 0x7fffffff) > 0x7f800000) return 0x7fff;  // CUDA's only NaN
    return static_cast<uint16_t>((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
  }
  static float to_float(uint16_t bits) { return std::bit_cast<float>(uint32_t{bits} << 16); }
};

/// A float that rounds as the double does when it is rounded once more: an inexact one is odd.
inline float odd_float(double value) {
  const auto near = static_cast<float>(value);
  if (static_cast<double>(near) == value || value != value) return near;
  auto bits = std::bit_cast<uint32_t>(near);
  const bool beyond = (value > 0) == (static_cast<double>(near) > value);
  if (beyond && (bits & 0x7fffffff) != 0) --bits;
  return std::bit_cast<float>(bits | 1);
}

/// The bits alone.
template <class Format>
struct Raw16 {
  unsigned short x;
};
template <class Format>
struct alignas(4) RawPair16 {
  unsigned short x, y;
};

template <class Format>
class Real16 {
 public:
  Real16() = default;
  Real16(Raw16<Format> raw) : bits_(raw.x) {}
  operator Raw16<Format>() const { return {bits_}; }
  template <class Number>
  requires std::is_arithmetic_v<Number> Real16(Number value)
      : bits_(Format::from_float(narrow(value))) {}

  operator float() const { return Format::to_float(bits_); }

  static Real16 from_bits(uint16_t bits) {
    Real16 result;
    result.bits_ = bits;
    return result;
  }
  uint16_t bits() const { return bits_; }

  friend Real16 operator+(Real16 a, Real16 b) { return float(a) + float(b); }
  friend Real16 operator-(Real16 a, Real16 b) { return float(a) - float(b); }
  friend Real16 operator*(Real16 a, Real16 b) { return float(a) * float(b); }
  friend Real16 operator/(Real16 a, Real16 b) { return float(a) / float(b); }
  friend Real16 operator-(Real16 a) { return from_bits(a.bits_ ^ 0x8000); }
  friend Real16 operator+(Real16 a) { return a; }
  Real16& operator+=(Real16 other) { return *this = *this + other; }
  Real16& operator-=(Real16 other) { return *this = *this - other; }
  Real16& operator*=(Real16 other) { return *this = *this * other; }
  Real16& operator/=(Real16 other) { return *this = *this / other; }
  Real16& operator++() { return *this += Real16(1); }
  friend bool operator==(Real16 a, Real16 b) { return float(a) == float(b); }
  friend bool operator!=(Real16 a, Real16 b) { return float(a) != float(b); }
  friend bool operator<(Real16 a, Real16 b) { return float(a) < float(b); }
  friend bool operator<=(Real16 a, Real16 b) { return float(a) <= float(b); }
  friend bool operator>(Real16 a, Real16 b) { return float(a) > float(b); }
  friend bool operator>=(Real16 a, Real16 b) { return float(a) >= float(b); }

 private:
  template <class Number>
  static float narrow(Number value) {
    if constexpr (std::is_same_v<Number, float>) {
      return value;
    } else {
      return odd_float(static_cast<double>(value));
    }
  }
  uint16_t bits_;
};

/// Two of them in a word.
template <class Format>
struct alignas(4) Pair16 {
  Real16<Format> x, y;

  Pair16() = default;
  Pair16(Real16<Format> low, Real16<Format> high) : x(low), y(high) {}
  Pair16(RawPair16<Format> raw) : x(Raw16<Format>{raw.x}), y(Raw16<Format>{raw.y}) {}
  operator RawPair16<Format>() const { return {x.bits(), y.bits()}; }

  friend Pair16 operator+(Pair16 a, Pair16 b) { return {a.x + b.x, a.y + b.y}; }
  friend Pair16 operator-(Pair16 a, Pair16 b) { return {a.x - b.x, a.y - b.y}; }
  friend Pair16 operator*(Pair16 a, Pair16 b) { return {a.x * b.x, a.y * b.y}; }
  friend Pair16 operator/(Pair16 a, Pair16 b) { return {a.x / b.x, a.y / b.y}; }
  Pair16& operator+=(Pair16 other) { return *this = *this + other; }
  Pair16& operator*=(Pair16 other) { return *this = *this * other; }
};

}  // namespace peal::simt::cuda
