// SPDX-License-Identifier: Apache-2.0
//
// Set-up of the IBGDA transport: create all queues, exchange numbers once, connect, fill in the
// device's view.
#include "host/transport/ibgda.h"

#include <unistd.h>

#include <cstring>
#include <optional>
#include <span>
#include <utility>

#include "host/base/error.h"
#include "host/nic/choice.h"
#include "host/nic/hca_list.h"

namespace peal {
namespace {

// Per peer. A GPU whose every multiprocessor rings for each message is served best by hundreds.
constexpr uint32_t kMaxQueues = 1024;

// What one end of a queue tells the other.
struct Endpoint {
  uint32_t qpn;
  uint32_t lid;
};

uint32_t checked_depth(const QueueOptions& options) {
  options.check();
  return options.depth;
}

// Next to a GPU it is worth its fences: there the NIC itself may be many lanes of one.
nic::Ordering payload_ordering(RelaxedOrdering asked, bool on_gpu) {
  const bool relaxed = asked == RelaxedOrdering::kOn || (asked == RelaxedOrdering::kAuto && on_gpu);
  return relaxed ? nic::Ordering::kRelaxed : nic::Ordering::kStrict;
}

// The NIC nearest to `gpu`, which may be null; `why` gets the reason.
nic::Device open_device(const Config& config, const Gpu* gpu, std::string& why) {
  const auto library = nic::VerbsLibrary::open(nic::LibrarySearch::from(config));
  std::optional<nic::GpuPlace> place;
  if (gpu) place = {gpu->index(), gpu->pci_address()};
  const nic::Choice choice = nic::choose_nics(
      *library, place, {.list = nic::HcaList::from(config, library->software()), .rails = 1});
  why = choice.why;
  return nic::Device(library, choice.names[0]);
}

// Nothing posted, nothing failed.
void start_afresh(mlx5::SendQueue& queue) {
  queue.reserved = queue.published = queue.rung = queue.completed = 0;
  queue.last_published = ~uint64_t{0};
  queue.landing_ticket = 0;
  queue.ring_lock = 0;
  queue.error = {};
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

// Lets the GPU's kernels ring, if there are such and they cannot yet. A software NIC's page is
// memory; a ConnectX's are registers, which CUDA maps if asked for that.
PinnedRange pin_page(const IbgdaNic& nic, const nic::Uar& uar) {
  auto* const page = static_cast<std::byte*>(uar.base());
  const auto bytes = static_cast<size_t>(::sysconf(_SC_PAGESIZE));
  if (!nic.gpu || nic.gpu->knows(page)) return {};
  return nic.device.software() ? pin(nic.gpu, page, bytes) : pin_registers(nic.gpu, page, bytes);
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

IbgdaNic::IbgdaNic(const Config& config, std::shared_ptr<Gpu> kernels_gpu)
    : gpu(std::move(kernels_gpu)),
      payload(payload_ordering(config.relaxed_ordering, gpu != nullptr)),
      device(open_device(config, gpu.get(), why)),
      domain(device) {}

Doorbell::Doorbell(const IbgdaNic& nic)
    : uar_(nic.device),
      pinned_(pin_page(nic, uar_)),
      address_(static_cast<uint64_t*>(pinned_ ? nic.gpu->pointer_to(uar_.doorbell())
                                              : uar_.doorbell())) {}

IbgdaQueues::IbgdaQueues(const IbgdaNic& nic, const Doorbell& doorbell, Bootstrap& bootstrap,
                         const QueueOptions& options)
    : layout_{checked_depth(options)},
      n_pes_(static_cast<uint32_t>(bootstrap.size())),
      queues_(options.queues_per_peer),
      memory_(queue_memory(nic.gpu, size_t{queues_} * n_pes_ * layout_.bytes())),
      umem_(nic.device, memory_.address(), memory_.bytes()),
      region_(nic.device, nic.domain, memory_.address(), memory_.bytes()) {
  create(nic, doorbell.uar(), options.depth);
  for (uint32_t i = 0; i < count(); ++i) fill_in(i, nic, doorbell.address(), options);
  connect(nic.device, bootstrap);
}

const mlx5::SendQueue* IbgdaQueues::state(uint32_t index) const {
  return reinterpret_cast<const mlx5::SendQueue*>(first() + index * stride());
}

mlx5::SendQueue IbgdaQueues::failed(uint32_t index) const {
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

IbgdaQueues::Progress IbgdaQueues::progress(uint32_t index) const {
  const mlx5::SendQueue* const queue = state(index);
  const auto* const cqe =
      reinterpret_cast<const mlx5::Cqe*>(memory_.address() + index * stride() + layout_.cqe());
  // completed <= rung <= published <= reserved, and so they stay when read from the back.
  static_assert(offsetof(mlx5::SendQueue, completed) ==
                offsetof(mlx5::SendQueue, reserved) + 4 * sizeof(uint64_t));
  uint64_t moving[5];  // reserved, published, last_published, rung, completed
  memory_.load_words(moving, &queue->reserved, 5);
  uint64_t last = 0;
  memory_.load_words(&last, reinterpret_cast<const uint64_t*>(&cqe->opcode_qpn), 1);
  return {.peer = index % n_pes_,
          .qpn = pairs_[index].number(),
          .depth = layout_.depth,
          .reserved = moving[0],
          .published = moving[1],
          .rung = moving[3],
          .completed = moving[4],
          .last_cqe = swap_bytes(static_cast<uint32_t>(last >> 32)),
          .status = static_cast<Status>(memory_.load_word(&queue->error.status))};
}

bool IbgdaQueues::broken(uint32_t index) const {
  return memory_.load_word(&state(index)->error.status) != 0 ||
         nic_state(index) != nic::QueueState::kReadyToSend;
}

void IbgdaQueues::change(uint32_t index, void (*edit)(mlx5::SendQueue&)) {
  std::byte* const at = base(index) + layout_.state();
  mlx5::SendQueue queue;
  memory_.copy_out(&queue, at, sizeof(queue));
  edit(queue);
  memory_.copy_in(at, &queue, sizeof(queue));
}

void IbgdaQueues::reset(uint32_t index) {
  pairs_[index].to_reset();  // first: now the NIC writes none of what follows
  const mlx5::Cqe none = nic::QueueMemoryLayout::no_completion();
  memory_.copy_in(base(index) + layout_.cqe(), &none, sizeof(none));
  memory_.zero(index * stride() + layout_.doorbell(), sizeof(mlx5::DoorbellRecord));
  renew_landing(index);
  change(index, start_afresh);
}

void IbgdaQueues::reconnect(uint32_t index, uint32_t generation) {
  nic::QueuePair& pair = pairs_[index];
  nic::RemoteQueue remote = remotes_[index];
  remote.psn = first_psn(remote.qpn, generation);
  pair.to_init();
  pair.to_rtr(remote);
  pair.to_rts(first_psn(pair.number(), generation));
}

void IbgdaQueues::renew_landing(uint32_t index) {
  memory_.zero(index * stride() + layout_.landing(),
               (mlx5::kLandingCells + 1) * sizeof(mlx5::LandingCell));
  change(index, [](mlx5::SendQueue& queue) { queue.landing_ticket = 0; });
}

void IbgdaQueues::close(uint32_t index, Status status) {
  auto& error = reinterpret_cast<mlx5::SendQueue*>(base(index) + layout_.state())->error;
  memory_.store_word(&error.claimed, 1);  // no kernel writes a record of its own
  memory_.store_word(&error.status, static_cast<uint32_t>(status));
}

void IbgdaQueues::create(const IbgdaNic& nic, const nic::Uar& uar, uint32_t depth) {
  const uint32_t total = queues_ * n_pes_;
  const mlx5::Cqe none = nic::QueueMemoryLayout::no_completion();  // all else is zero already
  cqs_.reserve(total);
  pairs_.reserve(total);
  for (uint32_t i = 0; i < total; ++i) {
    const uint64_t offset = i * stride();
    memory_.copy_in(memory_.address() + offset + layout_.cqe(), &none, sizeof(none));
    const auto place = nic::QueuePlace::of(layout_, umem_, offset);
    cqs_.emplace_back(nic.device, uar, place);
    pairs_.emplace_back(nic.device, nic.domain, uar, cqs_.back(), place,
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
      remotes_.push_back({.qpn = peer.qpn, .lid = static_cast<uint16_t>(peer.lid)});
      reconnect(q * n_pes_ + pe, 0);
    }
  }
  // Every queue can receive before anybody's kernel sends.
  bootstrap.barrier();
}

void IbgdaQueues::fill_in(uint32_t index, const IbgdaNic& nic, uint64_t* doorbell,
                          const QueueOptions& options) {
  static_assert(sizeof(mlx5::SendQueue) <= nic::QueueMemoryLayout::kStateBytes);
  static_assert((mlx5::kLandingCells + 1) * sizeof(mlx5::LandingCell) <=
                nic::QueueMemoryLayout::kLandingBytes);
  const uint64_t offset = index * stride();
  std::byte* const begin = base(index);
  mlx5::SendQueue queue{};
  queue.blocks = reinterpret_cast<mlx5::Wqebb*>(begin + layout_.send_queue());
  queue.doorbell_record = reinterpret_cast<mlx5::DoorbellRecord*>(begin + layout_.doorbell());
  queue.doorbell = doorbell;
  queue.ring_twice = nic.device.software() ? 0 : 1;
  queue.cqe = reinterpret_cast<mlx5::Cqe*>(begin + layout_.cqe());
  queue.landing = reinterpret_cast<mlx5::LandingCell*>(begin + layout_.landing());
  queue.stop = options.stop;
  queue.alarm = options.alarm;
  queue.landing_address = offset + layout_.landing();
  queue.landing_lkey = region_.lkey();
  queue.mask = options.depth - 1;
  queue.qpn_shifted = Be32{pairs_[index].number() << 8};
  queue.peer = index % n_pes_;
  queue.timeout_ns = options.timeout_ns;
  start_afresh(queue);
  memory_.copy_in(begin + layout_.state(), &queue, sizeof(queue));
}

}  // namespace peal
