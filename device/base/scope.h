// SPDX-License-Identifier: Apache-2.0
//
// Who calls: one thread, a warp together, or a block together. A scope is the second argument of
// every operation and all its lanes must make the call with the same arguments; one of them, the
// leader, talks to the queue.
//
//   put(ctx, thread, ...)   put(ctx, warp, ...)   put(ctx, block, ...)
#pragma once

#include <cstdint>
#include <cstring>
#include <type_traits>

#include "device/base/edge.h"
#include "device/base/target.h"

#if !PEAL_CUDA
#include "simt/lanes/lane.h"
#include "simt/runtime/cuda_names.h"
#endif

namespace peal {

inline constexpr uint32_t kWarpLanes = 32;

/// Linear index of the calling thread in its block, and of its block in the grid.
PEAL_DEVICE uint32_t thread_in_block() {
  return threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z);
}
PEAL_DEVICE uint32_t threads_in_block() { return blockDim.x * blockDim.y * blockDim.z; }
PEAL_DEVICE uint32_t block_in_grid() {
  return blockIdx.x + gridDim.x * (blockIdx.y + gridDim.y * blockIdx.z);
}
PEAL_DEVICE uint32_t blocks_in_grid() { return gridDim.x * gridDim.y * gridDim.z; }

/// `call` needs all blocks of the grid at once: on a CPU a grid that has more than can be resident
/// ends with a sentence that names the call. A GPU leaves them waiting: there CUDA's cooperative
/// launches refuse it.
template <class Call>
PEAL_DEVICE void require_all_blocks([[maybe_unused]] Call call) {
#if !PEAL_CUDA
  if (!simt::all_blocks_fit()) simt::refuse_blocks(to_string(call));
#endif
}

/// Storage shared by the lanes of a block, one object per type T: same type, same object. Not
/// initialised.
template <class T>
PEAL_DEVICE T& block_shared() {
#if PEAL_CUDA
  __shared__ T object;
  return object;
#else
  static const char key = 0;
  return *static_cast<T*>(simt::block_shared(&key, sizeof(T), alignof(T)));
#endif
}

/// The launch's dynamic shared memory, Grid::shared_bytes long.
template <class T>
PEAL_DEVICE T* dynamic_shared() {
#if PEAL_CUDA
  extern __shared__ __align__(16) unsigned char peal_dynamic_shared[];
  return reinterpret_cast<T*>(peal_dynamic_shared);
#else
  return static_cast<T*>(simt::dynamic_shared());
#endif
}

/// Waits for the lanes of `mask`, and orders memory among them: their end of edge E.
template <Edge E>
PEAL_DEVICE void sync_lanes(uint32_t mask) {
  if (weakened(E)) {
    __ballot_sync(mask, 1);  // a vote waits too, and orders nothing
  } else {
    __syncwarp(mask);
  }
}

/// The same for the lanes of the block.
template <Edge E>
PEAL_DEVICE void sync_block_lanes() {
#if PEAL_SIM
  if (weakened(E)) return simt::meet_block();
#endif
  __syncthreads();
}

// Members are static: nvcc lets a kernel call them on the constants `thread`, `warp` and `block`
// below only if they do not need the constant's address.

/// One thread for itself.
struct Thread {
  PEAL_DEVICE static uint32_t rank() { return 0; }
  PEAL_DEVICE static uint32_t size() { return 1; }
  PEAL_DEVICE static bool leader() { return true; }
  PEAL_DEVICE static void sync() {}
  template <class T>
  PEAL_DEVICE static T from_leader(const T& value) {
    return value;
  }
};

