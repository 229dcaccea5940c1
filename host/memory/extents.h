// SPDX-License-Identifier: Apache-2.0
//
// Which bytes of the symmetric heap are allocated, as checked mode looks it up for every call of a
// kernel (device/detail/mistakes.h): a byte for each CheckTable::kUnit of heap, in the kernels'
// memory. Blocks begin at units, and at least one unit between two of them belongs to neither.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "device/context.h"
#include "host/memory/backing.h"

namespace peal {

/// Not thread-safe.
class Extents {
 public:
  static constexpr uint64_t kUnit = CheckTable::kUnit;

  /// Bytes of memory for a heap of `heap_bytes`.
  static size_t bytes(uint64_t heap_bytes) { return heap_bytes / kUnit + 1; }
  /// `memory` has bytes(heap_bytes) and is zero: nothing is allocated.
  explicit Extents(Backing memory) : memory_(std::move(memory)), copy_(memory_.bytes()) {}

  const uint8_t* address() const { return reinterpret_cast<const uint8_t*>(memory_.address()); }

  /// [offset, offset + bytes) is a block. `offset` is a multiple of kUnit, here and below.
  void allocate(uint64_t offset, uint64_t bytes);
  /// The block was given back, and nobody may touch it: until forget().
  void free(uint64_t offset);
  /// The block is as if it had never been.
  void forget(uint64_t offset);
  /// [0, bytes) is the runtime's own.
  void reserve(uint64_t bytes);

  /// True if a block that is allocated begins there.
  bool begins(uint64_t offset) const;
  /// The size of the block that begins there.
  uint64_t bytes_at(uint64_t offset) const;
  /// "byte 8 of the 100 bytes at heap offset 0x1080", "4 bytes behind the 100 bytes at heap offset
  /// 0x1080", ...
  std::string describe(uint64_t offset) const;

 private:
  struct Block {
    uint64_t offset;
    uint64_t bytes;
    bool freed;
  };
  void show(uint64_t offset, uint64_t bytes);

  Backing memory_;
  std::vector<uint8_t> copy_;
  std::vector<Block> blocks_;  // by offset
  uint64_t reserved_ = 0;
};

}  // namespace peal
