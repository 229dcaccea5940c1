// SPDX-License-Identifier: Apache-2.0
//
// One access as a cell of the shadow remembers it, in a word: which of the granule's 8 bytes, by
// which PE, when by that PE's stamps, from which site. 0 is no access.
#pragma once

#include <cstdint>

namespace peal::checking {

/// Bytes of memory that a cell is about.
inline constexpr uint64_t kGranule = 8;
/// Accesses that a cell remembers.
inline constexpr int kSlots = 4;
/// PEs of a host that are told apart.
inline constexpr int kMaxPes = 64;
/// A PE that has released so often is no longer looked at.
inline constexpr uint32_t kMaxStamp = (1u << 31) - 2;

struct ShadowSlot {
  uint64_t bits = 0;

  static constexpr uint64_t kMask = 0xff;  // bytes of the granule
  static constexpr uint64_t kWrite = 1 << 8;
  static constexpr uint64_t kWord = 1 << 9;    // p, g, signals, atomics: never torn, and no race
                                               // with one another
  static constexpr uint64_t kSmall = 1 << 10;  // a put that is never torn: no race with words

  static ShadowSlot of(uint64_t flags, int pe, uint16_t site, uint32_t stamp) {
    return {flags | static_cast<uint64_t>(pe) << 11 | uint64_t{site} << 17 | uint64_t{stamp} << 33};
  }
  ShadowSlot with(uint64_t mask) const { return {bits | mask}; }

  uint64_t mask() const { return bits & kMask; }
  bool write() const { return (bits & kWrite) != 0; }
  bool word() const { return (bits & kWord) != 0; }
  /// 2 for a word, 1 for a small put, 0 for anything else.
  int care() const { return word() ? 2 : (bits & kSmall) != 0 ? 1 : 0; }
  int pe() const { return static_cast<int>(bits >> 11 & 0x3f); }
  uint16_t site() const { return static_cast<uint16_t>(bits >> 17); }
  uint32_t stamp() const { return static_cast<uint32_t>(bits >> 33); }
};

}  // namespace peal::checking
