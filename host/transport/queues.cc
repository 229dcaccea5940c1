// SPDX-License-Identifier: Apache-2.0
//
// Set-up of the queues: create all ends, exchange numbers once, connect, fill in the device's view.
#include "host/transport/queues.h"

#include <algorithm>
#include <optional>
#include <span>
#include <utility>

#include "host/base/error.h"
#include "host/transport/connection.h"
#include "host/transport/ibgda_end.h"

namespace peal {
namespace {

// Per peer. A GPU whose every multiprocessor rings for each message is served best by hundreds.
constexpr uint32_t kMaxQueues = 1024;

uint32_t checked_depth(const QueueOptions& options) {
  options.check();
  return options.depth;
}

// Nothing posted, nothing failed.
void start_afresh(mlx5::SendQueue& queue) {
  queue.reserved = queue.published = queue.rung = queue.completed = 0;
  queue.last_published = ~uint64_t{0};
  queue.landing_ticket = 0;
  queue.settled = 0;
  queue.ring_lock = 0;
  queue.error = {};
}

// The same, behind the work of the self-test.
void start_behind_test(mlx5::SendQueue& queue) {
  start_afresh(queue);
  queue.reserved = queue.published = queue.rung = queue.completed = kSelfTestBlocks;
  queue.settled = kSelfTestBlocks;
  queue.last_published = kSelfTestBlocks - 1;
}

// Of the packets that queue pair `qpn` sends on its `generation`-th connection: for every
// generation somewhere else in the 24 bits.
uint32_t first_psn(uint32_t qpn, uint32_t generation) {
  if (generation == 0) return 0;
  const uint64_t mixed = (uint64_t{generation} << 24 | qpn) * 0x9e3779b97f4a7c15u;
  return static_cast<uint32_t>(mixed >> 40);
}

// Zero.
Backing queue_memory(const std::shared_ptr<Gpu>& gpu, size_t bytes) {
  return gpu ? make_cuda_backing(gpu, bytes, "queues") : make_host_backing(bytes, "peal-queues");
}

// What a CPU thread shares with kernels on a GPU.
std::optional<Backing> far_memory(const std::shared_ptr<Gpu>& gpu, const Carrier& carrier,
                                  size_t bytes) {
  if (!gpu || carrier.doorbells != nullptr) return std::nullopt;
  return make_pinned_backing(gpu, bytes, "proxied queues");
}

}  // namespace

void QueueOptions::check() const {
  if (depth < mlx5::kMinDepth || depth > mlx5::kMaxDepth || (depth & (depth - 1)) != 0) {
    fail(ErrorCode::kInvalidArgument,
         "context: queue depth {} must be a power of two from {} to {} (PEAL_QUEUE_DEPTH)", depth,
         mlx5::kMinDepth, mlx5::kMaxDepth);
  }
  if (queues_per_peer == 0 || queues_per_peer > kMaxQueues) {
    fail(ErrorCode::kInvalidArgument,
         "context: {} queues per peer; 1 to {} are possible (PEAL_QUEUES)", queues_per_peer,
         kMaxQueues);
  }
}

Queues::Way::Way(const IbgdaNic& nic, const nic::Memory& memory, const Doorbell* doorbell,
                 size_t queues)
    : umem(doorbell != nullptr ? std::optional<nic::Umem>(std::in_place, nic.device, memory)
                               : std::nullopt),
      region(nic.device, nic.domain, memory),
      bells(doorbell != nullptr ? doorbell->bells(queues) : Bells(nullptr)) {}

Queues::Queues(const Rails& rails, const Carrier& carrier, Bootstrap& bootstrap,
               const QueueOptions& options)
    : rails_(rails),
      rails_used_(options.rails),
      layout_{checked_depth(options)},
      n_pes_(static_cast<uint32_t>(bootstrap.size())),
      queues_(options.queues_per_peer),
      memory_(queue_memory(rails.nics()[0].gpu, size_t{queues_} * n_pes_ * layout_.bytes())),
      far_memory_(far_memory(rails.nics()[0].gpu, carrier, memory_.bytes())) {
  for (size_t i = 0; i < rails.nics().size(); ++i) {
    const IbgdaNic& nic = rails.nics()[i];
    ways_.emplace_back(nic, memory_of(nic.gpu, shared().address(), shared().bytes()),
                       carrier.doorbells != nullptr ? &(*carrier.doorbells)[i] : nullptr,
                       size_t{queues_} * n_pes_);
  }
  create(carrier);
  for (uint32_t i = 0; i < count(); ++i) fill_in(i, options);
  connect(bootstrap);
}

const mlx5::SendQueue* Queues::state(uint32_t index) const {
  return reinterpret_cast<const mlx5::SendQueue*>(first() + index * stride());
}

mlx5::SendQueue Queues::failed(uint32_t index) const {
  const mlx5::SendQueue* const queue = state(index);
  mlx5::SendQueue copy{};
  // Edge M12: the kernel writes the status last, so what is copied after it is the whole record.
  // Its first two words are others' to try still.
  copy.error.status = memory_.load_word(&queue->error.status);
  if (copy.error.status != 0) {
    memory_.copy_out(&copy, reinterpret_cast<const std::byte*>(queue),
                     offsetof(mlx5::SendQueue, reserved));
    memory_.load_words(&copy.reserved, &queue->reserved, 5);
    memory_.copy_out(&copy.error.wqe_index,
                     reinterpret_cast<const std::byte*>(&queue->error.wqe_index),
                     sizeof(mlx5::QueueError) - offsetof(mlx5::QueueError, wqe_index));
  }
  return copy;
}

Queues::Progress Queues::progress(uint32_t index) const {
  const mlx5::SendQueue* const queue = state(index);
  const auto* const cqe = reinterpret_cast<const mlx5::Cqe*>(shared_base(index) + layout_.cqe());
  // completed <= rung <= published <= reserved, and so they stay when read from the back.
  static_assert(offsetof(mlx5::SendQueue, completed) ==
                offsetof(mlx5::SendQueue, reserved) + 4 * sizeof(uint64_t));
  uint64_t moving[5];  // reserved, published, last_published, rung, completed
  memory_.load_words(moving, &queue->reserved, 5);
  uint64_t last = 0;
  shared().load_words(&last, reinterpret_cast<const uint64_t*>(&cqe->opcode_qpn), 1);
  return {.peer = index % n_pes_,
          .qpn = ends_[index]->number(),
          .depth = layout_.depth,
          .reserved = moving[0],
          .published = moving[1],
          .rung = moving[3],
          .completed = moving[4],
          .last_cqe = swap_bytes(static_cast<uint32_t>(last >> 32)),
          .status = static_cast<Status>(memory_.load_word(&queue->error.status))};
}

std::vector<SelfTestResult> Queues::prove(const ProvingGround& ground, uint32_t tag,
                                          std::chrono::nanoseconds deadline) {
  const auto end = std::chrono::steady_clock::now() + deadline;
  const uint64_t cells = ground.cells + uint64_t{ground.pe} * ground.kSlots * kSelfTestCell;
  std::vector<SelfTestResult> failed;
  for (uint32_t first = 0; first < queues_ && failed.empty(); first += ground.kSlots) {
    std::vector<QueueUnderTest> round;
    const uint32_t last = std::min(first + ground.kSlots, queues_);
    for (uint32_t index = first * n_pes_; index < last * n_pes_; ++index) {
      const uint32_t pe = index % n_pes_;
      if (ground.absent[pe] != 0) continue;
      QueueUnderTest& q = round.emplace_back();
      q.index = index;
      q.memory = &shared();
      memory_.copy_out(&q.fields, reinterpret_cast<const std::byte*>(state(index)),
                       offsetof(mlx5::SendQueue, reserved));
      q.end = ends_[index].get();
      q.cell = cells + index / n_pes_ % ground.kSlots * kSelfTestCell;
      q.rkey = ground.rkeys[rail(index) * n_pes_ + pe];
      q.word_rkey = ground.word_rkeys[rail(index) * n_pes_ + pe];
    }
    failed = self_test(round, tag, end - std::chrono::steady_clock::now());
    for (const QueueUnderTest& q : round) change(q.index, start_behind_test);
  }
  return failed;
}

std::string Queues::describe_registration() const {
  // By the first NIC: the others are given the same memory in the same way.
  const std::string region = ways_[0].region.registration().describe();
  if (!ways_[0].umem) return "landing cells: " + region;
  const std::string umem = ways_[0].umem->registration().describe();
  const std::string parts = "rings, doorbell records and completions (one umem): " + umem;
  return parts + "; landing cells: " + region;
}

bool Queues::broken(uint32_t index) const {
  return memory_.load_word(&state(index)->error.status) != 0 ||
         nic_state(index) != nic::QueueState::kReadyToSend;
}

void Queues::change(uint32_t index, void (*edit)(mlx5::SendQueue&)) {
  std::byte* const at = base(index) + layout_.state();
  mlx5::SendQueue queue;
  memory_.copy_out(&queue, at, sizeof(queue));
  edit(queue);
  memory_.copy_in(at, &queue, sizeof(queue));
}

void Queues::reset(uint32_t index) {
  ends_[index]->to_reset();  // first: now the NIC writes none of what follows
  const mlx5::Cqe none = nic::QueueMemoryLayout::no_completion();
  shared().copy_in(shared_base(index) + layout_.cqe(), &none, sizeof(none));
  shared().zero(index * stride() + layout_.doorbell(), sizeof(mlx5::DoorbellRecord));
  renew_landing(index);
  change(index, start_afresh);
}

void Queues::reconnect(uint32_t index, uint32_t generation) {
  QueueEnd& end = *ends_[index];
  nic::RemoteQueue remote = remotes_[index];
  remote.psn = first_psn(remote.qpn, generation);
  end.connect(remote, first_psn(end.number(), generation));
}

void Queues::renew_landing(uint32_t index) {
  shared().zero(index * stride() + layout_.landing(),
                (mlx5::kLandingCells + 1) * sizeof(mlx5::LandingCell));
  change(index, [](mlx5::SendQueue& queue) { queue.landing_ticket = 0; });
}

void Queues::close(uint32_t index, Status status) {
  auto& error = reinterpret_cast<mlx5::SendQueue*>(base(index) + layout_.state())->error;
  memory_.store_word(&error.claimed, 1);  // no kernel writes a record of its own
  memory_.store_word(&error.status, static_cast<uint32_t>(status));
}

void Queues::create(const Carrier& carrier) {
  const uint32_t total = queues_ * n_pes_;
  const mlx5::Cqe none = nic::QueueMemoryLayout::no_completion();  // all else is zero already
  ends_.reserve(total);
  for (uint32_t i = 0; i < total; ++i) {
    shared().copy_in(shared_base(i) + layout_.cqe(), &none, sizeof(none));
    if (carrier.doorbells == nullptr) {
      ends_.push_back(
          std::make_unique<ProxyEnd>(nic_of(i), (*carrier.proxies)[nic_index(i)], proxy_memory(i)));
      continue;
    }
    const auto place = nic::QueuePlace::of(layout_, *ways_[nic_index(i)].umem, i * stride());
    ends_.push_back(std::make_unique<IbgdaEnd>(nic_of(i), (*carrier.doorbells)[nic_index(i)].uar(),
                                               place, layout_.depth));
  }
}

ProxyMemory Queues::proxy_memory(uint32_t index) const {
  std::byte* const begin = shared_base(index);
  return {.ring = begin + layout_.send_queue(),
          .depth = layout_.depth,
          .record = reinterpret_cast<const mlx5::DoorbellRecord*>(begin + layout_.doorbell()),
          .cqe = reinterpret_cast<mlx5::Cqe*>(begin + layout_.cqe()),
          .landing = reinterpret_cast<mlx5::LandingCell*>(begin + layout_.landing()),
          .landing_address = index * stride() + layout_.landing(),
          .landing_lkey = ways_[nic_index(index)].region.lkey().host()};
}

void Queues::connect(Bootstrap& bootstrap) {
  std::vector<Endpoint> mine(count());
  for (uint32_t i = 0; i < count(); ++i) {
    mine[i] = endpoint_of(nic_of(i).device, ends_[i]->number());
  }
  std::vector<Endpoint> all(size_t{count()} * n_pes_);
  bootstrap.allgather(std::as_bytes(std::span(mine)), std::as_writable_bytes(std::span(all)));
  std::vector<Endpoint> ends(n_pes_);  // of queue q, one of each PE
  for (uint32_t q = 0; q < queues_; ++q) {
    for (uint32_t pe = 0; pe < n_pes_; ++pe) ends[pe] = all[size_t{pe} * count() + q * n_pes_];
    check_ends(ends);
  }
  const auto me = static_cast<uint32_t>(bootstrap.rank());
  for (uint32_t q = 0; q < queues_; ++q) {
    for (uint32_t pe = 0; pe < n_pes_; ++pe) {
      const uint32_t index = q * n_pes_ + pe;
      const Endpoint& peer = all[size_t{pe} * count() + q * n_pes_ + me];
      remotes_.push_back(
          {.qpn = peer.qpn, .path = path_to(nic_of(index).device, mine[index], peer)});
      reconnect(index, 0);
    }
  }
  // Every queue can receive before anybody's kernel sends.
  bootstrap.barrier();
}

void Queues::fill_in(uint32_t index, const QueueOptions& options) {
  static_assert(sizeof(mlx5::SendQueue) <= nic::QueueMemoryLayout::kStateBytes);
  // Kernels' cells, the sink, and one that a proxy needs.
  static_assert((mlx5::kLandingCells + 2) * sizeof(mlx5::LandingCell) <=
                nic::QueueMemoryLayout::kLandingBytes);
  const uint64_t offset = index * stride();
  std::byte* const begin = shared_base(index);
  mlx5::SendQueue queue{};
  queue.blocks = reinterpret_cast<mlx5::Wqebb*>(begin + layout_.send_queue());
  queue.doorbell_record = reinterpret_cast<mlx5::DoorbellRecord*>(begin + layout_.doorbell());
  const Way& way = ways_[nic_index(index)];
  // A proxy watches the record. What kernels store beside it nobody reads.
  queue.doorbell =
      way.umem ? way.bells.of(index) : reinterpret_cast<uint64_t*>(begin + layout_.cq_doorbell());
  queue.ring_twice = way.umem && !nic_of(index).device.software() ? 1 : 0;
  queue.cqe = reinterpret_cast<mlx5::Cqe*>(begin + layout_.cqe());
  queue.landing = reinterpret_cast<mlx5::LandingCell*>(begin + layout_.landing());
  queue.stop = options.stop;
  queue.alarm = options.alarm;
  queue.landing_address = offset + layout_.landing();
  queue.landing_lkey = way.region.lkey();
  queue.rail = rail(index);
  queue.mask = options.depth - 1;
  queue.qpn_shifted = Be32{ends_[index]->number() << 8};
  queue.peer = index % n_pes_;
  queue.timeout_ns = options.timeout_ns;
  start_afresh(queue);
  memory_.copy_in(base(index) + layout_.state(), &queue, sizeof(queue));
}

}  // namespace peal
