// SPDX-License-Identifier: Apache-2.0
//
// Datagrams: one packet, which may be lost, to whoever the request's address names.
//
//   GRH (40 bytes) | data  -> Q_Key, P_Key -> receive entry -> completion      else: dropped
//
// The packet carries the 40 bytes that a receive entry begins with, zeros where there is no GRH.
// Nobody answers: a request completes when its packet is on its way.
#pragma once

#include <cstdint>

#include "softnic/engine/address_vector.h"
#include "softnic/engine/responder.h"

namespace peal::softnic {

/// What lies before the data of a datagram in a receive entry.
struct GlobalHeader {
  uint8_t byte[40];
};

/// The header of a datagram of `bytes` bytes. Over IPv4 the 40 bytes end with its own header.
PEAL_HD GlobalHeader global_header(const AddressVector& vector, const PacketPath& way,
                                   uint32_t bytes) {
  constexpr uint32_t kHeaders = 24;  // base and datagram headers, checksum
  constexpr uint8_t kUdp = 17;
  GlobalHeader header = {};
  uint8_t* const at = header.byte;
  const uint32_t tclass_hops = vector.route.rmac_15_0_tclass_hop.host() & 0xffff;
  const auto hops = static_cast<uint8_t>(tclass_hops);
  const auto tclass = static_cast<uint8_t>(tclass_hops >> 8);
  const uint8_t* const gid = vector.route.rgid;
  const uint32_t follows = bytes + kHeaders;
  if (way.headers == kHeadersIpv4) {
    at[20] = 0x45;
    at[21] = tclass;
    at[22] = static_cast<uint8_t>((follows + 28) >> 8);
    at[23] = static_cast<uint8_t>(follows + 28);
    at[28] = hops;
    at[29] = kUdp;
    for (uint32_t i = 0; i < 4; ++i) {
      at[32 + i] = way.source[12 + i];
      at[36 + i] = gid[12 + i];
    }
    return header;
  }
  const uint32_t flow = vector.route.grh_gid_flow.host() & 0xfffff;
  at[0] = static_cast<uint8_t>(6 << 4 | tclass >> 4);
  at[1] = static_cast<uint8_t>((tclass & 0xf) << 4 | flow >> 16);
  at[2] = static_cast<uint8_t>(flow >> 8);
  at[3] = static_cast<uint8_t>(flow);
  at[4] = static_cast<uint8_t>(follows >> 8);
  at[5] = static_cast<uint8_t>(follows);
  at[6] = way.network == Network::kRoceV2 ? kUdp : uint8_t{0x1b};
  at[7] = hops;
  for (uint32_t i = 0; i < 16; ++i) {
    at[8 + i] = way.source[i];
    at[24 + i] = gid[i];
  }
  return header;
}

/// Takes a datagram in, or drops it.
PEAL_HD void accept_datagram(Port& port, const Packet& packet, const Payload& payload, uint16_t lid,
                             uint64_t now) {
  QueuePair* qp = find_qp(port, packet.destination);
  if (qp == nullptr || qp->service != Service::kDatagram || !responds(*qp)) return;
  const QueuePairAttributes& mine = qp->attributes;
  if (packet.rkey != mine.qkey || !partitions_meet(mine.pkey, packet.detail)) return;
  const bool whole = packet.offset == 0 && packet.bytes == packet.total &&
                     payload.bytes == packet.total && packet.total >= sizeof(GlobalHeader);
  if (whole) act_send(port, *qp, {packet, qp->receive, lid, now}, payload);
}

}  // namespace peal::softnic
