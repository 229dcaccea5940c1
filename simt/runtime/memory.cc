// SPDX-License-Identifier: Apache-2.0
//
// Who allocates, frees and registers.
#include "simt/runtime/memory.h"

#include <cstdlib>
#include <limits>

#include "simt/runtime/allocations.h"
#include "simt/runtime/devices.h"
#include "simt/runtime/state.h"

namespace peal::simt::cuda::calls {
namespace {

constexpr size_t kPitch = 512;

cudaError_t allocate(void** pointer, size_t bytes, cudaMemoryType type) {
  return call([&] {
    if (pointer == nullptr) return cudaErrorInvalidValue;
    *pointer = nullptr;
    if (bytes != 0) *pointer = allocations().allocate(bytes, type);
    return cudaSuccess;
  });
}

cudaError_t free_piece(void* pointer, bool host) {
  if (pointer == nullptr) return call([] { return cudaSuccess; });
  // Kernels that were started before may use it.
  if (const cudaError_t error = cudaDeviceSynchronize(); error != cudaSuccess) return error;
  return call([&] {
    const auto piece = allocations().take(pointer, true, host);
    if (!piece) return cudaErrorInvalidValue;
    std::free(piece->start);
    return cudaSuccess;
  });
}

}  // namespace

cudaError_t cudaMalloc(void** pointer, size_t bytes) {
  return allocate(pointer, bytes, cudaMemoryTypeDevice);
}

cudaError_t cudaMallocManaged(void** pointer, size_t bytes, unsigned flags) {
  const bool known = flags == cudaMemAttachGlobal || flags == cudaMemAttachHost;
  if (!known || bytes == 0) return remember(cudaErrorInvalidValue);
  return allocate(pointer, bytes, cudaMemoryTypeManaged);
}

cudaError_t cudaHostAlloc(void** pointer, size_t bytes, unsigned flags) {
  constexpr unsigned kKnown =
      cudaHostAllocPortable | cudaHostAllocMapped | cudaHostAllocWriteCombined;
  if ((flags & ~kKnown) != 0) return remember(cudaErrorInvalidValue);
  return allocate(pointer, bytes, cudaMemoryTypeHost);
}

cudaError_t cudaMallocHost(void** pointer, size_t bytes, unsigned flags) {
  return cudaHostAlloc(pointer, bytes, flags);
}

cudaError_t cudaMallocAsync(void** pointer, size_t bytes, cudaStream_t stream) {
  if (stream_at(stream) == nullptr) return remember(cudaErrorInvalidResourceHandle);
  return cudaMalloc(pointer, bytes);
}

cudaError_t cudaMallocPitch(void** pointer, size_t* pitch, size_t width, size_t height) {
  if (pitch == nullptr || width > std::numeric_limits<size_t>::max() - kPitch) {
    return remember(cudaErrorInvalidValue);
  }
  *pitch = (width + kPitch - 1) / kPitch * kPitch;
  if (*pitch != 0 && height > std::numeric_limits<size_t>::max() / *pitch) {
    return remember(cudaErrorMemoryAllocation);
  }
  return cudaMalloc(pointer, *pitch * height);
}

cudaError_t cudaFree(void* pointer) { return free_piece(pointer, false); }

cudaError_t cudaFreeHost(void* pointer) { return free_piece(pointer, true); }

cudaError_t cudaFreeAsync(void* pointer, cudaStream_t stream) {
  return call_on(stream, [&](WorkStream& on) {
    const auto piece = allocations().take(pointer, true, false);
    if (!piece) return cudaErrorInvalidValue;
    on.add([start = piece->start] { std::free(start); });
    return cudaSuccess;
  });
}

cudaError_t cudaHostRegister(void* pointer, size_t bytes, unsigned flags) {
  return call([&] {
    constexpr unsigned kKnown = cudaHostRegisterPortable | cudaHostRegisterMapped |
                                cudaHostRegisterIoMemory | cudaHostRegisterReadOnly;
    if (pointer == nullptr || bytes == 0 || (flags & ~kKnown) != 0) return cudaErrorInvalidValue;
    const bool added = allocations().add(pointer, bytes);
    return added ? cudaSuccess : cudaErrorHostMemoryAlreadyRegistered;
  });
}

cudaError_t cudaHostUnregister(void* pointer) {
  return call([&] {
    if (pointer == nullptr) return cudaErrorInvalidValue;
    const bool was = allocations().take(pointer, false, true).has_value();
    return was ? cudaSuccess : cudaErrorHostMemoryNotRegistered;
  });
}

cudaError_t cudaHostGetDevicePointer(void** device, void* host, unsigned flags) {
  return call([&] {
    if (device == nullptr || flags != 0) return cudaErrorInvalidValue;
    const auto piece = allocations().find(host);
    if (!piece || piece->type != cudaMemoryTypeHost) return cudaErrorInvalidValue;
    *device = host;
    return cudaSuccess;
  });
}

cudaError_t cudaPointerGetAttributes(cudaPointerAttributes* attributes, const void* pointer) {
  return call([&] {
    if (attributes == nullptr || pointer == nullptr) return cudaErrorInvalidValue;
    void* const same = const_cast<void*>(pointer);
    const auto piece = allocations().find(pointer);
    if (!piece) {
      *attributes = {cudaMemoryTypeUnregistered, cudaInvalidDeviceId, nullptr, same};
    } else {
      const bool device_only = piece->type == cudaMemoryTypeDevice;
      *attributes = {piece->type, static_cast<int>(piece->device), same,
                     device_only ? nullptr : same};
    }
    return cudaSuccess;
  });
}

cudaError_t cudaMemGetInfo(size_t* spare, size_t* total) {
  return call([&] {
    if (spare == nullptr || total == nullptr) return cudaErrorInvalidValue;
    *spare = spare_bytes();
    *total = total_bytes();
    return cudaSuccess;
  });
}

cudaError_t cudaMemPrefetchAsync(const void* pointer, size_t bytes, int device,
                                 cudaStream_t stream) {
  return call_on(stream, [&](WorkStream&) {
    if (device != cudaCpuDeviceId && !is_device(device)) return cudaErrorInvalidDevice;
    const auto piece = allocations().find(pointer);
    const bool managed = piece && piece->type == cudaMemoryTypeManaged;
    return managed && bytes != 0 ? cudaSuccess : cudaErrorInvalidValue;
  });
}

cudaError_t cudaMemAdvise(const void* pointer, size_t bytes, cudaMemoryAdvise advice, int device) {
  return call([&] {
    if (device != cudaCpuDeviceId && !is_device(device)) return cudaErrorInvalidDevice;
    const auto piece = allocations().find(pointer);
    const bool managed = piece && piece->type == cudaMemoryTypeManaged;
    const bool known =
        advice >= cudaMemAdviseSetReadMostly && advice <= cudaMemAdviseUnsetAccessedBy;
    return managed && bytes != 0 && known ? cudaSuccess : cudaErrorInvalidValue;
  });
}

}  // namespace peal::simt::cuda::calls
