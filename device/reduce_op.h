// SPDX-License-Identifier: Apache-2.0
//
// What reductions make of two values.
//
//   all_reduce(ctx, block, team, dst, src, n, op::sum);
//
// Sums and products of Half and BFloat16 (base/half.h) are kept in float and rounded once, to
// nearest even. Integers wrap.
#pragma once

#include <cstdint>
#include <type_traits>

#include "device/base/half.h"
#include "device/base/target.h"

namespace peal {

/// What a reduction keeps while it goes over the members: T itself, unsigned where T is an integer
/// (sums wrap), float where T has 16 bits.
template <class T>
struct Accumulated {
  using Type = T;
  PEAL_HD static T from(T value) { return value; }
  PEAL_HD static T to(T value) { return value; }
};
template <>
struct Accumulated<Half> {
  using Type = float;
  PEAL_HD static float from(Half value) { return to_float(value); }
  PEAL_HD static Half to(float value) { return to_half(value); }
};
template <>
struct Accumulated<BFloat16> {
  using Type = float;
  PEAL_HD static float from(BFloat16 value) { return to_float(value); }
  PEAL_HD static BFloat16 to(float value) { return to_bfloat16(value); }
};

template <class T>
inline constexpr bool kReducible = (std::is_arithmetic_v<T> && sizeof(T) <= 8) ||
                                   std::is_same_v<T, Half> || std::is_same_v<T, BFloat16>;

namespace op {

/// The unsigned type in which integers of T are added and multiplied: as wide, and at least as int.
template <class T>
using Wrapping = std::conditional_t<(sizeof(T) > 4), uint64_t, uint32_t>;

struct Sum {
  template <class T>
  PEAL_HD T operator()(T a, T b) const {
    if constexpr (std::is_integral_v<T>) {
      return static_cast<T>(static_cast<Wrapping<T>>(a) + static_cast<Wrapping<T>>(b));
    } else {
      return a + b;
    }
  }
};
struct Product {
  template <class T>
  PEAL_HD T operator()(T a, T b) const {
    if constexpr (std::is_integral_v<T>) {
      return static_cast<T>(static_cast<Wrapping<T>>(a) * static_cast<Wrapping<T>>(b));
    } else {
      return a * b;
    }
  }
};
struct Min {
  template <class T>
  PEAL_HD T operator()(T a, T b) const {
    return b < a ? b : a;
  }
};
struct Max {
  template <class T>
  PEAL_HD T operator()(T a, T b) const {
    return a < b ? b : a;
  }
};
struct And {
  template <class T>
  PEAL_HD T operator()(T a, T b) const {
    static_assert(std::is_integral_v<T>, "bits are those of integers");
    return static_cast<T>(a & b);
  }
};
struct Or {
  template <class T>
  PEAL_HD T operator()(T a, T b) const {
    static_assert(std::is_integral_v<T>, "bits are those of integers");
    return static_cast<T>(a | b);
  }
};
struct Xor {
  template <class T>
  PEAL_HD T operator()(T a, T b) const {
    static_assert(std::is_integral_v<T>, "bits are those of integers");
    return static_cast<T>(a ^ b);
  }
};

inline constexpr Sum sum{};
inline constexpr Product product{};
inline constexpr Min min{};
inline constexpr Max max{};
inline constexpr And bit_and{};
inline constexpr Or bit_or{};
inline constexpr Xor bit_xor{};

}  // namespace op
}  // namespace peal
