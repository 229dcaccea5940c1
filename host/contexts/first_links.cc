// SPDX-License-Identifier: Apache-2.0
#include "host/contexts/first_links.h"

#include <algorithm>

#include "host/transport/connection.h"

namespace peal {

bool FirstLinks::between(uint32_t a, uint32_t b) const {
  const auto gone = [&](uint32_t pe) {
    return std::ranges::find(masked_, static_cast<int>(pe)) != masked_.end();
  };
  if (gone(a) || gone(b)) return false;
  const auto n = static_cast<uint32_t>(places_.size());
  if (kind_ == ConnectKind::kEager || !same_sockets(places_[a], places_[b])) return true;
  return (a + 1) % n == b || (b + 1) % n == a;
}

std::vector<uint32_t> FirstLinks::of(uint32_t pe) const {
  std::vector<uint32_t> linked;
  for (uint32_t other = 0; other < places_.size(); ++other) {
    if (between(pe, other)) linked.push_back(other);
  }
  return linked;
}

size_t FirstLinks::most() const {
  size_t most = 0;
  for (uint32_t pe = 0; pe < places_.size(); ++pe) most = std::max(most, of(pe).size());
  return most;
}

RailEnds rail_ends(const Rails& rails, const QueueShape& shape) {
  RailEnds ends{};
  for (uint32_t rail = 0; rail < shape.rails; ++rail) {
    ends[rail] = endpoint_of(rails.nics()[rails.nic_of(rail)].device, 0);
  }
  return ends;
}

void check_rail_ends(std::span<const RailEnds> ends, const QueueShape& shape, bool with_itself) {
  for (uint32_t rail = 0; rail < std::min(shape.rails, shape.queues_per_peer); ++rail) {
    std::vector<Endpoint> by_pe;
    for (const RailEnds& of_pe : ends) by_pe.push_back(of_pe[rail]);
    check_ends(by_pe, with_itself);
  }
}

}  // namespace peal
