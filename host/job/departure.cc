// SPDX-License-Identifier: Apache-2.0
#include "host/job/departure.h"

#include <fmt/format.h>
#include <string.h>
#include <sys/wait.h>

#include "host/job/process_stat.h"

namespace peal {
namespace {

std::string with_text(const char* what, const std::string& text) {
  return text.empty() ? what : fmt::format("{}: {}", what, text);
}

}  // namespace

std::string describe(const Departure& departure) {
  const int code = departure.code;
  switch (departure.how) {
    case Departure::How::kFinalized:
      return "has finalized";
    case Departure::How::kExited:
      return fmt::format("called exit({0}), or returned {0} from main(), without finalize", code);
    case Departure::How::kQuickExit:
      return "called quick_exit()";
    case Departure::How::kException:
      return with_text("left by an exception", departure.text);
    case Departure::How::kTerminated:
      return with_text("was terminated by std::terminate()", departure.text);
    case Departure::How::kKilled: {
      const char* const name = ::sigabbrev_np(code);
      return with_text(
          fmt::format("was ended by signal {} (SIG{})", code, name ? name : "?").c_str(),
          departure.text);
    }
  }
  return "has left";
}

std::optional<Departure> departure_of_process(int pid) {
  const ProcessStat stat = stat_of_process(pid);
  if (stat.state != 'Z' || !stat.wait_status) return std::nullopt;
  const int status = *stat.wait_status;
  if (WIFSIGNALED(status)) return Departure{Departure::How::kKilled, WTERMSIG(status)};
  return Departure{Departure::How::kExited, WEXITSTATUS(status)};
}

}  // namespace peal
