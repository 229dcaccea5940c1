// SPDX-License-Identifier: Apache-2.0
//
// The symmetric heap: the same block at the same offset on every PE. Its calls are collective; each
// PE first learns what all others asked (one allgather, which is also the barrier), and only when
// all asked the same does each one do the same arithmetic.
//
//   first segment   [ internal region | user blocks ... ]   a context carries it
//   further ones    [ user blocks ... ]                     windows: they come and go (HeapGrowth)
//
// A heap may outlive its job (Runtime::rejoin): memory() of before is what the next one begins
// with. Segments and offsets are what travels; addresses differ by PE.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <list>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "host/base/error.h"
#include "host/bootstrap.h"
#include "host/memory/backing.h"
#include "host/memory/heap_block.h"
#include "host/memory/heap_memory.h"
#include "host/memory/heap_segment.h"

namespace peal {

/// What the heap grows by. It deals out memory and knows nothing of GPUs, NICs and mappings;
/// whoever does fills this in.
struct HeapGrowth {
  uint64_t step;   // bytes of a segment, at least; alike on all PEs
  uint64_t limit;  // bytes of all segments of one kind, the first included; likewise

  /// This PE's part of a segment, zeroed; not collective.
  std::function<Backing(size_t bytes, HeapKind kind)> make;
  /// Collective. Makes it a window, and answers its number on this PE; ends that.
  std::function<uint32_t(const Backing& memory)> publish;
  std::function<void(uint32_t window)> hide;
};

/// Collective allocator over memory of each PE. Where grow_by() was called it takes more when a
/// block does not fit, and gives a further segment back with its last block.
///
/// malloc, calloc, align and free must be called by all PEs, in the same order, with the same
/// sizes (free: the same block). Where they differ every PE gets kInvalidArgument that says what
/// each PE asked, and nothing changes. Not thread-safe: two threads would not agree on an order.
class SymmetricHeap {
 public:
  static constexpr size_t kAlignment = HeapSegment::kGranule;   // of malloc and calloc
  static constexpr size_t kMaxAlignment = Backing::kAlignment;  // align() goes up to this

  /// Collective. Throws kConfiguration when the sizes of the PEs differ. `bootstrap` must outlive
  /// the heap. `backing` is zeroed, as its factories leave it. With `extents`, at all PEs or none,
  /// checked mode is on: blocks are apart, and one that is given back is used again as late as
  /// memory allows.
  SymmetricHeap(Backing backing, Bootstrap& bootstrap,
                std::optional<Extents> extents = std::nullopt)
      : SymmetricHeap(HeapMemory::fresh(std::move(backing)), bootstrap, std::move(extents)) {}
  /// The same with memory of which blocks are dealt out, if there are no `extents`. Segments but
  /// the first come with grow_by().
  SymmetricHeap(HeapMemory memory, Bootstrap& bootstrap,
                std::optional<Extents> extents = std::nullopt);

  /// Zeroed room for the runtime itself, at the same offset on all PEs. Not collective, but all PEs
  /// must ask alike before the first collective call, which checks it. Throws kInvalidArgument
  /// after that call, kOutOfMemory when the heap is too small.
  std::byte* reserve_internal(size_t bytes);

  /// Collective. From now on the heap grows; with the same step and limit on all PEs.
  void grow_by(HeapGrowth growth);
  /// What kOutOfMemory says of a heap that does not grow.
  void stay(std::string why) { why_fixed_ = std::move(why); }

  /// A block of `bytes`, aligned to kAlignment, contents undefined; nullptr for 0 bytes. When it
  /// returns the block is valid on all PEs. Throws kOutOfMemory on all PEs when none is left and
  /// the heap does not grow.
  void* malloc(size_t bytes, HeapKind kind = HeapKind::kDevice);

  /// `count` x `bytes` of zeros, zero on all PEs when it returns; nullptr when either is 0.
  void* calloc(size_t count, size_t bytes, HeapKind kind = HeapKind::kDevice);

  /// Like malloc with an alignment of its own: a power of two up to kMaxAlignment.
  void* align(size_t alignment, size_t bytes, HeapKind kind = HeapKind::kDevice);

