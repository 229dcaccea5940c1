// SPDX-License-Identifier: Apache-2.0
//
// CUDA memory of this process, through the driver library that is loaded already: a process without
// it has no such memory.
#include <cstring>
#include <string>

#include "softnic/gpu/copier_cuda.h"
#include "softnic/gpu/cuda_library.h"
#include "softnic/gpu/exporter.h"

namespace peal::softnic::gpu {

namespace {

// The driver's types and numbers, as its manual has them.
using AllocationHandle = unsigned long long;
struct IpcHandle {
  char reserved[64];
};
enum PointerAttribute : int {
  kContext = 1,
  kMemoryType = 2,
  kBufferId = 7,
  kDeviceOrdinal = 9,
};
constexpr unsigned kDeviceMemory = 2;
constexpr int kPosixDescriptor = 1;
constexpr int kMpsEnabled = 133;

/// The functions used.
struct Driver {
  Library library;
  DriverResult (*pointer_attribute)(void*, int, DevicePointer) = library["cuPointerGetAttribute"];
  DriverResult (*address_range)(DevicePointer*, size_t*,
                                DevicePointer) = library["cuMemGetAddressRange_v2"];
  DriverResult (*retain_context)(void**, int) = library["cuDevicePrimaryCtxRetain"];
  DriverResult (*release_context)(int) = library["cuDevicePrimaryCtxRelease_v2"];
  DriverResult (*push_context)(void*) = library["cuCtxPushCurrent_v2"];
  DriverResult (*pop_context)(void**) = library["cuCtxPopCurrent_v2"];
  DriverResult (*current_device)(int*) = library["cuCtxGetDevice"];
  DriverResult (*ipc_handle)(IpcHandle*, DevicePointer) = library["cuIpcGetMemHandle"];
  DriverResult (*allocate)(DevicePointer*, size_t) = library["cuMemAlloc_v2"];
  DriverResult (*release)(DevicePointer) = library["cuMemFree_v2"];
  DriverResult (*retain_allocation)(AllocationHandle*,
                                    void*) = library["cuMemRetainAllocationHandle"];
  DriverResult (*export_allocation)(void*, AllocationHandle, int,
                                    unsigned long long) = library["cuMemExportToShareableHandle"];
  DriverResult (*release_allocation)(AllocationHandle) = library["cuMemRelease"];
  DriverResult (*device_count)(int*) = library["cuDeviceGetCount"];
  DriverResult (*device)(int*, int) = library["cuDeviceGet"];
  DriverResult (*device_attribute)(int*, int, int) = library["cuDeviceGetAttribute"];
  DriverResult (*can_access_peer)(int*, int, int) = library["cuDeviceCanAccessPeer"];
  DriverResult (*uuid)(void*, int) = library["cuDeviceGetUuid_v2"];
  DriverResult (*error_string)(DriverResult, const char**) = library["cuGetErrorString"];
};

class CudaExporter : public Exporter {
 public:
  bool owns(const void* address) const override {
    unsigned type = 0;
    return loaded() &&
           driver_.pointer_attribute(&type, kMemoryType, device_pointer(address)) == kSuccess &&
           type == kDeviceMemory;
  }

  std::vector<Exported> export_range(const void* address, uint64_t bytes) const override {
    if (!owns(address)) {
      throw ExportError("the GPU engine reaches GPU memory only (cudaMalloc, cuMemCreate), and " +
                        text_of(address) + " is none: PEAL_SOFTNIC_ENGINE=cpu serves both");
    }
    std::vector<Exported> all;
    const DevicePointer end = device_pointer(address) + bytes;
    for (DevicePointer at = device_pointer(address); at < end;) {
      const Exported& one = all.emplace_back(export_at(at));
      at = one.extent.base + one.extent.bytes;
    }
    for (size_t i = 0; i < all.size(); ++i) {
      all[i].extent.more = static_cast<uint32_t>(all.size() - 1 - i);
      if (all.size() == 1 || all[i].extent.kind == ProcessMemory::Kind::kDescriptor) continue;
      throw ExportError("the range of " + std::to_string(bytes) + " bytes at " + text_of(address) +
                        " is not within one allocation");
    }
    return all;
  }

  GpuId gpu_for_nic(const void* address) const override {
    const int home = number_of(address);
    int count = 0;
    if (driver_.device_count(&count) != kSuccess) count = 0;
    for (int other = count - 1; other >= 0; --other) {
      if (other != home && reaches(other, home)) return gpu_at(other);
    }
    return gpu_at(home);
  }

  int number_of(const void* address) const override {
    int ordinal = 0;
    require_loaded();
    check(driver_.pointer_attribute(&ordinal, kDeviceOrdinal, device_pointer(address)),
          "cuPointerGetAttribute", text_of(address));
    return ordinal;
  }

