// SPDX-License-Identifier: Apache-2.0
//
// How packets get from one queue pair to another: what goes into the address path of a queue pair's
// context (QPC.primary_address_path) or into ibv_qp_attr, and what people may set of it.
//
//   InfiniBand   destination LID, service level; GIDs too (a GRH) between subnets
//   Ethernet     RoCE v2: GIDs, which are IP addresses; traffic class, UDP source port. The MAC of
//                the next hop is the kernel's to find.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "host/base/config.h"
#include "host/nic/gid.h"

namespace peal::nic {

enum class LinkLayer : uint8_t { kInfiniBand, kEthernet };
const char* to_string(LinkLayer layer);

/// Bytes of an MTU code 1..5, as QPC.mtu and enum ibv_mtu have it.
constexpr uint32_t mtu_bytes(uint8_t code) { return 128u << code; }

/// A partition that a port is a member of.
struct Partition {
  static constexpr uint16_t kDefaultKey = 0xffff;
  static constexpr uint16_t kFullMember = 0x8000;  // the rest of a key names the partition

  uint16_t index = 0;  // in the port's table
  uint16_t key = kDefaultKey;
};
/// "partition key 0x8001".
std::string describe_key(uint16_t key);

/// One direction of a connection. Both ends have agreed on what they must agree on: mtu, global,
/// depths (host/transport/connection.h).
struct Path {
  LinkLayer link_layer = LinkLayer::kInfiniBand;
  uint8_t port = 1;                 // of the NIC here
  uint8_t mtu = 1;                  // code
  uint16_t dlid = 0;                // InfiniBand
  bool global = false;              // by GIDs; always on Ethernet
  uint8_t source_gid = 0;           // global: index in the port's table
  Gid remote_gid{};                 // global
  uint8_t hop_limit = 0;            // global
  uint8_t traffic_class = 0;        // global; on Ethernet DSCP << 2 | congestion marks
  uint8_t service_level = 0;        // 0..15; on Ethernet the priority, 0..7
  uint16_t udp_source_port = 0;     // Ethernet
  bool any_order = false;           // both ends can take WRITEs as they arrive
  uint8_t lag_port = 0;             // the port of a bond, from 1; 0 = any
  uint8_t log_responder_depth = 4;  // READs and atomics in flight towards here
  uint8_t log_initiator_depth = 4;  // and from here
  uint8_t ack_timeout = 20;         // 4.096 us << 20 a try
  uint8_t retry_count = 7;
};

/// What people set.
struct PathSettings {
  static constexpr int kBest = -1;

  int gid_index = kBest;
  // Set by peal's own variable: what the port cannot do then is an error, not a warning.
  bool gid_binds = false;
  bool service_level_binds = false;
  int partition = kBest;            // a key; its membership bit does not count
  int partition_index = kBest;      // as NCCL names it: the entry of the table
  bool traffic_class_open = false;  // nobody set it
  uint8_t traffic_class = 0;
  uint8_t service_level = 0;
  uint8_t ack_timeout = 20;
  uint8_t retry_count = 7;
  uint8_t largest_mtu = 5;  // code

  std::vector<std::string> taken;    // for people: "traffic class 106 (NCCL_IB_TC)"
  std::vector<std::string> ignored;  // warnings: what another library's variable says and peal
                                     // cannot do

  /// What `config` says. Where peal's own setting is "auto", NCCL's variable counts, but not for
  /// the software NIC. A value of NCCL's that is none for peal ends in `ignored`: it was written
  /// for another library, and the job may well run without it.
  static PathSettings from(const Config& config, bool software);
};

}  // namespace peal::nic
