// SPDX-License-Identifier: Apache-2.0
//
// What the two ends of a connection tell each other, and what each makes of it.
//
//   here: endpoint_of(device, qpn) --- exchanged --> there: path_to(device, theirs, this)
//
// The other way round both come to the same MTU, the same use of GIDs, the same UDP port, and
// neither has more READs and atomics in flight than the other answers.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <type_traits>

#include "host/nic/device.h"
#include "host/nic/path.h"

namespace peal {

/// Atomics with masks: no specification has their packets, and each kind of NIC knows its own.
enum class Masks : uint8_t { kNone, kMlx5, kSoftware };

/// One end, in a form that crosses machines. No end needs more than this of the other.
struct Endpoint {
  uint32_t qpn = 0;
  uint16_t lid = 0;
  nic::LinkLayer link_layer = nic::LinkLayer::kInfiniBand;
  uint8_t mtu = 1;                  // code; the largest that the port takes
  uint8_t log_responder_depth = 0;  // READs and atomics it answers at a time
  uint8_t log_initiator_depth = 0;  // and sends at a time
  uint8_t global = 0;               // 1: wants GIDs in every packet
  uint8_t any_order = 0;            // 1: a queue pair can take WRITEs as they arrive
  Masks masks = Masks::kMlx5;       // which it knows
  uint8_t asks_masks = 0;           // 1: kernels post such atomics
  uint16_t key = 0xffff;            // of its partition
  nic::Gid gid{};
  uint64_t fabric = 0;  // of a software NIC; 0: any other
  uint64_t owner =
      0;  // a number that only this end's PE has: proof that it is reached (self_test.h)
};
static_assert(std::is_trivially_copyable_v<Endpoint> && sizeof(Endpoint) <= 64);

/// Queue pair `qpn` of `device`.
Endpoint endpoint_of(const nic::Device& device, uint32_t qpn);

/// "InfiniBand, LID 5, MTU 4096" or "Ethernet, GID ::ffff:10.0.0.1, MTU 1024".
std::string describe(const Endpoint& end);

/// From `local`, which is an end of `device`, to `remote`. Throws kUnsupported, as check_ends()
/// does, where these two cannot be connected: only a PE with itself, where check_ends() let it.
nic::Path path_to(const nic::Device& device, const Endpoint& local, const Endpoint& remote);

/// `ends[k]` is one of PE k's. Throws kUnsupported, naming two PEs, what each has and the remedy,
/// unless any two of them can be connected: the same text on all PEs that ask about the same ends.
/// `with_itself`: each PE with itself, too, which only limited members of a partition cannot.
void check_ends(std::span<const Endpoint> ends, bool with_itself);

/// Which port of the device's bond the packets of queue `queue` to `pe` leave by: one after the
/// other, each PE's first queue by the next. 0 where there is no bond.
uint8_t lag_port(const nic::Device& device, uint32_t pe, uint32_t queue);

/// The source port of both directions between two queue pairs: spread over [low, high] so that the
/// connections of two hosts take different ways through a network of equal ones (ECMP). In the
/// range of the IBA, 0xc000 to 0xffff, it is the port that Linux gives to queue pairs of its own
/// (rdma_get_udp_sport), which may be at the other end.
uint16_t udp_source_port(uint32_t qpn, uint32_t remote_qpn, uint16_t low, uint16_t high);

}  // namespace peal
