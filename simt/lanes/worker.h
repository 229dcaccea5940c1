// SPDX-License-Identifier: Apache-2.0
//
// One thread of a launch and the blocks dealt to it. The loop: pop a lane, run a slice, settle.
//
// Invariant: the lanes of a worker run on its thread only, one at a time.
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "simt/lanes/block.h"
#include "simt/lanes/launch.h"
#include "simt/lanes/ready.h"
#include "simt/lanes/stack_pool.h"
#include "simt/lanes/watch.h"

namespace peal::simt {

/// How a launch ends: the first failure stops all of its workers.
class LaunchOutcome {
 public:
  void fail(std::exception_ptr error);
  bool stopped() const { return stopped_.load(std::memory_order_relaxed); }
  /// The first failure or null; once all workers have ended.
  std::exception_ptr error() const { return error_; }

 private:
  std::atomic<bool> stopped_{false};
  std::mutex mutex_;
  std::exception_ptr error_;
};

/// What the workers of one launch have in common.
struct LaunchState {
  Dim3 blocks;
  Dim3 threads;
  size_t shared_bytes = 0;
  const void* kernel = nullptr;  // its address
  std::vector<std::unique_ptr<StackSlab>>
      slabs;  // lane n of the grid has stack n % 32 of slab n / 32
  std::function<void()> lane_body;
  unsigned busy_ms = 0;
  LaunchOutcome outcome;
  Bell bell;                     // rung when a worker has ended, or has something to tell
  std::atomic<size_t> ended{0};  // workers
};

/// The number of lanes of a grid; throws Error for what CUDA would refuse or the limits exclude.
size_t checked_lanes(const Grid& grid, const Limits& limits);

/// The index of block `number`, x fastest.
Dim3 block_index(const Dim3& blocks, uint64_t number);

/// What a worker does between two passes over lanes that all spin: offers its CPU to other threads,
/// and after a long wait naps. Up to 8 processes with their workers and NIC
/// engines share the CPUs, and the one that waits must not starve the one it waits for.
class Backoff {
 public:
  /// A lane got on: the wait starts anew.
  void reset() { waiting_ = false; }

  /// Every lane has spun once more. Takes a sixteenth of the wait so far at most, or 50 us, plus a
  /// scheduling delay.
  void pass();

 private:
  using Clock = std::chrono::steady_clock;

  bool waiting_ = false;
  Clock::time_point since_;
  std::chrono::nanoseconds nap_{0};
};

class Worker {
 public:
  explicit Worker(LaunchState& program) : program_(program) {}
  Worker(const Worker&) = delete;
  Worker& operator=(const Worker&) = delete;

  /// Deals block number `number` (x fastest) to this worker, before run().
  void add(uint64_t number);

  const void* kernel() const { return program_.kernel; }

  /// Says on stderr what the worker's watch has found, if it has. Another thread calls.
  void tell_of_busy_lane();

  /// The thread's body: returns when every lane ended or, after a failure, was unwound.
  void run();

  const std::deque<Block>& blocks() const { return blocks_; }

 private:
  void run_lanes();
  void begin(Lane& lane);
  void unwind_lanes();
  static void enter_lane(void* lane);
  void run_body();

  LaunchState& program_;
  Ready ready_;
  std::deque<Block> blocks_;
  Backoff backoff_;
  ExceptionState* exceptions_ = nullptr;  // of the thread
  size_t yields_ = 0;                     // since the last pass
  std::atomic<uint64_t> slices_{0};       // begun; one thread writes
  std::mutex watch_mutex_;
  std::optional<SignalWatch> watch_;  // guarded by watch_mutex_
  // Words that stand for "lanes may start" and "lanes ended" to ThreadSanitizer.
  char start_tag_ = 0;
  char end_tag_ = 0;
};

}  // namespace peal::simt
