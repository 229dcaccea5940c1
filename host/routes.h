// SPDX-License-Identifier: Apache-2.0
//
// Which transport carries data to which PE, chosen once at start-up from what was asked
// (PEAL_TRANSPORT) and what can be reached; and why, in words.
#pragma once

#include <string>
#include <vector>

#include "host/base/config.h"
#include "host/bootstrap.h"

namespace peal {

enum class Route { kP2p, kIbgda };

/// What the choice is made from.
struct RouteOptions {
  TransportKind asked = TransportKind::kAuto;
  Target target = Target::kCpu;

  /// P2P is to be tried at all. On a CPU `auto` takes the NIC: that is what peal is developed
  /// against there.
  bool try_p2p() const {
    return asked == TransportKind::kP2p ||
           (asked == TransportKind::kAuto && target == Target::kGpu);
  }
};

/// The routes of one PE.
class Routes {
 public:
  /// Collective. `direct` by PE: its heap is mapped here; `how` says in which way or why not.
  /// Throws kUnsupported, on all PEs, when a PE has a peer that no transport reaches.
  Routes(Bootstrap& bootstrap, const RouteOptions& options, const std::vector<std::byte*>& direct,
         const std::vector<std::string>& how);

  Route to(int pe) const { return routes_[static_cast<size_t>(pe)]; }
  /// Some PE of the job has a peer that it reaches through the NIC only: all need one.
  bool needs_nic() const { return needs_nic_; }
  /// "p2p", "ibgda", "p2p+ibgda": this PE's.
  const char* name() const;
  /// One line for each peer, or several with the same answer: "PEs 1-3: p2p (same process)".
  std::string describe() const;

 private:
  std::vector<Route> routes_;
  std::vector<std::string> reasons_;
  bool needs_nic_ = false;
};

}  // namespace peal
