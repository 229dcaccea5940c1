// SPDX-License-Identifier: Apache-2.0
//
// A cell remembers kSlots accesses to the same memory: to a granule, or to all of a chunk. Which of
// two accesses conflict, which one stands for another, and how one is entered without locks.
#pragma once

#include <array>
#include <atomic>
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

/// One access, in a word: which of the granule's 8 bytes, by which PE, when by that PE's stamps,
/// from which site. 0 is no access.
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

/// Which earlier accesses to memory of `owner` are ordered before a new access: those of PE p whose
/// stamp is at most done[p], or transferred[p] if they are transfers.
struct Known {
  int owner = 0;
  std::array<uint32_t, kMaxPes> done{};
  std::array<uint32_t, kMaxPes> transferred{};

  bool covers(const ShadowSlot& slot) const {
    const auto pe = static_cast<size_t>(slot.pe());
    const bool transfer = slot.write() && slot.pe() != owner;
    return slot.stamp() <= (transfer ? transferred[pe] : done[pe]);
  }
};

using Cell = std::array<uint64_t, kSlots>;

// Word by word: vectors would wait for the words to have been stored.
inline Cell load(const std::atomic<uint64_t>* cell,
                 std::memory_order order = std::memory_order_relaxed) {
  static_assert(kSlots == 4);
  return {cell[0].load(order), cell[1].load(order), cell[2].load(order), cell[3].load(order)};
}

inline bool same(const Cell& one, const Cell& other) {
  return one[0] == other[0] && one[1] == other[1] && one[2] == other[2] && one[3] == other[3];
}

/// True if `earlier` touches the same bytes and nothing orders it before `mine`.
inline bool conflict(ShadowSlot earlier, ShadowSlot mine, const Known& known) {
  return (earlier.mask() & mine.mask()) != 0 && earlier.pe() != mine.pe() &&
         (earlier.write() || mine.write()) && earlier.care() + mine.care() < 3 &&
         !known.covers(earlier);
}

/// True if `earlier` may be forgotten once `mine` is kept: every later access that would conflict
/// with `earlier` would conflict with `mine` as well.
inline bool stands_for(ShadowSlot mine, ShadowSlot earlier, const Known& known) {
  if ((earlier.mask() & ~mine.mask()) != 0) return false;
  if (earlier.write() && !mine.write()) return false;
  if (earlier.care() < mine.care()) return false;
  return earlier.pe() == mine.pe() || known.covers(earlier);
}

/// The slot that `mine` goes to.
int place_in(const Cell& cell, ShadowSlot mine, const Known& known);

/// Leaves `mine` in the cell; what else was there. Of two PEs that do this at a time one at least
/// sees the other, and neither overwrites what it has not seen.
Cell enter(std::atomic<uint64_t>* cell, ShadowSlot mine, const Known& known);

}  // namespace peal::checking
