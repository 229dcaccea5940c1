// SPDX-License-Identifier: Apache-2.0
#include "host/failures/history.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <span>

#include "host/base/call_names.h"
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

}  // namespace

const char* to_string(CallScope scope) {
  static constexpr const char* kNames[] = {"thread", "warp", "block", "grid"};
  return kNames[static_cast<size_t>(scope) % std::size(kNames)];
}

std::string name_of(const CallRecord::Body& call) {
  return std::string(to_string(call.call)) + (call.starts != 0 ? "_nbi" : "");
}

bool has_wanted(const CallRecord::Body& call) {
  return call.call == Call::kWaitUntil || call.call == Call::kSignalWaitUntil;
}

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

}  // namespace peal
