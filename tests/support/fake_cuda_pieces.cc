// SPDX-License-Identifier: Apache-2.0
//
// Memory of the fake that is made and mapped apart, and dma-bufs of all kinds. A piece is a memfd
// whose name tells its GPU; its descriptor is another one of the same file, a fabric handle tells
// where to find it in /proc.
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <string>
#include <utility>

#include "tests/support/fake_cuda_state.h"

using namespace fake_cuda_detail;

namespace {

constexpr size_t kGranularity = 2u << 20;

struct Piece {
  int fd;
  size_t bytes;
  int device;
  int handle_types;
  bool foreign = false;  // imported
};

/// Addresses without memory; what was taken to have them aligned.
struct Reservation {
  size_t bytes;
  void* taken;
  size_t taken_bytes;
};

struct Fabric {
  int64_t pid;
  int64_t fd;
};
static_assert(sizeof(Fabric) <= sizeof(FabricHandle));

std::map<MemoryHandle, Piece> pieces;  // a handle is a small number, no address
std::map<DeviceAddress, Reservation> reservations;

MemoryHandle keep(const Piece& piece) {
  const MemoryHandle handle = next_id();
  pieces[handle] = piece;
  ++state.live;
  return handle;
}

// "/memfd:fake-gpu-1 (deleted)"
int device_of(int fd) {
  char name[64] = {};
  const std::string path = "/proc/self/fd/" + std::to_string(fd);
  if (::readlink(path.c_str(), name, sizeof(name) - 1) < 0) return -1;
  const char* const number = std::strstr(name, "fake-gpu-");
  return number == nullptr ? -1 : std::atoi(number + std::strlen("fake-gpu-"));
}

Result import_file(MemoryHandle* memory, int fd, int handle_types) {
  struct stat file {};
  const int device = fd < 0 ? -1 : device_of(fd);
  if (device < 0 || ::fstat(fd, &file) != 0) return kInvalidValue;
  *memory = keep({copy_of(fd), static_cast<size_t>(file.st_size), device, handle_types, true});
  return kSuccess;
}

}  // namespace

