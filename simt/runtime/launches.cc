// SPDX-License-Identifier: Apache-2.0
#include "simt/runtime/launches.h"

#include <algorithm>
#include <cstdio>

#include "simt/lanes/kernels.h"
#include "simt/runtime/device_properties.h"
#include "simt/runtime/state.h"

namespace peal::simt::cuda {
namespace {

int resident_blocks(int threads, size_t shared_bytes) {
  const cudaDeviceProp all = properties_of(0);
  const int by_threads = all.maxThreadsPerMultiProcessor / threads;
  const auto by_memory = static_cast<int>(all.sharedMemPerMultiprocessor /
                                          (shared_bytes + all.reservedSharedMemPerBlock));
  // All blocks of a grid must be resident if they wait for each other.
  const auto by_lanes =
      static_cast<int>(limits().max_lanes) / threads / std::max(1, all.multiProcessorCount);
  return std::min({by_threads, by_memory, by_lanes, all.maxBlocksPerMultiProcessor});
}

cudaError_t start_offered(const void* kernel, void** arguments, Start start) {
  start.kernel = kernel;
  return call([&] {
    if (kernel == nullptr) return cudaErrorInvalidDeviceFunction;
    try {
      return start_bound(start, bind_kernel(kernel, arguments));
    } catch (const LaneError& error) {
      std::fprintf(stderr, "peal: cudaLaunchKernel: %s\n", error.what());
      return cudaErrorInvalidDeviceFunction;
    }
  });
}

}  // namespace

cudaError_t start_bound(const Start& start, std::function<void()> lane_body) {
  return call_on(start.stream, [&](WorkStream& stream) {
    if (lane_body == nullptr) return cudaErrorInvalidDeviceFunction;
    const LaneGrid grid{start.blocks, start.threads, start.shared_bytes, start.kernel};
    if (!start.cooperative) return cuda::start(stream, grid, nullptr, std::move(lane_body));
    return start_cooperative(stream, grid, nullptr, std::move(lane_body));
  });
}

namespace calls {

cudaError_t cudaLaunchKernel(const void* kernel, dim3 blocks, dim3 threads, void** arguments,
                             size_t shared_bytes, cudaStream_t stream) {
  return start_offered(kernel, arguments, {blocks, threads, shared_bytes, stream, false});
}

cudaError_t cudaLaunchCooperativeKernel(const void* kernel, dim3 blocks, dim3 threads,
                                        void** arguments, size_t shared_bytes,
                                        cudaStream_t stream) {
  return start_offered(kernel, arguments, {blocks, threads, shared_bytes, stream, true});
}

cudaError_t cudaFuncSetAttribute(const void* kernel, cudaFuncAttribute attribute, int value) {
  return call([&] {
    if (kernel == nullptr) return cudaErrorInvalidDeviceFunction;
    if (attribute == cudaFuncAttributePreferredSharedMemoryCarveout) {
      return value >= -1 && value <= 100 ? cudaSuccess : cudaErrorInvalidValue;
    }
    if (attribute != cudaFuncAttributeMaxDynamicSharedMemorySize) return cudaErrorInvalidValue;
    const auto most = static_cast<int>(properties_of(0).sharedMemPerBlockOptin);
    return value >= 0 && value <= most ? cudaSuccess : cudaErrorInvalidValue;
  });
}

cudaError_t cudaFuncGetAttributes(cudaFuncAttributes* attributes, const void* kernel) {
  return call([&] {
    if (attributes == nullptr) return cudaErrorInvalidValue;
    if (kernel == nullptr) return cudaErrorInvalidDeviceFunction;
    const cudaDeviceProp all = properties_of(0);
    *attributes = {};
    attributes->maxThreadsPerBlock = all.maxThreadsPerBlock;
    attributes->maxDynamicSharedSizeBytes = static_cast<int>(all.sharedMemPerBlockOptin);
    attributes->ptxVersion = attributes->binaryVersion = all.major * 10 + all.minor;
    return cudaSuccess;
  });
}

cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessor(int* blocks, const void* kernel,
                                                          int threads, size_t shared_bytes) {
  return call([&] {
    if (blocks == nullptr || threads <= 0) return cudaErrorInvalidValue;
    if (kernel == nullptr) return cudaErrorInvalidDeviceFunction;
    const cudaDeviceProp all = properties_of(0);
    const bool fits =
        threads <= all.maxThreadsPerBlock && shared_bytes <= all.sharedMemPerBlockOptin;
    *blocks = fits ? resident_blocks(threads, shared_bytes) : 0;
    return cudaSuccess;
  });
}

cudaError_t cudaOccupancyMaxPotentialBlockSize(int* blocks, int* threads, const void* kernel,
                                               size_t shared_bytes, int most_threads) {
  return call([&] {
    if (blocks == nullptr || threads == nullptr || most_threads < 0) return cudaErrorInvalidValue;
    if (kernel == nullptr) return cudaErrorInvalidDeviceFunction;
    const cudaDeviceProp all = properties_of(0);
    if (shared_bytes > all.sharedMemPerBlockOptin) return cudaErrorInvalidValue;
    *threads =
        most_threads == 0 ? all.maxThreadsPerBlock : std::min(most_threads, all.maxThreadsPerBlock);
    *blocks = resident_blocks(*threads, shared_bytes) * all.multiProcessorCount;
    return cudaSuccess;
  });
}

cudaError_t cudaOccupancyAvailableDynamicSMemPerBlock(size_t* shared_bytes, const void* kernel,
                                                      int blocks, int threads) {
  return call([&] {
    if (shared_bytes == nullptr || blocks <= 0 || threads <= 0) return cudaErrorInvalidValue;
    if (kernel == nullptr) return cudaErrorInvalidDeviceFunction;
    const cudaDeviceProp all = properties_of(0);
    const size_t each = all.sharedMemPerMultiprocessor / static_cast<size_t>(blocks);
    const bool fits = blocks <= resident_blocks(threads, 0) && each > all.reservedSharedMemPerBlock;
    if (!fits) return cudaErrorInvalidValue;
    *shared_bytes = std::min(each - all.reservedSharedMemPerBlock, all.sharedMemPerBlockOptin);
    return cudaSuccess;
  });
}

}  // namespace calls
}  // namespace peal::simt::cuda
