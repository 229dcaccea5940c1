// SPDX-License-Identifier: Apache-2.0
#include "simt/simulation/simulated_process.h"

#include <algorithm>
#include <utility>

#include "simt/lanes/scheduler.h"

namespace peal::simt {
namespace {

/// A grid of the simulation that its launching thread is part of. What leaves a lane ends that.
class SimulatedGrid : public GridRun::State {
 public:
  SimulatedGrid(const LaneGrid& grid, std::function<void()> lane_body)
      : process_(start_process(ProcessKind::kGrid, grid, std::move(lane_body))) {}
  ~SimulatedGrid() override { SimulatedGrid::wait(); }
  void wait() override { await_process(*process_); }

 private:
  const std::shared_ptr<SimulatedProcess> process_;
};

}  // namespace

uint64_t SimulatedProcess::most_resident_blocks() const {
  if (grid.cooperative) return grid.blocks.count();
  return std::max<uint64_t>(1, most_lanes / grid.threads.count());
}

LaneBlock& SimulatedProcess::begin_block(Ready& ready, Scheduler& scheduler) {
  if (idle_blocks.empty()) {
    blocks.emplace_back(grid.threads, grid.shared_bytes, ready, nullptr, &scheduler);
    idle_blocks.push_back(&blocks.back());
  }
  LaneBlock& block = *idle_blocks.back();
  idle_blocks.pop_back();
  block.begin(grid.blocks, begun++);
  residents[0].add(block.resident());
  resident += block.lanes().size();
  return block;
}

void SimulatedProcess::retire(LaneBlock& block) {
  residents[0].remove(block.resident());
  resident -= block.lanes().size();
  idle_blocks.push_back(&block);
}

std::unique_ptr<GridRun::State> start_grid(const LaneGrid& grid, std::function<void()> lane_body) {
  return std::make_unique<SimulatedGrid>(grid, std::move(lane_body));
}

}  // namespace peal::simt
