// SPDX-License-Identifier: Apache-2.0
//
// The flight recorder of a PE as a file of trace events, which Chrome, Perfetto and peal-trace
// read: a process for the PE, a track for each lane that called, an event for each call. Times are
// microseconds of the kernels' clock.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <string_view>

#include "device/context.h"
#include "host/contexts/recorder.h"

namespace peal {

/// Whose trace it is.
struct TraceOwner {
  int pe;
  int n_pes;
  std::string clock;  // PEs of one clock have the same text here
  const std::byte* heap;
  uint64_t heap_bytes;
  /// The number of a queue among those to its peer; -1 if it is not known.
  std::function<int(uint32_t slot, const void* queue)> queue_number;
};

/// The file's text.
std::string trace_text(const TraceOwner& owner, std::span<const Recorded> all);

/// PEAL_RECORD_FILE with its %r, %p and %% replaced.
std::string trace_path(std::string_view pattern, int pe, int64_t process);

/// Replaces the file. Throws kSystem that names it.
void write_trace(const std::string& path, std::string_view text);

/// "put_signal_nbi": the call by its name in device/api.h.
std::string name_of(const CallRecord::Body& call);
/// True where CallRecord::Body::value is what a wait wanted, or saw.
bool has_wanted(const CallRecord::Body& call);
const char* to_string(CallScope scope);

}  // namespace peal
