// SPDX-License-Identifier: Apache-2.0
//
// Starting a kernel, the same way on a GPU and on a CPU.
//
//   peal::launch({.blocks = 4, .threads = 256}, kernel, ctx, data).wait();
#pragma once

#include <cstddef>
#include <stdexcept>
#include <string>
#include <utility>

#include "device/base/target.h"

#if PEAL_CUDA
#include <cuda_runtime_api.h>
#else
#include "simt/launch.h"
#endif

namespace peal {

#if PEAL_CUDA

using Dim = dim3;

/// A kernel on its way. wait() returns when it has ended and throws if it failed.
class [[nodiscard]] Launch {
 public:
  explicit Launch(cudaStream_t stream) : stream_(stream) {}
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
using simt::Launch;

#endif

/// Blocks x threads, dynamic shared memory in bytes, and the stream (a cudaStream_t; ignored on a
/// CPU).
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
  const auto stream = static_cast<cudaStream_t>(grid.stream);
  kernel<<<grid.blocks, grid.threads, grid.shared_bytes, stream>>>(
      std::forward<Arguments>(arguments)...);
  const cudaError_t error = cudaGetLastError();
  if (error != cudaSuccess) {
    throw std::runtime_error(std::string("kernel launch failed: ") + cudaGetErrorString(error));
  }
  return Launch(stream);
#else
  return simt::launch(
      {grid.blocks, grid.threads, grid.shared_bytes},
      [kernel, ... copies = std::decay_t<Arguments>(arguments)] { kernel(copies...); });
#endif
}

}  // namespace peal
