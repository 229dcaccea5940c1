// SPDX-License-Identifier: Apache-2.0
//
// Pure arithmetic over offsets [0, size): who has which range. It never touches the memory it deals
// out, and the same calls give the same offsets everywhere, which is what makes a heap symmetric.
//
// Policy: lowest address first among the blocks that fit (free blocks are kept by power-of-two
// class, each class by address), neighbours merged at once. Low addresses first keeps the free
// space in one piece at the top: for address-ordered first fit Robson (1977) bounds the memory
// needed to about live bytes x log2(largest / smallest request), a bound that best fit does not
// have.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <set>

namespace peal {

/// Deals out ranges of [0, size). Not thread-safe.
class RangeAllocator {
 public:
  /// What is known about an offset.
  struct Range {
    enum class State { kAllocated, kFree, kOutside } state;
    uint64_t offset;  // of the block that holds it
    uint64_t bytes;
    uint64_t asked = 0;  // of an allocated one: before they were rounded up
  };

  /// `granule` is a power of two: requests are rounded up to it and every offset is a multiple of
  /// it. The last size % granule bytes are never used.
  RangeAllocator(uint64_t size, uint64_t granule);

  /// Lowest suitable offset, a multiple of `alignment` (a power of two); nullopt when `bytes` is 0
  /// or no free block can hold it. O(log n), except just before nullopt.
  std::optional<uint64_t> allocate(uint64_t bytes, uint64_t alignment);

  /// The same where the block is to begin at `offset`; false, and nothing changes, where that is no
  /// multiple of the granule or not free as far as the block goes.
  bool allocate_at(uint64_t offset, uint64_t bytes);

  /// Gives back a block by the offset allocate() answered. Answers its bytes (rounded up), or
  /// nullopt and changes nothing when no allocated block begins there. O(log n).
  std::optional<uint64_t> free(uint64_t offset);

  /// The block, allocated or free, that holds `offset`. O(log n).
  Range find(uint64_t offset) const;

  uint64_t size() const { return size_; }
  uint64_t allocated() const { return allocated_; }  // rounded bytes
  uint64_t available() const { return size_ - allocated_; }
  uint64_t largest_free() const;  // O(blocks): for reports
  size_t blocks() const { return used_.size(); }
  size_t holes() const { return free_.size(); }  // free blocks: 1 where nothing is fragmented

 private:
  using Blocks = std::map<uint64_t, uint64_t>;  // offset -> bytes

  void insert_free(uint64_t offset, uint64_t bytes);
  void erase_free(Blocks::iterator block);
  void take(Blocks::iterator block, uint64_t begin, uint64_t asked);
  Blocks::iterator choose(uint64_t bytes, uint64_t alignment);
  Blocks::iterator choose_in_class(size_t index, uint64_t bytes, uint64_t alignment, size_t tries);

  uint64_t size_;
  uint64_t granule_;
  uint64_t allocated_ = 0;
  Blocks used_;  // with what was asked
  Blocks free_;
  std::array<std::set<uint64_t>, 64> by_class_;  // free offsets; class = log2 of the bytes
};

}  // namespace peal
