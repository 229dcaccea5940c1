// SPDX-License-Identifier: Apache-2.0
#include "host/memory/range_allocator.h"

#include <algorithm>
#include <bit>
#include <iterator>

#include "host/base/error.h"

namespace peal {
namespace {

constexpr uint64_t round_up(uint64_t value, uint64_t power_of_two) {
  return (value + power_of_two - 1) & ~(power_of_two - 1);
}

size_t class_of(uint64_t bytes) { return static_cast<size_t>(std::bit_width(bytes)) - 1; }

bool fits(uint64_t offset, uint64_t block_bytes, uint64_t bytes, uint64_t alignment) {
  const uint64_t begin = round_up(offset, alignment);
  return begin - offset <= block_bytes && bytes <= block_bytes - (begin - offset);
}

// How many blocks of a class that may or may not fit are looked at before a higher block that
// surely fits is taken: keeps allocate() O(log n) and costs at most a block twice the size.
constexpr size_t kTries = 16;

}  // namespace

RangeAllocator::RangeAllocator(uint64_t size, uint64_t granule) : size_(0), granule_(granule) {
  if (!std::has_single_bit(granule) || size > uint64_t{1} << 62) {
    fail(ErrorCode::kInvalidArgument,
         "range allocator: granule {} is not a power of two or size {} is above 2^62", granule,
         size);
  }
  size_ = size / granule * granule;
  if (size_ > 0) insert_free(0, size_);
}

void RangeAllocator::insert_free(uint64_t offset, uint64_t bytes) {
  free_.emplace(offset, bytes);
  by_class_[class_of(bytes)].insert(offset);
}

void RangeAllocator::erase_free(Blocks::iterator block) {
  by_class_[class_of(block->second)].erase(block->first);
  free_.erase(block);
}

RangeAllocator::Blocks::iterator RangeAllocator::choose_in_class(size_t index, uint64_t bytes,
                                                                 uint64_t alignment, size_t tries) {
  for (const uint64_t offset : by_class_[index]) {
    if (tries-- == 0) break;
    const auto block = free_.find(offset);
    if (fits(block->first, block->second, bytes, alignment)) return block;
  }
  return free_.end();
}

RangeAllocator::Blocks::iterator RangeAllocator::choose(uint64_t bytes, uint64_t alignment) {
  const auto lower = [this](Blocks::iterator a, Blocks::iterator b) {
    return a == free_.end() || (b != free_.end() && b->first < a->first) ? b : a;
  };
  auto best = free_.end();
  for (size_t index = class_of(bytes); index < by_class_.size(); ++index) {
    best = lower(best, choose_in_class(index, bytes, alignment, kTries));
  }
  if (best != free_.end()) return best;
  // Nearly refused: look at every block before saying so.
  for (size_t index = class_of(bytes); index < by_class_.size(); ++index) {
    best = lower(best, choose_in_class(index, bytes, alignment, by_class_[index].size()));
  }
  return best;
}

std::optional<uint64_t> RangeAllocator::allocate(uint64_t bytes, uint64_t alignment) {
  if (!std::has_single_bit(alignment)) {
    fail(ErrorCode::kInvalidArgument, "alignment {} is not a power of two", alignment);
  }
  if (bytes == 0 || bytes > size_ || alignment > size_) return std::nullopt;
  const auto block = choose(round_up(bytes, granule_), std::max(alignment, granule_));
  if (block == free_.end()) return std::nullopt;
  const uint64_t begin = round_up(block->first, std::max(alignment, granule_));
  take(block, begin, bytes);
  return begin;
}

bool RangeAllocator::allocate_at(uint64_t offset, uint64_t bytes) {
  if (bytes == 0 || bytes > size_ || offset % granule_ != 0) return false;
  const Range range = find(offset);
  if (range.state != Range::State::kFree) return false;
  if (round_up(bytes, granule_) > range.offset + range.bytes - offset) return false;
  take(free_.find(range.offset), offset, bytes);
  return true;
}

// A part of a free block that holds it.
void RangeAllocator::take(Blocks::iterator block, uint64_t begin, uint64_t asked) {
  const uint64_t bytes = round_up(asked, granule_);
  const uint64_t block_begin = block->first;
  const uint64_t block_end = block->first + block->second;
  erase_free(block);
  if (begin > block_begin) insert_free(block_begin, begin - block_begin);
  if (begin + bytes < block_end) insert_free(begin + bytes, block_end - begin - bytes);
  used_.emplace(begin, asked);
  allocated_ += bytes;
}

std::optional<uint64_t> RangeAllocator::free(uint64_t offset) {
  const auto block = used_.find(offset);
  if (block == used_.end()) return std::nullopt;
  const uint64_t bytes = round_up(block->second, granule_);
  used_.erase(block);
  allocated_ -= bytes;

  uint64_t begin = offset;
  uint64_t end = offset + bytes;
  const auto after = free_.lower_bound(offset);
  if (after != free_.begin()) {
    const auto before = std::prev(after);
    if (before->first + before->second == begin) {
      begin = before->first;
      erase_free(before);
    }
  }
  if (after != free_.end() && after->first == end) {
    end += after->second;
    erase_free(after);
  }
  insert_free(begin, end - begin);
  return bytes;
}

RangeAllocator::Range RangeAllocator::find(uint64_t offset) const {
  const auto in = [&](const Blocks& blocks) {
    const auto after = blocks.upper_bound(offset);
    if (after == blocks.begin()) return blocks.end();
    const auto block = std::prev(after);
    return offset - block->first < round_up(block->second, granule_) ? block : blocks.end();
  };
  if (const auto block = in(used_); block != used_.end()) {
    const uint64_t asked = block->second;
    return {Range::State::kAllocated, block->first, round_up(asked, granule_), asked};
  }
  if (const auto block = in(free_); block != free_.end()) {
    return {Range::State::kFree, block->first, block->second};
  }
  return {Range::State::kOutside, size_, 0};
}

uint64_t RangeAllocator::largest_free() const {
  uint64_t largest = 0;
  for (const auto& [offset, bytes] : free_) largest = std::max(largest, bytes);
  return largest;
}

}  // namespace peal
