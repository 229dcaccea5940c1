// SPDX-License-Identifier: Apache-2.0
//
// How a client gives a doorbell page to a GPU: cuMemHostRegister with CU_MEMHOSTREGISTER_IOMEMORY,
// then cuMemHostGetDevicePointer. On a card the page is I/O memory. The software NIC's is either
// plain memory of the host, for which the driver refuses that flag, or memory of a GPU, which needs
// no registration; both succeed here as on a card. All other memory is left to the driver.
//
//   dlsym, cuGetProcAddress: the names below -> these functions; any other -> the driver's
//   linked with the driver: the definitions at the end, which come first
//
// Most clients find the driver's functions by the two calls; UCX is linked with the driver.
#include <dlfcn.h>

#include <atomic>
#include <cstdint>
#include <iterator>
#include <map>
#include <mutex>
#include <string_view>

namespace peal::softnic::sysfs {
namespace {

// The driver's types and numbers, as its manual has them.
using DriverResult = int;
using DevicePointer = unsigned long long;
constexpr DriverResult kSuccess = 0;
constexpr unsigned kIoMemory = 4;
constexpr int kMemoryType = 2;
constexpr unsigned kDeviceMemory = 2;
constexpr int kSecondGetProcAddress = 12000;  // from this version on cuGetProcAddress_v2 is meant

using Find = void* (*)(void*, const char*) noexcept;

/// glibc's own: the dlsym of this library would answer with the functions of this library.
Find real_dlsym() {
  // Every thread finds the same, and a guard may be a sanitizer's, whose runtime asks before it is
  // there.
  static constinit std::atomic<void*> known{nullptr};
  void* found = known.load(std::memory_order_relaxed);
  if (found == nullptr) found = dlvsym(RTLD_NEXT, "dlsym", "GLIBC_2.34");
  if (found == nullptr) found = dlvsym(RTLD_NEXT, "dlsym", "GLIBC_2.2.5");
  known.store(found, std::memory_order_relaxed);
  return reinterpret_cast<Find>(found);
}

/// A function of a library that this process has loaded, or null.
template <class Function>
Function* loaded(const char* library, const char* name) {
  void* const handle = dlopen(library, RTLD_NOW | RTLD_NOLOAD);
  if (handle == nullptr) return nullptr;
  auto* const found = reinterpret_cast<Function*>(real_dlsym()(handle, name));
  dlclose(handle);  // of the reference: others keep it loaded
  return found;
}

/// The driver's function: it exists, as nobody calls these without having found it there.
template <class Function>
Function* driver(const char* name) {
  return loaded<Function>("libcuda.so.1", name);
}

bool is_doorbell(const void* address) {
  auto* const ask = loaded<int(const void*)>("libpeal_softnic.so", "peal_softnic_is_doorbell");
  return ask != nullptr && ask(address) != 0;
}

bool on_gpu(const void* address) {
  static auto* const attribute =
      driver<DriverResult(void*, int, DevicePointer)>("cuPointerGetAttribute");
  unsigned type = 0;
  return attribute != nullptr &&
         attribute(&type, kMemoryType, reinterpret_cast<DevicePointer>(address)) == kSuccess &&
         type == kDeviceMemory;
}

/// Ranges of doorbell pages in GPU memory that count as registered.
class Registered {
 public:
  void add(const void* address, size_t bytes) {
    const std::lock_guard lock(mutex_);
    bytes_[reinterpret_cast<uintptr_t>(address)] = bytes;
  }
  bool remove(const void* address) {
    const std::lock_guard lock(mutex_);
    return bytes_.erase(reinterpret_cast<uintptr_t>(address)) != 0;
  }
  bool covers(const void* address) {
    const std::lock_guard lock(mutex_);
    const auto at = reinterpret_cast<uintptr_t>(address);
    const auto after = bytes_.upper_bound(at);
    return after != bytes_.begin() && at - std::prev(after)->first < std::prev(after)->second;
  }

