// SPDX-License-Identifier: Apache-2.0
#include "host/transport/links.h"

#include <algorithm>

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

}  // namespace peal
