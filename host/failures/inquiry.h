// SPDX-License-Identifier: Apache-2.0
//
// What the kernels of all PEs wait for: a PE asks all others that live over the channel, on its
// host and on other hosts. Their watchers answer also while their kernels are stuck.
//
//   asks:     kWaitsAsked [round]            -> every live PE
//   answers:  kWaitsTold  [round] a note a line
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "host/failures/waits.h"
#include "host/job/live_group.h"

namespace peal {

/// The waits of one PE.
struct PeWaits {
  int pe;
  std::vector<WaitNote> notes;
};

/// A circle of PEs of which each waits for the next: "PE 0 (block 0) waits for PE 1 ...; PE 1
/// (block 2) waits for PE 0 ..."; "" where there is none. Whoever writes a word is known only where
/// there are two PEs; elsewhere only waits that name a PE count.
std::string find_circle(std::span<const PeWaits> all, int n_pes);

/// Asks, and answers. Thread-safe.
class Inquiry {
 public:
  using Mine = std::function<std::vector<WaitNote>()>;
  Inquiry(LiveGroup& group, Mine mine) : group_(group), mine_(std::move(mine)) {}

  /// The waits of all PEs that can be asked, those that did not answer within `patience`, and
  /// circles among them; "" where nobody waits.
  std::string describe(std::chrono::milliseconds patience);

  /// A message of either kind, on the thread that receives.
  void deliver(const Message& message);

 private:
  std::vector<PeWaits> ask(std::chrono::milliseconds patience, std::vector<int>* silent);

  LiveGroup& group_;
  const Mine mine_;
  std::mutex asking_;  // one asks at a time
  std::mutex mutex_;   // guards what follows
  std::condition_variable changed_;
  uint64_t round_ = 0;
  std::map<int, std::vector<WaitNote>> told_;
};

}  // namespace peal
