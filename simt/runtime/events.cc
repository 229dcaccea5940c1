// SPDX-License-Identifier: Apache-2.0
//
// Events: a mark in a stream, and when the stream came there.
#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>

#include "base/clock.h"
#include "simt/runtime/state.h"
#include "simt/runtime/stream_calls.h"

namespace peal::simt::cuda {
namespace {

class Event {
 public:
  /// Where it was last recorded.
  struct Record {
    std::optional<Mark> mark;          // none: nowhere, or in a capture
    std::shared_ptr<Capture> capture;  // null: in none
    std::shared_ptr<std::atomic<uint64_t>> time_ns;

    bool reached() const { return !mark || mark->reached(); }
  };

  explicit Event(bool timed) : timed_(timed) {}
  bool timed() const { return timed_; }

  void record(WorkStream& stream) {
    Record next;
    next.capture = stream.capture();
    if (!next.capture) {
      next.time_ns = std::make_shared<std::atomic<uint64_t>>(0);
      stream.add([time_ns = next.time_ns] { *time_ns = monotonic_ns(); });
      next.mark = stream.mark();
    }
    const std::lock_guard lock(mutex_);
    record_ = std::move(next);
  }
  Record recorded() const {
    const std::lock_guard lock(mutex_);
    return record_;
  }

 private:
  const bool timed_;
  mutable std::mutex mutex_;  // guards what follows
  Record record_;
};

// CUDA's calls name no object that could own these.
Handles<Event>& events() {
  static Handles<Event> made;
  return made;
}

// call() with what an event recorded last.
template <class Work>
cudaError_t call_at(cudaEvent_t handle, Work work) {
  return call([&] {
    const auto event = events().find(handle);
    return event ? work(event->recorded()) : cudaErrorInvalidResourceHandle;
  });
}

// The stream takes part in the event's capture from now on.
cudaError_t join(WorkStream& stream, const std::shared_ptr<Capture>& capture) {
  const auto own = stream.capture();
  if (own == capture) return cudaSuccess;
  if (own) return cudaErrorStreamCaptureMerge;
  if (stream.kind() == StreamKind::kDefault) return cudaErrorStreamCaptureImplicit;
  stream.join(capture);
  return cudaSuccess;
}

}  // namespace

namespace calls {

cudaError_t cudaEventCreate(cudaEvent_t* event) {
  return cudaEventCreateWithFlags(event, cudaEventDefault);
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned flags) {
  return call([&] {
    constexpr unsigned kKnown = cudaEventBlockingSync | cudaEventDisableTiming;
    if (event == nullptr || (flags & ~(kKnown | cudaEventInterprocess)) != 0) {
      return cudaErrorInvalidValue;
    }
    if ((flags & cudaEventInterprocess) != 0) return cudaErrorNotSupported;
    const bool timed = (flags & cudaEventDisableTiming) == 0;
    *event = reinterpret_cast<cudaEvent_t>(events().add(std::make_shared<Event>(timed)));
    return cudaSuccess;
  });
}

cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
  return call_on(stream, [&](WorkStream& on) {
    const auto found = events().find(event);
    if (!found) return cudaErrorInvalidResourceHandle;
    found->record(on);
    return cudaSuccess;
  });
}

cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned flags) {
  return call_on(stream, [&](WorkStream& on) {
    const auto found = events().find(event);
    if (!found) return cudaErrorInvalidResourceHandle;
    if (flags != cudaEventWaitDefault) return cudaErrorInvalidValue;
    const Event::Record record = found->recorded();
    if (record.capture) return join(on, record.capture);
    if (!record.mark) return cudaSuccess;
    if (on.capturing()) return cudaErrorStreamCaptureIsolation;
    on.follow(*record.mark);
    return cudaSuccess;
  });
}

cudaError_t cudaEventSynchronize(cudaEvent_t event) {
  return call_at(event, [](const Event::Record& record) {
    if (!may_wait()) return cudaErrorNotPermitted;
    if (record.capture) return cudaErrorCapturedEvent;
    if (record.mark) record.mark->wait();
    return broken();
  });
}

cudaError_t cudaEventQuery(cudaEvent_t event) {
  bool ready = true;
  const cudaError_t error = call_at(event, [&](const Event::Record& record) {
    if (record.capture) return cudaErrorCapturedEvent;
    ready = record.reached();
    return broken();
  });
  return error == cudaSuccess && !ready ? cudaErrorNotReady : error;  // no error: not the last one
}

cudaError_t cudaEventElapsedTime(float* milliseconds, cudaEvent_t from, cudaEvent_t to) {
  bool ready = true;
  const cudaError_t error = call([&] {
    const auto first = events().find(from);
    const auto last = events().find(to);
    if (milliseconds == nullptr) return cudaErrorInvalidValue;
    if (!first || !last || !first->timed() || !last->timed()) return cudaErrorInvalidResourceHandle;
    const Event::Record begin = first->recorded();
    const Event::Record end = last->recorded();
    if (begin.capture || end.capture) return cudaErrorCapturedEvent;
    if (!begin.mark || !end.mark) return cudaErrorInvalidResourceHandle;
    ready = begin.reached() && end.reached();
    if (!ready) return cudaSuccess;
    const auto nanoseconds = static_cast<int64_t>(*end.time_ns - *begin.time_ns);
    *milliseconds = static_cast<float>(static_cast<double>(nanoseconds) / 1e6);
    return broken();
  });
  return error == cudaSuccess && !ready ? cudaErrorNotReady : error;  // no error: not the last one
}

cudaError_t cudaEventDestroy(cudaEvent_t event) {
  return call([&] { return events().take(event) ? cudaSuccess : cudaErrorInvalidResourceHandle; });
}

}  // namespace calls
}  // namespace peal::simt::cuda
