// SPDX-License-Identifier: Apache-2.0
//
// GIDs, the 128-bit addresses of ports, and which entry of a port's table a connection uses. On
// Ethernet (RoCE) an entry is an address of the network device, once for each version of RoCE; on
// InfiniBand it is subnet prefix and port number.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace peal::nic {

struct Gid {
  std::array<uint8_t, 16> bytes{};  // as on the wire

  /// "fe80:0000:..." or any other spelling of an IPv6 address; nothing if `text` is none.
  static std::optional<Gid> parse(std::string_view text);

  bool empty() const;       // an unused entry: all zero
  bool link_local() const;  // fe80::/10
  bool ipv4() const;        // ::ffff:10.0.0.1
  /// What routers between InfiniBand subnets forward by, in site-local GIDs (fec0::/10); 0 = none.
  uint16_t forwardable_lid() const;
  /// InfiniBand: the part of the prefix that names the subnet, beside a forwardable LID.
  uint16_t subnet() const;
  std::string text() const;  // as IPv6 addresses are written, RFC 5952

  friend bool operator==(const Gid&, const Gid&) = default;
};

enum class GidType : uint8_t { kInfiniBand, kRoceV1, kRoceV2 };
const char* to_string(GidType type);
/// As sysfs spells it for a port on Ethernet; nothing if `text` is none.
std::optional<GidType> roce_type(std::string_view text);

struct GidEntry {
  uint32_t index = 0;
  GidType type = GidType::kInfiniBand;
  Gid gid{};
};

/// "index 3: RoCE v2 ::ffff:10.0.0.1"; of several, in the order of the table, "none" if it is
/// empty.
std::string describe(const GidEntry& entry);
std::string describe(const std::vector<GidEntry>& table);

/// What connections over Ethernet use unless somebody says otherwise: RoCE v2, since v1 does not
/// pass routers; of its entries an IPv4 address, then a global IPv6 address, then a link-local one,
/// the first of its kind. IPv4 first because NCCL does the same, and what clusters route is what
/// their users' NCCL jobs need. Null when there is no RoCE v2 entry.
const GidEntry* best_roce_gid(const std::vector<GidEntry>& table);

/// The same for InfiniBand: one with a forwardable LID, else the first. Null in an empty table.
const GidEntry* best_infiniband_gid(const std::vector<GidEntry>& table);

}  // namespace peal::nic
