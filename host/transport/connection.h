// SPDX-License-Identifier: Apache-2.0
//
// What the two ends of a connection tell each other, and what each makes of it.
//
//   here: endpoint_of(device, qpn) --- exchanged --> there: path_to(device, theirs, this)
#pragma once

#include <cstdint>
#include <type_traits>

#include "host/nic/device.h"
#include "host/nic/path.h"

namespace peal {

/// One end, in a form that crosses machines. No end needs more than this of the other.
struct Endpoint {
  uint32_t qpn = 0;
  uint16_t lid = 0;
  uint8_t mtu = 1;                  // code; the largest that the port takes
  uint8_t log_responder_depth = 0;  // READs and atomics it answers at a time
  uint8_t log_initiator_depth = 0;  // and sends at a time
};
static_assert(std::is_trivially_copyable_v<Endpoint> && sizeof(Endpoint) <= 64);

/// Queue pair `qpn` of `device`.
Endpoint endpoint_of(const nic::Device& device, uint32_t qpn);

/// From `local`, which is an end of `device`, to `remote`. The other way round both ends come to
/// the same MTU, and neither has more READs and atomics in flight than the other answers.
nic::Path path_to(const nic::Device& device, const Endpoint& local, const Endpoint& remote);

}  // namespace peal
