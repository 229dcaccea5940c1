// SPDX-License-Identifier: Apache-2.0
#include "host/job/stopped.h"

#include <fmt/format.h>

#include "base/files.h"

namespace peal {
namespace {

// proc(5): "pid (name) state ...", where the name may hold anything. T: stopped, t: traced.
bool stands_still(int64_t pid) {
  const std::string text = text_of(fmt::format("/proc/{}/stat", pid));
  const size_t name_end = text.rfind(") ");
  if (name_end == std::string::npos || name_end + 2 >= text.size()) return false;
  const char state = text[name_end + 2];
  return state == 'T' || state == 't';
}

}  // namespace

std::string stopped_pes(const LiveGroup& group) {
  const Place& here = group.places()[static_cast<size_t>(group.rank())];
  std::string text;
  for (const int pe : group.live_pes()) {
    const Place& there = group.places()[static_cast<size_t>(pe)];
    if (!same_pids(here, there) || there.pid == here.pid || !stands_still(there.pid)) continue;
    text += fmt::format("{}PE {} (process {}) is stopped: kill -CONT {} lets it go on",
                        text.empty() ? "" : "; ", pe, there.pid, there.pid);
  }
  return text;
}

}  // namespace peal
