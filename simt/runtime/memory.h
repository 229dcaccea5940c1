// SPDX-License-Identifier: Apache-2.0
//
// CUDA's calls for memory. Device and host share all of it; what a call refuses is what CUDA
// refuses, as far as the pointers are known (allocations.h).
#pragma once

#include <cstddef>

#include "simt/runtime/errors.h"
#include "simt/runtime/types.h"

namespace peal::simt::cuda {

/// The first byte of an object.
template <class T>
char* start_of(const T& symbol) {
  return const_cast<char*>(reinterpret_cast<const volatile char*>(&symbol));
}

/// Whether [offset, offset + bytes) lies in an object of `size`; keeps the error.
cudaError_t check_symbol(size_t size, size_t bytes, size_t offset, cudaMemcpyKind kind,
                         cudaMemcpyKind other);

}  // namespace peal::simt::cuda

namespace peal::simt::cuda::calls {

/// Fresh memory is full of 0xa5. Of 0 bytes: null.
cudaError_t cudaMalloc(void** pointer, size_t bytes);
cudaError_t cudaMallocManaged(void** pointer, size_t bytes, unsigned flags = cudaMemAttachGlobal);
cudaError_t cudaMallocHost(void** pointer, size_t bytes, unsigned flags = cudaHostAllocDefault);
cudaError_t cudaHostAlloc(void** pointer, size_t bytes, unsigned flags);
cudaError_t cudaMallocAsync(void** pointer, size_t bytes, cudaStream_t stream);
cudaError_t cudaMallocPitch(void** pointer, size_t* pitch, size_t width, size_t height);

/// Waits for all work of the device, as CUDA does.
cudaError_t cudaFree(void* pointer);
cudaError_t cudaFreeHost(void* pointer);
cudaError_t cudaFreeAsync(void* pointer, cudaStream_t stream);

cudaError_t cudaHostRegister(void* pointer, size_t bytes, unsigned flags);
cudaError_t cudaHostUnregister(void* pointer);
cudaError_t cudaHostGetDevicePointer(void** device, void* host, unsigned flags);
cudaError_t cudaPointerGetAttributes(cudaPointerAttributes* attributes, const void* pointer);
cudaError_t cudaMemGetInfo(size_t* spare, size_t* total);

/// Hints, of no effect.
template <class T>
cudaError_t cudaStreamAttachMemAsync(cudaStream_t, T* pointer, size_t = 0,
                                     unsigned = cudaMemAttachSingle) {
  return pointer == nullptr ? cudaErrorInvalidValue : cudaSuccess;
}
cudaError_t cudaMemPrefetchAsync(const void* pointer, size_t bytes, int device,
                                 cudaStream_t stream = nullptr);
cudaError_t cudaMemAdvise(const void* pointer, size_t bytes, cudaMemoryAdvise advice, int device);
/// As CUDA 13 has them.
inline int device_at(const cudaMemLocation& location) {
  return location.type == cudaMemLocationTypeDevice ? location.id
         : location.type == cudaMemLocationTypeHost ? cudaCpuDeviceId
                                                    : cudaInvalidDeviceId;
}
inline cudaError_t cudaMemPrefetchAsync(const void* pointer, size_t bytes, cudaMemLocation location,
                                        unsigned flags, cudaStream_t stream = nullptr) {
  const int device = flags == 0 ? device_at(location) : cudaInvalidDeviceId;
  return cudaMemPrefetchAsync(pointer, bytes, device, stream);
}
inline cudaError_t cudaMemAdvise(const void* pointer, size_t bytes, cudaMemoryAdvise advice,
                                 cudaMemLocation location) {
  return cudaMemAdvise(pointer, bytes, advice, device_at(location));
}

cudaError_t cudaMemcpy(void* dst, const void* src, size_t bytes, cudaMemcpyKind kind);
cudaError_t cudaMemcpyAsync(void* dst, const void* src, size_t bytes, cudaMemcpyKind kind,
                            cudaStream_t stream = nullptr);
cudaError_t cudaMemcpyPeer(void* dst, int dst_device, const void* src, int src_device,
                           size_t bytes);
cudaError_t cudaMemcpyPeerAsync(void* dst, int dst_device, const void* src, int src_device,
                                size_t bytes, cudaStream_t stream = nullptr);
cudaError_t cudaMemcpy2D(void* dst, size_t dst_pitch, const void* src, size_t src_pitch,
                         size_t width, size_t height, cudaMemcpyKind kind);
cudaError_t cudaMemcpy2DAsync(void* dst, size_t dst_pitch, const void* src, size_t src_pitch,
                              size_t width, size_t height, cudaMemcpyKind kind,
                              cudaStream_t stream = nullptr);
cudaError_t cudaMemset(void* dst, int value, size_t bytes);
cudaError_t cudaMemsetAsync(void* dst, int value, size_t bytes, cudaStream_t stream = nullptr);
cudaError_t cudaMemset2D(void* dst, size_t pitch, int value, size_t width, size_t height);
cudaError_t cudaMemset2DAsync(void* dst, size_t pitch, int value, size_t width, size_t height,
                              cudaStream_t stream = nullptr);

// ---- for pointers of any type

template <class T>
cudaError_t cudaMalloc(T** pointer, size_t bytes) {
  return cudaMalloc(reinterpret_cast<void**>(pointer), bytes);
}
template <class T>
cudaError_t cudaMallocManaged(T** pointer, size_t bytes, unsigned flags = cudaMemAttachGlobal) {
  return cudaMallocManaged(reinterpret_cast<void**>(pointer), bytes, flags);
}
template <class T>
cudaError_t cudaMallocHost(T** pointer, size_t bytes, unsigned flags = cudaHostAllocDefault) {
  return cudaMallocHost(reinterpret_cast<void**>(pointer), bytes, flags);
}
template <class T>
cudaError_t cudaHostAlloc(T** pointer, size_t bytes, unsigned flags) {
  return cudaHostAlloc(reinterpret_cast<void**>(pointer), bytes, flags);
}
template <class T>
cudaError_t cudaMallocAsync(T** pointer, size_t bytes, cudaStream_t stream) {
  return cudaMallocAsync(reinterpret_cast<void**>(pointer), bytes, stream);
}
template <class T>
cudaError_t cudaMallocPitch(T** pointer, size_t* pitch, size_t width, size_t height) {
  return cudaMallocPitch(reinterpret_cast<void**>(pointer), pitch, width, height);
}
template <class T>
cudaError_t cudaHostGetDevicePointer(T** device, void* host, unsigned flags) {
  return cudaHostGetDevicePointer(reinterpret_cast<void**>(device), host, flags);
}

// ---- objects of the program that kernels see: __device__, __constant__ and __managed__ ones

template <class P, class T>
cudaError_t cudaGetSymbolAddress(P** pointer, const T& symbol) {
  if (pointer == nullptr) return cudaErrorInvalidValue;
  *pointer = reinterpret_cast<P*>(start_of(symbol));
  return cudaSuccess;
}
template <class T>
cudaError_t cudaGetSymbolSize(size_t* bytes, const T& symbol) {
  if (bytes == nullptr) return cudaErrorInvalidValue;
  *bytes = sizeof(symbol);
  return cudaSuccess;
}

template <class T>
cudaError_t cudaMemcpyToSymbolAsync(const T& symbol, const void* src, size_t bytes, size_t offset,
                                    cudaMemcpyKind kind, cudaStream_t stream = nullptr) {
  const cudaError_t error = check_symbol(sizeof(T), bytes, offset, kind, cudaMemcpyHostToDevice);
  if (error != cudaSuccess) return error;
  return cudaMemcpyAsync(start_of(symbol) + offset, src, bytes, kind, stream);
}
template <class T>
cudaError_t cudaMemcpyFromSymbolAsync(void* dst, const T& symbol, size_t bytes, size_t offset,
                                      cudaMemcpyKind kind, cudaStream_t stream = nullptr) {
  const cudaError_t error = check_symbol(sizeof(T), bytes, offset, kind, cudaMemcpyDeviceToHost);
  if (error != cudaSuccess) return error;
  return cudaMemcpyAsync(dst, start_of(symbol) + offset, bytes, kind, stream);
}
cudaError_t cudaStreamSynchronize(cudaStream_t stream);

template <class T>
cudaError_t cudaMemcpyToSymbol(const T& symbol, const void* src, size_t bytes, size_t offset = 0,
                               cudaMemcpyKind kind = cudaMemcpyHostToDevice) {
  const cudaError_t error = cudaMemcpyToSymbolAsync(symbol, src, bytes, offset, kind);
  return error == cudaSuccess ? cudaStreamSynchronize(nullptr) : error;
}
template <class T>
cudaError_t cudaMemcpyFromSymbol(void* dst, const T& symbol, size_t bytes, size_t offset = 0,
                                 cudaMemcpyKind kind = cudaMemcpyDeviceToHost) {
  const cudaError_t error = cudaMemcpyFromSymbolAsync(dst, symbol, bytes, offset, kind);
  return error == cudaSuccess ? cudaStreamSynchronize(nullptr) : error;
}

}  // namespace peal::simt::cuda::calls
