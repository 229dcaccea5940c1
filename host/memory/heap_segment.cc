// SPDX-License-Identifier: Apache-2.0
#include "host/memory/heap_segment.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace peal {
namespace {

constexpr auto kOffset = [](const auto& block) { return block.offset; };

uint64_t units_of(uint64_t bytes) { return (bytes + Extents::kUnit - 1) / Extents::kUnit; }

}  // namespace

HeapSegment::HeapSegment(Backing backing, std::optional<Extents> extents)
    : backing_(std::move(backing)),
      ranges_(backing_.bytes(), kGranule),
      extents_(std::move(extents)) {}

HeapSegment::HeapSegment(Backing backing, const Traits& traits) : HeapSegment(std::move(backing)) {
  traits_ = traits;
}

bool HeapSegment::contains(const void* pointer) const {
  return reinterpret_cast<uintptr_t>(pointer) >= reinterpret_cast<uintptr_t>(base()) &&
         offset_of(pointer) < bytes();
}

uint64_t HeapSegment::offset_of(const void* pointer) const {
  return reinterpret_cast<uintptr_t>(pointer) - reinterpret_cast<uintptr_t>(base());
}

std::optional<uint64_t> HeapSegment::take(size_t bytes, size_t alignment) {
  return extents_ ? take_apart(bytes, alignment) : ranges_.allocate(bytes, alignment);
}

std::optional<uint64_t> HeapSegment::take_internal(size_t bytes) {
  const std::optional<uint64_t> offset = ranges_.allocate(bytes, kGranule);
  if (offset && extents_) extents_->reserve(ranges_.allocated());
  return offset;
}

// A block and a unit behind it, in place of blocks that were given back if need be.
std::optional<uint64_t> HeapSegment::take_apart(size_t bytes, size_t alignment) {
  const bool fits = bytes <= ranges_.size();
  for (;;) {
    const auto offset = fits ? ranges_.allocate(bytes + Extents::kUnit, alignment) : std::nullopt;
    if (offset) extents_->allocate(*offset, bytes);
    if (offset || !fits || freed_.empty()) return offset;
    release_oldest();
  }
}

void HeapSegment::release_oldest() {
  const uint64_t offset = freed_.front();
  freed_.pop_front();
  extents_->forget(offset);
  freed_bytes_ -= *ranges_.free(offset);
}

bool HeapSegment::give_back(uint64_t offset) {
  if (!extents_) return ranges_.free(offset).has_value();
  if (!extents_->begins(offset)) return false;
  extents_->free(offset);
  freed_.push_back(offset);
  freed_bytes_ += ranges_.find(offset).bytes;
  while (freed_bytes_ > ranges_.size() / 4) release_oldest();
  return true;
}

std::optional<HeapSegment::Block> HeapSegment::block_at(uint64_t offset) const {
  const RangeAllocator::Range range = ranges_.find(offset);
  if (range.state != RangeAllocator::Range::State::kAllocated) return std::nullopt;
  if (extents_ && !extents_->begins(range.offset)) return std::nullopt;  // given back
  return Block{base() + range.offset, extents_ ? extents_->bytes_at(range.offset) : range.asked};
}

std::string HeapSegment::describe(uint64_t offset) const {
  if (extents_) return extents_->describe(offset);
  const auto place = [&](uint64_t at) {
    if (number() == 0) return fmt::format("heap offset {:#x}", at);
    return fmt::format("offset {:#x} of heap segment {}", at, number());
  };
  const RangeAllocator::Range range = ranges_.find(offset);
  if (range.state != RangeAllocator::Range::State::kAllocated) {
    return place(offset) + ", which is not allocated";
  }
  return fmt::format("byte {} of the {} bytes at {}", offset - range.offset, range.bytes,
                     place(range.offset));
}

std::string HeapSegment::describe_refusal(uint64_t offset) const {
  if (extents_) {
    return extents_->describe(offset) +
           "; free takes, once, the pointer that the allocation answered";
  }
  const RangeAllocator::Range range = ranges_.find(offset);
  if (range.state != RangeAllocator::Range::State::kAllocated) {
    return fmt::format("no block begins at offset {}: freed already, or never allocated", offset);
  }
  return fmt::format(
      "in the middle of the block of {} bytes that begins at {}; free takes the pointer that the "
      "allocation answered",
      range.bytes, fmt::ptr(base() + range.offset));
}

// What copy_ has of the range, to the kernels' memory.
void Extents::show(uint64_t offset, uint64_t bytes) {
  const uint64_t first = offset / kUnit;
  memory_.copy_in(memory_.address() + first, copy_.data() + first, units_of(bytes));
}

void Extents::allocate(uint64_t offset, uint64_t bytes) {
  const uint64_t first = offset / kUnit;
  const uint64_t whole = bytes / kUnit;
  std::fill_n(copy_.begin() + static_cast<ptrdiff_t>(first), whole, static_cast<uint8_t>(kUnit));
  if (bytes % kUnit != 0) copy_[first + whole] = static_cast<uint8_t>(bytes % kUnit);
  blocks_.insert(std::ranges::lower_bound(blocks_, offset, {}, kOffset), {offset, bytes, false});
  show(offset, bytes);
}

void Extents::free(uint64_t offset) {
  Block& block = *std::ranges::lower_bound(blocks_, offset, {}, kOffset);
  block.freed = true;
  std::fill_n(copy_.begin() + static_cast<ptrdiff_t>(offset / kUnit), units_of(block.bytes),
              CheckTable::kFreed);
  show(offset, block.bytes);
}

void Extents::forget(uint64_t offset) {
  const auto block = std::ranges::lower_bound(blocks_, offset, {}, kOffset);
  const uint64_t bytes = block->bytes;
  std::fill_n(copy_.begin() + static_cast<ptrdiff_t>(offset / kUnit), units_of(bytes), uint8_t{0});
  blocks_.erase(block);
  show(offset, bytes);
}

void Extents::reserve(uint64_t bytes) {
  std::fill_n(copy_.begin(), units_of(bytes), CheckTable::kInternal);
  show(0, bytes);
  reserved_ = bytes;
}

bool Extents::begins(uint64_t offset) const {
  const auto block = std::ranges::lower_bound(blocks_, offset, {}, kOffset);
  return block != blocks_.end() && block->offset == offset && !block->freed;
}

uint64_t Extents::bytes_at(uint64_t offset) const {
  return std::ranges::lower_bound(blocks_, offset, {}, kOffset)->bytes;
}

std::string Extents::describe(uint64_t offset) const {
  if (offset < reserved_) return fmt::format("heap offset {:#x}, the runtime's own memory", offset);
  const auto next = std::ranges::upper_bound(blocks_, offset, {}, kOffset);
  if (next != blocks_.begin()) {
    const Block& block = *std::prev(next);
    const std::string at = fmt::format("the {}{} bytes at heap offset {:#x}",
                                       block.freed ? "freed " : "", block.bytes, block.offset);
    const uint64_t into = offset - block.offset;
    if (into < block.bytes) return fmt::format("byte {} of {}", into, at);
    const bool nearer = next == blocks_.end() || into - block.bytes <= next->offset - offset;
    if (nearer) return fmt::format("{} bytes behind {}", into - block.bytes, at);
  }
  if (next == blocks_.end()) return fmt::format("heap offset {:#x}, not allocated", offset);
  return fmt::format("{} bytes ahead of the {}{} bytes at heap offset {:#x}", next->offset - offset,
                     next->freed ? "freed " : "", next->bytes, next->offset);
}

}  // namespace peal
