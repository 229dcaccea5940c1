// SPDX-License-Identifier: Apache-2.0
//
// The types and numbers of CUDA's driver. Streams, events and graphs are the runtime's.
#pragma once

#include "simt/runtime/texture_types.h"
#include "simt/runtime/types.h"

typedef int CUdevice;
typedef unsigned long long CUdeviceptr;
typedef struct CUctx_st* CUcontext;
typedef struct CUmod_st* CUmodule;
typedef struct CUlib_st* CUlibrary;
typedef struct CUarray_st* CUarray;
typedef struct CUmemPoolHandle_st* CUmemoryPool;
typedef cudaFunction_t CUfunction;  // the kernel's address
typedef cudaKernel_t CUkernel;      // the same
typedef cudaStream_t CUstream;
typedef cudaEvent_t CUevent;
typedef cudaGraph_t CUgraph;
typedef cudaGraphExec_t CUgraphExec;
typedef cudaTextureObject_t CUtexObject;
typedef void (*CUhostFn)(void* data);

// clang-format off
// NAME without CUDA_, NUMBER, TEXT
#define PEAL_SIMT_DRIVER_ERRORS(X)                                                     \
  X(SUCCESS, 0, "no error")                                                            \
  X(ERROR_INVALID_VALUE, 1, "invalid argument")                                        \
  X(ERROR_OUT_OF_MEMORY, 2, "out of memory")                                           \
  X(ERROR_NOT_INITIALIZED, 3, "initialization error")                                  \
  X(ERROR_DEINITIALIZED, 4, "driver shutting down")                                    \
  X(ERROR_NO_DEVICE, 100, "no CUDA-capable device is detected")                        \
  X(ERROR_INVALID_DEVICE, 101, "invalid device ordinal")                               \
  X(ERROR_INVALID_IMAGE, 200, "device kernel image is invalid")                        \
  X(ERROR_INVALID_CONTEXT, 201, "invalid device context")                              \
  X(ERROR_MAP_FAILED, 205, "mapping of buffer object failed")                          \
  X(ERROR_UNMAP_FAILED, 206, "unmapping of buffer object failed")                      \
  X(ERROR_NO_BINARY_FOR_GPU, 209, "no kernel image for the device")                    \
  X(ERROR_ECC_UNCORRECTABLE, 214, "uncorrectable ECC error")                           \
  X(ERROR_UNSUPPORTED_LIMIT, 215, "limit is not supported on this device")             \
  X(ERROR_CONTEXT_ALREADY_IN_USE, 216, "the context is another thread's")              \
  X(ERROR_PEER_ACCESS_UNSUPPORTED, 217, "peer access is not supported")                \
  X(ERROR_INVALID_PTX, 218, "a PTX JIT compilation failed")                            \
  X(ERROR_INVALID_SOURCE, 300, "device kernel image is invalid")                       \
  X(ERROR_FILE_NOT_FOUND, 301, "file not found")                                       \
  X(ERROR_SHARED_OBJECT_SYMBOL_NOT_FOUND, 302, "shared object symbol not found")       \
  X(ERROR_SHARED_OBJECT_INIT_FAILED, 303, "shared object initialization failed")       \
  X(ERROR_OPERATING_SYSTEM, 304, "a call of the operating system failed")              \
  X(ERROR_INVALID_HANDLE, 400, "invalid resource handle")                              \
  X(ERROR_ILLEGAL_STATE, 401, "the operation cannot be done in the present state")     \
  X(ERROR_NOT_FOUND, 500, "named symbol not found")                                    \
  X(ERROR_NOT_READY, 600, "device not ready")                                          \
  X(ERROR_ILLEGAL_ADDRESS, 700, "an illegal memory access was encountered")            \
  X(ERROR_LAUNCH_OUT_OF_RESOURCES, 701, "too many resources requested for launch")     \
  X(ERROR_LAUNCH_TIMEOUT, 702, "the launch timed out and was terminated")              \
  X(ERROR_PEER_ACCESS_ALREADY_ENABLED, 704, "peer access is already enabled")          \
  X(ERROR_PEER_ACCESS_NOT_ENABLED, 705, "peer access has not been enabled")            \
  X(ERROR_PRIMARY_CONTEXT_ACTIVE, 708, "the primary context is in use")                \
  X(ERROR_CONTEXT_IS_DESTROYED, 709, "context is destroyed")                           \
  X(ERROR_ASSERT, 710, "device-side assert triggered")                                 \
  X(ERROR_HOST_MEMORY_ALREADY_REGISTERED, 712, "host memory is already registered")    \
  X(ERROR_HOST_MEMORY_NOT_REGISTERED, 713, "host memory is not registered")            \
  X(ERROR_MISALIGNED_ADDRESS, 716, "misaligned address")                               \
  X(ERROR_LAUNCH_FAILED, 719, "unspecified launch failure")                            \
  X(ERROR_COOPERATIVE_LAUNCH_TOO_LARGE, 720, "too many blocks in cooperative launch")  \
  X(ERROR_NOT_PERMITTED, 800, "operation not permitted")                               \
  X(ERROR_NOT_SUPPORTED, 801, "operation not supported")                               \
  X(ERROR_SYSTEM_NOT_READY, 802, "system not yet initialized")                         \
  X(ERROR_STREAM_CAPTURE_UNSUPPORTED, 900, "not permitted while a stream captures")    \
  X(ERROR_INVALID_CLUSTER_SIZE, 912, "cluster misconfiguration")                       \
  X(ERROR_UNKNOWN, 999, "unknown error")
