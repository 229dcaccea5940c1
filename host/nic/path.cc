// SPDX-License-Identifier: Apache-2.0
#include "host/nic/path.h"

#include <fmt/format.h>

#include <charconv>
#include <optional>

namespace peal::nic {
namespace {

/// A setting that NCCL has too.
struct Shared {
  const char* name;      // for people
  const char* variable;  // NCCL's
  const std::string& text;
  int low;
  int high;
};

std::optional<int> number(const std::string& text) {
  int value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  const bool whole = error == std::errc() && end == text.data() + text.size();
  return whole ? std::optional(value) : std::nullopt;
}

/// What NCCL's variable says; `otherwise` if it is not set, or is no value here.
int of_nccl(const Shared& setting, int otherwise, PathSettings& settings) {
  if (setting.text.empty()) return otherwise;
  const std::optional<int> value = number(setting.text);
  if (value && *value == -1) return otherwise;  // "not set", as NCCL spells it
  if (!value || *value < setting.low || *value > setting.high) {
    settings.ignored.push_back(fmt::format("{}=\"{}\" is no {} ({} to {}) and is not followed",
                                           setting.variable, setting.text, setting.name,
                                           setting.low, setting.high));
    return otherwise;
  }
  settings.taken.push_back(fmt::format("{} {} ({})", setting.name, *value, setting.variable));
  return *value;
}

}  // namespace

const char* to_string(LinkLayer layer) {
  return layer == LinkLayer::kEthernet ? "Ethernet" : "InfiniBand";
}

std::string describe_key(uint16_t key) { return fmt::format("partition key {:#06x}", key); }

PathSettings PathSettings::from(const Config& config, bool software) {
  PathSettings settings;
  const auto choose = [&](int own, const Shared& setting, int otherwise) {
    if (own >= 0) return own;
    return software ? otherwise : of_nccl(setting, otherwise, settings);
  };
  const auto choose_byte = [&](int own, const Shared& setting, uint8_t otherwise) {
    return static_cast<uint8_t>(choose(own, setting, otherwise));
  };
  settings.gid_binds = config.gid_index >= 0;
  settings.service_level_binds = config.service_level >= 0;
  settings.gid_index =
      choose(config.gid_index, {"GID index", "NCCL_IB_GID_INDEX", config.nccl_ib_gid_index, 0, 255},
             kBest);
  settings.partition = config.pkey;
  if (config.pkey < 0) {
    settings.partition_index = choose(
        kBest, {"index of a partition key", "NCCL_IB_PKEY", config.nccl_ib_pkey, 0, 0xffff}, kBest);
  }
  const int traffic_class =
      choose(config.traffic_class, {"traffic class", "NCCL_IB_TC", config.nccl_ib_tc, 0, 255}, -1);
  settings.traffic_class_open = traffic_class < 0;
  if (traffic_class >= 0) settings.traffic_class = static_cast<uint8_t>(traffic_class);
  settings.service_level =
      choose_byte(config.service_level, {"service level", "NCCL_IB_SL", config.nccl_ib_sl, 0, 15},
                  settings.service_level);
  settings.ack_timeout =
      choose_byte(config.ack_timeout, {"timeout", "NCCL_IB_TIMEOUT", config.nccl_ib_timeout, 1, 31},
                  settings.ack_timeout);
  settings.retry_count = choose_byte(
      config.retry_count, {"retry count", "NCCL_IB_RETRY_CNT", config.nccl_ib_retry_count, 0, 7},
      settings.retry_count);
  for (uint8_t code = 1; code <= 5; ++code) {
    if (mtu_bytes(code) == static_cast<uint32_t>(config.mtu)) settings.largest_mtu = code;
  }
  return settings;
}

}  // namespace peal::nic
