// SPDX-License-Identifier: Apache-2.0
//
// The queues' memory, and what the host reads and writes of it. The life of a queue: queue_life.cc.
#include "host/transport/queues.h"

#include <utility>

#include "host/base/error.h"
#include "host/nic/model.h"

namespace peal {
namespace {

// Per peer. A GPU whose every multiprocessor rings for each message is served best by hundreds.
constexpr uint32_t kMaxQueues = 1024;

const QueueShape& checked(const QueueShape& shape) {
  shape.check();
  return shape;
}

// What a CPU thread shares with kernels on a GPU.
std::optional<Backing> host_memory(const std::shared_ptr<Gpu>& gpu, const Carrier& carrier,
                                   size_t bytes) {
  if (!gpu || carrier.doorbells != nullptr) return std::nullopt;
  return make_pinned_backing(gpu, bytes, "proxied queues");
}

// In whole pages, as memory is registered.
size_t mark_bytes(uint32_t rows, uint32_t n_pes) {
  constexpr size_t kPage = 4096;
  return (mark_words(rows, n_pes) * sizeof(uint64_t) + kPage - 1) / kPage * kPage;
}

// A NIC that reads rings and records from the kernels' GPU reads them in that GPU's second-level
// cache, which is as far as a fence of GPU scope reaches: a card by PCIe, the software NIC's kernel
// there or on another GPU by NVLink, its threads by the copy engine.
NicFence nic_fence(bool rung_by_gpu, FenceKind asked) {
  return rung_by_gpu && asked != FenceKind::kSystem ? NicFence::kGpu : NicFence::kSystem;
}

}  // namespace

void QueueShape::check() const {
  if (depth < kMinQueueDepth || depth > nic::Model::kMaxDepth || (depth & (depth - 1)) != 0) {
    fail(ErrorCode::kInvalidArgument,
         "context: queue depth {} must be a power of two from {} to {} (PEAL_QUEUE_DEPTH)", depth,
         kMinQueueDepth, nic::Model::kMaxDepth);
  }
  if (queues_per_peer == 0 || queues_per_peer > kMaxQueues) {
    fail(ErrorCode::kInvalidArgument,
         "context: {} queues per peer; 1 to {} are possible (PEAL_QUEUES)", queues_per_peer,
         kMaxQueues);
  }
}

Queues::Registered::Registered(const IbgdaNic& nic, const nic::Memory& memory,
                               const Doorbell* doorbell, size_t queues)
    : queue_region(doorbell != nullptr
                       ? std::optional<nic::QueueRegion>(std::in_place, nic.device, memory)
                       : std::nullopt),
      region(nic.device, nic.domain, memory),
      bells(doorbell != nullptr ? doorbell->bells(queues) : Bells(nullptr)) {}

Queues::Queues(const Rails& rails, const Carrier& carrier, uint32_t n_pes, const QueueShape& shape,
               const QueueWiring& wiring)
    : rails_(rails),
      carrier_(carrier),
      shape_(checked(shape)),
      layout_{shape.depth},
      n_pes_(n_pes),
      memory_(queue_memory(rails.nics()[0].gpu,
                           size_t{shape.queues_per_peer} * n_pes * layout_.bytes() +
                               mark_bytes(shape.queues_per_peer, n_pes))),
      host_memory_(host_memory(rails.nics()[0].gpu, carrier, memory_.bytes())),
      ends_(size_t{shape.queues_per_peer} * n_pes),
      remotes_(ends_.size()),
      owners_(ends_.size()),
      start_(wiring.tested ? kSelfTestBlocks : 0) {
  for (size_t i = 0; i < rails.nics().size(); ++i) {
    const IbgdaNic& nic = rails.nics()[i];
    registered_.emplace_back(nic, memory_of(nic.gpu, shared().address(), shared().bytes()),
                             carrier.doorbells != nullptr ? &(*carrier.doorbells)[i] : nullptr,
                             ends_.size());
  }
  for (uint32_t i = 0; i < count(); ++i) fill_in(i, wiring);
}

SendQueue* Queues::state(uint32_t index) const {
  return reinterpret_cast<SendQueue*>(first() + index * stride());
}

SendQueue Queues::failed(uint32_t index) const {
  const SendQueue* const queue = state(index);
  SendQueue copy{};
  // kErrorBeforeStatus: the kernel writes the status last, so what is copied after it is the whole
  // record. The two words in front of it kernels may still exchange: they are not copied.
  copy.error.status = memory_.load_word(&queue->error.status);
  if (copy.error.status != 0) {
    memory_.copy_out(&copy, queue, offsetof(SendQueue, reserved));
    memory_.load_words(&copy.reserved, &queue->reserved, 4);
    memory_.copy_out(&copy.error.wqe_index, &queue->error.wqe_index,
                     sizeof(QueueError) - offsetof(QueueError, wqe_index));
  }
  return copy;
}

Queues::Progress Queues::progress(uint32_t index) const {
  const SendQueue* const queue = state(index);
  static_assert(offsetof(SendQueue, completed) ==
                offsetof(SendQueue, reserved) + 3 * sizeof(uint64_t));
  uint64_t moving[4];  // reserved, posted, rung, completed
  memory_.load_words(moving, &queue->reserved, 4);
  const uint64_t published = posted_end(moving[1]);
  return {.peer = index % n_pes_,
          .qpn = nic::number_of(memory_, &queue->nic),
          .depth = layout_.depth,
          .reserved = moving[0] & kReservedCount,
          .published = published,
          .rung = moving[2],
          // It says where the last completed request begins, which may have several blocks.
          .completed = is_under_way(moving[1], moving[3]) ? moving[3] : published,
          .status = static_cast<Status>(memory_.load_word(&queue->error.status))};
}

std::vector<uint32_t> Queues::marked() const {
  std::vector<uint64_t> words(mark_words(shape_.queues_per_peer, n_pes_));
  memory_.copy_out(words.data(), marks(), words.size() * sizeof(uint64_t));
  std::vector<uint32_t> found;
  for (uint32_t index = 0; index < count(); ++index) {
    const uint32_t mark = mark_index(index / n_pes_, index % n_pes_, n_pes_, shape_.owned);
    if ((words[mark / 64] >> mark % 64 & 1) != 0) found.push_back(index);
  }
  return found;
}

bool Queues::under_way(uint32_t index) const {
  const Progress at = progress(index);
  // What was reserved and not rung nobody rings any more.
  return at.status == Status::kOk && at.rung != at.completed &&
         !nic::answered(shared(), shared_base(index), layout_, at.rung);
}

std::string Queues::last_completion(uint32_t index) const {
  return nic::describe_completion(shared(), shared_base(index), layout_);
}

std::string Queues::describe_registration() const {
  // Described for the first NIC: the others register the same memory in the same way.
  const std::string region = registered_[0].region.registration().describe();
  if (!registered_[0].queue_region) return "landing cells: " + region;
  const std::string how = registered_[0].queue_region->registration().describe();
  const std::string parts = "rings, doorbell records and completions (one umem): " + how;
  return parts + "; landing cells: " + region;
}

void Queues::change(uint32_t index, const std::function<void(SendQueue&)>& edit) {
  SendQueue* const at = state(index);
  SendQueue queue;
  memory_.copy_out(&queue, at, sizeof(queue));
  edit(queue);
  memory_.copy_in(at, &queue, sizeof(queue));
}

nic::CarriedMemory Queues::carried_memory(uint32_t index) const {
  return {.begin = shared_base(index),
          .layout = layout_,
          .landing_address = index * stride() + layout_.landing(),
          .landing_key = registered_[nic_index(index)].region.lkey()};
}

void Queues::start_afresh(SendQueue& queue) const {
  queue.posted = posted_word(start_, 1);
  queue.rung = queue.settled = queue.looked = start_;
  queue.reserved = start_ | kUnmarked;
  queue.completed = start_ - kUnconnected;
  queue.landing_ticket = 0;
  queue.error = {};
}

void Queues::fill_in(uint32_t index, const QueueWiring& wiring) {
  static_assert(sizeof(SendQueue) <= nic::QueueMemoryLayout::kStateBytes);
  // Kernels' cells, the sink, and one that a proxy needs.
  static_assert((kLandingCells + 2) * sizeof(LandingCell) <= nic::QueueMemoryLayout::kLandingBytes);
  const uint64_t offset = index * stride();
  std::byte* const begin = shared_base(index);
  const auto none = nic::QueueMemoryLayout::no_completion();  // all else is zero already
  shared().copy_in(begin + layout_.cqe(), none.data(), none.size());
  SendQueue queue{};
  const Registered& known = registered_[nic_index(index)];
  const IbgdaNic& nic = nic_of(index);
  queue.nic = nic::work_queue(begin, layout_, known.queue_region ? known.bells.of(index) : nullptr,
                              known.queue_region && !nic.device.software());
  queue.to_cells = known.queue_region ? 0 : 1;
  queue.fence = nic_fence(nic.gpu && known.queue_region && !known.bells.assisted(), wiring.fence);
  queue.landing = reinterpret_cast<LandingCell*>(begin + layout_.landing());
  queue.stop = wiring.stop;
  queue.alarm = wiring.alarm;
  queue.waits = wiring.waits;
  queue.times = wiring.times;
  queue.ready = reinterpret_cast<uint32_t*>(memory_.address() + offset + layout_.ready());
  queue.landing_address = offset + layout_.landing();
  queue.landing_key = known.region.lkey();
  queue.rail = rail(index);
  const uint32_t mark = mark_index(index / n_pes_, index % n_pes_, n_pes_, shape_.owned);
  queue.marks = marks() + mark / 64;
  queue.mark_bit = uint64_t{1} << mark % 64;
  queue.mask = layout_.depth - 1;
  queue.peer = index % n_pes_;
  queue.timeout_ns = wiring.timeout_ns;
  queue.request = &wiring.requests[queue.peer];
  start_afresh(queue);
  memory_.copy_in(state(index), &queue, sizeof(queue));
}

}  // namespace peal
