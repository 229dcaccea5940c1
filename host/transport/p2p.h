// SPDX-License-Identifier: Apache-2.0
//
// The P2P transport's host half: every PE's part of a window, mapped into this process, so that
// kernels load and store it. What drives it is device/transport/p2p.h.
//
//   same process    the pointer itself
//   CPU kernels     the peer's pages, through the file behind them
//   GPU kernels     the peer's GPU memory, by descriptors, an IPC handle or fabric handles
//                   the peer's pages of the host, through the file behind them
//
// Whether a peer can be reached is an answer with a reason, never an error: the routes decide.
#pragma once

#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/fd.h"
#include "host/base/place.h"
#include "host/bootstrap.h"
#include "host/memory/backing_cuda.h"
#include "host/memory/gpu.h"
#include "host/memory/nvml.h"
#include "host/transport/descriptor_exchange.h"

namespace peal {

struct PartDescriptor;
struct GpuOffer;
struct GpuParcel;
struct OfferedPiece;

/// One window as it lies at every PE. Entries are by PE; the mappings end with it.
struct PeerMemory {
  using Mapping = std::unique_ptr<std::byte, std::function<void(std::byte*)>>;

  std::vector<std::byte*> direct;  // where the PE's part begins here; null = not reachable
  std::vector<std::string> how;    // in which way it is reached, or why it is not
  std::vector<bool> avoidable;     // not reached only because of how containers were started
  std::vector<Mapping> mappings;
  Fd file;                       // of this PE's part, for peers that map it
  std::shared_ptr<void> pinned;  // this PE's part, if the GPU of its kernels did not know it
};

/// What one PE knows of the others, and maps.
class P2p {
 public:
  /// What lies between this PE's kernels and the peers' memory, the nearest first.
  enum class Link { kNone, kNvlink, kPcie };

  /// Collective. `places` by PE. `gpu` is null when kernels run on the CPU; `nvml` when nothing
  /// tells of GPUs that are hidden here or on other hosts. `deadline`: of each map().
  P2p(Bootstrap& bootstrap, std::vector<Place> places, std::shared_ptr<Gpu> gpu,
      std::shared_ptr<const Nvml> nvml = nullptr,
      std::chrono::milliseconds deadline = std::chrono::seconds(60));

  /// Collective. Maps every PE's [address, address + bytes). `fd` holds the pages of this PE's part
  /// from its first byte on, or is -1: then what other processes can map is looked for.
  PeerMemory map(std::byte* address, size_t bytes, int fd);

  /// The farthest link of all that was mapped.
  Link link() const { return link_; }

 private:
  bool has_neighbours() const;
  PartDescriptor offer_pinned(PeerMemory& memory, std::byte* address, size_t bytes);
  PartDescriptor offer_found(PeerMemory& memory, std::byte* address, size_t bytes);
  void map_gpu(PeerMemory& memory, std::byte* address, size_t bytes, int fd);
  void map_pages(PeerMemory& memory, std::byte* address, size_t bytes, int fd);
  std::vector<OfferedPiece> gather_pieces(const std::vector<PartDescriptor>& offers,
                                          const GpuOffer& mine);
  std::vector<std::vector<Fd>> exchange_descriptors(const std::vector<PartDescriptor>& offers,
                                                    const GpuOffer& mine);
  template <class Reach>
  void add(PeerMemory& memory, const PartDescriptor& offer, size_t pe, const Reach& reach);

  Bootstrap& bootstrap_;
  std::vector<Place> places_;
  std::shared_ptr<Gpu> gpu_;
  std::shared_ptr<const Nvml> nvml_;
  std::optional<DescriptorExchange> descriptor_exchange_;  // with a GPU
  std::optional<PinnedPages> pinned_;                      // the same
  Link link_ = Link::kNone;
};

}  // namespace peal
