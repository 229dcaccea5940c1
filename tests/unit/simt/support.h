// SPDX-License-Identifier: Apache-2.0
//
// Two sentences that simt's tests say often: run this grid; what does it complain of?
#pragma once

#include <functional>
#include <string>
#include <utility>

#include "simt/lanes/launch.h"

namespace peal::simt {

inline void run(const LaneGrid& grid, std::function<void()> lane_body) {
  launch(grid, std::move(lane_body)).wait();
}

/// The message of the Error that this grid ends with; empty when it does not.
inline std::string error_of(const LaneGrid& grid, std::function<void()> lane_body) {
  try {
    run(grid, std::move(lane_body));
  } catch (const LaneError& error) {
    return error.what();
  }
  return {};
}

/// Sets limits for a scope.
class LimitsFor {
 public:
  explicit LimitsFor(const Limits& limits) : before_(simt::limits()) { set_limits(limits); }
  ~LimitsFor() { set_limits(before_); }
  LimitsFor(const LimitsFor&) = delete;
  LimitsFor& operator=(const LimitsFor&) = delete;

 private:
  const Limits before_;
};

/// The limits in force with another number of lanes that may be resident.
inline Limits with_lanes(unsigned lanes) {
  Limits changed = limits();
  changed.max_lanes = lanes;
  return changed;
}

/// The limits in force with another number of workers.
inline Limits with_workers(unsigned workers) {
  Limits changed = limits();
  changed.workers = workers;
  return changed;
}

}  // namespace peal::simt
