// SPDX-License-Identifier: Apache-2.0
//
// CUDA's calls that start a kernel by its address, and those that ask how large a grid may be.
#pragma once

#include <cstddef>
#include <functional>
#include <tuple>
#include <type_traits>
#include <utility>

#include "simt/runtime/errors.h"
#include "simt/runtime/types.h"

namespace peal::simt::cuda {

/// What a start by address names beside the kernel.
struct Start {
  dim3 blocks;
  dim3 threads;
  size_t shared_bytes;
  cudaStream_t stream;
  bool cooperative;
  const void* kernel = nullptr;  // its address, by which messages name it
};

/// Starts what was bound to its arguments: one copy of them a lane.
cudaError_t start_bound(const Start& start, std::function<void()> lane_body);

template <class... Parameters, size_t... kAt>
cudaError_t start_kernel(const Start& start, void (*kernel)(Parameters...), void** arguments,
                         std::index_sequence<kAt...>) {
  if (kernel == nullptr) return start_bound(start, nullptr);
  std::tuple<std::decay_t<Parameters>...> copies(
      *static_cast<std::decay_t<Parameters>*>(arguments[kAt])...);
  Start named = start;
  named.kernel = reinterpret_cast<const void*>(kernel);
  return start_bound(named, [kernel, copies = std::move(copies)] { std::apply(kernel, copies); });
}

template <class F>
concept Function = std::is_function_v<F>;

template <Function F>
const void* address_of(F* function) {
  return reinterpret_cast<const void*>(function);
}

}  // namespace peal::simt::cuda

