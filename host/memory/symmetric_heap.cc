// SPDX-License-Identifier: Apache-2.0
//
// Agreement first, arithmetic second. Everything that can be wrong with a request is judged after
// the PEs have compared it: a PE that threw before would leave the others waiting.
#include "host/memory/symmetric_heap.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <functional>
#include <limits>
#include <utility>
#include <vector>

#include "base/ranges.h"
#include "host/base/config.h"
#include "host/job/together.h"
#include "simt/simulation.h"

namespace peal {
namespace {

/// "PE 0 asked for 64 bytes, PEs 1-3 for 128 bytes": neighbours that said the same are one entry.
template <class T, class Describe>
std::string list(const std::vector<T>& all, Describe describe) {
  constexpr size_t kEntries = 16;  // enough to see who is different, on one screen
  std::string text;
  size_t entries = 0;
  const auto alike = [&](size_t a, size_t b) { return all[a] == all[b]; };
  for_each_run(all.size(), alike, [&](size_t first, size_t last) {
    if (entries == kEntries) text += fmt::format(", and {} PEs more", all.size() - first);
    if (entries++ >= kEntries) return;
    text += fmt::format("{}{} {}{}", entries == 1 ? "" : ", ", name_pes(first, last),
                        entries == 1 ? "asked for " : "for ", describe(all[first]));
  });
  return text;
}

template <class T>
bool all_equal(const std::vector<T>& all) {
  return std::adjacent_find(all.begin(), all.end(), std::not_equal_to<T>()) == all.end();
}

}  // namespace

SymmetricHeap::SymmetricHeap(Backing backing, Bootstrap& bootstrap, std::optional<Extents> extents)
    : backing_(std::move(backing)),
      bootstrap_(bootstrap),
      ranges_(backing_.bytes(), kAlignment),
      extents_(std::move(extents)) {
  if (reinterpret_cast<uintptr_t>(backing_.address()) % kMaxAlignment != 0) {
    fail(ErrorCode::kInvalidArgument, "symmetric heap: its memory at {} is not aligned to {} bytes",
         fmt::ptr(backing_.address()), kMaxAlignment);
  }
  const std::vector<uint64_t> sizes = gather<uint64_t>(bootstrap_, backing_.bytes());
  if (!all_equal(sizes)) {
    fail(ErrorCode::kConfiguration,
         "symmetric heaps differ: {}; set PEAL_HEAP_SIZE alike on all PEs",
         list(sizes, format_size));
  }
}

std::byte* SymmetricHeap::reserve_internal(size_t bytes) {
  if (in_use_) {
    fail(ErrorCode::kInvalidArgument,
         "symmetric heap: {} bytes to reserve for the runtime, but the heap is in use already",
         bytes);
  }
  const std::optional<uint64_t> offset = ranges_.allocate(bytes, kAlignment);
  if (!offset) {
    fail(ErrorCode::kOutOfMemory,
         "symmetric heap of {} bytes has no {} bytes for the runtime itself ({} are taken); raise "
         "PEAL_HEAP_SIZE",
         backing_.bytes(), bytes, ranges_.allocated());
  }
  internal_ = ranges_.allocated();
  if (extents_) extents_->reserve(internal_);
  return base() + *offset;
}

void* SymmetricHeap::malloc(size_t bytes) { return allocate(Kind::kMalloc, bytes, kAlignment); }

void* SymmetricHeap::calloc(size_t count, size_t bytes) {
  // A product that does not fit is a size that no heap has.
  const size_t total = bytes != 0 && count > std::numeric_limits<size_t>::max() / bytes
                           ? std::numeric_limits<size_t>::max()
                           : count * bytes;
  void* const block = allocate(Kind::kCalloc, total, kAlignment);
  if (block) {
    try {
      // All PEs meet: else a peer could write before the zeros land.
      together(bootstrap_, [&] { backing_.zero(offset_of(block), total); });
    } catch (const Error&) {
      give_back(offset_of(block));
      throw;
    }
  }
  return block;
}

void* SymmetricHeap::align(size_t alignment, size_t bytes) {
  return allocate(Kind::kAlign, bytes, alignment);
}

void SymmetricHeap::free(void* pointer) {
  uint64_t offset = kOutside;
  if (!pointer) offset = kNull;
  if (contains(pointer)) offset = offset_of(pointer);
  agree({Kind::kFree, 0, 0, offset, internal_});
  if (offset == kNull) return;
  if (on_free_ && extents_->begins(offset)) on_free_(pointer, extents_->bytes_at(offset));
  if (offset == kOutside || offset < internal_ || !give_back(offset)) {
    refuse_free(pointer, offset);
  }
}

std::optional<uint64_t> SymmetricHeap::take(size_t bytes, size_t alignment) {
  const std::lock_guard lock(mutex_);
  return extents_ ? take_apart(bytes, alignment) : ranges_.allocate(bytes, alignment);
}

// A block and a unit behind it, in place of blocks that were given back if need be.
std::optional<uint64_t> SymmetricHeap::take_apart(size_t bytes, size_t alignment) {
  const bool fits = bytes <= ranges_.size();
  for (;;) {
    const auto offset = fits ? ranges_.allocate(bytes + Extents::kUnit, alignment) : std::nullopt;
    if (offset) extents_->allocate(*offset, bytes);
    if (offset || !fits || freed_.empty()) return offset;
    release_oldest();
  }
}

void SymmetricHeap::release_oldest() {
  const uint64_t offset = freed_.front();
  freed_.pop_front();
  extents_->forget(offset);
  freed_bytes_ -= *ranges_.free(offset);
}

bool SymmetricHeap::give_back(uint64_t offset) {
  const std::lock_guard lock(mutex_);
  if (!extents_) return ranges_.free(offset).has_value();
  if (!extents_->begins(offset)) return false;
  extents_->free(offset);
  freed_.push_back(offset);
  freed_bytes_ += ranges_.find(offset).bytes;
  while (freed_bytes_ > ranges_.size() / 4) release_oldest();
  return true;
}

std::string SymmetricHeap::place_of(const void* pointer) const {
  if (!contains(pointer)) {
    return fmt::format("{}, which is not in the symmetric heap", fmt::ptr(pointer));
  }
  const uint64_t offset = offset_of(pointer);
  const std::lock_guard lock(mutex_);
  if (extents_) return extents_->describe(offset);
  const RangeAllocator::Range range = ranges_.find(offset);
  if (range.state != RangeAllocator::Range::State::kAllocated) {
    return fmt::format("heap offset {:#x}, which is not allocated", offset);
  }
  return fmt::format("byte {} of the {} bytes at heap offset {:#x}", offset - range.offset,
                     range.bytes, range.offset);
}

bool SymmetricHeap::contains(const void* pointer) const {
  const uintptr_t address = reinterpret_cast<uintptr_t>(pointer);
  const uintptr_t begin = reinterpret_cast<uintptr_t>(base());
  return address >= begin && address - begin < backing_.bytes();
}

uint64_t SymmetricHeap::offset_of(const void* pointer) const {
  if (!contains(pointer)) {
    fail(ErrorCode::kInvalidArgument, "{} is not in the symmetric heap [{}, {})", fmt::ptr(pointer),
         fmt::ptr(base()), fmt::ptr(base() + bytes()));
  }
  return reinterpret_cast<uintptr_t>(pointer) - reinterpret_cast<uintptr_t>(base());
}

std::string SymmetricHeap::describe(const Request& request) {
  const std::string internal =
      request.internal == 0 ? "" : fmt::format(" ({} are the runtime's)", request.internal);
  switch (request.kind) {
    case Kind::kMalloc:
      return fmt::format("{} bytes by malloc{}", request.bytes, internal);
    case Kind::kCalloc:
      return fmt::format("{} bytes by calloc{}", request.bytes, internal);
    case Kind::kAlign:
      return fmt::format("{} bytes aligned to {}{}", request.bytes, request.alignment, internal);
    case Kind::kFree:
      break;
  }
  if (request.offset == kNull) return "free of nullptr";
  if (request.offset == kOutside) return "free of a pointer outside the heap";
  return fmt::format("free of the block at offset {}", request.offset);
}

void SymmetricHeap::agree(const Request& mine) {
  in_use_ = true;
  const std::vector<Request> all = gather(bootstrap_, mine);
  if (!all_equal(all)) {
    fail(ErrorCode::kInvalidArgument,
         "the PEs ask the symmetric heap for different things, nothing was done: {}; this call is "
         "collective, all PEs must make it with the same arguments",
         list(all, describe));
  }
}

void* SymmetricHeap::allocate(Kind kind, size_t bytes, size_t alignment) {
  agree({kind, bytes, alignment, 0, internal_});
  if (!std::has_single_bit(alignment) || alignment > kMaxAlignment) {
    fail(ErrorCode::kInvalidArgument,
         "symmetric heap: alignment {} is not a power of two up to {} bytes", alignment,
         kMaxAlignment);
  }
  if (bytes == 0) return nullptr;
  const std::optional<uint64_t> offset = take(bytes, alignment);
  if (!offset) {
    fail(ErrorCode::kOutOfMemory,
         "symmetric heap of {} bytes has no {} bytes aligned to {}: {} are free, the largest free "
         "block has {}; raise PEAL_HEAP_SIZE or free blocks",
         backing_.bytes(), bytes, alignment, ranges_.available(), ranges_.largest_free());
  }
  if (simt::in_simulation()) {
    const std::string name = fmt::format("allocation {}", ++allocations_);
    simt::model().name(base() + *offset, simt::name_in_model(name));
  }
  return base() + *offset;
}

void SymmetricHeap::refuse_free(const void* pointer, uint64_t offset) const {
  std::string why;
  if (offset == kOutside) {
    why = fmt::format("not in the symmetric heap [{}, {})", fmt::ptr(base()),
                      fmt::ptr(base() + bytes()));
  } else if (offset < internal_) {
    why = "belongs to the runtime itself";
  } else if (extents_) {
    why =
        extents_->describe(offset) + "; free takes, once, the pointer that the allocation answered";
  } else if (const RangeAllocator::Range range = ranges_.find(offset);
             range.state == RangeAllocator::Range::State::kAllocated) {
    why = fmt::format(
        "in the middle of the block of {} bytes that begins at {}; free takes the "
        "pointer that the allocation answered",
        range.bytes, fmt::ptr(base() + range.offset));
  } else {
    why = fmt::format("no block begins at offset {}: freed already, or never allocated", offset);
  }
  fail(ErrorCode::kInvalidArgument, "free({}): {}", fmt::ptr(pointer), why);
}

}  // namespace peal
