// SPDX-License-Identifier: Apache-2.0
//
// The address that a request carries with it (DC initiators, datagrams), and where it leads.
//
//   key | number, form | rate, SL, LID        16 bytes: InfiniBand without a GRH
//   MAC | GRH: hops, source GID, flow | GID   32 more, where bit 31 of the number says so
#pragma once

#include <cstdint>

#include "device/mlx5/layout.h"
#include "softnic/engine/attributes.h"

namespace peal::softnic {

struct AddressVector {
  mlx5::CompactAddressVector head;
  mlx5::AddressVectorGrh route;
};
static_assert(sizeof(AddressVector) == 48);

inline constexpr uint32_t kAddressUnits = sizeof(AddressVector) / mlx5::kSegmentBytes;

/// Where an address leads.
struct PacketPath {
  uint16_t lid = 0;  // 0: to nobody
  Network network = Network::kInfiniBand;
  uint8_t headers = 0;      // RoCE: what completions have for a service level
  uint8_t source[16] = {};  // GID of this end; zeros where none is named
};

/// Way::headers: [3] UDP, [2:0] what is in front of it or of the transport's own header.
inline constexpr uint8_t kHeadersIpv6 = 8 | 1;
inline constexpr uint8_t kHeadersIpv4 = 8 | 2;

/// First four bytes of the Ethernet address of any NIC; its LID follows.
inline constexpr uint32_t kMacPrefix = 0x02706561;

/// LID behind an Ethernet address, 0 for an address of no NIC.
PEAL_HD constexpr uint16_t lid_behind(uint32_t mac_47_16, uint32_t mac_15_0) {
  return mac_47_16 == kMacPrefix ? static_cast<uint16_t>(mac_15_0) : uint16_t{0};
}
PEAL_HD uint16_t lid_behind_mac(const AddressVector& vector) {
  return lid_behind(vector.route.rmac_47_16.host(), vector.route.rmac_15_0_tclass_hop.host() >> 16);
}

PEAL_HD bool same_route(const mlx5::AddressVectorGrh& a, const mlx5::AddressVectorGrh& b) {
  bool same = a.reserved.raw == b.reserved.raw && a.rmac_47_16.raw == b.rmac_47_16.raw &&
              a.rmac_15_0_tclass_hop.raw == b.rmac_15_0_tclass_hop.raw &&
              a.grh_gid_flow.raw == b.grh_gid_flow.raw;
  for (uint32_t i = 0; i < sizeof(a.rgid); ++i) same = same && a.rgid[i] == b.rgid[i];
  return same;
}

PEAL_HD bool has_grh(const AddressVector& vector) {
  return (vector.route.grh_gid_flow.host() >> 30 & 1) != 0;
}

}  // namespace peal::softnic
