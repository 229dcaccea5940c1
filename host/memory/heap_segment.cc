// SPDX-License-Identifier: Apache-2.0
#include "host/memory/heap_segment.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <utility>

namespace peal {
namespace {

uint64_t units_of(uint64_t bytes) { return (bytes + Extents::kUnit - 1) / Extents::kUnit; }

}  // namespace

HeapSegment::HeapSegment(std::shared_ptr<Backing> memory, std::optional<Extents> extents)
    : memory_(std::move(memory)),
      ranges_(memory_->bytes(), kGranule),
      extents_(std::move(extents)) {}

HeapSegment::HeapSegment(std::shared_ptr<Backing> memory, const Traits& traits)
    : HeapSegment(std::move(memory)) {
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

// Says so of the range's units, to the kernels too.
void Extents::fill(uint64_t offset, uint64_t bytes, uint8_t with) {
  const uint64_t first = offset / kUnit;
  std::fill_n(copy_.begin() + static_cast<ptrdiff_t>(first), units_of(bytes), with);
  memory_.copy_in(memory_.address() + first, copy_.data() + first, units_of(bytes));
}

void Extents::allocate(uint64_t offset, uint64_t bytes) {
  const uint64_t rest = bytes % kUnit;
  fill(offset, bytes - rest, static_cast<uint8_t>(kUnit));
  fill(offset + bytes - rest, rest, static_cast<uint8_t>(rest));
  blocks_[offset] = {bytes, false};
}

void Extents::free(uint64_t offset) {
  Block& block = blocks_.at(offset);
  block.freed = true;
  fill(offset, block.bytes, CheckTable::kFreed);
}

void Extents::forget(uint64_t offset) {
  fill(offset, bytes_at(offset), 0);
  blocks_.erase(offset);
}

void Extents::reserve(uint64_t bytes) {
  fill(0, bytes, CheckTable::kInternal);
  reserved_ = bytes;
}

bool Extents::begins(uint64_t offset) const {
  const auto block = blocks_.find(offset);
  return block != blocks_.end() && !block->second.freed;
}

std::string Extents::describe(uint64_t offset) const {
  if (offset < reserved_) return fmt::format("heap offset {:#x}, the runtime's own memory", offset);
  const auto name = [](const auto& block) {
    return fmt::format("the {}{} bytes at heap offset {:#x}", block->second.freed ? "freed " : "",
                       block->second.bytes, block->first);
  };
  const auto next = blocks_.upper_bound(offset);
  if (next != blocks_.begin()) {
    const auto before = std::prev(next);
    const uint64_t into = offset - before->first;
    const uint64_t bytes = before->second.bytes;
    if (into < bytes) return fmt::format("byte {} of {}", into, name(before));
    const bool nearer = next == blocks_.end() || into - bytes <= next->first - offset;
    if (nearer) return fmt::format("{} bytes behind {}", into - bytes, name(before));
  }
  if (next == blocks_.end()) return fmt::format("heap offset {:#x}, not allocated", offset);
  return fmt::format("{} bytes ahead of {}", next->first - offset, name(next));
}

}  // namespace peal
