// SPDX-License-Identifier: Apache-2.0
//
// Delivery to a queue pair that lies in reach: loopback, or a peer whose tables are mapped. Nothing
// is lost on the way, so there is nothing to repeat: the sequence number must match or the packet
// is dropped, as a queue pair with another history would.
#pragma once

#include <cstdint>

#include "softnic/engine/objects.h"
#include "softnic/engine/packet.h"
#include "softnic/engine/responder.h"

namespace peal::softnic {

/// The queue pair or DC target that answers `packet` from `lid`, or null with the verdict in
/// `denial`.
PEAL_HD QueuePair* addressee(Port& port, const Packet& packet, uint16_t lid, Response& denial) {
  denial = {.verdict = Verdict::kDropped};
  QueuePair* qp = find_qp(port, packet.destination);
  if (qp == nullptr || !responds(*qp)) return nullptr;
  if ((packet.flags & kDcRequest) != 0) {
    const bool meets = qp->service == Service::kDcTarget &&
                       networks_meet(qp->attributes.network, packet.network) &&
                       partitions_meet(qp->attributes.pkey, packet.detail);
    if (!meets) return nullptr;
    if (packet.dc_key == qp->attributes.dc_access_key) return qp;
    count_one(port.violations.dc_key);
    denial = refuse(port, *qp, mlx5::Syndrome::kRemoteAccess);
    return nullptr;
  }
  const bool connected = qp->service == Service::kReliable &&
                         hears(qp->attributes, packet.source, lid, packet.network, packet.detail) &&
                         ((packet.flags & kAnyOrder) != 0) == qp->attributes.any_order;
  return connected ? qp : nullptr;
}

/// What a DC target remembers of the initiator that sent `packet`; null when nothing. With `opens`
/// it begins now, in the place of an earlier connection: the entry which that one held is flushed.
PEAL_HD DcConnection* dc_connection(Port& port, const Packet& packet, uint16_t lid, bool opens,
                                    uint64_t now) {
  constexpr uint32_t kProbes = 64;
  const uint32_t hash = (packet.source * 0x9e3779b1u) ^ (packet.destination * 0x85ebca6bu) ^
                        (uint32_t{lid} * 0xc2b2ae35u);
  DcConnection* place = &port.dc_connections[hash % port.dc_connection_count];
  for (uint32_t i = 0; i < kProbes; ++i) {
    DcConnection& entry = port.dc_connections[(hash + i) % port.dc_connection_count];
    const bool same = entry.exists && entry.lid == lid && entry.qpn == packet.source &&
                      entry.target == packet.destination;
    if (same && entry.epoch == packet.epoch) return &entry;
    if (!same && entry.exists) continue;
    place = &entry;  // free, or an earlier connection of the same initiator
    break;
  }
  if (!opens) return nullptr;
  QueuePair* const before = place->exists ? find_qp(port, place->target) : nullptr;
  if (before != nullptr && place->receive.held != Receiver::kNoEntry) {
    flush_receive(port, *before, place->receive, now);
  }
  *place = {.exists = true,
            .lid = lid,
            .qpn = packet.source,
            .target = packet.destination,
            .epoch = packet.epoch,
            .receive = {}};
  place->receive.expected_psn = packet.psn;
  return place;
}

/// The stream of messages that a packet belongs to that comes directly. Only a SEND in several
/// pieces needs to know: another initiator's may come between them.
PEAL_HD Receiver& direct_stream(Port& port, QueuePair& target, const Packet& packet, uint16_t lid,
                                uint64_t now) {
  const bool in_pieces = is_send(packet.opcode) && packet.bytes != packet.total;
  if (!in_pieces || port.dc_connection_count == 0) return target.receive;
  DcConnection* known = dc_connection(port, packet, lid, packet.offset == 0, now);
  return known == nullptr ? target.receive : known->receive;
}

/// Executes a packet at the queue pair it names.
PEAL_HD Response deliver(Port& port, const Packet& packet, const Payload& payload, uint16_t lid,
                         uint64_t now) {
  Response answer;
  QueuePair* qp = addressee(port, packet, lid, answer);
  if (qp == nullptr) return answer;
  if (qp->service == Service::kDcTarget) {
    Receiver& stream = direct_stream(port, *qp, packet, lid, now);
    return respond(port, *qp, {packet, stream, lid, now}, payload);
  }
  if (packet.psn != qp->receive.expected_psn) return answer;
  answer = respond(port, *qp, {packet, qp->receive, lid, now}, payload);
  if (answer.verdict == Verdict::kDone) qp->receive.expected_psn = (packet.psn + 1) & kPsnMask;
  return answer;
}

}  // namespace peal::softnic
