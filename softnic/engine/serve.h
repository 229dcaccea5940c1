// SPDX-License-Identifier: Apache-2.0
//
// Requests that came over a wire: which are new, which are repeats, what to answer.
//
//   psn == expected   execute, then acknowledge or answer with data
//   psn <  expected   a repeat: WRITEs and SENDs are acknowledged again, READs read again, atomics
//                     answered from the record of what they returned, never executed twice. One
//                     that may not be any more is dropped: nothing old fails a queue pair
//   psn >  expected   something is missing: ask for it once
#pragma once

#include <concepts>
#include <cstdint>

#include "softnic/engine/datagram.h"
#include "softnic/engine/deliver.h"
#include "softnic/engine/objects.h"
#include "softnic/engine/packet.h"
#include "softnic/engine/placement.h"
#include "softnic/engine/responder.h"

namespace peal::softnic {

/// Where answers go. acknowledge() may hold back an acknowledgement that a later one covers;
/// answer() sends, in order after what was held back.
template <class R>
concept Replies = requires(R& replies, const Packet& packet, const Payload& payload) {
  { replies.acknowledge(packet) } -> std::same_as<void>;
  { replies.answer(packet, payload) } -> std::same_as<void>;
};

/// Serves requests at one port. `lid` names the NIC they come from.
template <Replies R>
class RequestServer {
 public:
  PEAL_HD RequestServer(Port& port, uint16_t lid, R& replies, uint64_t now)
      : port_(port), lid_(lid), replies_(replies), now_(now) {}

  /// Executes and answers one request. The caller has made sure that an answer of
  /// packet.bytes (a READ's) fits.
  PEAL_HD void serve(const Packet& packet, const Payload& payload) {
    if ((packet.flags & kDatagram) != 0) return accept_datagram(port_, packet, payload, lid_, now_);
    Response denial;
    QueuePair* qp = addressee(port_, packet, lid_, denial);
    if (qp == nullptr) {
      if (denial.verdict == Verdict::kRefused) return refuse_to(packet, denial.syndrome);
      return reply(packet, PacketKind::kAbsent);
    }
    Receiver* receive = history_of(*qp, packet);
    if (receive == nullptr) return reply(packet, PacketKind::kAbsent);
    if (packet.opcode != mlx5::Opcode::kRdmaWrite) {
      if (!overtakes(packet)) place_held(port_, qp->qpn);
      land_fetched(port_);
    }
    const int32_t ahead = psn_distance(packet.psn, receive->expected_psn);
    if (ahead < 0) return repeat(*qp, *receive, packet);
    if (ahead > 0) {
      if (!receive->resend_asked) {
        receive->resend_asked = true;
        Packet answer = answer_to(packet, PacketKind::kResend);
        answer.psn = receive->expected_psn;
        replies_.answer(answer, Payload{});
      }
      return;
    }
    receive->resend_asked = false;
    execute(*qp, *receive, packet, payload);
  }

  /// Answers the request by a refusal; what it has done stays.
  PEAL_HD void refuse_to(const Packet& packet, mlx5::Syndrome syndrome) {
    Packet answer = answer_to(packet, PacketKind::kRefuse);
    answer.detail = static_cast<uint8_t>(syndrome);
    replies_.answer(answer, Payload{});
  }

 private:
  /// A NIC that has the bus execute its atomics (PCI Express AtomicOps) does not wait for what it
  /// is still writing.
  PEAL_HD bool overtakes(const Packet& packet) const {
    return port_.pci_atomics && right_for(packet.opcode) == kRemoteAtomic;
  }

  PEAL_HD bool held_back(QueuePair& qp, const Packet& packet, const Payload& payload) const {
    return port_.placement != nullptr && packet.opcode == mlx5::Opcode::kRdmaWrite &&
           !placed_in_order(port_, qp) && port_.placement->hold(qp, packet, payload, now_);
  }

