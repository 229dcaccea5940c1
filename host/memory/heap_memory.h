// SPDX-License-Identifier: Apache-2.0
//
// What a symmetric heap consists of: memory of this PE, and which of it is dealt out, which is
// alike on all PEs. A heap begins with one segment of which nothing is dealt out; one that outlives
// a rejoin() of its job goes on from what it was, on new processes in memory of their own.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "host/memory/backing.h"
#include "host/memory/heap_block.h"

namespace peal {

struct HeapMemory {
  /// Plain words, as they travel.
  struct Segment {
    uint64_t number;  // 0: the first
    HeapKind kind;
    uint64_t bytes;
  };
  struct Block {
    uint64_t segment;  // its number
    uint64_t offset;
    uint64_t bytes;  // as they were asked for
  };

  std::vector<Segment> segments;  // the first one first
  std::vector<Block> blocks;      // but for the runtime's own, in the order of their allocation
  uint64_t grown = 0;             // segments that there have been beside the first
  bool zeroed = false;            // all of the memory
  std::vector<std::shared_ptr<Backing>> memory;  // by segment

  /// Nothing of it is dealt out; it is zero.
  static HeapMemory fresh(Backing backing) {
    HeapMemory heap;
    heap.zeroed = true;
    heap.segments.push_back({0, HeapKind::kDevice, backing.bytes()});
    heap.memory.push_back(std::make_shared<Backing>(std::move(backing)));
    return heap;
  }

  /// All but the memory.
  std::vector<uint64_t> words() const;
  static HeapMemory from_words(std::span<const uint64_t> words);
};

}  // namespace peal
