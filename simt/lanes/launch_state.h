// SPDX-License-Identifier: Apache-2.0
//
// What the workers of one launch have in common: the grid, whose blocks they begin in the order of
// their numbers, how many lanes may be resident, and how it ends.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <mutex>

#include "simt/lanes/dim3.h"
#include "simt/lanes/launch.h"

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

/// Lanes of the process that are resident beside the first block of each worker, which always may
/// be: so launches do not wait for each other's lanes.
class ResidentLanes {
 public:
  /// False where they would be more than `most`.
  static bool take(uint64_t lanes, uint64_t most);
  static void give_back(uint64_t lanes);
};

struct LaunchState {
  LaunchState(const LaneGrid& grid, const std::function<void()>& body, const Limits& limits);

  /// The number of a block that nobody has begun. If it is block_count or more, there is none left.
  uint64_t next_block() { return begun_.fetch_add(1, std::memory_order_relaxed); }
  bool all_begun() const { return begun_.load(std::memory_order_relaxed) >= block_count; }
  uint64_t begun() const { return begun_.load(std::memory_order_relaxed); }
  /// For a debugger, which is not told of more than there are.
  const std::atomic<uint64_t>& begun_blocks() const { return begun_; }
  /// So many blocks can be resident at once, where no other launch has lanes.
  uint64_t most_resident_blocks() const {
    return cooperative ? block_count : workers + limits.max_lanes / block_lanes;
  }

  const Dim3 blocks;
  const Dim3 threads;
  const uint64_t block_count;
  const uint64_t block_lanes;
  const size_t shared_bytes;
  const bool cooperative;
  const void* const kernel;  // its address
  const std::function<void()>& lane_body;
  const Limits limits;
  const unsigned workers;
  LaunchOutcome outcome;
  std::atomic<unsigned> gave_up{0};  // workers whose lanes wait in vain
  std::atomic<unsigned> ended{0};    // workers

 private:
  alignas(64) std::atomic<uint64_t> begun_{0};
};

/// Dynamic shared memory of a block, at most.
inline constexpr size_t kMaxSharedBytes = 227 * 1024;

/// Throws Error for what CUDA would refuse.
void check_grid(const LaneGrid& grid);
/// The number of lanes of a grid all of which must be resident; throws Error for what CUDA would
/// refuse or the limits exclude.
size_t checked_lanes(const LaneGrid& grid, const Limits& limits);

}  // namespace peal::simt
