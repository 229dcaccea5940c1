// SPDX-License-Identifier: Apache-2.0
//
// From an address to the window that holds it, and to where that lies at a PE. An address is one of
// this PE's memory, or names a window by its number (device/window.h).
//
//   heap          no look-up: a context has it
//   near part     a line by the window's number or by the address's slot of WindowIndex; else
//   number        an entry of the table
//   address       by WindowIndex an entry of the table, which is checked; else all entries
#pragma once

#include <cstdint>

#include "device/base/order.h"
#include "device/context.h"
#include "device/detail/refuse.h"
#include "device/window.h"

namespace peal::detail {

PEAL_HD uint64_t offset_in(const Window& w, const void* address) {
  return static_cast<uint64_t>(static_cast<const std::byte*>(address) - w.base);
}

/// True if [offset, offset + bytes) is within the first `size` bytes.
PEAL_HD bool within(uint64_t offset, uint64_t bytes, uint64_t size) {
  return (bytes <= size) & (offset <= size - bytes);
}

/// True if the part of this PE holds [address, address + bytes).
PEAL_HD bool holds_range(const Window& w, const void* address, uint64_t bytes) {
  return within(offset_in(w, address), bytes, w.bytes);
}

/// True if all PEs registered the window: it can be the far side of a transfer.
PEAL_HD bool symmetric(const Window& w) { return w.rkeys != nullptr || w.direct != nullptr; }

/// What `pe` has of the window.
PEAL_HD WindowPart part_of(const Window& w, int pe) {
  return w.parts == nullptr ? WindowPart{w.iova, w.bytes} : w.parts[pe];
}

enum class Side { kHome, kPeer };

/// What a call names: a window, null if there is none, and from which byte on.
struct WindowOffset {
  const Window* window;
  uint64_t offset;
};

PEAL_HD uint64_t unmarked(uint64_t word) { return word & ((uint64_t{1} << kMarkShift) - 1); }
PEAL_HD bool same_mark(uint64_t one, uint64_t other) { return (one ^ other) >> kMarkShift == 0; }

/// Where a range is mapped here, if `here`; else its window's entry may know.
struct AtHand {
  std::byte* address;
  bool here;
};

/// If it is as aligned as it must be.
PEAL_HD AtHand at_hand(uint64_t at, bool here, const Asked& asked) {
  return {reinterpret_cast<std::byte*>(at), here && (!asked.aligned || at % asked.bytes == 0)};
}

/// Looks at the near line of the window that an address names, for the near PE `slot`. One load.
PEAL_HD AtHand near_by_number(const WindowTable* table, const Asked& asked, uint32_t slot) {
  const uint32_t number = window_number(asked.address) % kMaxWindows;
  const uint64_t offset = window_offset(asked.address);
  const Line near = load_line_stale(&table->near[slot % kNearPes][number]);
  const uint64_t limit = unmarked(near.word[0]);
  const bool whole = same_mark(near.word[0], near.word[1]);
  const bool here =
      (slot < kNearPes) & (asked.bytes <= kOffsetMask) & (offset + asked.bytes < limit) & whole;
  return at_hand(unmarked(near.word[1]) + offset, here, asked);
}

/// Where a search of the index for an address is; `index` is null where there is none.
struct IndexPlace {
  const WindowIndex* index;
  uint64_t granule;
  uint32_t slot;
  uint32_t mask;

