// SPDX-License-Identifier: Apache-2.0
//
// The fake's functions, but for memory that is made and mapped apart (fake_cuda_pieces.cc) and for
// pools (fake_cuda_pools.cc). An IPC handle carries pid, descriptor and size of a memfd.
#include "tests/support/fake_cuda.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <map>
#include <mutex>
#include <set>
#include <vector>

#include "host/base/cuda_driver.h"
#include "tests/support/fake_cuda_state.h"

#if defined(__SANITIZE_THREAD__)
#include <sanitizer/tsan_interface.h>
#endif

namespace fake_cuda_detail {

FakeCuda state;
std::mutex mutex;
std::map<DeviceAddress, Allocation> allocations;

Result refusal(const char* symbol) {
  if (state.waiting > 0) ++state.beside_waits;
  const auto found = state.refuse.find(symbol);
  return found == state.refuse.end() ? kSuccess : found->second;
}

Result mistake(Result result) {
  ++state.mistakes;
  return result;
}

Allocations::iterator around(DeviceAddress address) {
  const auto after = allocations.upper_bound(address);
  if (after == allocations.begin()) return allocations.end();
  const auto found = std::prev(after);
  return address - found->first < found->second.bytes ? found : allocations.end();
}

}  // namespace fake_cuda_detail

namespace {

using namespace fake_cuda_detail;

constexpr Result kNoDevice = 100;
constexpr Result kInvalidDevice = 101;
constexpr int kMaxDevices = 8;

// What peal's host asks of a pointer, and the software NIC beyond that.
enum PointerAttribute : int { kContext = 1 };

struct Ipc {
  int64_t pid;
  int64_t fd;
  uint64_t bytes;
};
static_assert(sizeof(Ipc) <= sizeof(IpcHandle));

std::map<DeviceAddress, size_t> mapped;
std::map<void*, size_t> pinned;
std::map<void*, size_t> host_bytes;  // of what the driver allocated
std::set<std::pair<int, int>> peers;
int contexts[kMaxDevices];  // a context is the address of its device's entry
int retained[kMaxDevices];  // primary contexts
unsigned context_flags[kMaxDevices];
int stream;  // of which there is one kind
thread_local std::vector<ContextHandle> current;

ContextHandle context_of(int device) { return reinterpret_cast<ContextHandle>(&contexts[device]); }

Result map(int fd, size_t bytes, DeviceAddress* address) {
  void* const begin = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (begin == MAP_FAILED) return kOutOfMemory;
  *address = reinterpret_cast<DeviceAddress>(begin);
  ++state.live;
  return kSuccess;
}

// Copies words that lie aligned at both ends, each whole; returns the bytes that were such.
template <class Word>
size_t copy_words(DeviceAddress to, DeviceAddress from, size_t bytes) {
  if ((to | from) % sizeof(Word) != 0) return 0;
  const size_t whole = bytes - bytes % sizeof(Word);
  for (size_t at = 0; at < whole; at += sizeof(Word)) {
    __atomic_store_n(pointer<Word>(to + at),
                     __atomic_load_n(pointer<Word>(from + at), __ATOMIC_ACQUIRE), __ATOMIC_RELAXED);
  }
  return whole;
}

// What a copy engine does, as kernels see it that poll the memory meanwhile: every word comes
// behind all that the caller did before, other copies among it, and the words of one copy in any
// order. So one release in front of relaxed stores. Whoever waits for the copy has acquired what it
// read.
void transfer(DeviceAddress to, DeviceAddress from, size_t bytes) {
#if defined(__SANITIZE_THREAD__)
  // It knows no fences. Nor has it room for every word of large copies, which hold no polled words.
  for (size_t at = 0; at < bytes && bytes <= 4096; at += 4) __tsan_release(pointer<void>(to + at));
#else
  __atomic_thread_fence(__ATOMIC_RELEASE);
#endif
  size_t done = copy_words<uint64_t>(to, from, bytes);
  done += copy_words<uint32_t>(to + done, from + done, bytes - done);
  copy_words<uint8_t>(to + done, from + done, bytes - done);
}

// As a driver pins it: another process could read the page. Where that may not be tried, it is.
bool pinnable(void* page) {
  uint64_t word = 0;
  iovec here = {&word, sizeof word};
  iovec there = {page, sizeof word};
  return ::process_vm_readv(::getpid(), &here, 1, &there, 1, 0) == sizeof word || errno != EFAULT;
}

bool overlaps_pinned(void* address, size_t bytes) {
  const auto begin = reinterpret_cast<uintptr_t>(address);
  return std::ranges::any_of(pinned, [&](const auto& range) {
    const auto other = reinterpret_cast<uintptr_t>(range.first);
    return begin < other + range.second && other < begin + bytes;
  });
}

}  // namespace