// clang-format on

#define PEAL_SIMT_ENUMERATOR(NAME, NUMBER, TEXT) CUDA_##NAME = NUMBER,
typedef enum cudaError_enum : unsigned { PEAL_SIMT_DRIVER_ERRORS(PEAL_SIMT_ENUMERATOR) } CUresult;
#undef PEAL_SIMT_ENUMERATOR

// Numbers are those of cudaDeviceAttr.
typedef enum CUdevice_attribute_enum : unsigned {
  CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK = 1,
  CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_X = 2,
  CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Y = 3,
  CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Z = 4,
  CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X = 5,
  CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Y = 6,
  CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Z = 7,
  CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK = 8,
  CU_DEVICE_ATTRIBUTE_TOTAL_CONSTANT_MEMORY = 9,
  CU_DEVICE_ATTRIBUTE_WARP_SIZE = 10,
  CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_BLOCK = 12,
  CU_DEVICE_ATTRIBUTE_CLOCK_RATE = 13,
  CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT = 16,
  CU_DEVICE_ATTRIBUTE_INTEGRATED = 18,
  CU_DEVICE_ATTRIBUTE_CAN_MAP_HOST_MEMORY = 19,
  CU_DEVICE_ATTRIBUTE_COMPUTE_MODE = 20,
  CU_DEVICE_ATTRIBUTE_CONCURRENT_KERNELS = 31,
  CU_DEVICE_ATTRIBUTE_PCI_BUS_ID = 33,
  CU_DEVICE_ATTRIBUTE_PCI_DEVICE_ID = 34,
  CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE = 38,
  CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR = 39,
  CU_DEVICE_ATTRIBUTE_ASYNC_ENGINE_COUNT = 40,
  CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING = 41,
  CU_DEVICE_ATTRIBUTE_PCI_DOMAIN_ID = 50,
  CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR = 75,
  CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR = 76,
  CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR = 81,
  CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_MULTIPROCESSOR = 82,
  CU_DEVICE_ATTRIBUTE_MANAGED_MEMORY = 83,
  CU_DEVICE_ATTRIBUTE_PAGEABLE_MEMORY_ACCESS = 88,
  CU_DEVICE_ATTRIBUTE_CONCURRENT_MANAGED_ACCESS = 89,
  CU_DEVICE_ATTRIBUTE_COOPERATIVE_LAUNCH = 95,
  CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN = 97,
  CU_DEVICE_ATTRIBUTE_MAX_BLOCKS_PER_MULTIPROCESSOR = 106,
  CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED = 115,
  CU_DEVICE_ATTRIBUTE_CLUSTER_LAUNCH = 120,
} CUdevice_attribute;

typedef enum CUfunction_attribute_enum : unsigned {
  CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK = 0,
  CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES = 1,
  CU_FUNC_ATTRIBUTE_CONST_SIZE_BYTES = 2,
  CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES = 3,
  CU_FUNC_ATTRIBUTE_NUM_REGS = 4,
  CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES = 8,
  CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT = 9,
} CUfunction_attribute;

typedef enum CUpointer_attribute_enum : unsigned {
  CU_POINTER_ATTRIBUTE_MEMORY_TYPE = 2,
  CU_POINTER_ATTRIBUTE_DEVICE_POINTER = 3,
  CU_POINTER_ATTRIBUTE_HOST_POINTER = 4,
  CU_POINTER_ATTRIBUTE_IS_MANAGED = 8,
  CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL = 9,
} CUpointer_attribute;

typedef enum CUmemorytype_enum : unsigned {
  CU_MEMORYTYPE_HOST = 1,
  CU_MEMORYTYPE_DEVICE = 2,
} CUmemorytype;

enum CUctx_flags : unsigned {
  CU_CTX_SCHED_AUTO = 0,
  CU_CTX_SCHED_SPIN = 1,
  CU_CTX_SCHED_YIELD = 2,
  CU_CTX_SCHED_BLOCKING_SYNC = 4,
  CU_CTX_MAP_HOST = 8
};
enum CUstream_flags : unsigned { CU_STREAM_DEFAULT = 0, CU_STREAM_NON_BLOCKING = 1 };
enum CUevent_flags : unsigned {
  CU_EVENT_DEFAULT = 0,
  CU_EVENT_BLOCKING_SYNC = 1,
  CU_EVENT_DISABLE_TIMING = 2,
  CU_EVENT_INTERPROCESS = 4
};
enum CUmemAttach_flags : unsigned { CU_MEM_ATTACH_GLOBAL = 1, CU_MEM_ATTACH_HOST = 2 };

inline constexpr unsigned CU_MEMHOSTALLOC_PORTABLE = 1;
inline constexpr unsigned CU_MEMHOSTALLOC_DEVICEMAP = 2;
inline constexpr unsigned CU_MEMHOSTALLOC_WRITECOMBINED = 4;
