// SPDX-License-Identifier: Apache-2.0
//
// The plain words that the control interface (nic.h) and the engine share: access bits, queue pair
// states, service types, queue pair attributes, asynchronous events. No containers, no OS: the
// engine that reads them may run on a GPU.
#pragma once

#include <cstdint>

#include "device/base/target.h"

namespace peal::softnic {

/// ibv_access_flags, same bits.
enum Access : uint32_t {
  kLocalWrite = 1u << 0,
  kRemoteWrite = 1u << 1,
  kRemoteRead = 1u << 2,
  kRemoteAtomic = 1u << 3,
  kRelaxedOrdering = 1u << 20,
};

/// QPC.state and service type, same numbers.
enum class QpState : uint8_t {
  kReset = 0,
  kInit = 1,
  kReadyToReceive = 2,
  kReadyToSend = 3,
  kSqError = 4,
  kSqDrained = 5,
  kError = 6
};
enum class Service : uint8_t {
  kReliable = 0,
  kUnreliable = 1,
  kDatagram = 2,
  kDcInitiator = 5,
  kDcTarget = 6
};

/// What a packet's header is made for: that of a queue pair at one end and of the one at the other
/// must be the same, or the port drops what comes.
enum class Network : uint8_t {
  kInfiniBand,
  kRoceV1,  // an Ethernet frame of its own kind
  kRoceV2,  // UDP over IPv4 or IPv6, whichever the GID is
  kRoce,    // of a request only: either version, where the wire knows no GIDs
};

/// A queue pair of the one hears requests of the other.
PEAL_HD constexpr bool networks_meet(Network mine, Network request) {
  return mine == request || (request == Network::kRoce && mine != Network::kInfiniBand);
}

/// A P_Key, the membership of a port in a partition: bit 15 is set for a full member, the rest
/// names the partition; 0 is an unused entry of the port's table.
inline constexpr uint16_t kDefaultPkey = 0xffff;
inline constexpr uint16_t kFullMember = 0x8000;

/// Two ports hear each other in one partition, of which one at least is a full member.
PEAL_HD constexpr bool partitions_meet(uint16_t a, uint16_t b) {
  return ((a ^ b) & 0x7fff) == 0 && ((a | b) & kFullMember) != 0;
}

/// The way to a peer as a client gives it.
struct AddressPath {
  uint8_t port = 1;
  uint16_t pkey_index = 0;
  uint16_t lid = 0;     // InfiniBand
  bool global = false;  // with a GRH
  uint8_t source_gid = 0;
  uint8_t hop_limit = 0;
  uint8_t traffic_class = 0;
  uint8_t service_level = 0;
  uint32_t flow_label = 0;
  uint16_t udp_port = 0;  // RoCE v2, at the source
  uint8_t mac[6] = {};    // RoCE
  uint8_t gid[16] = {};
};

/// Bytes of a path MTU's QPC code, 1 to 5.
PEAL_HD constexpr uint32_t mtu_bytes(uint32_t code) { return 128u << (code & 7); }

/// What the state transitions set. A transition takes all of them: whoever changes some queries
/// first. Sequence numbers count only in the transition that carries them.
struct QueuePairAttributes {
  QpState state = QpState::kReset;
  uint32_t access = 0;  // rwe, rre, rae as Access bits
  uint8_t atomic_mode = 0;
  uint32_t remote_qpn = 0;
  uint16_t remote_lid = 0;  // of the NIC that `path` leads to; 0: to nobody
  Network network = Network::kInfiniBand;
  uint16_t pkey = kDefaultPkey;  // at path.pkey_index of the port's table
  uint8_t lag_port = 0;          // of a bond: the port packets leave by; 0 = the NIC's choice
  AddressPath path;
  uint8_t mtu = 1;  // QPC code 1..5
  uint8_t log_max_message = 30;
  uint8_t log_responder_depth = 0;    // log_rra_max
  bool responder_depth_valid = true;  // false: depth 0, READs and atomics are refused
  uint8_t log_initiator_depth = 0;    // log_sra_max
  uint8_t min_rnr_timer = 0;
  uint8_t ack_timeout = 0;  // 4.096 us << n; 0 = for ever
  uint8_t retry_count = 0;
  uint8_t rnr_retry = 0;  // 7 = for ever
  uint32_t send_psn = 0;
  uint32_t receive_psn = 0;
  uint64_t dc_access_key = 0;
  uint32_t qkey = 0;                   // of datagrams
  uint16_t hardware_send_counter = 0;  // answers of QUERY_QP
  uint16_t software_send_counter = 0;
  bool any_order = false;  // it asks for adaptive routing, which its peer must do as well
  bool in_order = false;   // WRITEs to it are placed as they arrive, whatever the fabric does
};

/// What happened outside a command: a queue that failed or runs low, a port that went down or up.
/// Read by ibv_get_async_event.
struct AsyncEvent {
  enum class Kind {
    kQpFatal,
    kQpAccessError,
    kQpRequestError,
    kQpLastEntry,  // a failed queue pair has taken its last entry of a shared receive queue
    kCqError,
    kPortDown,
    kPortUp,
    kSrqLimit,  // fewer entries wait than the limit
    kSrqError,
  } kind;
  uint32_t number;  // qpn, cqn, srqn or port
};

/// How often clients did what hardware silently tolerates or answers with an opaque syndrome.
struct Violations {
  uint64_t doorbell = 0;     // doorbell record of sends or of an SRQ: backwards, or over the ring
  uint64_t index = 0;        // WQE whose index is not its place: stale or half written
  uint64_t foreign_qpn = 0;  // WQE that names another queue pair
  uint64_t truncated = 0;    // doorbell record points into the middle of a WQE
  uint64_t malformed = 0;    // opcode, ds, inline length, operand size, fence mode, SRQ link
  uint64_t dc_key = 0;       // DC requests with a wrong access key
  uint64_t cq_overrun = 0;   // CQE for a full CQ
};

}  // namespace peal::softnic