  std::shared_ptr<std::byte> allocate(uint64_t bytes, int otherwise) const override {
    constexpr uint64_t kPage = 4096;
    require_loaded();
    int device = 0;
    if (driver_.current_device(&device) != kSuccess) {
      check(driver_.device(&device, otherwise), "cuDeviceGet", std::to_string(otherwise));
    }
    const std::string name = "GPU " + std::to_string(device);
    void* context = nullptr;
    check(driver_.retain_context(&context, device), "cuDevicePrimaryCtxRetain", name);
    DevicePointer base = 0;
    const DriverResult allocated =
        within(context, [&] { return driver_.allocate(&base, bytes + kPage); });
    if (allocated != kSuccess) driver_.release_context(device);
    check(allocated, "cuMemAlloc", name);
    const auto release = [this, context, device, base](std::byte*) {
      within(context, [&] { return driver_.release(base); });
      driver_.release_context(device);
    };
    const DevicePointer page = (base + kPage - 1) / kPage * kPage;
    return {reinterpret_cast<std::byte*>(page), release};
  }

  GpuId gpu_at(int index) const override {
    int device = 0;
    GpuId id;
    require_loaded();
    if (driver_.device(&device, index) != kSuccess || driver_.uuid(id.byte, device) != kSuccess) {
      throw ExportError("there is no GPU " + std::to_string(index));
    }
    return id;
  }

  std::unique_ptr<GpuCopier> make_copier(const void* address) const override {
    int device = 0;
    check(driver_.device(&device, number_of(address)), "cuDeviceGet", text_of(address));
    return make_cuda_copier(device);
  }

  bool takes_turns(const void* address, const GpuId& gpu) const override {
    const int home = number_of(address);
    if (gpu_at(home) != gpu) return false;
    int device = 0;
    int shared = 0;
    return driver_.device(&device, home) == kSuccess &&
           driver_.device_attribute(&shared, kMpsEnabled, device) == kSuccess && shared == 0;
  }

 private:
  void require_loaded() const {
    if (!loaded()) throw ExportError("libcuda.so.1 is not loaded in this process");
  }
  bool loaded() const {
    // Looked for again until found: the program may load it after its NIC is open.
    if (!driver_.library.complete()) driver_ = {};
    return driver_.library.complete();
  }

  /// Null for memory that belongs to no context (cuMemCreate).
  void* context_of(const void* address) const {
    void* context = nullptr;
    const DriverResult result =
        driver_.pointer_attribute(&context, kContext, device_pointer(address));
    return result == kSuccess ? context : nullptr;
  }

  template <class Body>
  DriverResult within(void* context, const Body& body) const {
    if (context == nullptr) return body();
    const DriverResult entered = driver_.push_context(context);
    if (entered != kSuccess) return entered;
    const DriverResult result = body();
    driver_.pop_context(&context);
    return result;
  }

  bool reaches(int from, int to) const {
    int here = 0;
    int there = 0;
    int can = 0;
    return driver_.device(&here, from) == kSuccess && driver_.device(&there, to) == kSuccess &&
           driver_.can_access_peer(&can, here, there) == kSuccess && can != 0;
  }

  void check(DriverResult result, const char* call, const std::string& of) const {
    if (result == kSuccess) return;
    const char* text = nullptr;
    driver_.error_string(result, &text);
    throw ExportError(std::string(call) + " of " + of + ": " +
                      (text == nullptr ? "unknown error" : text));
  }

  static std::string text_of(const void* address) {
    char text[32];
    std::snprintf(text, sizeof(text), "%p", address);
    return text;
  }

  /// The allocation or piece that `at` lies in.
  Exported export_at(DevicePointer at) const {
    const auto* const address = reinterpret_cast<const void*>(at);
    Exported one;
    DevicePointer base = 0;
    size_t size = 0;
    check(within(context_of(address), [&] { return driver_.address_range(&base, &size, at); }),
          "cuMemGetAddressRange", text_of(address));
    one.extent.base = base;
    one.extent.bytes = size;
    unsigned long long id = 0;
    check(driver_.pointer_attribute(&id, kBufferId, base), "cuPointerGetAttribute",
          text_of(address));
    one.extent.id = id;
    if (!export_descriptor(&one.extent, &one.descriptor)) export_handle(&one.extent);
    return one;
  }

  /// Memory of cuMemCreate. False when it is of another kind, or was not made to be shared.
  bool export_descriptor(ProcessMemory* extent, Fd* descriptor) const {
    AllocationHandle handle = 0;
    void* base = reinterpret_cast<void*>(extent->base);
    if (driver_.retain_allocation(&handle, base) != kSuccess) return false;
    int fd = -1;
    const DriverResult result = driver_.export_allocation(&fd, handle, kPosixDescriptor, 0);
    driver_.release_allocation(handle);
    if (result != kSuccess) return false;
    *descriptor = closed_by_exec(fd);
    extent->kind = ProcessMemory::Kind::kDescriptor;
    return true;
  }

  /// Memory of cudaMalloc and its like.
  void export_handle(ProcessMemory* extent) const {
    const auto* base = reinterpret_cast<const void*>(extent->base);
    IpcHandle handle;
    check(within(context_of(base), [&] { return driver_.ipc_handle(&handle, extent->base); }),
          "cuIpcGetMemHandle", text_of(base));
    extent->kind = ProcessMemory::Kind::kIpcHandle;
    static_assert(sizeof(handle) == sizeof(extent->handle));
    std::memcpy(extent->handle, &handle, sizeof(handle));
  }

  mutable Driver driver_;
};

}  // namespace

std::unique_ptr<Exporter> make_cuda_exporter() { return std::make_unique<CudaExporter>(); }

}  // namespace peal::softnic::gpu
