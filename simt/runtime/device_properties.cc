// SPDX-License-Identifier: Apache-2.0
#include "simt/runtime/device_properties.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <utility>

#include "simt/lanes/lane.h"
#include "simt/lanes/launch.h"
#include "simt/runtime/allocations.h"

namespace peal::simt::cuda {

cudaDeviceProp properties_of(int device) {
  cudaDeviceProp all{};
  std::snprintf(all.name, sizeof(all.name), "peal simt: a CPU");
  all.totalGlobalMem = total_bytes();
  all.sharedMemPerBlock = 48 * 1024;
  all.sharedMemPerBlockOptin = 227 * 1024;
  all.sharedMemPerMultiprocessor = 228 * 1024;
  all.reservedSharedMemPerBlock = 1024;
  all.totalConstMem = 64 * 1024;
  all.memPitch = 0x7fffffff;
  all.textureAlignment = 512;
  all.texturePitchAlignment = 32;
  all.surfaceAlignment = 512;
  all.maxTexture1D = 131072;
  all.maxTexture1DLinear = 268435456;
  std::ranges::copy(std::array{131072, 65000}, all.maxTexture2D);
  all.regsPerBlock = all.regsPerMultiprocessor = 65536;
  all.warpSize = static_cast<int>(kWarpLanes);
  all.maxThreadsPerBlock = 1024;
  all.maxThreadsPerMultiProcessor = 2048;
  all.maxBlocksPerMultiProcessor = 32;
  std::ranges::copy(std::array{1024, 1024, 64}, all.maxThreadsDim);
  std::ranges::copy(std::array{0x7fffffff, 65535, 65535}, all.maxGridSize);
  all.major = 9;
  all.multiProcessorCount = static_cast<int>(limits().workers);
  all.clockRate = all.memoryClockRate = 1'000'000;  // clock64() counts nanoseconds
  all.memoryBusWidth = 64;
  all.asyncEngineCount = 1;
  all.deviceOverlap = all.concurrentKernels = 1;
  all.integrated = 1;
  all.canMapHostMemory = all.unifiedAddressing = 1;
  all.managedMemory = all.concurrentManagedAccess = 1;
  all.pageableMemoryAccess = all.hostNativeAtomicSupported = 1;
  all.cooperativeLaunch = 1;
  all.pciBusID = device + 1;
  return all;
}

int attribute_of(const cudaDeviceProp& all, cudaDeviceAttr attribute) {
  const std::pair<cudaDeviceAttr, size_t> kSizes[] = {
      {cudaDevAttrMaxSharedMemoryPerBlock, all.sharedMemPerBlock},
      {cudaDevAttrMaxSharedMemoryPerBlockOptin, all.sharedMemPerBlockOptin},
      {cudaDevAttrMaxSharedMemoryPerMultiprocessor, all.sharedMemPerMultiprocessor},
      {cudaDevAttrTotalConstantMemory, all.totalConstMem},
      {cudaDevAttrMemoryPoolsSupported, 1},
  };
  for (const auto& [name, value] : kSizes) {
    if (name == attribute) return static_cast<int>(value);
  }
  const std::pair<cudaDeviceAttr, int> kNumbers[] = {
      {cudaDevAttrMaxThreadsPerBlock, all.maxThreadsPerBlock},
      {cudaDevAttrMaxBlockDimX, all.maxThreadsDim[0]},
      {cudaDevAttrMaxBlockDimY, all.maxThreadsDim[1]},
      {cudaDevAttrMaxBlockDimZ, all.maxThreadsDim[2]},
      {cudaDevAttrMaxGridDimX, all.maxGridSize[0]},
      {cudaDevAttrMaxGridDimY, all.maxGridSize[1]},
      {cudaDevAttrMaxGridDimZ, all.maxGridSize[2]},
      {cudaDevAttrWarpSize, all.warpSize},
      {cudaDevAttrMaxRegistersPerBlock, all.regsPerBlock},
      {cudaDevAttrMaxRegistersPerMultiprocessor, all.regsPerMultiprocessor},
      {cudaDevAttrClockRate, all.clockRate},
      {cudaDevAttrGpuOverlap, all.deviceOverlap},
      {cudaDevAttrMultiProcessorCount, all.multiProcessorCount},
      {cudaDevAttrIntegrated, all.integrated},
      {cudaDevAttrCanMapHostMemory, all.canMapHostMemory},
      {cudaDevAttrComputeMode, all.computeMode},
      {cudaDevAttrConcurrentKernels, all.concurrentKernels},
      {cudaDevAttrPciBusId, all.pciBusID},
      {cudaDevAttrPciDeviceId, all.pciDeviceID},
      {cudaDevAttrPciDomainId, all.pciDomainID},
      {cudaDevAttrL2CacheSize, all.l2CacheSize},
      {cudaDevAttrMaxThreadsPerMultiProcessor, all.maxThreadsPerMultiProcessor},
      {cudaDevAttrMaxBlocksPerMultiprocessor, all.maxBlocksPerMultiProcessor},
      {cudaDevAttrAsyncEngineCount, all.asyncEngineCount},
      {cudaDevAttrUnifiedAddressing, all.unifiedAddressing},
      {cudaDevAttrComputeCapabilityMajor, all.major},
      {cudaDevAttrComputeCapabilityMinor, all.minor},
      {cudaDevAttrManagedMemory, all.managedMemory},
      {cudaDevAttrHostNativeAtomicSupported, all.hostNativeAtomicSupported},
      {cudaDevAttrPageableMemoryAccess, all.pageableMemoryAccess},
      {cudaDevAttrConcurrentManagedAccess, all.concurrentManagedAccess},
      {cudaDevAttrCooperativeLaunch, all.cooperativeLaunch},
      {cudaDevAttrClusterLaunch, all.clusterLaunch},
  };
  for (const auto& [name, value] : kNumbers) {
    if (name == attribute) return value;
  }
  return -1;
}

}  // namespace peal::simt::cuda
