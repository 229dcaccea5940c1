// SPDX-License-Identifier: Apache-2.0
//
// GPU memory between processes, and between the GPUs of one process. Which handle:
//
//   memory of             this host, one network    another container    another host
//   cuMemCreate           descriptors               fabric handles       fabric handles
//   cudaMalloc            IPC handle                -                    -
//   cudaMallocAsync       descriptor of its pool    -                    -
//   pages of the host     their file, then pinned   -                    -
//   none of these         -                         -                    -
#include <fmt/format.h>

#include <optional>
#include <utility>

#include "host/base/error.h"
#include "host/job/together.h"
#include "host/memory/backing.h"
#include "host/memory/backing_cuda.h"
#include "host/memory/pieces.h"
#include "host/transport/share.h"

namespace peal {
namespace {

/// How this GPU reaches another.
struct Way {
  std::string text;  // "NVLink GPU 0 -> GPU 1", or why there is none
  P2p::Link link = P2p::Link::kNone;
  bool reaches = false;
};

constexpr const char* kNotAtomic = ", where atomics are not atomic with the peer's own";

/// The way to GPU `peer`, by this process's numbering.
Way way_to_visible(const Gpu& gpu, int peer) {
  if (peer == gpu.index()) return {fmt::format("same GPU {}", peer), P2p::Link::kNone, true};
  const std::string pair = fmt::format("GPU {} -> GPU {}", gpu.index(), peer);
  cuda::DeviceHandle to = 0;
  int can = 0;
  int atomics = 0;
  const cuda::Driver& driver = gpu.driver();
  if (driver.device(&to, peer) != cuda::kSuccess ||
      driver.can_access_peer(&can, gpu.device(), to) != cuda::kSuccess || can == 0) {
    return {"no peer access " + pair};
  }
  driver.p2p_attribute(&atomics, cuda::kP2pNativeAtomics, gpu.device(), to);
  if (atomics != 0) return {"NVLink " + pair, P2p::Link::kNvlink, true};
  return {"PCIe " + pair + kNotAtomic, P2p::Link::kPcie, true};
}

/// The way to a GPU that CUDA_VISIBLE_DEVICES hides from this process. Its memory can be opened all
/// the same; CUDA says nothing about the link.
Way way_to_hidden(const GpuReach& reach, const cuda::Uuid& peer) {
  const std::string pair =
      fmt::format("GPU {} -> a GPU hidden here (CUDA_VISIBLE_DEVICES)", reach.gpu->index());
  const Nvml::Pair known = reach.nvml ? reach.nvml->pair(reach.gpu->uuid(), peer) : Nvml::Pair{};
  if (!known.known) return {"unknown link " + pair + kNotAtomic, P2p::Link::kPcie, true};
  if (!known.reads_and_writes) return {"no peer access " + pair};
  if (known.nvlink && known.atomics) return {"NVLink " + pair, P2p::Link::kNvlink, true};
  return {"PCIe " + pair + kNotAtomic, P2p::Link::kPcie, true};
}

Way way_to(const GpuReach& reach, const cuda::Uuid& peer) {
  const std::optional<int> visible = reach.gpu->find(peer);
  return visible ? way_to_visible(*reach.gpu, *visible) : way_to_hidden(reach, peer);
}

/// Lets kernels of `gpu` use what this process allocated on another GPU by cudaMalloc.
cuda::Result enable_access(const Gpu& gpu, const cuda::Uuid& peer) {
  const int index = gpu.find(peer).value_or(gpu.index());
  if (index == gpu.index()) return cuda::kSuccess;
  const cuda::Result result = gpu.within([&](const cuda::Driver& driver) {
    cuda::DeviceHandle device = 0;
    cuda::ContextHandle context = nullptr;
    cuda::Result step = driver.device(&device, index);
    if (step == cuda::kSuccess) step = driver.retain_context(&context, device);
    if (step != cuda::kSuccess) return step;
    step = driver.enable_peer(context, 0);
    driver.release_context(device);  // the peer PE holds it as long as it has memory there
    return step;
  });
  return result == cuda::kPeerAccessAlreadyEnabled ? cuda::kSuccess : result;
}

/// `pieces` mapped here, from `offset` on.
PeerMemory::Mapping mapped_from(const GpuReach& reach, const Pieces& pieces, size_t offset) {
  auto whole = std::make_shared<GpuMapping>(pieces.map(reach.gpu, Backing::kAlignment));
  std::byte* const part = whole->get() + offset;
  return {part, [whole = std::move(whole)](std::byte*) mutable { whole.reset(); }};
}

ReachedPart reach_in_process(const GpuReach& reach, const PartDescriptor& offer, const Way& way) {
  const bool here = offer.gpu == reach.gpu->uuid();
  if (!here && offer.kind == PartDescriptor::Kind::kPieces) {
    // Only in the context of a GPU that may use it does the driver tell of memory.
    const auto owner = Gpu::open(reach.gpu->find(offer.gpu).value_or(reach.gpu->index()), 0);
    size_t offset = 0;
    const Pieces pieces = Pieces::behind(*owner, reinterpret_cast<const std::byte*>(offer.address),
                                         offer.bytes, &offset);
    if (pieces.count() == 0) return refused(way.text + ", but its mappings are not to be found");
    return {mapped_from(reach, pieces, offset), "same process, " + way.text, way.link};
  }
  // Access to a GPU is access to what cudaMalloc took of it, and not to pools.
  if (const cuda::PoolHandle pool = here ? nullptr : pool_behind(*reach.gpu, offer.address)) {
    allow_pool(*reach.gpu, pool);
    return {borrowed(offer), "same process, " + way.text, way.link};
  }
  const cuda::Result result = enable_access(*reach.gpu, offer.gpu);
  if (result == cuda::kSuccess) return {borrowed(offer), "same process, " + way.text, way.link};
  return refused(
      fmt::format("{}, but cuCtxEnablePeerAccess: {}", way.text, reach.gpu->driver().text(result)));
}

ReachedPart open_ipc(const GpuReach& reach, const PartDescriptor& offer, const Way& way,
                     bool apart) {
  const std::shared_ptr<Gpu>& gpu = reach.gpu;
  cuda::DeviceAddress base = 0;
  const cuda::Result result = gpu->within([&](const cuda::Driver& driver) {
    return driver.ipc_open(&base, offer.handle, cuda::kIpcLazyPeerAccess);
  });
  if (result != cuda::kSuccess) {
    const std::string why =
        fmt::format("{}, but cuIpcOpenMemHandle: {}", way.text, gpu->driver().text(result));
    return apart ? kept_apart(why +
                              "; start the containers with one IPC and pid namespace "
                              "(--ipc=host --pid=host)")
                 : refused(why);
  }
  const auto close = [gpu, base](std::byte*) {
    gpu->release([&](const cuda::Driver& driver) { driver.ipc_close(base); });
  };
  return {PeerMemory::Mapping(reinterpret_cast<std::byte*>(base + offer.offset), close),
          fmt::format("same host, {}, by IPC handle", way.text), way.link};
}

ReachedPart open_fabric(const GpuReach& reach, const GpuParcel& parcel, const std::string& way) {
  Pieces pieces(*reach.gpu);
  for (const OfferedPiece& piece : parcel.pieces) pieces.open(piece.fabric, piece.bytes);
  return {mapped_from(reach, pieces, parcel.offer.offset), way + ", by fabric handle",
          P2p::Link::kNvlink};
}

/// Descriptors were to come, and did not.
ReachedPart not_handed_over(const GpuParcel& parcel, const Way& way, bool apart) {
  if (apart) {
    return kept_apart(fmt::format(
        "same host, {}, but in a network namespace of its own, so that no descriptor can be handed "
        "over; start the containers with one network (--network=host)",
        way.text));
  }
  return refused(fmt::format(
      "same host, {}, but {} of its {} descriptors came: it has ended, or see ulimit -n", way.text,
      parcel.descriptors.size(), parcel.offer.pieces));
}

ReachedPart open_pieces(const GpuReach& reach, const GpuParcel& parcel, const Way& way,
                        bool apart) {
  const PartDescriptor& offer = parcel.offer;
  if (parcel.descriptors.size() == offer.pieces) {
    Pieces pieces(*reach.gpu);
    for (size_t i = 0; i < offer.pieces; ++i) {
      pieces.open(parcel.descriptors[i], parcel.pieces[i].bytes);
    }
    return {
        mapped_from(reach, pieces, offer.offset),
        fmt::format("same host, {}, by {}", way.text,
                    offer.pieces == 1 ? "descriptor" : fmt::format("{} descriptors", offer.pieces)),
        way.link};
  }
  if (offer.by_fabric != 0) return open_fabric(reach, parcel, "same host, " + way.text);
  return not_handed_over(parcel, way, apart);
}

ReachedPart open_pool(const GpuReach& reach, const GpuParcel& parcel, const Way& way,
                      const Place& here, const Place& there) {
  if (parcel.descriptors.size() != parcel.offer.pieces) {
    return not_handed_over(parcel, way, !same_sockets(here, there));
  }
  return {map_pool(reach.gpu, parcel, there),
          fmt::format("same host, {}, by descriptor of its pool", way.text), way.link};
}

/// Pages of the host, which kernels load and store over the bus.
ReachedPart reach_host_pages(const GpuReach& reach, const PartDescriptor& offer, const Place& here,
                             const Place& there) {
  ReachedPart answer = reach_pages(offer, here, there);
  if (answer.mapping == nullptr || same_process(here, there)) return answer;
  auto pages = std::make_shared<PeerMemory::Mapping>(std::move(answer.mapping));
  auto pinned = std::make_shared<PinnedRange>(pin(reach.gpu, pages->get(), offer.bytes));
  answer.mapping = {pages->get(), [pages, pinned](std::byte*) {
                      pinned->reset();
                      pages->reset();
                    }};
  answer.how += ", pinned";
  return answer;
}

/// Another host: over NVLink where both are in one domain.
ReachedPart reach_across(const GpuReach& reach, const GpuParcel& parcel) {
  const PartDescriptor& offer = parcel.offer;
  if (!reach.nvml) return refused("other host");
  if (!reach.nvml->place(reach.gpu->uuid()).reaches(offer.fabric)) return refused("other host");
  const std::string domain =
      fmt::format("other host, NVLink domain, clique {}", offer.fabric.clique);
  if (offer.kind == PartDescriptor::Kind::kPieces && offer.by_fabric != 0) {
    return open_fabric(reach, parcel, domain);
  }
  if (offer.kind == PartDescriptor::Kind::kPool) {
    return refused(domain + ", but memory of a pool (cudaMallocAsync); use memory of cuMemCreate");
  }
  return kept_apart(domain +
                    ", but memory without a fabric handle: nvidia-imex must run on both "
                    "hosts, and /dev/nvidia-caps-imex-channels be in both containers");
}

/// How memory of cuMemCreate can be shared, with what that takes.
void export_pieces(GpuOffer& mine, const Gpu& gpu, const Pieces& pieces) {
  PartDescriptor& offer = mine.offer;
  unsigned types = 0;
  gpu.within([&](const cuda::Driver& driver) {
    driver.pointer_attribute(&types, cuda::kPointerHandleTypes, offer.address);
  });
  for (size_t i = 0; i < pieces.count(); ++i) mine.pieces.push_back({pieces.bytes_of(i), {}, {}});
  if ((types & cuda::kFabric) != 0 && offer.fabric.joined != 0) {
    offer.by_fabric = 1;
    for (size_t i = 0; i < pieces.count(); ++i) mine.pieces[i].fabric = pieces.fabric_handle(i);
  }
  if ((types & cuda::kPosixDescriptor) != 0) {
    offer.descriptors = 1;
    for (size_t i = 0; i < pieces.count(); ++i) mine.descriptors.push_back(pieces.descriptor(i));
  }
  if (offer.by_fabric == 0 && offer.descriptors == 0) {
    return say(offer, "memory of cuMemCreate that was made with no handle type to share it by");
  }
  offer.kind = PartDescriptor::Kind::kPieces;
  offer.pieces = static_cast<uint32_t>(pieces.count());
}

/// A handle stands for a whole allocation, whatever address in it was named.
void export_allocation(PartDescriptor& offer, const cuda::Driver& driver) {
  cuda::DeviceAddress base = 0;
  size_t size = 0;
  if (driver.address_range(&base, &size, offer.address) != cuda::kSuccess) {
    return say(offer, "memory that its process cannot share (it is not cudaMalloc's)");
  }
  if (offer.address + offer.bytes > base + size) {
    return say(offer, "memory of several allocations");
  }
  if (driver.ipc_handle(&offer.handle, base) == cuda::kSuccess) {
    offer.kind = PartDescriptor::Kind::kIpc;
    offer.offset = offer.address - base;
  } else {
    say(offer, "memory that its process cannot share (it is not cudaMalloc's)");
  }
}

}  // namespace

GpuOffer offer_gpu(const GpuReach& reach, std::byte* address, size_t bytes) {
  GpuOffer mine{};
  PartDescriptor& offer = mine.offer;
  offer.address = reinterpret_cast<uint64_t>(address);
  offer.bytes = bytes;
  offer.fd = -1;
  offer.gpu = reach.gpu->uuid();
  if (reach.nvml) offer.fabric = reach.nvml->place(offer.gpu);
  if (bytes == 0) {
    say(offer, "it has nothing there");
    return mine;
  }
  const Gpu& gpu = *reach.gpu;
  const auto failure = failure_of([&] {
    if (const cuda::PoolHandle pool = pool_behind(gpu, offer.address)) {
      return offer_pool(mine, gpu, pool);
    }
    size_t offset = 0;
    const Pieces pieces =
        gpu.allocated(address) ? Pieces(gpu) : Pieces::behind(gpu, address, bytes, &offset);
    offer.offset = offset;
    if (pieces.count() != 0) return export_pieces(mine, gpu, pieces);
    gpu.within([&](const cuda::Driver& driver) { export_allocation(offer, driver); });
  });
  if (failure) {
    mine = {.offer = offer, .pieces = {}, .descriptors = {}};
    mine.offer.kind = PartDescriptor::Kind::kNone;
    say(mine.offer, failure->error.what());
  }
  return mine;
}

ReachedPart reach_gpu(const GpuReach& reach, const GpuParcel& parcel, const Place& here,
                      const Place& there) {
  const PartDescriptor& offer = parcel.offer;
  if (offer.kind == PartDescriptor::Kind::kPages)
    return reach_host_pages(reach, offer, here, there);
  if (offer.kind == PartDescriptor::Kind::kUnpinned) return refused(offer.why.data());
  if (!same_host(here, there)) return reach_across(reach, parcel);
  const Way way = way_to(reach, offer.gpu);
  if (!way.reaches) return refused("same host, but " + way.text);
  try {
    if (same_process(here, there)) return reach_in_process(reach, offer, way);
    switch (offer.kind) {
      case PartDescriptor::Kind::kIpc:
        return open_ipc(reach, offer, way, !same_pids(here, there));
      case PartDescriptor::Kind::kPieces:
        return open_pieces(reach, parcel, way, !same_sockets(here, there));
      case PartDescriptor::Kind::kPool:
        return open_pool(reach, parcel, way, here, there);
      case PartDescriptor::Kind::kNone:
      case PartDescriptor::Kind::kPages:
      case PartDescriptor::Kind::kUnpinned:
        break;
    }
  } catch (const Error& error) {
    return refused(fmt::format("{}, but {}", way.text, error.what()));
  }
  return refused(fmt::format("same host, but {}", offer.why.data()));
}

}  // namespace peal