  /// Near lines that are worth a look.
  PEAL_HD uint32_t near_probes() const { return index == nullptr ? 0 : WindowIndex::kNearProbes; }
  PEAL_HD void step() { slot = (slot + 1) & mask; }
};
PEAL_HD IndexPlace place_in_index(const WindowTable* table, const void* address) {
  const Line shown = load_line_stale(&table->shown);
  const auto drop = static_cast<uint32_t>(shown.word[1] >> 32);
  const uint64_t granule = reinterpret_cast<uint64_t>(address) >> (shown.word[1] & 63);
  return {reinterpret_cast<const WindowIndex*>(shown.word[0]), granule,
          WindowIndex::first_slot(granule, drop), ~uint32_t{0} >> drop};
}

/// Looks at the near line at a place, for the near PE `slot`, which there is. One load behind that
/// of the place.
PEAL_HD AtHand near_by_address(const IndexPlace& place, const Asked& asked, uint32_t slot) {
  const auto at = reinterpret_cast<uint64_t>(asked.address);
  const WindowNearAt& near = place.index->near[place.slot];
  const Line part = load_line_stale(&near);
  const uint64_t apart = load_stale(&near.apart[slot]);
  const uint64_t begin = unmarked(part.word[0]);
  const uint64_t limit = unmarked(part.word[1]);
  const bool line = same_mark(part.word[0], part.word[1]);
  const bool whole = same_mark(part.word[0], apart);
  const bool here =
      (at >= begin) & (asked.bytes <= kOffsetMask) & (at + asked.bytes < limit) & line & whole;
  return at_hand(unmarked(at + apart), here, asked);
}

/// The window that WindowIndex knows for an address, or 0.
PEAL_HD uint32_t hinted(const WindowTable* table, const void* address, Side side) {
  const auto at = reinterpret_cast<uint64_t>(address);
  IndexPlace place = place_in_index(table, address);
  const WindowIndex* const index = place.index;
  if (index == nullptr) return 0;
  Line found = load_line_stale(&index->slot[place.slot]);
  for (uint32_t probe = 1; found.word[0] != place.granule; ++probe) {
    if (found.word[1] >> 32 == 0 || probe == WindowIndex::kProbes) return 0;
    place.step();
    found = load_line_stale(&index->slot[place.slot]);
  }
  // The last span that does not begin behind the address.
  auto first = static_cast<uint32_t>(found.word[1]);
  for (auto count = static_cast<uint32_t>(found.word[1] >> 32); count > 1;) {
    const uint32_t half = count / 2;
    const bool behind = load_line_stale(&index->span[first + half]).word[0] > at;
    first += behind ? 0 : half;
    count = behind ? half : count - half;
  }
  const Line span = load_line_stale(&index->span[first]);
  if (span.word[0] > at) return 0;
  return static_cast<uint32_t>(side == Side::kPeer ? span.word[1] >> 32 : span.word[1]);
}

/// Where entry `number` ends if it holds the range, else 0; for a peer only where all PEs
/// registered it. The rest of an entry is read only then: the host may be filling in another.
PEAL_HD uint64_t end_if_holds(const WindowTable* table, uint32_t number, const void* address,
                              uint64_t bytes, Side side) {
  const Window& w = table->window[number];
  const Line part = load_line_stale(&w);
  const auto begin = reinterpret_cast<uint64_t>(address) - part.word[0];
  const bool holds = part.word[0] != 0 && within(begin, bytes, part.word[1]) &&
                     (side == Side::kHome || symmetric(w));
  return holds ? part.word[0] + part.word[1] : 0;
}

/// Looks at all entries, for the one that WindowSpan says.
PEAL_HD const Window* search_windows(const WindowTable* table, const void* address, uint64_t bytes,
                                     Side side) {
  // kWindowBeforeVersion: what an entry says, and that it is one, comes before the version.
  load_acquire<Reach::kSystem, Edge::kWindowBeforeVersion>(&table->version);
  const uint32_t count = load_relaxed<Reach::kSystem>(&table->count);
  uint64_t last = 0;
  uint32_t found = 0;
  PEAL_NO_UNROLL
  for (uint32_t i = 1; i < count; ++i) {
    const uint64_t end = end_if_holds(table, i, address, bytes, side);
    if (end == 0 || end < last) continue;
    last = end;
    found = i;
  }
  return found == 0 ? nullptr : &table->window[found];
}

/// Finds the window beside the heap that holds [address, address + bytes) of this PE, at a peer
/// only one that all PEs registered. Of a range in a window by number the caller looks at the end.
PEAL_HD WindowOffset find_window(const WindowTable* table, const void* address, uint64_t bytes,
                                 Side side) {
  if (names_window(address)) {
    const uint32_t number = window_number(address);
    const Window& w = table->window[number % kMaxWindows];
    const bool named = side == Side::kPeer && number != 0 && symmetric(w);
    return {named ? &w : nullptr, window_offset(address)};
  }
  const uint32_t hint = hinted(table, address, side);
  const Window* const w = hint != 0 && end_if_holds(table, hint, address, bytes, side) != 0
                              ? &table->window[hint]
                              : search_windows(table, address, bytes, side);
  return {w, w == nullptr ? 0 : offset_in(*w, address)};
}

}  // namespace peal::detail
