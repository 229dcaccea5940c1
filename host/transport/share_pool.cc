// SPDX-License-Identifier: Apache-2.0
//
// Memory of pools (cudaMallocAsync) between processes: the pool by its descriptor, and the one
// allocation in it by the 64 bytes that the driver makes of its address.
//
//   owner   descriptor of the pool ---\                       /-> freed, then the pool destroyed
//           bytes of the allocation ---> import, allow access
//
// An allocation is imported once in a process, however many windows are of it. A second import
// answers the same addresses, and the first cuMemFree then ends both (seen by cuda-python, driver
// bug 5570902).
#include <fmt/format.h>

#include <compare>
#include <map>
#include <mutex>
#include <utility>

#include "host/base/error.h"
#include "host/transport/share.h"

namespace peal {
namespace {

/// Which allocation of which process.
struct Exported {
  uint64_t pid_namespace;
  int64_t pid;
  uint64_t base;
  std::string pointer;
  auto operator<=>(const Exported&) const = default;
};

/// A pool of another process, and one allocation of it.
class Import {
 public:
  // The descriptor itself stands where a pointer is asked for.
  Import(std::shared_ptr<Gpu> gpu, const Fd& descriptor) : gpu_(std::move(gpu)) {
    gpu_->check(gpu_->within([&](const cuda::Driver& driver) {
      return driver.import_pool(&pool_,
                                reinterpret_cast<void*>(static_cast<intptr_t>(descriptor.get())),
                                cuda::kPosixDescriptor, 0);
    }),
                "cuMemPoolImportFromShareableHandle(descriptor)");
  }
  ~Import() {
    gpu_->release([this](const cuda::Driver& driver) {
      if (address_ != 0) driver.release(address_);
      driver.destroy_pool(pool_);
    });
  }
  Import(const Import&) = delete;
  Import& operator=(const Import&) = delete;

  void open(cuda::PoolPointer pointer) {
    gpu_->check(gpu_->within([&](const cuda::Driver& driver) {
      return driver.import_pointer(&address_, pool_, &pointer);
    }),
                "cuMemPoolImportPointer");
  }

  cuda::PoolHandle pool() const { return pool_; }
  cuda::DeviceAddress address() const { return address_; }

 private:
  std::shared_ptr<Gpu> gpu_;
  cuda::PoolHandle pool_ = nullptr;
  cuda::DeviceAddress address_ = 0;
};

/// All of this process.
struct Imports {
  std::mutex mutex;  // also of ends: an import during the last free of the same would go with it
  std::map<Exported, std::shared_ptr<Import>> held;
};

// Global as the driver's own record of imports is. Windows may outlive it: they hold it, too.
std::shared_ptr<Imports> imports() {
  static const auto all = std::make_shared<Imports>();
  return all;
}

}  // namespace

cuda::PoolHandle pool_behind(const Gpu& gpu, uint64_t address) {
  cuda::PoolHandle pool = nullptr;
  const cuda::Result result = gpu.within([&](const cuda::Driver& driver) {
    return driver.pointer_attribute(&pool, cuda::kPointerPool, address);
  });
  return result == cuda::kSuccess ? pool : nullptr;
}

void allow_pool(const Gpu& gpu, cuda::PoolHandle pool) {
  if (!gpu.driver().pools) {
    throw Error(ErrorCode::kUnsupported,
                "the CUDA driver has no cuMemPoolSetAccess: it is older than 11.2; update it, or "
                "use cudaMalloc");
  }
  const cuda::MemoryAccess access{{cuda::kOnDevice, gpu.device()}, cuda::kReadWrite};
  gpu.check(gpu.within([&](const cuda::Driver& driver) {
    return driver.set_pool_access(pool, &access, 1);
  }),
            "cuMemPoolSetAccess(read and write)");
}

void offer_pool(GpuOffer& mine, const Gpu& gpu, cuda::PoolHandle pool) {
  PartDescriptor& offer = mine.offer;
  if (!gpu.driver().pools) {
    return say(offer,
               "memory of a pool (cudaMallocAsync), which a CUDA driver older than 11.2 cannot "
               "share; update it, or use cudaMalloc");
  }
  cuda::DeviceAddress base = 0;
  size_t size = 0;
  unsigned types = 0;
  gpu.check(gpu.within([&](const cuda::Driver& driver) {
    driver.pointer_attribute(&types, cuda::kPointerHandleTypes, offer.address);
    return driver.address_range(&base, &size, offer.address);
  }),
            fmt::format("cuMemGetAddressRange({:#x})", offer.address));
  if (offer.address + offer.bytes > base + size) {
    return say(offer, "memory of several allocations");
  }
  if ((types & cuda::kPosixDescriptor) == 0) {
    return say(offer,
               "memory of a pool without a descriptor: the default pool of cudaMallocAsync cannot "
               "be shared; make a pool with cudaMemHandleTypePosixFileDescriptor "
               "(cudaMemPoolCreate), or use cudaMalloc");
  }
  int fd = -1;
  gpu.check(gpu.within([&](const cuda::Driver& driver) {
    return driver.export_pool(&fd, pool, cuda::kPosixDescriptor, 0);
  }),
            "cuMemPoolExportToShareableHandle(descriptor)");
  mine.descriptors.push_back(closed_by_exec(fd));
  cuda::PoolPointer pointer{};
  gpu.check(
      gpu.within([&](const cuda::Driver& driver) { return driver.export_pointer(&pointer, base); }),
      fmt::format("cuMemPoolExportPointer({:#x})", base));
  mine.pieces.push_back({size, {}, pointer});
  offer.kind = PartDescriptor::Kind::kPool;
  offer.offset = offer.address - base;
  offer.pieces = 1;
  offer.descriptors = 1;
}

PeerMemory::Mapping map_pool(const std::shared_ptr<Gpu>& gpu, const GpuParcel& parcel,
                             const Place& there) {
  if (!gpu->driver().pools) {
    throw Error(ErrorCode::kUnsupported,
                "the CUDA driver has no cuMemPoolImportPointer: it is older than 11.2; update it, "
                "or use cudaMalloc");
  }
  const PartDescriptor& offer = parcel.offer;
  const cuda::PoolPointer& pointer = parcel.pieces.front().pointer;
  const Exported exported{there.pid_namespace, there.pid, offer.address - offer.offset,
                          std::string(pointer.bytes, sizeof(pointer.bytes))};
  const std::shared_ptr<Imports> all = imports();
  const std::lock_guard lock(all->mutex);
  const auto found = all->held.find(exported);
  const bool known = found != all->held.end();
  std::shared_ptr<Import> import =
      known ? found->second : std::make_shared<Import>(gpu, parcel.descriptors.front());
  // A pool that is imported can be used by the GPU that it is on, and by no other, whatever its
  // owner has allowed.
  if (offer.gpu != gpu->uuid()) allow_pool(*gpu, import->pool());
  if (!known) {
    import->open(pointer);
    all->held.emplace(exported, import);
  }
  auto* const begin = reinterpret_cast<std::byte*>(import->address() + offer.offset);
  return {begin, [all, exported, import = std::move(import)](std::byte*) mutable {
            const std::lock_guard ending(all->mutex);
            import.reset();
            const auto at = all->held.find(exported);
            if (at->second.use_count() == 1) all->held.erase(at);
          }};
}

}  // namespace peal
