// SPDX-License-Identifier: Apache-2.0
#include "simt/runtime/devices.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <set>
#include <utility>

#include "simt/runtime/allocations.h"
#include "simt/runtime/device_properties.h"
#include "simt/runtime/state.h"
#include "simt/simulation/simulated_program.h"

namespace peal::simt::cuda {
namespace {

constexpr int kDefaultDevices = 8;

// What launchers tell of the processes on this host: Open MPI, MPICH, torchrun, Slurm; last of all
// ("2(x4)" is four hosts of two), peal's jobs by hand, which tell of the whole job.
constexpr const char* kProcessesHere[] = {"OMPI_COMM_WORLD_LOCAL_SIZE", "MPI_LOCALNRANKS",
                                          "LOCAL_WORLD_SIZE", "SLURM_STEP_TASKS_PER_NODE",
                                          "PEAL_TCP_SIZE"};

// Programs take the number of devices for that of PEs.
int count_of_job() {
  if (simulated_pes() > 0) return simulated_pes();
  for (const char* const name : kProcessesHere) {
    const char* const text = std::getenv(name);
    if (text == nullptr) continue;
    char* end = nullptr;
    const long count = std::strtol(text, &end, 10);
    if (count < 1 || (*end != '\0' && *end != '(')) continue;
    return static_cast<int>(std::min(count, long{kMostDevices}));
  }
  return kDefaultDevices;
}

int count_of_environment() {
  const char* const text = std::getenv("SIMT_DEVICES");
  if (text == nullptr || *text == '\0') return count_of_job();
  char* end = nullptr;
  const long count = std::strtol(text, &end, 10);
  if (*end == '\0' && count >= 0 && count <= long{kMostDevices}) return static_cast<int>(count);
  std::fprintf(stderr, "peal: SIMT_DEVICES=%s: a number from 0 to %u is wanted; there are none\n",
               text, kMostDevices);
  return 0;
}

// Which device may reach which, for those that ask twice. CUDA's calls name no object for it.
struct Peers {
  std::mutex mutex;
  std::set<std::pair<unsigned, int>> enabled;
};
Peers& peers() {
  static Peers of_process;
  return of_process;
}

// call() with a peer that is another device.
template <class Work>
cudaError_t call_with_peer(int peer, Work work) {
  return call([&] {
    const unsigned device = device_in_use();
    if (!is_device(peer) || static_cast<unsigned>(peer) == device) return cudaErrorInvalidDevice;
    const std::lock_guard lock(peers().mutex);
    return work(peers().enabled, std::pair(device, peer));
  });
}

}  // namespace

int device_count() {
  static const int count = count_of_environment();
  return count;
}

bool is_device(int device) { return device >= 0 && device < device_count(); }

namespace calls {

cudaError_t cudaGetDeviceCount(int* count) {
  return call([&] {
    if (count == nullptr) return cudaErrorInvalidValue;
    *count = device_count();
    return *count == 0 ? cudaErrorNoDevice : cudaSuccess;
  });
}

cudaError_t cudaSetDevice(int device) {
  return call([&] {
    if (!is_device(device)) return cudaErrorInvalidDevice;
    use_device(static_cast<unsigned>(device));
    return cudaSuccess;
  });
}

cudaError_t cudaGetDevice(int* device) {
  return call([&] {
    if (device == nullptr) return cudaErrorInvalidValue;
    *device = static_cast<int>(device_in_use());
    return cudaSuccess;
  });
}

cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int device) {
  return call([&] {
    if (properties == nullptr) return cudaErrorInvalidValue;
    if (!is_device(device)) return cudaErrorInvalidDevice;
    *properties = properties_of(device);
    return cudaSuccess;
  });
}

cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr attribute, int device) {
  return call([&] {
    if (value == nullptr) return cudaErrorInvalidValue;
    if (!is_device(device)) return cudaErrorInvalidDevice;
    const int answer = attribute_of(properties_of(device), attribute);
    if (answer < 0) return cudaErrorInvalidValue;
    *value = answer;
    return cudaSuccess;
  });
}

cudaError_t cudaDeviceSynchronize() {
  return call([&] {
    if (!may_wait()) return cudaErrorNotPermitted;
    for (const Mark& mark : WorkStream::marks_of_device(device_in_use())) mark.wait();
    return wait_for(default_stream());  // tells of failures of what CUDA's calls did not start
  });
}

