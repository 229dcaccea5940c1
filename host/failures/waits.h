// SPDX-License-Identifier: Apache-2.0
//
// What kernels wrote down of their waits (device/shared/wait_record.h), in words.
#pragma once

#include <cstdint>
#include <functional>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "device/context.h"
#include "host/base/log.h"
#include "host/contexts/context_owner.h"
#include "host/contexts/usage_text.h"
#include "host/failures/failure.h"
#include "host/job/live_group.h"

namespace peal {

/// One wait that lasts, or that ended without its condition.
struct WaitNote {
  Status status = Status::kOk;  // kOk: it lasts
  WaitKind kind = WaitKind::kOther;
  int from = -1;  // the PE that it would end by, if that is one PE
  uint64_t ended_ns = 0;
  std::string text;  // a sentence without its end: "kernel ring, block 0, thread 3, waits for ..."
};

/// The waits of one context, as its kernels wrote them.
std::vector<WaitNote> waits_of(const ContextOwner& context, const PlaceOf& place_of);

/// True if the end of such a wait closes a queue, which tells of it.
bool closes_queue(WaitKind kind);

/// Waits of kernels for what only PEs could do that have left in order: with finalize, or by
/// exit(0). Their memory stays, so a wait for a word may be ended by others, or by this PE itself,
/// and goes on; a barrier that they have not entered is never left.
class VainWaits {
 public:
  VainWaits(const LiveGroup& group, const Log& log) : group_(group), log_(log) {}

  /// The watcher calls it some times a second. `waits` answers the waits of all kernels of this PE.
  /// True once they are to be ended; failure() says why.
  bool look(const std::function<std::vector<WaitNote>()>& waits);
  /// Why waits were ended.
  std::optional<Failure> failure() const;
  /// To be called after a recovery.
  void forget();

 private:
  bool stop(int pe, const std::string& wait);

  const LiveGroup& group_;
  const Log& log_;
  unsigned looks_ = 0;       // in a row that found a wait while PEs have left
  std::set<int> warned_of_;  // PEs that left while kernels here wait

  mutable std::mutex mutex_;  // guards what follows
  std::optional<Failure> failure_;
};

}  // namespace peal
