// SPDX-License-Identifier: Apache-2.0
//
// Set-up of the IBGDA transport: create all queues, exchange numbers once, connect, fill in the
// device's view.
#include "host/transport/ibgda.h"

#include <cstring>
#include <span>

#include "host/base/error.h"

namespace peal {
namespace {

// What one end of a queue tells the other.
struct Endpoint {
  uint32_t qpn;
  uint32_t lid;
};

uint32_t checked_depth(const QueueOptions& options) {
  options.check();
  return options.depth;
}

}  // namespace

void QueueOptions::check() const {
  if (depth < mlx5::kMinDepth || depth > mlx5::kMaxDepth || (depth & (depth - 1)) != 0) {
    fail(ErrorCode::kInvalidArgument,
         "context: queue depth {} must be a power of two from {} to {} (PEAL_QUEUE_DEPTH)", depth,
         mlx5::kMinDepth, mlx5::kMaxDepth);
  }
  if (queues_per_peer == 0 || queues_per_peer > 64) {
    fail(ErrorCode::kInvalidArgument,
         "context: {} queues per peer; 1 to 64 are possible (PEAL_QUEUES)", queues_per_peer);
  }
}

IbgdaNic::IbgdaNic(const Config& config)
    : device(nic::VerbsLibrary::open(nic::LibrarySearch::from(config)), config.hca),
      domain(device),
      uar(device) {}

IbgdaQueues::IbgdaQueues(const IbgdaNic& nic, Bootstrap& bootstrap, const QueueOptions& options)
    : layout_{checked_depth(options)},
      n_pes_(static_cast<uint32_t>(bootstrap.size())),
      queues_(options.queues_per_peer),
      memory_(make_host_backing(size_t{queues_} * n_pes_ * layout_.bytes(), "peal-queues")),
      umem_(nic.device, memory_.address(), memory_.bytes()),
      region_(nic.device, nic.domain, memory_.address(), memory_.bytes()) {
  create(nic, options.depth);
  for (uint32_t i = 0; i < count(); ++i) fill_in(i, nic.uar, options);
  connect(nic.device, bootstrap);
}

const mlx5::SendQueue& IbgdaQueues::queue(uint32_t index) const {
  return *reinterpret_cast<const mlx5::SendQueue*>(first() + index * stride());
}

void IbgdaQueues::create(const IbgdaNic& nic, uint32_t depth) {
  const uint32_t total = queues_ * n_pes_;
  cqs_.reserve(total);
  pairs_.reserve(total);
  for (uint32_t i = 0; i < total; ++i) {
    const uint64_t offset = i * stride();
    layout_.prepare(memory_.address() + offset);
    const auto place = nic::QueuePlace::of(layout_, umem_, offset);
    cqs_.emplace_back(nic.device, nic.uar, place);
    pairs_.emplace_back(nic.device, nic.domain, nic.uar, cqs_.back(), place,
                        nic::QueuePairConfig{.depth = depth});
  }
}

void IbgdaQueues::connect(const nic::Device& device, Bootstrap& bootstrap) {
  std::vector<Endpoint> mine(count());
  for (uint32_t i = 0; i < count(); ++i) mine[i] = {pairs_[i].number(), device.lid()};
  std::vector<Endpoint> all(size_t{count()} * n_pes_);
  bootstrap.allgather(std::as_bytes(std::span(mine)), std::as_writable_bytes(std::span(all)));
  const auto me = static_cast<uint32_t>(bootstrap.rank());
  for (uint32_t q = 0; q < queues_; ++q) {
    for (uint32_t pe = 0; pe < n_pes_; ++pe) {
      const Endpoint& peer = all[size_t{pe} * count() + q * n_pes_ + me];
      nic::QueuePair& pair = pairs_[q * n_pes_ + pe];
      pair.to_init();
      pair.to_rtr({.qpn = peer.qpn, .lid = static_cast<uint16_t>(peer.lid)});
      pair.to_rts();
    }
  }
  // Every queue can receive before anybody's kernel sends.
  bootstrap.barrier();
}

void IbgdaQueues::fill_in(uint32_t index, const nic::Uar& uar, const QueueOptions& options) {
  static_assert(sizeof(mlx5::SendQueue) <= nic::QueueMemoryLayout::kStateBytes);
  static_assert((mlx5::kLandingCells + 1) * sizeof(mlx5::LandingCell) <=
                nic::QueueMemoryLayout::kLandingBytes);
  const uint64_t offset = index * stride();
  std::byte* base = memory_.address() + offset;
  mlx5::SendQueue queue{};
  queue.blocks = reinterpret_cast<mlx5::Wqebb*>(base + layout_.send_queue());
  queue.doorbell_record = reinterpret_cast<mlx5::DoorbellRecord*>(base + layout_.doorbell());
  queue.doorbell = static_cast<uint64_t*>(uar.doorbell());
  queue.cqe = reinterpret_cast<mlx5::Cqe*>(base + layout_.cqe());
  queue.landing = reinterpret_cast<mlx5::LandingCell*>(base + layout_.landing());
  queue.stop = options.stop;
  queue.landing_address = offset + layout_.landing();
  queue.landing_lkey = region_.lkey();
  queue.mask = options.depth - 1;
  queue.qpn_shifted = Be32{pairs_[index].number() << 8};
  queue.peer = index % n_pes_;
  queue.timeout_ns = options.timeout_ns;
  queue.last_published = ~uint64_t{0};
  std::memcpy(base + layout_.state(), &queue, sizeof(queue));
}

}  // namespace peal
