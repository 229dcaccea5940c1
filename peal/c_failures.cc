// SPDX-License-Identifier: Apache-2.0
//
// Failures and counters as C has them. What pointers lead to belongs to the thread that asked.
#include "peal/c_failures.h"

#include <vector>

#include "device/shared/call_names.h"
#include "peal/c_guard.h"

using peal::c::guarded;
using peal::c::initialised;
using peal::c::require_place;

int peal_failure(peal_failure_t* failure) {
  return guarded(-1, [&] {
    thread_local peal::Failure told;
    require_place("peal_failure", "failure", failure);
    told = initialised("peal_failure").failure();
    *failure = {.status = static_cast<int>(told.status),
                .status_name = peal::to_string(told.status),
                .pe = told.pe,
                .context = told.context,
                .queue = told.queue,
                .wqe_index = told.wqe_index,
                .opcode = told.opcode,
                .syndrome = told.syndrome,
                .vendor_syndrome = told.vendor_syndrome,
                .time_ns = told.time_ns,
                .nic = told.nic.c_str(),
                .text = told.text.c_str()};
    return 0;
  });
}

namespace {

std::vector<peal_call_count_t> calls_of(const peal::Counters& counters) {
  std::vector<peal_call_count_t> found;
  for (size_t i = 0; i < counters.by_call.size(); ++i) {
    const peal::CallCount& one = counters.by_call[i];
    if (one.calls == 0) continue;
    found.push_back({peal::to_string(static_cast<peal::Call>(i)), one.calls, one.bytes, one.time_ns,
                     one.timeouts, one.failed});
  }
  return found;
}

/// Its rows point into its lists.
struct Told {
  std::vector<std::vector<peal_call_count_t>> calls;
  std::vector<peal_counters_t> contexts;
};

}  // namespace

int peal_counters(const peal_counters_t** contexts) {
  return guarded(-1, [&] {
    thread_local Told told;
    require_place("peal_counters", "contexts", contexts);
    const std::vector<peal::Counters> found = initialised("peal_counters").counters();
    told = {};
    for (const peal::Counters& one : found) {
      const auto& calls = told.calls.emplace_back(calls_of(one));
      told.contexts.push_back({one.context, one.ran ? 1 : 0, one.looks, one.posted_blocks,
                               one.rung_blocks, one.completed_blocks, calls.data(), calls.size()});
    }
    *contexts = told.contexts.data();
    return static_cast<int>(told.contexts.size());
  });
}
