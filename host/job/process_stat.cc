// SPDX-License-Identifier: Apache-2.0
#include "host/job/process_stat.h"

#include <fmt/format.h>

#include <sstream>
#include <string>

#include "base/files.h"

namespace peal {
namespace {

// proc(5) counts fields from 1: pid, (name), state, ...
constexpr int kState = 3;
constexpr int kExitCode = 52;

}  // namespace

// The name may hold anything, so what follows it is found from the end.
ProcessStat stat_of_process(int64_t pid) {
  const std::string text = text_of(fmt::format("/proc/{}/stat", pid));
  const size_t name_end = text.rfind(") ");
  if (name_end == std::string::npos || name_end + 2 >= text.size()) return {};
  ProcessStat stat{.state = text[name_end + 2], .wait_status = {}};
  std::istringstream fields(text.substr(name_end + 2));
  std::string field;
  for (int number = kState; number <= kExitCode && fields >> field; ++number) {
    if (number == kExitCode && stat.state == 'Z') stat.wait_status = std::stoi(field);
  }
  return stat;
}

}  // namespace peal