/// All lanes of the calling warp (fewer than 32 in a block's last warp).
struct Warp {
  PEAL_DEVICE static uint32_t rank() { return thread_in_block() % kWarpLanes; }
  PEAL_DEVICE static uint32_t size() {
    const uint32_t left = threads_in_block() - (thread_in_block() - rank());
    return left < kWarpLanes ? left : kWarpLanes;
  }
  PEAL_DEVICE static uint32_t mask() {
    const uint32_t lanes = size();
    return lanes == kWarpLanes ? 0xffffffffu : (1u << lanes) - 1;
  }
  PEAL_DEVICE static bool leader() { return rank() == 0; }
  PEAL_DEVICE static void sync() { sync_lanes<Edge::kLanesBeforeLeader>(mask()); }
  template <class T>
  PEAL_DEVICE static T from_leader(const T& value) {
    static_assert(std::is_trivially_copyable_v<T> && sizeof(T) % sizeof(unsigned) == 0);
    struct Words {
      unsigned word[sizeof(T) / sizeof(unsigned)];
    };
    Words words;
    memcpy(&words, static_cast<const void*>(&value), sizeof(T));
    sync_lanes<Edge::kLeaderBeforeLanes>(
        mask());  // a shuffle hands over its value and orders nothing else
    for (unsigned& word : words.word) word = __shfl_sync(mask(), word, 0);
    T answer;
    memcpy(static_cast<void*>(&answer), &words, sizeof(T));
    return answer;
  }
};

/// All threads of the calling block.
struct Block {
  PEAL_DEVICE static uint32_t rank() { return thread_in_block(); }
  PEAL_DEVICE static uint32_t size() { return threads_in_block(); }
  PEAL_DEVICE static bool leader() { return rank() == 0; }
  PEAL_DEVICE static void sync() { sync_block_lanes<Edge::kBlockBeforeLeader>(); }
  template <class T>
  PEAL_DEVICE static T from_leader(const T& value) {
    struct Cell {
      alignas(T) unsigned char bytes[sizeof(T)];
    };
    Cell& cell = block_shared<Cell>();
    if (leader()) memcpy(cell.bytes, static_cast<const void*>(&value), sizeof(T));
    __syncthreads();
    T answer;
    memcpy(static_cast<void*>(&answer), cell.bytes, sizeof(T));
    __syncthreads();  // nobody overwrites the cell before all have read it
    return answer;
  }
};

template <class S>
concept AnyScope = std::is_same_v<S, Thread> || std::is_same_v<S, Warp> || std::is_same_v<S, Block>;

/// All threads of all blocks of a grid whose blocks run at the same time, as those of a cooperative
/// launch do. For collective calls; sync() and leader() are of the calling block.
struct WholeGrid {
  PEAL_DEVICE static uint32_t rank() {
    return block_in_grid() * threads_in_block() + thread_in_block();
  }
  PEAL_DEVICE static uint32_t size() { return blocks_in_grid() * threads_in_block(); }
  PEAL_DEVICE static bool leader() { return Block::leader(); }
  PEAL_DEVICE static void sync() { Block::sync(); }
};

/// All threads of a grid that makes one collective call and nothing else: its launch and its end
/// are the call's. For the library's own kernels.
struct LaunchedGrid : WholeGrid {};

template <class S>
concept AnyGrid = std::is_base_of_v<WholeGrid, S>;
template <class S>
concept AnyGroup = AnyScope<S> || AnyGrid<S>;

/// Runs `op` on the scope's leader, after the others have arrived, and gives every lane its answer.
template <class Scope, class Op>
PEAL_DEVICE auto by_leader(Scope scope, const Op& op) {
  if constexpr (std::is_same_v<Scope, Thread>) {
    return op();
  } else {
    decltype(op()) answer{};
    scope.sync();  // kLanesBeforeLeader: what the lanes wrote precedes what the leader posts
    if (scope.leader()) answer = op();
    return scope.from_leader(answer);
  }
}

/// True for every lane if it is for one of them: a warp's lanes must all say the same. Orders
/// memory among them.
template <class Scope>
PEAL_DEVICE bool any(Scope scope, bool mine) {
  if constexpr (std::is_same_v<Scope, Block>) {
    return __syncthreads_or(mine) != 0;
  } else {
    scope.sync();
    return mine;
  }
}

