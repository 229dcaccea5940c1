// SPDX-License-Identifier: Apache-2.0
//
// What device code asks of the lane it runs on: who am I, let others run, meet the lanes of my warp
// or block. Volta's rules: lanes diverge freely, and a collective completes when every lane of its
// mask has called the same collective with the same mask.
//
// Outside a kernel a thread is a grid of one lane: barriers return at once, a shuffle returns its
// own value, masks are bit 0.
//
// Invariant: when a launch stops early (a lane threw, a collective was misused), every call below
// that can wait leaves by an exception that ends the lane and runs its destructors. So device code
// that calls them must not be noexcept, and must not swallow `catch (...)`.
#pragma once

#include <cstddef>
#include <cstdint>

#include "simt/lanes/dim3.h"

namespace peal::simt {

inline constexpr unsigned kWarpLanes = 32;

// CUDA's four index variables, in CUDA's spelling so that the runtime can hand them on. A worker
// sets them whenever it resumes a lane; a lane never changes its thread. Read them, never write.
inline constinit thread_local Dim3 threadIdx{0, 0, 0};
inline constinit thread_local Dim3 blockIdx{0, 0, 0};
inline constinit thread_local Dim3 blockDim{1, 1, 1};
inline constinit thread_local Dim3 gridDim{1, 1, 1};

/// True on a lane of a launch.
bool in_kernel();

/// The address of the kernel that this thread runs lanes of (LaneGrid::kernel), or null.
const void* kernel();

/// This lane within its warp, 0..31.
unsigned lane_id();

/// This lane's warp within its block.
unsigned warp_id();

/// This thread within its block, x fastest: warp_id() * 32 + lane_id().
unsigned thread_rank();

/// Threads of this block.
unsigned block_threads();

/// One bit for each lane this warp was launched with; the last warp of a block may have fewer than
/// 32. Masks given to collectives may name the missing lanes: their bits are dropped.
uint32_t warp_mask();

/// What a spin loop calls each turn: every other lane of this worker runs before it returns, and a
/// worker whose lanes all spin offers its CPU to other threads. Once no lane progressed() for 500
/// us it naps: for up to a sixteenth of the wait so far, at least 50 us, at most 1 ms. Outside a
/// kernel: std::this_thread::yield().
void yield();

/// What a spin loop calls once it found what it waited for, if it turned at all: keeps the worker
/// from taking a busy kernel that waits often for one that waits long.
void progressed();

/// Nanoseconds of a steady clock, or of the simulation that runs this lane; only differences mean
/// anything.
uint64_t now_ns();

/// Nanoseconds in which this process ran, or of the simulation: the clock of deadlines, which
/// stands still while a debugger holds the process (base/run_clock.h).
uint64_t running_ns();

/// A yield() every 64th call of this worker, for operations that a kernel may spin on.
void breathe();

/// A fence that acquires and releases, as far as CUDA's fence of that name reaches. False outside
/// of a simulation: nothing was done.
enum class FenceReach : uint8_t { kBlock, kDevice, kSystem };
bool simulated_fence(FenceReach reach);

/// Waits for the lanes of `mask` and orders memory among them.
void sync_warp(uint32_t mask);

/// The `value` that lane `source_lane` passed. Orders no memory (as in CUDA). When the source is
/// not in the mask the result is kUndefined; CUDA leaves it undefined.
uint64_t shuffle(uint32_t mask, uint64_t value, unsigned source_lane);
inline constexpr uint64_t kUndefined = 0xA5A5A5A5A5A5A5A5;

/// One bit for each lane of `mask` whose predicate holds. Orders no memory.
uint32_t ballot(uint32_t mask, bool predicate);

/// One bit for each lane of `mask` that passed the same value as this one. Orders no memory.
uint32_t match_any(uint32_t mask, uint64_t value);

/// The lanes of this warp that arrived at this call together, as __activemask(). The caller waits
/// until every other running lane of its warp has had one slice: it came here too, or ended,
/// blocked, or yielded elsewhere. NOT guaranteed (nor in CUDA): that lanes which could arrive
/// together do.
uint32_t converged_mask();

/// As converged_mask() for wrappers that are not inlined: lanes group by equal `site`.
uint32_t converged_mask_at(const void* site);

/// Waits for every lane of the block that has not ended, and orders memory among them.
void sync_block();

/// As sync_block(), but in a simulation it orders nothing: to show what a barrier's order is for.
void meet_block();

/// As sync_block(); the number of lanes whose predicate holds.
int sync_block_count(bool predicate);

/// False where this grid has more blocks than can ever be resident at once. A cooperative one has
/// not.
bool all_blocks_fit();

/// Throws LaneError: `call` needs all blocks at once.
[[noreturn]] void refuse_blocks(const char* call);

/// Shared memory of this block: the same key yields the same storage to every lane of the block.
/// Not zeroed. `bytes` and `align` must agree between callers of one key, or the launch ends with
/// an Error. Outside a kernel: storage of this host thread.
void* block_shared(const void* key, size_t bytes, size_t align);

/// The LaneGrid::shared_bytes of this block, aligned to 128; null when there are none.
void* dynamic_shared();

}  // namespace peal::simt