extern "C" {

Result cuMemGetAllocationGranularity(size_t* bytes, const MemoryProperties*, int) {
  *bytes = kGranularity;
  return refusal("cuMemGetAllocationGranularity");
}

Result cuMemCreate(MemoryHandle* memory, size_t bytes, const MemoryProperties* of,
                   unsigned long long) {
  FAKE_ENTER("cuMemCreate");
  if (bytes == 0 || bytes % kGranularity != 0 || of->type != kPinnedAllocation ||
      of->location.type != kOnDevice) {
    return mistake(kInvalidValue);
  }
  if ((of->handle_types & kFabric) != 0 && !state.fabric) return kNotPermitted;
  if (bytes > state.memory) return kOutOfMemory;
  const std::string name = "fake-gpu-" + std::to_string(of->location.id);
  const int fd = ::memfd_create(name.c_str(), MFD_CLOEXEC);
  if (fd < 0 || ::ftruncate(fd, static_cast<off_t>(bytes)) != 0) return kOutOfMemory;
  const std::string dirt(kGranularity, '\xa5');  // a GPU's memory is not zero either
  for (size_t at = 0; at < bytes; at += dirt.size()) {
    if (::pwrite(fd, dirt.data(), dirt.size(), static_cast<off_t>(at)) < 0) return kOutOfMemory;
  }
  *memory = keep({fd, bytes, of->location.id, of->handle_types});
  return kSuccess;
}

Result cuMemRelease(MemoryHandle memory) {
  FAKE_ENTER("cuMemRelease");
  const auto found = pieces.find(memory);
  if (found == pieces.end()) return kSuccess;  // of cuMemAlloc's memory: below
  ::close(found->second.fd);
  pieces.erase(found);
  --state.live;
  return kSuccess;
}

Result cuMemAddressReserve(DeviceAddress* begin, size_t bytes, size_t alignment, DeviceAddress,
                           unsigned long long) {
  FAKE_ENTER_CONTEXT("cuMemAddressReserve");
  if (bytes == 0 || bytes % kGranularity != 0) return mistake(kInvalidValue);
  const size_t span = bytes + alignment;
  void* const taken =
      ::mmap(nullptr, span, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (taken == MAP_FAILED) return kOutOfMemory;
  *begin = (reinterpret_cast<DeviceAddress>(taken) + alignment - 1) / alignment * alignment;
  reservations[*begin] = {bytes, taken, span};
  ++state.live;
  return kSuccess;
}

Result cuMemAddressFree(DeviceAddress begin, size_t bytes) {
  FAKE_ENTER_CONTEXT("cuMemAddressFree");
  const auto found = reservations.find(begin);
  const auto used = allocations.lower_bound(begin);
  if (found == reservations.end() || found->second.bytes != bytes ||
      (used != allocations.end() && used->first < begin + bytes)) {
    return mistake(kInvalidValue);
  }
  ::munmap(found->second.taken, found->second.taken_bytes);
  reservations.erase(found);
  --state.live;
  return kSuccess;
}

Result cuMemMap(DeviceAddress at, size_t bytes, size_t offset, MemoryHandle memory,
                unsigned long long) {
  FAKE_ENTER_CONTEXT("cuMemMap");
  const auto piece = pieces.find(memory);
  auto room = reservations.upper_bound(at);
  if (piece == pieces.end() || room == reservations.begin() || offset != 0) {
    return mistake(kInvalidValue);
  }
  --room;
  const bool inside = at - room->first + bytes <= room->second.bytes;
  if (!inside || bytes > piece->second.bytes || around(at) != allocations.end()) {
    return mistake(kInvalidValue);
  }
  if (::mmap(pointer<void>(at), bytes, PROT_NONE, MAP_SHARED | MAP_FIXED, piece->second.fd, 0) ==
      MAP_FAILED) {
    return kOutOfMemory;
  }
  allocations[at] = {.bytes = bytes,
                     .fd = copy_of(piece->second.fd),
                     .device = piece->second.device,
                     .id = next_id(),
                     .piece = true,
                     .handle_types = piece->second.handle_types,
                     .foreign = piece->second.foreign};
  if (piece->second.foreign) ++state.mappings;
  ++state.live;
  return kSuccess;
}

Result cuMemUnmap(DeviceAddress at, size_t bytes) {
  FAKE_ENTER_CONTEXT("cuMemUnmap");
  const auto found = allocations.find(at);
  if (found == allocations.end() || !found->second.piece || found->second.bytes != bytes) {
    return mistake(kInvalidValue);
  }
  ::mmap(pointer<void>(at), bytes, PROT_NONE,
         MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED | MAP_NORESERVE, -1, 0);
  ::close(found->second.fd);
  if (found->second.foreign) --state.mappings;
  allocations.erase(found);
  --state.live;
  return kSuccess;
}

Result cuMemSetAccess(DeviceAddress at, size_t bytes, const MemoryAccess* access, size_t count) {
  FAKE_ENTER_CONTEXT("cuMemSetAccess");
  if (count != 1 || access->flags != kReadWrite || access->location.type != kOnDevice) {
    return mistake(kInvalidValue);
  }
  const DeviceAddress end = at + bytes;
  while (at < end) {
    const auto found = allocations.find(at);
    if (found == allocations.end() || !found->second.piece) return mistake(kInvalidValue);
    if (found->second.device != access->location.id && !state.peer_access) {
      return kPeerAccessUnsupported;
    }
    if (::mprotect(pointer<void>(at), found->second.bytes, PROT_READ | PROT_WRITE) != 0) {
      return kInvalidValue;
    }
    found->second.allowed.insert(access->location.id);
    at += found->second.bytes;
  }
  return kSuccess;
}

// The software NIC's engine here opens descriptors only: it gets one of cuMemAlloc's memory too, by
// the allocation's address as a handle, which a driver does not do.
Result cuMemRetainAllocationHandle(MemoryHandle* memory, void* address) {
  FAKE_ENTER("cuMemRetainAllocationHandle");
  const auto found = around(reinterpret_cast<DeviceAddress>(address));
  if (found == allocations.end() || found->second.pool != nullptr) return kInvalidValue;
  const auto& [base, allocation] = *found;
  *memory = allocation.piece ? keep({copy_of(allocation.fd), allocation.bytes, allocation.device,
                                     allocation.handle_types})
                             : base;
  return kSuccess;
}

Result cuMemExportToShareableHandle(void* handle, MemoryHandle memory, int type,
                                    unsigned long long) {
  FAKE_ENTER("cuMemExportToShareableHandle");
  const auto piece = pieces.find(memory);
  if (piece != pieces.end() && (piece->second.handle_types & type) == 0) return kInvalidValue;
  const int fd = piece == pieces.end() ? allocations.at(memory).fd : piece->second.fd;
  if (type == kPosixDescriptor) {
    const int copy = copy_of(fd);
    std::memcpy(handle, &copy, sizeof(copy));
    return copy < 0 ? kInvalidValue : kSuccess;
  }
  // A mapping has it, which lives on when the handle is released.
  for (const auto& [base, allocation] : allocations) {
    if (inode_of(fd) == 0 || inode_of(allocation.fd) != inode_of(fd)) continue;
    const Fabric fabric{::getpid(), allocation.fd};
    std::memcpy(handle, &fabric, sizeof(fabric));
    return kSuccess;
  }
  return mistake(kInvalidValue);
}

Result cuMemImportFromShareableHandle(MemoryHandle* memory, void* handle, int type) {
  FAKE_ENTER_CONTEXT("cuMemImportFromShareableHandle");
  if (type == kPosixDescriptor) {
    return import_file(memory, static_cast<int>(reinterpret_cast<intptr_t>(handle)), type);
  }
  if (type != kFabric || !state.fabric) return kNotPermitted;
  Fabric fabric;
  std::memcpy(&fabric, handle, sizeof(fabric));
  const std::string path =
      "/proc/" + std::to_string(fabric.pid) + "/fd/" + std::to_string(fabric.fd);
  const int fd = ::open(path.c_str(), O_RDWR | O_CLOEXEC);
  const Result result = import_file(memory, fd, type);
  if (fd >= 0) ::close(fd);
  return result;
}

// A dma-buf is another descriptor of the memfd: none of its users looks into it.
Result cuMemGetHandleForAddressRange(void* handle, DeviceAddress address, size_t bytes, int kind,
                                     unsigned long long flags) {
  FAKE_ENTER_CONTEXT("cuMemGetHandleForAddressRange");
  const auto page = static_cast<DeviceAddress>(::sysconf(_SC_PAGESIZE));
  const auto after = allocations.upper_bound(address);
  if (kind != kRangeHandleDmaBuf || flags != 0 || address % page != 0 || bytes % page != 0 ||
      after == allocations.begin()) {
    return mistake(kInvalidValue);
  }
  const auto& [base, allocation] = *std::prev(after);
  if (address - base + bytes > (allocation.bytes + page - 1) / page * page) return kInvalidValue;
  const int fd = copy_of(allocation.fd);
  std::memcpy(handle, &fd, sizeof(fd));
  if (calls_may_lag(allocation)) ++state.lagging;
  ++state.exported;
  return fd < 0 ? kInvalidValue : kSuccess;
}

// Copies whose callers say which side is the GPU's. (fake_cuda.cc)
Result cuMemcpyAsync(DeviceAddress to, DeviceAddress from, size_t bytes, StreamHandle which);
Result cuMemcpyHtoDAsync_v2(DeviceAddress to, const void* from, size_t bytes, StreamHandle which) {
  if (around(to) == allocations.end()) return mistake(kInvalidValue);
  return cuMemcpyAsync(to, reinterpret_cast<DeviceAddress>(from), bytes, which);
}
Result cuMemcpyDtoHAsync_v2(void* to, DeviceAddress from, size_t bytes, StreamHandle which) {
  if (around(from) == allocations.end()) return mistake(kInvalidValue);
  return cuMemcpyAsync(reinterpret_cast<DeviceAddress>(to), from, bytes, which);
}
Result cuMemcpyDtoDAsync_v2(DeviceAddress to, DeviceAddress from, size_t bytes,
                            StreamHandle which) {
  return cuMemcpyAsync(to, from, bytes, which);
}
Result cuThreadExchangeStreamCaptureMode(int* mode) {
  thread_local int now = 0;  // CU_STREAM_CAPTURE_MODE_GLOBAL
  std::swap(*mode, now);
  return kSuccess;
}

}  // extern "C"
