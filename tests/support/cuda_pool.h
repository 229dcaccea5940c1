// SPDX-License-Identifier: Apache-2.0
//
// A pool of a GPU's memory as programs make them for cudaMallocAsync. peal makes none itself, so
// its table of the driver's functions lacks the calls: they are found where the fake is.
#pragma once

#include <dlfcn.h>

#include <cstddef>
#include <memory>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "host/base/cuda_driver.h"
#include "host/memory/gpu.h"

namespace peal {

class CudaPool {
 public:
  /// As the GPU has it without being asked: cudaMallocAsync's.
  static std::unique_ptr<CudaPool> default_of(std::shared_ptr<Gpu> gpu) {
    auto pool = std::unique_ptr<CudaPool>(new CudaPool(std::move(gpu), false));
    pool->call("cuDeviceGetDefaultMemPool", &pool->pool_, pool->gpu_->device());
    return pool;
  }
  /// One that can be shared by its descriptor.
  static std::unique_ptr<CudaPool> shared_of(std::shared_ptr<Gpu> gpu) {
    auto pool = std::unique_ptr<CudaPool>(new CudaPool(std::move(gpu), true));
    // CUmemPoolProps: pinned memory with a descriptor, on that GPU; the rest is zero.
    int properties[22] = {cuda::kPinnedAllocation, cuda::kPosixDescriptor, cuda::kOnDevice,
                          pool->gpu_->device()};
    pool->call("cuMemPoolCreate", &pool->pool_, static_cast<void*>(properties));
    return pool;
  }
  ~CudaPool() {
    gpu_->release([this](const cuda::Driver& driver) {
      for (const cuda::DeviceAddress each : allocations_) driver.release(each);
      if (owned_) driver.destroy_pool(pool_);
    });
  }
  CudaPool(const CudaPool&) = delete;
  CudaPool& operator=(const CudaPool&) = delete;

  /// Gone with the pool. The fake's lie side by side.
  std::byte* allocate(size_t bytes) {
    cuda::DeviceAddress address = 0;
    call("cuMemAllocFromPoolAsync", &address, bytes, pool_, cuda::StreamHandle{});
    allocations_.push_back(address);
    return reinterpret_cast<std::byte*>(address);
  }

 private:
  CudaPool(std::shared_ptr<Gpu> gpu, bool owned) : gpu_(std::move(gpu)), owned_(owned) {}

  template <class... Arguments>
  void call(const char* symbol, Arguments... arguments) {
    void* const library = ::dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
    auto* const function =
        reinterpret_cast<cuda::Result (*)(Arguments...)>(::dlsym(library, symbol));
    const cuda::Result result =
        gpu_->within([&](const cuda::Driver&) { return function(arguments...); });
    ::dlclose(library);
    if (result != cuda::kSuccess) throw std::runtime_error(symbol);
  }

  std::shared_ptr<Gpu> gpu_;
  bool owned_;
  cuda::PoolHandle pool_ = nullptr;
  std::vector<cuda::DeviceAddress> allocations_;
};

}  // namespace peal
