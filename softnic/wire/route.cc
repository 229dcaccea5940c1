// SPDX-License-Identifier: Apache-2.0
//
// What drops a packet on its way, for InfiniBand and for RoCE.
#include "softnic/wire/route.h"

#include <algorithm>
#include <cstring>

namespace peal::softnic {

namespace {

constexpr uint16_t kLastUnicastLid = 0xbfff;

bool holds(const std::vector<GidTableEntry>& table, const uint8_t (&gid)[16], Network network) {
  return std::any_of(table.begin(), table.end(), [&](const GidTableEntry& entry) {
    return entry.used && entry.network == network &&
           std::memcmp(entry.raw.data(), gid, sizeof gid) == 0;
  });
}

roce::Address address_in(const uint8_t (&gid)[16]) {
  roce::Address address;
  std::copy(std::begin(gid), std::end(gid), address.byte.begin());
  return address;
}

uint16_t lid_behind_mac(const AddressPath& path) {
  MacAddress mac;
  std::copy(std::begin(path.mac), std::end(path.mac), mac.begin());
  return lid_of(mac);
}

}  // namespace

const char* Router::fault_of(const AddressPath& path) const {
  if (path.port < 1 || path.port > device_.ports) return "no such port";
  if (path.service_level > 15) return "service level beyond 15";
  const bool names_gid = path.global || device_.ethernet;
  if (names_gid && (path.source_gid >= gids_.size() || !gids_[path.source_gid].used)) {
    return "no GID at that index of the port";
  }
  if (!device_.ethernet) {
    return path.lid == 0 || path.lid > kLastUnicastLid ? "no unicast LID" : nullptr;
  }
  const bool over_udp = gids_[path.source_gid].network == Network::kRoceV2;
  if (over_udp && (path.udp_port < device_.min_udp_port || path.udp_port > device_.max_udp_port)) {
    return "UDP source port outside of what QUERY_HCA_CAP says";
  }
  return nullptr;
}

void Router::refuse_stranger(const AddressPath& path) const {
  fabric_.refuse_stranger(device_.ethernet ? lid_behind_mac(path) : path.lid);
}

PacketPath Router::route(const AddressPath& path) const {
  PacketPath route = device_.ethernet ? ethernet(path) : infiniband(path);
  if (path.port != device_.port || !device_.active()) route.lid = 0;
  return route;
}

PacketPath Router::infiniband(const AddressPath& path) const {
  const Peer peer = fabric_.find(path.lid);
  if (!peer.found()) return {.lid = path.global ? uint16_t{0} : path.lid};
  const PortNotice port = Fabric::notice_of(peer);
  if (!port.active || port.ethernet) return {};
  if (path.global && !holds(port.gids, path.gid, Network::kInfiniBand)) return {};
  // Only a router knows another subnet: it wants a GRH, and counts hops down.
  const bool routed = path.global && path.hop_limit > 1;
  if (port.subnet != device_.subnet && !routed) return {};
  return {.lid = path.lid};
}

PacketPath Router::ethernet(const AddressPath& path) const {
  const GidTableEntry& source = gids_[path.source_gid];
  PacketPath route{.network = source.network};
  const uint16_t lid = lid_behind_mac(path);
  if (roce::is_remote(lid)) return beyond(path);
  const PortNotice port = Fabric::notice_of(fabric_.find(lid));
  if (!port.active || !port.ethernet || !holds(port.gids, path.gid, source.network)) return route;
  if (source.network == Network::kRoceV2 &&
      (path.hop_limit == 0 || is_ipv4(source.raw) != address_in(path.gid).ipv4())) {
    return route;
  }
  route.lid = lid;
  return route;
}

/// The path by UDP, which is IPv4 at both ends, or IPv6.
PacketPath Router::beyond(const AddressPath& path) const {
  const GidTableEntry& source = gids_[path.source_gid];
  PacketPath route{.network = source.network};
  const uint16_t lid = lid_behind_mac(path);
  const auto address = remotes_ == nullptr ? std::nullopt : remotes_->address_of(lid);
  const bool there = address && *address == address_in(path.gid);
  const roce::Address from(source.raw);
  const bool sends = source.network == Network::kRoceV2 && from.of_one_host() && there &&
                     from.ipv4() == address->ipv4();
  if (sends && path.hop_limit != 0) route.lid = lid;
  return route;
}

PacketPath Router::way(const AddressVector& vector, uint8_t port) const {
  const uint32_t lid_and_level = vector.head.rate_sl_mlid_rlid.host();
  const uint32_t grh = vector.route.grh_gid_flow.host();
  const uint32_t mac_and_class = vector.route.rmac_15_0_tclass_hop.host();
  AddressPath path;
  path.port = port;
  path.lid = path.udp_port = static_cast<uint16_t>(lid_and_level);
  path.service_level = static_cast<uint8_t>(lid_and_level >> 24 & 0xf);
  path.global = has_grh(vector);
  path.source_gid = static_cast<uint8_t>(grh >> 20);
  path.flow_label = grh & 0xfffff;
  path.traffic_class = static_cast<uint8_t>(mac_and_class >> 8);
  path.hop_limit = static_cast<uint8_t>(mac_and_class);
  const MacAddress mac = mac_of(lid_behind_mac(vector));
  std::copy(mac.begin(), mac.end(), path.mac);
  std::copy(std::begin(vector.route.rgid), std::end(vector.route.rgid), path.gid);
  if (fault_of(path) != nullptr) return {};
  PacketPath way = route(path);
  const GidTableEntry& source = gids_[path.source_gid];
  if (way.network == Network::kRoceV2)
    way.headers = is_ipv4(source.raw) ? kHeadersIpv4 : kHeadersIpv6;
  std::copy(source.raw.begin(), source.raw.end(), way.source);
  return way;
}

Network Router::network_of(uint8_t source_gid) const {
  if (!device_.ethernet) return Network::kInfiniBand;
  const bool used = source_gid < gids_.size() && gids_[source_gid].used;
  return used ? gids_[source_gid].network : Network::kRoceV2;
}

std::optional<MacAddress> Router::resolve(const uint8_t (&gid)[16], Network network) const {
  for (const uint16_t lid : fabric_.members()) {
    const PortNotice port = Fabric::notice_of(fabric_.find(lid));
    if (port.ethernet && holds(port.gids, gid, network)) return mac_of(lid);
  }
  if (remotes_ != nullptr && network == Network::kRoceV2) {
    const uint16_t lid = remotes_->lid_for(address_in(gid));
    if (lid != 0) return mac_of(lid);
  }
  // The GIDs of a NIC whose files are in another format cannot be read. Those that it makes up end
  // with its LID.
  fabric_.refuse_stranger(static_cast<uint16_t>(gid[14] << 8 | gid[15]));
  return std::nullopt;
}

}  // namespace peal::softnic
