// SPDX-License-Identifier: Apache-2.0
//
// Runs a kernel's grid on the CPU: a lane begins as a call, and has a fiber once it waits.
//
//   host thread --launch()--> worker 0: blocks 0, 2, ...   each worker takes the next block, and
//                             worker 1: blocks 1, 3, ...   turns over the lanes of those it has
//
// Blocks begin in order. Another one begins when none is resident on a worker, and when all lanes
// of those that are wait by yield() or the like, as long as Limits::max_lanes has room: so blocks
// that wait for each other work at any size that fits, and others at any size.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <stdexcept>

#include "simt/lanes/dim3.h"

namespace peal::simt {

/// A grid that CUDA would refuse or that does not fit, or a kernel that breaks the rules of its
/// collectives. The message names block, warp, lane and mask.
class LaneError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// What is launched: blocks x threads lanes, dynamic shared memory for each block, the address of
/// the kernel, by which messages name it; null: they do not; and whether all blocks must be able to
/// wait for each other: then all are resident, or the grid is refused.
struct LaneGrid {
  Dim3 blocks;
  Dim3 threads;
  size_t shared_bytes = 0;
  const void* kernel = nullptr;
  bool cooperative = false;
};

/// Bounds for all launches of the process. A launch uses what was in force when it began.
struct Limits {
  unsigned max_lanes;  ///< lanes that are resident at once in this process, all launches together;
                       ///< a launch may have one block more on each worker
  unsigned workers;    ///< threads a launch spreads its blocks over, at least 1
  size_t stack_bytes;  ///< usable stack of a lane; only the pages a lane touches take memory
  unsigned busy_ms;    ///< CPU time after which stderr tells of a lane that has neither called peal
                       ///< nor yielded, once for each worker of a launch; 0: never
  unsigned stall_ms;  ///< after which a launch ends whose resident lanes only wait while blocks are
                      ///< left that have no room; 0: never
};

/// The limits in force. Default: as many workers as CPUs, 131072 lanes or what a quarter of the
/// memory holds, unless the environment says SIMT_MAX_LANES; 64 KiB of stack (larger under a
/// sanitizer, and fewer lanes), 10 s, 10 minutes.
Limits limits();

/// Replaces the limits. Throws Error when one of them is zero or the stack is under 16 KiB.
void set_limits(const Limits& limits);

/// One running or finished grid. Move-only. The destructor waits and drops a kernel's error: call
/// wait() to learn of it.
class GridRun {
 public:
  GridRun(GridRun&&) noexcept;
  GridRun& operator=(GridRun&&) noexcept;  ///< waits for the grid it held before
  ~GridRun();

  /// Returns once every lane has ended. Rethrows the first exception that left a lane, or the Error
  /// of a kernel that broke a rule or deadlocked; the other lanes were then unwound.
  /// NOT guaranteed: an end, when a lane loops without calling yield() or a collective.
  void wait();

  class State;  ///< scheduler.h

 private:
  friend GridRun launch(const LaneGrid&, std::function<void()>);
  explicit GridRun(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

/// Starts a grid and returns at once, like a kernel launch. Every lane calls `lane_body` once; it
/// is one object shared by all lanes, so what it captures must outlive the launch. Throws Error for
/// a grid that CUDA would refuse (an extent of 0, over 1024 threads a block, ...), for a
/// cooperative one that exceeds the limits, and when called from inside a kernel.
[[nodiscard]] GridRun launch(const LaneGrid& grid, std::function<void()> lane_body);

/// As launch(grid, lane_body).wait(); the calling thread runs its part of the grid.
void launch_and_wait(const LaneGrid& grid, const std::function<void()>& lane_body);

}  // namespace peal::simt
