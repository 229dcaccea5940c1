// SPDX-License-Identifier: Apache-2.0
#include "host/failures/flight_log.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <span>
#include <utility>

#include "device/shared/call_names.h"
#include "host/base/error.h"
#include "host/base/place.h"
#include "host/contexts/usage_text.h"

namespace peal {
namespace {

std::string time_text(uint64_t ns) {
  const auto value = static_cast<double>(ns);
  if (ns < 1'000'000) return fmt::format("{:.3g} us", value / 1e3);
  if (ns < 1'000'000'000) return fmt::format("{:.3g} ms", value / 1e6);
  return fmt::format("{:.3g} s", value / 1e9);
}

// What the call is about: "64 bytes to byte 0 of ... at PE 1, signal set 3 at ...".
std::string object_of(const CallRecord::Body& call, const PlaceOf& place_of) {
  std::string text;
  if (call.there != nullptr)
    text += fmt::format(", {} bytes at {}", call.bytes, place_of(call.there));
  if (call.pe >= 0 && !is_of_words(call.call)) text += fmt::format(", PE {}", call.pe);
  if (call.word != nullptr) {
    text += fmt::format(", signal {} {}", call.adds != 0 ? "add" : "set", call.value);
    if (call.word != call.there) text += fmt::format(" at {}", place_of(call.word));
  }
  if (has_wanted(call)) {
    text += fmt::format(", {} {}", call.number != 0 ? "saw" : "wanted", call.value);
  }
  if (is_of_all(call.call)) {
    if (call.ended_ns != 0) text += fmt::format(", number {}", call.number);
  } else if (is_collective(call.call)) {
    text += fmt::format(", team {:#x}", call.number);
  }
  return text;
}

// `now_ns`: the time of the newest of them.
std::string line_of(const CallRecord::Body& call, const ContextOwner* context,
                    const PlaceOf& place_of, uint64_t now_ns) {
  std::string text =
      fmt::format("  {:>9} before: {}{}; {}", time_text(now_ns - call.begun_ns), name_of(call),
                  object_of(call, place_of), describe(call.lane, call.place));
  if (call.scope != CallScope::kThread) text += fmt::format(" for its {}", to_string(call.scope));
  const int queue = context == nullptr ? -1 : context->queue_number(call.queue);
  if (queue >= 0) text += fmt::format("; queue {}, WQE {}", queue, call.index);
  if (call.ended_ns == 0) return text + "; under way\n";
  return text + fmt::format("; {} after {}\n", to_string(static_cast<Status>(call.status)),
                            time_text(call.ended_ns - call.begun_ns));
}

// The last kLastCalls of a ring, the newest last, a line each below a heading; "" where there are
// none and kernels could have written some. `context` is the slot's, or null once it was dropped.
constexpr size_t kLastCalls = 16;
std::string describe_last(const Recorded& recorded, const ContextOwner* context,
                          const PlaceOf& place_of) {
  if (!recorded.ran && context != nullptr) {
    return fmt::format(
        "context {}: no kernel has written into the flight recorder: none has called, or on a GPU "
        "none was compiled with -DPEAL_RECORD=1\n",
        recorded.slot);
  }
  const size_t shown = std::min(recorded.calls.size(), kLastCalls);
  const std::span<const CallRecord> last = std::span(recorded.calls).last(shown);
  if (last.empty()) return "";
  uint64_t now_ns = 0;
  for (const CallRecord& call : last) {
    now_ns = std::max({now_ns, call.body.begun_ns, call.body.ended_ns});
  }
  std::string text = fmt::format("context {}: its last {} of {} calls\n", recorded.slot, shown,
                                 recorded.calls.size() + recorded.overwritten);
  for (const CallRecord& call : last) text += line_of(call.body, context, place_of, now_ns);
  return text;
}

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

FlightLog::FlightLog(Dependencies dependencies) : dependencies_(std::move(dependencies)) {
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
    Counters counters{.context = one.slot,
                      .ran = one.ran,
                      .by_call = one.count,
                      .looks = one.looks,
                      .posts = one.posts};
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
    if (one.ran || one.of(PostStage::kReserve).passes != 0) text += describe(one);
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

std::string describe(const PostTimes& posts) {
  constexpr const char* kNames[kPostStages] = {"reserve", "write", "hand over", "doorbell",
                                               "completion"};
  std::string text;
  for (size_t i = 0; i < kPostStages; ++i) {
    const StageTime& one = posts.stage[i];
    if (one.passes == 0) continue;
    const auto ns = static_cast<double>(one.time_ns);
    text += fmt::format("  post: {:<13} {:>8} times {:>23.3g} ms {:>7.0f} ns each\n", kNames[i],
                        one.passes, ns / 1e6, ns / static_cast<double>(one.passes));
  }
  return text;
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
  return text + describe(counters.posts);
}

}  // namespace peal
