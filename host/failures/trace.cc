// SPDX-License-Identifier: Apache-2.0
#include "host/failures/trace.h"

#include <fmt/format.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <iterator>
#include <map>
#include <tuple>

#include "base/files.h"
#include "device/shared/call_names.h"
#include "host/base/error.h"
#include "host/contexts/usage_text.h"

namespace peal {
namespace {

// Quotes texts that peal makes: names of functions and files.
std::string json_text(std::string_view text) {
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') out += '\\';
    if (static_cast<unsigned char>(c) < 0x20) continue;
    out += c;
  }
  return out + '"';
}

std::string microseconds(uint64_t ns) { return fmt::format("{}.{:03}", ns / 1000, ns % 1000); }

// An address so that it says the same on all PEs, where it is symmetric.
std::string place_in(const TraceOwner& owner, const void* address) {
  const uint64_t offset =
      reinterpret_cast<uint64_t>(address) - reinterpret_cast<uint64_t>(owner.heap);
  if (offset < owner.heap_bytes) return fmt::format("\"heap+{:#x}\"", offset);
  return fmt::format("\"{:#x}\"", reinterpret_cast<uint64_t>(address));
}

class Writer {
 public:
  explicit Writer(const TraceOwner& owner) : owner_(owner) {}

  void add(const Recorded& recorded) {
    for (const CallRecord& call : recorded.calls) add(recorded.slot, call.body);
  }

  std::string text(uint64_t overwritten) const {
    return fmt::format(
        "{{\"displayTimeUnit\":\"ns\",\"peal\":{{\"version\":1,\"pe\":{},\"pes\":{},\"clock\":{},"
        "\"overwritten\":{}}},\n\"traceEvents\":[\n{{\"ph\":\"M\",\"name\":\"process_name\","
        "\"pid\":{},\"args\":{{\"name\":\"PE {}\"}}}}{}\n]}}\n",
        owner_.pe, owner_.n_pes, json_text(owner_.clock), overwritten, owner_.pe, owner_.pe,
        events_);
  }

 private:
  using Lane = std::tuple<uint32_t, uint64_t, uint32_t, uint32_t>;  // slot, kernel, block, thread

  // A lane makes one call at a time: calls on its track do not overlap.
  size_t track_of(uint32_t slot, const LaneName& lane) {
    const auto [found, first] =
        tracks_.try_emplace({slot, lane.kernel, lane.block, lane.thread}, tracks_.size() + 1);
    if (first) {
      events_ += fmt::format(
          ",\n{{\"ph\":\"M\",\"name\":\"thread_name\",\"pid\":{},\"tid\":{},\"args\":{{\"name\":{}}"
          "}}}",
          owner_.pe, found->second, json_text(fmt::format("context {}, {}", slot, describe(lane))));
    }
    return found->second;
  }

  std::string arguments(uint32_t slot, const CallRecord::Body& call) const {
    std::string text =
        fmt::format("\"context\":{},\"scope\":{}", slot, json_text(to_string(call.scope)));
    const auto add = [&](const char* name, const auto& value) {
      text += fmt::format(",\"{}\":{}", name, value);
    };
    if (call.pe >= 0) add("pe", call.pe);
    if (call.there != nullptr) add("at", place_in(owner_, call.there));
    if (call.bytes != 0) add("bytes", call.bytes);
    if (call.word != nullptr) {
      add("signal", place_in(owner_, call.word));
      add("adds", call.adds);
    }
    if (call.word != nullptr) add("value", call.value);
    if (has_wanted(call)) add(call.number != 0 ? "saw" : "wanted", call.value);
    const bool numbered = is_collective(call.call) || call.number != 0;  // the world team is 0
    if (numbered && !has_wanted(call)) add("number", call.number);
    if (call.queue != nullptr) {
      add("queue", owner_.queue_number(slot, call.queue));
      add("wqe", call.index);
    }
    add("lane", json_text(describe(call.lane, call.place)));
    if (call.ended_ns != 0)
      add("status", json_text(peal::to_string(static_cast<Status>(call.status))));
    return text;
  }

  // A call that lasts has a beginning and no end.
  void add(uint32_t slot, const CallRecord::Body& call) {
    const size_t track = track_of(slot, call.lane);
    const std::string length =
        call.ended_ns == 0 ? "" : ",\"dur\":" + microseconds(call.ended_ns - call.begun_ns);
    events_ += fmt::format(
        ",\n{{\"ph\":\"{}\",\"name\":{},\"cat\":{},\"pid\":{},\"tid\":{},\"ts\":{}{},\"args\":{{{}}"
        "}}}",
        call.ended_ns == 0 ? "B" : "X", json_text(name_of(call)), json_text(to_string(call.call)),
        owner_.pe, track, microseconds(call.begun_ns), length, arguments(slot, call));
  }

  const TraceOwner& owner_;
  std::map<Lane, size_t> tracks_;
  std::string events_;
};

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

std::string trace_text(const TraceOwner& owner, std::span<const Recorded> all) {
  Writer writer(owner);
  uint64_t overwritten = 0;
  for (const Recorded& one : all) {
    writer.add(one);
    overwritten += one.overwritten;
  }
  return writer.text(overwritten);
}

std::string trace_path(std::string_view pattern, int pe, int64_t process) {
  std::string path;
  for (size_t i = 0; i < pattern.size(); ++i) {
    if (pattern[i] != '%' || i + 1 == pattern.size()) {
      path += pattern[i];
      continue;
    }
    const char what = pattern[++i];
    path += what == 'r' ? std::to_string(pe) : what == 'p' ? std::to_string(process) : "%";
  }
  return path;
}

void write_trace(const std::string& path, std::string_view text) {
  if (write_file(path, text)) return;
  fail(ErrorCode::kSystem,
       "PEAL_RECORD_FILE: {}: {}; name a file in a folder that this process may write to", path,
       std::strerror(errno));
}

}  // namespace peal
