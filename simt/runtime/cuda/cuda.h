// SPDX-License-Identifier: Apache-2.0
//
// Included by CUDA programs under this name: types and numbers of CUDA's driver, for programs that
// name them. There is no driver here: a program that calls it does not compile, and the message
// says so.
#pragma once

#include <cstddef>

#include "simt/runtime/cuda_runtime.h"

#define CUDA_VERSION CUDART_VERSION
#define CUDAAPI
#define CUDA_CB

typedef int CUdevice;
typedef unsigned long long CUdeviceptr;
typedef struct CUctx_st* CUcontext;
typedef struct CUmod_st* CUmodule;
typedef struct CUfunc_st* CUfunction;
typedef struct CUlib_st* CUlibrary;
typedef struct CUkern_st* CUkernel;
typedef struct CUarray_st* CUarray;
typedef struct CUmemPoolHandle_st* CUmemoryPool;
// The runtime's.
typedef cudaStream_t CUstream;
typedef cudaEvent_t CUevent;
typedef cudaGraph_t CUgraph;
typedef cudaGraphExec_t CUgraphExec;

typedef enum cudaError_enum : unsigned {
  CUDA_SUCCESS = 0,
  CUDA_ERROR_INVALID_VALUE = 1,
  CUDA_ERROR_OUT_OF_MEMORY = 2,
  CUDA_ERROR_NOT_INITIALIZED = 3,
  CUDA_ERROR_DEINITIALIZED = 4,
  CUDA_ERROR_NO_DEVICE = 100,
  CUDA_ERROR_INVALID_DEVICE = 101,
  CUDA_ERROR_INVALID_IMAGE = 200,
  CUDA_ERROR_INVALID_CONTEXT = 201,
  CUDA_ERROR_MAP_FAILED = 205,
  CUDA_ERROR_UNMAP_FAILED = 206,
  CUDA_ERROR_NO_BINARY_FOR_GPU = 209,
  CUDA_ERROR_ECC_UNCORRECTABLE = 214,
  CUDA_ERROR_UNSUPPORTED_LIMIT = 215,
  CUDA_ERROR_CONTEXT_ALREADY_IN_USE = 216,
  CUDA_ERROR_PEER_ACCESS_UNSUPPORTED = 217,
  CUDA_ERROR_INVALID_PTX = 218,
  CUDA_ERROR_INVALID_SOURCE = 300,
  CUDA_ERROR_FILE_NOT_FOUND = 301,
  CUDA_ERROR_SHARED_OBJECT_SYMBOL_NOT_FOUND = 302,
  CUDA_ERROR_SHARED_OBJECT_INIT_FAILED = 303,
  CUDA_ERROR_OPERATING_SYSTEM = 304,
  CUDA_ERROR_INVALID_HANDLE = 400,
  CUDA_ERROR_ILLEGAL_STATE = 401,
  CUDA_ERROR_NOT_FOUND = 500,
  CUDA_ERROR_NOT_READY = 600,
  CUDA_ERROR_ILLEGAL_ADDRESS = 700,
  CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES = 701,
  CUDA_ERROR_LAUNCH_TIMEOUT = 702,
  CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED = 704,
  CUDA_ERROR_PEER_ACCESS_NOT_ENABLED = 705,
  CUDA_ERROR_PRIMARY_CONTEXT_ACTIVE = 708,
  CUDA_ERROR_CONTEXT_IS_DESTROYED = 709,
  CUDA_ERROR_ASSERT = 710,
  CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED = 712,
  CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED = 713,
  CUDA_ERROR_MISALIGNED_ADDRESS = 716,
  CUDA_ERROR_LAUNCH_FAILED = 719,
  CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE = 720,
  CUDA_ERROR_NOT_PERMITTED = 800,
  CUDA_ERROR_NOT_SUPPORTED = 801,
  CUDA_ERROR_SYSTEM_NOT_READY = 802,
  CUDA_ERROR_UNKNOWN = 999,
} CUresult;

typedef enum CUdevice_attribute_enum : unsigned {
  CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK = 1,
  CU_DEVICE_ATTRIBUTE_WARP_SIZE = 10,
  CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT = 16,
  CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR = 75,
  CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR = 76,
  CU_DEVICE_ATTRIBUTE_COOPERATIVE_LAUNCH = 95,
} CUdevice_attribute;

