// SPDX-License-Identifier: Apache-2.0
//
// Who runs lanes where no worker does, and what lanes ask of it: a simulation
// (simt/simulation) runs those of several grids on one thread.
//
//   worker:     thread of a launch   lanes switch to each other, clock and memory are the machine's
//   scheduler:  any thread           resumes lane by lane; clock and memory are the scheduler's
//
// Invariant: a thread's lanes are all of its workers, or all of its scheduler.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "simt/lanes/fiber.h"
#include "simt/lanes/lane.h"
#include "simt/lanes/launch.h"

namespace peal::simt {

/// A grid that runs, wherever its lanes do.
class GridRun::State {
 public:
  State() = default;
  virtual ~State() = default;
  State(const State&) = delete;
  State& operator=(const State&) = delete;
  virtual void wait() = 0;
};

/// Called on its lanes, but for meet().
class Scheduler {
 public:
  /// simt::launch() of the lane that runs.
  virtual std::unique_ptr<GridRun::State> launch(const LaneGrid& grid,
                                                 std::function<void()> lane_body) = 0;
  /// simt::kernel() of the lane that runs.
  virtual const void* kernel() const = 0;
  /// "PE 1", of the lane that runs. For handlers of signals too.
  virtual const std::string& owner() const = 0;
  /// Blocks of the grid of the lane that runs, of which all can be resident at once.
  virtual uint64_t most_resident_blocks() const = 0;
  virtual uint64_t now_ns() const = 0;
  /// Another lane may run next.
  virtual void point() = 0;
  /// A fence that acquires and releases.
  virtual void fence(FenceReach reach) = 0;
  /// Lanes of these ranks have met: what one did before, all know.
  virtual void meet(const std::vector<uint64_t>& ranks) = 0;

  /// The flow that resumes lanes, and to which they return.
  Fiber& home() { return home_; }

 protected:
  ~Scheduler() = default;

 private:
  Fiber home_;
};

/// Runs the lanes of this thread from now on; null: nobody does.
void set_scheduler(Scheduler* scheduler);
/// Null where none runs lanes of this thread.
Scheduler* scheduler_of_thread();
/// Null where this thread runs no lane, or one of a worker.
Scheduler* scheduler_of_lane();

}  // namespace peal::simt
