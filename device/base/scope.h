// SPDX-License-Identifier: Apache-2.0
//
// Who calls: one thread, a warp together, or a block together. A scope is the second argument of
// every operation and all its lanes must make the call with the same arguments; one of them, the
// leader, talks to the queue.
//
//   put(ctx, thread, ...)   put(ctx, warp, ...)   put(ctx, block, ...)
#pragma once

#include <cstdint>

#include "device/base/target.h"

#if !PEAL_CUDA
#include "simt/cuda_names.h"
#include "simt/lane.h"
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

/// One thread for itself.
struct Thread {
  PEAL_DEVICE uint32_t rank() const { return 0; }
  PEAL_DEVICE uint32_t size() const { return 1; }
  PEAL_DEVICE bool leader() const { return true; }
  PEAL_DEVICE void sync() const {}
  template <class T>
  PEAL_DEVICE T from_leader(T value) const {
    return value;
  }
};

/// All lanes of the calling warp (fewer than 32 in a block's last warp).
struct Warp {
  PEAL_DEVICE uint32_t rank() const { return thread_in_block() % kWarpLanes; }
  PEAL_DEVICE uint32_t size() const {
    const uint32_t left = threads_in_block() - (thread_in_block() - rank());
    return left < kWarpLanes ? left : kWarpLanes;
  }
  PEAL_DEVICE uint32_t mask() const {
    const uint32_t lanes = size();
    return lanes == kWarpLanes ? 0xffffffffu : (1u << lanes) - 1;
  }
  PEAL_DEVICE bool leader() const { return rank() == 0; }
  PEAL_DEVICE void sync() const { __syncwarp(mask()); }
  template <class T>
  PEAL_DEVICE T from_leader(T value) const {
    return __shfl_sync(mask(), value, 0);
  }
};

/// All threads of the calling block.
struct Block {
  PEAL_DEVICE uint32_t rank() const { return thread_in_block(); }
  PEAL_DEVICE uint32_t size() const { return threads_in_block(); }
  PEAL_DEVICE bool leader() const { return rank() == 0; }
  PEAL_DEVICE void sync() const { __syncthreads(); }
  template <class T>
  PEAL_DEVICE T from_leader(T value) const {
    struct Cell {
      T value;
    };
    T& cell = block_shared<Cell>().value;
    if (leader()) cell = value;
    __syncthreads();
    const T answer = cell;
    __syncthreads();  // nobody overwrites the cell before all have read it
    return answer;
  }
};

inline constexpr Thread thread{};
inline constexpr Warp warp{};
inline constexpr Block block{};

/// The lanes of a warp that arrived at one call together with the same key: they reserve once and
/// ring once.
class Coalesced {
 public:
  PEAL_DEVICE explicit Coalesced(const void* key)
      : mask_(__match_any_sync(__activemask(), reinterpret_cast<unsigned long long>(key))) {}

  PEAL_DEVICE uint32_t size() const { return static_cast<uint32_t>(__popc(mask_)); }
  PEAL_DEVICE uint32_t rank() const {
    return static_cast<uint32_t>(__popc(mask_ & ((1u << lane()) - 1)));
  }
  PEAL_DEVICE bool leader() const { return rank() == 0; }
  PEAL_DEVICE bool last() const { return rank() + 1 == size(); }
  PEAL_DEVICE void sync() const { __syncwarp(mask_); }
  PEAL_DEVICE unsigned long long from_leader(unsigned long long value) const {
    return __shfl_sync(mask_, value, __ffs(static_cast<int>(mask_)) - 1);
  }

 private:
  PEAL_DEVICE static uint32_t lane() { return thread_in_block() % kWarpLanes; }
  uint32_t mask_;
};

}  // namespace peal