  PEAL_HD void execute(QueuePair& qp, Receiver& receive, const Packet& packet,
                       const Payload& payload) {
    const Response answer = respond(port_, qp, {packet, receive, lid_, now_}, payload,
                                    [&](const PacketTarget& to, const Payload& bytes) {
                                      if (!held_back(qp, packet, bytes)) store_at(to, bytes);
                                    });
    switch (answer.verdict) {
      case Verdict::kDropped:
        return reply(packet, PacketKind::kAbsent);
      case Verdict::kRefused:
        return refuse_to(packet, answer.syndrome);
      case Verdict::kNotReady: {
        receive.resend_asked = true;  // it comes again without: no gap is told of what follows it
        Packet later = answer_to(packet, PacketKind::kNotReady);
        later.detail = static_cast<uint8_t>(answer.value);
        return replies_.answer(later, Payload{});
      }
      case Verdict::kDone:
        break;
    }
    receive.expected_psn = (packet.psn + 1) & kPsnMask;
    if (brings_data(packet.opcode)) {
      replies_.acknowledge(answer_to(packet, PacketKind::kAck));
    } else if (right_for(packet.opcode) == kRemoteRead) {
      send_read(packet, answer);
    } else {
      receive.replay[receive.atomics++ % Receiver::kReplay] = {packet.psn, true, answer.value};
      send_value(packet, answer.value);
    }
  }

  PEAL_HD void repeat(const QueuePair& qp, const Receiver& receive, const Packet& packet) {
    const uint32_t right = right_for(packet.opcode);
    if (brings_data(packet.opcode)) {
      Packet answer = answer_to(packet, PacketKind::kAck);
      answer.psn = (receive.expected_psn - 1) & kPsnMask;
      return replies_.acknowledge(answer);
    }
    if (right == kRemoteRead) {
      const Response answer = read_again(port_, qp, packet);
      if (answer.verdict != Verdict::kDone) return;
      return send_read(packet, answer);
    }
    for (const Receiver::Answered& old : receive.replay) {
      if (old.valid && old.psn == packet.psn) return send_value(packet, old.value);
    }
  }

  PEAL_HD static Packet answer_to(const Packet& packet, PacketKind kind) {
    Packet answer = {};
    answer.kind = kind;
    answer.opcode = packet.opcode;
    answer.destination = packet.source;
    answer.source = packet.destination;
    answer.psn = packet.psn;
    return answer;
  }
  PEAL_HD void reply(const Packet& packet, PacketKind kind) {
    replies_.answer(answer_to(packet, kind), Payload{});
  }
  PEAL_HD void send_data(const Packet& packet, const Payload& payload) {
    Packet answer = answer_to(packet, PacketKind::kData);
    answer.payload = payload.bytes;
    replies_.answer(answer, payload);
  }
  PEAL_HD void send_read(const Packet& packet, const Response& read) {
    Payload payload;
    each_read(port_, packet, read, [&payload](const MemoryRun& run) {
      payload.append(run.memory, static_cast<uint32_t>(run.bytes));
    });
    send_data(packet, payload);
  }
  PEAL_HD void send_value(const Packet& packet, uint64_t value) {
    Payload payload;
    payload.append(reinterpret_cast<const std::byte*>(&value), packet.bytes == 4 ? 4 : 8);
    send_data(packet, payload);
  }

  /// What is known of the requester's past: in the queue pair, or for a DC target in the table of
  /// connections, where the first packet of a connection opens it.
  PEAL_HD Receiver* history_of(QueuePair& qp, const Packet& packet) {
    if (qp.service != Service::kDcTarget) return &qp.receive;
    DcConnection* known =
        dc_connection(port_, packet, lid_, (packet.flags & kFirstOfConnection) != 0, now_);
    return known == nullptr ? nullptr : &known->receive;
  }

  Port& port_;
  uint16_t lid_;
  R& replies_;
  uint64_t now_;
};

}  // namespace peal::softnic
