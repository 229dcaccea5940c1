// SPDX-License-Identifier: Apache-2.0
#include "simt/simulation/party.h"

#include <utility>

#include "simt/lanes/scheduler.h"

namespace peal::simt {
namespace {

/// A grid of the simulation that its launching thread is part of. What leaves a lane ends that.
class SimulatedGrid : public Launch::State {
 public:
  SimulatedGrid(const Grid& grid, std::function<void()> lane_body)
      : party_(start_party(PartyKind::kGrid, grid, std::move(lane_body))) {}
  ~SimulatedGrid() override { SimulatedGrid::wait(); }
  void wait() override { await_party(*party_); }

 private:
  const std::shared_ptr<Party> party_;
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
