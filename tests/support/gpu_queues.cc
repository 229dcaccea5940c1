// SPDX-License-Identifier: Apache-2.0
//
// Creation and connection; see gpu_queues.h.
#include "tests/support/gpu_queues.h"

namespace peal::testing {

namespace {

std::shared_ptr<const nic::VerbsLibrary> open_library(const std::string& folder) {
  nic::LibrarySearch search;
  search.ibverbs = folder + "/libibverbs.so.1";
  search.mlx5 = folder + "/libmlx5.so.1";
  return nic::VerbsLibrary::open(search);
}

}  // namespace

GpuQueues::GpuQueues(const Options& options)
    : options_(options),
      device_(open_library(options.folder), ""),
      domain_(device_),
      umem_(device_, {options.queues.address, options.queues.bytes}),
      uar_(device_),
      landing_(device_, domain_, {options.queues.address, options.queues.bytes}),
      data_(device_, domain_, {options.data.address, options.data.bytes}, options.ordering),
      words_(device_, domain_, {options.data.address, options.data.bytes}),
      source_(device_, domain_, {options.source.address, options.source.bytes}) {
  const nic::QueueMemoryLayout layout{options.depth};
  for (uint32_t i = 0; i < options.count; ++i) {
    const auto place = nic::QueuePlace::of(layout, umem_, i * layout.bytes());
    cqs_.emplace_back(device_, uar_, place);
    pairs_.emplace_back(device_, domain_, uar_, cqs_.back(), place,
                        nic::DrivenQueuePairConfig{.depth = options.depth});
  }
  const nic::Path path = {.mtu = device_.mtu(), .dlid = device_.lid()};
  for (nic::DrivenQueuePair& pair : pairs_) {
    pair.to_init();
    pair.to_rtr({.qpn = pair.number(), .path = path});
    pair.to_rts(path);
  }
}

std::vector<SendQueue> GpuQueues::describe() const {
  const nic::QueueMemoryLayout layout{options_.depth};
  std::vector<SendQueue> queues(options_.count);
  for (uint32_t i = 0; i < options_.count; ++i) {
    std::byte* base = options_.queues.address + i * layout.bytes();
    SendQueue& queue = queues[i];
    queue.nic.blocks = reinterpret_cast<mlx5::Wqebb*>(base + layout.send_queue());
    queue.nic.doorbell_record = reinterpret_cast<mlx5::DoorbellRecord*>(base + layout.doorbell());
    queue.nic.doorbell = static_cast<uint64_t*>(uar_.doorbell());
    queue.nic.cqe = reinterpret_cast<mlx5::Cqe*>(base + layout.cqe());
    queue.landing = reinterpret_cast<LandingCell*>(base + layout.landing());
    queue.landing_address = i * layout.bytes() + layout.landing();
    queue.landing_key = landing_.lkey();
    queue.mask = options_.depth - 1;
    queue.nic.qpn_shifted = Be32{pairs_[i].number() << 8};
    queue.ready = reinterpret_cast<uint32_t*>(base + layout.ready());
  }
  return queues;
}

}  // namespace peal::testing
