// SPDX-License-Identifier: Apache-2.0
//
// cudaLaunchKernelEx: a launch whose configuration is an object, with attributes. An attribute that
// says how fast something is has no effect; one that a kernel could not do without and that a CPU
// has not is refused.
#pragma once

#include <cstddef>
#include <tuple>
#include <type_traits>
#include <utility>

#include "simt/runtime/launches.h"

enum cudaLaunchAttributeID : unsigned {
  cudaLaunchAttributeIgnore = 0,
  cudaLaunchAttributeAccessPolicyWindow = 1,
  cudaLaunchAttributeCooperative = 2,
  cudaLaunchAttributeSynchronizationPolicy = 3,
  cudaLaunchAttributeClusterDimension = 4,
  cudaLaunchAttributeClusterSchedulingPolicyPreference = 5,
  cudaLaunchAttributeProgrammaticStreamSerialization = 6,
  cudaLaunchAttributeProgrammaticEvent = 7,
  cudaLaunchAttributePriority = 8,
  cudaLaunchAttributeMemSyncDomainMap = 9,
  cudaLaunchAttributeMemSyncDomain = 10,
  cudaLaunchAttributePreferredClusterDimension = 11,
  cudaLaunchAttributePreferredSharedMemoryCarveout = 14,
};

enum cudaClusterSchedulingPolicy : unsigned {
  cudaClusterSchedulingPolicyDefault = 0,
  cudaClusterSchedulingPolicySpread = 1,
  cudaClusterSchedulingPolicyLoadBalancing = 2,
};

enum cudaAccessProperty : unsigned {
  cudaAccessPropertyNormal = 0,
  cudaAccessPropertyStreaming = 1,
  cudaAccessPropertyPersisting = 2,
};

struct cudaAccessPolicyWindow {
  void* base_ptr;
  size_t num_bytes;
  float hitRatio;
  cudaAccessProperty hitProp;
  cudaAccessProperty missProp;
};

union cudaLaunchAttributeValue {
  char pad[64];
  cudaAccessPolicyWindow accessPolicyWindow;
  int cooperative;
  struct {
    unsigned x, y, z;
  } clusterDim;
  struct {
    unsigned x, y, z;
  } preferredClusterDim;
  cudaClusterSchedulingPolicy clusterSchedulingPolicyPreference;
  int programmaticStreamSerializationAllowed;
  int priority;
  unsigned sharedMemCarveout;
};

struct cudaLaunchAttribute {
  cudaLaunchAttributeID id;
  alignas(8) cudaLaunchAttributeValue val;
};

using cudaStreamAttrID = cudaLaunchAttributeID;
using cudaStreamAttrValue = cudaLaunchAttributeValue;
inline constexpr cudaStreamAttrID cudaStreamAttributeAccessPolicyWindow =
    cudaLaunchAttributeAccessPolicyWindow;
inline constexpr cudaStreamAttrID cudaStreamAttributePriority = cudaLaunchAttributePriority;

struct cudaLaunchConfig_t {
  dim3 gridDim;
  dim3 blockDim;
  size_t dynamicSmemBytes;
  cudaStream_t stream;
  cudaLaunchAttribute* attrs;
  unsigned numAttrs;
};

namespace peal::simt::cuda {

/// What `config` asks for. cudaErrorInvalidClusterSize for clusters of more than one block,
/// cudaErrorNotSupported for an event within a kernel.
cudaError_t read_config(const cudaLaunchConfig_t* config, Start* start);

/// Keeps the error of a configuration that is refused.
cudaError_t start_configured_by(const cudaLaunchConfig_t* config, const void* kernel,
                                std::function<void()> lane_body);

}  // namespace peal::simt::cuda

namespace peal::simt::cuda::calls {

cudaError_t cudaLaunchKernelExC(const cudaLaunchConfig_t* config, const void* kernel,
                                void** arguments);

/// Arguments become what the kernel's parameters are.
template <class... Expected, class... Actual>
cudaError_t cudaLaunchKernelEx(const cudaLaunchConfig_t* config, void (*kernel)(Expected...),
                               Actual&&... actual) {
  if (kernel == nullptr) return start_configured_by(config, nullptr, nullptr);
  std::tuple<std::decay_t<Expected>...> copies(std::forward<Actual>(actual)...);
  return start_configured_by(config, address_of(kernel),
                             [kernel, copies = std::move(copies)] { std::apply(kernel, copies); });
}

/// Has no effect: the attributes of streams concern speed only.
cudaError_t cudaStreamSetAttribute(cudaStream_t stream, cudaStreamAttrID attribute,
                                   const cudaStreamAttrValue* value);

inline cudaError_t cudaCtxResetPersistingL2Cache() { return cudaSuccess; }

/// The largest cluster has one block.
cudaError_t cudaOccupancyMaxPotentialClusterSize(int* size, const void* kernel,
                                                 const cudaLaunchConfig_t* config);
cudaError_t cudaOccupancyMaxActiveClusters(int* clusters, const void* kernel,
                                           const cudaLaunchConfig_t* config);
template <Function F>
cudaError_t cudaOccupancyMaxPotentialClusterSize(int* size, F* kernel,
                                                 const cudaLaunchConfig_t* config) {
  return cudaOccupancyMaxPotentialClusterSize(size, address_of(kernel), config);
}
template <Function F>
cudaError_t cudaOccupancyMaxActiveClusters(int* clusters, F* kernel,
                                           const cudaLaunchConfig_t* config) {
  return cudaOccupancyMaxActiveClusters(clusters, address_of(kernel), config);
}

// A kernel begins when what the stream was given before has ended, so there is nothing to wait for
// or to allow.
inline void cudaGridDependencySynchronize() {}
inline void cudaTriggerProgrammaticLaunchCompletion() {}

}  // namespace peal::simt::cuda::calls
