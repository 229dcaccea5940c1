// SPDX-License-Identifier: Apache-2.0
#include "simt/runtime/driver.h"

#include <algorithm>
#include <cstdio>
#include <deque>
#include <vector>

#include "simt/runtime/allocations.h"
#include "simt/runtime/device_properties.h"
#include "simt/runtime/state.h"

// A context is little more than the number of a device: memory and streams are the process's.
struct CUctx_st {
  CUdevice device;
  unsigned users;  // of a primary one: how often it was retained
  bool primary;
};

namespace peal::simt::cuda {
namespace {

// CUDA's calls name no object that could have these.
Handles<CUctx_st>& made_contexts() {
  static Handles<CUctx_st> made;
  return made;
}

CUctx_st& primary_of(CUdevice device) {
  static std::deque<CUctx_st> all = [] {
    std::deque<CUctx_st> made;
    for (int i = 0; i < device_count(); ++i) made.push_back({i, 0, true});
    return made;
  }();
  return all[static_cast<size_t>(device)];
}

std::mutex& primary_mutex() {
  static std::mutex mutex;
  return mutex;
}

thread_local std::vector<CUcontext> current;

bool is_context(CUcontext context) {
  if (context == nullptr) return false;
  for (int i = 0; i < device_count(); ++i) {
    if (context == &primary_of(i)) return true;
  }
  return made_contexts().find(context) != nullptr;
}

CUresult use_current() {
  return current.empty() ? CUDA_SUCCESS : of_driver(calls::cudaSetDevice(current.back()->device));
}

template <class Value>
CUresult fill(CUdeviceptr dst, Value value, size_t count, CUstream stream) {
  const cudaError_t error = call_on(stream, [&](WorkStream& on) {
    const auto piece = allocations().find(pointer_of(dst));
    const bool aligned = dst % alignof(Value) == 0;
    if (dst == 0 || !aligned) return cudaErrorInvalidValue;
    if (piece) {
      const size_t offset = dst - address_in_driver(piece->start);
      if (count > (piece->bytes - offset) / sizeof(Value)) return cudaErrorInvalidValue;
    }
    on.add([=] { std::fill_n(static_cast<Value*>(pointer_of(dst)), count, value); });
    return cudaSuccess;
  });
  return of_driver(error);
}

}  // namespace

CUresult of_driver(cudaError_t error) {
  switch (error) {
    case cudaErrorInvalidConfiguration:
    case cudaErrorInvalidPitchValue:
    case cudaErrorInvalidDevicePointer:
    case cudaErrorInvalidMemcpyDirection:
    case cudaErrorMissingConfiguration:
      return CUDA_ERROR_INVALID_VALUE;
    case cudaErrorInvalidSymbol:
      return CUDA_ERROR_NOT_FOUND;
    case cudaErrorInvalidDeviceFunction:
      return CUDA_ERROR_INVALID_HANDLE;
    default:
      return static_cast<CUresult>(error);  // numbers that both have
  }
}

namespace calls {

cudaError_t cudaGetFuncBySymbol(cudaFunction_t* function, const void* symbol) {
  return call([&] {
    if (function == nullptr) return cudaErrorInvalidValue;
    if (symbol == nullptr) return cudaErrorInvalidDeviceFunction;
    *function = static_cast<cudaFunction_t>(const_cast<void*>(symbol));
    return cudaSuccess;
  });
}

cudaError_t cudaGetKernel(cudaKernel_t* kernel, const void* symbol) {
  return call([&] {
    if (kernel == nullptr) return cudaErrorInvalidValue;
    if (symbol == nullptr) return cudaErrorInvalidDeviceFunction;
    *kernel = static_cast<cudaKernel_t>(const_cast<void*>(symbol));
    return cudaSuccess;
  });
}

CUresult cuInit(unsigned flags) { return flags == 0 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE; }

CUresult cuGetErrorName(CUresult error, const char** name) {
  if (name == nullptr) return CUDA_ERROR_INVALID_VALUE;
  switch (error) {
#define PEAL_SIMT_NAME(NAME, NUMBER, TEXT) \
  case CUDA_##NAME:                        \
    *name = "CUDA_" #NAME;                 \
    return CUDA_SUCCESS;
    PEAL_SIMT_DRIVER_ERRORS(PEAL_SIMT_NAME)
#undef PEAL_SIMT_NAME
  }
  *name = nullptr;
  return CUDA_ERROR_INVALID_VALUE;
}

CUresult cuGetErrorString(CUresult error, const char** text) {
  if (text == nullptr) return CUDA_ERROR_INVALID_VALUE;
  switch (error) {
#define PEAL_SIMT_TEXT(NAME, NUMBER, TEXT) \
  case CUDA_##NAME:                        \
    *text = TEXT;                          \
    return CUDA_SUCCESS;
    PEAL_SIMT_DRIVER_ERRORS(PEAL_SIMT_TEXT)
#undef PEAL_SIMT_TEXT
  }
  *text = nullptr;
  return CUDA_ERROR_INVALID_VALUE;
}

CUresult cuDeviceGet(CUdevice* device, int ordinal) {
  if (device == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (!is_device(ordinal)) return CUDA_ERROR_INVALID_DEVICE;
  *device = ordinal;
  return CUDA_SUCCESS;
}

CUresult cuDeviceGetName(char* name, int bytes, CUdevice device) {
  if (name == nullptr || bytes <= 0) return CUDA_ERROR_INVALID_VALUE;
  if (!is_device(device)) return CUDA_ERROR_INVALID_DEVICE;
  std::snprintf(name, static_cast<size_t>(bytes), "%s", properties_of(device).name);
  return CUDA_SUCCESS;
}

CUresult cuDeviceTotalMem(size_t* bytes, CUdevice device) {
  if (bytes == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (!is_device(device)) return CUDA_ERROR_INVALID_DEVICE;
  *bytes = total_bytes();
  return CUDA_SUCCESS;
}

CUresult cuDevicePrimaryCtxRetain(CUcontext* context, CUdevice device) {
  if (context == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (!is_device(device)) return CUDA_ERROR_INVALID_DEVICE;
  const std::lock_guard lock(primary_mutex());
  ++primary_of(device).users;
  *context = &primary_of(device);
  return CUDA_SUCCESS;
}

CUresult cuDevicePrimaryCtxRelease(CUdevice device) {
  if (!is_device(device)) return CUDA_ERROR_INVALID_DEVICE;
  const std::lock_guard lock(primary_mutex());
  if (primary_of(device).users == 0) return CUDA_ERROR_INVALID_CONTEXT;
  --primary_of(device).users;
  return CUDA_SUCCESS;
}

CUresult cuDevicePrimaryCtxGetState(CUdevice device, unsigned* flags, int* active) {
  if (flags == nullptr || active == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (!is_device(device)) return CUDA_ERROR_INVALID_DEVICE;
  const std::lock_guard lock(primary_mutex());
  *flags = 0;
  *active = primary_of(device).users != 0;
  return CUDA_SUCCESS;
}

CUresult cuCtxCreate(CUcontext* context, unsigned flags, CUdevice device) {
  constexpr unsigned kKnown =
      CU_CTX_SCHED_SPIN | CU_CTX_SCHED_YIELD | CU_CTX_SCHED_BLOCKING_SYNC | CU_CTX_MAP_HOST;
  if (context == nullptr || (flags & ~kKnown) != 0) return CUDA_ERROR_INVALID_VALUE;
  if (!is_device(device)) return CUDA_ERROR_INVALID_DEVICE;
  *context = made_contexts().add(std::make_shared<CUctx_st>(CUctx_st{device, 1, false}));
  return cuCtxPushCurrent(*context);
}

CUresult cuCtxDestroy(CUcontext context) {
  if (!is_context(context) || context->primary) return CUDA_ERROR_INVALID_CONTEXT;
  std::erase(current, context);
  made_contexts().take(context);
  return use_current();
}

CUresult cuCtxGetCurrent(CUcontext* context) {
  if (context == nullptr) return CUDA_ERROR_INVALID_VALUE;
  int device = 0;
  const CUresult result = of_driver(cudaGetDevice(&device));
  if (result != CUDA_SUCCESS) return result;
  // cudaSetDevice() makes a primary context the current one.
  const bool own = !current.empty() && current.back()->device == device;
  *context = own ? current.back() : &primary_of(device);
  return CUDA_SUCCESS;
}

CUresult cuCtxSetCurrent(CUcontext context) {
  if (context != nullptr && !is_context(context)) return CUDA_ERROR_INVALID_CONTEXT;
  if (!current.empty()) current.pop_back();
  if (context != nullptr) current.push_back(context);
  return use_current();
}

CUresult cuCtxPushCurrent(CUcontext context) {
  if (!is_context(context)) return CUDA_ERROR_INVALID_CONTEXT;
  current.push_back(context);
  return use_current();
}

CUresult cuCtxPopCurrent(CUcontext* context) {
  if (current.empty()) return CUDA_ERROR_INVALID_CONTEXT;
  if (context != nullptr) *context = current.back();
  current.pop_back();
  return use_current();
}

CUresult cuCtxGetDevice(CUdevice* device) { return of_driver(cudaGetDevice(device)); }

CUresult cuCtxEnablePeerAccess(CUcontext peer, unsigned flags) {
  if (!is_context(peer)) return CUDA_ERROR_INVALID_CONTEXT;
  return of_driver(cudaDeviceEnablePeerAccess(peer->device, flags));
}

CUresult cuMemAllocPitch(CUdeviceptr* address, size_t* pitch, size_t width, size_t height,
                         unsigned element_bytes) {
  const bool known = element_bytes == 4 || element_bytes == 8 || element_bytes == 16;
  if (!known || width == 0 || height == 0) return CUDA_ERROR_INVALID_VALUE;
  return of_driver(cudaMallocPitch(reinterpret_cast<void**>(address), pitch, width, height));
}

CUresult cuMemGetAddressRange(CUdeviceptr* start, size_t* bytes, CUdeviceptr address) {
  const auto piece = allocations().find(pointer_of(address));
  if (!piece) return CUDA_ERROR_NOT_FOUND;
  if (start != nullptr) *start = address_in_driver(piece->start);
  if (bytes != nullptr) *bytes = piece->bytes;
  return CUDA_SUCCESS;
}

CUresult cuPointerGetAttribute(void* value, CUpointer_attribute attribute, CUdeviceptr address) {
  if (value == nullptr) return CUDA_ERROR_INVALID_VALUE;
  const auto piece = allocations().find(pointer_of(address));
  if (!piece) return CUDA_ERROR_INVALID_VALUE;
  const bool host = piece->type == cudaMemoryTypeHost;
  const bool managed = piece->type == cudaMemoryTypeManaged;
  switch (attribute) {
    case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
      *static_cast<CUmemorytype*>(value) = host ? CU_MEMORYTYPE_HOST : CU_MEMORYTYPE_DEVICE;
      return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_DEVICE_POINTER:
      *static_cast<CUdeviceptr*>(value) = address;
      return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_HOST_POINTER:
      if (!host && !managed) return CUDA_ERROR_INVALID_VALUE;
      *static_cast<void**>(value) = pointer_of(address);
      return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_IS_MANAGED:
      *static_cast<unsigned*>(value) = managed;
      return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL:
      *static_cast<int*>(value) = static_cast<int>(piece->device);
      return CUDA_SUCCESS;
  }
  return CUDA_ERROR_INVALID_VALUE;
}

CUresult cuMemsetD8Async(CUdeviceptr dst, unsigned char value, size_t count, CUstream stream) {
  return fill(dst, value, count, stream);
}
CUresult cuMemsetD16Async(CUdeviceptr dst, unsigned short value, size_t count, CUstream stream) {
  return fill(dst, value, count, stream);
}
CUresult cuMemsetD32Async(CUdeviceptr dst, unsigned value, size_t count, CUstream stream) {
  return fill(dst, value, count, stream);
}
CUresult cuMemsetD8(CUdeviceptr dst, unsigned char value, size_t count) {
  const CUresult result = fill(dst, value, count, nullptr);
  return result == CUDA_SUCCESS ? cuStreamSynchronize(nullptr) : result;
}
CUresult cuMemsetD16(CUdeviceptr dst, unsigned short value, size_t count) {
  const CUresult result = fill(dst, value, count, nullptr);
  return result == CUDA_SUCCESS ? cuStreamSynchronize(nullptr) : result;
}
CUresult cuMemsetD32(CUdeviceptr dst, unsigned value, size_t count) {
  const CUresult result = fill(dst, value, count, nullptr);
  return result == CUDA_SUCCESS ? cuStreamSynchronize(nullptr) : result;
}

CUresult cuLaunchKernel(CUfunction kernel, unsigned grid_x, unsigned grid_y, unsigned grid_z,
                        unsigned block_x, unsigned block_y, unsigned block_z, unsigned shared_bytes,
                        CUstream stream, void** arguments, void** extra) {
  if (extra != nullptr) return CUDA_ERROR_NOT_SUPPORTED;
  const void* const address = kernel;
  return of_driver(cudaLaunchKernel(address, dim3(grid_x, grid_y, grid_z),
                                    dim3(block_x, block_y, block_z), arguments, shared_bytes,
                                    stream));
}

CUresult cuLaunchCooperativeKernel(CUfunction kernel, unsigned grid_x, unsigned grid_y,
                                   unsigned grid_z, unsigned block_x, unsigned block_y,
                                   unsigned block_z, unsigned shared_bytes, CUstream stream,
                                   void** arguments) {
  const void* const address = kernel;
  return of_driver(cudaLaunchCooperativeKernel(address, dim3(grid_x, grid_y, grid_z),
                                               dim3(block_x, block_y, block_z), arguments,
                                               shared_bytes, stream));
}

CUresult cuKernelGetFunction(CUfunction* function, CUkernel kernel) {
  if (function == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (kernel == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  *function = reinterpret_cast<CUfunction>(kernel);
  return CUDA_SUCCESS;
}

CUresult cuFuncGetAttribute(int* value, CUfunction_attribute attribute, CUfunction kernel) {
  if (value == nullptr) return CUDA_ERROR_INVALID_VALUE;
  cudaFuncAttributes all{};
  const void* const address = kernel;
  const cudaError_t error = cudaFuncGetAttributes(&all, address);
  if (error != cudaSuccess) return of_driver(error);
  switch (attribute) {
    case CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK:
      *value = all.maxThreadsPerBlock;
      return CUDA_SUCCESS;
    case CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES:
      *value = all.maxDynamicSharedSizeBytes;
      return CUDA_SUCCESS;
    case CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES:
    case CU_FUNC_ATTRIBUTE_CONST_SIZE_BYTES:
    case CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES:
    case CU_FUNC_ATTRIBUTE_NUM_REGS:
      *value = 0;
      return CUDA_SUCCESS;
    default:
      return CUDA_ERROR_INVALID_VALUE;
  }
}

}  // namespace calls
}  // namespace peal::simt::cuda
