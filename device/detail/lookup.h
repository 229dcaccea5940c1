// SPDX-License-Identifier: Apache-2.0
//
// The look-up: from the address and the PE that a call names to where that is. The address is one
// of this PE's memory, or names a window by its number (device/window.h). What is near, mapped and
// of one of the kNearPes PEs that a context holds itself, comes first:
//
//   find_near()         heap of a near PE               in the context
//   find_near_window()  near window, by its number      a line of the table
//                       near window, by its address     a line of WindowIndex, which another names
//   find_symmetric()    heap                            in the context
//                       window, by its number           an entry of the table
//                       window, by its address          the entry that WindowIndex says; else all
#pragma once

#include <cstdint>

#include "device/base/order.h"
#include "device/context.h"
#include "device/detail/asked.h"
#include "device/window.h"

namespace peal::detail {

// ---- ranges

PEAL_HD uint64_t offset_in(const Window& w, const void* address) {
  return static_cast<uint64_t>(static_cast<const std::byte*>(address) - w.base);
}

/// True if [offset, offset + bytes) is within the first `size` bytes.
PEAL_HD bool within(uint64_t offset, uint64_t bytes, uint64_t size) {
  return (bytes <= size) & (offset <= size - bytes);
}

/// True if the heap of this PE holds [address, address + bytes).
PEAL_HD bool in_heap(const ContextFields& ctx, const void* address, uint64_t bytes) {
  return within(offset_in(ctx.heap, address), bytes, ctx.heap.bytes);
}

/// True if all PEs registered the window: it can be the remote end of a transfer.
PEAL_HD bool symmetric(const Window& w) { return w.rkeys != nullptr || w.direct != nullptr; }

/// What `pe` has of the window.
PEAL_HD WindowPart part_of(const Window& w, int pe) {
  return w.parts == nullptr ? WindowPart{w.iova, w.bytes} : w.parts[pe];
}

// ---- near heaps

/// The number of a PE among the near ones. Other PEs have kNearPes or more.
PEAL_HD uint32_t near_slot(const ContextFields& ctx, int pe) {
  return static_cast<uint32_t>(pe) - static_cast<uint32_t>(ctx.near_first);
}

/// Where a range is mapped here, if `here`; and what the look for it has found out.
struct Near {
  std::byte* address;
  bool here;
  bool in_heap = false;
  bool mapped = false;       // the PE is near, and its heap is mapped
  uint32_t slot = kNearPes;  // near_slot()
};

/// Looks for a range of the heap of a PE among the mapped heaps that the context holds: the usual
/// case of peers on one machine, in as few instructions as it takes.
PEAL_HD Near find_near(const ContextFields& ctx, const Asked& asked) {
  const uint32_t slot = near_slot(ctx, asked.pe);
  // Looked up before it is known to be right: the look-up takes as long as finding out.
  std::byte* const near = ctx.near[slot % kNearPes];
  const bool mapped = (slot < kNearPes) & (near != nullptr);
  const bool inside = in_heap(ctx, asked.address, asked.bytes);
  const uint64_t at = reinterpret_cast<uint64_t>(near) + offset_in(ctx.heap, asked.address);
  const bool aligned = !misaligned(asked);
  const bool here = mapped & inside & aligned;
  return {reinterpret_cast<std::byte*>(at), here, inside, mapped, slot};
}

/// Where the heap of a PE that is not near is mapped here, or null.
PEAL_HD std::byte* far_heap_of(const ContextFields& ctx, int pe) {
  return ctx.heap.direct == nullptr ? nullptr : ctx.heap.direct[pe];
}

/// Where the heap of `pe` is mapped here, or null.
PEAL_HD std::byte* heap_of(const ContextFields& ctx, int pe) {
  const uint32_t slot = near_slot(ctx, pe);
  return slot < kNearPes ? ctx.near[slot] : far_heap_of(ctx, pe);
}

/// heap_of(ctx, pe) == nullptr for an existing PE, by what find_near() answered.
PEAL_HD bool lacks_heap(const ContextFields& ctx, int pe, const Near& near) {
  return !near.mapped && (near.slot < kNearPes || far_heap_of(ctx, pe) == nullptr);
}

// ---- near windows

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
  const Line published = load_line_stale(&table->published);
  const auto drop = static_cast<uint32_t>(published.word[1] >> 32);
  const uint64_t granule = reinterpret_cast<uint64_t>(address) >> (published.word[1] & 63);
  return {reinterpret_cast<const WindowIndex*>(published.word[0]), granule,
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

/// Looks among near windows for a range that find_near() did not find, and answered `near`. Goes on
/// by found(address), or by missed(). A hit goes on from where it is: to bring hits together takes
/// a third as long as a look-up. The first-level cache may have all that is loaded.
template <class Found, class Missed>
PEAL_DEVICE auto find_near_window(const ContextFields& ctx, const Asked& asked, const Near& near,
                                  const Found& found, const Missed& missed) {
  if (names_window(asked.address)) {
    const AtHand at = near_by_number(ctx.windows, asked, near.slot);
    if (at.here) return found(at.address);
  } else if (near.mapped) {
    IndexPlace place = place_in_index(ctx.windows, asked.address);
    PEAL_NO_UNROLL
    for (uint32_t left = place.near_probes(); left > 0; --left) {
      const AtHand at = near_by_address(place, asked, near.slot);
      if (at.here) return found(at.address);
      place.step();
    }
  }
  return missed();
}

// ---- the table

enum class Side { kHome, kPeer };

/// What a call names: a window, null if there is none, and from which byte on.
struct WindowOffset {
  const Window* window;
  uint64_t offset;
};

/// The number of the window that WindowIndex knows for an address, or 0.
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
/// only one that all PEs registered. Where the address names a window, the caller checks the end.
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

/// The place that the range has at `asked.pe`, in a window that all PEs registered; a window of
/// null if it has none.
PEAL_HD WindowOffset find_symmetric(const ContextFields& ctx, const Asked& asked) {
  if (in_heap(ctx, asked.address, asked.bytes)) {
    return {&ctx.heap, offset_in(ctx.heap, asked.address)};
  }
  const WindowOffset place = find_window(ctx.windows, asked.address, asked.bytes, Side::kPeer);
  const bool whole = place.window != nullptr &&
                     within(place.offset, asked.bytes, part_of(*place.window, asked.pe).bytes);
  return whole ? place : WindowOffset{nullptr, 0};
}

/// Where the range is mapped here, near or not; null if it is not, or if there is no such range.
PEAL_DEVICE void* find_mapped(const ContextFields& ctx, const Asked& asked) {
  if (asked.pe < 0 || asked.pe >= ctx.n_pes) return nullptr;
  const auto [w, offset] = find_symmetric(ctx, asked);
  if (w == nullptr || w->direct == nullptr || w->direct[asked.pe] == nullptr) return nullptr;
  return w->direct[asked.pe] + offset;
}

}  // namespace peal::detail
