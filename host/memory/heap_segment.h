// SPDX-License-Identifier: Apache-2.0
//
// A part of the symmetric heap that lies in one piece: memory, and which of it is dealt out. The
// arithmetic of one PE; that all PEs do the same is SymmetricHeap's care.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "device/context.h"
#include "host/memory/backing.h"
#include "host/memory/heap_block.h"
#include "host/memory/range_allocator.h"

namespace peal {

/// Which bytes of the symmetric heap are allocated, as checked mode looks it up for every call of a
/// kernel (device/detail/mistakes.h): a byte for each CheckTable::kUnit of heap, in the kernels'
/// memory. Blocks begin at units, and at least one unit between two of them belongs to neither. Not
/// thread-safe.
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
  uint64_t bytes_at(uint64_t offset) const { return blocks_.at(offset).bytes; }
  /// "byte 8 of the 100 bytes at heap offset 0x1080", "4 bytes behind the 100 bytes at heap offset
  /// 0x1080", ...
  std::string describe(uint64_t offset) const;

 private:
  struct Block {
    uint64_t bytes;
    bool freed;
  };
  void fill(uint64_t offset, uint64_t bytes, uint8_t with);

  Backing memory_;
  std::vector<uint8_t> copy_;
  std::map<uint64_t, Block> blocks_;  // by offset
  uint64_t reserved_ = 0;
};

/// Not thread-safe. Offsets are from base().
class HeapSegment {
 public:
  static constexpr size_t kGranule = 128;  // blocks begin at multiples of it: a GPU cache line

  /// What a segment is beside its memory.
  struct Traits {
    HeapKind kind = HeapKind::kDevice;
    uint64_t number = 0;  // of the heap's segments, from 1; 0: the first one
    uint32_t window = 0;  // by whose number kernels know a further one
  };

  /// With `extents` blocks are apart, and one that is given back is dealt out again as late as
  /// memory allows.
  explicit HeapSegment(std::shared_ptr<Backing> memory,
                       std::optional<Extents> extents = std::nullopt);
  HeapSegment(std::shared_ptr<Backing> memory, const Traits& traits);

  std::byte* base() const { return memory_->address(); }
  size_t bytes() const { return memory_->bytes(); }
  Backing& backing() { return *memory_; }
  const Backing& backing() const { return *memory_; }
  const std::shared_ptr<Backing>& memory() const { return memory_; }
  HeapKind kind() const { return traits_.kind; }
  uint64_t number() const { return traits_.number; }
  uint32_t window() const { return traits_.window; }
  /// Null without extents.
  const Extents* extents() const { return extents_ ? &*extents_ : nullptr; }
  const RangeAllocator& ranges() const { return ranges_; }

  bool contains(const void* pointer) const;
  /// The offset of an address that it contains.
  uint64_t offset_of(const void* pointer) const;

  /// The offset of a block; nullopt where there is no room.
  std::optional<uint64_t> take(size_t bytes, size_t alignment);
  /// A block that lies at `offset`; false, and nothing changes, where there is no room.
  bool take_at(uint64_t offset, size_t bytes) { return ranges_.allocate_at(offset, bytes); }
  /// A block that is the runtime's, before all others.
  std::optional<uint64_t> take_internal(size_t bytes);
  /// False, and nothing changes, where no block begins at `offset`.
  bool give_back(uint64_t offset);

  /// The block that `offset` lies in, as it was asked for.
  struct Block {
    std::byte* begin;
    size_t bytes;
  };
  std::optional<Block> block_at(uint64_t offset) const;

  /// "byte 8 of the 128 bytes at heap offset 0x1080", "... at offset 0x80 of heap segment 2".
  std::string describe(uint64_t offset) const;
  /// Why no block begins at `offset`, for a caller of free.
  std::string describe_refusal(uint64_t offset) const;

 private:
  std::optional<uint64_t> take_apart(size_t bytes, size_t alignment);
  void release_oldest();

  std::shared_ptr<Backing> memory_;
  Traits traits_;
  RangeAllocator ranges_;
  std::optional<Extents> extents_;
  std::deque<uint64_t> freed_;  // of extents_, the oldest first
  uint64_t freed_bytes_ = 0;
};

}  // namespace peal
