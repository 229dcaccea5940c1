// SPDX-License-Identifier: Apache-2.0
#include "simt/runtime/syntax.h"

#include <cstdio>
#include <exception>
#include <string>

#include "simt/lanes/launch.h"
#include "simt/runtime/state.h"

namespace peal::simt::cuda {
namespace {

// The innermost of this thread.
thread_local Configured* configured = nullptr;

}  // namespace

Configured::Configured(const Dim3& blocks, const Dim3& threads, size_t shared_bytes,
                       cudaStream_t stream)
    : blocks_(blocks),
      threads_(threads),
      shared_bytes_(shared_bytes),
      stream_(stream),
      outer_(configured) {
  if (in_kernel()) {
    throw LaneError("<<<...>>> in a kernel: kernels that start kernels do not run on a CPU");
  }
  configured = this;
}

Configured::~Configured() {
  configured = outer_;
  if (taken_ || std::uncaught_exceptions() != 0) return;
  std::fputs("peal-cc: <<<...>>>: what was called is no kernel that peal-cc compiled\n", stderr);
  remember(cudaErrorInvalidDeviceFunction);
}

void start_configured(const char* kernel, const void* code, std::function<void()> body) {
  Configured* of = configured;
  while (of != nullptr && of->taken_) of = of->outer_;
  if (of == nullptr) {
    throw LaneError("kernel " + std::string(kernel) + ": called by the host without <<<...>>>");
  }
  of->taken_ = true;
  WorkStream* const stream = stream_at(of->stream_);
  if (stream == nullptr) {
    remember(cudaErrorInvalidResourceHandle);
    return;
  }
  start(*stream, {of->blocks_, of->threads_, of->shared_bytes_, code}, kernel, std::move(body));
}

}  // namespace peal::simt::cuda
