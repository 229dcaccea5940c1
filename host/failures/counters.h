// SPDX-License-Identifier: Apache-2.0
//
// What the kernels of one context have done so far: counted by the flight recorder (PEAL_RECORD).
#pragma once

#include <array>
#include <cstdint>
#include <string>

#include "device/context.h"

namespace peal {

/// Counts since the context was made, of calls that have ended. Looks that did not wait and did not
/// see what they wanted are in `looks` alone. A collective call counts as one, with the bytes of
/// its destination; what it sends is not counted.
struct Counters {
  uint32_t context = 0;  // its slot
  bool ran = false;      // false: no kernel that was compiled with the recorder has called
  std::array<CallCount, static_cast<size_t>(Call::kCount)> by_call{};
  uint64_t looks = 0;
  /// 64-byte blocks of work requests that were posted, those whose doorbell was rung, and those
  /// that have completed, of all queues; 0 without a NIC.
  uint64_t posted_blocks = 0;
  uint64_t rung_blocks = 0;
  uint64_t completed_blocks = 0;
  /// The stages of posts to a NIC, by kernels that were compiled with -DPEAL_TIME_POSTS=1.
  PostTimes posts{};

  const CallCount& of(Call call) const { return by_call[static_cast<size_t>(call)]; }
  const StageTime& of(PostStage stage) const { return posts.stage[static_cast<size_t>(stage)]; }
  uint64_t calls() const;
  /// What put, put_signal and p carried, and get and g.
  uint64_t bytes_put() const;
  uint64_t bytes_got() const;
  /// Waits for words and tickets, quiet, fence, barriers, collective calls, and nanoseconds in
  /// them, added up over lanes.
  uint64_t waits() const;
  uint64_t wait_ns() const;
  /// Calls of any name that ended with kTimeout, and with another Status than kOk.
  uint64_t timeouts() const;
  uint64_t failed() const;
};

/// One line for each stage that lanes went through.
std::string describe(const PostTimes& posts);

/// One line for each call that was made, by name, below a heading, then those of its posts' stages.
std::string describe(const Counters& counters);

}  // namespace peal
