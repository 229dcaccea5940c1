// SPDX-License-Identifier: Apache-2.0
//
// The invariant CRC at the end of a RoCE v2 datagram: Ethernet's CRC32 over what no router changes.
//
//   8 bytes of ones | IPv4 or IPv6 header | UDP header | BTH ... padding
//
// Fields that change on the way count as ones: type of service or traffic class and flow label,
// time to live or hop limit, the checksums, FECN, BECN and the six bits behind them. Sources:
// InfiniBand Architecture Specification, annex A17; which bytes it means in practice, Linux'
// drivers/infiniband/sw/rxe/rxe_icrc.c.
//
// Identification and flags of the IPv4 header count as well, and a UDP socket sees neither. What it
// sends has what Linux gives an unconnected socket that forbids fragments (IP_PMTUDISC_DO and
// _PROBE): identification 0, don't fragment. Others (Linux' rxe, hardware) forbid fragments, too,
// but number their datagrams. CRCs are linear: the difference that a number makes, and no other,
// goes back to 16 bits at its place. So identification_of() finds all but one in 65536 changes of a
// datagram, sealed() all but one in 2^32.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include "softnic/wire/roce/address.h"

namespace peal::softnic::roce {

/// The ends of a datagram, as the IP and UDP headers name them; ports in host order. Both addresses
/// are of one kind.
struct Ends {
  Address source;
  Address destination;
  uint16_t source_port;
  uint16_t destination_port;
  uint16_t identification = 0;  // of the IPv4 header
};

/// CRC32 (reflected, polynomial 0xedb88320) of `bytes` more bytes; begins with ~0, and what is
/// transmitted is the complement.
uint32_t crc32(uint32_t crc, const std::byte* from, size_t bytes);

/// The ICRC of a datagram: `bytes` of `payload` from the BTH to the padding, `bytes` at least 12.
/// It is transmitted with the lowest byte first.
uint32_t icrc(const Ends& ends, const std::byte* payload, size_t bytes);

/// Writes it behind the `bytes` bytes.
void seal(const Ends& ends, std::byte* payload, size_t bytes);
/// The last 4 of `bytes` bytes are the ICRC of those before. False for what is too short, too.
bool sealed(const Ends& ends, const std::byte* payload, size_t bytes);
/// The identification with which it is so; nothing if there is none. `bytes` is at most
/// kMostDatagram.
std::optional<uint16_t> identification_of(const Ends& ends, const std::byte* payload, size_t bytes);

}  // namespace peal::softnic::roce
