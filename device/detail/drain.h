// SPDX-License-Identifier: Apache-2.0
//
// What quiet, fence, barriers and atomics wait for: queues drained, and settled where a PE's memory
// is reached in more than one way (two NICs, or a NIC and a mapping). Edges M14, M16 and M17.
//
//   quiet, fence  settle the queues that they drain where ContextFields::settle says so
//   an atomic     goes by rail 0 where there are several (resolve.h), so that one NIC of the peer
//                 executes all of them. Where that is not the block's own queue, the own queue is
//                 settled first, and the atomic is waited for: the block's order holds
//
// A settled queue: the peer's memory shows what the queue has carried. A completion says that the
// peer's NIC took it; that NIC's writes may still be on the bus when a flag comes another way. The
// answer to a READ on the same queue passes no earlier write of that NIC (PCIe).
// docs/memory_model.md, "Several ways to one memory".
#pragma once

#include <cstdint>

#include "device/context.h"
#include "device/detail/resolve.h"
#include "device/detail/transfer.h"
#include "device/transport/ibgda.h"

namespace peal {
namespace detail {

/// Posts a READ behind what the queue carries, unless one is the last thing there already.
template <Reach R, bool kTogether>
PEAL_DEVICE void post_settling_read(const ContextFields& ctx, mlx5::SendQueue& q) {
  const uint64_t published = load_acquire<R>(&q.published);
  if (load_relaxed<R>(&q.settled) == published) return;
  const uint32_t at = rail_of(ctx, q) * static_cast<uint32_t>(ctx.n_pes) + q.peer;
  const mlx5::Remote first_word{0, ctx.heap.word_rkeys[at]};
  const Ticket read = post<R, kTogether>(q, [&](const mlx5::Header& h) {
    return mlx5::compose_read(h, first_word, ibgda::Landing::sink(q), sizeof(uint64_t));
  });
  if (read.status == Status::kOk) store_relaxed<R>(&q.settled, read.index + 1);
}

/// Settles one queue and waits for it.
template <Reach R, bool kTogether>
PEAL_DEVICE_COLD Status settle(const ContextState* state, mlx5::SendQueue* q) {
  const Status known = mlx5::stop_status<R>(*q);
  if (known != Status::kOk) return known;
  post_settling_read<R, kTogether>(state->fields, *q);
  return mlx5::drain<R>(*q);
}

/// Lets READs settle the caller's queues that work; draining the queues waits for them. Most have
/// carried nothing since: like drain_queues() it looks at several at once.
template <Reach R>
PEAL_DEVICE_COLD void begin_settling(const ContextState* state) {
  constexpr uint32_t kBatch = 8;
  const ContextFields& ctx = state->fields;
  const QueueRange range = drained_queues<R>(ctx);
  const uint32_t queues = range.first + range.count;
  for (uint32_t from = range.first; from < queues; from += kBatch) {
    uint64_t published[kBatch];
    uint64_t settled[kBatch];
    PEAL_UNROLL
    for (uint32_t k = 0; k < kBatch; ++k) {
      const mlx5::SendQueue& q = *queue_at(ctx, from + k < queues ? from + k : from);
      published[k] = load_batched<R>(&q.published);
      settled[k] = load_batched<R>(&q.settled);
    }
    PEAL_UNROLL
    for (uint32_t k = 0; k < kBatch; ++k) {
      if (from + k >= queues || published[k] == settled[k]) continue;
      mlx5::SendQueue& q = *queue_at(ctx, from + k);
      if (mlx5::stop_status<R>(q) == Status::kOk) post_settling_read<R, true>(ctx, q);
    }
  }
}

/// The calling block's own queue, if an atomic that goes by `at` leaves it; else null.
template <Reach R>
PEAL_DEVICE mlx5::SendQueue* queue_left(const BasicContext<R>& ctx, const mlx5::SendQueue* at,
                                        int pe) {
  if (ctx.rails == 1) return nullptr;
  mlx5::SendQueue* const own = block_queue(ctx, pe, Use::kPayload);
  return own == at ? nullptr : own;
}

/// Before an atomic is posted: what the block posted before it, on the queue that it leaves, is
/// executed.
template <Reach R, bool kTogether>
PEAL_DEVICE Status settle_left(const BasicContext<R>& ctx, mlx5::SendQueue* left) {
  return left == nullptr ? Status::kOk : settle<R, kTogether>(ctx.state, left);
}

/// ibgda::wait() for atomics that left their block's queue.
template <Reach R, Rings kRings>
PEAL_DEVICE_COLD Status wait_there(Ticket ticket) {
  if constexpr (kRings == Rings::kLater) ibgda::ring_for<R>(ticket);
  return ibgda::wait<R>(ticket);
}

/// post() for an atomic that nobody waits for.
template <Reach R, bool kTogether, Rings kRings = Rings::kNow, class Compose>
PEAL_DEVICE Ticket post_in_order(const BasicContext<R>& ctx, const Destination& at, int pe,
                                 const Compose& compose) {
  mlx5::SendQueue* const left = queue_left(ctx, at.queue, pe);
  const Status before = settle_left<R, kTogether>(ctx, left);
  if (before != Status::kOk) return Ticket{nullptr, 0, before};
  Ticket ticket = post<R, kTogether, kRings>(*at.queue, compose);
  if (left != nullptr) ticket.status = wait_there<R, kRings>(ticket);
  return ticket;
}

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
  // Behind the queues: it passes on what the NIC has brought, too.
  fence_direct_stores<Edge::kM16>();
  return first;
}

/// True if what is posted first is executed first at its PE, without waiting.
template <Reach R>
PEAL_DEVICE bool queues_keep_order(const BasicContext<R>& ctx) {
  const bool several = R == Reach::kGpu && ctx.queues_per_peer > 1;
  return !several && (ctx.relaxed | ctx.settle) == 0;
}

/// drain_all() for what goes to one PE.
template <Reach R>
PEAL_DEVICE_COLD Status drain_pe(ContextState* state, int pe) {
  const auto& ctx = static_cast<const BasicContext<R>&>(state->fields);
  const auto peers = static_cast<uint32_t>(ctx.n_pes);
  if (static_cast<uint32_t>(pe) >= peers) {
    return refuse(state, Status::kBadPe, Asked{nullptr, 0, pe});
  }
  Status first = usage_status(ctx);
  const QueueRange range = drained_queues<R>(ctx);
  const uint32_t at = range.first + static_cast<uint32_t>(pe);
  const bool settles = ctx.settle != 0 && !weakened(Edge::kM17);
  for (uint32_t i = at; settles && i < range.first + range.count; i += peers) {
    mlx5::SendQueue& q = *queue_at(ctx, i);
    if (mlx5::stop_status<R>(q) == Status::kOk) post_settling_read<R, true>(ctx, q);
  }
  const Status drained = drain_queues<R>(ctx.queues + at * ctx.queue_stride,
                                         ctx.queue_stride * peers, range.count / peers);
  fence_direct_stores<Edge::kM16>();
  return first != Status::kOk ? first : drained;
}

}  // namespace detail
}  // namespace peal
