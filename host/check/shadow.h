// SPDX-License-Identifier: Apache-2.0
//
// The last accesses to each granule of a heap, by all PEs of the host, without locks: an access
// looks for earlier ones that conflict with it and are not ordered before it, and leaves itself.
// HeapShadow has those to whole chunks of the heap besides, in two levels:
//
//   heap      | 1024 bytes                | 1024 bytes                | ..
//   chunks    | whole, state              | ..                             64 bytes each
//   cells     | 128 cells: parts          | ..                           4096 bytes each
//
// A cell remembers kSlots accesses. Where there are more, later ones displace earlier ones and a
// conflict with those is not found; none is made up.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>

#include "host/check/cell.h"

namespace peal::checking {

/// An earlier access and where it meets the later one, as offsets in the heap.
struct Conflict {
  ShadowSlot other;
  uint64_t begin;
  uint64_t end;
};

struct Conflicts {
  static constexpr int kMax = 4;  // of one access; more are dropped
  std::array<Conflict, kMax> list{};
  int count = 0;

  void add(const Conflict& found);
};

/// Bytes [begin, end) of a heap whose cells are `cells`, accessed by `mine`, which has no mask yet.
void access(std::atomic<uint64_t>* cells, uint64_t begin, uint64_t end, ShadowSlot mine,
            const Known& known, Conflicts& found);

/// What of a granule's cell conflicts with `mine`.
void look(const Cell& cell, ShadowSlot mine, const Known& known, uint64_t granule,
          Conflicts& found);

/// PEs of a cell's writes by other than words (Slot::kWord), a bit for each.
uint64_t writers_in(const Cell& cell);
/// PEs that wrote a granule by other than words (Slot::kWord), a bit for each.
uint64_t writers_of_data(const std::atomic<uint64_t>* cells, uint64_t offset);

/// Forgets all accesses to [begin, end).
void forget(std::atomic<uint64_t>* cells, uint64_t begin, uint64_t end);

/// Bytes of memory that a chunk is about. Its cells fill a page.
inline constexpr uint64_t kChunk = 1024;

struct alignas(64) Chunk {
  enum Phase : uint64_t {
    kEmpty,     // no cell has an access
    kUsed,      // a cell may have one
    kClearing,  // so it is, and somebody is finding out
  };
  std::atomic<uint64_t> whole[kSlots];  // a cell of accesses to all of its bytes
  std::atomic<uint64_t> state;          // a phase in the last 2 bits; the others count its changes

  static Phase phase(uint64_t state) { return static_cast<Phase>(state & 3); }
};
static_assert(sizeof(Chunk) == 64);

/// An access to a whole chunk is one slot of the chunk, one to a part of it lies in the cells of
/// its granules, so a later one looks at both. It is left at its own level before it looks at the
/// other one: of two at a time one sees the other. A chunk knows whether its cells are empty; if
/// they are, an access to all of it looks at none of them.
struct HeapShadow {
  std::atomic<uint64_t>* cells;
  Chunk* chunks;
};

/// Bytes [begin, end) of the heap, accessed by `mine`, which has no mask yet.
void access(const HeapShadow& shadow, uint64_t begin, uint64_t end, ShadowSlot mine,
            const Known& known, Conflicts& found);

/// PEs that wrote a granule by other than words (Slot::kWord), a bit for each.
uint64_t writers_of_data(const HeapShadow& shadow, uint64_t offset);

/// Forgets all accesses to [begin, end).
void forget(const HeapShadow& shadow, uint64_t begin, uint64_t end);

}  // namespace peal::checking
