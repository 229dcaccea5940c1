// SPDX-License-Identifier: Apache-2.0
#include "host/nic/partition.h"

#include <fmt/format.h>

#include <cerrno>

#include "device/base/endian.h"
#include "host/base/error.h"

namespace peal::nic {
namespace {

bool full(const Partition& entry) { return (entry.key & Partition::kFullMember) != 0; }

/// "index 0: 0xffff, index 3: 0x8001", or "none".
std::string list_of(const std::vector<Partition>& table) {
  std::string text;
  for (const Partition& entry : table) {
    text += fmt::format("{}index {}: {:#06x}", text.empty() ? "" : ", ", entry.index, entry.key);
  }
  return text.empty() ? "none" : text;
}

/// The first with full membership of those that `fits` takes, else the first of those; null if it
/// takes none.
template <class Fits>
const Partition* best(const std::vector<Partition>& table, Fits fits) {
  const Partition* limited = nullptr;
  for (const Partition& entry : table) {
    if (!fits(entry)) continue;
    if (full(entry)) return &entry;
    if (limited == nullptr) limited = &entry;
  }
  return limited;
}

Partition on_ethernet(const std::string& nic, const PortAttributes& port, PathSettings& settings) {
  if (settings.partition != PathSettings::kBest) {
    fail(ErrorCode::kConfiguration,
         "PEAL_PKEY={:#x}: {} port {} is on Ethernet, which has no partitions; leave it unset",
         settings.partition, nic, port.number);
  }
  if (settings.partition_index > 0) {
    settings.ignored.push_back(
        fmt::format("index {} of a partition key is none for {} port {}, which is on Ethernet; "
                    "NCCL_IB_PKEY is not followed",
                    settings.partition_index, nic, port.number));
  }
  return {};
}

}  // namespace

std::vector<Partition> read_partitions(const VerbsLibrary& library, ibv_context* context,
                                       const std::string& nic, const PortAttributes& port) {
  std::vector<Partition> table;
  if (port.link_layer == LinkLayer::kEthernet) return table;
  for (uint16_t index = 0; index < port.keys; ++index) {
    Be16 key;
    if (library.ibv.query_pkey(context, port.number, index, &key.raw) != 0) {
      fail_errno(errno, fmt::format("ibv_query_pkey({}, port {}, {})", nic, port.number, index));
    }
    if (key.host() != 0) table.push_back({.index = index, .key = key.host()});
  }
  return table;
}

Partition choose_partition(const std::string& nic, const PortAttributes& port,
                           const std::vector<Partition>& table, PathSettings& settings) {
  if (port.link_layer == LinkLayer::kEthernet) return on_ethernet(nic, port, settings);
  if (settings.partition != PathSettings::kBest) {
    const auto named = [&settings](const Partition& entry) {
      return ((entry.key ^ settings.partition) & ~Partition::kFullMember & 0xffff) == 0;
    };
    if (const Partition* const entry = best(table, named)) return *entry;
    fail(ErrorCode::kConfiguration,
         "PEAL_PKEY={:#x}: {} port {} is no member of that partition; it has {}; set PEAL_PKEY to "
         "one of these keys or to auto",
         settings.partition, nic, port.number, list_of(table));
  }
  if (settings.partition_index != PathSettings::kBest) {
    const auto named = [&settings](const Partition& entry) {
      return entry.index == settings.partition_index;
    };
    if (const Partition* const entry = best(table, named)) return *entry;
    settings.ignored.push_back(
        fmt::format("there is no partition key at index {} of {} port {}, it has {}; NCCL_IB_PKEY "
                    "is not followed",
                    settings.partition_index, nic, port.number, list_of(table)));
  }
  if (const Partition* const entry = best(table, [](const Partition&) { return true; })) {
    return *entry;
  }
  fail(ErrorCode::kUnsupported,
       "{} port {} is in no partition (all its partition keys are 0): the subnet manager gives "
       "them, ask who runs it",
       nic, port.number);
}

}  // namespace peal::nic
