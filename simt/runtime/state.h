// SPDX-License-Identifier: Apache-2.0
//
// What all calls of the CUDA runtime have in common: the last error, the kernel that failed, and
// how a kernel is started.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <new>
#include <utility>

#include "simt/lanes/launch.h"
#include "simt/runtime/errors.h"
#include "simt/runtime/stream.h"
#include "simt/runtime/types.h"

namespace peal::simt::cuda {

/// Starts `lane_body`, one object for all lanes, on `stream`. `kernel` is its name, or null: that
/// of grid.kernel. A grid that cannot run: a sentence on stderr and cudaErrorInvalidConfiguration,
/// which is the thread's last error. A kernel that fails later: the same sentence with the kernel's
/// name, and cudaErrorLaunchFailure from every call.
cudaError_t start(WorkStream& stream, const LaneGrid& grid, const char* kernel,
                  std::function<void()> lane_body);

/// As start(); in the kernel cooperative_groups::this_grid() may meet.
cudaError_t start_cooperative(WorkStream& stream, const LaneGrid& grid, const char* kernel,
                              std::function<void()> lane_body);

/// The stream of a handle; null for what is none.
WorkStream* stream_at(cudaStream_t handle);
inline cudaStream_t handle_of(WorkStream& stream) {
  return reinterpret_cast<cudaStream_t>(&stream);
}
/// The default stream of the calling thread alone.
WorkStream& stream_of_thread();

/// A kernel's assert() that failed: cudaErrorAssert instead of cudaErrorLaunchFailure.
class AssertionError : public LaneError {
 public:
  using LaneError::LaneError;
};

/// Keeps `error` as the thread's last unless it is none.
cudaError_t remember(cudaError_t error);
/// What ends all calls: a kernel's failure, or that this is a child of fork() whose parent has
/// streams; or cudaSuccess.
cudaError_t broken();
/// From now on broken(); the first says on stderr what `kernel` (or null) threw.
void break_with(const char* kernel, std::exception_ptr error);
void forget_failure();

/// What every call does around its own work, which answers an error.
template <class Work>
cudaError_t call(Work work) {
  cudaError_t error = broken();
  if (error != cudaSuccess) return error;
  try {
    error = work();
  } catch (const std::bad_alloc&) {
    error = cudaErrorMemoryAllocation;
  }
  return remember(error);
}

/// call() with the stream of a handle.
template <class Work>
cudaError_t call_on(cudaStream_t handle, Work work) {
  return call([&] {
    WorkStream* const stream = stream_at(handle);
    return stream == nullptr ? cudaErrorInvalidResourceHandle : work(*stream);
  });
}

/// False in kernels and in what streams call back: what they wait for may wait for them.
bool may_wait();

/// Waits for all that the stream was given; broken() if that failed.
cudaError_t wait_for(WorkStream& stream);

/// The objects that a program made and holds by their addresses. Thread-safe.
template <class T>
class Handles {
 public:
  T* add(std::shared_ptr<T> object) {
    const std::lock_guard lock(mutex_);
    T* const address = object.get();
    objects_.emplace(address, std::move(object));
    return address;
  }
  /// Null for an address of none.
  std::shared_ptr<T> find(const void* address) const {
    const std::lock_guard lock(mutex_);
    const auto found = objects_.find(address);
    return found == objects_.end() ? nullptr : found->second;
  }
  std::shared_ptr<T> take(const void* address) {
    const std::lock_guard lock(mutex_);
    const auto found = objects_.extract(address);
    return found.empty() ? nullptr : std::move(found.mapped());
  }

 private:
  mutable std::mutex mutex_;
  std::map<const void*, std::shared_ptr<T>> objects_;
};

}  // namespace peal::simt::cuda
