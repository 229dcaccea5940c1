// SPDX-License-Identifier: Apache-2.0
//
// Queues of an mlx5, as the host fills them in, posts to them and reads them: by copies where they
// are a GPU's.
#include "host/nic/model.h"

#include <fmt/format.h>

#include <utility>

#include "device/mlx5/nic.h"
#include "host/nic/registration.h"

namespace peal::nic {
namespace {

static_assert(QueueMemoryLayout::kBlockBytes == mlx5::kWqebbBytes);
static_assert(QueueMemoryLayout::kLine >= sizeof(mlx5::Cqe));
static_assert(QueueMemoryLayout::kLine / 2 >= sizeof(mlx5::DoorbellRecord));

// The CQE's last 8 bytes in one word, as kernels read them.
mlx5::CqeTail tail_of(const Backing& backing, const mlx5::Cqe* cqe) {
  uint64_t tail = 0;
  backing.load_words(&tail, reinterpret_cast<const uint64_t*>(&cqe->opcode_qpn), 1);
  return mlx5::CqeTail(tail);
}

}  // namespace

Model::WorkQueue work_queue(std::byte* begin, const QueueMemoryLayout& layout, uint64_t* doorbell,
                            bool twice) {
  mlx5::WorkQueue queue{};
  queue.blocks = reinterpret_cast<mlx5::Wqebb*>(begin + layout.send_queue());
  queue.doorbell_record = reinterpret_cast<mlx5::DoorbellRecord*>(begin + layout.doorbell());
  // What kernels store beside the record nobody reads.
  queue.doorbell =
      doorbell != nullptr ? doorbell : reinterpret_cast<uint64_t*>(begin + layout.cq_doorbell());
  queue.cqe = reinterpret_cast<mlx5::Cqe*>(begin + layout.cqe());
  queue.ring_twice = twice ? 1 : 0;
  return queue;
}

void set_number(const Backing& backing, Model::WorkQueue* queue, uint32_t number) {
  backing.store_word(&queue->qpn_shifted.raw, Be32{number << 8}.raw);
}

uint32_t number_of(const Backing& backing, const Model::WorkQueue* queue) {
  return Be32::from_raw(backing.load_word(&queue->qpn_shifted.raw)).host() >> 8;
}

std::string describe_completion(const Backing& backing, const std::byte* begin,
                                const QueueMemoryLayout& layout) {
  const auto* const cqe = reinterpret_cast<const mlx5::Cqe*>(begin + layout.cqe());
  const mlx5::CqeTail tail = tail_of(backing, cqe);
  if (tail.none()) return "none";
  return fmt::format("{}{}", tail.failed() ? "error of " : "", tail.count());
}

// The last request of a queue asks for its completion. That names the request's first block, and
// how many it has is in the ring.
bool answered(const Backing& backing, const std::byte* begin, const QueueMemoryLayout& layout,
              uint64_t rung) {
  constexpr uint64_t kSegmentsOfBlock = mlx5::kWqebbBytes / mlx5::kSegmentBytes;
  const auto* const cqe = reinterpret_cast<const mlx5::Cqe*>(begin + layout.cqe());
  const mlx5::CqeTail tail = tail_of(backing, cqe);
  if (tail.failed()) return true;
  if (tail.none()) return false;
  const uint64_t behind = (rung - tail.count()) & Model::kCountMask;
  if (behind == 0 || behind > mlx5::kMaxWqeSegments / kSegmentsOfBlock + 1) return false;
  const uint64_t slot = (rung - behind) & (layout.depth - 1);
  const auto* const control = reinterpret_cast<const mlx5::ControlSegment*>(
      begin + layout.send_queue() + slot * mlx5::kWqebbBytes);
  const uint32_t segments = Be32::from_raw(backing.load_word(&control->qpn_ds.raw)).host() & 0x3f;
  return behind == (segments + kSegmentsOfBlock - 1) / kSegmentsOfBlock;
}

NicKey key_of(uint32_t number) { return mlx5::key(number); }

uint64_t post(const Backing& backing, const SendQueue& queue, uint64_t index,
              const HostRequest& request) {
  const mlx5::Header header{.index = index, .qpn_shifted = queue.nic.qpn_shifted};
  std::visit(
      [&](const auto& one) {
        const auto wqe = mlx5::compose(header, one);
        static_assert(decltype(wqe)::kBlocks == 1);
        backing.copy_in(queue.nic.block(index, queue.mask), wqe.line, sizeof(wqe.line));
      },
      request);
  const Be32 posted = mlx5::posted_count(index + 1);
  backing.store_word(&queue.nic.doorbell_record->send.raw, posted.raw);
  uint64_t bell = 0;
  mlx5::ring_doorbell(&bell, posted, queue.nic.qpn_shifted);
  return bell;
}

std::optional<Ended> look(const Backing& backing, const SendQueue& queue, uint64_t index) {
  const mlx5::CqeTail tail = tail_of(backing, queue.nic.cqe);
  if (tail.none()) return std::nullopt;
  if (tail.failed()) {
    mlx5::Cqe cqe;
    backing.copy_out(&cqe, queue.nic.cqe, sizeof(cqe));
    const auto* const raw = reinterpret_cast<const uint8_t*>(&cqe);
    return Ended{true, raw[mlx5::kCqeSyndromeByte], raw[mlx5::kCqeVendorSyndromeByte]};
  }
  if (tail.count() != (index & Model::kCountMask)) return std::nullopt;
  return Ended{false, 0, 0};
}

const char* request_name(uint8_t opcode) {
  using mlx5::Opcode;
  static constexpr std::pair<Opcode, const char*> kNames[] = {
      {Opcode::kNop, "NOP"},
      {Opcode::kRdmaWrite, "RDMA_WRITE"},
      {Opcode::kRdmaWriteImm, "RDMA_WRITE_IMM"},
      {Opcode::kRdmaRead, "RDMA_READ"},
      {Opcode::kAtomicCompareSwap, "ATOMIC_CS"},
      {Opcode::kAtomicFetchAdd, "ATOMIC_FA"},
      {Opcode::kAtomicMaskedCompareSwap, "ATOMIC_MASKED_CS"},
      {Opcode::kAtomicMaskedFetchAdd, "ATOMIC_MASKED_FA"},
      {Opcode::kDump, "DUMP"}};
  for (const auto& [known, name] : kNames) {
    if (known == static_cast<Opcode>(opcode)) return name;
  }
  return "operation";
}

}  // namespace peal::nic
