// SPDX-License-Identifier: Apache-2.0
//
// Ranks and times as text.
#include "bootstrap/names.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>

namespace peal::bootstrap {

std::string name_ranks(std::span<const int> ranks, int size) {
  constexpr std::size_t kShown = 16;
  const auto shown = ranks.first(std::min(ranks.size(), kShown));
  std::string text =
      fmt::format("{} {}", ranks.size() == 1 ? "rank" : "ranks", fmt::join(shown, ", "));
  if (ranks.size() > kShown) text += fmt::format(", ... ({} in all)", ranks.size());
  return text + fmt::format(" of {}", size);
}

std::string name_time(std::chrono::milliseconds time) {
  if (time.count() % 1000 == 0) return fmt::format("{} s", time.count() / 1000);
  return fmt::format("{} ms", time.count());
}

}  // namespace peal::bootstrap
