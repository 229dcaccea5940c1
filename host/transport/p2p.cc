// SPDX-License-Identifier: Apache-2.0
//
// One exchange of offers (what a PE has, and how to get at it), then every PE helps itself. The
// owner does nothing, but for memory that is shared by descriptors, which it hands to those that
// want them: a PE that fails leaves nobody waiting.
#include "host/transport/p2p.h"

#include <algorithm>
#include <span>
#include <utility>

#include "host/job/together.h"
#include "host/transport/share.h"

namespace peal {

P2p::P2p(Bootstrap& bootstrap, std::vector<Place> places, std::shared_ptr<Gpu> gpu,
         std::shared_ptr<const Nvml> nvml, std::chrono::milliseconds deadline)
    : bootstrap_(bootstrap),
      places_(std::move(places)),
      gpu_(std::move(gpu)),
      nvml_(std::move(nvml)) {
  if (!gpu_) return;
  descriptor_exchange_.emplace(bootstrap_, deadline);
  pinned_.emplace(gpu_);
}

PeerMemory P2p::map(std::byte* address, size_t bytes, int fd) {
  PeerMemory memory;
  if (gpu_) {
    map_gpu(memory, address, bytes, fd);
  } else {
    map_pages(memory, address, bytes, fd);
  }
  return memory;
}

template <class Reach>
void P2p::add(PeerMemory& memory, const PartDescriptor& offer, size_t pe, const Reach& reach) {
  ReachedPart answer;
  if (offer.pe != static_cast<int>(pe)) {
    answer = refused("it takes no part any more");
  } else if (const auto failure = failure_of([&] { answer = reach(); })) {
    answer = refused(failure->error.what());
  }
  const bool itself = pe == static_cast<size_t>(bootstrap_.rank());
  memory.direct.push_back(answer.mapping.get());
  memory.how.push_back(itself && answer.mapping ? "itself" : std::move(answer.how));
  memory.avoidable.push_back(answer.avoidable);
  memory.mappings.push_back(std::move(answer.mapping));
  link_ = std::max(link_, answer.link);
}

// True if some PE has to know which file is behind memory. Looking for it costs more than all else
// where PEs are threads.
bool P2p::has_neighbours() const {
  const Place& here = places_[static_cast<size_t>(bootstrap_.rank())];
  return std::ranges::any_of(places_, [&](const Place& there) {
    return same_host(here, there) && !same_process(here, there);
  });
}

PartDescriptor P2p::offer_found(PeerMemory& memory, std::byte* address, size_t bytes) {
  if (bytes != 0 && has_neighbours()) return offer_any_pages(address, bytes, &memory.file);
  PartDescriptor offer = offer_pages(address, bytes, -1);
  say(offer, "it has nothing there");
  return offer;
}

// Memory of the host: kernels of this PE's own GPU have to reach it, too.
PartDescriptor P2p::offer_pinned(PeerMemory& memory, std::byte* address, size_t bytes) {
  const auto failure = failure_of([&] { memory.pinned = pinned_->hold(address, bytes); });
  if (!failure) return offer_found(memory, address, bytes);
  PartDescriptor offer = offer_pages(address, bytes, -1);
  offer.kind = PartDescriptor::Kind::kUnpinned;
  say(offer, failure->error.what() +
                 std::string("; files on disks cannot be pinned, those of tmpfs (/dev/shm, a "
                             "memfd) can"));
  return offer;
}

void P2p::map_pages(PeerMemory& memory, std::byte* address, size_t bytes, int fd) {
  const std::vector<PartDescriptor> offers = gather_together(bootstrap_, [&] {
    PartDescriptor mine =
        fd >= 0 ? offer_pages(address, bytes, fd) : offer_found(memory, address, bytes);
    mine.pe = bootstrap_.rank();
    return mine;
  });
  const Place& here = places_[static_cast<size_t>(bootstrap_.rank())];
  for (size_t pe = 0; pe < offers.size(); ++pe) {
    add(memory, offers[pe], pe, [&] { return reach_pages(offers[pe], here, places_[pe]); });
  }
}

void P2p::map_gpu(PeerMemory& memory, std::byte* address, size_t bytes, int fd) {
  const GpuReach reach{gpu_, nvml_};
  GpuOffer mine{};
  const std::vector<PartDescriptor> offers = gather_together(bootstrap_, [&] {
    if (fd >= 0) {
      mine.offer = offer_pages(address, bytes, fd);
    } else if (bytes != 0 && !gpu_->holds(address)) {
      mine.offer = offer_pinned(memory, address, bytes);
    } else {
      mine = offer_gpu(reach, address, bytes);
    }
    mine.offer.pe = bootstrap_.rank();
    return mine.offer;
  });
  const std::vector<OfferedPiece> pieces = gather_pieces(offers, mine);
  std::vector<std::vector<Fd>> descriptors = exchange_descriptors(offers, mine);
  const size_t most = pieces.size() / offers.size();
  const Place& here = places_[static_cast<size_t>(bootstrap_.rank())];
  for (size_t pe = 0; pe < offers.size(); ++pe) {
    const GpuParcel parcel{offers[pe], std::span(pieces).subspan(pe * most, offers[pe].pieces),
                           std::move(descriptors[pe])};
    add(memory, offers[pe], pe, [&] { return reach_gpu(reach, parcel, here, places_[pe]); });
  }
}

// [PEs][most pieces of any].
std::vector<OfferedPiece> P2p::gather_pieces(const std::vector<PartDescriptor>& offers,
                                             const GpuOffer& mine) {
  const size_t most = std::ranges::max(offers, {}, &PartDescriptor::pieces).pieces;
  if (most == 0) return {};
  return gather_together<OfferedPiece>(bootstrap_, most, [&](std::span<OfferedPiece> to) {
    std::ranges::copy(mine.pieces, to.begin());
  });
}

// Between processes of one host that know each other's sockets.
std::vector<std::vector<Fd>> P2p::exchange_descriptors(const std::vector<PartDescriptor>& offers,
                                                       const GpuOffer& mine) {
  const auto me = static_cast<size_t>(bootstrap_.rank());
  std::vector<size_t> expected(offers.size());
  std::vector<int> to;
  for (size_t pe = 0; pe < offers.size(); ++pe) {
    const Place& there = places_[pe];
    if (offers[pe].pe != static_cast<int>(pe) || !same_host(places_[me], there) ||
        same_process(places_[me], there) || !same_sockets(places_[me], there)) {
      continue;
    }
    to.push_back(static_cast<int>(pe));
    if (offers[pe].descriptors != 0) expected[pe] = offers[pe].pieces;
  }
  return descriptor_exchange_->exchange(mine.descriptors, to, expected);
}

}  // namespace peal
