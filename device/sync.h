// SPDX-License-Identifier: Apache-2.0
//
// Ordering and completion: fence, quiet, sync_all, barrier_all. Edges M14 and M15 of
// docs/memory_model.md.
//
//   quiet        everything this PE posted on the context has been executed at its peers, results
//                have landed; where blocks own queues (kLane, kBlock), what the calling block
//                posted
//   fence        what was posted before is executed at each peer before what is posted after
//   sync_all     every PE has arrived (says nothing of transfers)
//   barrier_all  quiet, then sync_all
//
// "Posted" includes what other lanes posted if they synchronised with the caller first; where
// blocks own queues, what other lanes of the block did. No block touches the queues of another
// there, so each calls for itself, at any time. A barrier then vouches for the blocks that called
// quiet and then synchronised with its caller.
#pragma once

#include <cstdint>

#include "device/base/order.h"
#include "device/base/scope.h"
#include "device/base/spin.h"
#include "device/context.h"
#include "device/rails.h"
#include "device/resolve.h"
#include "device/signal.h"
#include "device/wait.h"

namespace peal {
namespace detail {

/// Drains `count` queues; the first failure wins, but every queue is waited for. Most have
/// nothing under way: their states are looked at several at once, for each look takes long.
template <Reach R>
PEAL_DEVICE_COLD Status drain_queues(std::byte* queues, uint64_t stride, uint32_t count) {
  constexpr uint32_t kBatch = 8;
  const auto queue = [&](uint32_t i) -> mlx5::SendQueue& {
    return *reinterpret_cast<mlx5::SendQueue*>(queues + i * stride);
  };
  Status first = Status::kOk;
  for (uint32_t from = 0; from < count; from += kBatch) {
    uint64_t last[kBatch];
    uint64_t completed[kBatch];
    uint32_t failed[kBatch];
    PEAL_UNROLL
    for (uint32_t k = 0; k < kBatch; ++k) {
      const mlx5::SendQueue& q = queue(from + k < count ? from + k : from);
      last[k] = load_batched<R>(&q.last_published);
      completed[k] = load_batched<R>(&q.completed);
      failed[k] = load_batched<R>(&q.error.status);
    }
    acquire_batch<Edge::kM14Batch>();
    PEAL_UNROLL
    for (uint32_t k = 0; k < kBatch; ++k) {
      const bool missing = static_cast<int64_t>(last[k] - completed[k]) >= 0;
      if (weakened(Edge::kM14) && from + k != 0) continue;
      if (from + k >= count || (!missing && failed[k] == 0)) continue;
      if (failed[k] == static_cast<uint32_t>(Status::kPeerMasked)) continue;  // nobody waits there
      const Status status = mlx5::drain<R>(queue(from + k));
      if (first == Status::kOk) first = status;
    }
  }
  return first;
}

/// Everything posted and stored so far has arrived; the first error of the context.
template <Reach R>
PEAL_DEVICE Status drain_all(const BasicContext<R>& ctx) {
  Status first = usage_status(ctx);  // looked up while the fence waits
  const QueueRange queues = drained_queues<R>(ctx);
  if (queues.count != 0) {
    // Edge M17: what the NICs of the peers took is there for flags that come by other ways, too.
    if (ctx.settle != 0 && !weakened(Edge::kM17)) begin_settling<R>(ctx.state);
    std::byte* const first_queue = ctx.queues + queues.first * ctx.queue_stride;
    const Status drained = drain_queues<R>(first_queue, ctx.queue_stride, queues.count);
    if (first == Status::kOk) first = drained;
  }
  fence_direct_stores<Edge::kM16>();  // behind the queues: it passes on what the NIC has brought,
                                      // too
  return first;
}

/// The queue to `pe` that carries barriers' flags: queue 0, or the calling block's own.
template <Reach R>
PEAL_DEVICE mlx5::SendQueue* flag_queue(const BasicContext<R>& ctx, uint32_t pe) {
  return queue_at(ctx, drained_queues<R>(ctx).first + pe);
}

/// Writes a barrier's flag at `pe`, in the order of that queue. The caller has fenced (edge M16):
/// one fence serves the flags of a round, where a release each would wait for the flag before.
template <Reach R>
PEAL_DEVICE Status set_flag(const BasicContext<R>& ctx, uint64_t* flag, uint64_t epoch, int pe) {
  const uint64_t offset = offset_in(ctx.heap, flag);
  std::byte* const mapped = heap_of(ctx, pe);
  if (mapped != nullptr) {
    store_relaxed<Reach::kSystem>(reinterpret_cast<uint64_t*>(mapped + offset), epoch);
    return Status::kOk;
  }
  mlx5::SendQueue* const q = flag_queue(ctx, static_cast<uint32_t>(pe));
  const mlx5::Remote at{offset, ctx.heap.word_rkeys[pe]};
  return with_set(ctx, *q, at, epoch,
                  [&](const auto& compose) { return post<R, true>(*q, compose); })
      .status;
}

/// What a barrier looks up before it fences: the fence takes longer.
struct SyncBegin {
  uint64_t epoch;  // of this barrier
  Near next;       // the first flag of the next PE
};

/// One scope at a time is here: what it reads, the one before it wrote.
PEAL_DEVICE SyncBegin begin_sync(const ContextFields& ctx) {
  const int next = ctx.pe + 1 < ctx.n_pes ? ctx.pe + 1 : 0;
  return {load_relaxed<Reach::kGpu>(&ctx.state->sync_epoch) + 1,
          find_near(ctx, ctx.sync_flags, sizeof(uint64_t), next)};
}

/// What ends a wait for a flag early: the context's stop word, or the queue of the pair by which
/// the flag would come. That one may carry a flag of this PE, and nobody else polls it now.
template <Reach R>
PEAL_DEVICE_COLD Status end_of_flag(const uint32_t* stop, mlx5::SendQueue* q) {
  if (q == nullptr) return static_cast<Status>(load_relaxed<Reach::kSystem>(stop));
  mlx5::poll<R>(*q);
  return mlx5::stop_status<R>(*q);
}

/// Waits until PE `pe` has written `epoch` or more into the flag.
template <Reach R>
PEAL_DEVICE Status wait_flag(const BasicContext<R>& ctx, const uint64_t* flag, uint64_t epoch,
                             uint32_t pe) {
  const bool mapped = heap_of(ctx, static_cast<int>(pe)) != nullptr;
  mlx5::SendQueue* const q = mapped ? nullptr : flag_queue(ctx, pe);
  Status ended = Status::kOk;
  const SpinEnd end = spin_until(
      ctx.timeout_ns, [&] { return acquire_word(flag) >= epoch; },
      [&] {
        ended = end_of_flag<R>(ctx.stop, q);
        return ended != Status::kOk;
      });
  return end == SpinEnd::kTimedOut ? Status::kTimeout : ended;
}

/// The barrier of sync_pes() once PEs are masked: the same among those that are left, by their
/// rank.
template <Reach R>
PEAL_DEVICE_COLD Status sync_survivors(ContextState* state, uint64_t epoch) {
  const auto& ctx = static_cast<const BasicContext<R>&>(state->fields);
  const Survivors& left = state->survivors;
  store_relaxed<Reach::kGpu>(&state->sync_epoch, epoch);
  uint64_t* flags = ctx.sync_flags;
  Status first = Status::kOk;
  for (uint32_t distance = 1; distance < left.count; distance *= kSyncFan) {
    fence_direct_stores<Edge::kM15>();  // passes on what the round before brought
    for (uint32_t i = 1; i < kSyncFan && i * distance < left.count; ++i) {
      const int pe = left.pe[(left.rank + i * distance) % left.count];
      const Status status = set_flag(ctx, flags + i - 1, epoch, pe);
      if (first == Status::kOk) first = status;
    }
    for (uint32_t i = 1; first == Status::kOk && i < kSyncFan && i * distance < left.count; ++i) {
      const int pe = left.pe[(left.rank + left.count - i * distance) % left.count];
      first = wait_flag(ctx, flags + i - 1, epoch, static_cast<uint32_t>(pe));
    }
    flags += kSyncFan - 1;
  }
  return first;
}

/// Dissemination barrier: in round r, tell the PEs 1, 2, ... times kSyncFan^r ahead, then wait for
/// those as far behind. All PEs of a machine are one round apart. Flags are set, not counted: all
/// barriers of a context announce themselves on queue 0 of a peer, and a PE one barrier ahead
/// leaves a larger number. sync_all_pes() sees to those that do not.
template <Reach R>
PEAL_DEVICE Status sync_pes(const BasicContext<R>& ctx, const SyncBegin& begin) {
  const uint64_t epoch = begin.epoch;
  if (ctx.sync_rounds == 0) return sync_survivors<R>(ctx.state, epoch);
  const bool told_next = begin.next.here & (ctx.n_pes > 1);
  if (told_next) {
    store_relaxed<Reach::kSystem>(reinterpret_cast<uint64_t*>(begin.next.address), epoch);
  }
  store_relaxed<Reach::kGpu>(&ctx.state->sync_epoch, epoch);
  uint64_t* flags = ctx.sync_flags;
  const auto n = static_cast<uint32_t>(ctx.n_pes);
  Status first = Status::kOk;
  uint32_t distance = 1;
  for (uint32_t round = 0; round < ctx.sync_rounds; ++round) {
    if (round != 0) fence_direct_stores<Edge::kM15>();  // passes on what the round before brought
    const uint32_t from = round == 0 && told_next ? 2 : 1;
    for (uint32_t i = from; i < kSyncFan && i * distance < n; ++i) {
      const uint32_t ahead = static_cast<uint32_t>(ctx.pe) + i * distance;
      const auto pe = static_cast<int>(ahead < n ? ahead : ahead - n);
      const Status status = set_flag(ctx, flags + i - 1, epoch, pe);
      if (first == Status::kOk) first = status;
    }
    // After a failure the others are still told, so that they need not wait for a deadline.
    for (uint32_t i = 1; first == Status::kOk && i < kSyncFan && i * distance < n; ++i) {
      const uint32_t behind = static_cast<uint32_t>(ctx.pe) + n - i * distance;
      first = wait_flag(ctx, flags + i - 1, epoch, behind < n ? behind : behind - n);
    }
    distance *= kSyncFan;
    flags += kSyncFan - 1;
  }
  return first;
}

/// sync_pes(), and where blocks own queues, its flags' arrival: the next barrier may be of another
/// block, whose flag on another queue would come first and be replaced by the older one.
template <Reach R>
PEAL_DEVICE Status sync_all_pes(const BasicContext<R>& ctx, const SyncBegin& begin) {
  const Status synced = sync_pes(ctx, begin);
  if constexpr (R != Reach::kGpu) {
    if (ctx.queues_per_peer > 1) {
      const Status arrived = drain_all(ctx);
      return synced != Status::kOk ? synced : arrived;
    }
  }
  return synced;
}

}  // namespace detail

/// Waits until everything this PE posted on the context is complete, at the peers too; of a context
/// whose queues are owned, everything the calling block posted. Reports their first error.
template <Reach R, class S>
requires detail::kIsScope<S>
[[nodiscard]] PEAL_DEVICE Status quiet(const BasicContext<R>& ctx, S scope) {
  return by_leader(scope, [&] { return detail::drain_all(ctx); });
}

template <Reach R>
[[nodiscard]] PEAL_DEVICE Status quiet(const BasicContext<R>& ctx) {
  return quiet(ctx, thread);
}

/// Orders, per peer, what was posted on the context before it ahead of what is posted after it.
/// With one queue per peer, or queues that blocks own, one way to each PE and payload placed in
/// order the queue does that already and fence costs nothing; else it waits as quiet does.
template <Reach R, class S>
requires detail::kIsScope<S>
[[nodiscard]] PEAL_DEVICE Status fence(const BasicContext<R>& ctx, S scope) {
  return by_leader(scope, [&] {
    const bool several = R == Reach::kGpu && ctx.queues_per_peer > 1;
    if (several || (ctx.relaxed | ctx.settle) != 0) return detail::drain_all(ctx);
    fence_direct_stores<Edge::kM16>();
    return detail::usage_status(ctx);
  });
}

template <Reach R>
[[nodiscard]] PEAL_DEVICE Status fence(const BasicContext<R>& ctx) {
  return fence(ctx, thread);
}

/// Returns once every PE has called it on its context of the same creation order. One scope of one
/// kernel per PE calls; where blocks own queues, any block, which has synchronised with the one
/// that called the barrier before.
template <Reach R, class S>
requires detail::kIsScope<S>
[[nodiscard]] PEAL_DEVICE Status sync_all(const BasicContext<R>& ctx, S scope) {
  return by_leader(scope, [&] {
    const detail::SyncBegin begin = detail::begin_sync(ctx);
    fence_direct_stores<Edge::kM16>();
    return detail::sync_all_pes(ctx, begin);
  });
}

template <Reach R>
[[nodiscard]] PEAL_DEVICE Status sync_all(const BasicContext<R>& ctx) {
  return sync_all(ctx, thread);
}

/// quiet, then sync_all: afterwards every PE sees what every PE had put.
template <Reach R, class S>
requires detail::kIsScope<S>
[[nodiscard]] PEAL_DEVICE Status barrier_all(const BasicContext<R>& ctx, S scope) {
  return by_leader(scope, [&] {
    const detail::SyncBegin begin = detail::begin_sync(ctx);
    const Status drained = detail::drain_all(ctx);
    // Arrive even after a failure: the peers did nothing wrong and must not wait for a deadline.
    const Status synced = detail::sync_all_pes(ctx, begin);
    return drained != Status::kOk ? drained : synced;
  });
}

template <Reach R>
[[nodiscard]] PEAL_DEVICE Status barrier_all(const BasicContext<R>& ctx) {
  return barrier_all(ctx, thread);
}

}  // namespace peal
