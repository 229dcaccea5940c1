// SPDX-License-Identifier: Apache-2.0
#include "simt/runtime/stream_calls.h"

#include <algorithm>

#include "simt/runtime/state.h"

namespace peal::simt::cuda {
namespace {

// CUDA's calls name no object that could own these.
Handles<WorkStream>& streams() {
  default_stream();  // outlives them
  static Handles<WorkStream> made;
  return made;
}
Handles<WorkGraph>& graphs() {
  static Handles<WorkGraph> captured;
  return captured;
}
Handles<WorkGraph>& ready_graphs() {
  static Handles<WorkGraph> instantiated;
  return instantiated;
}

}  // namespace

cudaStream_t legacy_stream() { return handle_of(default_stream()); }
cudaStream_t per_thread_stream() { return handle_of(stream_of_thread()); }

namespace calls {

cudaError_t cudaStreamCreate(cudaStream_t* stream) {
  return cudaStreamCreateWithFlags(stream, cudaStreamDefault);
}

cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned flags) {
  return call([&] {
    const bool known = flags == cudaStreamDefault || flags == cudaStreamNonBlocking;
    if (stream == nullptr || !known) return cudaErrorInvalidValue;
    const StreamKind kind =
        flags == cudaStreamDefault ? StreamKind::kBlocking : StreamKind::kIndependent;
    *stream = handle_of(*streams().add(std::make_shared<WorkStream>(kind)));
    return cudaSuccess;
  });
}

cudaError_t cudaStreamCreateWithPriority(cudaStream_t* stream, unsigned flags, int) {
  return cudaStreamCreateWithFlags(stream, flags);
}

cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  return call([&] {
    if (!may_wait()) return cudaErrorNotPermitted;
    return streams().take(stream) ? cudaSuccess : cudaErrorInvalidResourceHandle;
  });
}

cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
  return call_on(stream, [](WorkStream& on) { return wait_for(on); });
}

cudaError_t cudaStreamQuery(cudaStream_t stream) {
  bool ready = true;
  const cudaError_t error = call_on(stream, [&](WorkStream& on) {
    if (on.capturing()) return cudaErrorStreamCaptureUnsupported;
    ready = on.mark().reached();
    return broken();
  });
  return error == cudaSuccess && !ready ? cudaErrorNotReady : error;  // no error: not the last one
}

cudaError_t cudaStreamGetFlags(cudaStream_t stream, unsigned* flags) {
  return call_on(stream, [&](WorkStream& on) {
    if (flags == nullptr) return cudaErrorInvalidValue;
    *flags = on.kind() == StreamKind::kIndependent ? cudaStreamNonBlocking : cudaStreamDefault;
    return cudaSuccess;
  });
}

cudaError_t cudaStreamGetPriority(cudaStream_t stream, int* priority) {
  return call_on(stream, [&](WorkStream&) {
    if (priority == nullptr) return cudaErrorInvalidValue;
    *priority = 0;
    return cudaSuccess;
  });
}

cudaError_t cudaStreamAddCallback(cudaStream_t stream, cudaStreamCallback_t callback, void* data,
                                  unsigned flags) {
  return call_on(stream, [&](WorkStream& on) {
    if (callback == nullptr || flags != 0) return cudaErrorInvalidValue;
    if (on.capturing()) return cudaErrorStreamCaptureUnsupported;
    on.add([=] { callback(stream, cudaSuccess, data); });
    return cudaSuccess;
  });
}

cudaError_t cudaLaunchHostFunc(cudaStream_t stream, cudaHostFn_t function, void* data) {
  return call_on(stream, [&](WorkStream& on) {
    if (function == nullptr) return cudaErrorInvalidValue;
    on.add([=] { function(data); });
    return cudaSuccess;
  });
}

cudaError_t cudaStreamBeginCapture(cudaStream_t stream, cudaStreamCaptureMode mode) {
  return call_on(stream, [&](WorkStream& on) {
    if (mode > cudaStreamCaptureModeRelaxed) return cudaErrorInvalidValue;
    if (on.kind() == StreamKind::kDefault) return cudaErrorStreamCaptureUnsupported;
    if (on.capturing()) return cudaErrorIllegalState;
    on.begin_capture();
    return cudaSuccess;
  });
}

cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t* graph) {
  return call_on(stream, [&](WorkStream& on) {
    if (graph == nullptr) return cudaErrorInvalidValue;
    *graph = nullptr;
    if (!on.capturing()) return cudaErrorIllegalState;
    try {
      WorkGraph* const kept = graphs().add(std::make_shared<WorkGraph>(on.end_capture()));
      *graph = reinterpret_cast<cudaGraph_t>(kept);
      return cudaSuccess;
    } catch (const LaneError&) {
      return cudaErrorStreamCaptureUnmatched;
    }
  });
}

cudaError_t cudaStreamIsCapturing(cudaStream_t stream, cudaStreamCaptureStatus* status) {
  return call_on(stream, [&](WorkStream& on) {
    if (status == nullptr) return cudaErrorInvalidValue;
    *status = on.capturing() ? cudaStreamCaptureStatusActive : cudaStreamCaptureStatusNone;
    return cudaSuccess;
  });
}

cudaError_t cudaGraphInstantiate(cudaGraphExec_t* ready, cudaGraph_t graph,
                                 unsigned long long flags) {
  return call([&] {
    const auto captured = graphs().find(graph);
    if (ready == nullptr || !captured || flags != 0) return cudaErrorInvalidValue;
    WorkGraph* const kept = ready_graphs().add(std::make_shared<WorkGraph>(*captured));
    *ready = reinterpret_cast<cudaGraphExec_t>(kept);
    return cudaSuccess;
  });
}

cudaError_t cudaGraphInstantiate(cudaGraphExec_t* ready, cudaGraph_t graph, void* error_node,
                                 char* log, size_t log_bytes) {
  if (error_node != nullptr) std::fill_n(static_cast<char*>(error_node), sizeof(void*), '\0');
  if (log != nullptr && log_bytes != 0) *log = '\0';
  return cudaGraphInstantiate(ready, graph, 0ULL);
}

cudaError_t cudaGraphLaunch(cudaGraphExec_t ready, cudaStream_t stream) {
  return call_on(stream, [&](WorkStream& on) {
    const auto graph = ready_graphs().find(ready);
    if (!graph) return cudaErrorInvalidValue;
    graph->launch(on);
    return cudaSuccess;
  });
}

cudaError_t cudaGraphDestroy(cudaGraph_t graph) {
  return call([&] { return graphs().take(graph) ? cudaSuccess : cudaErrorInvalidValue; });
}

cudaError_t cudaGraphExecDestroy(cudaGraphExec_t ready) {
  return call([&] { return ready_graphs().take(ready) ? cudaSuccess : cudaErrorInvalidValue; });
}

}  // namespace calls
}  // namespace peal::simt::cuda
