// SPDX-License-Identifier: Apache-2.0
#include "host/memory/heap_segment.h"

#include <fmt/format.h>

#include <utility>

namespace peal {

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

}  // namespace peal
