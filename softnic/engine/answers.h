// SPDX-License-Identifier: Apache-2.0
//
// Answers from the wire: what they complete, in the order of the send queue.
//
//   window:  oldest ........ newest      acknowledge(psn) retires from the left, up to psn and up
//   to
//                                        the first READ or atomic whose data is not here
#pragma once

#include <cstdint>

#include "softnic/engine/recovery.h"

namespace peal::softnic {

class Answers : public Recovery {
 public:
  using Recovery::Recovery;

  /// Takes an answer from the wire. Anything that does not belong to a request in flight is
  /// ignored.
  PEAL_HD void take(QueuePair& qp, const Packet& packet, const Payload& payload) {
    Sender& send = qp.send;
    if (qp.state != QpState::kReadyToSend || send.drained()) return;
    if (port_.faults != nullptr && loses(*port_.faults, qp, FaultKind::kLoseAck, packet.psn))
      return;
    if (packet.kind == PacketKind::kAbsent) {
      const uint64_t soon = now_ + port_.timing.ask_again;
      if (send.resend_at > soon) send.resend_at = soon;
      return;
    }
    if (psn_distance(packet.psn, send.psn) >= 0) return;  // never sent
    switch (packet.kind) {
      case PacketKind::kAck:
        return acknowledge(qp, packet.psn);
      case PacketKind::kData:
        return take_data(qp, packet, payload);
      case PacketKind::kRefuse:
        if (blames_oldest(qp, packet.psn))
          fail_oldest(qp, static_cast<mlx5::Syndrome>(packet.detail));
        return;
      case PacketKind::kNotReady:
        if (!blames_oldest(qp, packet.psn)) return;
        pause(qp, static_cast<uint8_t>(packet.detail));
        if (qp.state == QpState::kReadyToSend) rewind(qp);
        return;
      case PacketKind::kResend:
        if (blames_oldest(qp, packet.psn)) rewind(qp);
        return;
      default:
        return;
    }
  }

 private:
  /// Everything up to `psn` has been done at the peer.
  PEAL_HD void acknowledge(QueuePair& qp, uint32_t psn) {
    Sender& send = qp.send;
    if (psn_distance(psn, send.acked_psn) > 0) {
      send.acked_psn = psn;
      send.not_ready = 0;
      send.stalled = 0;
      arm(qp, now_);
    }
    while (!send.drained()) {
      const PendingWqe& oldest = send.oldest();
      if (oldest.packets > 0 && psn_distance(psn, oldest.first_psn) < 0) break;
      if (fetching(oldest)) {
        if (oldest.answered < oldest.packets) {
          const uint32_t due = (oldest.first_psn + oldest.answered) & kPsnMask;
          if (psn_distance(psn, due) >= 0) rewind(qp);  // its data was lost on the way
          break;
        }
      } else if (oldest.packets > 0 &&
                 psn_distance(psn, (oldest.first_psn + oldest.packets - 1) & kPsnMask) < 0) {
        break;
      }
      retire_oldest(qp);
    }
    if (send.drained() && send.phase != Sender::Phase::kRunning) {
      send.give_up_at = send.resend_at = 0;
    }
  }

  PEAL_HD void retire_oldest(QueuePair& qp) {
    Sender& send = qp.send;
    const PendingWqe done = send.oldest();
    ++send.head;
    send.retired = done.index + done.blocks;
    if (fetching(done)) --send.reads;
    complete_send(port_, qp, done, now_);
  }

  PEAL_HD void take_data(QueuePair& qp, const Packet& packet, const Payload& payload) {
    Sender& send = qp.send;
    for (uint32_t i = send.head; i != send.tail; ++i) {
      PendingWqe& pending = send.window[i % Sender::kWindow];
      const int32_t place_in = psn_distance(packet.psn, pending.first_psn);
      if (place_in < 0 || place_in >= static_cast<int64_t>(pending.packets)) continue;
      if (!fetching(pending) || place_in < static_cast<int64_t>(pending.answered)) return;
      if (place_in > static_cast<int64_t>(pending.answered)) return rewind(qp);
      const uint64_t offset = uint64_t{pending.answered} * send.segment;
      const uint64_t left = pending.bytes - offset;
      if (payload.bytes != (left < send.segment ? left : send.segment)) return;
      if (!scatter_payload(qp, pending, offset, payload)) {
        if (i == send.head) {
          fail_oldest(qp, mlx5::Syndrome::kLocalProtection);
        } else {
          rewind(qp);
        }
        return;
      }
      ++pending.answered;
      if (pending.opcode == mlx5::Opcode::kRdmaRead) send.read_bytes -= payload.bytes;
      return acknowledge(qp, packet.psn);
    }
  }

  PEAL_HD bool scatter_payload(const QueuePair& qp, const PendingWqe& pending, uint64_t offset,
                               const Payload& payload) const {
    const ScatterList list = {qp, pending.index, pending.data_unit, pending.units};
    const bool late = port_.faults != nullptr && qp.faults.plan == port_.faults->number &&
                      qp.faults.late_fetch == pending.index;
    if (!late) land_fetched(port_);
    const auto store = [&](std::byte* to, const DataItem& item, uint64_t inside,
                           const std::byte* from, uint64_t bytes) {
      if (late && hold(qp, item, inside, from, bytes)) return;
      place(to, from, bytes);
    };
    for (uint32_t i = 0; i < payload.count; ++i) {
      const Payload::Chunk& chunk = payload.chunk[i];
      if (!scatter(port_, qp.pd, list, offset, chunk.memory, chunk.bytes, store)) return false;
      offset += chunk.bytes;
    }
    return true;
  }

  /// Keeps what was fetched for `inside` bytes into the item until it is due; false if it is to be
  /// stored now, behind all that is kept.
  PEAL_HD bool hold(const QueuePair& qp, const DataItem& item, uint64_t inside,
                    const std::byte* from, uint64_t bytes) const {
    LateData& data = port_.faults->data;
    const uint64_t due = now_ + qp.faults.late_fetch_ns;
    if (data.hold(item.lkey, item.address + inside, from, bytes, due)) return true;
    land_fetched(port_);
    return data.hold(item.lkey, item.address + inside, from, bytes, due);
  }

  /// Acknowledges everything before `psn`. True when the oldest WQE left is the one `psn` is of.
  PEAL_HD bool blames_oldest(QueuePair& qp, uint32_t psn) {
    Sender& send = qp.send;
    acknowledge(qp, (psn - 1) & kPsnMask);
    if (send.drained()) return false;
    const int32_t place_in = psn_distance(psn, send.oldest().first_psn);
    return place_in >= 0 && place_in < static_cast<int64_t>(send.oldest().packets);
  }
};

}  // namespace peal::softnic
