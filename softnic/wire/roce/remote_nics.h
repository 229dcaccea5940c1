// SPDX-License-Identifier: Apache-2.0
//
// NICs beyond this host's fabric. The engine knows its peers by LID, so that each address gets
// one, above those of the fabric: a number of this process's own, which no packet carries.
#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <vector>

#include "softnic/wire/roce/address.h"

namespace peal::softnic::roce {

/// True for a LID that only RemoteNics gives.
constexpr bool is_remote(uint16_t lid) { return lid >= 0x4000 && lid <= 0xbfff; }

/// Any thread may call.
class RemoteNics {
 public:
  /// Those that a NIC with this address reaches: of IPv4 or of IPv6, as it is itself.
  explicit RemoteNics(const Address& own) : own_(own) {}

  /// The LID of that address, from the first time it is asked for on; 0 when there are no more, and
  /// for what is no address of one host.
  uint16_t lid_for(const Address& address) {
    if (!address.of_one_host() || address.ipv4() != own_.ipv4()) return 0;
    const std::lock_guard lock(mutex_);
    if (const auto known = lids_.find(address); known != lids_.end()) return known->second;
    if (addresses_.size() == kMost) return 0;
    const auto lid = static_cast<uint16_t>(kFirst + addresses_.size());
    lids_.emplace(address, lid);
    addresses_.push_back(address);
    return lid;
  }
  /// 0 for an address that nobody here has asked for: no queue pair is connected to it.
  uint16_t known_lid(const Address& address) const {
    const std::lock_guard lock(mutex_);
    const auto known = lids_.find(address);
    return known == lids_.end() ? uint16_t{0} : known->second;
  }
  std::optional<Address> address_of(uint16_t lid) const {
    const std::lock_guard lock(mutex_);
    if (lid < kFirst || lid - kFirst >= addresses_.size()) return std::nullopt;
    return addresses_[lid - kFirst];
  }

 private:
  static constexpr size_t kFirst = 0x4000;
  static constexpr size_t kMost = 0x8000;
  static_assert(is_remote(kFirst) && is_remote(kFirst + kMost - 1));

  mutable std::mutex mutex_;
  const Address own_;
  std::map<Address, uint16_t> lids_;
  std::vector<Address> addresses_;
};

}  // namespace peal::softnic::roce
