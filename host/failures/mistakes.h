// SPDX-License-Identifier: Apache-2.0
//
// Checked mode on a CPU: what kernels tell of their calls (CallHooks) while they make them, and
// what is found in that.
#pragma once

#include <cstdint>
#include <functional>
#include <mutex>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "device/context.h"
#include "host/base/log.h"
#include "host/check/order_checker.h"
#include "host/contexts/usage_text.h"

namespace peal {

/// Says each mistake once, on stderr, when it is found. Thread-safe.
class Mistakes {
 public:
  /// `alarm` is called after each that failures() has more of.
  Mistakes(PlaceOf place_of, const Log& log, std::function<void()> alarm);
  Mistakes(const Mistakes&) = delete;
  Mistakes& operator=(const Mistakes&) = delete;

  /// Has the checker told of calls; before kernels run.
  void order(checking::OrderChecker* order) { order_ = order; }

  /// For DeviceTables.
  const CallHooks* hooks() const { return &hooks_; }

  /// Keeps a mistake in the order of accesses, from whoever found it: "PE 1: kernel ..." of this
  /// PE.
  void tell(const std::string& sentence);
  /// What was told so. Mistakes of single calls are usage errors of their contexts.
  std::vector<Failure> failures() const;
  void forget();

 private:
  void found(const UsageError& error, int pe);

  checking::OrderChecker* order_ = nullptr;
  const PlaceOf place_of_;
  const Log log_;
  const std::function<void()> alarm_;
  const CallHooks hooks_;
  mutable std::mutex mutex_;  // guards what follows
  std::set<std::tuple<uint32_t, Call, CallSide, uint64_t>>
      told_;  // mistake, range of a call, place
  std::vector<Failure> failures_;
};

}  // namespace peal
