// SPDX-License-Identifier: Apache-2.0
#include "host/nic/port.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <optional>
#include <string_view>
#include <utility>

#include "base/files.h"
#include "host/base/error.h"

namespace peal::nic {
namespace {

namespace fs = std::filesystem;

// Codes of the InfiniBand specification, for Ethernet too. What is faster than NDR does not fit
// these 8 bits.
uint32_t gbits_of(const ibv_port_attr& port) {
  constexpr std::pair<uint8_t, uint32_t> kLanes[] = {{1, 1}, {2, 4}, {4, 8}, {8, 12}, {16, 2}};
  constexpr std::pair<uint8_t, double> kSpeeds[] = {{1, 2.5}, {2, 5},   {4, 10},  {8, 10},
                                                    {16, 14}, {32, 25}, {64, 50}, {128, 100}};
  const auto lanes =
      std::ranges::find(kLanes, port.active_width, [](auto& one) { return one.first; });
  const auto speed =
      std::ranges::find(kSpeeds, port.active_speed, [](auto& one) { return one.first; });
  if (lanes == std::end(kLanes) || speed == std::end(kSpeeds)) return 0;
  return static_cast<uint32_t>(lanes->second * speed->second);
}

/// The type of an entry in use; none if it cannot be told.
std::optional<GidType> type_of(uint32_t verbs_type, LinkLayer link_layer) {
  if (link_layer == LinkLayer::kInfiniBand) return GidType::kInfiniBand;
  if (verbs_type == IBV_GID_TYPE_ROCE_V1) return GidType::kRoceV1;
  if (verbs_type == IBV_GID_TYPE_ROCE_V2) return GidType::kRoceV2;
  return std::nullopt;
}

/// The same as the kernel's text of it.
std::optional<GidType> type_in_sysfs(const std::string& nic, const PortAttributes& port,
                                     uint32_t index, const fs::path& root) {
  if (port.link_layer == LinkLayer::kInfiniBand) return GidType::kInfiniBand;
  return roce_type(text_of(root / fmt::format("sys/class/infiniband/{}/ports/{}/gid_attrs/types/{}",
                                              nic, port.number, index)));
}

/// Entry `index`, if it is in use.
std::optional<GidEntry> read_gid(const VerbsLibrary& library, ibv_context* context,
                                 const std::string& nic, const PortAttributes& port, uint32_t index,
                                 const fs::path& root) {
  GidEntry entry{.index = index};
  std::optional<GidType> type;
  if (library.ibv.query_gid_ex) {
    ibv_gid_entry answer{};
    const int error =
        library.ibv.query_gid_ex(context, port.number, index, &answer, 0, sizeof answer);
    if (error == ENODATA) return std::nullopt;
    if (error != 0) {
      fail_errno(error, fmt::format("ibv_query_gid_ex({}, port {}, {})", nic, port.number, index));
    }
    std::memcpy(entry.gid.bytes.data(), answer.gid.raw, entry.gid.bytes.size());
    type = type_of(answer.gid_type, port.link_layer);
  } else {
    ibv_gid gid{};
    if (library.ibv.query_gid(context, port.number, static_cast<int>(index), &gid) != 0) {
      fail_errno(errno, fmt::format("ibv_query_gid({}, port {}, {})", nic, port.number, index));
    }
    std::memcpy(entry.gid.bytes.data(), gid.raw, entry.gid.bytes.size());
    if (!entry.gid.empty()) type = type_in_sysfs(nic, port, index, root);
  }
  if (entry.gid.empty() || !type) return std::nullopt;
  entry.type = *type;
  return entry;
}

/// Why connections cannot use the entry that was asked for; empty if they can.
std::string objection(const PortAttributes& port, const GidEntry* entry) {
  if (!entry) return "there is no such entry";
  if (port.link_layer == LinkLayer::kEthernet && entry->type != GidType::kRoceV2) {
    return "it is not RoCE v2";
  }
  return "";
}

}  // namespace

PortAttributes query_port(const VerbsLibrary& library, ibv_context* context, const std::string& nic,
                          uint8_t number) {
  ibv_port_attr answer{};
  // The exported function fills in the first 48 bytes: all that is read here.
  auto* const compatible = reinterpret_cast<_compat_ibv_port_attr*>(&answer);
  if (const int error = library.ibv.query_port(context, number, compatible); error != 0) {
    fail_errno(error, fmt::format("ibv_query_port({}, {})", nic, number));
  }
  const bool ethernet = answer.link_layer == IBV_LINK_LAYER_ETHERNET;
  return {.number = number,
          .active = answer.state == IBV_PORT_ACTIVE,
          .state = static_cast<int>(answer.state),
          .link_layer = ethernet ? LinkLayer::kEthernet : LinkLayer::kInfiniBand,
          .lid = answer.lid,
          .mtu = static_cast<uint8_t>(answer.active_mtu),
          .gbits = gbits_of(answer),
          .global_only = (answer.flags & IBV_QPF_GRH_REQUIRED) != 0,
          .gids = static_cast<uint32_t>(std::max(answer.gid_tbl_len, 0)),
          .keys = answer.pkey_tbl_len};
}

PortAttributes choose_port(const VerbsLibrary& library, ibv_context* context,
                           const std::string& nic, uint8_t count, const HcaList& list) {
  std::optional<PortAttributes> chosen;
  for (int number = 1; number <= count; ++number) {
    if (!list.allows(nic, number)) continue;
    const PortAttributes port = query_port(library, context, nic, static_cast<uint8_t>(number));
    if (!chosen || (!chosen->active && port.active)) chosen = port;
  }
  if (!chosen) {
    fail(ErrorCode::kUnsupported, "{} allows no port of {}, which has {}; PEAL_HCA chooses one",
         list.description(), nic, count == 1 ? "one" : fmt::format("ports 1 to {}", count));
  }
  return *chosen;
}

std::vector<GidEntry> read_gids(const VerbsLibrary& library, ibv_context* context,
                                const std::string& nic, const PortAttributes& port,
                                const fs::path& root) {
  std::vector<GidEntry> table;
  for (uint32_t index = 0; index < port.gids; ++index) {
    if (auto entry = read_gid(library, context, nic, port, index, root)) table.push_back(*entry);
  }
  return table;
}

void follow_traffic_class(const std::string& nic, const PortAttributes& port,
                          PathSettings& settings, const fs::path& root) {
  if (port.link_layer != LinkLayer::kEthernet || !settings.traffic_class_open) return;
  const fs::path path =
      root / fmt::format("sys/class/infiniband/{}/tc/{}/traffic_class", nic, port.number);
  // mlx5 drivers of OFED and DOCA have it; lines of rules may follow the port's.
  const std::string lines = text_of(path);
  const std::string text = lines.substr(0, lines.find('\n'));
  constexpr std::string_view kPrefix = "Global tclass=";
  if (!text.starts_with(kPrefix)) return;  // no port-wide one
  const char* const end = text.data() + text.size();
  int value = -1;
  const auto [rest, error] = std::from_chars(text.data() + kPrefix.size(), end, value);
  if (error != std::errc() || rest != end || value < 0 || value > 255) {
    settings.ignored.push_back(
        fmt::format("{} says \"{}\", which is no traffic class (0 to 255)", path.string(), text));
    return;
  }
  settings.traffic_class = static_cast<uint8_t>(value);
  settings.taken.push_back(fmt::format("traffic class {} ({})", value, path.string()));
}

void check_service_level(const std::string& nic, const PortAttributes& port,
                         PathSettings& settings) {
  constexpr uint8_t kHighestPriority = 7;
  if (port.link_layer != LinkLayer::kEthernet || settings.service_level <= kHighestPriority) return;
  const std::string what =
      fmt::format("service level {} is none for {} port {}: on Ethernet it is a priority, 0 to {}",
                  settings.service_level, nic, port.number, kHighestPriority);
  if (settings.service_level_binds) {
    fail(ErrorCode::kConfiguration, "{} (PEAL_SERVICE_LEVEL)", what);
  }
  settings.ignored.push_back(what + "; NCCL_IB_SL is not followed");
  settings.service_level = 0;
}

GidEntry choose_gid(const std::string& nic, const PortAttributes& port,
                    const std::vector<GidEntry>& table, PathSettings& settings) {
  if (settings.gid_index != PathSettings::kBest) {
    const auto found = std::find_if(table.begin(), table.end(), [&](const GidEntry& entry) {
      return entry.index == static_cast<uint32_t>(settings.gid_index);
    });
    const GidEntry* const entry = found == table.end() ? nullptr : &*found;
    const std::string why_not = objection(port, entry);
    if (why_not.empty()) return *entry;
    const std::string what =
        fmt::format("GID index {} of {} port {} cannot be used, {}; it has {}", settings.gid_index,
                    nic, port.number, why_not, describe(table));
    if (settings.gid_binds) {
      fail(ErrorCode::kConfiguration, "{}; set PEAL_GID_INDEX to one of them or to auto", what);
    }
    settings.ignored.push_back(what + "; NCCL_IB_GID_INDEX is not followed");
    settings.gid_index = PathSettings::kBest;
  }
  const bool ethernet = port.link_layer == LinkLayer::kEthernet;
  if (const GidEntry* best = ethernet ? best_roce_gid(table) : best_infiniband_gid(table)) {
    return *best;
  }
  fail(ErrorCode::kUnsupported, "{} port {} has no GID that connections could use{}; it has {}. {}",
       nic, port.number, ethernet ? ", which is one of RoCE v2" : "", describe(table),
       ethernet ? "Give its network device an address, or choose another NIC by PEAL_HCA"
                : "Is a subnet manager running?");
}

}  // namespace peal::nic
