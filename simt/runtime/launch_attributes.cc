// SPDX-License-Identifier: Apache-2.0
#include "simt/runtime/launch_attributes.h"

#include "simt/runtime/devices.h"
#include "simt/runtime/state.h"

namespace peal::simt::cuda {
namespace {

cudaError_t read_attribute(const cudaLaunchAttribute& attribute, Start* start) {
  switch (attribute.id) {
    case cudaLaunchAttributeCooperative:
      start->cooperative = attribute.val.cooperative != 0;
      return cudaSuccess;
    case cudaLaunchAttributeClusterDimension: {
      const auto& size = attribute.val.clusterDim;
      const bool one = size.x == 1 && size.y == 1 && size.z == 1;
      return one ? cudaSuccess : cudaErrorInvalidClusterSize;
    }
    case cudaLaunchAttributeProgrammaticEvent:
      return cudaErrorNotSupported;
    default:
      return cudaSuccess;
  }
}

}  // namespace

cudaError_t read_config(const cudaLaunchConfig_t* config, Start* start) {
  if (config == nullptr || (config->attrs == nullptr && config->numAttrs != 0)) {
    return cudaErrorInvalidValue;
  }
  *start = {config->gridDim, config->blockDim, config->dynamicSmemBytes, config->stream, false};
  for (unsigned i = 0; i < config->numAttrs; ++i) {
    const cudaError_t error = read_attribute(config->attrs[i], start);
    if (error != cudaSuccess) return error;
  }
  return cudaSuccess;
}

cudaError_t start_configured_by(const cudaLaunchConfig_t* config, const void* kernel,
                                std::function<void()> lane_body) {
  Start start{};
  const cudaError_t error = read_config(config, &start);
  start.kernel = kernel;
  return error == cudaSuccess ? start_bound(start, std::move(lane_body)) : remember(error);
}

namespace calls {

cudaError_t cudaLaunchKernelExC(const cudaLaunchConfig_t* config, const void* kernel,
                                void** arguments) {
  Start start{};
  const cudaError_t error = read_config(config, &start);
  if (error != cudaSuccess) return remember(error);
  if (start.cooperative) {
    return cudaLaunchCooperativeKernel(kernel, start.blocks, start.threads, arguments,
                                       start.shared_bytes, start.stream);
  }
  return cudaLaunchKernel(kernel, start.blocks, start.threads, arguments, start.shared_bytes,
                          start.stream);
}

cudaError_t cudaStreamSetAttribute(cudaStream_t stream, cudaStreamAttrID,
                                   const cudaStreamAttrValue* value) {
  return call_on(
      stream, [&](WorkStream&) { return value == nullptr ? cudaErrorInvalidValue : cudaSuccess; });
}

cudaError_t cudaOccupancyMaxPotentialClusterSize(int* size, const void* kernel,
                                                 const cudaLaunchConfig_t* config) {
  return call([&] {
    if (size == nullptr || config == nullptr) return cudaErrorInvalidValue;
    if (kernel == nullptr) return cudaErrorInvalidDeviceFunction;
    *size = 1;
    return cudaSuccess;
  });
}

cudaError_t cudaOccupancyMaxActiveClusters(int* clusters, const void* kernel,
                                           const cudaLaunchConfig_t* config) {
  return call([&] {
    Start start{};
    if (clusters == nullptr) return cudaErrorInvalidValue;
    if (const cudaError_t error = read_config(config, &start); error != cudaSuccess) return error;
    int of_one = 0, processors = 0;
    const cudaError_t error = cudaOccupancyMaxActiveBlocksPerMultiprocessor(
        &of_one, kernel, static_cast<int>(start.threads.count()), start.shared_bytes);
    if (error != cudaSuccess) return error;
    cudaDeviceGetAttribute(&processors, cudaDevAttrMultiProcessorCount, 0);
    *clusters = of_one * processors;
    return cudaSuccess;
  });
}

}  // namespace calls
}  // namespace peal::simt::cuda