bool fake_cuda_detail::calls_may_lag(const Allocation& allocation) {
  const unsigned flags = context_flags[allocation.device];
  return !allocation.synchronous && (flags & kContextSyncMemoryOperations) == 0;
}

int fake_cuda_detail::current_device() {
  if (current.empty() || current.back() == nullptr) return -1;
  return static_cast<int>(reinterpret_cast<int*>(current.back()) - contexts);
}

extern "C" {

FakeCuda* fake_cuda() { return &state; }

Result cuInit(unsigned) { return refusal("cuInit"); }
// Names without a version, as it takes them: that of the newest.
Result cuGetProcAddress_v2(const char* name, void** found, int, uint64_t, int*) {
  void* const self = ::dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
  *found = ::dlsym(self, (std::string(name) + "_v2").c_str());
  if (*found == nullptr) *found = ::dlsym(self, name);
  ::dlclose(self);
  return *found != nullptr ? kSuccess : kInvalidValue;
}
Result cuDriverGetVersion(int* version) {
  *version = 13000;
  return kSuccess;
}
Result cuGetErrorName(Result error, const char** text) {
  *text = error == kOutOfMemory ? "CUDA_ERROR_OUT_OF_MEMORY" : "CUDA_ERROR_FAKE";
  return error == 12345 ? kInvalidValue : kSuccess;
}
Result cuGetErrorString(Result error, const char** text) {
  *text = error == kOutOfMemory ? "out of memory" : "the test wants it so";
  return kSuccess;
}
Result cuDeviceGetCount(int* count) {
  *count = state.devices - state.visible_from;
  return refusal("cuDeviceGetCount");
}
Result cuDeviceGet(DeviceHandle* device, int index) {
  if (index < 0 || index + state.visible_from >= state.devices) return kInvalidDevice;
  *device = index + state.visible_from;
  return refusal("cuDeviceGet");
}
Result cuDeviceGetName(char* name, int, DeviceHandle) {
  std::strcpy(name, "Fake H200");
  return kSuccess;
}
Result cuDeviceGetUuid_v2(Uuid* uuid, DeviceHandle device) {
  *uuid = {};
  uuid->bytes[15] = static_cast<char>(device + 1);
  return kSuccess;
}
Result cuDeviceGetPCIBusId(char* address, int bytes, DeviceHandle device) {
  std::snprintf(address, static_cast<size_t>(bytes), "0000:%02X:00.0", 0x1a + device);
  return refusal("cuDeviceGetPCIBusId");
}
Result cuDeviceCanAccessPeer(int* can, DeviceHandle device, DeviceHandle peer) {
  *can = device != peer && state.peer_access ? 1 : 0;
  return kSuccess;
}
Result cuDeviceGetP2PAttribute(int* value, int, DeviceHandle, DeviceHandle) {
  *value = state.native_atomics ? 1 : 0;
  return kSuccess;
}
Result cuDevicePrimaryCtxRetain(ContextHandle* context, DeviceHandle device) {
  FAKE_ENTER("cuDevicePrimaryCtxRetain");
  if (device < 0 || device >= state.devices) return mistake(kNoDevice);
  *context = context_of(device);
  ++retained[device];
  ++state.live;
  return kSuccess;
}
Result cuDevicePrimaryCtxRelease_v2(DeviceHandle device) {
  const std::lock_guard lock(mutex);
  if (--retained[device] == 0) context_flags[device] = 0;
  --state.live;
  return kSuccess;
}
Result cuCtxSetCurrent(ContextHandle context) {
  if (current.empty()) current.emplace_back();
  current.back() = context;
  return kSuccess;
}
Result cuCtxPushCurrent_v2(ContextHandle context) {
  if (const Result no = refusal("cuCtxPushCurrent"); no) return no;
  current.push_back(context);
  return kSuccess;
}
Result cuCtxPopCurrent_v2(ContextHandle*) {
  if (current.empty()) return mistake(kInvalidContext);
  current.pop_back();
  return kSuccess;
}
Result cuCtxGetDevice(DeviceHandle* device) {
  *device = current_device();
  return *device < 0 ? kInvalidContext : kSuccess;
}
Result cuCtxGetFlags(unsigned* flags) {
  FAKE_ENTER_CONTEXT("cuCtxGetFlags");
  *flags = context_flags[current_device()];
  return kSuccess;
}
Result cuCtxSetFlags(unsigned flags) {
  FAKE_ENTER_CONTEXT("cuCtxSetFlags");
  context_flags[current_device()] = flags;
  return kSuccess;
}
Result cuCtxEnablePeerAccess(ContextHandle peer, unsigned) {
  FAKE_ENTER_CONTEXT("cuCtxEnablePeerAccess");
  if (!state.peer_access) return kPeerAccessUnsupported;
  const auto device = static_cast<int>(reinterpret_cast<int*>(peer) - contexts);
  if (!peers.emplace(current_device(), device).second) return kPeerAccessAlreadyEnabled;
  ++state.enabled;
  return kSuccess;
}
Result cuStreamCreate(StreamHandle* out, unsigned flags) {
  FAKE_ENTER_CONTEXT("cuStreamCreate");
  if (flags != kStreamNonBlocking) return mistake(kInvalidValue);
  *out = reinterpret_cast<StreamHandle>(&stream);
  ++state.live;
  return kSuccess;
}
Result cuStreamDestroy_v2(StreamHandle) {
  FAKE_ENTER_CONTEXT("cuStreamDestroy");
  --state.live;
  return kSuccess;
}
Result cuCtxSynchronize() { return refusal("cuCtxSynchronize"); }
Result cuStreamSynchronize(StreamHandle which) {
  return which == nullptr ? mistake(kInvalidValue) : refusal("cuStreamSynchronize");
}
Result cuStreamQuery(StreamHandle which) {
  return which == nullptr ? mistake(kInvalidValue) : refusal("cuStreamQuery");
}
// Streams do at once what they are given; there are no kernels, and nothing is recorded.
Result cuStreamIsCapturing(StreamHandle, int* status) {
  *status = state.capturing ? 1 : kCaptureNone;
  return refusal("cuStreamIsCapturing");
}
Result cuStreamWriteValue64_v2(StreamHandle, DeviceAddress to, uint64_t value, unsigned) {
  FAKE_ENTER_CONTEXT("cuStreamWriteValue64");
  if (!state.stream_fails) transfer(to, reinterpret_cast<DeviceAddress>(&value), sizeof(value));
  return kSuccess;
}
// Whoever gives it to the stream waits: another thread has to store the word.
Result cuStreamWaitValue64_v2(StreamHandle, DeviceAddress at, uint64_t value, unsigned flags) {
  {
    FAKE_ENTER_CONTEXT("cuStreamWaitValue64");
    if (flags != 0 || state.stream_fails) return flags != 0 ? mistake(kInvalidValue) : kSuccess;
    ++state.waits;
    ++state.waiting;
  }
  const auto* const word = pointer<uint64_t>(at);
  while (static_cast<int64_t>(__atomic_load_n(word, __ATOMIC_ACQUIRE) - value) < 0) ::sched_yield();
  --state.waiting;
  return kSuccess;
}
Result cuEventCreate(EventHandle* out, unsigned) {
  FAKE_ENTER_CONTEXT("cuEventCreate");
  *out = reinterpret_cast<EventHandle>(&stream);
  ++state.live;
  return kSuccess;
}
Result cuEventDestroy_v2(EventHandle) {
  FAKE_ENTER_CONTEXT("cuEventDestroy");
  --state.live;
  return kSuccess;
}
Result cuEventRecord(EventHandle, StreamHandle) { return refusal("cuEventRecord"); }
Result cuEventQuery(EventHandle) { return refusal("cuEventQuery"); }
Result cuEventSynchronize(EventHandle) { return refusal("cuEventSynchronize"); }
Result cuModuleLoadData(ModuleHandle*, const void*) { return kNotSupported; }
Result cuModuleUnload(ModuleHandle) { return kSuccess; }
Result cuModuleGetFunction(FunctionHandle*, ModuleHandle, const char*) { return kNotSupported; }
Result cuLaunchKernel(FunctionHandle, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned,
                      unsigned, StreamHandle, void**, void**) {
  return kNotSupported;
}
Result cuMemcpyAsync(DeviceAddress to, DeviceAddress from, size_t bytes, StreamHandle which) {
  FAKE_ENTER_CONTEXT("cuMemcpyAsync");
  if (which == nullptr) return mistake(kInvalidValue);
  ++state.copies;
  transfer(to, from, bytes);
  return kSuccess;
}
Result cuMemsetD8Async(DeviceAddress to, unsigned char byte, size_t bytes, StreamHandle which) {
  FAKE_ENTER_CONTEXT("cuMemsetD8Async");
  if (which == nullptr) return mistake(kInvalidValue);
  const std::vector<unsigned char> filled(bytes, byte);
  transfer(to, reinterpret_cast<DeviceAddress>(filled.data()), bytes);
  return kSuccess;
}
Result cuMemGetInfo_v2(size_t* available, size_t* total) {
  *total = state.memory;
  *available = state.memory / 2;
  return kSuccess;
}
Result cuMemAlloc_v2(DeviceAddress* address, size_t bytes) {
  FAKE_ENTER_CONTEXT("cuMemAlloc");
  if (bytes > state.memory) return kOutOfMemory;
  const int fd = ::memfd_create("fake-gpu", MFD_CLOEXEC);
  if (fd < 0 || ::ftruncate(fd, static_cast<off_t>(bytes)) != 0) return kOutOfMemory;
  const Result result = map(fd, bytes, address);
  if (result == kSuccess) {
    std::memset(pointer<void>(*address), 0xa5, bytes);  // not zero: a GPU's is not either
    allocations[*address] = {.bytes = bytes, .fd = fd, .device = current_device(), .id = next_id()};
  }
  return result;
}
Result cuMemFree_v2(DeviceAddress address) {
  FAKE_ENTER_CONTEXT("cuMemFree");
  const auto found = allocations.find(address);
  if (found == allocations.end() || found->second.piece) return mistake(kInvalidValue);
  if (found->second.pool != nullptr) {
    free_of_pool(found);
    return kSuccess;
  }
  ::munmap(pointer<void>(address), found->second.bytes);
  ::close(found->second.fd);
  allocations.erase(found);
  --state.live;
  return kSuccess;
}
Result cuMemGetAddressRange_v2(DeviceAddress* base, size_t* bytes, DeviceAddress inside) {
  FAKE_ENTER_CONTEXT("cuMemGetAddressRange");
  const auto found = around(inside);
  if (found == allocations.end()) return kInvalidValue;
  // As on two H100s: of a piece it is told where the current context's GPU may use it.
  if (found->second.piece && found->second.allowed.count(current_device()) == 0) {
    return kInvalidValue;
  }
  *base = found->first;
  *bytes = found->second.bytes;
  return kSuccess;
}
Result cuIpcGetMemHandle(IpcHandle* handle, DeviceAddress address) {
  FAKE_ENTER_CONTEXT("cuIpcGetMemHandle");
  const auto found = allocations.find(address);
  if (found == allocations.end()) return mistake(kInvalidValue);
  if (found->second.piece || found->second.pool != nullptr) return kInvalidValue;
  const Ipc ipc{::getpid(), found->second.fd, found->second.bytes};
  std::memcpy(handle, &ipc, sizeof(ipc));
  return kSuccess;
}
Result cuIpcOpenMemHandle_v2(DeviceAddress* address, IpcHandle handle, unsigned flags) {
  FAKE_ENTER_CONTEXT("cuIpcOpenMemHandle");
  if (flags != kIpcLazyPeerAccess) return mistake(kInvalidValue);
  Ipc ipc;
  std::memcpy(&ipc, &handle, sizeof(ipc));
  const std::string path = "/proc/" + std::to_string(ipc.pid) + "/fd/" + std::to_string(ipc.fd);
  const int fd = ::open(path.c_str(), O_RDWR | O_CLOEXEC);
  if (fd < 0) return kInvalidValue;
  const Result result = map(fd, ipc.bytes, address);
  ::close(fd);
  if (result == kSuccess) {
    mapped[*address] = ipc.bytes;
    ++state.mappings;
  }
  return result;
}
Result cuIpcCloseMemHandle(DeviceAddress address) {
  FAKE_ENTER_CONTEXT("cuIpcCloseMemHandle");
  const auto found = mapped.find(address);
  if (found == mapped.end()) return mistake(kInvalidValue);
  ::munmap(pointer<void>(address), found->second);
  mapped.erase(found);
  --state.mappings;
  --state.live;
  return kSuccess;
}
Result cuMemHostAlloc(void** address, size_t bytes, unsigned flags) {
  await_streams();
  FAKE_ENTER_CONTEXT("cuMemHostAlloc");
  if (flags != (kHostPortable | kHostDeviceMap)) return mistake(kInvalidValue);
  *address = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (*address == MAP_FAILED) return kOutOfMemory;
  pinned[*address] = host_bytes[*address] = bytes;
  ++state.live;
  return kSuccess;
}
Result cuMemFreeHost(void* address) {
  FAKE_ENTER_CONTEXT("cuMemFreeHost");
  if (host_bytes.count(address) == 0) return mistake(kInvalidValue);
  pinned.erase(address);
  ::munmap(address, host_bytes.extract(address).mapped());
  --state.live;
  return kSuccess;
}
Result cuMemHostRegister_v2(void* address, size_t bytes, unsigned flags) {
  FAKE_ENTER_CONTEXT("cuMemHostRegister");
  if ((flags & ~kHostIoMemory) != (kHostPortable | kHostDeviceMap)) return mistake(kInvalidValue);
  if (!pinnable(address) || (!state.io_memory && (flags & kHostIoMemory) != 0)) {
    return kInvalidValue;
  }
  if (overlaps_pinned(address, bytes)) return kAlreadyRegistered;
  state.host_flags = flags;
  pinned[address] = bytes;
  ++state.live;
  return kSuccess;
}
Result cuMemHostUnregister(void* address) {
  FAKE_ENTER_CONTEXT("cuMemHostUnregister");
  if (pinned.erase(address) == 0) return mistake(kInvalidValue);
  --state.live;
  return kSuccess;
}
Result cuMemHostGetDevicePointer_v2(DeviceAddress* device, void* host, unsigned flags) {
  FAKE_ENTER_CONTEXT("cuMemHostGetDevicePointer");
  // For what was registered or allocated, and not for places in it: so much is documented.
  if (flags != 0 || pinned.count(host) == 0) return mistake(kInvalidValue);
  *device = reinterpret_cast<DeviceAddress>(host);
  return kSuccess;
}
Result cuPointerGetAttribute(void* value, int what, DeviceAddress address) {
  FAKE_ENTER_CONTEXT("cuPointerGetAttribute");
  const auto found = around(address);
  const bool gpu = found != allocations.end();
  if (!gpu && !overlaps_pinned(pointer<void>(address), 1)) return kInvalidValue;
  const auto answer = [value](auto attribute) {
    std::memcpy(value, &attribute, sizeof(attribute));
    return kSuccess;
  };
  if (what == kPointerMemoryType) return answer(gpu ? 2u : 1u);
  if (what == kPointerLegacyIpc) {
    return answer(gpu && !found->second.piece && found->second.pool == nullptr ? 1u : 0u);
  }
  if (what == kPointerPool) return answer(gpu ? found->second.pool : nullptr);
  if (!gpu) return mistake(kInvalidValue);
  const Allocation& allocation = found->second;
  if (what == kContext) {
    return answer(allocation.piece ? ContextHandle{} : context_of(allocation.device));
  }
  if (what == kPointerHandleTypes) return answer(static_cast<unsigned>(allocation.handle_types));
  if (what == kPointerBufferId) return answer(allocation.id);
  if (what == kPointerManaged) return answer(0u);
  if (what == kPointerDevice) return answer(allocation.device - state.visible_from);
  return mistake(kInvalidValue);
}

Result cuPointerSetAttribute(const void* value, int what, DeviceAddress address) {
  FAKE_ENTER_CONTEXT("cuPointerSetAttribute");
  const auto found = around(address);
  if (what != kPointerSyncMemoryOperations || found == allocations.end() ||
      *static_cast<const unsigned*>(value) != 1) {
    return mistake(kInvalidValue);
  }
  if (found->second.piece) return kInvalidValue;
  found->second.synchronous = true;
  ++state.synchronous;
  return kSuccess;
}

Result cuDeviceGetAttribute(int* value, int what, DeviceHandle) {
  *value = what == kDmaBufSupported ? state.dma_buf : 1;
  if (what == kVirtualMemory || what == kPosixDescriptors) *value = state.virtual_memory;
  if (what == kWritesOrdering) *value = state.writes_ordering;
  if (what == kUsesHostPageTables) *value = state.host_page_tables;
  return refusal("cuDeviceGetAttribute");
}
}  // extern "C"