cudaError_t cudaDeviceReset() {
  if (!may_wait()) return remember(cudaErrorNotPermitted);
  for (const Mark& mark : WorkStream::marks_of_device(device_in_use())) mark.wait();
  try {
    default_stream().synchronize();
  } catch (...) {
    // Told of when it happened; the stream goes on.
  }
  allocations().free_all(device_in_use());
  forget_failure();
  cudaGetLastError();
  return cudaSuccess;
}

cudaError_t cudaSetDeviceFlags(unsigned flags) {
  constexpr unsigned kKnown = cudaDeviceScheduleSpin | cudaDeviceScheduleYield |
                              cudaDeviceScheduleBlockingSync | cudaDeviceMapHost;
  return call([&] { return (flags & ~kKnown) == 0 ? cudaSuccess : cudaErrorInvalidValue; });
}

cudaError_t cudaDeviceSetLimit(cudaLimit limit, size_t value) {
  return call([&] {
    const bool ignored = limit == cudaLimitPrintfFifoSize || limit == cudaLimitMallocHeapSize ||
                         limit == cudaLimitPersistingL2CacheSize;
    if (ignored) return cudaSuccess;
    if (limit != cudaLimitStackSize) return cudaErrorUnsupportedLimit;
    constexpr size_t kMostStack = 512 * 1024;  // of a thread of CUDA's
    if (value > kMostStack) return cudaErrorInvalidValue;
    Limits changed = limits();
    changed.stack_bytes = std::max(changed.stack_bytes, value);
    set_limits(changed);
    return cudaSuccess;
  });
}

cudaError_t cudaDeviceGetLimit(size_t* value, cudaLimit limit) {
  return call([&] {
    if (value == nullptr) return cudaErrorInvalidValue;
    if (limit != cudaLimitStackSize) return cudaErrorUnsupportedLimit;
    *value = limits().stack_bytes;
    return cudaSuccess;
  });
}

cudaError_t cudaDeviceCanAccessPeer(int* can, int device, int peer) {
  return call([&] {
    if (can == nullptr) return cudaErrorInvalidValue;
    if (!is_device(device) || !is_device(peer)) return cudaErrorInvalidDevice;
    *can = device != peer;
    return cudaSuccess;
  });
}

cudaError_t cudaDeviceEnablePeerAccess(int peer, unsigned flags) {
  if (flags != 0) return remember(cudaErrorInvalidValue);
  return call_with_peer(peer, [](auto& enabled, const auto& pair) {
    return enabled.insert(pair).second ? cudaSuccess : cudaErrorPeerAccessAlreadyEnabled;
  });
}

cudaError_t cudaDeviceDisablePeerAccess(int peer) {
  return call_with_peer(peer, [](auto& enabled, const auto& pair) {
    return enabled.erase(pair) == 1 ? cudaSuccess : cudaErrorPeerAccessNotEnabled;
  });
}

cudaError_t cudaDeviceGetStreamPriorityRange(int* least, int* greatest) {
  return call([&] {
    if (least != nullptr) *least = 0;
    if (greatest != nullptr) *greatest = 0;
    return cudaSuccess;
  });
}

cudaError_t cudaDriverGetVersion(int* version) { return cudaRuntimeGetVersion(version); }

cudaError_t cudaRuntimeGetVersion(int* version) {
  return call([&] {
    if (version == nullptr) return cudaErrorInvalidValue;
    *version = CUDART_VERSION;
    return cudaSuccess;
  });
}

namespace {
cudaError_t not_supported() {
  return call([] { return cudaErrorNotSupported; });
}
}  // namespace

cudaError_t cudaIpcGetMemHandle(cudaIpcMemHandle_t*, void*) { return not_supported(); }
cudaError_t cudaIpcOpenMemHandle(void**, cudaIpcMemHandle_t, unsigned) { return not_supported(); }
cudaError_t cudaIpcCloseMemHandle(void*) { return not_supported(); }
cudaError_t cudaIpcGetEventHandle(cudaIpcEventHandle_t*, cudaEvent_t) { return not_supported(); }
cudaError_t cudaIpcOpenEventHandle(cudaEvent_t*, cudaIpcEventHandle_t) { return not_supported(); }

}  // namespace calls
}  // namespace peal::simt::cuda
