// SPDX-License-Identifier: Apache-2.0
//
// The choice is local, its consequences are not: a NIC on one PE needs one on all, and no PE may
// wait for one that gave up. One exchange settles both.
#include "host/transport/routes.h"

#include <algorithm>
#include <cstdint>

#include "base/ranges.h"
#include "host/base/error.h"
#include "host/job/together.h"

namespace peal {
namespace {

const char* name_of(Route route) {
  constexpr const char* kNames[] = {"p2p", "ibgda", "proxy"};
  return kNames[static_cast<size_t>(route)];
}

// What a PE found, as it travels.
struct Finding {
  int32_t needs_nic;
  int32_t must_settle;
  int32_t unordered;
};

// Why P2P is not even tried.
std::string not_tried(const RouteOptions& options) {
  if (options.asked == TransportKind::kAuto) return "PEAL_TRANSPORT=auto, kernels on a CPU";
  return std::string("PEAL_TRANSPORT=") + name_of(options.by_nic());
}

}  // namespace

Reachable::Reachable(Bootstrap& bootstrap, const RouteOptions& options,
                     const std::vector<std::byte*>& direct, const std::vector<std::string>& how) {
  const std::vector<Finding> all = gather_together(bootstrap, [&] {
    const int32_t unordered = options.orders_writes ? 0 : 1;
    Finding mine{0, unordered, unordered};
    for (size_t pe = 0; pe < static_cast<size_t>(bootstrap.size()); ++pe) {
      directly_.push_back(options.try_p2p() && direct[pe] != nullptr);
      reasons_.push_back(options.try_p2p() ? how[pe] : not_tried(options));
      if (directly_.back()) {
        if (static_cast<int>(pe) != bootstrap.rank()) mine.must_settle = 1;
        continue;
      }
      mine.needs_nic = 1;
      if (options.asked != TransportKind::kP2p) continue;
      fail(ErrorCode::kUnsupported,
           "no transport reaches PE {}: p2p: {}; ibgda: excluded by PEAL_TRANSPORT=p2p; set "
           "PEAL_TRANSPORT=ibgda, proxy or auto",
           pe, reasons_[pe]);
    }
    return mine;
  });
  for (const Finding& finding : all) {
    needs_nic_ |= finding.needs_nic != 0;
    must_settle_ |= finding.must_settle != 0;
    unordered_ |= finding.unordered != 0;
  }
}

Routes::Routes(const Reachable& reachable, const RouteOptions& options)
    : reasons_(reachable.reasons()), by_nic_(options.by_nic()) {
  for (size_t pe = 0; pe < reasons_.size(); ++pe) {
    const bool direct = reachable.directly()[pe];
    routes_.push_back(direct ? Route::kP2p : by_nic_);
    if (!direct && by_nic_ == Route::kProxy && !options.why_proxy.empty()) {
      reasons_[pe] += "; " + options.why_proxy;
    }
  }
}

const char* Routes::name() const {
  const bool p2p = std::ranges::find(routes_, Route::kP2p) != routes_.end();
  const bool nic = std::ranges::find(routes_, by_nic_) != routes_.end();
  if (p2p && nic) return by_nic_ == Route::kProxy ? "p2p+proxy" : "p2p+ibgda";
  return name_of(p2p ? Route::kP2p : by_nic_);
}

std::string Routes::describe() const {
  std::string lines;
  const auto alike = [this](size_t a, size_t b) {
    return routes_[a] == routes_[b] && reasons_[a] == reasons_[b];
  };
  for_each_run(routes_.size(), alike, [&](size_t first, size_t last) {
    lines += fmt::format("{}: {} ({})\n", name_pes(first, last), name_of(routes_[first]),
                         reasons_[first]);
  });
  return lines;
}

}  // namespace peal
