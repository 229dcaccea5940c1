// SPDX-License-Identifier: Apache-2.0
#include "host/check/shadow.h"

#include <algorithm>

namespace peal::checking {
namespace {

// So many granules at the ends of a range are accessed with care: what two PEs do there at the same
// moment is found. In between, each cell is read and then written.
constexpr uint64_t kWithCare = 8;

// Neighbours usually look alike: what was found out about one cell holds for the next.
void access_run(std::atomic<uint64_t>* cells, uint64_t first, uint64_t end, ShadowSlot mine,
                const Known& known, Conflicts& found) {
  Cell before{};
  int at = 0;
  bool clean = false;
  for (uint64_t granule = first; granule < end; ++granule) {
    std::atomic<uint64_t>* const cell = cells + granule * kSlots;
    const Cell now = load(cell);
    if (!clean || !same(now, before)) {
      before = now;
      at = place_in(now, mine, known);
      const auto meets = [&](uint64_t bits) { return conflict(ShadowSlot{bits}, mine, known); };
      clean = std::none_of(now.begin(), now.end(), meets);
      if (!clean) look(now, mine, known, granule, found);
    }
    cell[at].store(mine.bits, std::memory_order_relaxed);
  }
  std::atomic_thread_fence(std::memory_order_seq_cst);  // before what the caller looks at next
}

}  // namespace

void Conflicts::add(const Conflict& conflict) {
  for (int i = 0; i < count; ++i) {
    Conflict& known = list[static_cast<size_t>(i)];
    if (known.other.site() != conflict.other.site()) continue;
    known.begin = std::min(known.begin, conflict.begin);
    known.end = std::max(known.end, conflict.end);
    return;
  }
  if (count < kMax) list[static_cast<size_t>(count++)] = conflict;
}

void look(const Cell& cell, ShadowSlot mine, const Known& known, uint64_t granule,
          Conflicts& found) {
  for (const uint64_t bits : cell) {
    const ShadowSlot slot{bits};
    if (!conflict(slot, mine, known)) continue;
    const uint64_t both = slot.mask() & mine.mask();
    const auto first = static_cast<uint64_t>(__builtin_ctzll(both));
    const auto last = static_cast<uint64_t>(63 - __builtin_clzll(both));
    found.add({slot, granule * kGranule + first, granule * kGranule + last + 1});
  }
}

void access(std::atomic<uint64_t>* cells, uint64_t begin, uint64_t end, ShadowSlot mine,
            const Known& known, Conflicts& found) {
  if (begin >= end) return;
  const uint64_t first = begin / kGranule;
  const uint64_t last = (end - 1) / kGranule;
  const auto one = [&](uint64_t granule) {
    const uint64_t base = granule * kGranule;
    const uint64_t from = begin > base ? begin - base : 0;
    const uint64_t to = std::min(end - base, kGranule);
    const uint64_t mask = (uint64_t{0xff} >> (kGranule - (to - from))) << from;
    const ShadowSlot here = mine.with(mask);
    look(enter(cells + granule * kSlots, here, known), here, known, granule, found);
  };
  if (last - first < 2 * kWithCare) {
    for (uint64_t granule = first; granule <= last; ++granule) one(granule);
    return;
  }
  for (uint64_t i = 0; i < kWithCare; ++i) one(first + i);
  access_run(cells, first + kWithCare, last + 1 - kWithCare, mine.with(ShadowSlot::kMask), known,
             found);
  for (uint64_t i = kWithCare; i-- > 0;) one(last - i);
}

uint64_t writers_in(const Cell& cell) {
  uint64_t pes = 0;
  for (const uint64_t bits : cell) {
    const ShadowSlot slot{bits};
    if (bits != 0 && slot.write() && !slot.word()) pes |= uint64_t{1} << slot.pe();
  }
  return pes;
}

uint64_t writers_of_data(const std::atomic<uint64_t>* cells, uint64_t offset) {
  return writers_in(load(cells + offset / kGranule * kSlots));
}

void forget(std::atomic<uint64_t>* cells, uint64_t begin, uint64_t end) {
  for (uint64_t i = begin / kGranule * kSlots; i < (end + kGranule - 1) / kGranule * kSlots; ++i) {
    if (cells[i].load(std::memory_order_relaxed) != 0) cells[i].store(0, std::memory_order_relaxed);
  }
}

}  // namespace peal::checking
