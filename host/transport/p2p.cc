// SPDX-License-Identifier: Apache-2.0
//
// One exchange of offers (what a PE has, and how to get at it), then every PE helps itself. The
// owner does nothing: a PE that fails leaves nobody waiting.
#include "host/transport/p2p.h"

#include <algorithm>
#include <utility>

#include "host/job/together.h"
#include "host/transport/share.h"

namespace peal {

P2p::P2p(Bootstrap& bootstrap, std::vector<Place> places, std::shared_ptr<Gpu> gpu)
    : bootstrap_(bootstrap), places_(std::move(places)), gpu_(std::move(gpu)) {}

PeerMemory P2p::map(std::byte* address, size_t bytes, int fd) {
  const std::vector<Offer> offers = gather_together(bootstrap_, [&] {
    return gpu_ ? offer_gpu(*gpu_, address, bytes) : offer_pages(address, bytes, fd);
  });
  const Place& here = places_[static_cast<size_t>(bootstrap_.rank())];
  PeerMemory memory;
  for (size_t pe = 0; pe < offers.size(); ++pe) {
    Answer answer;
    const auto failure = failure_of([&] {
      answer = gpu_ ? reach_gpu(gpu_, offers[pe], here, places_[pe])
                    : reach_pages(offers[pe], here, places_[pe]);
    });
    if (failure) answer = refused(failure->error.what());
    memory.direct.push_back(answer.mapping.get());
    const bool itself = pe == static_cast<size_t>(bootstrap_.rank());
    memory.how.push_back(itself ? "itself" : std::move(answer.how));
    memory.mappings.push_back(std::move(answer.mapping));
    link_ = std::max(link_, answer.link);
  }
  return memory;
}

}  // namespace peal
