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
#include "simt/simulation/simulation.h"

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

/// What all segments of a kind add up to.
struct Room {
  uint64_t bytes = 0;
  uint64_t available = 0;
  uint64_t largest = 0;
  size_t holes = 0;
};

Room room_of(const std::list<HeapSegment>& segments, HeapKind kind) {
  Room room;
  for (const HeapSegment& segment : segments) {
    if (segment.kind() != kind) continue;
    room.bytes += segment.bytes();
    room.available += segment.ranges().available();
    room.largest = std::max(room.largest, segment.ranges().largest_free());
    room.holes += segment.ranges().holes();
  }
  return room;
}

}  // namespace

SymmetricHeap::SymmetricHeap(HeapMemory memory, Bootstrap& bootstrap,
                             std::optional<Extents> extents)
    : bootstrap_(bootstrap), kept_(std::move(memory)), grown_(kept_.grown) {
  segments_.emplace_back(kept_.memory.front(), std::move(extents));
  if (reinterpret_cast<uintptr_t>(base()) % kMaxAlignment != 0) {
    fail(ErrorCode::kInvalidArgument, "symmetric heap: its memory at {} is not aligned to {} bytes",
         fmt::ptr(base()), kMaxAlignment);
  }
  const std::vector<uint64_t> sizes = gather<uint64_t>(bootstrap_, bytes());
  if (!all_equal(sizes)) {
    fail(ErrorCode::kConfiguration,
         "symmetric heaps differ: {}; set PEAL_HEAP_SIZE alike on all PEs",
         list(sizes, format_size));
  }
  adopt(segments_.front());
}

// Deals out once more what was dealt out of it.
void SymmetricHeap::adopt(HeapSegment& segment) {
  for (size_t i = 0; i < kept_.blocks.size(); ++i) {
    const HeapMemory::Block& block = kept_.blocks[i];
    if (block.segment != segment.number()) continue;
    if (!segment.take_at(block.offset, block.bytes)) {
      fail(ErrorCode::kInternal, "symmetric heap: no room for the {} bytes at offset {:#x} of it",
           block.bytes, block.offset);
    }
    taken_[{block.segment, block.offset}] = i + 1;
  }
  allocations_ = kept_.blocks.size();
}

void SymmetricHeap::grow_by(HeapGrowth growth) {
  growth_ = std::move(growth);
  for (size_t i = 1; i < kept_.segments.size(); ++i) {
    const HeapMemory::Segment& segment = kept_.segments[i];
    const uint32_t window = growth_->publish(*kept_.memory[i]);
    const std::lock_guard lock(mutex_);
    segments_.emplace_back(
        kept_.memory[i],
        HeapSegment::Traits{.kind = segment.kind, .number = segment.number, .window = window});
    adopt(segments_.back());
  }
  kept_.memory.clear();  // it ends with its segment
}

std::byte* SymmetricHeap::reserve_internal(size_t bytes) {
  if (in_use_) {
    fail(ErrorCode::kInvalidArgument,
         "symmetric heap: {} bytes to reserve for the runtime, but the heap is in use already",
         bytes);
  }
  const std::optional<uint64_t> offset = segments_.front().take_internal(bytes);
  const auto user = taken_.begin();  // the lowest block, in the first segment if any is there
  if (user != taken_.end() && user->first < Place{0, offset.value_or(this->bytes())}) {
    fail(ErrorCode::kConfiguration,
         "symmetric heap: the runtime takes {} bytes more of it than before, as where a job has "
         "come to need a NIC, and a block that was kept lies at {:#x}: rejoin without keeping the "
         "heaps",
         bytes, user->first.second);
  }
  if (!offset) {
    fail(ErrorCode::kOutOfMemory,
         "symmetric heap of {} bytes has no {} bytes for the runtime itself ({} are taken); raise "
         "PEAL_HEAP_SIZE",
         this->bytes(), bytes, first().ranges().allocated());
  }
  if (!kept_.zeroed) segments_.front().backing().zero(*offset, bytes);
  internal_ = *offset + first().ranges().find(*offset).bytes;
  return base() + *offset;
}

void* SymmetricHeap::malloc(size_t bytes, HeapKind kind) {
  return allocate({.kind = Kind::kMalloc, .heap = kind, .bytes = bytes, .alignment = kAlignment});
}

void* SymmetricHeap::align(size_t alignment, size_t bytes, HeapKind kind) {
  return allocate({.kind = Kind::kAlign, .heap = kind, .bytes = bytes, .alignment = alignment});
}

void* SymmetricHeap::calloc(size_t count, size_t bytes, HeapKind kind) {
  // A product that does not fit is a size that no heap has.
  const size_t total = bytes != 0 && count > std::numeric_limits<size_t>::max() / bytes
                           ? std::numeric_limits<size_t>::max()
                           : count * bytes;
  void* const block =
      allocate({.kind = Kind::kCalloc, .heap = kind, .bytes = total, .alignment = kAlignment});
  if (block == nullptr) return nullptr;
  const auto segment = around(block);
  const uint64_t offset = segment->offset_of(block);
  try {
    // All PEs meet: else a peer could write before the zeros land.
    together(bootstrap_, [&] { segment->backing().zero(offset, total); });
  } catch (const Error&) {
    give_back(*segment, offset);
    throw;
  }
  return block;
}

