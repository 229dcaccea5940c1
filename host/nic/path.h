// SPDX-License-Identifier: Apache-2.0
//
// How packets get from one queue pair to another: what goes into the address path of a queue pair's
// context (QPC.primary_address_path), or into ibv_qp_attr.
#pragma once

#include <cstdint>

namespace peal::nic {

/// One direction of a connection. Both ends have agreed on what they must agree on: mtu and depths
/// (host/transport/connection.h).
struct Path {
  uint8_t port = 1;  // of the NIC here
  uint8_t mtu = 1;   // code 1..5: 256 << (mtu - 1) bytes
  uint16_t dlid = 0;
  uint8_t service_level = 0;
  uint8_t log_responder_depth = 4;  // READs and atomics in flight towards here
  uint8_t log_initiator_depth = 4;  // and from here
  uint8_t ack_timeout = 20;         // 4.096 us << 20 a try
  uint8_t retry_count = 7;
};

}  // namespace peal::nic
