// SPDX-License-Identifier: Apache-2.0
//
// What a simulation is made of: grids, hosts and threads, each a process of lanes. A lane that runs
// may start others, as a host thread launches a kernel.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "simt/lanes/block.h"
#include "simt/lanes/debug.h"
#include "simt/lanes/launch.h"
#include "simt/simulation/memory.h"
#include "simt/simulation/simulation.h"

namespace peal::simt {

enum class ProcessKind : uint8_t {
  kGrid,    ///< lanes of a kernel; the run lasts until all have ended
  kHost,    ///< one lane that is no kernel's; the run lasts until it has ended
  kServer,  ///< one lane of a device; it need not end
  kThread,  ///< one lane that is no kernel's; it need not end
};

struct SimulatedProcess {
  Identity who;
  ProcessKind kind = ProcessKind::kGrid;
  LaneGrid grid;
  std::function<void()> body;
  std::string kernel;  // its name, once somebody has asked
  Released before;  // what had been done by whoever started it; null: it was there from the start
  uint64_t most_lanes = 0;  // resident at once, with those of other grids, but for the first block
  std::deque<LaneBlock> blocks;  // that are resident, or were and serve again
  std::vector<LaneBlock*> idle_blocks;
  std::vector<ResidentBlocks> residents{1};
  uint64_t begun = 0;     // blocks
  uint64_t resident = 0;  // lanes of blocks that have begun and not ended
  ListedGrid listed;
  size_t alive = 0;  // lanes that have not ended, begun or not
  Released behind;   // what its lanes had done when they ended

  // What elsewhere a thread has for itself.
  unsigned device_in_use = 0;
  bool runs_stream = false;
  void* grid_barrier = nullptr;

  bool lasts() const { return kind == ProcessKind::kGrid || kind == ProcessKind::kHost; }
  bool all_begun() const { return begun == grid.blocks.count(); }
  uint64_t most_resident_blocks() const;
  /// The next one.
  LaneBlock& begin_block(Ready& ready, Scheduler& scheduler);
  /// All its lanes have ended.
  void retire(LaneBlock& block);
  bool on_host() const { return kind == ProcessKind::kHost || kind == ProcessKind::kThread; }
};

// Called on a lane of a simulation.

/// Adds a process on behalf of the calling lane: with its PE's name and device, behind all that the
/// lane did.
std::shared_ptr<SimulatedProcess> start_process(ProcessKind kind, const LaneGrid& grid,
                                                std::function<void()> body);
/// Returns once all its lanes have ended; the caller is behind all that they did.
void await_process(const SimulatedProcess& process);
/// A process that is a grid.
std::unique_ptr<GridRun::State> start_grid(const LaneGrid& grid, std::function<void()> lane_body);
/// The process of the calling lane.
SimulatedProcess& this_process();

}  // namespace peal::simt
