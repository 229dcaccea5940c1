// SPDX-License-Identifier: Apache-2.0
//
// CUDA's SIMD intrinsics: a word of 32 bits as two halves or four bytes, each by itself, and dot
// products of such words. NAME2 is of halves, NAME4 of bytes.
//
// Only templates and one-line functions: every CUDA program reads this file.
#pragma once

#include "simt/runtime/vectors.h"

namespace peal::simt::cuda {

/// The result of `op` on each part of a and b, Part being signed or unsigned of 8 or 16 bits.
/// What does not fit into a part is cut off.
template <class Part, class Op>
constexpr unsigned by_part(unsigned a, unsigned b, Op op) {
  constexpr unsigned kBits = 8 * sizeof(Part), kMask = (1U << kBits) - 1;
  unsigned result = 0;
  for (unsigned at = 0; at < 32; at += kBits) {
    const int left = static_cast<Part>(a >> at & kMask), right = static_cast<Part>(b >> at & kMask);
    result |= (static_cast<unsigned>(op(left, right)) & kMask) << at;
  }
  return result;
}
/// The sum of `op` over the parts.
template <class Part, class Op>
constexpr unsigned over_parts(unsigned a, unsigned b, Op op) {
  constexpr unsigned kBits = 8 * sizeof(Part), kMask = (1U << kBits) - 1;
  unsigned result = 0;
  for (unsigned at = 0; at < 32; at += kBits) {
    const int left = static_cast<Part>(a >> at & kMask), right = static_cast<Part>(b >> at & kMask);
    result += static_cast<unsigned>(op(left, right));
  }
  return result;
}
/// `value` where Part has it, else the nearest that Part has.
template <class Part>
constexpr int held_to(int value) {
  constexpr bool kSigned = static_cast<Part>(-1) < 0;
  constexpr int kBits = 8 * sizeof(Part);
  constexpr int kMost = (1 << (kBits - kSigned)) - 1, kLeast = kSigned ? -kMost - 1 : 0;
  return value < kLeast ? kLeast : value > kMost ? kMost : value;
}

using Signed2 = short;
using Signed4 = signed char;
using Unsigned2 = unsigned short;
using Unsigned4 = unsigned char;

// dot4 multiplies four bytes of `a` and `b`, dot2 two halves of `a` with the low two bytes of `b`.
template <class Left, class Right>
constexpr unsigned dot4(unsigned a, unsigned b, unsigned sum) {
  for (unsigned at = 0; at < 32; at += 8) {
    const int left = static_cast<Left>(a >> at), right = static_cast<Right>(b >> at);
    sum += static_cast<unsigned>(left * right);
  }
  return sum;
}
template <class Half, class Byte>
constexpr unsigned dot2(unsigned a, unsigned b, unsigned sum) {
  for (unsigned i = 0; i < 2; ++i) {
    const int left = static_cast<Half>(a >> (16 * i)), right = static_cast<Byte>(b >> (8 * i));
    sum += static_cast<unsigned>(left * right);
  }
  return sum;
}

template <class Vector>
constexpr unsigned word_of(Vector v) {
  if constexpr (sizeof(v.x) == 2) {
    return static_cast<unsigned short>(v.x) | unsigned{static_cast<unsigned short>(v.y)} << 16;
  } else {
    return static_cast<unsigned char>(v.x) | unsigned{static_cast<unsigned char>(v.y)} << 8 |
           unsigned{static_cast<unsigned char>(v.z)} << 16 |
           unsigned{static_cast<unsigned char>(v.w)} << 24;
  }
}
constexpr int least(int a, int b) { return a < b ? a : b; }
constexpr int greatest(int a, int b) { return a < b ? b : a; }
constexpr int sum_of(int a, int b) {
  return static_cast<int>(static_cast<unsigned>(a) + static_cast<unsigned>(b));
}
}  // namespace peal::simt::cuda

// In EXPRESSION a and b are ints, and Part is the type of a part: Signed or Unsigned.
#define PEAL_SIMT_PARTS(NAME, PARTS, SIGN, OVER, EXPRESSION)                           \
  constexpr unsigned NAME(unsigned left, unsigned right) {                             \
    using Part = SIGN##PARTS;                                                          \
    return peal::simt::cuda::OVER<Part>(                                               \
        left, right, []([[maybe_unused]] int a, int b) -> int { return EXPRESSION; }); \
  }
