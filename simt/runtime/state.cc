// SPDX-License-Identifier: Apache-2.0
#include "simt/runtime/state.h"

#include <atomic>
#include <cstdio>
#include <string>

#include "simt/lanes/lane.h"
#include "simt/lanes/launch_state.h"
#include "simt/lanes/symbol.h"
#include "simt/runtime/grid_barrier.h"
#include "simt/simulation/simulation.h"

namespace peal::simt::cuda {
namespace {

// CUDA's calls name no object that could have these.
constinit thread_local cudaError_t last_error = cudaSuccess;
constinit std::atomic<cudaError_t> failure{cudaSuccess};  // of a kernel

void say(const char* kernel, const std::string& what) {
  const std::string who =
      kernel == nullptr ? std::string() : std::string("kernel ") + kernel + ": ";
  std::fprintf(stderr, "peal: %s%s\n", who.c_str(), what.c_str());
}

std::string text_of(const std::exception_ptr& error) {
  try {
    std::rethrow_exception(error);
  } catch (const std::exception& known) {
    return known.what();
  } catch (...) {
    return "it threw what is no std::exception";
  }
}

cudaError_t code_of(const std::exception_ptr& error) {
  try {
    std::rethrow_exception(error);
  } catch (const AssertionError&) {
    return cudaErrorAssert;
  } catch (...) {
    return cudaErrorLaunchFailure;
  }
}

// A look at the program's symbols takes its time: only where there is something to say.
std::string name_of(const std::string& given, const LaneGrid& grid) {
  if (!given.empty()) return given;
  const std::string found = function_at(reinterpret_cast<uintptr_t>(grid.kernel));
  return found.empty() ? "(unnamed)" : found;
}

// What CUDA answers of a grid that does not fit.
cudaError_t error_of(const LaneGrid& grid) {
  try {
    check_grid(grid);
  } catch (const LaneError&) {
    return grid.shared_bytes > kMaxSharedBytes ? cudaErrorInvalidValue
                                               : cudaErrorInvalidConfiguration;
  }
  return cudaErrorCooperativeLaunchTooLarge;
}

cudaError_t check(const LaneGrid& grid, const std::string& kernel) {
  try {
    if (in_kernel()) throw LaneError("launch: called from inside a kernel; only the host launches");
    grid.cooperative ? static_cast<void>(checked_lanes(grid, limits())) : check_grid(grid);
    return cudaSuccess;
  } catch (const LaneError& error) {
    say(name_of(kernel, grid).c_str(), error.what());
    return in_kernel() ? cudaErrorInvalidConfiguration : error_of(grid);
  }
}

}  // namespace

cudaError_t remember(cudaError_t error) {
  if (error != cudaSuccess) last_error = error;
  return error;
}

cudaError_t broken() {
  if (streams_are_parents()) return cudaErrorInitializationError;  // as CUDA in a child of fork()
  return failure;
}

void break_with(const char* kernel, std::exception_ptr error) {
  cudaError_t none = cudaSuccess;
  if (failure.compare_exchange_strong(none, code_of(error))) say(kernel, text_of(error));
}

void forget_failure() { failure = cudaSuccess; }

cudaError_t start(WorkStream& stream, const LaneGrid& grid, const char* kernel,
                  std::function<void()> lane_body) {
  return call([&] {
    const std::string given = kernel == nullptr ? "" : kernel;
    if (const cudaError_t error = check(grid, given); error != cudaSuccess) return error;
    stream.add([grid, given, body = std::move(lane_body)] {
      try {
        launch_and_wait(grid, body);
      } catch (...) {
        break_with(name_of(given, grid).c_str(), std::current_exception());
        throw;
      }
    });
    return cudaSuccess;
  });
}

cudaError_t start_cooperative(WorkStream& stream, const LaneGrid& asked, const char* kernel,
                              std::function<void()> lane_body) {
  LaneGrid grid = asked;
  grid.cooperative = true;
  const auto lanes = grid.blocks.count() * grid.threads.count();
  // A graph runs it again, so each run brings the barrier back to where it began.
  const auto barrier = std::make_shared<GridBarrier>(lanes);
  return start(stream, grid, kernel, [barrier, body = std::move(lane_body)] {
    const GridBarrier::Member member(*barrier);
    body();
  });
}

WorkStream* stream_at(cudaStream_t handle) {
  if (handle == nullptr) return &default_stream();
  if (!WorkStream::exists(handle)) return nullptr;
  return reinterpret_cast<WorkStream*>(handle);
}

WorkStream& stream_of_thread() {
  default_stream();  // outlives the main thread's
  if (in_simulation()) return simulated_stream(StreamKind::kBlocking);
  thread_local std::map<unsigned, WorkStream> of_devices;
  return of_devices.try_emplace(device_in_use(), StreamKind::kBlocking).first->second;
}

bool may_wait() { return !in_kernel() && !on_stream_thread(); }

cudaError_t wait_for(WorkStream& stream) {
  if (!may_wait()) return cudaErrorNotPermitted;
  if (stream.capturing()) return cudaErrorStreamCaptureUnsupported;
  try {
    stream.synchronize();
  } catch (...) {
    break_with(nullptr, std::current_exception());
  }
  return broken();
}

namespace calls {

const char* cudaGetErrorName(cudaError_t error) {
  switch (error) {
#define PEAL_SIMT_NAME(NAME, NUMBER, TEXT) \
  case NAME:                               \
    return #NAME;
    PEAL_SIMT_CUDA_ERRORS(PEAL_SIMT_NAME)
#undef PEAL_SIMT_NAME
  }
  return "unrecognized error code";
}

const char* cudaGetErrorString(cudaError_t error) {
  switch (error) {
#define PEAL_SIMT_TEXT(NAME, NUMBER, TEXT) \
  case NAME:                               \
    return TEXT;
    PEAL_SIMT_CUDA_ERRORS(PEAL_SIMT_TEXT)
#undef PEAL_SIMT_TEXT
  }
  return "unrecognized error code";
}

cudaError_t cudaPeekAtLastError() { return broken() == cudaSuccess ? last_error : broken(); }

cudaError_t cudaGetLastError() {
  const cudaError_t error = cudaPeekAtLastError();
  last_error = cudaSuccess;
  return error;
}

}  // namespace calls
}  // namespace peal::simt::cuda
