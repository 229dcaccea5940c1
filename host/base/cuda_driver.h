// SPDX-License-Identifier: Apache-2.0
//
// The CUDA driver's functions that peal calls, found by dlopen: no CUDA toolkit is needed to build
// the host library, and a machine without a GPU runs it too. tests/gpu compares the declarations
// with cuda.h.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

namespace peal::cuda {

// As cuda.h has them, under names of our own.
using Result = int;
using DeviceHandle = int;
using DeviceAddress = unsigned long long;
using ContextHandle = struct OpaqueContext*;
using StreamHandle = struct OpaqueStream*;
using EventHandle = struct OpaqueEvent*;
using ModuleHandle = struct OpaqueModule*;
using FunctionHandle = struct OpaqueFunction*;
using PoolHandle = struct OpaquePool*;  // of cudaMallocAsync
struct Uuid {
  char bytes[16];
  bool operator==(const Uuid&) const = default;
};
struct IpcHandle {
  char bytes[64];
};
using MemoryHandle = unsigned long long;  // of cuMemCreate
struct FabricHandle {
  char bytes[64];
};
struct PoolPointer {  // CUmemPoolPtrExportData: one allocation of a pool, for other processes
  char bytes[64];
};

/// CUmemLocation, CUmemAccessDesc and CUmemAllocationProp.
struct MemoryLocation {
  int type;
  int id;
};
struct MemoryAccess {
  MemoryLocation location;
  int flags;
};
struct MemoryProperties {
  int type;
  int handle_types;  // kPosixDescriptor | kFabric
  MemoryLocation location;
  void* security;
  struct {
    unsigned char compression;
    unsigned char gpu_direct_rdma;
    unsigned short usage;
    unsigned char reserved[4];
  } flags;
};

inline constexpr Result kSuccess = 0;
inline constexpr Result kOutOfMemory = 2;
inline constexpr Result kNotReady = 600;
inline constexpr Result kPeerAccessAlreadyEnabled = 704;
inline constexpr Result kNotPermitted = 800;
inline constexpr Result kNotSupported = 801;
// CU_DEVICE_ATTRIBUTE_PAGEABLE_MEMORY_ACCESS_USES_HOST_PAGE_TABLES
inline constexpr int kUsesHostPageTables = 100;
inline constexpr int kMultiprocessors = 16;      // CU_DEVICE_ATTRIBUTE_...
inline constexpr int kFlushWritesOptions = 117;  // CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_...
inline constexpr int kWritesOrdering = 118;      // the same
inline constexpr int kOrderedForOwner = 100;     // CU_GPU_DIRECT_RDMA_WRITES_ORDERING_OWNER
inline constexpr int kDmaBufSupported = 124;     // CU_DEVICE_ATTRIBUTE_...
inline constexpr int kVirtualMemory = 102;      // CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_...
inline constexpr int kPosixDescriptors = 103;   // CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_...
inline constexpr int kVirtualMemoryRdma = 110;  // CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WITH_...
inline constexpr int kFabricHandles = 128;      // CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_FABRIC_...
inline constexpr int kPinnedAllocation = 1;     // CU_MEM_ALLOCATION_TYPE_...
inline constexpr int kOnDevice = 1;             // CU_MEM_LOCATION_TYPE_...
inline constexpr int kPosixDescriptor = 1;      // CU_MEM_HANDLE_TYPE_...
inline constexpr int kFabric = 8;               // the same
inline constexpr int kReadWrite = 3;            // CU_MEM_ACCESS_FLAGS_PROT_...
inline constexpr int kGranularityMinimum = 0;   // CU_MEM_ALLOC_GRANULARITY_...
inline constexpr int kPointerLegacyIpc = 10;    // CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE
inline constexpr int kPointerHandleTypes = 14;  // CU_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES
inline constexpr int kPointerPool = 17;         // CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE
inline constexpr int kP2pNativeAtomics = 3;     // CU_DEVICE_P2P_ATTRIBUTE_...
inline constexpr int kPointerMemoryType = 2;    // CU_POINTER_ATTRIBUTE_MEMORY_TYPE
inline constexpr int kPointerBufferId = 7;      // CU_POINTER_ATTRIBUTE_BUFFER_ID
inline constexpr int kPointerManaged = 8;       // CU_POINTER_ATTRIBUTE_IS_MANAGED
inline constexpr int kPointerDevice = 9;        // CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL
inline constexpr unsigned kMemoryTypeDevice = 2;    // CU_MEMORYTYPE_...
inline constexpr int kRangeHandleDmaBuf = 1;        // CU_MEM_RANGE_HANDLE_TYPE_...
inline constexpr unsigned kStreamNonBlocking = 1;   // CU_STREAM_...
inline constexpr unsigned kEventDisableTiming = 2;  // CU_EVENT_...
inline constexpr int kCaptureNone = 0;              // CU_STREAM_CAPTURE_STATUS_...
inline constexpr unsigned kIpcLazyPeerAccess = 1;   // CU_IPC_MEM_...
inline constexpr unsigned kHostPortable = 1;        // CU_MEMHOSTALLOC_..., CU_MEMHOSTREGISTER_...
inline constexpr unsigned kHostDeviceMap = 2;       // the same
inline constexpr unsigned kHostIoMemory = 4;        // CU_MEMHOSTREGISTER_...

inline constexpr int kPointerSyncMemoryOperations = 6;          // CU_POINTER_ATTRIBUTE_SYNC_MEMOPS
inline constexpr unsigned kContextSyncMemoryOperations = 0x80;  // CU_CTX_SYNC_MEMOPS

/// CUlaunchAttribute and CUlaunchConfig, as cuda.h has them since CUDA 11.8.
struct LaunchAttribute {
  unsigned id;
  unsigned padding = 0;
  union {
    char bytes[64];
    int number;
  };
};
inline constexpr unsigned kLaunchProgrammatic = 6;  // CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_...
struct LaunchConfig {
  unsigned blocks[3];
  unsigned threads[3];
  unsigned shared_bytes;
  StreamHandle stream;
  LaunchAttribute* attributes;
  unsigned attribute_count;
};

// X(member, symbol, parameters). All answer a Result.
#define PEAL_CUDA_FUNCTIONS(X)                                                                    \
  X(init, "cuInit", (unsigned flags))                                                             \
  X(driver_version, "cuDriverGetVersion", (int* version))                                         \
  X(error_name, "cuGetErrorName", (Result error, const char** text))                              \
  X(error_string, "cuGetErrorString", (Result error, const char** text))                          \
  X(device_count, "cuDeviceGetCount", (int* count))                                               \
  X(device, "cuDeviceGet", (DeviceHandle * device, int index))                                    \
  X(device_attribute, "cuDeviceGetAttribute", (int* value, int what, DeviceHandle device))        \
  X(device_name, "cuDeviceGetName", (char* name, int bytes, DeviceHandle device))                 \
  X(device_uuid, "cuDeviceGetUuid_v2", (Uuid * uuid, DeviceHandle device))                        \
  X(pci_bus_id, "cuDeviceGetPCIBusId", (char* address, int bytes, DeviceHandle device))           \
  X(can_access_peer, "cuDeviceCanAccessPeer", (int* can, DeviceHandle device, DeviceHandle peer)) \
  X(p2p_attribute, "cuDeviceGetP2PAttribute",                                                     \
    (int* value, int what, DeviceHandle from, DeviceHandle to))                                   \
  X(retain_context, "cuDevicePrimaryCtxRetain", (ContextHandle * context, DeviceHandle device))   \
  X(release_context, "cuDevicePrimaryCtxRelease_v2", (DeviceHandle device))                       \
  X(set_context, "cuCtxSetCurrent", (ContextHandle context))                                      \
  X(push_context, "cuCtxPushCurrent_v2", (ContextHandle context))                                 \
  X(pop_context, "cuCtxPopCurrent_v2", (ContextHandle * context))                                 \
  X(enable_peer, "cuCtxEnablePeerAccess", (ContextHandle peer, unsigned flags))                   \
  X(create_stream, "cuStreamCreate", (StreamHandle * stream, unsigned flags))                     \
  X(destroy_stream, "cuStreamDestroy_v2", (StreamHandle stream))                                  \
  X(sync_context, "cuCtxSynchronize", ())                                                         \
  X(sync_stream, "cuStreamSynchronize", (StreamHandle stream))                                    \
  X(is_capturing, "cuStreamIsCapturing", (StreamHandle stream, int* status))                      \
  X(write_value, "cuStreamWriteValue64_v2",                                                       \
    (StreamHandle stream, DeviceAddress at, uint64_t value, unsigned flags))                      \
  X(wait_value, "cuStreamWaitValue64_v2",                                                         \
    (StreamHandle stream, DeviceAddress at, uint64_t value, unsigned flags))                      \
  X(create_event, "cuEventCreate", (EventHandle * event, unsigned flags))                         \
  X(destroy_event, "cuEventDestroy_v2", (EventHandle event))                                      \
  X(record_event, "cuEventRecord", (EventHandle event, StreamHandle stream))                      \
  X(query_event, "cuEventQuery", (EventHandle event))                                             \
  X(sync_event, "cuEventSynchronize", (EventHandle event))                                        \
  X(load_module, "cuModuleLoadData", (ModuleHandle * module, const void* image))                  \
  X(unload_module, "cuModuleUnload", (ModuleHandle module))                                       \
  X(find_function, "cuModuleGetFunction",                                                         \
    (FunctionHandle * function, ModuleHandle module, const char* name))                           \
  X(launch, "cuLaunchKernel",                                                                     \
    (FunctionHandle function, unsigned blocks_x, unsigned blocks_y, unsigned blocks_z,            \
     unsigned threads_x, unsigned threads_y, unsigned threads_z, unsigned shared_bytes,           \
     StreamHandle stream, void** parameters, void** extra))                                       \
  X(copy, "cuMemcpyAsync",                                                                        \
    (DeviceAddress to, DeviceAddress from, size_t bytes, StreamHandle stream))                    \
  X(set_bytes, "cuMemsetD8Async",                                                                 \
    (DeviceAddress to, unsigned char byte, size_t bytes, StreamHandle stream))                    \
  X(memory_info, "cuMemGetInfo_v2", (size_t * available, size_t * total))                         \
  X(allocate, "cuMemAlloc_v2", (DeviceAddress * address, size_t bytes))                           \
  X(release, "cuMemFree_v2", (DeviceAddress address))                                             \
  X(address_range, "cuMemGetAddressRange_v2",                                                     \
    (DeviceAddress * base, size_t * bytes, DeviceAddress inside))                                 \
  X(ipc_handle, "cuIpcGetMemHandle", (IpcHandle * handle, DeviceAddress address))                 \
  X(ipc_open, "cuIpcOpenMemHandle_v2",                                                            \
    (DeviceAddress * address, IpcHandle handle, unsigned flags))                                  \
  X(ipc_close, "cuIpcCloseMemHandle", (DeviceAddress address))                                    \
  X(allocate_host, "cuMemHostAlloc", (void** address, size_t bytes, unsigned flags))              \
  X(release_host, "cuMemFreeHost", (void* address))                                               \
  X(register_host, "cuMemHostRegister_v2", (void* address, size_t bytes, unsigned flags))         \
  X(unregister_host, "cuMemHostUnregister", (void* address))                                      \
  X(host_pointer, "cuMemHostGetDevicePointer_v2",                                                 \
    (DeviceAddress * out, void* host, unsigned flags))                                            \
  X(pointer_attribute, "cuPointerGetAttribute", (void* value, int what, DeviceAddress pointer))

// The same for functions that an older driver lacks: null there.
#define PEAL_CUDA_OPTIONAL_FUNCTIONS(X)                                                     \
  X(query_stream, "cuStreamQuery", (StreamHandle stream))                                   \
  X(context_flags, "cuCtxGetFlags", (unsigned* flags))                                      \
  X(set_context_flags, "cuCtxSetFlags", (unsigned flags))                                   \
  X(set_pointer_attribute, "cuPointerSetAttribute",                                         \
    (const void* value, int what, DeviceAddress pointer))                                   \
  X(launch_with, "cuLaunchKernelEx",                                                        \
    (const LaunchConfig* config, FunctionHandle function, void** parameters, void** extra)) \
  X(range_handle, "cuMemGetHandleForAddressRange",                                          \
    (void* handle, DeviceAddress address, size_t bytes, int kind, unsigned long long flags))

// The same for memory that is made and mapped apart (cuMemCreate, cuMemMap): all or none.
#define PEAL_CUDA_VIRTUAL_MEMORY_FUNCTIONS(X)                                                    \
  X(granularity, "cuMemGetAllocationGranularity",                                                \
    (size_t * bytes, const MemoryProperties* of, int kind))                                      \
  X(create, "cuMemCreate",                                                                       \
    (MemoryHandle * memory, size_t bytes, const MemoryProperties* of, unsigned long long flags)) \
  X(release_handle, "cuMemRelease", (MemoryHandle memory))                                       \
  X(retain_handle, "cuMemRetainAllocationHandle", (MemoryHandle * memory, void* mapped))         \
  X(export_handle, "cuMemExportToShareableHandle",                                               \
    (void* handle, MemoryHandle memory, int type, unsigned long long flags))                     \
  X(import_handle, "cuMemImportFromShareableHandle",                                             \
    (MemoryHandle * memory, void* handle, int type))                                             \
  X(reserve, "cuMemAddressReserve",                                                              \
    (DeviceAddress * begin, size_t bytes, size_t alignment, DeviceAddress wish,                  \
     unsigned long long flags))                                                                  \
  X(free_addresses, "cuMemAddressFree", (DeviceAddress begin, size_t bytes))                     \
  X(map, "cuMemMap",                                                                             \
    (DeviceAddress at, size_t bytes, size_t offset, MemoryHandle memory,                         \
     unsigned long long flags))                                                                  \
  X(unmap, "cuMemUnmap", (DeviceAddress at, size_t bytes))                                       \
  X(set_access, "cuMemSetAccess",                                                                \
    (DeviceAddress at, size_t bytes, const MemoryAccess* access, size_t count))

// The same for pools of memory (cudaMallocAsync) and their sharing: all or none.
#define PEAL_CUDA_POOL_FUNCTIONS(X)                                                            \
  X(export_pool, "cuMemPoolExportToShareableHandle",                                           \
    (void* handle, PoolHandle pool, int type, unsigned long long flags))                       \
  X(import_pool, "cuMemPoolImportFromShareableHandle",                                         \
    (PoolHandle * pool, void* handle, int type, unsigned long long flags))                     \
  X(destroy_pool, "cuMemPoolDestroy", (PoolHandle pool))                                       \
  X(set_pool_access, "cuMemPoolSetAccess",                                                     \
    (PoolHandle pool, const MemoryAccess* access, size_t count))                               \
  X(export_pointer, "cuMemPoolExportPointer", (PoolPointer * exported, DeviceAddress address)) \
  X(import_pointer, "cuMemPoolImportPointer",                                                  \
    (DeviceAddress * address, PoolHandle pool, PoolPointer * exported))

/// The functions: driver->allocate(&address, bytes). The library stays loaded until the process
/// ends.
struct Driver {
#define PEAL_CUDA_DECLARE(member, symbol, parameters) Result(*member) parameters = nullptr;
  PEAL_CUDA_FUNCTIONS(PEAL_CUDA_DECLARE)
  PEAL_CUDA_OPTIONAL_FUNCTIONS(PEAL_CUDA_DECLARE)
  PEAL_CUDA_VIRTUAL_MEMORY_FUNCTIONS(PEAL_CUDA_DECLARE)
  PEAL_CUDA_POOL_FUNCTIONS(PEAL_CUDA_DECLARE)
#undef PEAL_CUDA_DECLARE

  /// True if the driver has all of PEAL_CUDA_VIRTUAL_MEMORY_FUNCTIONS.
  bool virtual_memory = false;
  /// True if the driver has all of PEAL_CUDA_POOL_FUNCTIONS.
  bool pools = false;

  /// "out of memory (CUDA_ERROR_OUT_OF_MEMORY)".
  std::string text(Result error) const;
};

/// A driver, or why there is none.
struct Loaded {
  std::shared_ptr<const Driver> driver;
  std::string reason;
};

/// Opens libcuda and initialises it. A machine without one, or without a GPU that works, is no
/// error here.
Loaded load_driver(const std::string& path = "libcuda.so.1");

}  // namespace peal::cuda