 private:
  std::mutex mutex_;
  std::map<uintptr_t, size_t> bytes_;
};

Registered& registered() {
  // A preloaded library has nobody to hold its state; never destroyed, as clients end in any order.
  static Registered& ranges = *new Registered;
  return ranges;
}

DriverResult host_register(void* address, size_t bytes, unsigned flags) {
  static auto* const real = driver<DriverResult(void*, size_t, unsigned)>("cuMemHostRegister_v2");
  if ((flags & kIoMemory) == 0 || !is_doorbell(address)) return real(address, bytes, flags);
  if (!on_gpu(address)) return real(address, bytes, flags & ~kIoMemory);
  registered().add(address, bytes);
  return kSuccess;
}

DriverResult host_unregister(void* address) {
  static auto* const real = driver<DriverResult(void*)>("cuMemHostUnregister");
  return registered().remove(address) ? kSuccess : real(address);
}

DriverResult host_device_pointer(DevicePointer* answer, void* address, unsigned flags) {
  static auto* const real =
      driver<DriverResult(DevicePointer*, void*, unsigned)>("cuMemHostGetDevicePointer_v2");
  if (!registered().covers(address)) return real(answer, address, flags);
  *answer = reinterpret_cast<DevicePointer>(address);
  return kSuccess;
}

/// cuGetProcAddress, or with a status, as since 12.0, cuGetProcAddress_v2.
template <class... Status>
DriverResult get_proc_address(const char* name, void** answer, int version, uint64_t flags,
                              Status... status);

struct Replacement {
  std::string_view name;      // as cuGetProcAddress knows it
  std::string_view exported;  // as dlsym does
  void* function;
};

/// The function in the place of the driver's one that `is_meant`, or null.
template <class IsMeant>
void* replacement(IsMeant is_meant) {
  const Replacement all[] = {
      {"cuMemHostRegister", "cuMemHostRegister_v2", reinterpret_cast<void*>(host_register)},
      {"cuMemHostUnregister", "cuMemHostUnregister", reinterpret_cast<void*>(host_unregister)},
      {"cuMemHostGetDevicePointer", "cuMemHostGetDevicePointer_v2",
       reinterpret_cast<void*>(host_device_pointer)},
      {"cuGetProcAddress", "cuGetProcAddress_v2", reinterpret_cast<void*>(get_proc_address<int*>)},
      {"", "cuGetProcAddress", reinterpret_cast<void*>(get_proc_address<>)},
  };
  for (const Replacement& each : all) {
    if (is_meant(each)) return each.function;
  }
  return nullptr;
}

/// What cuGetProcAddress answers instead of `found`.
void replace(const char* name, int version, void** found) {
  if (name == nullptr || found == nullptr || *found == nullptr) return;
  const bool first_get =
      version < kSecondGetProcAddress && name == std::string_view("cuGetProcAddress");
  void* const ours = first_get
                         ? reinterpret_cast<void*>(get_proc_address<>)
                         : replacement([&](const Replacement& each) { return each.name == name; });
  if (ours != nullptr) *found = ours;
}

template <class... Status>
DriverResult get_proc_address(const char* name, void** answer, int version, uint64_t flags,
                              Status... status) {
  constexpr bool kSecond = sizeof...(Status) != 0;
  static auto* const real = driver<DriverResult(const char*, void**, int, uint64_t, Status...)>(
      kSecond ? "cuGetProcAddress_v2" : "cuGetProcAddress");
  const DriverResult result = real(name, answer, version, flags, status...);
  if (result == kSuccess) replace(name, version, answer);
  return result;
}

}  // namespace
}  // namespace peal::softnic::sysfs

extern "C" {

// The last call is a jump, and must be: RTLD_NEXT means the library after the one that glibc finds
// as its caller (tests/unit/softnic/sysfs/sysfs_test.cc).
void* dlsym(void* handle, const char* name) noexcept {
  using namespace peal::softnic::sysfs;
  const auto is_meant = [name](const Replacement& each) { return each.exported == name; };
  void* const ours = replacement(is_meant);
  if (ours != nullptr && real_dlsym()(handle, name) != nullptr) return ours;
  return real_dlsym()(handle, name);
}

int cuMemHostRegister_v2(void* address, size_t bytes, unsigned flags) {
  return peal::softnic::sysfs::host_register(address, bytes, flags);
}

int cuMemHostUnregister(void* address) { return peal::softnic::sysfs::host_unregister(address); }

int cuMemHostGetDevicePointer_v2(unsigned long long* answer, void* address, unsigned flags) {
  return peal::softnic::sysfs::host_device_pointer(answer, address, flags);
}

}  // extern "C"
