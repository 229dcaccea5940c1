// SPDX-License-Identifier: Apache-2.0
#include "host/failures/flight_log.h"

#include <fmt/format.h>
#include <unistd.h>

#include <string_view>
#include <utility>

#include "host/base/error.h"
#include "host/base/place.h"
#include "host/failures/history.h"

namespace peal {

FlightLog::FlightLog(Dependencies parts) : dependencies_(std::move(parts)) {
  const std::string& pattern = dependencies_.config.record_file;
  if (pattern.empty()) return;
  check_settings();
  path_ = trace_path(pattern, dependencies_.group.rank(), ::getpid());
  write();
}

void FlightLog::check_settings() const {
  const std::string& pattern = dependencies_.config.record_file;
  if (!dependencies_.recorder.on()) {
    fail(ErrorCode::kConfiguration,
         "PEAL_RECORD_FILE=\"{}\", but the flight recorder is off: set PEAL_RECORD to how many "
         "calls it shall keep, such as 4096",
         pattern);
  }
  // "%%r" is no %r.
  if (dependencies_.group.size() > 1 && trace_path(pattern, 0, 0) == trace_path(pattern, 1, 0)) {
    fail(ErrorCode::kConfiguration,
         "PEAL_RECORD_FILE=\"{}\" is one file for all {} PEs: put %r, the PE, into its name",
         pattern, dependencies_.group.size());
  }
}

// PEs of a host whose kernels run on CPUs read one clock. Each GPU has its own.
std::string FlightLog::clock() const {
  if (dependencies_.on_gpu) return fmt::format("globaltimer of PE {}", dependencies_.group.rank());
  const Place& here = dependencies_.group.places()[static_cast<size_t>(dependencies_.group.rank())];
  return fmt::format("CLOCK_MONOTONIC of {}", here.boot_id.data());
}

std::string FlightLog::last_calls(int context) const {
  std::string text;
  for (const Recorded& one : dependencies_.recorder.read_all()) {
    if (context >= 0 && one.slot != static_cast<uint32_t>(context)) continue;
    text += describe_last(one, dependencies_.table.at(one.slot).get(), dependencies_.place_of);
  }
  return text;
}

std::vector<Counters> FlightLog::counters() const {
  std::vector<Counters> all;
  for (const Recorded& one : dependencies_.recorder.read_all()) {
    Counters counters{
        .context = one.slot, .ran = one.ran, .by_call = one.count, .looks = one.looks};
    const auto context = dependencies_.table.at(one.slot);
    const auto* const links = context == nullptr ? nullptr : context->links();
    for (uint32_t i = 0; links != nullptr && i < links->queues().count(); ++i) {
      const auto progress = links->queues().progress(i);
      counters.posted_blocks += progress.published;
      counters.rung_blocks += progress.rung;
      counters.completed_blocks += progress.completed;
    }
    all.push_back(counters);
  }
  return all;
}

std::string FlightLog::describe_counters() const {
  std::string text;
  for (const Counters& one : counters()) {
    if (one.ran) text += describe(one);
  }
  return text;
}

void FlightLog::write() const {
  if (path_.empty()) return;
  const TraceOwner owner{.pe = dependencies_.group.rank(),
                         .n_pes = dependencies_.group.size(),
                         .clock = clock(),
                         .heap = dependencies_.heap,
                         .heap_bytes = dependencies_.heap_bytes,
                         .queue_number = [this](uint32_t slot, const void* queue) {
                           const auto context = dependencies_.table.at(slot);
                           return context == nullptr ? -1 : context->queue_number(queue);
                         }};
  write_trace(path_, trace_text(owner, dependencies_.recorder.read_all()));
}

}  // namespace peal
