// SPDX-License-Identifier: Apache-2.0
//
// What a send queue does when things go wrong or take long: deadlines, sending again, failing,
// flushing. WQEs stay in the queue until they complete, so "send again" means: forget what was
// started and decode once more from the oldest.
//
//   silence -> rewind ... -> give up        refusal -> fail -> flush
//   receiver not ready -> pause -> rewind
#pragma once

#include <cstdint>

#include "device/mlx5/layout.h"
#include "softnic/engine/completion.h"
#include "softnic/engine/decode.h"
#include "softnic/engine/doorbell.h"
#include "softnic/engine/objects.h"
#include "softnic/engine/responder.h"

namespace peal::softnic {

/// One try of a request: 4.096 us << code as the manual has it, kept between what a shared machine
/// needs at least and what anybody wants to wait at most. Code 0 (for ever) still asks again.
PEAL_HD uint64_t try_ns(const Timing& timing, uint8_t code) {
  const uint64_t exact = code == 0 || code > 31 ? timing.longest_try : 4096ull << code;
  const uint64_t bounded = exact < timing.shortest_try  ? timing.shortest_try
                           : exact > timing.longest_try ? timing.longest_try
                                                        : exact;
  return static_cast<uint64_t>(static_cast<double>(bounded) * timing.scale);
}

/// RNR timer: 1, 2, 3, 4, 6, 8, 12, 16 ... times 10 us; code 0 is the longest.
PEAL_HD uint64_t rnr_ns(uint8_t code) {
  constexpr uint64_t kTick = 10'000;
  const uint32_t n = code & 31;
  if (n == 0) return kTick << 16;
  if (n == 1) return kTick;
  return n % 2 == 0 ? kTick << (n / 2) : (3 * kTick) << ((n - 3) / 2);
}

/// The part of the asking half that needs no wire. A view at one moment; holds no state.
class Recovery {
 public:
  PEAL_HD Recovery(Port& port, uint64_t now) : port_(port), now_(now) {}

  /// Takes note of what was posted; true when there was something. A count that ran over the ring,
  /// or a record that went backwards where the record counts, is a fault, reported once everything
  /// posted before it is done.
  PEAL_HD bool observe_doorbell(QueuePair& qp) {
    Sender& send = qp.send;
    if (send.doorbell_fault) return false;
    const uint16_t counter = told(port_, qp);
    if (counter == static_cast<uint16_t>(send.posted)) return false;
    uint32_t heard = 1;
    if (port_.faults != nullptr) heard = times_heard(*port_.faults, qp, counter, now_);
    for (uint32_t i = 0; i < heard; ++i) take_doorbell(qp, counter);
    return heard > 0;
  }

  /// The peer answers this WQE with data.
  PEAL_HD static bool fetching(const PendingWqe& pending) {
    return right_for(pending.opcode) == kRemoteRead || right_for(pending.opcode) == kRemoteAtomic;
  }

  /// Packets of READs and atomics that have been sent, the WQE at `next` among them, and not
  /// answered.
  PEAL_HD static uint32_t owed(const QueuePair& qp) {
    const Sender& send = qp.send;
    uint32_t owed = 0;
    for (uint32_t i = send.head; i != send.tail; ++i) {
      const PendingWqe& pending = send.window[i % Sender::kWindow];
      if (!fetching(pending)) continue;
      const int32_t sent = psn_distance(send.psn, pending.first_psn);
      const auto packets = static_cast<int32_t>(pending.packets);
      owed += static_cast<uint32_t>(sent < packets ? sent : packets) - pending.answered;
    }
    return owed;
  }

  // ---- time

  /// Starts the clock of one more series of tries.
  PEAL_HD void arm(QueuePair& qp, uint64_t from) {
    Sender& send = qp.send;
    const uint64_t one_try = try_ns(port_.timing, qp.attributes.ack_timeout);
    send.resend_at = from + one_try;
    send.retries = 0;
    send.give_up_at = qp.attributes.ack_timeout == 0
                          ? 0
                          : from + one_try * (uint64_t{qp.attributes.retry_count} + 1);
  }

