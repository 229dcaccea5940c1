// SPDX-License-Identifier: Apache-2.0
//
// What the asking half of a queue pair needs of whatever carries its packets: shared memory, UDP, a
// test's deque. Concepts, so that an engine costs no call through a table.
#pragma once

#include <concepts>
#include <cstdint>

#include "softnic/engine/address_vector.h"
#include "softnic/engine/packet.h"

namespace peal::softnic {

struct Port;

enum class SendStatus : uint8_t {
  kSent,
  kFull,    // no room now
  kAbsent,  // no such NIC (yet)
  kLost,    // the NIC this queue pair talked to has gone
};

/// What carries packets. `generation` names the peer NIC's life: 0 on first use, filled by the
/// wire, and from then on a NIC that took over the same LID is somebody else (kLost).
template <class W>
concept PacketWire = requires(W& wire, uint16_t lid, uint64_t& generation, const Packet& packet,
                              const Payload& payload) {
  { wire.direct(lid) } -> std::same_as<Port*>;  // a peer in reach, or null
  { wire.open(lid, generation) } -> std::same_as<SendStatus>;
  { wire.segment_bytes(lid) } -> std::same_as<uint32_t>;  // after open
  { wire.send(lid, packet, payload) } -> std::same_as<SendStatus>;
  { wire.position(lid) } -> std::same_as<uint64_t>;  // sent so far
  { wire.consumed(lid) } -> std::same_as<uint64_t>;  // of that, taken by the peer
  { wire.lost(lid, generation) } -> std::same_as<bool>;
};

/// A wire that knows the GIDs of the ports it leads to. Over any other the LID alone counts, on
/// Ethernet the one in the hardware address, and there are no datagrams.
template <class W>
concept FindsWays = requires(const W& wire, const AddressVector& vector, uint8_t port) {
  { wire.find(vector, port) } -> std::same_as<PacketPath>;
};

/// A wire some of whose peers expect what the path MTU says, and know no DC.
template <class W>
concept CutsByMtu = requires(const W& wire, uint16_t lid) {
  { wire.cuts_by_mtu(lid) } -> std::same_as<bool>;
};

}  // namespace peal::softnic
