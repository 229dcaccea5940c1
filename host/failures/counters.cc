// SPDX-License-Identifier: Apache-2.0
#include "host/failures/counters.h"

#include <fmt/format.h>

#include "host/base/call_names.h"

namespace peal {
namespace {

bool any_call(Call) { return true; }

template <class Counts>
uint64_t sum(const Counters& counters, bool (*of)(Call), Counts&& what) {
  uint64_t all = 0;
  for (size_t i = 0; i < counters.by_call.size(); ++i) {
    if (of(static_cast<Call>(i))) all += what(counters.by_call[i]);
  }
  return all;
}

}  // namespace

uint64_t Counters::calls() const {
  return sum(*this, any_call, [](const CallCount& c) { return c.calls; });
}
uint64_t Counters::bytes_put() const {
  return of(Call::kPut).bytes + of(Call::kPutSignal).bytes + of(Call::kP).bytes;
}
uint64_t Counters::bytes_got() const { return of(Call::kGet).bytes + of(Call::kG).bytes; }
uint64_t Counters::waits() const {
  return sum(*this, peal::waits, [](const CallCount& c) { return c.calls; });
}
uint64_t Counters::wait_ns() const {
  return sum(*this, peal::waits, [](const CallCount& c) { return c.time_ns; });
}
uint64_t Counters::timeouts() const {
  return sum(*this, any_call, [](const CallCount& c) { return c.timeouts; });
}
uint64_t Counters::failed() const {
  return sum(*this, any_call, [](const CallCount& c) { return c.failed; });
}

std::string describe(const Counters& counters) {
  std::string text = fmt::format(
      "context {}: {} calls, {} bytes put, {} got, {:.3g} ms in {} waits, {} looks in vain, WQEBBs "
      "{} posted, {} rung, {} completed\n",
      counters.context, counters.calls(), counters.bytes_put(), counters.bytes_got(),
      static_cast<double>(counters.wait_ns()) / 1e6, counters.waits(), counters.looks,
      counters.posted_blocks, counters.rung_blocks, counters.completed_blocks);
  for (size_t i = 0; i < counters.by_call.size(); ++i) {
    const CallCount& one = counters.by_call[i];
    if (one.calls == 0) continue;
    text +=
        fmt::format("  {:<19} {:>8} calls {:>12} bytes {:>10.3g} ms {:>6} timeouts {:>6} failed\n",
                    to_string(static_cast<Call>(i)), one.calls, one.bytes,
                    static_cast<double>(one.time_ns) / 1e6, one.timeouts, one.failed);
  }
  return text;
}

}  // namespace peal
