// SPDX-License-Identifier: Apache-2.0
//
// The barrier: dissemination (disseminate.h) over flags in the symmetric heap. Edge
// kQuietBeforeBarrier of docs/edges.md.
#pragma once

#include <cstdint>

#include "device/base/order.h"
#include "device/base/spin.h"
#include "device/context.h"
#include "device/detail/disseminate.h"
#include "device/detail/drain.h"
#include "device/detail/resolve.h"
#include "device/detail/signal.h"
#include "device/detail/wait.h"

namespace peal::detail {

/// The queue to `pe` that carries barriers' flags: queue 0, or the calling block's own.
template <Reach R>
PEAL_DEVICE SendQueue* flag_queue(const BasicContext<R>& ctx, uint32_t pe) {
  return queue_at(ctx, drained_queues<R>(ctx).first + pe);
}

/// set_flag() where the NIC reaches the PE; `offset` of the flag in the heap.
template <Reach R>
PEAL_DEVICE Status post_flag(const BasicContext<R>& ctx, uint64_t offset, uint64_t epoch, int pe) {
  SendQueue* const q = flag_queue(ctx, static_cast<uint32_t>(pe));
  const nic::Remote at{offset, ctx.heap.word_rkeys[key_index(ctx, *q, pe)]};
  return with_set(ctx, at, epoch,
                  [&](const auto& request) { return nic::post_by_lane<R, true>(*q, request); })
      .status;
}
template <Reach R>
PEAL_DEVICE_COLD Status post_flag_apart(const ContextState* state, uint64_t offset, uint64_t epoch,
                                        int pe) {
  return post_flag(static_cast<const BasicContext<R>&>(state->fields), offset, epoch, pe);
}

/// Writes a barrier's flag at `pe`, in the order of that queue. The caller has fenced
/// (kStoresBeforeFlag): one fence serves the flags of a round, where a release each would wait for
/// the flag before.
template <Reach R>
PEAL_DEVICE Status set_flag(const BasicContext<R>& ctx, uint64_t* flag, uint64_t epoch, int pe) {
  const uint64_t offset = offset_in(ctx.heap, flag);
  std::byte* const mapped = heap_of(ctx, pe);
  if (mapped != nullptr) {
    store_relaxed<Reach::kSystem>(reinterpret_cast<uint64_t*>(mapped + offset), epoch);
    return Status::kOk;
  }
  if constexpr (PEAL_RELOCATABLE) {  // all barriers share it
    return call_apart<&post_flag_apart<R>>(ctx.state, offset, epoch, pe);
  } else {
    return post_flag(ctx, offset, epoch, pe);
  }
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
          find_near(ctx, {ctx.sync_flags, sizeof(uint64_t), next})};
}

/// What ends a wait for a flag early: the context's stop word, or the queue of the pair by which
/// the flag would come. That one may carry a flag of this PE, and nobody else polls it now.
template <Reach R>
PEAL_DEVICE_COLD Status end_of_flag(const uint32_t* stop, SendQueue* q) {
  if (q == nullptr) return static_cast<Status>(load_relaxed<Reach::kSystem>(stop));
  nic::poll<R>(*q);
  return stop_status<R>(*q);
}

/// A wait for a flag: PE `pe` enters barrier, or meeting of the team, `number`.
PEAL_DEVICE Wait wait_for_flag(const uint64_t* flag, uint32_t pe, uint64_t number,
                               uint64_t team = 0) {
  Wait wait =
      wait_for_word(team == 0 ? WaitKind::kBarrier : WaitKind::kTeam, flag, Compare::kGe, number);
  wait.pe = static_cast<int32_t>(pe);
  wait.number = number;
  wait.team = team;
  return wait;
}

/// Waits until what PE `pe` writes into the flag is `enough`; what() is the wait_for_flag().
template <Reach R, class Enough, class What>
PEAL_DEVICE Status wait_flag(const BasicContext<R>& ctx, const uint64_t* flag, uint32_t pe,
                             const Enough& enough, const What& what) {
  const bool mapped = heap_of(ctx, static_cast<int>(pe)) != nullptr;
  SendQueue* const q = mapped ? nullptr : flag_queue(ctx, pe);
  return wait_noted(
      &ctx.state->waits, ctx.timeout_ns, [&] { return enough(acquire_word(flag)); },
      [&] { return end_of_flag<R>(ctx.stop, q); }, what);
}

/// A barrier's dissemination: this PE is number `rank` of `count`, and number i is PE pe_of(i).
/// Flags are set, not counted: all barriers of a context announce themselves on queue 0 of a peer,
/// and a PE one barrier ahead leaves a larger number. sync_all_pes() sees to those that do not.
/// `told` PEs know already.
template <Reach R, class PeOf>
PEAL_DEVICE Status disseminate(const BasicContext<R>& ctx, uint64_t epoch, uint32_t rank,
                               uint32_t count, uint32_t told, const PeOf& pe_of) {
  Dissemination barrier{rank, count, ctx.sync_flags};
  return barrier.all_rounds([&](uint64_t* flag, uint32_t number,
                                uint32_t) { return set_flag(ctx, flag, epoch, pe_of(number)); },
                            [&](const uint64_t* flag, uint32_t number) {
                              const auto pe = static_cast<uint32_t>(pe_of(number));
                              return wait_flag(
                                  ctx, flag, pe, [&](uint64_t seen) { return seen >= epoch; },
                                  [&] { return wait_for_flag(flag, pe, epoch); });
                            },
                            told);
}

/// The barrier once PEs are masked, of those that are left; and with a plan of faults.
template <Reach R>
PEAL_DEVICE_COLD Status sync_survivors(ContextState* state, uint64_t epoch, Call call) {
  const Survivors& left = state->survivors;
  store_relaxed<Reach::kGpu>(&state->sync_epoch, epoch);
  const Status met = state->faults == nullptr ? Status::kOk : meet_barrier_faults(state, call);
  if (met != Status::kOk) return met;
  return disseminate(static_cast<const BasicContext<R>&>(state->fields), epoch, left.rank,
                     left.count, 0, [&](uint32_t i) { return static_cast<int>(left.pe[i]); });
}

template <Reach R>
PEAL_DEVICE Status sync_pes(const BasicContext<R>& ctx, const SyncBegin& begin, Call call) {
  const uint64_t epoch = begin.epoch;
  if (ctx.sync_rounds == 0) return call_apart<&sync_survivors<R>>(ctx.state, epoch, call);
  const bool told_next = begin.next.here & (ctx.n_pes > 1);
  if (told_next) {
    store_relaxed<Reach::kSystem>(reinterpret_cast<uint64_t*>(begin.next.address), epoch);
  }
  store_relaxed<Reach::kGpu>(&ctx.state->sync_epoch, epoch);
  return disseminate(ctx, epoch, static_cast<uint32_t>(ctx.pe), static_cast<uint32_t>(ctx.n_pes),
                     told_next ? 1 : 0, [](uint32_t i) { return static_cast<int>(i); });
}

/// sync_pes(), and where blocks own queues, its flags' arrival: the next barrier may be of another
/// block, whose flag on another queue would come first and be replaced by the older one.
template <Reach R>
PEAL_DEVICE Status sync_all_pes(const BasicContext<R>& ctx, const SyncBegin& begin, Call call) {
  const Status synced = sync_pes(ctx, begin, call);
  if constexpr (R != Reach::kGpu) {
    if (ctx.queues_per_peer > 1) {
      const Status arrived = drain_all(ctx);
      return synced != Status::kOk ? synced : arrived;
    }
  }
  return synced;
}

}  // namespace peal::detail