namespace peal::simt::cuda {

/// False, but not before somebody asks.
template <class... Asked>
inline constexpr bool kHasDriver = sizeof...(Asked) == ~size_t{0};

}  // namespace peal::simt::cuda

#define PEAL_NO_DRIVER(name)                                                             \
  template <class... Arguments>                                                          \
  CUresult name(Arguments&&...) {                                                        \
    static_assert(::peal::simt::cuda::kHasDriver<Arguments...>, #name                    \
                  ": kernels on a CPU have no driver of CUDA. Use the runtime's calls, " \
                  "cuda...(), which also begin by themselves.");                         \
    return CUDA_ERROR_NOT_SUPPORTED;                                                     \
  }

PEAL_NO_DRIVER(cuInit)
PEAL_NO_DRIVER(cuDriverGetVersion)
PEAL_NO_DRIVER(cuGetErrorName)
PEAL_NO_DRIVER(cuGetErrorString)
PEAL_NO_DRIVER(cuGetProcAddress)
PEAL_NO_DRIVER(cuDeviceGet)
PEAL_NO_DRIVER(cuDeviceGetCount)
PEAL_NO_DRIVER(cuDeviceGetName)
PEAL_NO_DRIVER(cuDeviceGetAttribute)
PEAL_NO_DRIVER(cuDeviceTotalMem)
PEAL_NO_DRIVER(cuDevicePrimaryCtxRetain)
PEAL_NO_DRIVER(cuDevicePrimaryCtxRelease)
PEAL_NO_DRIVER(cuCtxCreate)
PEAL_NO_DRIVER(cuCtxDestroy)
PEAL_NO_DRIVER(cuCtxGetCurrent)
PEAL_NO_DRIVER(cuCtxSetCurrent)
PEAL_NO_DRIVER(cuCtxGetDevice)
PEAL_NO_DRIVER(cuCtxPushCurrent)
PEAL_NO_DRIVER(cuCtxPopCurrent)
PEAL_NO_DRIVER(cuCtxSynchronize)
PEAL_NO_DRIVER(cuModuleLoad)
PEAL_NO_DRIVER(cuModuleLoadData)
PEAL_NO_DRIVER(cuModuleUnload)
PEAL_NO_DRIVER(cuModuleGetFunction)
PEAL_NO_DRIVER(cuModuleGetGlobal)
PEAL_NO_DRIVER(cuLibraryLoadData)
PEAL_NO_DRIVER(cuLibraryGetKernel)
PEAL_NO_DRIVER(cuFuncSetAttribute)
PEAL_NO_DRIVER(cuLaunchKernel)
PEAL_NO_DRIVER(cuLaunchCooperativeKernel)
PEAL_NO_DRIVER(cuMemAlloc)
PEAL_NO_DRIVER(cuMemFree)
PEAL_NO_DRIVER(cuMemcpy)
PEAL_NO_DRIVER(cuMemcpyHtoD)
PEAL_NO_DRIVER(cuMemcpyDtoH)
PEAL_NO_DRIVER(cuMemGetAddressRange)
PEAL_NO_DRIVER(cuMemGetInfo)
PEAL_NO_DRIVER(cuMemCreate)
PEAL_NO_DRIVER(cuMemRelease)
PEAL_NO_DRIVER(cuMemAddressReserve)
PEAL_NO_DRIVER(cuMemMap)
PEAL_NO_DRIVER(cuMemUnmap)
PEAL_NO_DRIVER(cuMemSetAccess)
PEAL_NO_DRIVER(cuMemGetAllocationGranularity)
PEAL_NO_DRIVER(cuMemExportToShareableHandle)
PEAL_NO_DRIVER(cuPointerGetAttribute)
PEAL_NO_DRIVER(cuPointerSetAttribute)
PEAL_NO_DRIVER(cuStreamCreate)
PEAL_NO_DRIVER(cuStreamSynchronize)
PEAL_NO_DRIVER(cuStreamWaitValue32)
PEAL_NO_DRIVER(cuStreamWaitValue64)
PEAL_NO_DRIVER(cuStreamWriteValue32)
PEAL_NO_DRIVER(cuStreamWriteValue64)
PEAL_NO_DRIVER(cuEventCreate)
PEAL_NO_DRIVER(cuEventRecord)
PEAL_NO_DRIVER(cuEventSynchronize)

#undef PEAL_NO_DRIVER
