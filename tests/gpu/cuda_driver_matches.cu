// SPDX-License-Identifier: Apache-2.0
//
// peal's own declarations of the CUDA driver, held against cuda.h where there is one: that this
// compiles is the test.
#include <cuda.h>

#include <cstddef>
#include <type_traits>

#include "host/base/cuda_driver.h"

namespace peal::cuda {
namespace {

/// A parameter of ours may stand for one of cuda.h: both pointers, or numbers, enumerators and
/// plain structures of one size.
template <class Ours, class Theirs>
constexpr bool kStandsFor = std::is_pointer_v<Ours> == std::is_pointer_v<Theirs> &&
                            sizeof(Ours) == sizeof(Theirs);
template <class Ours, class Theirs>
constexpr bool kMatches = false;
template <class... Ours, class... Theirs>
constexpr bool kMatches<Result (*)(Ours...), CUresult (*)(Theirs...)> =
    sizeof...(Ours) == sizeof...(Theirs) && (kStandsFor<Ours, Theirs> && ...);

#define PEAL_CHECK(member, function) \
  static_assert(kMatches<decltype(Driver::member), decltype(&function)>)
PEAL_CHECK(init, cuInit);
PEAL_CHECK(driver_version, cuDriverGetVersion);
PEAL_CHECK(error_name, cuGetErrorName);
PEAL_CHECK(error_string, cuGetErrorString);
PEAL_CHECK(device_count, cuDeviceGetCount);
PEAL_CHECK(device, cuDeviceGet);
PEAL_CHECK(device_attribute, cuDeviceGetAttribute);
PEAL_CHECK(device_name, cuDeviceGetName);
PEAL_CHECK(device_uuid, cuDeviceGetUuid);
PEAL_CHECK(pci_bus_id, cuDeviceGetPCIBusId);
PEAL_CHECK(can_access_peer, cuDeviceCanAccessPeer);
PEAL_CHECK(p2p_attribute, cuDeviceGetP2PAttribute);
PEAL_CHECK(retain_context, cuDevicePrimaryCtxRetain);
PEAL_CHECK(release_context, cuDevicePrimaryCtxRelease);
PEAL_CHECK(set_context, cuCtxSetCurrent);
PEAL_CHECK(push_context, cuCtxPushCurrent);
PEAL_CHECK(pop_context, cuCtxPopCurrent);
PEAL_CHECK(enable_peer, cuCtxEnablePeerAccess);
PEAL_CHECK(create_stream, cuStreamCreate);
PEAL_CHECK(destroy_stream, cuStreamDestroy);
PEAL_CHECK(sync_context, cuCtxSynchronize);
PEAL_CHECK(sync_stream, cuStreamSynchronize);
PEAL_CHECK(is_capturing, cuStreamIsCapturing);
PEAL_CHECK(write_value, cuStreamWriteValue64);
PEAL_CHECK(wait_value, cuStreamWaitValue64);
PEAL_CHECK(create_event, cuEventCreate);
PEAL_CHECK(destroy_event, cuEventDestroy);
PEAL_CHECK(record_event, cuEventRecord);
PEAL_CHECK(query_event, cuEventQuery);
PEAL_CHECK(sync_event, cuEventSynchronize);
PEAL_CHECK(load_module, cuModuleLoadData);
PEAL_CHECK(unload_module, cuModuleUnload);
PEAL_CHECK(find_function, cuModuleGetFunction);
PEAL_CHECK(launch, cuLaunchKernel);
static_assert(sizeof(peal::cuda::LaunchConfig) == sizeof(CUlaunchConfig) &&
              offsetof(peal::cuda::LaunchConfig, stream) == offsetof(CUlaunchConfig, hStream) &&
              offsetof(peal::cuda::LaunchConfig, attributes) == offsetof(CUlaunchConfig, attrs));
static_assert(sizeof(peal::cuda::LaunchAttribute) == sizeof(CUlaunchAttribute) &&
              offsetof(peal::cuda::LaunchAttribute, number) == offsetof(CUlaunchAttribute, value));
PEAL_CHECK(copy, cuMemcpyAsync);
PEAL_CHECK(set_bytes, cuMemsetD8Async);
PEAL_CHECK(memory_info, cuMemGetInfo);
PEAL_CHECK(allocate, cuMemAlloc);
PEAL_CHECK(release, cuMemFree);
PEAL_CHECK(address_range, cuMemGetAddressRange);
PEAL_CHECK(ipc_handle, cuIpcGetMemHandle);
PEAL_CHECK(ipc_open, cuIpcOpenMemHandle);
PEAL_CHECK(ipc_close, cuIpcCloseMemHandle);
PEAL_CHECK(allocate_host, cuMemHostAlloc);
PEAL_CHECK(release_host, cuMemFreeHost);
PEAL_CHECK(register_host, cuMemHostRegister);
PEAL_CHECK(unregister_host, cuMemHostUnregister);
PEAL_CHECK(host_pointer, cuMemHostGetDevicePointer);
PEAL_CHECK(pointer_attribute, cuPointerGetAttribute);
PEAL_CHECK(range_handle, cuMemGetHandleForAddressRange);
PEAL_CHECK(granularity, cuMemGetAllocationGranularity);
PEAL_CHECK(create, cuMemCreate);
PEAL_CHECK(release_handle, cuMemRelease);
PEAL_CHECK(retain_handle, cuMemRetainAllocationHandle);
PEAL_CHECK(export_handle, cuMemExportToShareableHandle);
PEAL_CHECK(import_handle, cuMemImportFromShareableHandle);
PEAL_CHECK(reserve, cuMemAddressReserve);
PEAL_CHECK(free_addresses, cuMemAddressFree);
PEAL_CHECK(map, cuMemMap);
PEAL_CHECK(unmap, cuMemUnmap);
PEAL_CHECK(set_access, cuMemSetAccess);
PEAL_CHECK(export_pool, cuMemPoolExportToShareableHandle);
PEAL_CHECK(import_pool, cuMemPoolImportFromShareableHandle);
PEAL_CHECK(destroy_pool, cuMemPoolDestroy);
PEAL_CHECK(set_pool_access, cuMemPoolSetAccess);
PEAL_CHECK(export_pointer, cuMemPoolExportPointer);
PEAL_CHECK(import_pointer, cuMemPoolImportPointer);
PEAL_CHECK(query_stream, cuStreamQuery);
PEAL_CHECK(set_pointer_attribute, cuPointerSetAttribute);
PEAL_CHECK(context_flags, cuCtxGetFlags);
#if CUDA_VERSION >= 12010
PEAL_CHECK(set_context_flags, cuCtxSetFlags);
static_assert(kContextSyncMemoryOperations == CU_CTX_SYNC_MEMOPS);
#endif
#undef PEAL_CHECK

static_assert(std::is_same_v<DeviceAddress, CUdeviceptr> && std::is_same_v<DeviceHandle, CUdevice>);
static_assert(sizeof(Uuid) == sizeof(CUuuid) && sizeof(IpcHandle) == sizeof(CUipcMemHandle));
static_assert(kSuccess == CUDA_SUCCESS && kOutOfMemory == CUDA_ERROR_OUT_OF_MEMORY);
static_assert(kPeerAccessAlreadyEnabled == CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED);
static_assert(kNotPermitted == CUDA_ERROR_NOT_PERMITTED &&
              kNotSupported == CUDA_ERROR_NOT_SUPPORTED);
static_assert(kMultiprocessors == CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT);
static_assert(kNotReady == CUDA_ERROR_NOT_READY && kCaptureNone == CU_STREAM_CAPTURE_STATUS_NONE &&
              kEventDisableTiming == CU_EVENT_DISABLE_TIMING);
static_assert(kHostIoMemory == CU_MEMHOSTREGISTER_IOMEMORY);
static_assert(kP2pNativeAtomics == CU_DEVICE_P2P_ATTRIBUTE_NATIVE_ATOMIC_SUPPORTED);
static_assert(kFlushWritesOptions == CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_FLUSH_WRITES_OPTIONS &&
              kWritesOrdering == CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WRITES_ORDERING &&
              kOrderedForOwner == CU_GPU_DIRECT_RDMA_WRITES_ORDERING_OWNER);
static_assert(kDmaBufSupported == CU_DEVICE_ATTRIBUTE_DMA_BUF_SUPPORTED &&
              kRangeHandleDmaBuf == CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD);
static_assert(sizeof(MemoryProperties) == sizeof(CUmemAllocationProp) &&
              offsetof(MemoryProperties, handle_types) ==
                  offsetof(CUmemAllocationProp, requestedHandleTypes) &&
              offsetof(MemoryProperties, location) == offsetof(CUmemAllocationProp, location) &&
              offsetof(MemoryProperties, flags.gpu_direct_rdma) ==
                  offsetof(CUmemAllocationProp, allocFlags.gpuDirectRDMACapable) &&
              sizeof(MemoryAccess) == sizeof(CUmemAccessDesc) &&
              offsetof(MemoryAccess, flags) == offsetof(CUmemAccessDesc, flags) &&
              sizeof(FabricHandle) == sizeof(CUmemFabricHandle) &&
              sizeof(PoolPointer) == sizeof(CUmemPoolPtrExportData) &&
              sizeof(PoolHandle) == sizeof(CUmemoryPool) &&
              std::is_same_v<MemoryHandle, CUmemGenericAllocationHandle>);
static_assert(kVirtualMemory == CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED &&
              kPosixDescriptors ==
                  CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED &&
              kVirtualMemoryRdma == CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WITH_CUDA_VMM_SUPPORTED &&
              kFabricHandles == CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_FABRIC_SUPPORTED);
static_assert(kPinnedAllocation == CU_MEM_ALLOCATION_TYPE_PINNED &&
              kOnDevice == CU_MEM_LOCATION_TYPE_DEVICE &&
              kPosixDescriptor == CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR &&
              kFabric == CU_MEM_HANDLE_TYPE_FABRIC &&
              kReadWrite == CU_MEM_ACCESS_FLAGS_PROT_READWRITE &&
              kGranularityMinimum == CU_MEM_ALLOC_GRANULARITY_MINIMUM);
static_assert(kPointerLegacyIpc == CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE &&
              kPointerHandleTypes == CU_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES &&
              kPointerPool == CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE);
static_assert(kMemoryTypeDevice == CU_MEMORYTYPE_DEVICE);
static_assert(kPointerMemoryType == CU_POINTER_ATTRIBUTE_MEMORY_TYPE);
static_assert(kPointerSyncMemoryOperations == CU_POINTER_ATTRIBUTE_SYNC_MEMOPS);
static_assert(kPointerBufferId == CU_POINTER_ATTRIBUTE_BUFFER_ID);
static_assert(kPointerManaged == CU_POINTER_ATTRIBUTE_IS_MANAGED);
static_assert(kPointerDevice == CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL);
static_assert(kStreamNonBlocking == CU_STREAM_NON_BLOCKING);
static_assert(kIpcLazyPeerAccess == CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS);
static_assert(kHostPortable == CU_MEMHOSTALLOC_PORTABLE &&
              kHostPortable == CU_MEMHOSTREGISTER_PORTABLE);
static_assert(kHostDeviceMap == CU_MEMHOSTALLOC_DEVICEMAP &&
              kHostDeviceMap == CU_MEMHOSTREGISTER_DEVICEMAP);

// The names that are looked up are those that the header's macros stand for.
#define PEAL_TEXT(name) PEAL_TEXT_OF(name)
#define PEAL_TEXT_OF(name) #name
constexpr bool equal(const char* a, const char* b) {
  while (*a != '\0' && *a == *b) ++a, ++b;
  return *a == *b;
}
constexpr const char* kSymbols[] = {
#define PEAL_SYMBOL(member, symbol, parameters) symbol,
    PEAL_CUDA_FUNCTIONS(PEAL_SYMBOL)
#undef PEAL_SYMBOL
};
constexpr bool looked_up(const char* name) {
  for (const char* symbol : kSymbols) {
    if (equal(symbol, name)) return true;
  }
  return false;
}
static_assert(looked_up(PEAL_TEXT(cuDeviceGetUuid)) && looked_up(PEAL_TEXT(cuMemAlloc)) &&
              looked_up(PEAL_TEXT(cuMemFree)) && looked_up(PEAL_TEXT(cuMemGetInfo)) &&
              looked_up(PEAL_TEXT(cuMemGetAddressRange)) &&
              looked_up(PEAL_TEXT(cuIpcOpenMemHandle)) && looked_up(PEAL_TEXT(cuMemHostRegister)) &&
              looked_up(PEAL_TEXT(cuStreamDestroy)) &&
              looked_up(PEAL_TEXT(cuDevicePrimaryCtxRelease)) &&
              looked_up(PEAL_TEXT(cuCtxPushCurrent)) && looked_up(PEAL_TEXT(cuCtxPopCurrent)));

}  // namespace
}  // namespace peal::cuda
