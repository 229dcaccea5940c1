// SPDX-License-Identifier: Apache-2.0
#include "host/failures/counters.h"

#include <fmt/format.h>

#include "host/failures/history.h"

namespace peal {
namespace {

bool waits_for(CallKind kind) {
  switch (kind) {
    case CallKind::kSeen:
    case CallKind::kWait:
    case CallKind::kQuiet:
    case CallKind::kFence:
    case CallKind::kSync:
    case CallKind::kBarrier:
    case CallKind::kCollective:
    case CallKind::kTeamBarrier:
      return true;
    default:
      return false;
  }
}

template <class Counts>
uint64_t sum(const Counters& counters, bool waits_only, Counts&& what) {
  uint64_t all = 0;
  for (size_t i = 0; i < counters.by_kind.size(); ++i) {
    if (!waits_only || waits_for(static_cast<CallKind>(i))) all += what(counters.by_kind[i]);
  }
  return all;
}

}  // namespace

uint64_t Counters::calls() const {
  return sum(*this, false, [](const CallCount& c) { return c.calls; });
}
uint64_t Counters::waits() const {
  return sum(*this, true, [](const CallCount& c) { return c.calls; });
}
uint64_t Counters::wait_ns() const {
  return sum(*this, true, [](const CallCount& c) { return c.time_ns; });
}
uint64_t Counters::timeouts() const {
  return sum(*this, false, [](const CallCount& c) { return c.timeouts; });
}
uint64_t Counters::failed() const {
  return sum(*this, false, [](const CallCount& c) { return c.failed; });
}

std::string describe(const Counters& counters) {
  std::string text = fmt::format(
      "context {}: {} calls, {} bytes put, {} got, {:.3g} ms in {} waits, {} looks in vain, WQEBBs "
      "{} posted, {} rung, {} completed\n",
      counters.context, counters.calls(), counters.bytes_put(), counters.bytes_got(),
      static_cast<double>(counters.wait_ns()) / 1e6, counters.waits(), counters.looks,
      counters.posted_blocks, counters.rung_blocks, counters.completed_blocks);
  for (size_t i = 0; i < counters.by_kind.size(); ++i) {
    const CallCount& one = counters.by_kind[i];
    if (one.calls == 0) continue;
    text +=
        fmt::format("  {:<15} {:>10} calls {:>14} bytes {:>10.3g} ms {:>6} timeouts {:>6} failed\n",
                    to_string(static_cast<CallKind>(i)), one.calls, one.bytes,
                    static_cast<double>(one.time_ns) / 1e6, one.timeouts, one.failed);
  }
  return text;
}

}  // namespace peal