namespace peal::simt::cuda::calls {

/// Launches a kernel by its address alone: it must be offered (simt/lanes/kernels.h), else
/// cudaErrorInvalidDeviceFunction.
cudaError_t cudaLaunchKernel(const void* kernel, dim3 blocks, dim3 threads, void** arguments,
                             size_t shared_bytes = 0, cudaStream_t stream = nullptr);
cudaError_t cudaLaunchCooperativeKernel(const void* kernel, dim3 blocks, dim3 threads,
                                        void** arguments, size_t shared_bytes = 0,
                                        cudaStream_t stream = nullptr);

template <class... Parameters>
cudaError_t cudaLaunchKernel(void (*kernel)(Parameters...), dim3 blocks, dim3 threads,
                             void** arguments, size_t shared_bytes = 0,
                             cudaStream_t stream = nullptr) {
  return start_kernel({blocks, threads, shared_bytes, stream, false}, kernel, arguments,
                      std::index_sequence_for<Parameters...>{});
}
template <class... Parameters>
cudaError_t cudaLaunchCooperativeKernel(void (*kernel)(Parameters...), dim3 blocks, dim3 threads,
                                        void** arguments, size_t shared_bytes = 0,
                                        cudaStream_t stream = nullptr) {
  return start_kernel({blocks, threads, shared_bytes, stream, true}, kernel, arguments,
                      std::index_sequence_for<Parameters...>{});
}

cudaError_t cudaFuncSetAttribute(const void* kernel, cudaFuncAttribute attribute, int value);
cudaError_t cudaFuncGetAttributes(cudaFuncAttributes* attributes, const void* kernel);
/// As many as CUDA's limits of threads, blocks and shared memory let be resident.
cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessor(int* blocks, const void* kernel,
                                                          int threads, size_t shared_bytes);
cudaError_t cudaOccupancyMaxPotentialBlockSize(int* blocks, int* threads, const void* kernel,
                                               size_t shared_bytes = 0, int most_threads = 0);
/// The largest shared memory of a block of which as many as that are resident.
cudaError_t cudaOccupancyAvailableDynamicSMemPerBlock(size_t* shared_bytes, const void* kernel,
                                                      int blocks, int threads);

// Flags are of caches, which mean nothing here.
inline cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(
    int* blocks, const void* kernel, int threads, size_t shared_bytes, unsigned) {
  return cudaOccupancyMaxActiveBlocksPerMultiprocessor(blocks, kernel, threads, shared_bytes);
}

// These have no effect.
inline cudaError_t cudaDeviceSetCacheConfig(cudaFuncCache) { return cudaSuccess; }
inline cudaError_t cudaDeviceSetSharedMemConfig(cudaSharedMemConfig) { return cudaSuccess; }
template <class Kernel>
cudaError_t cudaFuncSetCacheConfig(Kernel kernel, cudaFuncCache) {
  return kernel == nullptr ? cudaErrorInvalidDeviceFunction : cudaSuccess;
}
template <class Kernel>
cudaError_t cudaFuncSetSharedMemConfig(Kernel kernel, cudaSharedMemConfig) {
  return kernel == nullptr ? cudaErrorInvalidDeviceFunction : cudaSuccess;
}

// ---- for functions of any type

template <Function F>
cudaError_t cudaFuncSetAttribute(F* kernel, cudaFuncAttribute attribute, int value) {
  return cudaFuncSetAttribute(address_of(kernel), attribute, value);
}
template <Function F>
cudaError_t cudaFuncGetAttributes(cudaFuncAttributes* attributes, F* kernel) {
  return cudaFuncGetAttributes(attributes, address_of(kernel));
}
template <Function F>
cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessor(int* blocks, F* kernel, int threads,
                                                          size_t shared_bytes) {
  return cudaOccupancyMaxActiveBlocksPerMultiprocessor(blocks, address_of(kernel), threads,
                                                       shared_bytes);
}
template <Function F>
cudaError_t cudaOccupancyMaxPotentialBlockSize(int* blocks, int* threads, F* kernel,
                                               size_t shared_bytes = 0, int most_threads = 0) {
  return cudaOccupancyMaxPotentialBlockSize(blocks, threads, address_of(kernel), shared_bytes,
                                            most_threads);
}
template <Function F>
cudaError_t cudaOccupancyAvailableDynamicSMemPerBlock(size_t* shared_bytes, F* kernel, int blocks,
                                                      int threads) {
  return cudaOccupancyAvailableDynamicSMemPerBlock(shared_bytes, address_of(kernel), blocks,
                                                   threads);
}
template <Function F>
cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int* blocks, F* kernel,
                                                                   int threads, size_t shared_bytes,
                                                                   unsigned) {
  return cudaOccupancyMaxActiveBlocksPerMultiprocessor(blocks, address_of(kernel), threads,
                                                       shared_bytes);
}
template <class Kernel>
cudaError_t cudaOccupancyMaxPotentialBlockSizeWithFlags(int* blocks, int* threads, Kernel kernel,
                                                        size_t shared_bytes = 0,
                                                        int most_threads = 0, unsigned = 0) {
  return cudaOccupancyMaxPotentialBlockSize(blocks, threads, kernel, shared_bytes, most_threads);
}
/// `shared_bytes_of` says how much a block of so many threads needs. Of the sizes that keep the
/// most threads resident, the largest.
template <class Kernel, class SharedBytesOf>
cudaError_t cudaOccupancyMaxPotentialBlockSizeVariableSMem(int* blocks, int* threads, Kernel kernel,
                                                           SharedBytesOf shared_bytes_of,
                                                           int most_threads = 0) {
  cudaError_t error = cudaOccupancyMaxPotentialBlockSize(blocks, threads, kernel, 0, most_threads);
  for (int size = *threads, best = 0; error == cudaSuccess && size > 0; size -= 32) {
    int resident = 0, least = 0, most = 0;
    const auto bytes = static_cast<size_t>(shared_bytes_of(size));
    error = cudaOccupancyMaxActiveBlocksPerMultiprocessor(&resident, kernel, size, bytes);
    if (error != cudaSuccess || resident * size <= best) continue;
    best = resident * size;
    *threads = size;
    error = cudaOccupancyMaxPotentialBlockSize(&most, &least, kernel, bytes, size);
    *blocks = most;
  }
  return error;
}

}  // namespace peal::simt::cuda::calls
