// SPDX-License-Identifier: Apache-2.0
//
// NICs beyond this host's fabric. The engine knows its peers by LID, so that each IPv4 address gets
// one, above those of the fabric: a number of this process's own, which no packet carries.
#pragma once

#include <cstdint>
#include <mutex>
#include <optional>
#include <unordered_map>
#include <vector>

#include "softnic/wire/roce/icrc.h"

namespace peal::softnic::roce {

/// True for a LID that only RemoteNics gives.
constexpr bool is_remote(uint16_t lid) { return lid >= 0x4000 && lid <= 0xbfff; }

/// Any thread may call.
class RemoteNics {
 public:
  /// The LID of that address, from the first time it is asked for on; 0 when there are no more, and
  /// for what is no address of one host.
  uint16_t lid_for(const Ipv4& address) {
    if (address[0] == 0 || address[0] >= 224) return 0;
    const std::lock_guard lock(mutex_);
    if (const auto known = lids_.find(number(address)); known != lids_.end()) return known->second;
    if (addresses_.size() == kMost) return 0;
    const auto lid = static_cast<uint16_t>(kFirst + addresses_.size());
    lids_.emplace(number(address), lid);
    addresses_.push_back(address);
    return lid;
  }
  /// 0 for an address that nobody here has asked for: no queue pair is connected to it.
  uint16_t known_lid(const Ipv4& address) const {
    const std::lock_guard lock(mutex_);
    const auto known = lids_.find(number(address));
    return known == lids_.end() ? uint16_t{0} : known->second;
  }
  std::optional<Ipv4> address_of(uint16_t lid) const {
    const std::lock_guard lock(mutex_);
    if (lid < kFirst || lid - kFirst >= addresses_.size()) return std::nullopt;
    return addresses_[lid - kFirst];
  }

 private:
  static constexpr size_t kFirst = 0x4000;
  static constexpr size_t kMost = 0x8000;
  static_assert(is_remote(kFirst) && is_remote(kFirst + kMost - 1));

  static uint32_t number(const Ipv4& address) {
    return uint32_t{address[0]} << 24 | uint32_t{address[1]} << 16 | uint32_t{address[2]} << 8 |
           address[3];
  }

  mutable std::mutex mutex_;
  std::unordered_map<uint32_t, uint16_t> lids_;
  std::vector<Ipv4> addresses_;
};

}  // namespace peal::softnic::roce