  /// Gives a block back. Begins with a barrier: no PE's block is reused before all have called. The
  /// caller completes operations on it first (quiet). nullptr, on all PEs, is no block and no
  /// error. A pointer that no allocation answered, or was freed already, is kInvalidArgument on all
  /// PEs.
  void free(void* pointer);

  /// The blocks that are allocated, in the order in which they were, which is that of all PEs.
  std::vector<HeapBlock> blocks() const;
  /// What another heap may begin with once this one has ended.
  HeapMemory memory() const;

  /// True of an address in any segment.
  bool contains(const void* pointer) const;
  /// The block that holds the address, as it was asked for; none of memory that is not allocated,
  /// or the runtime's own. Thread-safe, as what follows.
  std::optional<HeapSegment::Block> block_around(const void* pointer) const;
  /// "byte 8 of the 128 bytes at heap offset 0x1080", of any address. Thread-safe, also beside a
  /// collective call.
  std::string place_of(const void* pointer) const;

  /// The first segment: where it lies, and its memory.
  std::byte* base() const { return first().base(); }
  size_t bytes() const { return first().bytes(); }
  const Backing& backing() const { return first().backing(); }
  /// Offset of `pointer` in the first segment, which is also its address on the wire. Throws
  /// kInvalidArgument outside of that.
  uint64_t offset_of(const void* pointer) const;
  /// Zeros [pointer, pointer + bytes) of this PE, which lies in the first segment.
  void zero(void* pointer, size_t bytes) {
    segments_.front().backing().zero(offset_of(pointer), bytes);
  }

  /// Has `told` called of each block that free() gives back, once all PEs have called free().
  void on_free(std::function<void(const void* block, size_t bytes)> told) {
    on_free_ = std::move(told);
  }
  /// Null unless checked mode is on.
  const uint8_t* extents() const {
    return first().extents() ? first().extents()->address() : nullptr;
  }

  size_t allocated() const;     // user blocks and internal region, of all segments
  size_t largest_free() const;  // of any segment
  size_t segments() const { return segments_.size(); }
  /// The window of that number is a segment: free() ends it.
  bool owns(uint32_t window) const;

 private:
  enum class Kind : uint64_t { kMalloc, kCalloc, kAlign, kFree };

  using Segments = std::list<HeapSegment>;

  /// What one PE asks, as it travels. Plain words without padding: compared as a whole.
  struct Request {
    Kind kind;
    HeapKind heap = HeapKind::kDevice;
    uint64_t bytes = 0;      // of allocations
    uint64_t alignment = 0;  // likewise
    uint64_t segment = 0;    // of free: its number
    uint64_t offset = 0;     // likewise; kOutside, kNull
    uint64_t internal = 0;   // bytes reserved so far
    bool operator==(const Request&) const = default;
  };
  static constexpr uint64_t kOutside = ~uint64_t{0};
  static constexpr uint64_t kNull = kOutside - 1;

  static std::string describe(const Request& request);
  const HeapSegment& first() const { return segments_.front(); }
  /// By segment and offset.
  using Place = std::pair<uint64_t, uint64_t>;

  Segments::iterator around(const void* pointer);
  std::vector<Place> in_order() const;
  const HeapSegment& numbered(uint64_t number) const;
  void adopt(HeapSegment& segment);
  void agree(const Request& mine);
  void* allocate(Request asked);
  std::byte* take(const Request& asked);
  void grow(const Request& asked);
  uint64_t growth_for(const Request& asked) const;
  bool give_back(HeapSegment& segment, uint64_t offset);
  void end(Segments::iterator segment);
  [[noreturn]] void refuse(const Request& asked, const std::string& why_not_grown) const;
  [[noreturn]] void refuse_free(const void* pointer, const Request& asked) const;

  Bootstrap& bootstrap_;
  std::optional<HeapGrowth> growth_;
  std::string why_fixed_ = "it does not grow";
  HeapMemory kept_;           // what the heap began with
  uint64_t allocations_ = 0;  // so far
  uint64_t grown_ = 0;        // how often
  std::function<void(const void*, size_t)> on_free_;
  uint64_t internal_ = 0;
  bool in_use_ = false;
  mutable std::mutex mutex_;  // of what follows
  Segments segments_;
  std::map<Place, uint64_t> taken_;  // blocks, with the number of their allocation
};

}  // namespace peal
