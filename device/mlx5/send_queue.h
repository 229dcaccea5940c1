// SPDX-License-Identifier: Apache-2.0
//
// A send queue that kernels own: reserve slots, write WQEs into them, publish in order, ring.
//
//   completed <= rung <= published <= reserved        free-running counts of WQEBBs; the last has
//                                                     flags above its count (mark.h)
//
//   reserve(q, n, &at);  write(q, at, wqe) ...;  publish(q, {at, n, last});  ring(q)
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
#include "device/mlx5/completion.h"
#include "device/mlx5/doorbell.h"
#include "device/mlx5/mark.h"
#include "device/mlx5/queue.h"
#include "device/mlx5/wqe.h"

namespace peal::mlx5 {

template <Reach R>
PEAL_HD void ring(SendQueue& q);
template <Reach R>
PEAL_COLD Status wait_for_room(SendQueue& q, uint64_t end);

/// Claims `blocks` WQEBBs and returns the index of the first. Waits while the queue is full, after
/// ringing what is published: a full queue of unrung work would wait for itself. On a status other
/// than kOk nothing may be written. What is `kept` is in memory while it waits (base/call.h).
template <Reach R, class... Kept>
PEAL_HD Status reserve(SendQueue& q, uint32_t blocks, uint64_t* first, Kept&... kept) {
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

namespace detail {

// Unrolled by hand: the lines then stay in registers until they are stored.
template <uint32_t kLines, size_t... kLine>
PEAL_HD void write_lines(const SendQueue& q, uint64_t index, const Wqe<kLines>& wqe,
                         std::index_sequence<kLine...>) {
  (store_line(&q.block(index + kLine / 4)->line[kLine % 4], wqe.line[kLine]), ...);
}

}  // namespace detail

/// Stores one WQE at `index`. A WQE that runs past the last block continues at block 0.
template <uint32_t kLines>
PEAL_HD void write(const SendQueue& q, uint64_t index, const Wqe<kLines>& wqe) {
  detail::write_lines(q, index, wqe, std::make_index_sequence<kLines>{});
}

/// What one lane hands over: `blocks` WQEBBs from `first`, the last WQE of which begins at `last`.
struct PostedWqes {
  uint64_t first;
  uint32_t blocks;
  uint64_t last;
};

/// Hands a batch over, after every earlier reservation has been handed over. kPostedBeforeRing: its
/// bytes are visible to whoever acquires `published`.
template <Reach R, class... Kept>
PEAL_HD Status publish(SendQueue& q, const PostedWqes& batch, Kept&... kept) {
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
template <Reach R>
PEAL_HD void ring(SendQueue& q) {
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
        tell_nic<Reach::kGpu>(q, posted_count(published));
      } else {
        tell_nic<Reach::kSystem>(q, posted_count(published));
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
template <Reach R, Edge E>
PEAL_HD void ring_held_back(SendQueue& q) {
  if (weakened(E)) return;
  const uint64_t published = load_acquire<R>(&q.published);
  if (load_relaxed<R>(&q.rung) != published) ring<R>(q);
}

/// Asks the host to connect the queue and waits until it has. `completed` is read as the host's
/// word: what the host wrote before it, such as the number of the queue pair, is seen behind it.
template <Reach R>
PEAL_COLD SpinEnd wait_for_connection(SendQueue& q, uint64_t end) {
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

/// Waits until WQEBBs up to `end` fit: the slow half of reserve(), and of a queue's first post.
template <Reach R>
PEAL_COLD Status wait_for_room(SendQueue& q, uint64_t end) {
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
        seen = look_at_cqe<R>(q);
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
template <Reach R, WaitKind K>
PEAL_COLD Status end_noted(SendQueue& q, uint64_t index, SpinEnd end, Waiting waiting) {
  const Status status = end_status<R>(q, end);
  waiting.end(status, [&] { return wait_of(K, q, index); });
  return status;
}

/// Waits until the WQE that starts at `index` is complete. A timeout leaves the queue usable: the
/// wait may be repeated. Noted as of kind K when it ends early; one of quiet also while it lasts.
template <Reach R, WaitKind K = WaitKind::kCompletion>
[[nodiscard]] PEAL_HD Status wait_completed(SendQueue& q, uint64_t index) {
  Waiting waiting(&q.waits);
  Polled seen;
  SpinEnd end = spin_until(
      q.timeout_ns,
      [&] {
        if (load_acquire<R, Edge::kResultBeforeWait>(&q.completed) > index) return true;
        seen = look_at_cqe<R>(q);
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
    // Another WQE failed than this one, if this one is complete.
    if (load_acquire<R, Edge::kResultBeforeWait>(&q.completed) <= index) end = stopped;
  }
  if (end == SpinEnd::kDone && waiting.unwritten()) return Status::kOk;
  return end_noted<R, K>(q, index, end, waiting);
}

/// Waits until everything published so far is complete; reports the queue's first error even when
/// it was already known.
template <Reach R>
[[nodiscard]] PEAL_HD Status drain(SendQueue& q) {
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

}  // namespace peal::mlx5
