// SPDX-License-Identifier: Apache-2.0
//
// A send queue that kernels own, of any model of NIC: reserve slots, write requests into them,
// publish in order, ring.
//
//   completed <= rung <= published <= reserved        free-running counts of blocks; the last has
//                                                     flags above its count (mark.h)
//
//   reserve(q, n, &at);  Model::write(q.nic, ...) ...;  publish(q, {at, n, last});  ring(q)
//
// Ownership is the type parameter R: Reach::kLane for a queue with one owner (no atomics), kBlock,
// kGpu. What the NIC is told follows `published` and never goes back.
#pragma once

#include <cstdint>
#include <type_traits>
#include <utility>

#include "device/base/call.h"
#include "device/base/order.h"
#include "device/base/spin.h"
#include "device/base/target.h"
#include "device/nic/completion.h"
#include "device/nic/mark.h"
#include "device/nic/nic.h"
#include "device/shared/send_queue.h"

namespace peal::nic {

template <Reach R, AnyQueue Q>
PEAL_HD void ring(Q& q);
template <Reach R, AnyQueue Q>
PEAL_COLD Status wait_for_room(Q& q, uint64_t end);

/// Claims `blocks` blocks and returns the index of the first. Waits while the queue is full, after
/// ringing what is published: a full queue of unrung work would wait for itself. On a status other
/// than kOk nothing may be written. What is `kept` is in memory while it waits (base/call.h).
template <Reach R, AnyQueue Q, class... Kept>
PEAL_HD Status reserve(Q& q, uint32_t blocks, uint64_t* first, Kept&... kept) {
  *first = fetch_add_relaxed<R>(&q.reserved, static_cast<uint64_t>(blocks));
  const uint64_t end = *first + blocks;
  // kDoneBeforeReuse: `completed` is acquired, so the NIC is done with the old contents of the
  // slots.
  if (end - 1 - load_acquire<R, Edge::kDoneBeforeReuse>(&q.completed) <= q.mask)
    return queue_status<R>(q);
  const Status status = parked([&] { return wait_for_room<R>(q, end); }, *first, kept...);
  *first &= kReservedCount;
  return status;
}

/// What one lane hands over: `blocks` blocks from `first`, the last request of which begins at
/// `last`.
struct Posted {
  uint64_t first;
  uint32_t blocks;
  uint64_t last;
};

/// Hands a batch over, after every earlier reservation has been handed over. kPostedBeforeRing: its
/// bytes are visible to whoever acquires `published`.
template <Reach R, AnyQueue Q, class... Kept>
PEAL_HD Status publish(Q& q, const Posted& batch, Kept&... kept) {
  if constexpr (R != Reach::kLane) {
    const SpinEnd end = spin_until(
        q.timeout_ns, [&] { return load_acquire<R>(&q.published) == batch.first; },
        [&] { return stop_status<R>(q) != Status::kOk; });
    if (end != SpinEnd::kDone) return parked([&] { return close_queue<R>(q, end); }, kept...);
  }
  store_relaxed<R>(&q.last_published, batch.last);
  store_release<R, Edge::kPostedBeforeRing>(&q.published, batch.first + batch.blocks);
  return Status::kOk;
}

/// Tells the NIC about everything published. Whoever holds the lock rings for all: a lane that
/// finds it taken may leave, because the holder looks at `published` again after letting go (edge
/// kPublishedBeforeUnlock).
template <Reach R, AnyQueue Q>
PEAL_HD void ring(Q& q) {
  // Read ahead of the lock, under which a branch would wait for it. Before the queue is made it
  // says kSystem, which is always enough.
  const bool near = kMmioMayOvertake && q.fence == NicFence::kGpu;
  for (;;) {
    if constexpr (R != Reach::kLane) {
      if (exchange<R, Edge::kPublishedBeforeUnlock>(&q.ring_lock, 1u) != 0) return;
    }
    const uint64_t published = load_acquire<R, Edge::kRingAfterPosted>(&q.published);
    if (R == Reach::kLane || published != load_relaxed<R>(&q.rung)) {
      // kRungBeforePoll, `rung` before the NIC hears: a completion can only be for something that
      // `rung` already covers.
      store_relaxed<R, Edge::kRungBeforePoll>(&q.rung, published);
      if (near) {
        Q::Model::template tell<Reach::kGpu>(q.nic, published);
      } else {
        Q::Model::template tell<Reach::kSystem>(q.nic, published);
      }
    }
    if constexpr (R == Reach::kLane) return;
    exchange<R, Edge::kPublishedBeforeUnlock>(&q.ring_lock, 0u);
    if (load_acquire<R>(&q.published) == published) return;
  }
}

/// Rings if something published has not been rung: a batch holds its doorbell back.
/// kBatchBeforeRing. A caller that knows of something published sees at least that in `published`,
/// so the two are alike only where somebody rings, or has rung, for it.
template <Reach R, Edge E, AnyQueue Q>
PEAL_HD void ring_held_back(Q& q) {
  if (weakened(E)) return;
  const uint64_t published = load_acquire<R>(&q.published);
  if (load_relaxed<R>(&q.rung) != published) ring<R>(q);
}

/// Asks the host to connect the queue and waits until it has. `completed` is read as the host's
/// word: what the host wrote before it, such as the number of the queue pair, is seen behind it.
template <Reach R, AnyQueue Q>
PEAL_COLD SpinEnd wait_for_connection(Q& q, uint64_t end) {
  store_release<Reach::kSystem>(q.request, 1u);
  const auto what = [&] { return wait_of(WaitKind::kLink, q, end - 1); };
  Waiting waiting(&q.waits);
  const SpinEnd asked = spin_until(
      q.timeout_ns,
      [&] { return end - load_acquire<Reach::kSystem>(&q.completed) <= kUnconnected; },
      [&] {
        waiting.look(what);
        return stop_status<R>(q) != Status::kOk;
      });
  waiting.end(end_status<R>(q, asked), what);
  return asked;
}

/// Waits until blocks up to `end` fit: the slow half of reserve(), and of a queue's first post.
template <Reach R, AnyQueue Q>
PEAL_COLD Status wait_for_room(Q& q, uint64_t end) {
  if (end > kReservedCount) {
    mark_for_post<R>(q);
    end &= kReservedCount;
  }
  if (end - load_relaxed<R>(&q.completed) > kUnconnected) {
    const SpinEnd asked = wait_for_connection<R>(q, end);
    if (asked != SpinEnd::kDone) return close_queue<R, WaitKind::kOther>(q, asked);
  }
  const auto what = [&] { return wait_of(WaitKind::kRoom, q, end - 1); };
  Waiting waiting(&q.waits);
  Polled seen;
  SpinEnd why = spin_until(
      q.timeout_ns,
      [&] {
        seen = look<R>(q);
        return seen.failed ||
               end - load_acquire<R, Edge::kDoneBeforeReuse>(&q.completed) <= q.depth();
      },
      [&] {
        waiting.look(what);
        ring<R>(q);
        return stop_status<R>(q) != Status::kOk;
      });
  if (seen.failed) why = stop_by_error<R>(q, seen);
  waiting.end(end_status<R>(q, why), what);
  if (why != SpinEnd::kDone) return close_queue<R, WaitKind::kOther>(q, why);
  return queue_status<R>(q);
}

/// The end of wait_completed() that is to be noted.
template <Reach R, WaitKind K, AnyQueue Q>
PEAL_COLD Status end_noted(Q& q, uint64_t index, SpinEnd end, Waiting waiting) {
  const Status status = end_status<R>(q, end);
  waiting.end(status, [&] { return wait_of(K, q, index); });
  return status;
}

/// Waits until the request that starts at `index` is complete. A timeout leaves the queue usable:
/// the wait may be repeated. Noted as of kind K when it ends early; one of quiet also while it
/// lasts.
template <Reach R, WaitKind K = WaitKind::kCompletion, AnyQueue Q>
[[nodiscard]] PEAL_HD Status wait_completed(Q& q, uint64_t index) {
  Waiting waiting(&q.waits);
  Polled seen;
  SpinEnd end = spin_until(
      q.timeout_ns,
      [&] {
        if (load_acquire<R, Edge::kResultBeforeWait>(&q.completed) > index) return true;
        seen = look<R>(q);
        return seen.failed || load_acquire<R, Edge::kResultBeforeWait>(&q.completed) > index;
      },
      [&] {
        if constexpr (K == WaitKind::kQuiet) {
          waiting.look([&] { return wait_of(K, q, index); });
        }
        return stop_status<R>(q) != Status::kOk;
      });
  if (seen.failed) {
    const SpinEnd stopped = stop_by_error<R>(q, seen);
    // Another request failed than this one, if this one is complete.
    if (load_acquire<R, Edge::kResultBeforeWait>(&q.completed) <= index) end = stopped;
  }
  if (end == SpinEnd::kDone && waiting.unwritten()) return Status::kOk;
  return end_noted<R, K>(q, index, end, waiting);
}

/// Waits until everything published so far is complete; reports the queue's first error even when
/// it was already known.
template <Reach R, AnyQueue Q>
[[nodiscard]] PEAL_HD Status drain(Q& q) {
  load_acquire<R>(&q.published);
  const uint64_t last = load_relaxed<R>(&q.last_published);
  const auto missing = static_cast<int64_t>(last - load_acquire<R>(&q.completed));
  if (missing >= 0) {
    ring_held_back<R, Edge::kBatchBeforeQuiet>(q);
    const Status status = wait_completed<R, WaitKind::kQuiet>(q, last);
    if (status != Status::kOk) return status;
  }
  return queue_status<R>(q);
}

}  // namespace peal::nic
