// SPDX-License-Identifier: Apache-2.0
//
// Tables and queues are of cuMemAlloc: no other process maps them. Heaps are pieces (cuMemCreate)
// where the driver can: a descriptor opens in processes that do not see the GPU or are in another
// container, which an IPC handle does not.
#include "host/memory/backing_cuda.h"

#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <iterator>
#include <utility>
#include <vector>

#include "host/base/config.h"
#include "host/base/error.h"
#include "host/memory/pieces.h"

namespace peal {
namespace {

const Gpu& gpu_of(const Backing::Block& block) { return *static_cast<Gpu*>(block.keeper.get()); }

// cuMemAlloc promises 256 bytes; the first kAlignment bytes of an allocation are there to move in.
std::byte* align_up(cuda::DeviceAddress address) {
  const cuda::DeviceAddress aligned =
      (address + Backing::kAlignment - 1) / Backing::kAlignment * Backing::kAlignment;
  return reinterpret_cast<std::byte*>(aligned);
}

void release_cuda(const Backing::Block& block) noexcept {
  gpu_of(block).release([&](const cuda::Driver& driver) {
    cuda::DeviceAddress base = 0;
    size_t bytes = 0;
    if (driver.address_range(&base, &bytes, device_address(block.address)) == cuda::kSuccess) {
      driver.release(base);
    }
  });
}

void zero_cuda(const Backing::Block& block, std::byte* address, size_t bytes) {
  gpu_of(block).zero(address, bytes);
}

void copy_cuda(const Backing::Block& block, std::span<const Copy> copies) {
  gpu_of(block).copy(copies);
}

constexpr Backing::Operations kCudaOperations{release_cuda, zero_cuda, copy_cuda};

// What has a keeper that ends all of it: a HeldPiece, HeldPages.
void release_nothing(const Backing::Block&) noexcept {}

constexpr Backing::Operations kPieceOperations{release_nothing, zero_cuda, copy_cuda};
constexpr Backing::Operations kPageOperations{.release = release_nothing};

struct HeldPiece {
  std::shared_ptr<Gpu> gpu;
  GpuMapping mapping;
};

struct HeldPages {
  Backing pages;
  PinnedRange pinned;
};

size_t rounded_up(size_t bytes, size_t to) { return (bytes + to - 1) / to * to; }

[[noreturn]] void refuse_memory(const Gpu& gpu, size_t bytes, const std::string& name) {
  size_t available = 0;
  size_t total = 0;
  gpu.within([&](const cuda::Driver& driver) { return driver.memory_info(&available, &total); });
  fail(ErrorCode::kOutOfMemory,
       "no {} bytes ({}) of memory for {} on GPU {} ({}): {} of its {} bytes are free; ask for "
       "less (PEAL_HEAP_SIZE) or start fewer PEs on it (PEAL_DEVICE)",
       bytes, format_size(bytes), name, gpu.index(), gpu.name(), available, total);
}

void release_pinned(const Backing::Block& block) noexcept {
  gpu_of(block).release([&](const cuda::Driver& driver) { driver.release_host(block.address); });
}

constexpr Backing::Operations kPinnedOperations{.release = release_pinned};

// What to do when the driver refuses to map another device's registers.
const char* remedy_for_registers(cuda::Result result) {
  switch (result) {
    case cuda::kNotPermitted:
      return "the driver maps another device's registers for root, and for others with its option "
             "PeerMappingOverride: a line \"options nvidia "
             "NVreg_RegistryDwords=\"PeerMappingOverride=1;\"\" in /etc/modprobe.d/peal.conf, "
             "then update-initramfs -u (dracut -f) and a reboot (of the host, if this is a "
             "container)";
    case cuda::kNotSupported:
      return "this GPU or this system cannot map another device's registers: a virtual machine "
             "that "
             "does not pass both through, or a driver before 510.40.3";
    default:
      return "tools/doctor looks at what this takes";
  }
}

PinnedRange pin_as(std::shared_ptr<Gpu> gpu, std::byte* address, size_t bytes, unsigned kind) {
  const unsigned flags = cuda::kHostPortable | cuda::kHostDeviceMap | kind;
  const cuda::Result result = gpu->within(
      [&](const cuda::Driver& driver) { return driver.register_host(address, bytes, flags); });
  const auto call = [&] {
    return fmt::format("cuMemHostRegister({} bytes at {})", bytes, fmt::ptr(address));
  };
  if (result != cuda::kSuccess && kind == cuda::kHostIoMemory) {
    fail(ErrorCode::kUnsupported, "{} of registers on GPU {} ({}): {}; {}", call(), gpu->index(),
         gpu->name(), gpu->driver().text(result), remedy_for_registers(result));
  }
  gpu->check(result, call());
  return {address, [gpu = std::move(gpu)](std::byte* begin) {
            gpu->release([&](const cuda::Driver& driver) { driver.unregister_host(begin); });
          }};
}

}  // namespace

Backing make_cuda_backing(std::shared_ptr<Gpu> gpu, size_t bytes, const std::string& name) {
  if (bytes == 0) fail(ErrorCode::kInvalidArgument, "GPU memory for {}: 0 bytes asked", name);
  const size_t rounded = rounded_up(bytes, Backing::kAlignment);
  cuda::DeviceAddress base = 0;
  const cuda::Result result = gpu->within([&](const cuda::Driver& driver) {
    return driver.allocate(&base, rounded + Backing::kAlignment);
  });
  if (result == cuda::kOutOfMemory) refuse_memory(*gpu, bytes, name);
  gpu->check(result, fmt::format("cuMemAlloc({} bytes) for {}", bytes, name));
  const Gpu& kept = *gpu;
  auto view = kept.view_of(align_up(base), rounded);
  Backing memory({align_up(base), rounded, -1, false, std::move(gpu), std::move(view)},
                 kCudaOperations);
  kept.zero(memory.address(), rounded);
  return memory;
}

Backing make_piece_backing(std::shared_ptr<Gpu> gpu, size_t bytes, const std::string& name) {
  if (bytes == 0) fail(ErrorCode::kInvalidArgument, "GPU memory for {}: 0 bytes asked", name);
  const size_t rounded = rounded_up(bytes, std::max(Backing::kAlignment, granularity(*gpu)));
  Pieces pieces(*gpu);
  cuda::Result result = cuda::kNotSupported;
  if (gpu->attribute(cuda::kFabricHandles) != 0) {
    result = pieces.create(rounded, cuda::kPosixDescriptor | cuda::kFabric);
  }
  // Where no daemon (nvidia-imex) gives out fabric handles the driver refuses memory that asks for
  // them, whatever its attribute says.
  if (result != cuda::kSuccess && result != cuda::kOutOfMemory) {
    result = pieces.create(rounded, cuda::kPosixDescriptor);
  }
  if (result == cuda::kOutOfMemory) refuse_memory(*gpu, bytes, name);
  if (result == cuda::kNotSupported || result == cuda::kNotPermitted) {
    return make_cuda_backing(gpu, bytes, name);
  }
  gpu->check(result, fmt::format("cuMemCreate({} bytes) for {}", rounded, name));
  auto held = std::make_shared<HeldPiece>(gpu, pieces.map(gpu, Backing::kAlignment));
  gpu->zero(held->mapping.get(), rounded);
  std::byte* const address = held->mapping.get();
  auto view = gpu->view_of(address, rounded);
  // The keeper keeps all of it; what the operations see is the GPU.
  return Backing(
      {address, rounded, -1, false, std::shared_ptr<void>(held, gpu.get()), std::move(view)},
      kPieceOperations);
}

Backing make_pinned_backing(std::shared_ptr<Gpu> gpu, size_t bytes, const std::string& name) {
  if (bytes == 0) fail(ErrorCode::kInvalidArgument, "pinned memory for {}: 0 bytes asked", name);
  void* address = nullptr;
  // Under unified addressing, which all 64-bit systems have, kernels use the host's address.
  gpu->call(fmt::format("cuMemHostAlloc({} bytes) for {}", bytes, name),
            &cuda::Driver::allocate_host, &address, bytes,
            cuda::kHostPortable | cuda::kHostDeviceMap);
  std::memset(address, 0, bytes);
  return Backing({static_cast<std::byte*>(address), bytes, -1, true, std::move(gpu)},
                 kPinnedOperations);
}

Backing make_registered_backing(std::shared_ptr<Gpu> gpu, size_t bytes, const std::string& name) {
  Backing pages = make_host_backing(bytes, name);
  PinnedRange pinned = pin(std::move(gpu), pages.address(), pages.bytes());
  const Backing::Block block{.address = pages.address(), .bytes = pages.bytes(), .fd = pages.fd()};
  auto held = std::make_shared<HeldPages>(std::move(pages), std::move(pinned));
  return Backing({block.address, block.bytes, block.fd, true, std::move(held)}, kPageOperations);
}

PinnedRange pin(std::shared_ptr<Gpu> gpu, std::byte* address, size_t bytes) {
  return pin_as(std::move(gpu), address, bytes, 0);
}

PinnedRange pin_registers(std::shared_ptr<Gpu> gpu, std::byte* address, size_t bytes) {
  return pin_as(std::move(gpu), address, bytes, cuda::kHostIoMemory);
}

std::shared_ptr<void> PinnedPages::hold(std::byte* address, size_t bytes) {
  const auto page = static_cast<uintptr_t>(::sysconf(_SC_PAGESIZE));
  const auto first = reinterpret_cast<uintptr_t>(address);
  const uintptr_t end = (first + bytes + page - 1) / page * page;
  std::erase_if(parts_, [](const auto& part) { return part.second.range.expired(); });
  auto held = std::make_shared<std::vector<std::shared_ptr<PinnedRange>>>();
  uintptr_t at = first / page * page;
  auto next = parts_.upper_bound(at);
  if (next != parts_.begin() && std::prev(next)->second.end > at) --next;
  while (at < end) {
    if (next != parts_.end() && next->first <= at) {
      held->push_back(next->second.range.lock());
      at = next->second.end;
      ++next;
      continue;
    }
    const uintptr_t until = next == parts_.end() ? end : std::min(end, next->first);
    // Its owner may have pinned from there on, and not from where the page begins.
    if (!gpu_->knows(reinterpret_cast<std::byte*>(std::max(at, first)))) {
      auto* const begin = reinterpret_cast<std::byte*>(at);
      auto range = std::make_shared<PinnedRange>(pin(gpu_, begin, until - at));
      parts_.insert(next, {at, {until, range}});
      held->push_back(std::move(range));
    }
    at = until;
  }
  return held;
}

}  // namespace peal
