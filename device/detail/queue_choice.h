// SPDX-License-Identifier: Apache-2.0
//
// Which of a context's queues to a PE a post goes by:
//
//   by block   block % queues_per_peer. All that a block posts to a PE travels on one queue: what
//              signal() vouches for (docs/memory_model.md, rule 1), and collective calls rely on
//   by warp    ContextFields::by_warp, for calls of a thread or a warp that order nothing but by
//              fence and quiet, which drain all queues: NVSHMEM's. 32 blocks of 128 threads fill
//              128 queues then. Where there are somewhat more warps than queues they take turns, so
//              that none stays where others are slow, or where three meet while elsewhere two do.
//              Not for windows other than the heap, whose look-up has no registers left for it
#pragma once

#include <cstdint>
#include <type_traits>

#include "device/base/scope.h"
#include "device/base/spin.h"
#include "device/context.h"
#include "device/detail/asked.h"
#include "device/nic/post.h"

namespace peal {
namespace detail {

/// Nanoseconds of a turn, as a power of two. A post on a queue that quiet has unmarked since costs
/// a mark (nic/mark.h), some 3 us.
inline constexpr uint32_t kTurnShift = 14;

/// Queue `index` of the context: queue of the peer * n_pes + pe.
PEAL_HD SendQueue* queue_at(const ContextFields& ctx, uint32_t index) {
  return reinterpret_cast<SendQueue*>(ctx.queues + index * ctx.queue_stride);
}

/// With this many warps on each queue one more makes little difference.
inline constexpr uint32_t kManyLayers = 8;

/// True if warps change queues: not all warps get on as fast, also where each queue has as many as
/// the next. With fewer queues than layers two layers would move alike.
PEAL_HD constexpr bool take_turns(uint32_t warps, uint32_t queues) {
  return warps > queues && warps / queues < kManyLayers && queues > kManyLayers;
}

/// The queue of a warp in a turn. Warps [k * queues, (k + 1) * queues) are a layer, in which each
/// has a queue to itself; a layer moves on by k + 1 queues, so that no two layers stay together.
PEAL_HD constexpr uint32_t queue_in_turn(uint32_t warp, uint32_t queues, uint32_t turn) {
  return (warp + turn * (warp / queues + 1)) % queues;
}

/// Asked::by_warp of a transfer by scope S: a block's one post goes by the block's queue.
template <class S>
PEAL_DEVICE uint8_t chosen_by(const ContextFields& ctx) {
  return std::is_same_v<S, Block> ? uint8_t{0} : ctx.by_warp;
}

/// The calling warp's queue.
PEAL_DEVICE uint32_t queue_of_warp(uint32_t queues) {
  const uint32_t blocks = blocks_in_grid();
  const uint32_t warps = (threads_in_block() + kWarpLanes - 1) / kWarpLanes * blocks;
  const uint32_t warp = thread_in_block() / kWarpLanes * blocks + block_in_grid();
  if (!take_turns(warps, queues)) return warp % queues;
  return queue_in_turn(warp, queues, static_cast<uint32_t>(now_ns() >> kTurnShift));
}

/// The caller's queue to the PE. Atomics go by rail 0, for two NICs are not atomic with one
/// another: by the next lower queue that does.
PEAL_DEVICE SendQueue* chosen_queue(const ContextFields& ctx, const Asked& asked) {
  uint32_t queue = 0;
  if (ctx.queues_per_peer != 1) {
    queue = asked.by_warp != 0 ? queue_of_warp(ctx.queues_per_peer)
                               : block_in_grid() % ctx.queues_per_peer;
  }
  if (ctx.rails > 1 && asked.use >= Use::kAtomic) queue -= queue % ctx.rails;
  return queue_at(ctx, queue * static_cast<uint32_t>(ctx.n_pes) + static_cast<uint32_t>(asked.pe));
}

}  // namespace detail
}  // namespace peal
