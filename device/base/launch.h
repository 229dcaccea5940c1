// SPDX-License-Identifier: Apache-2.0
//
// Starting a kernel, the same way on a GPU and on a CPU.
//
//   peal::launch({.blocks = 4, .threads = 256}, kernel, ctx, data).wait();
//   peal::launch({.threads = 32, .stream = stream}, kernel, ctx, data);      // a Stream, stream.h
#pragma once

#include <cstddef>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>

#include "device/base/target.h"

#if PEAL_CUDA
#include <cuda_runtime_api.h>
#else
#include "simt/lanes/launch.h"
#include "simt/runtime/stream.h"
#endif

namespace peal {

#if PEAL_CUDA

using Dim = dim3;

/// A kernel on its way. wait() returns when it has ended and throws if it failed.
class Launch {
 public:
  explicit Launch(cudaStream_t stream) : stream_(stream) {}
  /// Returns when the kernel has ended; throws if it failed.
  void wait() const {
    const cudaError_t error = cudaStreamSynchronize(stream_);
    if (error != cudaSuccess) {
      throw std::runtime_error(std::string("kernel failed: ") + cudaGetErrorString(error));
    }
  }

 private:
  cudaStream_t stream_;
};

#else

using Dim = simt::Dim3;

/// A kernel on its way. wait() returns when it has ended and throws if it failed. Where it was
/// given no stream its end waits for the kernel.
class Launch {
 public:
  explicit Launch(simt::GridRun grid) : grid_(std::move(grid)) {}
  explicit Launch(simt::WorkStream& stream) : stream_(&stream) {}
  /// Returns when the kernel has ended; throws if it failed.
  void wait() {
    if (grid_) return grid_->wait();
    stream_->synchronize();
  }

 private:
  std::optional<simt::GridRun> grid_;
  simt::WorkStream* stream_ = nullptr;
};

#endif

/// Blocks x threads, dynamic shared memory in bytes, and the stream: a cudaStream_t or a Stream. A
/// grid without one runs on a CPU beside all others, on a GPU on the calling thread's default
/// stream (cudaStreamPerThread): beside those of other threads, which may be PEs that it waits for.
struct Grid {
  Dim blocks = 1;
  Dim threads = 1;
  size_t shared_bytes = 0;
  void* stream = nullptr;
};

/// Starts `kernel` on the grid and returns at once. Arguments are copied. Throws on a grid that
/// cannot run.
template <class... Parameters, class... Arguments>
Launch launch(const Grid& grid, void (*kernel)(Parameters...), Arguments&&... arguments) {
#if PEAL_CUDA
  const auto stream =
      grid.stream == nullptr ? cudaStreamPerThread : static_cast<cudaStream_t>(grid.stream);
  kernel<<<grid.blocks, grid.threads, grid.shared_bytes, stream>>>(
      std::forward<Arguments>(arguments)...);
  const cudaError_t error = cudaGetLastError();
  if (error != cudaSuccess) {
    throw std::runtime_error(std::string("kernel launch failed: ") + cudaGetErrorString(error));
  }
  return Launch(stream);
#else
  const simt::LaneGrid on_cpu{grid.blocks, grid.threads, grid.shared_bytes,
                              reinterpret_cast<const void*>(kernel)};
  auto body = [kernel, ... copies = std::decay_t<Arguments>(arguments)] { kernel(copies...); };
  if (grid.stream == nullptr) return Launch(simt::launch(on_cpu, std::move(body)));
  auto& stream = *static_cast<simt::WorkStream*>(grid.stream);
  stream.add([on_cpu, body = std::move(body)] { simt::launch_and_wait(on_cpu, body); });
  return Launch(stream);
#endif
}

}  // namespace peal
