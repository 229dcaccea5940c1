// SPDX-License-Identifier: Apache-2.0
//
// Queues, memory and the count of passes and failures for tests of the software NIC's GPU engine.
//
//   Rig: one process, one NIC, every queue connected to itself, all memory of the current GPU (what
//        is written to may be another's)
#pragma once

#include <cuda_runtime.h>

#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include "device/transport/model.h"
#include "tests/support/gpu_queues.h"

namespace peal::testing {

inline constexpr uint64_t kTimeoutNs = 10'000'000'000;
inline constexpr uint32_t kDepth = 256;
inline constexpr size_t kDataBytes = 128 << 20;

inline int passed = 0;
inline int failed = 0;
inline bool good = true;  // the test that runs

inline void expect(bool condition, const char* what, long long got = 0) {
  if (condition) return;
  std::printf("  expected: %s (got %lld)\n", what, got);
  good = false;
}

inline void check(cudaError_t error, const char* call) {
  if (error == cudaSuccess) return;
  std::printf("%s: %s\n%d passed, %d failed\n", call, cudaGetErrorString(error), passed,
              failed + 1);
  std::exit(1);
}
#define CHECK(call) check(call, #call)

/// The number that follows `name` on the command line.
inline uint32_t option(int argc, char** argv, const char* name, uint32_t otherwise) {
  for (int i = 1; i + 1 < argc; ++i) {
    if (std::string(argv[i]) == name) {
      return static_cast<uint32_t>(std::strtoul(argv[i + 1], nullptr, 10));
    }
  }
  return otherwise;
}

template <class T>
T* device_array(size_t count, int fill = 0) {
  void* memory = nullptr;
  CHECK(cudaMalloc(&memory, count * sizeof(T)));
  CHECK(cudaMemset(memory, fill, count * sizeof(T)));
  return static_cast<T*>(memory);
}

/// Everything the kernels use, made once a test.
struct Rig {
  explicit Rig(const std::string& folder, nic::KeyOrdering ordering = nic::KeyOrdering::kRelaxed,
               uint32_t count = 1, uint32_t depth = kDepth, int target = -1);
  ~Rig();

  GpuQueues::Memory queue_memory, data, source;
  std::unique_ptr<GpuQueues> nic;
  SendQueue* queues = nullptr;  // of the GPU
  uint32_t* stop = nullptr;
  uint64_t* result = nullptr;  // 1024 words
  uint64_t results[1024] = {};

  /// Waits for the kernel and fetches `result`.
  void finish() {
    CHECK(cudaGetLastError());
    CHECK(cudaDeviceSynchronize());
    CHECK(cudaMemcpy(results, result, sizeof(results), cudaMemcpyDeviceToHost));
  }
  std::vector<uint8_t> read(const GpuQueues::Memory& memory, size_t offset, size_t bytes) const {
    std::vector<uint8_t> copy(bytes);
    CHECK(cudaMemcpy(copy.data(), memory.address + offset, bytes, cudaMemcpyDeviceToHost));
    return copy;
  }
};

inline Rig::Rig(const std::string& folder, nic::KeyOrdering ordering, uint32_t count,
                uint32_t depth, int target) {
  const size_t queue_bytes = count * GpuQueues::stride(depth);
  queue_memory = {device_array<std::byte>(queue_bytes), queue_bytes};
  int gpu = 0;
  CHECK(cudaGetDevice(&gpu));
  if (target >= 0) CHECK(cudaSetDevice(target));
  data = {device_array<std::byte>(kDataBytes), kDataBytes};
  CHECK(cudaDeviceSynchronize());
  CHECK(cudaSetDevice(gpu));
  source = {device_array<std::byte>(kDataBytes), kDataBytes};
  for (uint32_t i = 0; i < count; ++i) {
    CHECK(cudaMemset(
        queue_memory.address + i * GpuQueues::stride(depth) + GpuQueues::cqe_offset(depth), 0xff,
        64));
  }
  stop = device_array<uint32_t>(1);
  result = device_array<uint64_t>(1024);
  CHECK(cudaDeviceSynchronize());
  nic = std::make_unique<GpuQueues>(GpuQueues::Options{.folder = folder,
                                                       .count = count,
                                                       .depth = depth,
                                                       .queues = queue_memory,
                                                       .data = data,
                                                       .source = source,
                                                       .ordering = ordering});
  std::vector<SendQueue> described = nic->describe();
  for (SendQueue& queue : described) {
    queue.stop = stop;
    queue.timeout_ns = kTimeoutNs;
  }
  queues = device_array<SendQueue>(count);
  CHECK(cudaMemcpy(queues, described.data(), count * sizeof(SendQueue), cudaMemcpyHostToDevice));
  CHECK(cudaDeviceSynchronize());
}

inline Rig::~Rig() {
  nic.reset();
  for (void* memory : {static_cast<void*>(queues), static_cast<void*>(stop),
                       static_cast<void*>(result), static_cast<void*>(queue_memory.address),
                       static_cast<void*>(data.address), static_cast<void*>(source.address)}) {
    cudaFree(memory);
  }
}

}  // namespace peal::testing
