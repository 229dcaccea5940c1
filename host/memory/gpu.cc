// SPDX-License-Identifier: Apache-2.0
#include "host/memory/gpu.h"

#include <array>

#include "host/base/error.h"
#include "host/memory/host_view.h"

namespace peal {
namespace {

constexpr const char* kRemedy =
    "run it where an NVIDIA driver and a GPU are, or compile its kernels with g++ for the CPU";

int count_of(const cuda::Driver& driver) {
  int count = 0;
  return driver.device_count(&count) == cuda::kSuccess ? count : 0;
}

}  // namespace

std::shared_ptr<Gpu> Gpu::open(int index, int rank_on_host, const std::string& gdrcopy) {
  auto [driver, reason] = cuda::load_driver();
  if (!driver) {
    fail(ErrorCode::kUnsupported, "this program's kernels need a GPU: {}; {}", reason, kRemedy);
  }
  const int count = count_of(*driver);
  if (count == 0) {
    fail(ErrorCode::kUnsupported, "this program's kernels need a GPU and there is none; {}",
         kRemedy);
  }
  if (index >= count) {
    fail(ErrorCode::kUnsupported, "PEAL_DEVICE={}: there are {} GPUs here, 0 to {}", index, count,
         count - 1);
  }
  return std::make_shared<Gpu>(std::move(driver), index >= 0 ? index : rank_on_host % count,
                               gdrcopy);
}

Gpu::Gpu(std::shared_ptr<const cuda::Driver> driver, int index, const std::string& gdrcopy)
    : driver_(std::move(driver)), index_(index) {
  check(driver_->device(&device_, index_), "cuDeviceGet");
  std::array<char, 128> name{};
  check(driver_->device_name(name.data(), static_cast<int>(name.size()) - 1, device_),
        "cuDeviceGetName");
  name_ = name.data();
  check(driver_->device_uuid(&uuid_, device_), "cuDeviceGetUuid");
  std::array<char, 32> address{};
  if (driver_->pci_bus_id(address.data(), static_cast<int>(address.size()) - 1, device_) ==
      cuda::kSuccess) {
    pci_address_ = address.data();
  }
  multiprocessors_ = attribute(cuda::kMultiprocessors);
  writes_ordering_ = attribute(cuda::kWritesOrdering);
  flush_options_ = attribute(cuda::kFlushWritesOptions);
  check(driver_->retain_context(&context_, device_), "cuDevicePrimaryCtxRetain");
  try {
    const Current current(*this);
    check(driver_->create_stream(&stream_, cuda::kStreamNonBlocking), "cuStreamCreate");
  } catch (const Error&) {
    driver_->release_context(device_);
    throw;
  }
  access_ = std::make_unique<const HostAccess>(*this, gdrcopy);
}

Gpu::~Gpu() {
  access_.reset();  // it may ask the driver
  // At the end of a process the driver may be gone already: then these do nothing.
  cuda::ContextHandle ignored = nullptr;
  if (driver_->push_context(context_) == cuda::kSuccess) {
    driver_->destroy_stream(stream_);
    driver_->pop_context(&ignored);
  }
  driver_->release_context(device_);
}

void Gpu::check(cuda::Result result, const std::string& call) const {
  if (result == cuda::kSuccess) return;
  fail(ErrorCode::kSystem, "{} on GPU {}{}: {}", call, index_,
       name_.empty() ? "" : " (" + name_ + ")", driver_->text(result));
}

int Gpu::attribute(int what) const {
  int value = 0;
  return driver_->device_attribute(&value, what, device_) == cuda::kSuccess ? value : 0;
}

void Gpu::make_current() const { check(driver_->set_context(context_), "cuCtxSetCurrent"); }

Gpu::Current::Current(const Gpu& gpu) : driver_(*gpu.driver_) {
  gpu.check(driver_.push_context(gpu.context_), "cuCtxPushCurrent");
}

Gpu::Current::~Current() {
  cuda::ContextHandle ignored = nullptr;
  driver_.pop_context(&ignored);
}

void Gpu::copy(void* to, const void* from, size_t bytes) const {
  const Copy one{to, from, bytes};
  copy({&one, 1});
}

void Gpu::copy(std::span<const Copy> copies) const {
  const Current current(*this);
  size_t sum = 0;
  for (const Copy& one : copies) {
    check(driver_->copy(device_address(one.to), device_address(one.from), one.bytes, stream_),
          "cuMemcpyAsync");
    sum += one.bytes;
  }
  check(driver_->sync_stream(stream_), fmt::format("copy of {} bytes", sum));
}

void Gpu::zero(void* address, size_t bytes) const {
  const Current current(*this);
  check(driver_->set_bytes(device_address(address), 0, bytes, stream_), "cuMemsetD8Async");
  check(driver_->sync_stream(stream_), fmt::format("zeroing of {} bytes", bytes));
}

std::shared_ptr<const HostView> Gpu::view_of(std::byte* begin, size_t bytes) const {
  return access_->view_of(*this, begin, bytes);
}

std::string Gpu::describe_words() const { return access_->describe(); }

std::optional<int> Gpu::find(const cuda::Uuid& uuid) const {
  for (int index = 0; index < count_of(*driver_); ++index) {
    cuda::DeviceHandle device = 0;
    cuda::Uuid one{};
    if (driver_->device(&device, index) == cuda::kSuccess &&
        driver_->device_uuid(&one, device) == cuda::kSuccess && one == uuid) {
      return index;
    }
  }
  return std::nullopt;
}

void* Gpu::pointer_to(void* host) const {
  cuda::DeviceAddress device = 0;
  call(fmt::format("cuMemHostGetDevicePointer({})", fmt::ptr(host)), &cuda::Driver::host_pointer,
       &device, host, 0u);
  return reinterpret_cast<void*>(device);
}

bool Gpu::ask(void* value, int what, const void* address) const {
  return within([&](const cuda::Driver& driver) {
    return driver.pointer_attribute(value, what, device_address(address)) == cuda::kSuccess;
  });
}

unsigned Gpu::memory_type(const void* address) const {
  unsigned type = 0;
  return ask(&type, cuda::kPointerMemoryType, address) ? type : 0;
}

bool Gpu::allocated(const void* address) const {
  unsigned legacy = 0;
  return ask(&legacy, cuda::kPointerLegacyIpc, address) && legacy != 0;
}

std::string Gpu::describe_memory(const void* address) const {
  if (!knows(address)) return "host memory";
  if (!holds(address)) return "pinned host memory";
  int index = -1;
  unsigned managed = 0;
  void* pool = nullptr;
  ask(&index, cuda::kPointerDevice, address);
  ask(&managed, cuda::kPointerManaged, address);
  ask(&pool, cuda::kPointerPool, address);
  const char* const of = managed != 0         ? "managed"
                         : allocated(address) ? "cudaMalloc"
                         : pool != nullptr    ? "cudaMallocAsync"
                                              : "cuMemCreate";
  return fmt::format("memory of GPU {} ({})", index, of);
}

bool Gpu::owns(const void* address) const {
  if (!holds(address)) return false;
  unsigned managed = 0;
  int index = -1;
  return ask(&managed, cuda::kPointerManaged, address) && managed == 0 &&
         ask(&index, cuda::kPointerDevice, address) && index == index_;
}

std::string Gpu::describe_writes() const {
  return fmt::format("kernels see a NIC's writes {} (ordering {}, flush options {})",
                     orders_writes() ? "in order" : "in no order", writes_ordering_,
                     flush_options_);
}

// The flag covers what is done in a context, whatever memory it is; the attribute covers one
// allocation, whoever does it, but memory of cuMemCreate has none. cuCtxSetFlags came with 12.1.
bool Gpu::synchronize_calls_on(const void* address) const {
  const cuda::DeviceAddress at = device_address(address);
  const bool done = within([&](const cuda::Driver& driver) {
    int index = index_;
    driver.pointer_attribute(&index, cuda::kPointerDevice, at);
    if (index != index_) return Gpu(driver_, index).synchronize_calls_on(address);
    constexpr unsigned kFlag = cuda::kContextSyncMemoryOperations;
    bool here = false;
    if (driver.context_flags && driver.set_context_flags) {
      unsigned flags = 0;
      here = driver.context_flags(&flags) == cuda::kSuccess &&
             ((flags & kFlag) != 0 || driver.set_context_flags(flags | kFlag) == cuda::kSuccess);
    }
    constexpr unsigned kYes = 1;
    const bool everywhere = driver.set_pointer_attribute &&
                            driver.set_pointer_attribute(&kYes, cuda::kPointerSyncMemoryOperations,
                                                         at) == cuda::kSuccess;
    return here || everywhere;
  });
  if (!done) calls_may_lag_ = true;
  return done;
}

DmaBuf Gpu::export_dma_buf(std::byte* first_page, size_t bytes) const {
  if (!driver_->range_handle) {
    return DmaBuf("the CUDA driver has no cuMemGetHandleForAddressRange: it is older than 11.7");
  }
  int supported = 0;
  const cuda::Result asked = driver_->device_attribute(&supported, cuda::kDmaBufSupported, device_);
  if (asked != cuda::kSuccess || supported == 0) {
    return DmaBuf(fmt::format(
        "the driver exports none of GPU {}: that takes NVIDIA's open kernel modules", index_));
  }
  int fd = -1;
  // Flags 0: by the way that the GPU's own bus has. The other one is for NICs with a second PCIe
  // function, and shows a mistake at the first transfer only.
  const cuda::Result result = within([&](const cuda::Driver& driver) {
    return driver.range_handle(&fd, device_address(first_page), bytes, cuda::kRangeHandleDmaBuf, 0);
  });
  if (result == cuda::kSuccess) return DmaBuf(fd);
  return DmaBuf(fmt::format("cuMemGetHandleForAddressRange({} bytes at {}) on GPU {}: {}", bytes,
                            fmt::ptr(first_page), index_, driver_->text(result)));
}

}  // namespace peal