void SymmetricHeap::free(void* pointer) {
  Request asked{.kind = Kind::kFree, .offset = pointer == nullptr ? kNull : kOutside};
  const auto segment = around(pointer);
  if (segment != segments_.end()) {
    asked.segment = segment->number();
    asked.offset = segment->offset_of(pointer);
  }
  agree(asked);
  if (asked.offset == kNull) return;
  const bool internal = asked.segment == 0 && asked.offset < internal_;
  if (segment == segments_.end() || internal) refuse_free(pointer, asked);
  const Extents* const extents = segment->extents();
  if (on_free_ && extents && extents->begins(asked.offset)) {
    on_free_(pointer, extents->bytes_at(asked.offset));
  }
  if (!give_back(*segment, asked.offset)) refuse_free(pointer, asked);
  if (segment->number() != 0 && segment->ranges().allocated() == 0) end(segment);
}

bool SymmetricHeap::give_back(HeapSegment& segment, uint64_t offset) {
  const std::lock_guard lock(mutex_);
  taken_.erase({segment.number(), offset});
  return segment.give_back(offset);
}

// Its last block was given back, on all PEs.
void SymmetricHeap::end(Segments::iterator segment) {
  growth_->hide(segment->window());
  const std::lock_guard lock(mutex_);
  segments_.erase(segment);
}

SymmetricHeap::Segments::iterator SymmetricHeap::around(const void* pointer) {
  return std::ranges::find_if(segments_,
                              [&](const HeapSegment& one) { return one.contains(pointer); });
}

bool SymmetricHeap::contains(const void* pointer) const {
  const std::lock_guard lock(mutex_);
  return std::ranges::any_of(segments_,
                             [&](const HeapSegment& one) { return one.contains(pointer); });
}

bool SymmetricHeap::owns(uint32_t window) const {
  return std::ranges::any_of(segments_, [&](const HeapSegment& one) {
    return one.number() != 0 && one.window() == window;
  });
}

std::optional<HeapSegment::Block> SymmetricHeap::block_around(const void* pointer) const {
  const std::lock_guard lock(mutex_);
  for (const HeapSegment& segment : segments_) {
    if (!segment.contains(pointer)) continue;
    const uint64_t offset = segment.offset_of(pointer);
    const bool internal = segment.number() == 0 && offset < internal_;
    return internal ? std::nullopt : segment.block_at(offset);
  }
  return std::nullopt;
}

std::vector<SymmetricHeap::Place> SymmetricHeap::in_order() const {
  std::map<uint64_t, Place> by_allocation;
  for (const auto& [place, allocation] : taken_) by_allocation[allocation] = place;
  std::vector<Place> places;
  for (const auto& [allocation, place] : by_allocation) places.push_back(place);
  return places;
}

const HeapSegment& SymmetricHeap::numbered(uint64_t number) const {
  return *std::ranges::find(segments_, number, &HeapSegment::number);
}

std::vector<HeapBlock> SymmetricHeap::blocks() const {
  const std::lock_guard lock(mutex_);
  std::vector<HeapBlock> blocks;
  for (const auto& [number, offset] : in_order()) {
    const HeapSegment& segment = numbered(number);
    const HeapSegment::Block block = segment.block_at(offset).value();
    blocks.push_back({block.begin, block.bytes, segment.kind()});
  }
  return blocks;
}

HeapMemory SymmetricHeap::memory() const {
  const std::lock_guard lock(mutex_);
  HeapMemory memory;
  memory.grown = grown_;
  for (const HeapSegment& segment : segments_) {
    memory.segments.push_back({segment.number(), segment.kind(), segment.bytes()});
    memory.memory.push_back(segment.memory());
  }
  for (const auto& [number, offset] : in_order()) {
    memory.blocks.push_back({number, offset, numbered(number).ranges().find(offset).asked});
  }
  return memory;
}

std::string SymmetricHeap::place_of(const void* pointer) const {
  const std::lock_guard lock(mutex_);
  for (const HeapSegment& segment : segments_) {
    if (segment.contains(pointer)) return segment.describe(segment.offset_of(pointer));
  }
  return fmt::format("{}, which is not in the symmetric heap", fmt::ptr(pointer));
}

uint64_t SymmetricHeap::offset_of(const void* pointer) const {
  if (!first().contains(pointer)) {
    fail(ErrorCode::kInvalidArgument, "{} is not in the symmetric heap [{}, {})", fmt::ptr(pointer),
         fmt::ptr(base()), fmt::ptr(base() + bytes()));
  }
  return first().offset_of(pointer);
}

size_t SymmetricHeap::allocated() const {
  size_t bytes = 0;
  for (const HeapSegment& segment : segments_) bytes += segment.ranges().allocated();
  return bytes;
}

size_t SymmetricHeap::largest_free() const {
  size_t bytes = 0;
  for (const HeapSegment& segment : segments_) {
    bytes = std::max(bytes, segment.ranges().largest_free());
  }
  return bytes;
}

