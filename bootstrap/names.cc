// SPDX-License-Identifier: Apache-2.0
//
// Ranks and times as text.
#include "bootstrap/names.h"

#include <fmt/format.h>

#include "base/ranges.h"

namespace peal::bootstrap {

std::string name_ranks(std::span<const int> ranks, int size) {
  return fmt::format("{} {} of {}", ranks.size() == 1 ? "rank" : "ranks", ranges(ranks), size);
}

std::string name_time(std::chrono::milliseconds time) {
  if (time.count() % 1000 == 0) return fmt::format("{} s", time.count() / 1000);
  return fmt::format("{} ms", time.count());
}

}  // namespace peal::bootstrap
