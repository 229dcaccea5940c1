// SPDX-License-Identifier: Apache-2.0
//
// Which transport carries data to which PE, chosen once at start-up from what was asked
// (PEAL_TRANSPORT) and what can be reached; and why, in words.
//
//   Reachable: who is reached directly | NICs are opened if any PE needs one | Routes
#pragma once

#include <string>
#include <vector>

#include "host/base/config.h"
#include "host/bootstrap.h"

namespace peal {

enum class Route { kP2p, kIbgda, kProxy };

/// The choice is made from these.
struct RouteOptions {
  TransportKind asked = TransportKind::kAuto;
  Target target = Target::kCpu;

  /// P2P is to be tried at all. On a CPU `auto` takes the NIC: that is what peal is developed
  /// against there.
  bool try_p2p() const {
    return asked == TransportKind::kP2p ||
           (asked == TransportKind::kAuto && target == Target::kGpu);
  }

  /// Why kernels cannot drive the NIC, if they cannot: `auto` takes the proxy then.
  std::string why_proxy = {};

  /// This PE's kernels see what NICs write into its memory in the order written (Gpu).
  bool orders_writes = true;

  /// Who carries work requests to the NIC, where one is needed: kernels, or a thread of this PE.
  Route by_nic() const {
    const bool proxied =
        asked == TransportKind::kProxy || (asked == TransportKind::kAuto && !why_proxy.empty());
    return proxied ? Route::kProxy : Route::kIbgda;
  }
};

/// The PEs that one PE reaches without a NIC.
class Reachable {
 public:
  /// Collective. `direct` by PE: its heap is mapped here; `how` says in which way or why not.
  /// Throws kUnsupported, on all PEs, when a PE has a peer that no transport reaches.
  Reachable(Bootstrap& bootstrap, const RouteOptions& options,
            const std::vector<std::byte*>& direct, const std::vector<std::string>& how);

  /// Some PE of the job has a peer that it reaches through the NIC only: all need one.
  bool needs_nic() const { return needs_nic_; }
  /// There is a NIC, and what it wrote may be missing where a flag is seen: some PE's memory is
  /// mapped at another, so that flags come past its NIC, or some GPU shows writes in no order.
  /// Alike on all PEs.
  bool must_settle() const { return needs_nic_ && must_settle_; }
  /// There is a NIC, and some GPU shows writes in no order.
  bool unordered() const { return needs_nic_ && unordered_; }
  /// True for each PE that is reached without a NIC.
  const std::vector<bool>& directly() const { return directly_; }
  /// How each PE is reached without a NIC, or why it is not.
  const std::vector<std::string>& reasons() const { return reasons_; }

 private:
  std::vector<bool> directly_;
  std::vector<std::string> reasons_;
  bool needs_nic_ = false;
  bool must_settle_ = false;
  bool unordered_ = false;
};

/// The routes of one PE.
class Routes {
 public:
  /// `options.why_proxy` is what opening the NIC has found.
  Routes(const Reachable& reachable, const RouteOptions& options);

  Route to(int pe) const { return routes_[static_cast<size_t>(pe)]; }
  /// Who carries work requests to this PE's NIC. At the other end of a queue it may be another.
  Route by_nic() const { return by_nic_; }
  /// "p2p", "ibgda", "proxy", "p2p+ibgda", "p2p+proxy": this PE's.
  const char* name() const;
  /// One line for each peer, or several with the same answer: "PEs 1-3: p2p (same process)".
  std::string describe() const;

 private:
  std::vector<Route> routes_;
  std::vector<std::string> reasons_;
  Route by_nic_;
};

}  // namespace peal
