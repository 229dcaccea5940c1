// SPDX-License-Identifier: Apache-2.0
//
// Memory for a PE whose kernels run on a GPU.
//
//   make_cuda_backing     the GPU's own: tables, queues; the host reaches it with copies
//   make_piece_backing    the same as a piece of its own (pieces.h): heaps
//   make_pinned_backing   the host's, which kernels load over the bus: what both look at while a
//                         kernel spins
//   make_registered_backing   the host's pages (make_host_backing), for kernels too: host heaps,
//                         which other processes map
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>

#include "host/memory/backing.h"
#include "host/memory/gpu.h"

namespace peal {

/// Zeroed memory of `gpu`, rounded up to kAlignment. Other processes map it by its IPC handle.
/// Throws kOutOfMemory that names what is free.
Backing make_cuda_backing(std::shared_ptr<Gpu> gpu, size_t bytes, const std::string& name);

/// The same, for other processes to map by descriptor, also where they do not see this GPU, and by
/// fabric handle where the driver has them. Where it makes no such memory it is
/// make_cuda_backing's.
Backing make_piece_backing(std::shared_ptr<Gpu> gpu, size_t bytes, const std::string& name);

/// The caller's host memory, made known to `gpu`: until it is destroyed kernels use it at its
/// address, slowly.
using PinnedRange = std::unique_ptr<std::byte, std::function<void(std::byte*)>>;
PinnedRange pin(std::shared_ptr<Gpu> gpu, std::byte* address, size_t bytes);

/// The same for registers of another device, mapped into this process. Kernels use them at
/// Gpu::pointer_to. Throws kUnsupported with the remedy where the driver does not allow it.
PinnedRange pin_registers(std::shared_ptr<Gpu> gpu, std::byte* address, size_t bytes);

/// Zeroed host memory at the same address for kernels of `gpu`; begins at a multiple of a page.
Backing make_pinned_backing(std::shared_ptr<Gpu> gpu, size_t bytes, const std::string& name);

/// The same with a descriptor for other processes; begins at a multiple of kAlignment.
Backing make_registered_backing(std::shared_ptr<Gpu> gpu, size_t bytes, const std::string& name);

/// Host memory of this process, pinned for as long as any of its users holds it.
///
///   window A    |---------------|
///   window B             |----------------|      pinned: pages of A, then what B has beyond them
///
/// Ranges that users name overlap and share pages; what the driver is told of never does.
class PinnedPages {
 public:
  explicit PinnedPages(std::shared_ptr<Gpu> gpu) : gpu_(std::move(gpu)) {}

  /// Kernels use all of [address, address + bytes) at its address until the answer is gone. What
  /// CUDA knows of its own accord stays its owner's. Throws kSystem that names the call. One thread
  /// at a time calls, and gives back.
  std::shared_ptr<void> hold(std::byte* address, size_t bytes);

 private:
  struct Part {
    uintptr_t end;
    std::weak_ptr<PinnedRange> range;
  };

  std::shared_ptr<Gpu> gpu_;
  std::map<uintptr_t, Part> parts_;  // by begin; whole pages, which do not overlap
};

}  // namespace peal