std::string SymmetricHeap::describe(const Request& request) {
  const std::string internal = fmt::format(
      "{}{}", request.heap == HeapKind::kHost ? " of host memory" : "",
      request.internal == 0 ? "" : fmt::format(" ({} are the runtime's)", request.internal));
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
  return fmt::format("free of the block at offset {}{}", request.offset,
                     request.segment == 0 ? "" : fmt::format(" of segment {}", request.segment));
}

void SymmetricHeap::agree(const Request& mine) {
  in_use_ = true;
  std::vector<Request> all = gather(bootstrap_, mine);
  if (!all_equal(all)) {
    // What the runtime took says something where it is what differs.
    const auto alike = [&](const Request& one) { return one.internal == all[0].internal; };
    if (std::ranges::all_of(all, alike)) {
      for (Request& one : all) one.internal = 0;
    }
    fail(ErrorCode::kInvalidArgument,
         "the PEs ask the symmetric heap for different things, nothing was done: {}; this call is "
         "collective, all PEs must make it with the same arguments",
         list(all, describe));
  }
}

void* SymmetricHeap::allocate(Request asked) {
  asked.internal = internal_;
  if (backing().host_accessible()) asked.heap = HeapKind::kDevice;  // the two are one
  agree(asked);
  if (!std::has_single_bit(asked.alignment) || asked.alignment > kMaxAlignment) {
    fail(ErrorCode::kInvalidArgument,
         "symmetric heap: alignment {} is not a power of two up to {} bytes", asked.alignment,
         kMaxAlignment);
  }
  if (asked.bytes == 0) return nullptr;
  std::byte* block = take(asked);
  if (block == nullptr) {
    grow(asked);
    block = take(asked);
  }
  if (simt::in_simulation()) {
    const std::string name = fmt::format("allocation {}", allocations_);
    simt::model().name(block, simt::name_in_model(name));
  }
  return block;
}

// Takes memory from the first segment that has room.
std::byte* SymmetricHeap::take(const Request& asked) {
  const std::lock_guard lock(mutex_);
  for (HeapSegment& segment : segments_) {
    if (segment.kind() != asked.heap) continue;
    if (const auto offset = segment.take(asked.bytes, asked.alignment)) {
      taken_[{segment.number(), *offset}] = ++allocations_;
      return segment.base() + *offset;
    }
  }
  return nullptr;
}

// A segment more, with room for what was asked at its begin.
void SymmetricHeap::grow(const Request& asked) {
  if (!growth_) refuse(asked, why_fixed_);
  const uint64_t bytes = growth_for(asked);
  if (bytes == 0) {
    refuse(asked, fmt::format("it does not grow beyond {} (PEAL_HEAP_LIMIT)",
                              format_size(growth_->limit)));
  }
  try {
    auto memory = together(
        bootstrap_, [&] { return std::make_shared<Backing>(growth_->make(bytes, asked.heap)); });
    const uint32_t window = growth_->publish(*memory);
    const std::lock_guard lock(mutex_);
    segments_.emplace_back(
        std::move(memory),
        HeapSegment::Traits{.kind = asked.heap, .number = ++grown_, .window = window});
  } catch (const Error& error) {
    if (error.code() != ErrorCode::kOutOfMemory) throw;
    refuse(asked, fmt::format("it could not grow by {} bytes: {}", bytes, error.what()));
  }
}

// 0 where the limit leaves no room for the block.
uint64_t SymmetricHeap::growth_for(const Request& asked) const {
  const uint64_t taken = room_of(segments_, asked.heap).bytes;
  const uint64_t left = growth_->limit - std::min(growth_->limit, taken);
  if (asked.bytes > left) return 0;
  return std::min(std::max(asked.bytes, growth_->step), left);
}

void SymmetricHeap::refuse(const Request& asked, const std::string& why_not_grown) const {
  const Room room = room_of(segments_, asked.heap);
  fail(ErrorCode::kOutOfMemory,
       "symmetric heap of {} bytes{} has no {} bytes aligned to {}: {} are free in {} piece{}, the "
       "largest free block has {}; {}; raise PEAL_HEAP_SIZE or free blocks",
       room.bytes, asked.heap == HeapKind::kHost ? " of host memory" : "", asked.bytes,
       asked.alignment, room.available, room.holes, room.holes == 1 ? "" : "s", room.largest,
       why_not_grown);
}

void SymmetricHeap::refuse_free(const void* pointer, const Request& asked) const {
  std::string why;
  if (asked.offset == kOutside) {
    why = fmt::format("not in the symmetric heap [{}, {})", fmt::ptr(base()),
                      fmt::ptr(base() + bytes()));
  } else if (asked.segment == 0 && asked.offset < internal_) {
    why = "belongs to the runtime itself";
  } else {
    const auto segment = std::ranges::find(segments_, asked.segment, &HeapSegment::number);
    why = segment->describe_refusal(asked.offset);
  }
  fail(ErrorCode::kInvalidArgument, "free({}): {}", fmt::ptr(pointer), why);
}

}  // namespace peal
