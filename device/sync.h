// SPDX-License-Identifier: Apache-2.0
//
// Ordering and completion: fence, quiet, sync_all, barrier_all. Edges M14 and M15 of
// docs/memory_model.md.
//
//   quiet        everything this PE posted on the context has been executed at its peers, results
//   have landed fence        what was posted before is executed at each peer before what is posted
//   after sync_all     every PE has arrived (says nothing of transfers) barrier_all  quiet, then
//   sync_all
//
// "Posted" includes what other lanes posted if they synchronised with the caller first.
#pragma once

#include <cstdint>

#include "device/base/order.h"
#include "device/base/scope.h"
#include "device/context.h"
#include "device/resolve.h"
#include "device/signal.h"
#include "device/wait.h"

namespace peal {
namespace detail {

/// Drains all queues of the context; the first failure wins, but every queue is waited for.
template <Reach R>
PEAL_DEVICE Status drain_all(const BasicContext<R>& ctx) {
  Status first = usage_status(ctx);
  fence_direct_stores();
  const uint32_t queues = ctx.queues_per_peer * static_cast<uint32_t>(ctx.n_pes);
  for (uint32_t i = 0; i < queues; ++i) {
    const Status status = mlx5::drain<R>(*queue_at(ctx, i));
    if (first == Status::kOk) first = status;
  }
  return first;
}

/// Dissemination barrier: in round r, tell the PE 2^r ahead and wait for the one 2^r behind.
template <Reach R>
PEAL_DEVICE Status sync_pes(const BasicContext<R>& ctx) {
  const uint64_t epoch = fetch_add_relaxed<R>(&ctx.state->sync_epoch, uint64_t{1}) + 1;
  for (uint32_t round = 0; round < ctx.sync_rounds; ++round) {
    const int ahead = static_cast<int>((static_cast<uint32_t>(ctx.pe) + (1u << round)) %
                                       static_cast<uint32_t>(ctx.n_pes));
    uint64_t* flag = &ctx.sync_flags[round];
    // Counted, not set: two barriers called by different blocks travel on different queues, and the
    // later one may arrive first. A fast peer may already be one barrier ahead.
    Status status = signal(ctx, Signal::add(flag, 1, ahead));
    if (status != Status::kOk) return status;
    status = wait_until(ctx, flag, Compare::kGe, epoch);
    if (status != Status::kOk) return status;
  }
  return Status::kOk;
}

}  // namespace detail

/// Waits until everything this PE posted on the context is complete, at the peers too. Reports the
/// context's first error.
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
/// With one queue per peer the queue does that already and fence costs nothing; with several it
/// waits as quiet does.
template <Reach R, class S>
requires detail::kIsScope<S>
[[nodiscard]] PEAL_DEVICE Status fence(const BasicContext<R>& ctx, S scope) {
  return by_leader(scope, [&] {
    if (ctx.queues_per_peer > 1) return detail::drain_all(ctx);
    fence_direct_stores();
    return detail::usage_status(ctx);
  });
}

template <Reach R>
[[nodiscard]] PEAL_DEVICE Status fence(const BasicContext<R>& ctx) {
  return fence(ctx, thread);
}

/// Returns once every PE has called it on its context of the same creation order. One scope of one
/// kernel per PE calls.
template <Reach R, class S>
requires detail::kIsScope<S>
[[nodiscard]] PEAL_DEVICE Status sync_all(const BasicContext<R>& ctx, S scope) {
  return by_leader(scope, [&] { return detail::sync_pes(ctx); });
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
    const Status drained = detail::drain_all(ctx);
    // Arrive even after a failure: the peers did nothing wrong and must not wait for a deadline.
    const Status synced = detail::sync_pes(ctx);
    return drained != Status::kOk ? drained : synced;
  });
}

template <Reach R>
[[nodiscard]] PEAL_DEVICE Status barrier_all(const BasicContext<R>& ctx) {
  return barrier_all(ctx, thread);
}

}  // namespace peal
