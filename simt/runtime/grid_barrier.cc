// SPDX-License-Identifier: Apache-2.0
#include "simt/runtime/grid_barrier.h"

#include "simt/lanes/lane.h"
#include "simt/lanes/launch.h"
#include "simt/lanes/sanitizer.h"
#include "simt/lanes/worker.h"
#include "simt/runtime/groups.h"
#include "simt/simulation/simulated_process.h"
#include "simt/simulation/simulation.h"

namespace peal::simt::cuda {
namespace {

// Null outside of kernels.
PEAL_SIMT_UNSEEN void** word_of_grid() {
  if (in_simulation()) return &this_process().grid_barrier;
  Worker* const worker = this_worker();
  return worker == nullptr ? nullptr : &worker->word();
}

PEAL_SIMT_UNSEEN GridBarrier* barrier_of_grid() {
  void** const word = word_of_grid();
  return word == nullptr ? nullptr : static_cast<GridBarrier*>(*word);
}

}  // namespace

bool grid_meets() { return barrier_of_grid() != nullptr; }

PEAL_SIMT_UNSEEN GridBarrier::Member::Member(GridBarrier& barrier) : barrier_(barrier) {
  *word_of_grid() = &barrier;
}

void meet_grid() {
  if (!grid_meets()) {
    throw LaneError(
        "this_grid().sync(): the kernel was not started by cudaLaunchCooperativeKernel");
  }
  barrier_of_grid()->meet();
}

void GridBarrier::meet() {
  uint64_t meeting = 0;
  {
    const std::lock_guard lock(mutex_);
    meeting = meetings_;
    ++arrived_;
    open_if_complete();
  }
  for (;;) {
    {
      const std::lock_guard lock(mutex_);
      if (meetings_ != meeting) break;
    }
    yield();
  }
  progressed();
}

void GridBarrier::leave() {
  const std::lock_guard lock(mutex_);
  --expected_;
  open_if_complete();
  if (expected_ == 0) {  // the grid has ended; a run that failed may have left some at the barrier
    expected_ = lanes_;
    arrived_ = 0;
  }
}

// Requires the lock.
void GridBarrier::open_if_complete() {
  if (arrived_ == 0 || arrived_ < expected_) return;
  arrived_ = 0;
  ++meetings_;
}

}  // namespace peal::simt::cuda
