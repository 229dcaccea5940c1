// SPDX-License-Identifier: Apache-2.0
//
// Waits of kernels for what only PEs could do that have left in order: with finalize, or by
// exit(0). Their memory stays, so a wait for a word may be ended by others, or by this PE itself,
// and goes on; a barrier that they have not entered is never left.
#pragma once

#include <functional>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "host/base/log.h"
#include "host/failures/failure.h"
#include "host/failures/waits.h"
#include "host/job/live_group.h"

namespace peal {

class VainWaits {
 public:
  struct Dependencies {
    const LiveGroup& group;
    const Log& log;
    std::function<std::vector<WaitNote>()> waits;  // of all kernels of this PE
    std::function<void()> stop;                    // ends them
  };
  explicit VainWaits(Dependencies parts) : dependencies_(std::move(parts)) {}

  /// By the watcher, some times a second.
  void look();
  /// Why waits were ended.
  std::optional<Failure> failure() const;
  /// After a recovery.
  void forget();

 private:
  std::vector<WaitNote> lasting() const;
  void stop(int pe, const std::string& wait);

  const Dependencies dependencies_;
  unsigned looks_ = 0;       // in a row that found a wait while PEs have left
  std::set<int> warned_of_;  // PEs that left while kernels here wait

  mutable std::mutex mutex_;  // guards what follows
  std::optional<Failure> failure_;
};

}  // namespace peal
