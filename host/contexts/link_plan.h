// SPDX-License-Identifier: Apache-2.0
//
// Faults on demand on the way to mapped peers: a plan's text, where kernels find it, and the end of
// this process where a kernel has met fault=kill.
//
//   text -> LinkFaults -> DeviceTables -> contexts made from then on: no PE is near, barriers look
//                                         up who takes part, operations meet the plan
#pragma once

#include <condition_variable>
#include <mutex>
#include <string_view>
#include <thread>
#include <vector>

#include "host/base/error.h"
#include "host/contexts/device_tables.h"

namespace peal {

/// Whose plan it is.
struct LinkEnds {
  int pe;                    // this one
  std::vector<bool> mapped;  // by PE: reached by loads and stores
};

/// Reads a plan; docs/faults.md has the grammar. Lines that name another PE by on= are checked and
/// left out. Throws std::invalid_argument naming line, word and what is accepted; takes any bytes.
LinkFaults parse_link_faults(std::string_view text, const LinkEnds& ends);

class LinkPlan {
 public:
  /// `tables` outlives it.
  LinkPlan(DeviceTables& tables, LinkEnds ends) : tables_(tables), ends_(std::move(ends)) {}
  ~LinkPlan() { watch(false); }
  LinkPlan(const LinkPlan&) = delete;
  LinkPlan& operator=(const LinkPlan&) = delete;

  /// Replaces the plan: operations count from here, links are up. For a time without kernels of
  /// this PE. Contexts made before the first plan go on without. Throws Error of that code.
  void set(std::string_view text, ErrorCode code);

 private:
  LinkFaults read(std::string_view text) const;
  void watch(bool kills);

  DeviceTables& tables_;
  LinkEnds ends_;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool ending_ = false;
  std::thread thread_;  // only while a rule kills
};

}  // namespace peal
