// SPDX-License-Identifier: Apache-2.0
//
// A send queue that kernels own, of any model of NIC: reserve slots, write requests into them, hand
// them over.
//
//   completed, rung, posted <= reserved     free-running counts of blocks; `reserved` and `posted`
//                                           have more above it (mark.h, hand_over.h)
//
//   reserve(q, n, &at);  Model::write(q.nic, q.mask, at, ...) ...;  hand_over(q, {at, n, last})
//
// Ownership is the type parameter R: Reach::kLane for a queue with one owner (no atomics), kBlock,
// kGpu. What the NIC is told follows `posted` and never goes back. Quiet waits for what is reserved
// when it begins: a lane may have left its requests to another, which publishes them.
#pragma once

#include <cstdint>
#include <type_traits>
#include <utility>

#include "device/base/call.h"
#include "device/base/order.h"
#include "device/base/spin.h"
#include "device/base/target.h"
#include "device/nic/completion.h"
#include "device/nic/hand_over.h"
#include "device/nic/mark.h"
#include "device/nic/nic.h"
#include "device/nic/stage_clock.h"
#include "device/shared/send_queue.h"

namespace peal::nic {

/// Flag of what reserve() answers: it has waited, and the queue may have been connected meanwhile.
inline constexpr uint64_t kReadAnew = uint64_t{1} << 63;

template <Reach R, AnyQueue Q>
PEAL_COLD Status wait_for_room(Q& q, uint64_t end);

/// Claims `blocks` blocks and returns the index of the first. Waits while the queue is full, after
/// ringing what is published: a full queue of unrung work would wait for itself. On a status other
/// than kOk nothing may be written. What is `kept` is in memory while it waits (base/call.h).
/// Behind that, where lanes share the queue, `fixed` is read again, and `first` has kReadAnew, for
/// those that did not reserve.
///
/// What an older `completed` has room for, there is room for. So it is read ahead of the
/// reservation, and all words are under way at once: behind an acquire each load goes to memory
/// again. Who is refused asks for the status again, which acquires the error's record.
template <Reach R, AnyQueue Q, class... Kept>
PEAL_HD Status reserve(Q& q, Fixed<Q>& fixed, uint32_t blocks, uint64_t* first, Kept&... kept) {
  const auto known = static_cast<Status>(load_relaxed<R>(&q.error.status));
  const uint64_t completed = load_batched<R>(&q.completed);
  // kMarkBeforeReserve: the mark of whoever found the queue unmarked.
  *first = fetch_add_acquire<R, Edge::kMarkBeforeReserve>(&q.reserved, uint64_t{blocks});
  // kDoneBeforeReuse: `completed` is acquired, so the NIC is done with the old contents of the
  // slots.
  if constexpr (R != Reach::kLane) acquire_batch<R, Edge::kDoneBeforeReuse>();
  const uint64_t end = *first + blocks;
  if (end - 1 - completed <= fixed.mask) return known;
  const Status status = parked([&] { return wait_for_room<R>(q, end); }, *first, kept...);
  *first &= kReservedCount;
  if constexpr (R != Reach::kLane) {
    *first |= kReadAnew;
    fixed = Fixed<Q>::template of<R>(q);
  }
  return status;
}

/// The same, for who writes through the queue itself.
template <Reach R, AnyQueue Q>
PEAL_HD Status reserve(Q& q, uint32_t blocks, uint64_t* first) {
  Fixed<Q> mask_alone{{}, q.mask};
  const Status status = reserve<R>(q, mask_alone, blocks, first);
  *first &= ~kReadAnew;
  return status;
}

/// Asks the host to connect the queue and waits until it has. `completed` is read as the host's
/// word: what the host wrote before it, such as the number of the queue pair, is seen behind it.
template <Reach R, AnyQueue Q>
PEAL_COLD Status wait_for_connection(Q& q, uint64_t end) {
  store_release<Reach::kSystem>(q.request, 1u);
  return wait_noted(
      &q.waits, q.timeout_ns,
      [&] { return end - load_acquire<Reach::kSystem>(&q.completed) <= kUnconnected; },
      [&] { return stop_status<R>(q); }, [&] { return wait_of(WaitKind::kLink, q, end - 1); });
}

/// Waits until blocks up to `end` fit: the slow half of reserve(), and of a queue's first post.
/// Not by wait_noted(), whose status takes kernels of 1,024 threads registers over the wait.
template <Reach R, AnyQueue Q>
PEAL_COLD Status wait_for_room(Q& q, uint64_t end) {
  if (end > kReservedCount) {
    mark_for_post<R>(q);
    end &= kReservedCount;
  }
  if (end - load_relaxed<R>(&q.completed) > kUnconnected) {
    const Status asked = wait_for_connection<R>(q, end);
    if (asked != Status::kOk) return close_queue<R, WaitKind::kOther>(q, asked);
  }
  const auto what = [&] { return wait_of(WaitKind::kRoom, q, end - 1); };
  Waiting waiting(&q.waits);
  Polled seen;
  SpinEnd why = spin_until(
      q.timeout_ns,
      [&] {
        auto completed = load_acquire<R, Edge::kDoneBeforeReuse>(&q.completed);
        seen = look<R>(q, q.nic, completed);
        return seen.failed || end - completed <= q.depth();
      },
      [&] {
        waiting.look(what);
        ring<R>(q);
        return stop_status<R>(q) != Status::kOk;
      });
  if (seen.failed) why = stop_by_error<R>(q, seen);
  waiting.end(end_status<R>(q, why), what);
  if (why != SpinEnd::kDone) return close_queue<R, WaitKind::kOther>(q, end_status<R>(q, why));
  return queue_status<R>(q);
}

/// The end of wait_completed() that is to be noted.
template <Reach R, WaitKind K, AnyQueue Q>
PEAL_COLD Status end_noted(Q& q, uint64_t index, SpinEnd end, Waiting waiting) {
  const Status status = end_status<R>(q, end);
  waiting.end(status, [&] { return wait_of(K, q, index); });
  return status;
}

/// wait_completed() of `nic`, which is q.nic, and an acquired `completed`.
template <Reach R, WaitKind K, AnyQueue Q>
PEAL_HD Status wait_completed_from(Q& q, const typename Q::Model::WorkQueue& nic, uint64_t index,
                                   uint64_t completed) {
  Waiting waiting(&q.waits);
  StageClock clock(q.times);
  Polled seen;
  SpinEnd end = spin_until(
      q.timeout_ns,
      [&] {
        if (completed > index) return true;
        seen = look_again<R, Edge::kResultBeforeWait>(q, nic, completed);
        return seen.failed || completed > index;
      },
      [&] {
        if constexpr (K == WaitKind::kQuiet) {
          waiting.look([&] { return wait_of(K, q, index); });
        }
        return stop_status<R>(q) != Status::kOk;
      });
  clock.end(PostStage::kComplete);
  if (seen.failed) {
    const SpinEnd stopped = stop_by_error<R>(q, seen);
    // Another request failed than this one, if this one is complete.
    if (load_acquire<R, Edge::kResultBeforeWait>(&q.completed) <= index) end = stopped;
  }
  if (end == SpinEnd::kDone && waiting.unwritten()) return Status::kOk;
  return end_noted<R, K>(q, index, end, waiting);
}

/// Waits until the request that starts at `index` is complete. A timeout leaves the queue usable:
/// the wait may be repeated. Noted as of kind K when it ends early; one of quiet also while it
/// lasts.
template <Reach R, WaitKind K = WaitKind::kCompletion, AnyQueue Q>
[[nodiscard]] PEAL_HD Status wait_completed(Q& q, uint64_t index) {
  // Behind an acquire it is loaded from memory again.
  const typename Q::Model::WorkQueue nic = q.nic;
  return wait_completed_from<R, K>(q, nic, index,
                                   load_acquire<R, Edge::kResultBeforeWait>(&q.completed));
}

/// True once what was reserved up to `end` is published and rung.
PEAL_HD bool is_rung(uint64_t end, uint64_t published, uint64_t rung) {
  return static_cast<int64_t>(end - published) <= 0 && static_cast<int64_t>(end - rung) <= 0;
}

/// Waits until what the queue had reserved up to `end` is published and rung, and answers `posted`.
/// Rings what a batch holds back (kBatchBeforeQuiet): it is published and idle, or ready with
/// nothing before it.
template <Reach R, AnyQueue Q>
PEAL_COLD Status wait_rung(Q& q, uint64_t end, uint64_t* posted) {
  return wait_noted(
      &q.waits, q.timeout_ns,
      [&] {
        *posted = load_acquire<R>(&q.posted);
        const uint64_t published = posted_end(*posted);
        const uint64_t rung = load_relaxed<R>(&q.rung);
        if (is_rung(end, published, rung)) return true;
        const bool busy = (*posted & kRinging) != 0 || weakened(Edge::kBatchBeforeQuiet);
        if (!busy && (published != rung || is_ready<R>(q, published))) ring<R>(q);
        return false;
      },
      [&] { return stop_status<R>(q); }, [&] { return wait_of(WaitKind::kQuiet, q, end - 1); });
}

/// True while a queue carries, or is about to carry, what was reserved. Not of one that is not
/// connected: who has reserved there has not posted yet, and may wait for long.
PEAL_HD bool is_busy(uint64_t reserved, uint64_t posted, uint64_t completed) {
  if (posted_end(posted) == reserved) return is_under_way(posted, completed);
  return !is_unconnected(reserved, completed);
}

/// Waits until everything reserved so far is complete; reports the queue's first error even when it
/// was already known. What it asks of the queue is under way at once: behind an acquire each load
/// goes to memory again.
template <Reach R, AnyQueue Q>
[[nodiscard]] PEAL_HD Status drain(Q& q) {
  const typename Q::Model::WorkQueue nic = q.nic;
  const uint64_t end = load_batched<R>(&q.reserved) & kReservedCount;
  uint64_t posted = load_batched<R>(&q.posted);
  const uint64_t rung = load_batched<R>(&q.rung);
  const uint64_t completed = load_batched<R>(&q.completed);
  if constexpr (R != Reach::kLane) acquire_batch<R, Edge::kResultBeforeWait>();
  if (is_busy(end, posted, completed)) {
    Status status = Status::kOk;
    if (!is_rung(end, posted_end(posted), rung)) status = wait_rung<R>(q, end, &posted);
    if (status == Status::kOk) {
      status = wait_completed_from<R, WaitKind::kQuiet>(q, nic, posted_last(posted), completed);
    }
    if (status != Status::kOk) return status;
  }
  return static_cast<Status>(load_relaxed<R>(&q.error.status));
}

}  // namespace peal::nic