#define PEAL_SIMT_ONE(NAME, PARTS, SIGN, EXPRESSION)                                               \
  constexpr unsigned NAME(unsigned word) {                                                         \
    using Part = SIGN##PARTS;                                                                      \
    return peal::simt::cuda::by_part<Part>(0, word, [](int, int b) -> int { return EXPRESSION; }); \
  }
#define PEAL_SIMT_BOTH(NAME, SIGN, EXPRESSION)           \
  PEAL_SIMT_PARTS(NAME##2, 2, SIGN, by_part, EXPRESSION) \
  PEAL_SIMT_PARTS(NAME##4, 4, SIGN, by_part, EXPRESSION)
#define PEAL_SIMT_BOTH_ONE(NAME, SIGN, EXPRESSION) \
  PEAL_SIMT_ONE(NAME##2, 2, SIGN, EXPRESSION)      \
  PEAL_SIMT_ONE(NAME##4, 4, SIGN, EXPRESSION)
#define PEAL_SIMT_BOTH_SUM(NAME, SIGN, EXPRESSION)          \
  PEAL_SIMT_PARTS(NAME##2, 2, SIGN, over_parts, EXPRESSION) \
  PEAL_SIMT_PARTS(NAME##4, 4, SIGN, over_parts, EXPRESSION)
// __vcmpX: all bits of a part, or none; __vsetX: 1 or 0.
#define PEAL_SIMT_COMPARE(NAME, SIGN, OPERATOR)             \
  PEAL_SIMT_BOTH(__vcmp##NAME, SIGN, a OPERATOR b ? -1 : 0) \
  PEAL_SIMT_BOTH(__vset##NAME, SIGN, a OPERATOR b ? 1 : 0)

namespace peal::simt::cuda::simd_words {

PEAL_SIMT_BOTH(__vadd, Unsigned, a + b)
PEAL_SIMT_BOTH(__vaddss, Signed, held_to<Part>(a + b))
PEAL_SIMT_BOTH(__vaddus, Unsigned, held_to<Part>(a + b))
PEAL_SIMT_BOTH(__vsub, Unsigned, a - b)
PEAL_SIMT_BOTH(__vsubss, Signed, held_to<Part>(a - b))
PEAL_SIMT_BOTH(__vsubus, Unsigned, held_to<Part>(a - b))
PEAL_SIMT_BOTH(__vavgs, Signed, (a + b + (a + b >= 0)) >> 1)  // halves: away from zero
PEAL_SIMT_BOTH(__vavgu, Unsigned, (a + b + 1) >> 1)
PEAL_SIMT_BOTH(__vhaddu, Unsigned, (a + b) >> 1)
PEAL_SIMT_BOTH(__vabsdiffs, Signed, a < b ? b - a : a - b)
PEAL_SIMT_BOTH(__vabsdiffu, Unsigned, a < b ? b - a : a - b)
PEAL_SIMT_BOTH(__vmins, Signed, a < b ? a : b)
PEAL_SIMT_BOTH(__vminu, Unsigned, a < b ? a : b)
PEAL_SIMT_BOTH(__vmaxs, Signed, a < b ? b : a)
PEAL_SIMT_BOTH(__vmaxu, Unsigned, a < b ? b : a)
PEAL_SIMT_BOTH_ONE(__vneg, Signed, -b)
PEAL_SIMT_BOTH_ONE(__vnegss, Signed, held_to<Part>(-b))
PEAL_SIMT_BOTH_ONE(__vabs, Signed, b < 0 ? -b : b)
PEAL_SIMT_BOTH_ONE(__vabsss, Signed, held_to<Part>(b < 0 ? -b : b))
PEAL_SIMT_BOTH_SUM(__vsads, Signed, a < b ? b - a : a - b)
PEAL_SIMT_BOTH_SUM(__vsadu, Unsigned, a < b ? b - a : a - b)
PEAL_SIMT_COMPARE(eq, Unsigned, ==)
PEAL_SIMT_COMPARE(ne, Unsigned, !=)
PEAL_SIMT_COMPARE(ges, Signed, >=)
PEAL_SIMT_COMPARE(geu, Unsigned, >=)
PEAL_SIMT_COMPARE(gts, Signed, >)
PEAL_SIMT_COMPARE(gtu, Unsigned, >)
PEAL_SIMT_COMPARE(les, Signed, <=)
PEAL_SIMT_COMPARE(leu, Unsigned, <=)
PEAL_SIMT_COMPARE(lts, Signed, <)
PEAL_SIMT_COMPARE(ltu, Unsigned, <)

// ---- dot products: of four bytes; of two halves of `a` with the low or the high two bytes of `b`

constexpr int __dp4a(int a, int b, int c) {
  return static_cast<int>(dot4<Signed4, Signed4>(static_cast<unsigned>(a), static_cast<unsigned>(b),
                                                 static_cast<unsigned>(c)));
}
constexpr unsigned __dp4a(unsigned a, unsigned b, unsigned c) {
  return dot4<Unsigned4, Unsigned4>(a, b, c);
}
constexpr int __dp2a_lo(int a, int b, int c) {
  return static_cast<int>(dot2<Signed2, Signed4>(static_cast<unsigned>(a), static_cast<unsigned>(b),
                                                 static_cast<unsigned>(c)));
}
constexpr unsigned __dp2a_lo(unsigned a, unsigned b, unsigned c) {
  return dot2<Unsigned2, Unsigned4>(a, b, c);
}
constexpr int __dp2a_hi(int a, int b, int c) { return __dp2a_lo(a, b >> 16, c); }
constexpr unsigned __dp2a_hi(unsigned a, unsigned b, unsigned c) {
  return __dp2a_lo(a, b >> 16, c);
}

// The same of vectors.
constexpr int __dp4a(char4 a, char4 b, int c) {
  return __dp4a(static_cast<int>(word_of(a)), static_cast<int>(word_of(b)), c);
}
constexpr unsigned __dp4a(uchar4 a, uchar4 b, unsigned c) {
  return __dp4a(word_of(a), word_of(b), c);
}
constexpr int __dp2a_lo(short2 a, char4 b, int c) {
  return __dp2a_lo(static_cast<int>(word_of(a)), static_cast<int>(word_of(b)), c);
}
constexpr unsigned __dp2a_lo(ushort2 a, uchar4 b, unsigned c) {
  return __dp2a_lo(word_of(a), word_of(b), c);
}
constexpr int __dp2a_hi(short2 a, char4 b, int c) {
  return __dp2a_hi(static_cast<int>(word_of(a)), static_cast<int>(word_of(b)), c);
}
constexpr unsigned __dp2a_hi(ushort2 a, uchar4 b, unsigned c) {
  return __dp2a_hi(word_of(a), word_of(b), c);
}

// ---- the least and the greatest of three, and of a sum; _relu: at least 0

#define PEAL_SIMT_RELU(NAME, ...)                                       \
  constexpr int __vi##NAME(int a, int b, int c) { return __VA_ARGS__; } \
  constexpr int __vi##NAME##_relu(int a, int b, int c) {                \
    const int result = __vi##NAME(a, b, c);                             \
    return result < 0 ? 0 : result;                                     \
  }
PEAL_SIMT_RELU(max3_s32, greatest(greatest(a, b), c))
PEAL_SIMT_RELU(min3_s32, least(least(a, b), c))
PEAL_SIMT_RELU(addmax_s32, greatest(sum_of(a, b), c))
PEAL_SIMT_RELU(addmin_s32, least(sum_of(a, b), c))
#undef PEAL_SIMT_RELU
constexpr int __vimax_s32_relu(int a, int b) { return greatest(greatest(a, b), 0); }
constexpr int __vimin_s32_relu(int a, int b) { return greatest(least(a, b), 0); }

}  // namespace peal::simt::cuda::simd_words

using namespace peal::simt::cuda::simd_words;

#undef PEAL_SIMT_COMPARE
#undef PEAL_SIMT_BOTH_SUM
#undef PEAL_SIMT_BOTH_ONE
#undef PEAL_SIMT_BOTH
#undef PEAL_SIMT_ONE
#undef PEAL_SIMT_PARTS
