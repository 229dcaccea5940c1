// SPDX-License-Identifier: Apache-2.0
#include "host/job/stopped.h"

#include <fmt/format.h>

#include "host/job/process_stat.h"

namespace peal {
namespace {

bool stands_still(int64_t pid) {
  const char state = stat_of_process(pid).state;
  return state == 'T' || state == 't';
}

}  // namespace

std::string stopped_pes(std::span<const Place> places, int here, const std::vector<int>& pes) {
  const Place& mine = places[static_cast<size_t>(here)];
  std::string text;
  for (const int pe : pes) {
    const Place& there = places[static_cast<size_t>(pe)];
    if (!same_pids(mine, there) || there.pid == mine.pid || !stands_still(there.pid)) continue;
    text += fmt::format("{}PE {} (process {}) is stopped: kill -CONT {} lets it go on",
                        text.empty() ? "" : "; ", pe, there.pid, there.pid);
  }
  return text;
}

}  // namespace peal
