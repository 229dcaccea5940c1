// SPDX-License-Identifier: Apache-2.0
//
// The fake's pools of memory. A pool is a range of addresses, with a memfd whose name tells its GPU
// as its descriptor; allocations lie in it side by side, each a memfd.
//
// What is imported can be touched only after access was set, but by the GPU that it is on. A second
// import of an allocation answers the same addresses, which the first free ends: as drivers do.
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <set>
#include <string>

#include "tests/support/fake_cuda_state.h"

using namespace fake_cuda_detail;

namespace {

constexpr size_t kRoom = size_t{256} << 20;

struct FakePool {
  int device;
  int handle_types;
  int fd;
  bool imported = false;
  bool exported = false;
  DeviceAddress begin = 0;  // of an own one: where its room is
  size_t used = 0;
  std::set<int> access = {};  // GPUs beside its own
};

/// CUmemPoolProps.
struct PoolProperties {
  int type;
  int handle_types;
  MemoryLocation location;
  void* security;
  size_t most_bytes;
  unsigned short usage;
  unsigned char reserved[54];
};
static_assert(sizeof(PoolProperties) == 88);

struct Exported {
  int64_t pid;
  int64_t fd;
  uint64_t bytes;
  uint64_t pool;
};
static_assert(sizeof(Exported) <= sizeof(PoolPointer));

std::map<PoolHandle, FakePool> pools;  // a handle is a small number, no address
std::map<int, PoolHandle> default_pools;

PoolHandle keep(const FakePool& pool) {
  const auto handle = reinterpret_cast<PoolHandle>(next_id());
  pools[handle] = pool;
  return handle;
}

FakePool make_pool(int device, int handle_types) {
  const int fd = ::memfd_create(("fake-pool-" + std::to_string(device)).c_str(), MFD_CLOEXEC);
  void* const room =
      ::mmap(nullptr, kRoom, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  return {.device = device,
          .handle_types = handle_types,
          .fd = fd,
          .begin = reinterpret_cast<DeviceAddress>(room)};
}

int protection(const FakePool& pool) {
  const bool open = current_device() == pool.device || pool.access.count(current_device()) != 0;
  return open ? PROT_READ | PROT_WRITE : PROT_NONE;
}

Allocations::iterator imported_as(uint64_t inode) {
  for (auto at = allocations.begin(); at != allocations.end(); ++at) {
    if (at->second.foreign && at->second.pool != nullptr && inode_of(at->second.fd) == inode) {
      return at;
    }
  }
  return allocations.end();
}

}  // namespace

void fake_cuda_detail::free_of_pool(Allocations::iterator found) {
  const auto [address, allocation] = *found;
  ::mmap(pointer<void>(address), allocation.bytes, PROT_NONE,
         MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED | MAP_NORESERVE, -1, 0);
  if (allocation.foreign) ::munmap(pointer<void>(address), allocation.bytes);
  ::close(allocation.fd);
  if (allocation.foreign) --state.mappings;
  allocations.erase(found);
  --state.live;
}

extern "C" {

Result cuMemPoolCreate(PoolHandle* pool, const PoolProperties* of) {
  FAKE_ENTER("cuMemPoolCreate");
  if (of->type != kPinnedAllocation || of->location.type != kOnDevice) {
    return mistake(kInvalidValue);
  }
  *pool = keep(make_pool(of->location.id, of->handle_types));
  ++state.live;
  return kSuccess;
}

Result cuDeviceGetDefaultMemPool(PoolHandle* pool, DeviceHandle device) {
  FAKE_ENTER("cuDeviceGetDefaultMemPool");
  PoolHandle& found = default_pools[device];
  if (found == nullptr) found = keep(make_pool(device, 0));
  *pool = found;
  return kSuccess;
}

Result cuMemAllocFromPoolAsync(DeviceAddress* address, size_t bytes, PoolHandle handle,
                               StreamHandle) {
  FAKE_ENTER_CONTEXT("cuMemAllocFromPoolAsync");
  const auto found = pools.find(handle);
  if (found == pools.end() || found->second.imported) return mistake(kInvalidValue);
  FakePool& pool = found->second;
  const size_t room = (bytes + 4095) / 4096 * 4096;
  const int fd = ::memfd_create("fake-gpu", MFD_CLOEXEC);
  if (pool.used + room > kRoom || fd < 0 || ::ftruncate(fd, static_cast<off_t>(room)) != 0) {
    return kOutOfMemory;
  }
  *address = pool.begin + pool.used;
  pool.used += room;
  if (::mmap(pointer<void>(*address), room, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd,
             0) == MAP_FAILED) {
    return kOutOfMemory;
  }
  std::memset(pointer<void>(*address), 0xa5, room);
  allocations[*address] = {.bytes = bytes,
                           .fd = fd,
                           .device = pool.device,
                           .id = next_id(),
                           .handle_types = pool.handle_types,
                           .pool = handle};
  ++state.live;
  return kSuccess;
}

Result cuMemPoolDestroy(PoolHandle handle) {
  FAKE_ENTER("cuMemPoolDestroy");
  const auto found = pools.find(handle);
  if (found == pools.end()) return mistake(kInvalidValue);
  for (const auto& [device, of_device] : default_pools) {
    if (of_device == handle) return mistake(kInvalidValue);
  }
  for (const auto& [base, allocation] : allocations) {
    if (allocation.pool == handle) return mistake(kInvalidValue);
  }
  if (!found->second.imported) ::munmap(pointer<void>(found->second.begin), kRoom);
  ::close(found->second.fd);
  pools.erase(found);
  --state.live;
  return kSuccess;
}

Result cuMemPoolSetAccess(PoolHandle handle, const MemoryAccess* access, size_t count) {
  FAKE_ENTER("cuMemPoolSetAccess");
  const auto found = pools.find(handle);
  if (found == pools.end() || count != 1 || access->flags != kReadWrite ||
      access->location.type != kOnDevice) {
    return mistake(kInvalidValue);
  }
  if (found->second.device != access->location.id && !state.peer_access) return kInvalidValue;
  found->second.access.insert(access->location.id);
  ++state.pool_accesses;
  for (const auto& [base, allocation] : allocations) {
    if (allocation.pool != handle) continue;
    ::mprotect(pointer<void>(base), allocation.bytes, PROT_READ | PROT_WRITE);
  }
  return kSuccess;
}

Result cuMemPoolExportToShareableHandle(void* handle, PoolHandle of, int type,
                                        unsigned long long flags) {
  FAKE_ENTER("cuMemPoolExportToShareableHandle");
  const auto found = pools.find(of);
  if (found == pools.end() || flags != 0) return mistake(kInvalidValue);
  FakePool& pool = found->second;
  if (type != kPosixDescriptor || (pool.handle_types & type) == 0) return mistake(kInvalidValue);
  pool.exported = true;
  const int copy = copy_of(pool.fd);
  std::memcpy(handle, &copy, sizeof(copy));
  return copy < 0 ? kInvalidValue : kSuccess;
}

Result cuMemPoolImportFromShareableHandle(PoolHandle* pool, void* handle, int type,
                                          unsigned long long flags) {
  FAKE_ENTER_CONTEXT("cuMemPoolImportFromShareableHandle");
  const int fd = static_cast<int>(reinterpret_cast<intptr_t>(handle));
  char name[64] = {};
  const std::string path = "/proc/self/fd/" + std::to_string(fd);
  const bool named = ::readlink(path.c_str(), name, sizeof(name) - 1) > 0;
  const char* const number = named ? std::strstr(name, "fake-pool-") : nullptr;
  if (type != kPosixDescriptor || flags != 0 || number == nullptr) return mistake(kInvalidValue);
  *pool = keep({.device = std::atoi(number + std::strlen("fake-pool-")),
                .handle_types = 0,
                .fd = copy_of(fd),
                .imported = true});
  ++state.live;
  return kSuccess;
}

// The address is the first byte of an allocation: so much is documented.
Result cuMemPoolExportPointer(PoolPointer* exported, DeviceAddress address) {
  FAKE_ENTER("cuMemPoolExportPointer");
  const auto found = allocations.find(address);
  if (found == allocations.end() || found->second.pool == nullptr || found->second.foreign) {
    return mistake(kInvalidValue);
  }
  const FakePool& pool = pools.at(found->second.pool);
  if (!pool.exported) return mistake(kInvalidValue);
  const Exported of{::getpid(), found->second.fd, found->second.bytes, inode_of(pool.fd)};
  *exported = {};
  std::memcpy(exported, &of, sizeof(of));
  return kSuccess;
}

Result cuMemPoolImportPointer(DeviceAddress* address, PoolHandle handle, PoolPointer* exported) {
  FAKE_ENTER_CONTEXT("cuMemPoolImportPointer");
  Exported of;
  std::memcpy(&of, exported, sizeof(of));
  const auto pool = pools.find(handle);
  if (pool == pools.end() || !pool->second.imported || inode_of(pool->second.fd) != of.pool) {
    return mistake(kInvalidValue);
  }
  const std::string path = "/proc/" + std::to_string(of.pid) + "/fd/" + std::to_string(of.fd);
  const int fd = ::open(path.c_str(), O_RDWR | O_CLOEXEC);
  if (fd < 0) return kInvalidValue;
  if (const auto twice = imported_as(inode_of(fd)); twice != allocations.end()) {
    ::close(fd);
    *address = twice->first;
    return kSuccess;
  }
  void* const begin = ::mmap(nullptr, of.bytes, protection(pool->second), MAP_SHARED, fd, 0);
  if (begin == MAP_FAILED) return kOutOfMemory;
  *address = reinterpret_cast<DeviceAddress>(begin);
  allocations[*address] = {.bytes = of.bytes,
                           .fd = fd,
                           .device = pool->second.device,
                           .id = next_id(),
                           .foreign = true,
                           .pool = handle};
  ++state.mappings;
  ++state.live;
  return kSuccess;
}

}  // extern "C"
