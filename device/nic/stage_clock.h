// SPDX-License-Identifier: Apache-2.0
//
// How a lane measures the stages of its posts (device/shared/post_times.h). Without
// -DPEAL_TIME_POSTS=1 it is nothing.
#pragma once

#include <cstdint>

#include "device/base/observers.h"
#include "device/base/order.h"
#include "device/base/spin.h"
#include "device/base/target.h"
#include "device/shared/post_times.h"

namespace peal::nic {

/// Begins with the first stage. What adding up takes belongs to no stage.
template <bool kMeasures>
class BasicStageClock {
 public:
  /// `times` may be null: nobody asks.
  PEAL_HD explicit BasicStageClock(PostTimes* times)
      : times_(times), begun_ns_(times == nullptr ? 0 : now_ns()) {}

  /// The stage is over, and the next one begins.
  PEAL_HD void end(PostStage stage) {
    if (times_ == nullptr) return;
    StageTime& sum = times_->stage[static_cast<uint32_t>(stage)];
    fetch_add_relaxed<Reach::kGpu>(&sum.time_ns, now_ns() - begun_ns_);
    fetch_add_relaxed<Reach::kGpu>(&sum.passes, uint64_t{1});
    begun_ns_ = now_ns();
  }

 private:
  PostTimes* times_;
  uint64_t begun_ns_;
};

template <>
class BasicStageClock<false> {
 public:
  PEAL_HD explicit BasicStageClock(PostTimes*) {}
  PEAL_HD void end(PostStage) {}
};

using StageClock = BasicStageClock<kTimesPosts>;

}  // namespace peal::nic
