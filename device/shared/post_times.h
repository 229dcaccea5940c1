// SPDX-License-Identifier: Apache-2.0
//
// Where the time of a post goes: what kernels that are compiled with -DPEAL_TIME_POSTS=1 add up for
// a context (device/nic/stage_clock.h), beside its flight recorder's counters.
#pragma once

#include <cstdint>

namespace peal {

/// In the order in which a lane goes through them.
enum class PostStage : uint32_t {
  kReserve,   // slots of the queue, waits for room and for the connection too
  kWrite,     // the work requests, and of a group until its lanes have written theirs
  kHandOver,  // publishing, and the doorbells that the lane rings meanwhile, for others too
  kRing,      // a doorbell, wherever it is rung: record, fence, register
  kComplete,  // a wait for a completion
  kCount
};
inline constexpr uint32_t kPostStages = static_cast<uint32_t>(PostStage::kCount);

/// Passes of lanes through one stage, and nanoseconds of the device's clock in it, added up.
struct StageTime {
  uint64_t passes;
  uint64_t time_ns;
};

struct PostTimes {
  StageTime stage[kPostStages];
};

}  // namespace peal
