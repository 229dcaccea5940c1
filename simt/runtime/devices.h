// SPDX-License-Identifier: Apache-2.0
//
// CUDA's calls for devices. There are as many as SIMT_DEVICES says, else as PEs on this host, else
// 8; all are this machine's CPUs and share its memory. Each has a default stream of its own.
#pragma once

#include <cstddef>

#include "simt/runtime/errors.h"
#include "simt/runtime/types.h"

/// The fields that programs read. Limits are those of compute capability 9.0, which launches are
/// held to.
struct cudaDeviceProp {
  char name[256];
  size_t totalGlobalMem;
  size_t sharedMemPerBlock;
  size_t sharedMemPerBlockOptin;
  size_t sharedMemPerMultiprocessor;
  size_t reservedSharedMemPerBlock;
  size_t totalConstMem;
  size_t memPitch;
  size_t textureAlignment;
  int regsPerBlock;
  int regsPerMultiprocessor;
  int warpSize;
  int maxThreadsPerBlock;
  int maxThreadsPerMultiProcessor;
  int maxBlocksPerMultiProcessor;
  int maxThreadsDim[3];
  int maxGridSize[3];
  int major;
  int minor;
  int multiProcessorCount;
  int clockRate;
  int memoryClockRate;
  int memoryBusWidth;
  int l2CacheSize;
  int persistingL2CacheMaxSize;
  int accessPolicyMaxWindowSize;
  size_t texturePitchAlignment;
  size_t surfaceAlignment;
  int maxTexture1D;
  int maxTexture1DLinear;
  int maxTexture2D[2];
  int maxTexture3D[3];
  int asyncEngineCount;
  int deviceOverlap;
  int concurrentKernels;
  int integrated;
  int canMapHostMemory;
  int unifiedAddressing;
  int managedMemory;
  int concurrentManagedAccess;
  int pageableMemoryAccess;
  int hostNativeAtomicSupported;
  int cooperativeLaunch;
  int clusterLaunch;
  int streamPrioritiesSupported;
  int computeMode;
  int ECCEnabled;
  int kernelExecTimeoutEnabled;
  int tccDriver;
  int isMultiGpuBoard;
  int pciDomainID;
  int pciBusID;
  int pciDeviceID;
};

enum cudaDeviceAttr : unsigned {
  cudaDevAttrMaxThreadsPerBlock = 1,
  cudaDevAttrMaxBlockDimX = 2,
  cudaDevAttrMaxBlockDimY = 3,
  cudaDevAttrMaxBlockDimZ = 4,
  cudaDevAttrMaxGridDimX = 5,
  cudaDevAttrMaxGridDimY = 6,
  cudaDevAttrMaxGridDimZ = 7,
  cudaDevAttrMaxSharedMemoryPerBlock = 8,
  cudaDevAttrTotalConstantMemory = 9,
  cudaDevAttrWarpSize = 10,
  cudaDevAttrMaxRegistersPerBlock = 12,
  cudaDevAttrClockRate = 13,
  cudaDevAttrGpuOverlap = 15,
  cudaDevAttrMultiProcessorCount = 16,
  cudaDevAttrIntegrated = 18,
  cudaDevAttrCanMapHostMemory = 19,
  cudaDevAttrComputeMode = 20,
  cudaDevAttrConcurrentKernels = 31,
  cudaDevAttrPciBusId = 33,
  cudaDevAttrPciDeviceId = 34,
  cudaDevAttrL2CacheSize = 38,
  cudaDevAttrMaxThreadsPerMultiProcessor = 39,
  cudaDevAttrAsyncEngineCount = 40,
  cudaDevAttrUnifiedAddressing = 41,
  cudaDevAttrPciDomainId = 50,
  cudaDevAttrComputeCapabilityMajor = 75,
  cudaDevAttrComputeCapabilityMinor = 76,
  cudaDevAttrMaxSharedMemoryPerMultiprocessor = 81,
  cudaDevAttrMaxRegistersPerMultiprocessor = 82,
  cudaDevAttrManagedMemory = 83,
  cudaDevAttrHostNativeAtomicSupported = 86,
  cudaDevAttrPageableMemoryAccess = 88,
  cudaDevAttrConcurrentManagedAccess = 89,
  cudaDevAttrCooperativeLaunch = 95,
  cudaDevAttrMaxSharedMemoryPerBlockOptin = 97,
  cudaDevAttrMaxBlocksPerMultiprocessor = 106,
  cudaDevAttrMemoryPoolsSupported = 115,
  cudaDevAttrClusterLaunch = 120,
};

namespace peal::simt::cuda {
/// 0 where SIMT_DEVICES is no number from 0 to 64; that is said on stderr.
int device_count();
/// True for the number of one.
bool is_device(int device);
}  // namespace peal::simt::cuda

namespace peal::simt::cuda::calls {

cudaError_t cudaGetDeviceCount(int* count);
cudaError_t cudaSetDevice(int device);  ///< of the calling thread
cudaError_t cudaGetDevice(int* device);
cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int device);
cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr attribute, int device);
/// Waits for all streams of the device.
cudaError_t cudaDeviceSynchronize();
/// Waits, frees the memory of the device, forgets a kernel's failure.
cudaError_t cudaDeviceReset();
cudaError_t cudaSetDeviceFlags(unsigned flags);
/// cudaLimitStackSize is that of lanes; it grows at most, and counts from the next launch on.
cudaError_t cudaDeviceSetLimit(cudaLimit limit, size_t value);
cudaError_t cudaDeviceGetLimit(size_t* value, cudaLimit limit);
cudaError_t cudaDeviceCanAccessPeer(int* can, int device, int peer);
cudaError_t cudaDeviceEnablePeerAccess(int peer, unsigned flags);
cudaError_t cudaDeviceDisablePeerAccess(int peer);
cudaError_t cudaDeviceGetStreamPriorityRange(int* least, int* greatest);
cudaError_t cudaDriverGetVersion(int* version);
cudaError_t cudaRuntimeGetVersion(int* version);

/// cudaErrorNotSupported: what processes share is a symmetric heap.
cudaError_t cudaIpcGetMemHandle(cudaIpcMemHandle_t* handle, void* pointer);
cudaError_t cudaIpcOpenMemHandle(void** pointer, cudaIpcMemHandle_t handle, unsigned flags);
cudaError_t cudaIpcCloseMemHandle(void* pointer);
cudaError_t cudaIpcGetEventHandle(cudaIpcEventHandle_t* handle, cudaEvent_t event);
cudaError_t cudaIpcOpenEventHandle(cudaEvent_t* event, cudaIpcEventHandle_t handle);

}  // namespace peal::simt::cuda::calls
