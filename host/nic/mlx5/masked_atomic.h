// SPDX-License-Identifier: Apache-2.0
//
// What a masked atomic of mlx5 does to a word, as arithmetic: for NICs that cannot, where it is
// done by compare-and-swap on the 8 aligned bytes that the word lies in.
//
//   8 bytes in memory   [ low half, bits 0..31 | high half, bits 32..63 ]     little-endian
#pragma once

#include <cstdint>

namespace peal {

/// A masked compare-swap or fetch-add on 4 or 8 bytes. Operands of 4 bytes lie in the low halves.
struct MaskedAtomic {
  enum class Kind : uint8_t { kCompareSwap, kFetchAdd };

  Kind kind;
  uint8_t bytes;     // 4 or 8
  uint64_t operand;  // to swap in, or to add
  uint64_t compare;
  uint64_t swap_mask;
  uint64_t compare_mask;
  uint64_t boundary;  // a set bit i: no carry goes from bit i to bit i + 1

  /// What becomes of a word of `bytes` bytes that holds `old`.
  uint64_t apply(uint64_t old) const {
    if (kind == Kind::kCompareSwap) {
      if (((old ^ compare) & compare_mask) != 0) return old;
      return (old & ~swap_mask) | (operand & swap_mask);
    }
    const uint64_t sum = add_in_fields(old, operand);
    return bytes == 4 ? sum & 0xffffffff : sum;
  }

  /// The word at `address` within the 8 aligned bytes around it, which hold `around`.
  uint64_t word_in(uint64_t around, uint64_t address) const {
    return bytes == 8 ? around : around >> shift_of(address) & 0xffffffff;
  }

  /// Those 8 bytes with the word done.
  uint64_t apply_around(uint64_t around, uint64_t address) const {
    if (bytes == 8) return apply(around);
    const uint32_t shift = shift_of(address);
    const uint64_t word = apply(around >> shift & 0xffffffff);
    return (around & ~(uint64_t{0xffffffff} << shift)) | word << shift;
  }

 private:
  static uint32_t shift_of(uint64_t address) { return (address & 4) != 0 ? 32 : 0; }

  /// Adds field by field. Without its top bit a field's sum cannot carry out of it; the top bit is
  /// put in afterwards, as a sum without carry.
  uint64_t add_in_fields(uint64_t a, uint64_t b) const {
    const uint64_t below = ~boundary;
    return ((a & below) + (b & below)) ^ ((a ^ b) & boundary);
  }
};

}  // namespace peal
