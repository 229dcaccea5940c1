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

std::unique_ptr<Launch::State> start_grid(const Grid& grid, std::function<void()> lane_body) {
  return std::make_unique<SimulatedGrid>(grid, std::move(lane_body));
}

}  // namespace peal::simt
