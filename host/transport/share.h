// SPDX-License-Identifier: Apache-2.0
//
// The ways to use another PE's memory without a NIC, as host/transport/p2p.cc needs them: what a PE
// offers of its own, and what another makes of the offer.
//
//   share_pages.cc   pages of the host: the file behind them, opened through /proc/PID/fd
//   share_gpu.cc     kernels on GPUs: pieces by descriptor or fabric handle, allocations by IPC
//                    handle; opened over NVLink, PCIe or on the same GPU; pages of the host, pinned
//   share_pool.cc    of these, memory of pools (cudaMallocAsync): by the pool's descriptor
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/fd.h"
#include "host/base/place.h"
#include "host/memory/gpu.h"
#include "host/memory/nvml.h"
#include "host/transport/p2p.h"

namespace peal {

/// What a PE tells the others of its part of a window.
struct PartDescriptor {
  enum class Kind : uint32_t { kNone, kPages, kUnpinned, kIpc, kPieces, kPool };

  Kind kind;
  int32_t pe;        // whose it is: of a PE that takes no part any more, another's entry is there
  uint64_t address;  // in its process
  uint64_t bytes;
  std::array<char, 320> why;  // why not: kNone, kPages without a file: by other processes;
                              // kUnpinned: by kernels of its own either

  // kPages: the file behind them, and what it is, so that no other one is taken for it.
  int32_t fd;
  uint64_t file_device;
  uint64_t file_inode;

  uint64_t offset;  // from where the file, the handle's memory, or the first piece begins

  // For memory of a GPU:
  cuda::Uuid gpu;
  FabricPlace fabric;
  cuda::IpcHandle handle;
  uint32_t pieces;       // how many; of a pool one, the allocation
  uint32_t by_fabric;    // they have fabric handles
  uint32_t descriptors;  // they have descriptors; the pool has
};

/// One of an offer's pieces.
struct OfferedPiece {
  uint64_t bytes;
  cuda::FabricHandle fabric;
  cuda::PoolPointer pointer;
};

/// This PE's own offer of GPU memory, with what the others need to open it.
struct GpuOffer {
  PartDescriptor offer;
  std::vector<OfferedPiece> pieces;
  std::vector<Fd> descriptors;
};

/// A peer's, as it arrived.
struct GpuParcel {
  const PartDescriptor& offer;
  std::span<const OfferedPiece> pieces;
  std::vector<Fd> descriptors;
};

/// A PE's part, mapped; or refused, with a null mapping.
struct ReachedPart {
  PeerMemory::Mapping mapping;
  std::string how;
  P2p::Link link = P2p::Link::kNone;
  bool avoidable = false;  // refused only because of how a container was started
};

inline ReachedPart refused(std::string why) { return {nullptr, std::move(why)}; }
inline ReachedPart kept_apart(std::string why) {
  return {nullptr, std::move(why), P2p::Link::kNone, true};
}

/// Memory that is in this process already: nothing to map, nothing to end.
inline PeerMemory::Mapping borrowed(const PartDescriptor& offer) {
  return {reinterpret_cast<std::byte*>(offer.address), [](std::byte*) {}};
}

/// Puts it into words, cut to what has room.
void say(PartDescriptor& offer, const std::string& why);

/// `fd` holds the pages from their first byte on; -1: none does, and they are this process's alone.
PartDescriptor offer_pages(std::byte* address, size_t bytes, int fd);
/// The same of memory whose file, if it has one, is looked for: `file` is to stay for as long as
/// others may open it.
PartDescriptor offer_any_pages(std::byte* address, size_t bytes, Fd* file);
ReachedPart reach_pages(const PartDescriptor& offer, const Place& here, const Place& there);

/// A GPU and what knows of its neighbours; `nvml` may be null.
struct GpuReach {
  std::shared_ptr<Gpu> gpu;
  std::shared_ptr<const Nvml> nvml;
};

GpuOffer offer_gpu(const GpuReach& reach, std::byte* address, size_t bytes);
ReachedPart reach_gpu(const GpuReach& reach, const GpuParcel& parcel, const Place& here,
                      const Place& there);

/// The pool that memory of this process is of, or null.
cuda::PoolHandle pool_behind(const Gpu& gpu, uint64_t address);
/// Lets kernels of `gpu` use all of a pool that is on another one. Throws kSystem, kUnsupported.
void allow_pool(const Gpu& gpu, cuda::PoolHandle pool);
/// Completes an offer of memory of `pool`. Throws kSystem.
void offer_pool(GpuOffer& mine, const Gpu& gpu, cuda::PoolHandle pool);
/// What a process at `there` offered so, with the pool's descriptor. Throws kSystem, kUnsupported.
PeerMemory::Mapping map_pool(const std::shared_ptr<Gpu>& gpu, const GpuParcel& parcel,
                             const Place& there);

}  // namespace peal
