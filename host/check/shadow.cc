// SPDX-License-Identifier: Apache-2.0
#include "host/check/shadow.h"

#include <algorithm>

namespace peal::checking {
namespace {

// So many granules at each end of a range are updated atomically, so that a conflict of two PEs at
// the same moment is found there. In between, each cell is read and then written.
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

constexpr uint64_t kGranules = kChunk / kGranule;

std::atomic<uint64_t>* cells_of(const HeapShadow& shadow, uint64_t chunk) {
  return shadow.cells + chunk * kGranules * kSlots;
}

bool change(Chunk& chunk, uint64_t& state, Chunk::Phase to) {
  const uint64_t next = (state & ~uint64_t{3}) + 4 + to;
  if (!chunk.state.compare_exchange_strong(state, next)) return false;
  state = next;
  return true;
}

// To be called after an entry into a cell. If kUsed is set already, whoever sets kClearing later
// sees the entry.
void mark_used(Chunk& chunk) {
  uint64_t state = chunk.state.load();
  while (Chunk::phase(state) != Chunk::kUsed && !change(chunk, state, Chunk::kUsed)) {
  }
}

// What `mine` finds in each slot of a cell: bits by slot.
struct Verdict {
  unsigned conflicts = 0;
  unsigned stale = 0;  // `mine` stands for them
  bool empty = true;   // but for those
};

Verdict judge(const Cell& cell, ShadowSlot mine, const Known& known) {
  Verdict verdict;
  for (size_t i = 0; i < kSlots; ++i) {
    const ShadowSlot slot{cell[i]};
    if (slot.bits == 0) continue;
    if (conflict(slot, mine, known)) verdict.conflicts |= 1u << i;
    if (stands_for(mine, slot, known)) {
      verdict.stale |= 1u << i;
    } else {
      verdict.empty = false;
    }
  }
  return verdict;
}

// What `mine` conflicts with in the cells of a chunk. Those accesses that it stands for leave. True
// if there is no other. Neighbours usually look alike.
bool look_at_cells(const HeapShadow& shadow, uint64_t number, ShadowSlot mine, const Known& known,
                   Conflicts& found) {
  Cell before{};
  Verdict verdict;
  bool empty = true;
  for (uint64_t i = 0; i < kGranules; ++i) {
    std::atomic<uint64_t>* const cell = cells_of(shadow, number) + i * kSlots;
    Cell now = load(cell);
    if (!same(now, before)) {
      before = now;
      verdict = judge(now, mine, known);
      empty = empty && verdict.empty;
    }
    if ((verdict.conflicts | verdict.stale) == 0) continue;
    if (verdict.conflicts != 0) look(now, mine, known, number * kGranules + i, found);
    for (size_t at = 0; at < kSlots; ++at) {
      if ((verdict.stale >> at & 1) != 0) cell[at].compare_exchange_strong(now[at], 0);
    }
  }
  return empty;
}

// Once the cells are empty the next access to the whole need not look.
void look_at_parts(const HeapShadow& shadow, uint64_t number, ShadowSlot mine, const Known& known,
                   Conflicts& found) {
  Chunk& chunk = shadow.chunks[number];
  uint64_t state = chunk.state.load();
  if (Chunk::phase(state) == Chunk::kEmpty) return;
  const bool clears = Chunk::phase(state) == Chunk::kUsed && change(chunk, state, Chunk::kClearing);
  const bool empty = look_at_cells(shadow, number, mine, known, found);
  // Fails if a part was entered meanwhile, which says kUsed.
  if (clears) change(chunk, state, empty ? Chunk::kEmpty : Chunk::kUsed);
}

void access_whole(const HeapShadow& shadow, uint64_t number, ShadowSlot mine, const Known& known,
                  Conflicts& found) {
  const Cell others = enter(shadow.chunks[number].whole, mine, known);
  for (const uint64_t bits : others) {
    if (!conflict(ShadowSlot{bits}, mine, known)) continue;
    found.add({ShadowSlot{bits}, number * kChunk, (number + 1) * kChunk});
  }
  look_at_parts(shadow, number, mine, known, found);
}

void access_part(const HeapShadow& shadow, uint64_t begin, uint64_t end, ShadowSlot mine,
                 const Known& known, Conflicts& found) {
  access(shadow.cells, begin, end, mine, known, found);
  Chunk& chunk = shadow.chunks[begin / kChunk];
  mark_used(chunk);
  const ShadowSlot any = mine.with(ShadowSlot::kMask);
  for (const uint64_t bits : load(chunk.whole, std::memory_order_seq_cst)) {
    if (conflict(ShadowSlot{bits}, any, known)) found.add({ShadowSlot{bits}, begin, end});
  }
}

// From here on the accesses to all of a chunk are accesses to each of its granules. Where a cell is
// full they are forgotten.
void split(const HeapShadow& shadow, uint64_t number) {
  Chunk& chunk = shadow.chunks[number];
  Cell whole = load(chunk.whole);
  if (whole == Cell{}) return;
  for (uint64_t i = 0; i < kGranules * kSlots; i += kSlots) {
    std::atomic<uint64_t>* const cell = cells_of(shadow, number) + i;
    for (const uint64_t bits : whole) {
      for (size_t at = 0; at < kSlots && bits != 0; ++at) {
        uint64_t none = 0;
        if (cell[at].compare_exchange_strong(none, bits)) break;
      }
    }
  }
  mark_used(chunk);
  for (size_t at = 0; at < kSlots; ++at) chunk.whole[at].compare_exchange_strong(whole[at], 0);
}

void forget_whole(const HeapShadow& shadow, uint64_t number) {
  Chunk& chunk = shadow.chunks[number];
  for (std::atomic<uint64_t>& slot : chunk.whole) {
    if (slot.load(std::memory_order_relaxed) != 0) slot.store(0, std::memory_order_relaxed);
  }
  uint64_t state = chunk.state.load();
  if (Chunk::phase(state) == Chunk::kEmpty) return;
  const bool clears = change(chunk, state, Chunk::kClearing);
  forget(shadow.cells, number * kChunk, (number + 1) * kChunk);
  if (clears) change(chunk, state, Chunk::kEmpty);
}

// Calls part(from, to) and whole(chunk) for what [begin, end) consists of.
template <class Part, class Whole>
void for_each(uint64_t begin, uint64_t end, const Part& part, const Whole& whole) {
  for (uint64_t from = begin; from < end;) {
    const uint64_t chunk = from / kChunk;
    const uint64_t to = std::min(end, (chunk + 1) * kChunk);
    if (to - from == kChunk) {
      whole(chunk);
    } else {
      part(from, to);
    }
    from = to;
  }
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

void access(const HeapShadow& shadow, uint64_t begin, uint64_t end, ShadowSlot mine,
            const Known& known, Conflicts& found) {
  const ShadowSlot all = mine.with(ShadowSlot::kMask);
  for_each(
      begin, end,
      [&](uint64_t from, uint64_t to) { access_part(shadow, from, to, mine, known, found); },
      [&](uint64_t chunk) { access_whole(shadow, chunk, all, known, found); });
}

uint64_t writers_of_data(const HeapShadow& shadow, uint64_t offset) {
  return writers_in(load(shadow.chunks[offset / kChunk].whole)) |
         writers_of_data(shadow.cells, offset);
}

void forget(const HeapShadow& shadow, uint64_t begin, uint64_t end) {
  const auto forget_part = [&](uint64_t from, uint64_t to) {
    split(shadow, from / kChunk);
    forget(shadow.cells, from, to);
  };
  for_each(begin, end, forget_part, [&](uint64_t chunk) { forget_whole(shadow, chunk); });
}

}  // namespace peal::checking