  PEAL_HD void arm_once(QueuePair& qp) {
    if (qp.send.give_up_at == 0 && qp.send.resend_at == 0) arm(qp, now_);
  }

  /// The receiver has no entry for us: wait its time, then try again, a limited number of times.
  PEAL_HD bool pause(QueuePair& qp, uint8_t timer) {
    Sender& send = qp.send;
    if (qp.attributes.rnr_retry != 7 && send.not_ready++ >= qp.attributes.rnr_retry) {
      return fail_oldest(qp, mlx5::Syndrome::kRnrRetryExceeded);
    }
    send.paused_until = now_ + rnr_ns(timer);
    arm(qp, send.paused_until);
    return true;
  }

  /// Forgets what was started, so that it starts again from the oldest WQE; of that one, from the
  /// first packet that is not done.
  PEAL_HD void rewind(QueuePair& qp) {
    Sender& send = qp.send;
    if (send.drained()) return;
    const PendingWqe oldest = send.oldest();
    send.next = oldest.index;
    send.psn = oldest.first_psn;
    send.head = send.tail;
    send.reads = 0;
    send.read_bytes = 0;
    send.phase = Sender::Phase::kIdle;
    const int32_t acked = psn_distance(send.acked_psn, oldest.first_psn) + 1;
    const auto written = static_cast<uint32_t>(acked > 0 ? acked : 0);
    const uint32_t done = fetching(oldest) ? oldest.answered : written;
    if (done > 0 && done < oldest.packets) resume(qp, oldest, done);
  }

  // ---- faults on demand

  enum class Met : uint8_t { kNothing, kWaits, kActed };

  /// Lets the plan have its way with the decoded WQE at `next`: after everything before it.
  PEAL_HD Met meet_fault(QueuePair& qp) {
    Sender& send = qp.send;
    Faults& faults = *port_.faults;
    const FaultRule* rule = fault_of(faults, qp);
    if (rule == nullptr) return Met::kNothing;
    if (!send.drained()) return Met::kWaits;
    QueueFaults& mine = qp.faults;
    const uint64_t until = rule->ns == 0 ? ~0ull : now_ + rule->ns;
    switch (rule->kind) {
      case FaultKind::kStall:
        if (mine.until == 0) mine.until = until;
        if (now_ < mine.until) return Met::kWaits;
        break;
      case FaultKind::kNotReady:
        if (rule->times != 0 && mine.tries == rule->times) break;
        ++mine.tries;
        pause(qp, qp.attributes.min_rnr_timer);
        return Met::kActed;
      case FaultKind::kSyndrome:
        fail(qp, send.next, send.request.blocks, send.request.opcode,
             static_cast<mlx5::Syndrome>(rule->syndrome));
        return Met::kActed;
      case FaultKind::kFlushStorm:
        mine.storms = true;
        qp.state = QpState::kError;
        port_.events.raise(AsyncEvent::Kind::kQpFatal, qp.qpn);
        return Met::kActed;
      case FaultKind::kLoseAck:
      case FaultKind::kLoseRequest:
        mine.loses = rule->kind;  // from this WQE on
        mine.lost_psn = send.psn;
        mine.lost_tries = rule->times;
        break;
      case FaultKind::kLateCqe:
        mine.late = true;
        mine.late_counter = static_cast<uint16_t>(send.next);
        mine.late_ns = rule->ns;
        break;
      case FaultKind::kLateData:
        mine.late_fetch = send.next;
        mine.late_fetch_ns = rule->ns;
        break;
      case FaultKind::kPortDown:
        faults.down_until = until;
        break;
      case FaultKind::kNicStop:
        faults.stopped = true;
        return Met::kWaits;
      case FaultKind::kKill:
        faults.killed = true;
        return Met::kWaits;
      default:
        break;
    }
    mine.rule = 0;
    return Met::kNothing;
  }

  // ---- failure

  /// The error belongs to the WQE at `next`, but earlier ones complete first.
  PEAL_HD bool fail_local(QueuePair& qp, const Fault& fault) {
    Sender& send = qp.send;
    if (!send.drained()) return false;
    if (fault.count != nullptr) count_one(port_.violations.*fault.count);
    return fail(qp, send.next, send.request.blocks, send.request.opcode, fault.syndrome);
  }

