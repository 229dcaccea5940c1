// SPDX-License-Identifier: Apache-2.0
//
// CUDA's driver API, a thin layer: each call is the runtime's call of the same meaning, and its
// error the driver's. Kernels come by cudaGetFuncBySymbol() and cudaGetKernel(); a CPU has no
// modules. A thread has the primary context of its device from the start.
#pragma once

#include <cstddef>

#include "simt/runtime/devices.h"
#include "simt/runtime/driver_types.h"
#include "simt/runtime/errors.h"
#include "simt/runtime/launches.h"
#include "simt/runtime/memory.h"
#include "simt/runtime/stream_calls.h"

namespace peal::simt::cuda {

/// The driver's number for an error of the runtime's.
CUresult of_driver(cudaError_t error);

inline void* pointer_of(CUdeviceptr address) { return reinterpret_cast<void*>(address); }
template <class T>
CUdeviceptr address_in_driver(T* pointer) {
  return reinterpret_cast<CUdeviceptr>(pointer);
}

}  // namespace peal::simt::cuda

namespace peal::simt::cuda::calls {

// ---- of the runtime, for the driver: what stands for the kernel there

cudaError_t cudaGetFuncBySymbol(cudaFunction_t* function, const void* symbol);
cudaError_t cudaGetKernel(cudaKernel_t* kernel, const void* symbol);
template <Function F>
cudaError_t cudaGetFuncBySymbol(cudaFunction_t* function, F* symbol) {
  return cudaGetFuncBySymbol(function, address_of(symbol));
}
template <Function F>
cudaError_t cudaGetKernel(cudaKernel_t* kernel, F* symbol) {
  return cudaGetKernel(kernel, address_of(symbol));
}

// ---- the driver, devices and contexts

CUresult cuInit(unsigned flags);
CUresult cuGetErrorName(CUresult error, const char** name);
CUresult cuGetErrorString(CUresult error, const char** text);
CUresult cuDeviceGet(CUdevice* device, int ordinal);
CUresult cuDeviceGetName(char* name, int bytes, CUdevice device);
CUresult cuDeviceTotalMem(size_t* bytes, CUdevice device);
inline CUresult cuDriverGetVersion(int* version) {
  return of_driver(cudaDriverGetVersion(version));
}
inline CUresult cuDeviceGetCount(int* count) { return of_driver(cudaGetDeviceCount(count)); }
inline CUresult cuDeviceGetAttribute(int* value, CUdevice_attribute attribute, CUdevice device) {
  return of_driver(cudaDeviceGetAttribute(value, static_cast<cudaDeviceAttr>(attribute), device));
}
inline CUresult cuDeviceCanAccessPeer(int* can, CUdevice device, CUdevice peer) {
  return of_driver(cudaDeviceCanAccessPeer(can, device, peer));
}

CUresult cuDevicePrimaryCtxRetain(CUcontext* context, CUdevice device);
CUresult cuDevicePrimaryCtxRelease(CUdevice device);
CUresult cuDevicePrimaryCtxGetState(CUdevice device, unsigned* flags, int* active);
/// Makes it current, as CUDA does.
CUresult cuCtxCreate(CUcontext* context, unsigned flags, CUdevice device);
inline CUresult cuCtxCreate(CUcontext* context, const void*, unsigned flags, CUdevice device) {
  return cuCtxCreate(context, flags, device);  // as CUDA 13 has it
}
CUresult cuCtxDestroy(CUcontext context);
CUresult cuCtxGetCurrent(CUcontext* context);
CUresult cuCtxSetCurrent(CUcontext context);
CUresult cuCtxPushCurrent(CUcontext context);
CUresult cuCtxPopCurrent(CUcontext* context);
CUresult cuCtxGetDevice(CUdevice* device);
inline CUresult cuCtxSynchronize() { return of_driver(cudaDeviceSynchronize()); }
CUresult cuCtxEnablePeerAccess(CUcontext peer, unsigned flags);

// ---- memory

inline CUresult cuMemAlloc(CUdeviceptr* address, size_t bytes) {
  if (bytes == 0) return CUDA_ERROR_INVALID_VALUE;
  return of_driver(cudaMalloc(reinterpret_cast<void**>(address), bytes));
}
inline CUresult cuMemAllocManaged(CUdeviceptr* address, size_t bytes, unsigned flags) {
  return of_driver(cudaMallocManaged(reinterpret_cast<void**>(address), bytes, flags));
}
CUresult cuMemAllocPitch(CUdeviceptr* address, size_t* pitch, size_t width, size_t height,
                         unsigned element_bytes);
inline CUresult cuMemFree(CUdeviceptr address) { return of_driver(cudaFree(pointer_of(address))); }
inline CUresult cuMemAllocAsync(CUdeviceptr* address, size_t bytes, CUstream stream) {
  return of_driver(cudaMallocAsync(reinterpret_cast<void**>(address), bytes, stream));
}
inline CUresult cuMemFreeAsync(CUdeviceptr address, CUstream stream) {
  return of_driver(cudaFreeAsync(pointer_of(address), stream));
}
inline CUresult cuMemAllocHost(void** pointer, size_t bytes) {
  return of_driver(cudaMallocHost(pointer, bytes));
}
inline CUresult cuMemHostAlloc(void** pointer, size_t bytes, unsigned flags) {
  return of_driver(cudaHostAlloc(pointer, bytes, flags));
}
inline CUresult cuMemFreeHost(void* pointer) { return of_driver(cudaFreeHost(pointer)); }
inline CUresult cuMemHostRegister(void* pointer, size_t bytes, unsigned flags) {
  return of_driver(cudaHostRegister(pointer, bytes, flags));
}
inline CUresult cuMemHostUnregister(void* pointer) {
  return of_driver(cudaHostUnregister(pointer));
}
inline CUresult cuMemHostGetDevicePointer(CUdeviceptr* address, void* pointer, unsigned flags) {
  return of_driver(cudaHostGetDevicePointer(reinterpret_cast<void**>(address), pointer, flags));
}
inline CUresult cuMemGetInfo(size_t* spare, size_t* total) {
  return of_driver(cudaMemGetInfo(spare, total));
}
CUresult cuMemGetAddressRange(CUdeviceptr* start, size_t* bytes, CUdeviceptr address);
CUresult cuPointerGetAttribute(void* value, CUpointer_attribute attribute, CUdeviceptr address);

inline CUresult cuMemcpy(CUdeviceptr dst, CUdeviceptr src, size_t bytes) {
  return of_driver(cudaMemcpy(pointer_of(dst), pointer_of(src), bytes, cudaMemcpyDefault));
}
inline CUresult cuMemcpyHtoD(CUdeviceptr dst, const void* src, size_t bytes) {
  return of_driver(cudaMemcpy(pointer_of(dst), src, bytes, cudaMemcpyHostToDevice));
}
inline CUresult cuMemcpyDtoH(void* dst, CUdeviceptr src, size_t bytes) {
  return of_driver(cudaMemcpy(dst, pointer_of(src), bytes, cudaMemcpyDeviceToHost));
}
inline CUresult cuMemcpyDtoD(CUdeviceptr dst, CUdeviceptr src, size_t bytes) {
  return of_driver(cudaMemcpy(pointer_of(dst), pointer_of(src), bytes, cudaMemcpyDeviceToDevice));
}
inline CUresult cuMemcpyAsync(CUdeviceptr dst, CUdeviceptr src, size_t bytes, CUstream stream) {
  return of_driver(
      cudaMemcpyAsync(pointer_of(dst), pointer_of(src), bytes, cudaMemcpyDefault, stream));
}
inline CUresult cuMemcpyHtoDAsync(CUdeviceptr dst, const void* src, size_t bytes, CUstream stream) {
  return of_driver(cudaMemcpyAsync(pointer_of(dst), src, bytes, cudaMemcpyHostToDevice, stream));
}
inline CUresult cuMemcpyDtoHAsync(void* dst, CUdeviceptr src, size_t bytes, CUstream stream) {
  return of_driver(cudaMemcpyAsync(dst, pointer_of(src), bytes, cudaMemcpyDeviceToHost, stream));
}
inline CUresult cuMemcpyDtoDAsync(CUdeviceptr dst, CUdeviceptr src, size_t bytes, CUstream stream) {
  return of_driver(
      cudaMemcpyAsync(pointer_of(dst), pointer_of(src), bytes, cudaMemcpyDeviceToDevice, stream));
}
/// `count` is in elements.
CUresult cuMemsetD8Async(CUdeviceptr dst, unsigned char value, size_t count, CUstream stream);
CUresult cuMemsetD16Async(CUdeviceptr dst, unsigned short value, size_t count, CUstream stream);
CUresult cuMemsetD32Async(CUdeviceptr dst, unsigned value, size_t count, CUstream stream);
CUresult cuMemsetD8(CUdeviceptr dst, unsigned char value, size_t count);
CUresult cuMemsetD16(CUdeviceptr dst, unsigned short value, size_t count);
CUresult cuMemsetD32(CUdeviceptr dst, unsigned value, size_t count);

// ---- streams and events

inline CUresult cuStreamCreate(CUstream* stream, unsigned flags) {
  return of_driver(cudaStreamCreateWithFlags(stream, flags));
}
inline CUresult cuStreamCreateWithPriority(CUstream* stream, unsigned flags, int priority) {
  return of_driver(cudaStreamCreateWithPriority(stream, flags, priority));
}
inline CUresult cuStreamDestroy(CUstream stream) { return of_driver(cudaStreamDestroy(stream)); }
inline CUresult cuStreamSynchronize(CUstream stream) {
  return of_driver(cudaStreamSynchronize(stream));
}
inline CUresult cuStreamQuery(CUstream stream) { return of_driver(cudaStreamQuery(stream)); }
inline CUresult cuStreamWaitEvent(CUstream stream, CUevent event, unsigned flags) {
  return of_driver(cudaStreamWaitEvent(stream, event, flags));
}
inline CUresult cuLaunchHostFunc(CUstream stream, CUhostFn function, void* data) {
  return of_driver(cudaLaunchHostFunc(stream, function, data));
}
inline CUresult cuEventCreate(CUevent* event, unsigned flags) {
  return of_driver(cudaEventCreateWithFlags(event, flags));
}
inline CUresult cuEventRecord(CUevent event, CUstream stream) {
  return of_driver(cudaEventRecord(event, stream));
}
inline CUresult cuEventSynchronize(CUevent event) { return of_driver(cudaEventSynchronize(event)); }
inline CUresult cuEventQuery(CUevent event) { return of_driver(cudaEventQuery(event)); }
inline CUresult cuEventElapsedTime(float* milliseconds, CUevent from, CUevent to) {
  return of_driver(cudaEventElapsedTime(milliseconds, from, to));
}
inline CUresult cuEventDestroy(CUevent event) { return of_driver(cudaEventDestroy(event)); }

// ---- kernels

// CUDA's own parameters: more than this house allows itself.
/// Arguments come by their addresses; `extra`, which packs them, is CUDA_ERROR_NOT_SUPPORTED.
CUresult cuLaunchKernel(CUfunction kernel, unsigned grid_x, unsigned grid_y, unsigned grid_z,
                        unsigned block_x, unsigned block_y, unsigned block_z, unsigned shared_bytes,
                        CUstream stream, void** arguments, void** extra);
CUresult cuLaunchCooperativeKernel(CUfunction kernel, unsigned grid_x, unsigned grid_y,
                                   unsigned grid_z, unsigned block_x, unsigned block_y,
                                   unsigned block_z, unsigned shared_bytes, CUstream stream,
                                   void** arguments);
CUresult cuKernelGetFunction(CUfunction* function, CUkernel kernel);
CUresult cuFuncGetAttribute(int* value, CUfunction_attribute attribute, CUfunction kernel);
inline CUresult cuFuncSetAttribute(CUfunction kernel, CUfunction_attribute attribute, int value) {
  const void* const address = kernel;
  return of_driver(cudaFuncSetAttribute(address, static_cast<cudaFuncAttribute>(attribute), value));
}
inline CUresult cuOccupancyMaxActiveBlocksPerMultiprocessor(int* blocks, CUfunction kernel,
                                                            int threads, size_t shared_bytes) {
  const void* const address = kernel;
  return of_driver(
      cudaOccupancyMaxActiveBlocksPerMultiprocessor(blocks, address, threads, shared_bytes));
}

}  // namespace peal::simt::cuda::calls
