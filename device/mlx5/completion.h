// SPDX-License-Identifier: Apache-2.0
//
// Polling a collapsed completion queue: one CQE, overwritten by the NIC, newest wins. It names the
// first WQEBB of the last completed WQE in 16 bits; the 64-bit index is rebuilt against `rung`,
// because rung - completed never exceeds the depth (unless a lane looks at the two far apart).
#pragma once

#include <cstdint>

#include "device/base/order.h"
#include "device/base/spin.h"
#include "device/mlx5/layout.h"
#include "device/mlx5/mark.h"
#include "device/mlx5/queue.h"
#include "device/shared/waits.h"

namespace peal::mlx5 {

/// Latches the first error of a queue; later ones are dropped.
template <Reach R>
PEAL_COLD void latch_error(SendQueue& q, Status status, const QueueError& record) {
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

/// Latches an error CQE for the WQE at `index`; `opcode_qpn` came with the index, in one word. The
/// syndromes are read now: a flush may have overwritten them since.
template <Reach R>
PEAL_COLD void latch_error_cqe(SendQueue& q, uint64_t index, uint32_t opcode_qpn) {
  const auto* words = reinterpret_cast<const uint32_t*>(q.cqe);
  const uint32_t syndromes = swap_bytes(load_relaxed<Reach::kSystem>(&words[13]));
  QueueError record{};
  record.wqe_index = index;
  record.syndrome = static_cast<uint8_t>(syndromes & 0xff);
  record.vendor_syndrome = static_cast<uint8_t>((syndromes >> 8) & 0xff);
  record.opcode = static_cast<uint8_t>(opcode_qpn >> 24);
  latch_error<R>(q, Status::kQueueError, record);
}

/// What a look at the CQE found.
struct Polled {
  bool failed = false;
  uint32_t opcode_qpn = 0;  // of the WQE that failed
  uint64_t index = 0;       // its own
};

/// Looks at the CQE once and moves `completed` forward. An error is the caller's to latch. Never
/// blocks.
template <Reach R>
PEAL_HD Polled look_at_cqe(SendQueue& q) {
  // Before the CQE, to tell how far the queue has moved when this lane was held up in here.
  const uint64_t completed = load_acquire<R>(&q.completed);
  // kResultBeforePoll: acquires what the NIC wrote before this completion (results, and the peers'
  // memory on its behalf). The NIC stores the CQE's last 8 bytes as one word.
  const auto* last = reinterpret_cast<const uint64_t*>(&q.cqe->opcode_qpn);
  const uint64_t tail = load_acquire<Reach::kSystem, Edge::kResultBeforePoll>(last);
  const uint32_t word = swap_bytes(static_cast<uint32_t>(tail >> 32));
  const auto opcode = static_cast<CqeOpcode>((word >> 4) & 0xf);
  if (opcode == CqeOpcode::kInvalid) return {};
  // After the CQE: a completion is only ever for something `rung` covered before the doorbell.
  const uint64_t rung = load_acquire<R>(&q.rung);
  if (rung - completed > 0xffff) return {};  // the counter may have gone round since: too late
  const auto behind = static_cast<uint16_t>(rung - 1 - (word >> 16));
  const uint64_t index = rung - 1 - behind;
  if (opcode == CqeOpcode::kRequesterError || opcode == CqeOpcode::kResponderError) {
    return {true, swap_bytes(static_cast<uint32_t>(tail)), index};
  }
  if (index - completed < rung - completed)
    raise_to<R, Edge::kReuseAfterDone>(&q.completed, index + 1);
  return {};
}

/// The same, and latches an error.
template <Reach R>
PEAL_HD void poll(SendQueue& q) {
  const Polled seen = look_at_cqe<R>(q);
  if (seen.failed) latch_error_cqe<R>(q, seen.index, seen.opcode_qpn);
}

/// Latches the error that a wait has seen, and ends the wait once the queue says that it has one:
/// who latched it first may be about to.
template <Reach R>
PEAL_COLD SpinEnd stop_by_error(SendQueue& q, Polled seen) {
  latch_error_cqe<R>(q, seen.index, seen.opcode_qpn);
  const SpinEnd end = spin_until(
      q.timeout_ns, [&] { return stop_status<R>(q) != Status::kOk; }, [] { return false; });
  return end == SpinEnd::kDone ? SpinEnd::kStopped : end;
}

/// A wait for something of the queue.
PEAL_HD Wait wait_of(WaitKind kind, const SendQueue& q, uint64_t number) {
  Wait wait;
  wait.kind = kind;
  wait.pe = static_cast<int32_t>(q.peer);
  wait.number = number;
  wait.queue = &q;
  return wait;
}

/// The status of a wait on the queue that ended so.
template <Reach R>
PEAL_HD Status end_status(const SendQueue& q, SpinEnd end) {
  if (end == SpinEnd::kDone) return Status::kOk;
  return end == SpinEnd::kTimedOut ? Status::kTimeout : stop_status<R>(q);
}

/// Turns the early end of a wait that owned queue slots into a status, and closes the queue: its
/// slots will never be handed over, so nobody behind them can proceed. Notes the wait as one of
/// kind K; kOther: it has been noted.
template <Reach R, WaitKind K = WaitKind::kTurn>
PEAL_COLD Status close_queue(SendQueue& q, SpinEnd end) {
  const Status status = end_status<R>(q, end);
  QueueError record{};
  record.wqe_index = load_relaxed<R>(&q.completed);
  latch_error<R>(q, status, record);
  if constexpr (K != WaitKind::kOther) {
    end_wait(q.waits, 0, wait_of(K, q, record.wqe_index), static_cast<uint32_t>(status));
  }
  const Status first = queue_status<R>(q);
  return first != Status::kOk ? first : status;
}

}  // namespace peal::mlx5
