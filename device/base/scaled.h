// SPDX-License-Identifier: Apache-2.0
//
// Lengths in bytes: a count of things times how large one is. A product that 64 bits do not hold
// becomes kEndless, a length that no memory has: whoever looks for such a range refuses it. All
// products of what a caller gives pass here.
#pragma once

#include <cstddef>
#include <cstdint>

#include "device/base/target.h"

namespace peal {

inline constexpr uint64_t kEndless = ~uint64_t{0};

/// `count * size`, or kEndless.
PEAL_HD constexpr uint64_t scaled(uint64_t count, uint64_t size) {
  // The upper half of the product is one instruction, a division many.
  __extension__ using Product = unsigned __int128;
  const Product product = Product{count} * size;
  return product >> 64 == 0 ? static_cast<uint64_t>(product) : kEndless;
}

/// The same of a size that the compiler knows: a comparison.
template <uint64_t kSize>
PEAL_HD constexpr uint64_t scaled_by(uint64_t count) {
  static_assert(kSize != 0);
  return count > kEndless / kSize ? kEndless : count * kSize;
}

/// `offset + bytes`, or kEndless.
PEAL_HD constexpr uint64_t end_of(uint64_t offset, uint64_t bytes) {
  return bytes > kEndless - offset ? kEndless : offset + bytes;
}

}  // namespace peal
