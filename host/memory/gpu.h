// SPDX-License-Identifier: Apache-2.0
//
// The GPU that a PE's kernels run on, as the host uses it: its primary context (the one the CUDA
// runtime uses too) and a stream of its own.
//
// Copies go through that stream, which waits for no other: a kernel that spins until the host has
// written something would otherwise wait for ever.
#pragma once

#include <atomic>
#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "host/base/cuda_driver.h"
#include "host/base/dma_buf.h"
#include "host/base/exception.h"
#include "host/memory/backing.h"

namespace peal {

class HostAccess;

/// One open GPU. Everything may be called from any thread; calls throw kSystem (naming call, GPU
/// and cause) when the GPU fails, also for what a kernel did.
class Gpu {
 public:
  /// Opens GPU `index`, or for -1 the one of the `rank_on_host`-th PE of this host. Throws
  /// kUnsupported when there is no driver, no such GPU or no GPU at all. `gdrcopy` is PEAL_GDRCOPY:
  /// how the host reaches words of its memory (host_view.h).
  static std::shared_ptr<Gpu> open(int index, int rank_on_host, const std::string& gdrcopy = "off");

  Gpu(std::shared_ptr<const cuda::Driver> driver, int index, const std::string& gdrcopy = "off");
  ~Gpu();
  Gpu(const Gpu&) = delete;
  Gpu& operator=(const Gpu&) = delete;

  int index() const { return index_; }
  const std::string& name() const { return name_; }
  const cuda::Uuid& uuid() const { return uuid_; }
  /// As CUDA spells it: "0000:1B:00.0". Empty if the driver does not tell.
  const std::string& pci_address() const { return pci_address_; }
  const cuda::Driver& driver() const { return *driver_; }
  /// As the driver counts it.
  cuda::DeviceHandle device() const { return device_; }
  int multiprocessors() const { return multiprocessors_; }
  /// CU_DEVICE_ATTRIBUTE_...; 0 where the driver does not know it.
  int attribute(int what) const;
  /// Its kernels see what a NIC writes into its memory in the order written. Else a completion or a
  /// word may be seen before data that the NIC wrote ahead of it.
  bool orders_writes() const { return writes_ordering_ >= cuda::kOrderedForOwner; }
  /// The same with the driver's numbers, for people.
  std::string describe_writes() const;

  /// Makes it the calling thread's current GPU, also for the CUDA runtime.
  void make_current() const;

  /// Runs `body` with this GPU current and answers what it answers.
  template <class Body>
  auto within(const Body& body) const {
    const Current current(*this);
    return body(*driver_);
  }

  /// Calls a function of the driver with this GPU current. Throws kSystem, naming `what`, unless it
  /// succeeds.
  template <class... Parameters, class... Arguments>
  void call(const std::string& what, cuda::Result (*cuda::Driver::*function)(Parameters...),
            const Arguments&... arguments) const {
    const Current current(*this);
    check((*driver_.*function)(arguments...), what);
  }

  /// within(), for destructors: at the end of a process the driver may be gone, and all that it had
  /// with it. What `body` answers is dropped.
  template <class Body>
  void release(const Body& body) const noexcept {
    try {
      within(body);
    } catch (const Error&) {
    }
  }

  /// Between any two of host and GPU memory; complete on return.
  void copy(void* to, const void* from, size_t bytes) const;
  /// Several, one after the other.
  void copy(std::span<const Copy> copies) const;
  void zero(void* address, size_t bytes) const;

  /// Words of an allocation of its memory, for as long as that is there; null: copy() only.
  std::shared_ptr<const HostView> view_of(std::byte* begin, size_t bytes) const;
  /// Which way the host reaches them, and why, for people.
  std::string describe_words() const;

  /// The index of the GPU with that id, if this process may use it.
  std::optional<int> find(const cuda::Uuid& uuid) const;

  /// Where kernels find host memory that CUDA knows.
  void* pointer_to(void* host) const;

