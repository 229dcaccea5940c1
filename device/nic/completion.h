// SPDX-License-Identifier: Apache-2.0
//
// Polling: the NIC's newest word on a queue names the first block of the last completed request, by
// as many bits as its model has. The 64-bit index is rebuilt against a `completed` that was
// acquired before: requests complete in order, so the NIC's word is never behind it, and counts on
// from there. Where it is more than all of its bits ahead (a lane was held up), the rebuilt index
// is one that has completed, too.
#pragma once

#include <cstdint>

#include "device/base/order.h"
#include "device/base/spin.h"
#include "device/nic/mark.h"
#include "device/nic/nic.h"
#include "device/shared/send_queue.h"
#include "device/shared/waits.h"

namespace peal::nic {

/// Latches the first error of a queue; later ones are dropped.
template <Reach R, AnyQueue Q>
PEAL_COLD void latch_error(Q& q, Status status, const QueueError& record) {
  if (!compare_exchange<R>(&q.error.claimed, 0u, 1u)) return;
  mark<R>(q);  // who sees the status finds the mark
  store_payload(&q.error.wqe_index, record.wqe_index);
  store_payload(&q.error.time_ns, now_ns());
  store_payload(&q.error.syndrome, record.syndrome);
  store_payload(&q.error.vendor_syndrome, record.vendor_syndrome);
  store_payload(&q.error.opcode, record.opcode);
  store_release<Reach::kSystem, Edge::kErrorBeforeStatus>(&q.error.status,
                                                          static_cast<uint32_t>(status));
  mark<R>(q);  // a quiet that had not seen the status may have taken it off
  if (q.alarm != nullptr) store_release<Reach::kSystem>(q.alarm, 1u);
}

/// Latches the error of the request at `index`, of which the NIC said `tag`.
template <Reach R, AnyQueue Q>
PEAL_COLD void latch_nic_error(Q& q, uint64_t index, uint32_t tag) {
  QueueError record{};
  record.wqe_index = index;
  Q::Model::describe(q.nic, tag, record);
  latch_error<R>(q, Status::kQueueError, record);
}

/// What a look at the completions found.
struct Polled {
  bool failed = false;
  uint32_t tag = 0;    // of the request that failed
  uint64_t index = 0;  // its own
};

/// Looks once and moves `completed`, an acquired value of the queue's, and the queue's forward.
/// `nic` is q.nic, or was. An error is the caller's to latch. Never blocks.
template <Reach R, AnyQueue Q>
PEAL_HD Polled look(Q& q, const typename Q::Model::WorkQueue& nic, uint64_t& completed) {
  using M = typename Q::Model;
  const typename M::Seen seen = M::look(nic);
  if (seen.none()) return {};
  if (seen.failed()) {
    // Nothing from the failed request on completes, so it is less than a queue ahead of `completed`
    // now, however long this lane was held up.
    const uint64_t now = load_acquire<R>(&q.completed);
    return {true, seen.tag(), now + ((seen.count() - now) & M::kCountMask)};
  }
  const uint64_t news = (seen.count() + 1 - completed) & M::kCountMask;
  if (news == 0 || news > M::kMaxDepth) return {};  // more than any holds: a count that went back
  completed += news;
  raise_to_release<R, Edge::kReuseAfterDone>(&q.completed, completed);
  return {};
}

/// look() in a wait: `completed` becomes the queue's, as it was before the look, or what the look
/// has found. Both words are under way at once, since each takes a trip to memory.
template <Reach R, Edge E, AnyQueue Q>
PEAL_HD Polled look_again(Q& q, const typename Q::Model::WorkQueue& nic, uint64_t& completed) {
  const uint64_t known = load_batched<R>(&q.completed);
  const Polled seen = look<R>(q, nic, completed);
  if constexpr (R != Reach::kLane) acquire_batch<R, E>();
  if (static_cast<int64_t>(known - completed) > 0) completed = known;
  return seen;
}

/// Looks once, and latches an error. Never blocks. What the NIC says of a queue that is not
/// connected is of the host's own requests, which test it.
template <Reach R, AnyQueue Q>
PEAL_HD void poll(Q& q) {
  const uint64_t rung = load_relaxed<R>(&q.rung);
  uint64_t completed = load_acquire<R>(&q.completed);
  if (is_unconnected(rung, completed)) return;
  const Polled seen = look<R>(q, q.nic, completed);
  if (seen.failed) latch_nic_error<R>(q, seen.index, seen.tag);
}

/// Latches the error that a wait has seen, and ends the wait once the queue says that it has one:
/// who latched it first may be about to.
template <Reach R, AnyQueue Q>
PEAL_COLD SpinEnd stop_by_error(Q& q, Polled seen) {
  latch_nic_error<R>(q, seen.index, seen.tag);
  const SpinEnd end = spin_until(
      q.timeout_ns, [&] { return stop_status<R>(q) != Status::kOk; }, [] { return false; });
  return end == SpinEnd::kDone ? SpinEnd::kStopped : end;
}

/// A wait for something of the queue.
template <AnyQueue Q>
PEAL_HD Wait wait_of(WaitKind kind, const Q& q, uint64_t number) {
  Wait wait;
  wait.kind = kind;
  wait.pe = static_cast<int32_t>(q.peer);
  wait.number = number;
  wait.queue = &q;
  return wait;
}

/// The status of a wait on the queue that ended so.
template <Reach R, AnyQueue Q>
PEAL_HD Status end_status(const Q& q, SpinEnd end) {
  if (end == SpinEnd::kDone) return Status::kOk;
  return end == SpinEnd::kTimedOut ? Status::kTimeout : stop_status<R>(q);
}

/// Closes the queue with the status of a wait that owned slots of it and ended early: they will
/// never be handed over, so nobody behind them can proceed. Notes the wait as one of kind K;
/// kOther: it has been noted. Answers the queue's first error.
template <Reach R, WaitKind K, AnyQueue Q>
PEAL_COLD Status close_queue(Q& q, Status status) {
  QueueError record{};
  record.wqe_index = load_relaxed<R>(&q.completed);
  latch_error<R>(q, status, record);
  if constexpr (K != WaitKind::kOther) {
    end_wait(q.waits, 0, wait_of(K, q, record.wqe_index), static_cast<uint32_t>(status));
  }
  const Status first = queue_status<R>(q);
  return first != Status::kOk ? first : status;
}

}  // namespace peal::nic
