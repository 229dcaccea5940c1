// SPDX-License-Identifier: Apache-2.0
#include "host/calls/files.h"

#include <fmt/format.h>

#include <exception>
#include <utility>

#include "base/clock.h"
#include "host/base/error.h"
#include "host/storage/whole_files.h"

namespace peal {

storage::Engine& Files::engine() {
  std::call_once(once_, [&] {
    engine_.emplace(options_, gpu_);
    made_ = true;
  });
  return *engine_;
}

storage::MemoryRange Files::memory_for(const char* call, const void* symmetric,
                                       size_t bytes) const {
  auto* const address = static_cast<std::byte*>(const_cast<void*>(symmetric));
  if (bytes == 0) return {address, 0};
  const Windows::Range& range = memory_.holding(call, symmetric, bytes);
  const bool on_gpu = gpu_ && gpu_->holds(symmetric);
  return {address, bytes, on_gpu, range.begin, range.bytes};
}

void Files::forget_memory(const void* address) {
  if (made_) engine_->forget(static_cast<const std::byte*>(address));
}

void Files::start(Executor& executor, void* stream, const detail::FileCall& call) {
  const char* const name = call.saves ? "save on a stream" : "load on a stream";
  const storage::MemoryRange memory = memory_for(name, call.memory, call.bytes);
  if (executor.capturing(stream)) {
    fail(ErrorCode::kUnsupported,
         "{}: it captures a graph, and files cannot be part of one: call it before or after", name);
  }
  storage::Engine& files = engine();
  if (!memory.on_gpu) {
    executor.host_work({[this, call, memory](StreamCopies&) { move(call, memory, nullptr); }},
                       stream);
    return;
  }
  // While the stream waits nothing may be pinned: that can wait for the stream.
  const auto staging = files.stage(call.saves ? 0 : call.offset, memory);
  executor.host_work({.work =
                          [this, call, memory, staging](StreamCopies& copies) {
                            const storage::ByStream by{*staging, copies};
                            move(call, memory, &by);
                          },
                      .copies = staging->copies(!call.saves),
                      .buffers = options_.threads},
                     stream);
}

void Files::move(const detail::FileCall& call, const storage::MemoryRange& memory,
                 const storage::ByStream* stream) {
  std::string why;
  try {
    if (call.saves) {
      storage::save(*engine_, call.path, memory, stream);
    } else {
      storage::load(*engine_, call.path, call.offset, memory, stream);
    }
    return;
  } catch (const std::exception& error) {
    why = fmt::format("{} of {} on a stream: {}", call.saves ? "save" : "load", call.path,
                      error.what());
  }
  contexts_.report({.status = Status::kAborted, .time_ns = monotonic_ns(), .text = std::move(why)});
}

}  // namespace peal
