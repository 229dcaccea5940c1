// SPDX-License-Identifier: Apache-2.0
#include "host/job/process_stat.h"

#include <fmt/format.h>
#include <signal.h>

#include <cerrno>
#include <sstream>
#include <string>

#include "base/files.h"

namespace peal {
namespace {

// proc(5) counts fields from 1: pid, (name), state, ...
constexpr int kState = 3;
constexpr int kStartTime = 22;
constexpr int kExitCode = 52;

bool stands_still(int64_t pid) {
  const char state = stat_of_process(pid).state;
  return state == 'T' || state == 't';
}

}  // namespace

// The name may hold anything, so what follows it is found from the end.
ProcessStat stat_of_process(int64_t pid) {
  const std::string text = text_of(fmt::format("/proc/{}/stat", pid));
  const size_t name_end = text.rfind(") ");
  if (name_end == std::string::npos) return {};
  std::istringstream fields(text.substr(name_end + 2));
  ProcessStat stat;
  std::string field;
  for (int number = kState; number <= kExitCode && fields >> field; ++number) {
    if (number == kState) stat.state = field[0];
    if (number == kStartTime) stat.birth = std::stoull(field);
    if (number == kExitCode && stat.state == 'Z') stat.wait_status = std::stoi(field);
  }
  return stat;
}

bool has_ended(int64_t pid, std::optional<Birth> birth) {
  if (::kill(static_cast<pid_t>(pid), 0) != 0 && errno == ESRCH) return true;
  const ProcessStat stat = stat_of_process(pid);
  return stat.state == 'Z' || stat.state == 'X' || (birth && stat.birth && *stat.birth != *birth);
}

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