  PEAL_HD bool fail_oldest(QueuePair& qp, mlx5::Syndrome syndrome) {
    Sender& send = qp.send;
    if (send.drained()) {
      if (send.next == send.posted) return false;
      // After a rewind the request is not that of `next`; whatever is wrong with it now is not
      // news.
      if (send.phase == Sender::Phase::kIdle) {
        static_cast<void>(decode(port_, qp, send.next, send.posted, send.request));
      }
      return fail(qp, send.next, send.request.blocks, send.request.opcode, syndrome);
    }
    const PendingWqe& oldest = send.window[send.head % Sender::kWindow];
    return fail(qp, oldest.index, oldest.blocks, oldest.opcode, syndrome);
  }

  /// First error of the queue: reported whatever its completion mode. What follows is flushed.
  PEAL_HD bool fail(QueuePair& qp, uint64_t index, uint32_t blocks, mlx5::Opcode opcode,
                    mlx5::Syndrome syndrome) {
    stop(qp, index + blocks);
    qp.state = QpState::kError;
    complete_send_error(port_, qp, index, opcode, syndrome, now_);
    return true;
  }

  /// Completes what a failed queue pair still holds, and what is posted to it later, as flushed.
  PEAL_HD bool flush(QueuePair& qp, uint32_t budget) {
    bool worked = flush_receives(port_, qp, now_);
    if (qp.send_buffer == nullptr) return worked;
    Sender& send = qp.send;
    if (send.next != send.retired || !send.drained()) stop(qp, send.retired);
    worked |= observe_doorbell(qp);
    for (; budget > 0 && send.retired < send.posted; --budget) {
      Request& request = send.request;
      const Fault fault = decode(port_, qp, send.retired, send.posted, request);
      const uint64_t index = send.retired;
      // A block that starts no WQE of ours has nobody to tell.
      const bool stray = fault.count == &Violations::index || request.units == 0;
      stop(qp, index + (stray ? 1 : request.blocks));
      worked = true;
      const bool asked = request.completion != mlx5::Completion::kOnFirstError;
      if (!stray && (asked || qp.faults.storms)) {
        complete_send_error(port_, qp, index, request.opcode, mlx5::Syndrome::kFlushed, now_);
      }
    }
    return worked;
  }

 protected:
  Port& port_;
  uint64_t now_;

 private:
  /// Goes on with a message whose first `done` packets are done. If its WQE is no longer what it
  /// was, it starts as a new one would.
  PEAL_HD void resume(QueuePair& qp, const PendingWqe& oldest, uint32_t done) {
    Sender& send = qp.send;
    if (!decode(port_, qp, send.next, send.posted, send.request).ok()) return;
    if (send.request.opcode != oldest.opcode || send.request.blocks != oldest.blocks) return;
    const uint64_t offset = uint64_t{done} * send.segment;
    if (offset >= send.request.bytes) return;
    send.window[send.tail++ % Sender::kWindow] = oldest;
    if (fetching(oldest)) ++send.reads;
    send.phase = Sender::Phase::kRunning;
    send.offset = static_cast<uint32_t>(offset);
    send.psn = (oldest.first_psn + done) & kPsnMask;
    send.cursor = seek(qp, send.request, send.next, send.offset);
  }

  PEAL_HD void take_doorbell(QueuePair& qp, uint16_t counter) {
    Sender& send = qp.send;
    const auto fresh = static_cast<uint16_t>(counter - static_cast<uint32_t>(send.posted));
    if (send.posted + fresh - send.retired > qp.send_blocks) {
      count_one(port_.violations.doorbell);
      send.doorbell_fault = true;
    } else {
      fetch_blocks(qp, send.posted, fresh);
      send.posted += fresh;
    }
  }

  PEAL_HD static void stop(QueuePair& qp, uint64_t at) {
    Sender& send = qp.send;
    send.next = send.retired = at < send.posted ? at : send.posted;
    send.head = send.tail;
    send.phase = Sender::Phase::kIdle;
    send.reads = send.read_bytes = 0;
    send.give_up_at = send.resend_at = send.paused_until = 0;
  }
};

}  // namespace peal::softnic
