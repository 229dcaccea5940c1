// SPDX-License-Identifier: Apache-2.0
//
// CUDA's calls for memory: what they do, and what they refuse.
#include <gtest/gtest.h>

#include <atomic>
#include <cstdint>
#include <vector>

#include "simt/runtime/cuda_runtime.h"
#include "simt/runtime/stream.h"

namespace {

constexpr size_t kBytes = 1000;

struct Buffer {
  explicit Buffer(size_t bytes = kBytes) { EXPECT_EQ(cudaMalloc(&data, bytes), cudaSuccess); }
  ~Buffer() { EXPECT_EQ(cudaFree(data), cudaSuccess); }
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;
  char* data = nullptr;
};

__constant__ int table[8];
__device__ double scale = 1.5;

TEST(CudaMemory, FreshMemoryIsNotZero) {
  // A program that relies on zeros works here and fails on a card.
  const Buffer buffer;
  EXPECT_EQ(reinterpret_cast<uintptr_t>(buffer.data) % 256, 0u);
  for (size_t i = 0; i < kBytes; ++i) EXPECT_EQ(static_cast<uint8_t>(buffer.data[i]), 0xa5);
}

TEST(CudaMemory, CopiesBetweenHostAndDevice) {
  const Buffer one, other;
  std::vector<char> from(kBytes, 7), to(kBytes, 0);
  EXPECT_EQ(cudaMemcpy(one.data, from.data(), kBytes, cudaMemcpyHostToDevice), cudaSuccess);
  EXPECT_EQ(cudaMemcpy(other.data, one.data, kBytes, cudaMemcpyDeviceToDevice), cudaSuccess);
  EXPECT_EQ(cudaMemcpy(to.data(), other.data, kBytes, cudaMemcpyDefault), cudaSuccess);
  EXPECT_EQ(from, to);
  EXPECT_EQ(cudaMemcpyPeer(one.data, 0, other.data, 1, kBytes), cudaSuccess);
  EXPECT_EQ(cudaMemcpyPeer(one.data, 0, other.data, 99, kBytes), cudaErrorInvalidDevice);
  EXPECT_EQ(cudaGetLastError(), cudaErrorInvalidDevice);
}

TEST(CudaMemory, RefusesACopyWhoseKindContradictsItsPointers) {
  const Buffer device;
  std::vector<char> host(kBytes);
  EXPECT_EQ(cudaMemcpy(host.data(), device.data, kBytes, cudaMemcpyHostToDevice),
            cudaErrorInvalidValue);
  EXPECT_EQ(cudaMemcpy(device.data, host.data(), kBytes, cudaMemcpyDeviceToHost),
            cudaErrorInvalidValue);
  EXPECT_EQ(cudaMemcpy(host.data(), device.data, kBytes, cudaMemcpyHostToHost),
            cudaErrorInvalidValue);
  EXPECT_EQ(cudaMemcpy(device.data, host.data(), kBytes, static_cast<cudaMemcpyKind>(5)),
            cudaErrorInvalidMemcpyDirection);
  cudaGetLastError();
}

TEST(CudaMemory, RefusesWhatEndsBeyondAnAllocation) {
  const Buffer device;
  std::vector<char> host(kBytes + 1);
  EXPECT_EQ(cudaMemcpy(device.data, host.data(), kBytes + 1, cudaMemcpyHostToDevice),
            cudaErrorInvalidValue);
  EXPECT_EQ(cudaMemcpy(host.data(), device.data + 1, kBytes, cudaMemcpyDeviceToHost),
            cudaErrorInvalidValue);
  EXPECT_EQ(cudaMemset(device.data + 1, 0, kBytes), cudaErrorInvalidValue);
  EXPECT_EQ(cudaMemset(nullptr, 0, 1), cudaErrorInvalidValue);
  EXPECT_EQ(cudaMemcpy(nullptr, host.data(), 1, cudaMemcpyDefault), cudaErrorInvalidValue);
  EXPECT_EQ(cudaMemcpy(nullptr, nullptr, 0, cudaMemcpyDefault), cudaSuccess);
  EXPECT_EQ(cudaGetLastError(), cudaErrorInvalidValue);
}

TEST(CudaMemory, FreesWhatItAllocatedOnce) {
  char* device = nullptr;
  ASSERT_EQ(cudaMalloc(&device, kBytes), cudaSuccess);
  int local = 0;
  EXPECT_EQ(cudaFree(&local), cudaErrorInvalidValue);
  EXPECT_EQ(cudaFree(device + 1), cudaErrorInvalidValue);
  EXPECT_EQ(cudaFreeHost(device), cudaErrorInvalidValue);
  EXPECT_EQ(cudaFree(device), cudaSuccess);
  EXPECT_EQ(cudaFree(device), cudaErrorInvalidValue);
  EXPECT_EQ(cudaFree(nullptr), cudaSuccess);
  EXPECT_EQ(cudaFreeHost(nullptr), cudaSuccess);
  cudaGetLastError();
}

TEST(CudaMemory, FreeWaitsForKernels) {
  // A kernel that was started before cudaFree may use the memory until it has ended.
  std::atomic<bool> released{false}, ended{false};
  int* device = nullptr;
  ASSERT_EQ(cudaMalloc(&device, sizeof(int)), cudaSuccess);
  peal::simt::default_stream().add([&] {
    released.wait(false);
    *device = 1;
    ended = true;
  });
  std::thread release([&] {
    released = true;
    released.notify_all();
  });
  EXPECT_EQ(cudaFree(device), cudaSuccess);
  EXPECT_TRUE(ended);
  release.join();
  EXPECT_EQ(cudaDeviceSynchronize(), cudaSuccess);
}

TEST(CudaMemory, AllocatesInOrderOfAStream) {
  cudaStream_t stream = nullptr;
  ASSERT_EQ(cudaStreamCreate(&stream), cudaSuccess);
  int* device = nullptr;
  EXPECT_EQ(cudaMallocAsync(&device, sizeof(int), stream), cudaSuccess);
  EXPECT_EQ(cudaMemsetAsync(device, 1, sizeof(int), stream), cudaSuccess);
  int host = 0;
  EXPECT_EQ(cudaMemcpyAsync(&host, device, sizeof(int), cudaMemcpyDeviceToHost, stream),
            cudaSuccess);
  EXPECT_EQ(cudaFreeAsync(device, stream), cudaSuccess);
  EXPECT_EQ(cudaFreeAsync(device, stream), cudaErrorInvalidValue);
  EXPECT_EQ(cudaStreamDestroy(stream), cudaSuccess);
  EXPECT_EQ(host, 0x01010101);
  cudaGetLastError();
}

TEST(CudaMemory, AnAsynchronousCopyIsDoneWithPageableMemoryWhenItReturns) {
  // CUDA copies a pageable source before the call returns: programs reuse it at once.
  std::atomic<bool> released{false};
  const Buffer device;
  peal::simt::default_stream().add([&] { released.wait(false); });
  char host = 5;
  EXPECT_EQ(cudaMemcpyAsync(device.data, &host, 1, cudaMemcpyHostToDevice), cudaSuccess);
  host = 6;
  released = true;
  released.notify_all();
  char back = 0;
  EXPECT_EQ(cudaMemcpyAsync(&back, device.data, 1, cudaMemcpyDeviceToHost), cudaSuccess);
  EXPECT_EQ(back, 5);
}

TEST(CudaMemory, AnAsynchronousCopyReadsPinnedMemoryInItsTurn) {
  std::atomic<bool> released{false};
  const Buffer device;
  char* host = nullptr;
  ASSERT_EQ(cudaMallocHost(&host, 1), cudaSuccess);
  peal::simt::default_stream().add([&] { released.wait(false); });
  *host = 5;
  EXPECT_EQ(cudaMemcpyAsync(device.data, host, 1, cudaMemcpyHostToDevice), cudaSuccess);
  *host = 6;
  released = true;
  released.notify_all();
  EXPECT_EQ(cudaStreamSynchronize(nullptr), cudaSuccess);
  EXPECT_EQ(*device.data, 6);
  EXPECT_EQ(cudaFreeHost(host), cudaSuccess);
}

TEST(CudaMemory, CopiesAndFillsRows) {
  char* device = nullptr;
  size_t pitch = 0;
  ASSERT_EQ(cudaMallocPitch(&device, &pitch, 3, 4), cudaSuccess);
  EXPECT_GE(pitch, 3u);
  EXPECT_EQ(cudaMemset2D(device, pitch, 1, 3, 4), cudaSuccess);
  std::vector<char> host(12, 0);
  EXPECT_EQ(cudaMemcpy2D(host.data(), 3, device, pitch, 3, 4, cudaMemcpyDeviceToHost), cudaSuccess);
  EXPECT_EQ(host, std::vector<char>(12, 1));
  EXPECT_EQ(static_cast<uint8_t>(device[3]), 0xa5);
  host.assign(12, 2);
  EXPECT_EQ(cudaMemcpy2DAsync(device, pitch, host.data(), 3, 3, 4, cudaMemcpyHostToDevice),
            cudaSuccess);
  EXPECT_EQ(cudaDeviceSynchronize(), cudaSuccess);
  EXPECT_EQ(device[3 * pitch + 2], 2);
  EXPECT_EQ(cudaMemcpy2D(device, 2, host.data(), 3, 3, 4, cudaMemcpyHostToDevice),
            cudaErrorInvalidPitchValue);
  EXPECT_EQ(cudaMemcpy2D(device, pitch, host.data(), 3, 3, 5, cudaMemcpyHostToDevice),
            cudaErrorInvalidValue);
  EXPECT_EQ(cudaFree(device), cudaSuccess);
  cudaGetLastError();
}

TEST(CudaMemory, TellsWhatAPointerIs) {
  const Buffer device;
  int *managed = nullptr, *pinned = nullptr, *mapped = nullptr, local = 0;
  ASSERT_EQ(cudaMallocManaged(&managed, 4), cudaSuccess);
  ASSERT_EQ(cudaHostAlloc(&pinned, 4, cudaHostAllocMapped), cudaSuccess);
  cudaPointerAttributes attributes{};
  const auto type_of = [&](const void* pointer) {
    EXPECT_EQ(cudaPointerGetAttributes(&attributes, pointer), cudaSuccess);
    return attributes.type;
  };
  EXPECT_EQ(type_of(device.data + 5), cudaMemoryTypeDevice);
  EXPECT_EQ(attributes.hostPointer, nullptr);
  EXPECT_EQ(type_of(managed), cudaMemoryTypeManaged);
  EXPECT_EQ(type_of(pinned), cudaMemoryTypeHost);
  EXPECT_EQ(type_of(&local), cudaMemoryTypeUnregistered);
  EXPECT_EQ(cudaHostGetDevicePointer(&mapped, pinned, 0), cudaSuccess);
  EXPECT_EQ(mapped, pinned);
  EXPECT_EQ(cudaHostGetDevicePointer(&mapped, &local, 0), cudaErrorInvalidValue);
  EXPECT_EQ(cudaMemPrefetchAsync(managed, 4, 0), cudaSuccess);
  EXPECT_EQ(cudaMemPrefetchAsync(managed, 4, 99), cudaErrorInvalidDevice);
  EXPECT_EQ(cudaMemPrefetchAsync(&local, 4, 0), cudaErrorInvalidValue);
  EXPECT_EQ(cudaMemAdvise(managed, 4, cudaMemAdviseSetReadMostly, cudaCpuDeviceId), cudaSuccess);
  EXPECT_EQ(cudaMemAdvise(pinned, 4, cudaMemAdviseSetReadMostly, 0), cudaErrorInvalidValue);
  const cudaMemLocation host{cudaMemLocationTypeHost, 0};
  const cudaMemLocation second{cudaMemLocationTypeDevice, 1};
  EXPECT_EQ(cudaMemPrefetchAsync(managed, 4, host, 0), cudaSuccess);
  EXPECT_EQ(cudaMemPrefetchAsync(managed, 4, second, 1), cudaErrorInvalidDevice);
  EXPECT_EQ(cudaMemAdvise(managed, 4, cudaMemAdviseSetReadMostly, second), cudaSuccess);
  EXPECT_EQ(cudaFree(managed), cudaSuccess);
  EXPECT_EQ(cudaFreeHost(pinned), cudaSuccess);
  cudaGetLastError();
}

TEST(CudaMemory, RegistersMemoryOfTheProgramOnce) {
  std::vector<char> host(kBytes);
  EXPECT_EQ(cudaHostRegister(host.data(), kBytes, cudaHostRegisterDefault), cudaSuccess);
  EXPECT_EQ(cudaHostRegister(host.data() + 10, 1, 0), cudaErrorHostMemoryAlreadyRegistered);
  EXPECT_EQ(cudaFreeHost(host.data()), cudaErrorInvalidValue);
  EXPECT_EQ(cudaHostUnregister(host.data()), cudaSuccess);
  EXPECT_EQ(cudaHostUnregister(host.data()), cudaErrorHostMemoryNotRegistered);
  EXPECT_EQ(cudaHostRegister(nullptr, 1, 0), cudaErrorInvalidValue);
  EXPECT_EQ(cudaHostRegister(host.data(), 1, 1u << 20), cudaErrorInvalidValue);
  cudaGetLastError();
}

TEST(CudaMemory, RefusesMoreThanTheMachineHas) {
  void* device = &device;
  EXPECT_EQ(cudaMalloc(&device, size_t{1} << 60), cudaErrorMemoryAllocation);
  EXPECT_EQ(device, nullptr);
  EXPECT_EQ(cudaMalloc(&device, 0), cudaSuccess);
  EXPECT_EQ(device, nullptr);
  EXPECT_EQ(cudaMalloc(static_cast<void**>(nullptr), 8), cudaErrorInvalidValue);
  EXPECT_EQ(cudaMallocManaged(&device, 8, 9), cudaErrorInvalidValue);
  EXPECT_EQ(cudaHostAlloc(&device, 8, 64), cudaErrorInvalidValue);
  size_t spare = 0, total = 0;
  EXPECT_EQ(cudaMemGetInfo(&spare, &total), cudaSuccess);
  EXPECT_GT(spare, 0u);
  EXPECT_LE(spare, total);
  cudaGetLastError();
}

TEST(CudaMemory, CopiesToAndFromObjectsOfTheProgram) {
  const int values[] = {1, 2, 3, 4, 5, 6, 7, 8};
  EXPECT_EQ(cudaMemcpyToSymbol(table, values, sizeof(values)), cudaSuccess);
  EXPECT_EQ(table[7], 8);
  EXPECT_EQ(cudaMemcpyToSymbol(table, values, 4, 28), cudaSuccess);
  EXPECT_EQ(table[7], 1);
  EXPECT_EQ(cudaMemcpyToSymbol(table, values, 8, 28), cudaErrorInvalidValue);
  EXPECT_EQ(cudaMemcpyToSymbol(table, values, 4, 0, cudaMemcpyDeviceToHost),
            cudaErrorInvalidMemcpyDirection);
  double back = 0;
  EXPECT_EQ(cudaMemcpyFromSymbol(&back, scale, sizeof(back)), cudaSuccess);
  EXPECT_EQ(back, 1.5);
  double* address = nullptr;
  size_t bytes = 0;
  EXPECT_EQ(cudaGetSymbolAddress(&address, scale), cudaSuccess);
  EXPECT_EQ(address, &scale);
  EXPECT_EQ(cudaGetSymbolSize(&bytes, table), cudaSuccess);
  EXPECT_EQ(bytes, sizeof(table));
  cudaGetLastError();
}

}  // namespace
