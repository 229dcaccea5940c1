// SPDX-License-Identifier: Apache-2.0
//
// Ordering and completion: fence, quiet, sync_all, barrier_all. Edges
// kDoneBeforeQuiet and kQuietBeforeBarrier of docs/edges.md.
//
//   quiet        everything this PE posted on the context has been executed at its peers, results
//                have landed; where blocks own queues (kLane, kBlock), what the calling block
//                posted. With a PE as the last argument: of that, what goes to this PE
//   fence        what was posted before is executed at each peer before what is posted after
//   sync_all     every PE has arrived (says nothing of transfers)
//   barrier_all  quiet, then sync_all
//
// "Posted" includes what other lanes posted if they synchronised with the caller first; where
// blocks own queues, what other lanes of the block did. No block touches the queues of another
// there, so each calls for itself, at any time. A barrier then vouches for the blocks that called
// quiet and then synchronised with its caller.
#pragma once

#include "device/base/scope.h"
#include "device/context.h"
#include "device/detail/barrier.h"
#include "device/detail/checked.h"
#include "device/detail/drain.h"

namespace peal {

/// Waits until everything this PE posted on the context is complete, at the peers too; of a context
/// whose queues are owned, everything the calling block posted. Reports their first error. Where
/// blocks share queues block 0's calls find out which are not in use any more: while it makes none,
/// each call looks at all that ever were.
template <Reach R, AnyScope S = Thread>
[[nodiscard]] PEAL_DEVICE Status quiet(const BasicContext<R>& ctx, S scope = {}) {
  const auto note = [] { return detail::note_of(Call::kQuiet); };
  return detail::checked(ctx, scope, note, [&] {
    const Status drained = detail::drain_marked(ctx, scope);
    return by_leader(scope, [&] { return detail::end_quiet(ctx, drained); });
  });
}

/// quiet() for what goes to one PE: looks at the queues to that PE and at no others.
template <Reach R, AnyScope S>
[[nodiscard]] PEAL_DEVICE Status quiet(const BasicContext<R>& ctx, S scope, int pe) {
  const auto note = [pe] { return detail::note_of(Call::kQuiet, pe); };
  return detail::checked(ctx, scope, note, [&] {
    return by_leader(scope,
                     [&] { return call_apart<&detail::drain_pe<R, Call::kQuiet>>(ctx.state, pe); });
  });
}
template <Reach R>
[[nodiscard]] PEAL_DEVICE Status quiet(const BasicContext<R>& ctx, int pe) {
  return quiet(ctx, thread, pe);
}

/// Orders, per peer, what was posted on the context before it ahead of what is posted after it.
/// With one queue per peer, or queues that blocks own, one way to each PE and payload placed in
/// order the queue does that already and fence costs nothing; else it waits as quiet does.
template <Reach R, AnyScope S = Thread>
[[nodiscard]] PEAL_DEVICE Status fence(const BasicContext<R>& ctx, S scope = {}) {
  const auto note = [] { return detail::note_of(Call::kFence); };
  return detail::checked(ctx, scope, note, [&] {
    Status drained = Status::kOk;
    if (!detail::queues_keep_order(ctx)) drained = detail::drain_marked(ctx, scope);
    return by_leader(scope, [&] { return detail::end_quiet(ctx, drained); });
  });
}

/// fence() for what goes to one PE.
template <Reach R, AnyScope S>
[[nodiscard]] PEAL_DEVICE Status fence(const BasicContext<R>& ctx, S scope, int pe) {
  const auto note = [pe] { return detail::note_of(Call::kFence, pe); };
  return detail::checked(ctx, scope, note, [&] {
    return by_leader(scope, [&] {
      const bool known = static_cast<uint32_t>(pe) < static_cast<uint32_t>(ctx.n_pes);
      if (!known || !detail::queues_keep_order(ctx)) {
        return call_apart<&detail::drain_pe<R, Call::kFence>>(ctx.state, pe);
      }
      return detail::end_quiet(ctx, Status::kOk);
    });
  });
}
template <Reach R>
[[nodiscard]] PEAL_DEVICE Status fence(const BasicContext<R>& ctx, int pe) {
  return fence(ctx, thread, pe);
}

/// Returns once every PE has called it on its context of the same creation order. One scope of one
/// kernel per PE calls; where blocks own queues, any block, which has synchronised with the one
/// that called the barrier before.
template <Reach R, AnyScope S = Thread>
[[nodiscard]] PEAL_DEVICE Status sync_all(const BasicContext<R>& ctx, S scope = {}) {
  const auto note = [] { return detail::note_of(Call::kSyncAll); };
  return detail::checked(ctx, scope, note, [&] {
    return by_leader(scope, [&] {
      const detail::SyncBegin begin = detail::begin_sync(ctx);
      fence_direct_stores<Edge::kStoresBeforeFlag>();
      return detail::sync_all_pes(ctx, begin, Call::kSyncAll);
    });
  });
}

/// quiet, then sync_all: afterwards every PE sees what every PE had put.
template <Reach R, AnyScope S = Thread>
[[nodiscard]] PEAL_DEVICE Status barrier_all(const BasicContext<R>& ctx, S scope = {}) {
  const auto note = [] { return detail::note_of(Call::kBarrierAll); };
  return detail::checked(ctx, scope, note, [&] {
    const Status queues = detail::drain_marked(ctx, scope);
    return by_leader(scope, [&] {
      const detail::SyncBegin begin = detail::begin_sync(ctx);
      // Not fence_stores(): what begin_sync() looks up is waited for ahead of a choice of fences.
      const Status drained =
          detail::end_quiet_by(ctx, queues, [] { fence_direct_stores<Edge::kStoresBeforeFlag>(); });
      // Arrive even after a failure: the peers did nothing wrong and must not wait for a deadline.
      const Status synced = detail::sync_all_pes(ctx, begin, Call::kBarrierAll);
      return drained != Status::kOk ? drained : synced;
    });
  });
}

}  // namespace peal
