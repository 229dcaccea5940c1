// SPDX-License-Identifier: Apache-2.0
#include "host/transport/connection.h"

#include <algorithm>

namespace peal {
namespace {

// 16 READs and atomics in flight: what a ConnectX can do for each of many queue pairs.
constexpr uint32_t kLogDepth = 4;

uint8_t log_depth(uint32_t log_most) { return static_cast<uint8_t>(std::min(kLogDepth, log_most)); }

}  // namespace

Endpoint endpoint_of(const nic::Device& device, uint32_t qpn) {
  return {.qpn = qpn,
          .lid = device.lid(),
          .mtu = device.mtu(),
          .log_responder_depth = log_depth(device.capabilities().log_max_responder_depth),
          .log_initiator_depth = log_depth(device.capabilities().log_max_initiator_depth)};
}

nic::Path path_to(const nic::Device& device, const Endpoint& local, const Endpoint& remote) {
  return {.port = device.port(),
          .mtu = std::min(local.mtu, remote.mtu),
          .dlid = remote.lid,
          .log_responder_depth = std::min(local.log_responder_depth, remote.log_initiator_depth),
          .log_initiator_depth = std::min(local.log_initiator_depth, remote.log_responder_depth)};
}

}  // namespace peal