/// The first lane's value that is not zero (kOk), for every lane; all lanes of the scope call.
/// Orders memory among them.
template <class Scope, class Code>
PEAL_DEVICE Code first_failure(Scope scope, Code code) {
  const auto mine = static_cast<unsigned>(code);
  if constexpr (std::is_same_v<Scope, Warp>) {
    scope.sync();  // kLanesBeforeLeader: votes order nothing
    const unsigned failed = __ballot_sync(scope.mask(), mine != 0);
    const int lane = failed == 0 ? 0 : __ffs(static_cast<int>(failed)) - 1;
    return static_cast<Code>(__shfl_sync(scope.mask(), mine, lane));
  } else if constexpr (std::is_same_v<Scope, Block>) {
    struct Cell {
      unsigned code;
    };
    unsigned& cell = block_shared<Cell>().code;
    if (__syncthreads_or(mine != 0) == 0) return code;
    if (scope.leader()) cell = 0;
    __syncthreads();
    if (mine != 0) atomicCAS(&cell, 0u, mine);
    __syncthreads();
    const unsigned answer = cell;
    __syncthreads();
    return static_cast<Code>(answer);
  } else {
    return code;
  }
}

inline constexpr Thread thread{};
inline constexpr Warp warp{};
inline constexpr Block block{};
inline constexpr WholeGrid whole_grid{};
inline constexpr LaunchedGrid launched_grid{};

/// The lanes of a warp that arrived at one call together with the same key: they reserve once and
/// ring once.
class Coalesced {
 public:
  // Inlined in any build: on a CPU the place in the code tells which lanes arrived together, and
  // two callers of different work requests must not be taken for one.
  [[gnu::always_inline]] PEAL_DEVICE explicit Coalesced(const void* key)
      : mask_(__match_any_sync(__activemask(), reinterpret_cast<unsigned long long>(key))) {}

  PEAL_DEVICE uint32_t size() const { return static_cast<uint32_t>(__popc(mask_)); }
  PEAL_DEVICE uint32_t rank() const {
    return static_cast<uint32_t>(__popc(mask_ & ((1u << lane()) - 1)));
  }
  PEAL_DEVICE bool leader() const { return rank() == 0; }
  PEAL_DEVICE bool last() const { return rank() + 1 == size(); }
  template <Edge E>
  PEAL_DEVICE void sync() const {
    sync_lanes<E>(mask_);
  }
  /// Gives every lane the leader's value; false for all when the leader has none.
  PEAL_DEVICE bool share(bool have, uint64_t* value) const {
    constexpr unsigned long long kNothing = ~0ull;
    __syncwarp(mask_);  // a shuffle orders nothing: what the leader acquired holds for all lanes
    const unsigned long long shared =
        __shfl_sync(mask_, have ? static_cast<unsigned long long>(*value) : kNothing,
                    static_cast<int>(first()));
    *value = shared;
    return shared != kNothing;
  }
  /// The value of the lane with rank `of`, for every lane; of a group whose lanes are adjacent.
  template <class T>
  PEAL_DEVICE T of_rank(T value, uint32_t of) const {
    return __shfl_sync(mask_, value, static_cast<int>(first() + of));
  }
  /// True if no lane between the first and the last is missing.
  PEAL_DEVICE bool adjacent() const {
    const uint32_t from_first = mask_ >> first();
    return (from_first & (from_first + 1)) == 0;
  }
  /// True for every lane where it is for each.
  PEAL_DEVICE bool all(bool mine) const { return __all_sync(mask_, mine) != 0; }

 private:
  PEAL_DEVICE static uint32_t lane() { return thread_in_block() % kWarpLanes; }
  PEAL_DEVICE uint32_t first() const {
    return static_cast<uint32_t>(__ffs(static_cast<int>(mask_)) - 1);
  }
  uint32_t mask_;
};

}  // namespace peal
