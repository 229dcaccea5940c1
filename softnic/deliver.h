// SPDX-License-Identifier: Apache-2.0
//
// Delivery to a queue pair that lies in reach: loopback, or a peer whose tables are mapped. Nothing
// is lost on the way, so there is nothing to repeat: the sequence number must match or the packet
// is dropped, as a queue pair with another history would.
#pragma once

#include <cstdint>

#include "softnic/objects.h"
#include "softnic/packet.h"
#include "softnic/responder.h"

namespace peal::softnic {

/// The queue pair or DC target that answers `packet` from `lid`, or null with the verdict in
/// `denial`.
PEAL_HD QueuePair* addressee(Port& port, const Packet& packet, uint16_t lid, Answer& denial) {
  denial = {.verdict = Verdict::kDropped};
  QueuePair* qp = find_qp(port, packet.destination);
  if (qp == nullptr || !responds(*qp)) return nullptr;
  if ((packet.flags & kDcRequest) != 0) {
    if (qp->service != Service::kDcTarget || !partitions_meet(qp->attributes.pkey, packet.detail)) {
      return nullptr;
    }
    if (packet.dc_key == qp->attributes.dc_access_key) return qp;
    count_one(port.violations.dc_key);
    denial = refuse(port, *qp, mlx5::Syndrome::kRemoteAccess);
    return nullptr;
  }
  const QueuePairAttributes& peer = qp->attributes;
  const bool connected = qp->service == Service::kReliable && peer.remote_qpn == packet.source &&
                         peer.remote_lid == lid && peer.network == packet.network &&
                         partitions_meet(peer.pkey, packet.detail);
  return connected ? qp : nullptr;
}

/// Executes a packet at the queue pair it names.
PEAL_HD Answer deliver(Port& port, const Packet& packet, const Payload& payload, uint16_t lid,
                       uint64_t now) {
  Answer answer;
  QueuePair* qp = addressee(port, packet, lid, answer);
  if (qp == nullptr) return answer;
  if (qp->service == Service::kDcTarget) return respond(port, *qp, packet, payload, now);
  if (packet.psn != qp->receive.expected_psn) return answer;
  answer = respond(port, *qp, packet, payload, now);
  if (answer.verdict == Verdict::kDone) qp->receive.expected_psn = (packet.psn + 1) & kPsnMask;
  return answer;
}

}  // namespace peal::softnic