  /// True for memory that kernels may use: a GPU's, or host memory that CUDA knows.
  bool knows(const void* address) const { return memory_type(address) != 0; }

  /// True for a GPU's memory.
  bool holds(const void* address) const { return memory_type(address) == cuda::kMemoryTypeDevice; }

  /// True for memory of cudaMalloc, which has an IPC handle: not for pieces (pieces.h) and pools.
  bool allocated(const void* address) const;

  /// "memory of GPU 0 (cuMemCreate)", "pinned host memory", ..., for people.
  std::string describe_memory(const void* address) const;

  /// True for memory that is this GPU's and stays there.
  bool owns(const void* address) const;

  /// To be called before anybody but this GPU's kernels looks at memory of a GPU. Calls that CUDA
  /// names synchronous (cudaMemcpy from GPU to GPU, cudaMemset, small copies from the host) may
  /// return before they are done, which kernels do not notice, for they come behind. What a NIC or
  /// a CPU reads may be ahead. Henceforth they return when they are done.
  /// False where the driver refused that.
  bool synchronize_calls_on(const void* address) const;
  /// It refused that of some memory: it is older than CUDA 12.1.
  bool calls_may_lag() const { return calls_may_lag_; }

  /// A GPU's memory as a dma-buf, for a device beside it. Whole pages of the host, inside one
  /// allocation.
  DmaBuf export_dma_buf(std::byte* first_page, size_t bytes) const;

  /// Throws kSystem "call: cause" unless `result` is success.
  void check(cuda::Result result, const std::string& call) const;

 private:
  /// The GPU is current as long as it lives.
  class Current {
   public:
    explicit Current(const Gpu& gpu);
    ~Current();
    Current(const Current&) = delete;
    Current& operator=(const Current&) = delete;

   private:
    const cuda::Driver& driver_;
  };

  unsigned memory_type(const void* address) const;  // CU_MEMORYTYPE_...; 0: CUDA knows it not
  /// CU_POINTER_ATTRIBUTE_...; false where the driver does not tell.
  bool ask(void* value, int what, const void* address) const;

  std::shared_ptr<const cuda::Driver> driver_;
  int index_;
  cuda::DeviceHandle device_ = 0;
  cuda::ContextHandle context_ = nullptr;
  cuda::StreamHandle stream_ = nullptr;
  std::string name_;
  cuda::Uuid uuid_{};
  std::string pci_address_;
  int multiprocessors_ = 0;
  int writes_ordering_ = 0;  // CU_GPU_DIRECT_RDMA_WRITES_ORDERING_...; 0: none, or nobody says
  mutable std::atomic<bool> calls_may_lag_ = false;
  int flush_options_ = 0;  // bits of CU_FLUSH_GPU_DIRECT_RDMA_WRITES_OPTION_...
  std::unique_ptr<const HostAccess> access_;
};

inline cuda::DeviceAddress device_address(const void* pointer) {
  return reinterpret_cast<cuda::DeviceAddress>(pointer);
}

/// Calls `body(driver, at, base, bytes)` for each allocation or mapping that a range lies in, in
/// their order, until it answers false: `at` is the range's first byte in it, `base` its own.
/// Answers whether it never did, and CUDA knew all of the range.
template <class Body>
bool for_each_allocation(const Gpu& gpu, const std::byte* address, size_t bytes, const Body& body) {
  const cuda::DeviceAddress end = device_address(address) + bytes;
  return gpu.within([&](const cuda::Driver& driver) {
    for (cuda::DeviceAddress at = device_address(address); at < end;) {
      cuda::DeviceAddress base = 0;
      size_t size = 0;
      if (driver.address_range(&base, &size, at) != cuda::kSuccess || base + size <= at ||
          !body(driver, at, base, size)) {
        return false;
      }
      at = base + size;
    }
    return true;
  });
}

}  // namespace peal
