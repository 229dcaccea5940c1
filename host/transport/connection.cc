// SPDX-License-Identifier: Apache-2.0
#include "host/transport/connection.h"

#include <fmt/format.h>

#include <algorithm>

#include "host/base/error.h"

namespace peal {
namespace {

// 16 READs and atomics in flight: what a ConnectX can do for each of many queue pairs.
constexpr uint32_t kLogDepth = 4;
// As far as packets can go; the other runtimes do the same. One that has to pass a router and may
// not is the hardest of mistakes to find.
constexpr uint8_t kHopLimit = 255;

uint8_t log_depth(uint32_t log_most) { return static_cast<uint8_t>(std::min(kLogDepth, log_most)); }

bool on_ethernet(const Endpoint& end) { return end.link_layer == nic::LinkLayer::kEthernet; }

/// What an address can be reached from.
const char* family(const nic::Gid& gid) {
  if (gid.ipv4()) return "IPv4";
  return gid.link_local() ? "link-local" : "IPv6";
}

/// Why two ends cannot be connected, and the remedy; empty if they can.
std::string obstacle(const Endpoint& a, const Endpoint& b) {
  if (a.link_layer != b.link_layer) {
    return "InfiniBand and Ethernet do not meet; choose ports of one kind on all PEs by PEAL_HCA";
  }
  if (on_ethernet(a) && family(a.gid) != std::string(family(b.gid))) {
    return fmt::format(
        "{} and {} addresses do not meet; give all ports addresses of one kind, or choose such "
        "entries of their GID tables by PEAL_GID_INDEX",
        family(a.gid), family(b.gid));
  }
  if (((a.key ^ b.key) & ~nic::Partition::kFullMember & 0xffff) != 0) {
    return "different partitions do not meet; choose one that all ports are in by PEAL_PKEY";
  }
  if (((a.key | b.key) & nic::Partition::kFullMember) == 0) {
    return "two limited members of a partition do not meet; choose one by PEAL_PKEY that a port is "
           "a full member of (bit 15 of its key), or ask who runs the subnet manager";
  }
  return "";
}

Masks masks_of(const nic::Device& device) {
  if (device.software()) return Masks::kSoftware;
  return device.placement().mlx5 ? Masks::kMlx5 : Masks::kNone;
}

/// Whoever does not know a request drops it, and the sender hears nothing until its retries end.
void check_masks(std::span<const Endpoint> ends) {
  const auto asks = std::ranges::find(ends, 1, &Endpoint::asks_masks);
  if (asks == ends.end()) return;
  const auto other =
      std::ranges::find_if(ends, [&](const Endpoint& end) { return end.masks != asks->masks; });
  if (other == ends.end()) return;
  fail(ErrorCode::kUnsupported,
       "kernels of PE {} ({}) post atomics with masks, which the NIC of PE {} ({}) does not know. "
       "Start all PEs with PEAL_TRANSPORT=proxy, whose atomics all NICs know, or "
       "choose NICs of one kind by PEAL_HCA",
       asks - ends.begin(), describe(*asks), other - ends.begin(), describe(*other));
}

/// Packets carry GIDs.
bool global(const Endpoint& a, const Endpoint& b) {
  if (on_ethernet(a)) return true;
  return a.global != 0 || b.global != 0 || a.gid.subnet() != b.gid.subnet();
}

/// Where an InfiniBand switch sends packets for `remote`: through a router it is the LID by which
/// routers know it, where the subnet managers have given it one.
uint16_t destination_lid(const Endpoint& local, const Endpoint& remote) {
  const uint16_t forwardable = remote.gid.forwardable_lid();
  const bool routed = local.gid.subnet() != remote.gid.subnet();
  return routed && forwardable != 0 ? forwardable : remote.lid;
}

}  // namespace

Endpoint endpoint_of(const nic::Device& device, uint32_t qpn) {
  const nic::PortAttributes& port = device.port();
  const bool asked = device.path_settings().gid_binds;
  return {.qpn = qpn,
          .lid = port.lid,
          .link_layer = port.link_layer,
          .mtu = device.mtu(),
          .log_responder_depth = log_depth(device.capabilities().log_max_responder_depth),
          .log_initiator_depth = log_depth(device.capabilities().log_max_initiator_depth),
          .global = port.global_only || asked,
          .any_order = device.capabilities().takes_any_order,
          .masks = masks_of(device),
          .asks_masks = device.use() == nic::NicUse::kDriven,
          .key = device.partition().key,
          .gid = device.gid().gid,
          .fabric = device.fabric().number};
}

std::string describe(const Endpoint& end) {
  const std::string address =
      on_ethernet(end) ? "GID " + end.gid.text() : fmt::format("LID {}", end.lid);
  std::string text =
      fmt::format("{}, {}, MTU {}", to_string(end.link_layer), address, nic::mtu_bytes(end.mtu));
  if (end.key != nic::Partition::kDefaultKey) text += ", " + nic::describe_key(end.key);
  return text;
}

nic::Path path_to(const nic::Device& device, const Endpoint& local, const Endpoint& remote) {
  if (const std::string why = obstacle(local, remote); !why.empty()) {
    fail(ErrorCode::kUnsupported, "{} ({}) and {} cannot be connected: {}", device.name(),
         describe(local), describe(remote), why);
  }
  const nic::PathSettings& settings = device.path_settings();
  nic::Path path = {
      .link_layer = local.link_layer,
      .port = device.port().number,
      .mtu = std::min(local.mtu, remote.mtu),
      .service_level = settings.service_level,
      .any_order = local.any_order != 0 && remote.any_order != 0,
      .log_responder_depth = std::min(local.log_responder_depth, remote.log_initiator_depth),
      .log_initiator_depth = std::min(local.log_initiator_depth, remote.log_responder_depth),
      .ack_timeout = settings.ack_timeout,
      .retry_count = settings.retry_count};
  if (on_ethernet(local)) {
    const nic::Capabilities& most = device.capabilities();
    path.udp_source_port =
        udp_source_port(local.qpn, remote.qpn, most.min_udp_port, most.max_udp_port);
  } else {
    path.dlid = destination_lid(local, remote);
  }
  path.global = global(local, remote);
  if (path.global) {
    path.source_gid = static_cast<uint8_t>(device.gid().index);
    path.remote_gid = remote.gid;
    path.hop_limit = kHopLimit;
    path.traffic_class = settings.traffic_class;
  }
  return path;
}

void check_ends(std::span<const Endpoint> ends, bool with_itself) {
  // Ends fall into kinds, and only those of one kind meet: PE 0's stands for it. Of the limited
  // members of a partition no two meet: the first one stands for them.
  size_t limited = 0;
  for (size_t b = 1; b < ends.size(); ++b) {
    for (const size_t a : {size_t{0}, limited}) {
      const std::string why = obstacle(ends[a], ends[b]);
      if (why.empty()) continue;
      fail(ErrorCode::kUnsupported, "PE {} ({}) and PE {} ({}) cannot be connected: {}", a,
           describe(ends[a]), b, describe(ends[b]), why);
    }
    if (limited == 0 && (ends[b].key & nic::Partition::kFullMember) == 0) limited = b;
  }
  check_masks(ends);
  for (size_t pe = 0; with_itself && pe < ends.size(); ++pe) {
    const std::string why = obstacle(ends[pe], ends[pe]);
    if (why.empty()) continue;
    fail(ErrorCode::kUnsupported, "PE {} ({}) cannot be connected with itself: {}", pe,
         describe(ends[pe]), why);
  }
}

uint8_t lag_port(const nic::Device& device, uint32_t pe, uint32_t queue) {
  const uint32_t ports = device.capabilities().bonded_ports;
  return ports < 2 ? uint8_t{0} : static_cast<uint8_t>((pe + queue) % ports + 1);
}

uint16_t udp_source_port(uint32_t qpn, uint32_t remote_qpn, uint16_t low, uint16_t high) {
  uint64_t mixed = uint64_t{qpn} * remote_qpn;
  mixed ^= mixed >> 20;
  mixed ^= mixed >> 40;
  const uint64_t flow = (mixed ^ (mixed >> 14 & 0x3f)) & 0x3fff;  // 20 bits folded to 14
  return static_cast<uint16_t>(low + flow % (high - low + 1u));
}

}  // namespace peal
