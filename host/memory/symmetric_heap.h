// SPDX-License-Identifier: Apache-2.0
//
// The symmetric heap: the same block at the same offset on every PE. Its calls are collective; each
// PE first learns what all others asked (one allgather, which is also the barrier), and only when
// all asked the same does each one do the same arithmetic.
//
//   [ internal region | user blocks ... ]   offsets are what travels; addresses differ by PE
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <utility>

#include "host/base/error.h"
#include "host/bootstrap.h"
#include "host/memory/backing.h"
#include "host/memory/extents.h"
#include "host/memory/range_allocator.h"

namespace peal {

/// Collective allocator over one Backing per PE.
///
/// malloc, calloc, align and free must be called by all PEs, in the same order, with the same
/// sizes (free: the same block). Where they differ every PE gets kInvalidArgument that says what
/// each PE asked, and nothing changes. Not thread-safe: two threads would not agree on an order.
class SymmetricHeap {
 public:
  static constexpr size_t kAlignment = 128;  // of malloc and calloc; a GPU cache line
  static constexpr size_t kMaxAlignment = Backing::kAlignment;  // align() goes up to this

  /// Collective. Throws kConfiguration when the sizes of the PEs differ. `bootstrap` must outlive
  /// the heap. `backing` is zeroed, as its factories leave it. With `extents`, at all PEs or none,
  /// checked mode is on: blocks are apart, and one that is given back is used again as late as
  /// memory allows.
  SymmetricHeap(Backing backing, Bootstrap& bootstrap,
                std::optional<Extents> extents = std::nullopt);

  /// Zeroed room for the runtime itself, at the same offset on all PEs. Not collective, but all PEs
  /// must ask alike before the first collective call, which checks it. Throws kInvalidArgument
  /// after that call, kOutOfMemory when the heap is too small.
  std::byte* reserve_internal(size_t bytes);

  /// A block of `bytes`, aligned to kAlignment, contents undefined; nullptr for 0 bytes. When it
  /// returns the block is valid on all PEs. Throws kOutOfMemory on all PEs when none is left.
  void* malloc(size_t bytes);

  /// `count` x `bytes` of zeros, zero on all PEs when it returns; nullptr when either is 0.
  void* calloc(size_t count, size_t bytes);

  /// Like malloc with an alignment of its own: a power of two up to kMaxAlignment.
  void* align(size_t alignment, size_t bytes);

  /// Gives a block back. Begins with a barrier: no PE's block is reused before all have called. The
  /// caller completes operations on it first (quiet). nullptr is no block. A pointer that no
  /// allocation answered, or was freed already, is kInvalidArgument on all PEs.
  void free(void* pointer);

  bool contains(const void* pointer) const;
  /// Offset of `pointer` from base(), which is also its address on the wire. Throws
  /// kInvalidArgument outside the heap.
  uint64_t offset_of(const void* pointer) const;

  /// "byte 8 of the 128 bytes at heap offset 0x1080", of any address. Thread-safe, also beside a
  /// collective call.
  std::string place_of(const void* pointer) const;

  std::byte* base() const { return backing_.address(); }
  size_t bytes() const { return backing_.bytes(); }
  const Backing& backing() const { return backing_; }
  /// Has `told` called of each block that free() gives back, once all PEs have called free().
  void on_free(std::function<void(const void* block, size_t bytes)> told) {
    on_free_ = std::move(told);
  }
  /// Null unless checked mode is on.
  const uint8_t* extents() const { return extents_ ? extents_->address() : nullptr; }

  /// Zeros [pointer, pointer + bytes) of this PE, which lies in the heap.
  void zero(void* pointer, size_t bytes) { backing_.zero(offset_of(pointer), bytes); }

  size_t allocated() const { return ranges_.allocated(); }  // user blocks and internal region
  size_t largest_free() const { return ranges_.largest_free(); }

 private:
  enum class Kind : uint64_t { kMalloc, kCalloc, kAlign, kFree };

  /// What one PE asks, as it travels. Plain words without padding: compared as a whole.
  struct Request {
    Kind kind;
    uint64_t bytes;      // free: 0
    uint64_t alignment;  // free: 0
    uint64_t offset;     // free only; kOutside, kNull
    uint64_t internal;   // bytes reserved so far
    bool operator==(const Request&) const = default;
  };
  static constexpr uint64_t kOutside = ~uint64_t{0};
  static constexpr uint64_t kNull = kOutside - 1;

  static std::string describe(const Request& request);
  void agree(const Request& mine);
  std::optional<uint64_t> take(size_t bytes, size_t alignment);
  std::optional<uint64_t> take_apart(size_t bytes, size_t alignment);
  bool give_back(uint64_t offset);
  void release_oldest();
  void* allocate(Kind kind, size_t bytes, size_t alignment);
  [[noreturn]] void refuse_free(const void* pointer, uint64_t offset) const;

  Backing backing_;
  Bootstrap& bootstrap_;
  uint64_t allocations_ = 0;  // so far, for their names in a simulation
  mutable std::mutex mutex_;  // of what follows
  RangeAllocator ranges_;
  std::optional<Extents> extents_;
  std::function<void(const void*, size_t)> on_free_;
  std::deque<uint64_t> freed_;  // of extents_, the oldest first
  uint64_t freed_bytes_ = 0;
  uint64_t internal_ = 0;
  bool in_use_ = false;
};

}  // namespace peal
