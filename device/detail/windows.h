// SPDX-License-Identifier: Apache-2.0
//
// From an address to the window that holds it, and to where that lies at a PE. An address is one of
// this PE's memory, or names a window by its number (device/window.h).
//
//   heap          no look-up: a context has it
//   mapped part   WindowNear, by the window's number or the address's slot of WindowIndex; else
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
struct Place {
  const Window* window;
  uint64_t offset;
};

/// Where the range at the address, or that it names, is mapped of the part of `pe`; null if not
/// here.
PEAL_HD std::byte* reach_near(const WindowNear* near, const void* address, uint64_t bytes, int pe) {
  constexpr uint64_t kMark = (uint64_t{1} << WindowNear::kMarkBits) - 1;
  const Line part = load_line_stale(&near->begin);
  const Line mapped = load_line_stale(&near->direct);
  const uint64_t other = (part.word[0] ^ part.word[1]) | (part.word[0] ^ mapped.word[0]);
  const uint64_t begin = part.word[0] >> WindowNear::kMarkBits;
  const uint64_t offset =
      names_window(address) ? window_offset(address) : reinterpret_cast<uint64_t>(address) - begin;
  const bool holds = within(offset, bytes, part.word[1] >> WindowNear::kMarkBits);
  const auto* const direct =
      reinterpret_cast<std::byte* const*>(mapped.word[0] >> WindowNear::kMarkBits);
  if (!holds || (other & kMark) != 0 || direct == nullptr) return nullptr;
  std::byte* const begin_there = direct[pe];  // once: the host takes it away from a masked PE
  return begin_there == nullptr ? nullptr : begin_there + offset;
}

/// Where a search of the index for an address begins; `index` is null where there is none.
struct IndexPlace {
  const WindowIndex* index;
  uint64_t granule;
  uint32_t slot;
  uint32_t mask;
};
PEAL_HD IndexPlace place_in_index(const WindowTable* table, const void* address) {
  const Line shown = load_line_stale(&table->shown);
  const auto mask = static_cast<uint32_t>(shown.word[1] >> 32);
  const uint64_t granule = reinterpret_cast<uint64_t>(address) >> (shown.word[1] & 63);
  return {reinterpret_cast<const WindowIndex*>(shown.word[0]), granule,
          WindowIndex::hash(granule) & mask, mask};
}

/// Where [address, address + bytes) of the part of `pe` is mapped here; null where that takes a
/// look at the window's entry to say. Two loads that depend on one another, by address three: all
/// may hit the first-level cache.
PEAL_DEVICE_COLD inline std::byte* find_near_window(const WindowTable* table, const void* address,
                                                    uint64_t bytes, int pe) {
  if (names_window(address)) {
    return reach_near(&table->near[window_number(address) % kMaxWindows], address, bytes, pe);
  }
  IndexPlace at = place_in_index(table, address);
  if (at.index == nullptr) return nullptr;
  for (uint32_t probe = 0; probe < WindowIndex::kNearProbes; ++probe) {
    std::byte* const found = reach_near(&at.index->near[at.slot], address, bytes, pe);
    if (found != nullptr) return found;
    at.slot = (at.slot + 1) & at.mask;
  }
  return nullptr;
}

/// The window that WindowIndex knows for an address, or 0.
PEAL_HD uint32_t hinted(const WindowTable* table, const void* address, Side side) {
  const auto at = reinterpret_cast<uint64_t>(address);
  auto [index, granule, slot, mask] = place_in_index(table, address);
  if (index == nullptr) return 0;
  Line found = load_line_stale(&index->slot[slot]);
  for (uint32_t probe = 1; found.word[0] != granule; ++probe) {
    if (found.word[1] >> 32 == 0 || probe == WindowIndex::kProbes) return 0;
    slot = (slot + 1) & mask;
    found = load_line_stale(&index->slot[slot]);
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

/// True if entry `number` holds the range; for a peer only where all PEs registered it. The rest of
/// an entry is read only then: the host may be filling in another.
PEAL_HD bool entry_holds(const WindowTable* table, uint32_t number, const void* address,
                         uint64_t bytes, Side side) {
  const Window& w = table->window[number];
  const Line part = load_line_stale(&w);
  const auto begin = reinterpret_cast<uint64_t>(address) - part.word[0];
  return part.word[0] != 0 && within(begin, bytes, part.word[1]) &&
         (side == Side::kHome || symmetric(w));
}

/// Looks at all entries.
PEAL_HD const Window* search_windows(const WindowTable* table, const void* address, uint64_t bytes,
                                     Side side) {
  // Edge M13: what an entry says, and that it is one, comes before the version.
  load_acquire<Reach::kSystem, Edge::kM13>(&table->version);
  const uint32_t count = load_relaxed<Reach::kSystem>(&table->count);
  for (uint32_t i = 1; i < count; ++i) {
    if (entry_holds(table, i, address, bytes, side)) return &table->window[i];
  }
  return nullptr;
}

/// Finds the window beside the heap that holds [address, address + bytes) of this PE, at a peer
/// only one that all PEs registered. Of a range in a window by number the caller looks at the end.
PEAL_HD Place find_window(const WindowTable* table, const void* address, uint64_t bytes,
                          Side side) {
  if (names_window(address)) {
    const uint32_t number = window_number(address);
    const Window& w = table->window[number % kMaxWindows];
    const bool named = side == Side::kPeer && number != 0 && symmetric(w);
    return {named ? &w : nullptr, window_offset(address)};
  }
  const uint32_t hint = hinted(table, address, side);
  const Window* const w = hint != 0 && entry_holds(table, hint, address, bytes, side)
                              ? &table->window[hint]
                              : search_windows(table, address, bytes, side);
  return {w, w == nullptr ? 0 : offset_in(*w, address)};
}

}  // namespace peal::detail
