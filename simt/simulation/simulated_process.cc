// SPDX-License-Identifier: Apache-2.0
#include "simt/simulation/simulated_process.h"

#include <utility>

#include "simt/lanes/scheduler.h"

namespace peal::simt {
namespace {

/// A grid of the simulation that its launching thread is part of. What leaves a lane ends that.
class SimulatedGrid : public Launch::State {
 public:
  SimulatedGrid(const Grid& grid, std::function<void()> lane_body)
      : process_(start_process(ProcessKind::kGrid, grid, std::move(lane_body))) {}
  ~SimulatedGrid() override { SimulatedGrid::wait(); }
  void wait() override { await_process(*process_); }

 private:
  const std::shared_ptr<SimulatedProcess> process_;
};

}  // namespace

unsigned Stacks::take() {
  if (free_.empty()) {
    auto slabs = pool_->take(kSlabStacks, max_lanes_, bytes_);
    for (auto& slab : slabs) slabs_.push_back(std::move(slab));
    for (unsigned i = kSlabStacks; i-- > 0;) {
      free_.push_back(static_cast<unsigned>(count_ * kSlabStacks) + i);
    }
    ++count_;
  }
  const unsigned slot = free_.back();
  free_.pop_back();
  return slot;
}

std::unique_ptr<Launch::State> start_grid(const Grid& grid, std::function<void()> lane_body) {
  return std::make_unique<SimulatedGrid>(grid, std::move(lane_body));
}

}  // namespace peal::simt
