// SPDX-License-Identifier: Apache-2.0
//
// The last accesses to a heap, by all PEs of the host, in two levels: an access to a whole chunk is
// one slot of the chunk, one to a part of it lies in the cells of its granules (shadow.h).
//
//   heap      | 1024 bytes                | 1024 bytes                | ..
//   chunks    | whole, state              | ..                             64 bytes each
//   cells     | 128 cells: parts          | ..                           4096 bytes each
//
// An earlier access lies in one of the levels, so a later one looks at both. It is left at its own
// level before it looks at the other one: of two at a time one sees the other. A chunk knows
// whether its cells are empty; if they are, an access to all of it looks at none of them.
#pragma once

#include <atomic>
#include <cstdint>

#include "host/check/shadow.h"

namespace peal::checking {

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
