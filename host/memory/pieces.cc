// SPDX-License-Identifier: Apache-2.0
//
// Facts of the driver that this relies on, seen on an H100 with driver 580: cuMemGetAddressRange
// answers the one mapping that an address lies in, and cuMemRetainAllocationHandle takes any
// address inside it. cuMemMap maps a handle from its first byte on only.
#include "host/memory/pieces.h"

#include <utility>

#include "host/base/error.h"
#include "host/memory/gpu.h"

namespace peal {
namespace {

cuda::MemoryProperties properties(const Gpu& gpu, int handle_types) {
  cuda::MemoryProperties of{};
  of.type = cuda::kPinnedAllocation;
  of.handle_types = handle_types;
  of.location = {cuda::kOnDevice, gpu.device()};
  of.flags.gpu_direct_rdma = gpu.attribute(cuda::kVirtualMemoryRdma) != 0 ? 1 : 0;
  return of;
}

/// Mapped so far: what is left of it goes when mapping fails in the middle.
class Range {
 public:
  Range(const Gpu& gpu, size_t bytes, size_t alignment) : gpu_(gpu), bytes_(bytes) {
    gpu.call(fmt::format("cuMemAddressReserve({} bytes)", bytes), &cuda::Driver::reserve, &begin_,
             bytes, alignment, 0, 0);
  }
  ~Range() {
    if (begin_ == 0) return;
    gpu_.release([&](const cuda::Driver& driver) {
      cuda::DeviceAddress at = begin_;
      for (const size_t bytes : sizes_) {
        driver.unmap(at, bytes);
        at += bytes;
      }
      driver.free_addresses(begin_, bytes_);
    });
  }
  Range(const Range&) = delete;
  Range& operator=(const Range&) = delete;

  void add(cuda::MemoryHandle memory, size_t bytes) {
    gpu_.call(fmt::format("cuMemMap({} bytes)", bytes), &cuda::Driver::map, begin_ + done_, bytes,
              0, memory, 0);
    sizes_.push_back(bytes);
    done_ += bytes;
  }
  void allow() const {
    const cuda::MemoryAccess access{{cuda::kOnDevice, gpu_.device()}, cuda::kReadWrite};
    gpu_.call(fmt::format("cuMemSetAccess({} bytes)", bytes_), &cuda::Driver::set_access, begin_,
              bytes_, &access, 1);
  }
  std::byte* begin() const { return reinterpret_cast<std::byte*>(begin_); }

 private:
  const Gpu& gpu_;
  size_t bytes_;
  cuda::DeviceAddress begin_ = 0;
  size_t done_ = 0;
  std::vector<size_t> sizes_;
};

}  // namespace

Pieces::Pieces(Pieces&& other) noexcept
    : gpu_(other.gpu_), pieces_(std::exchange(other.pieces_, {})) {}

Pieces::~Pieces() {
  gpu_.release([this](const cuda::Driver& driver) {
    for (const Piece& piece : pieces_) driver.release_handle(piece.memory);
  });
}

Pieces Pieces::behind(const Gpu& gpu, const std::byte* address, size_t bytes, size_t* offset) {
  Pieces found(gpu);
  if (!gpu.driver().virtual_memory) return found;
  const auto add = [&](const cuda::Driver& driver, cuda::DeviceAddress at, cuda::DeviceAddress base,
                       size_t size) {
    cuda::MemoryHandle memory = 0;
    const cuda::Result kept = driver.retain_handle(&memory, reinterpret_cast<void*>(at));
    if (kept != cuda::kSuccess) return false;
    if (found.pieces_.empty()) *offset = at - base;
    found.pieces_.push_back({memory, size});
    return true;
  };
  const bool whole = for_each_allocation(gpu, address, bytes, add);
  if (!whole) return Pieces(gpu);
  return found;
}

cuda::Result Pieces::create(size_t bytes, int handle_types) {
  cuda::MemoryHandle memory = 0;
  const cuda::MemoryProperties of = properties(gpu_, handle_types);
  const cuda::Result result = gpu_.within(
      [&](const cuda::Driver& driver) { return driver.create(&memory, bytes, &of, 0); });
  if (result == cuda::kSuccess) pieces_.push_back({memory, bytes});
  return result;
}

void Pieces::open(void* exported, int type, const char* what, size_t bytes) {
  cuda::MemoryHandle memory = 0;
  gpu_.call(fmt::format("cuMemImportFromShareableHandle({})", what), &cuda::Driver::import_handle,
            &memory, exported, type);
  pieces_.push_back({memory, bytes});
}

// The descriptor itself stands where a pointer is asked for.
void Pieces::open(const Fd& descriptor, size_t bytes) {
  open(reinterpret_cast<void*>(static_cast<intptr_t>(descriptor.get())), cuda::kPosixDescriptor,
       "descriptor", bytes);
}

void Pieces::open(const cuda::FabricHandle& handle, size_t bytes) {
  cuda::FabricHandle copy = handle;
  open(&copy, cuda::kFabric, "fabric handle", bytes);
}

Fd Pieces::descriptor(size_t piece) const {
  int fd = -1;
  gpu_.call("cuMemExportToShareableHandle(descriptor)", &cuda::Driver::export_handle, &fd,
            pieces_[piece].memory, cuda::kPosixDescriptor, 0);
  return closed_by_exec(fd);
}

cuda::FabricHandle Pieces::fabric_handle(size_t piece) const {
  cuda::FabricHandle handle{};
  gpu_.call("cuMemExportToShareableHandle(fabric handle)", &cuda::Driver::export_handle, &handle,
            pieces_[piece].memory, cuda::kFabric, 0);
  return handle;
}

GpuMapping Pieces::map(std::shared_ptr<Gpu> gpu, size_t alignment) const {
  size_t bytes = 0;
  for (const Piece& piece : pieces_) bytes += piece.bytes;
  auto range = std::make_shared<Range>(*gpu, bytes, alignment);
  for (const Piece& piece : pieces_) range->add(piece.memory, piece.bytes);
  range->allow();
  std::byte* const begin = range->begin();
  // The GPU outlives the range that is on it: captures go in the order of their declaration.
  struct Both {
    std::shared_ptr<Gpu> gpu;
    std::shared_ptr<Range> range;
  };
  return {begin, [both = Both{std::move(gpu), std::move(range)}](std::byte*) mutable {
            both.range.reset();
          }};
}

bool has_pieces(const Gpu& gpu) {
  return gpu.driver().virtual_memory && gpu.attribute(cuda::kVirtualMemory) != 0 &&
         gpu.attribute(cuda::kPosixDescriptors) != 0;
}

size_t granularity(const Gpu& gpu) {
  size_t bytes = 0;
  const cuda::MemoryProperties of = properties(gpu, cuda::kPosixDescriptor);
  gpu.call("cuMemGetAllocationGranularity", &cuda::Driver::granularity, &bytes, &of,
           cuda::kGranularityMinimum);
  return bytes;
}

}  // namespace peal
