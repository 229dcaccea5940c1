// SPDX-License-Identifier: Apache-2.0
//
// ibv_post_send and ibv_post_recv: work requests become entries of the queue pair's own rings.
//
//   ibv_send_wr -> control | remote address | atomic | data   -> ring -> doorbell record (release)
//   ibv_recv_wr -> scatter list, ended by an invalid key      -> ring -> doorbell record (release)
//
// The ledger remembers what each entry was called until its completion is polled; only then is its
// room free again.
#include <algorithm>
#include <array>
#include <cstring>
#include <span>

#include "device/mlx5/layout.h"
#include "softnic/abi/verbs_queues.h"
#include "softnic/word.h"

namespace peal::softnic::abi {
namespace {

/// One WQE, put together beside the ring. What it cannot hold is refused at creation.
class Composed {
 public:
  template <class Segment>
  void add(const Segment& segment) {
    append(&segment, sizeof segment);
  }
  void append(const void* from, size_t bytes) {
    std::memcpy(memory_.data() + bytes_, from, bytes);
    bytes_ += bytes;
  }
  void pad() { bytes_ = (bytes_ + mlx5::kSegmentBytes - 1) & ~size_t{mlx5::kSegmentBytes - 1}; }
  void begin_with(const mlx5::ControlSegment& control) {
    std::memcpy(memory_.data(), &control, sizeof control);
  }
  uint32_t units() const { return static_cast<uint32_t>(bytes_ / mlx5::kSegmentBytes); }
  uint32_t blocks() const {
    return static_cast<uint32_t>((bytes_ + mlx5::kWqebbBytes - 1) / mlx5::kWqebbBytes);
  }
  /// Into the ring of `ring_bytes` from block `index` on, around its end.
  void copy_to(std::byte* ring, size_t ring_bytes, uint64_t index) const {
    size_t at = (index * mlx5::kWqebbBytes) & (ring_bytes - 1);
    size_t first = std::min(bytes_, ring_bytes - at);
    std::memcpy(ring + at, memory_.data(), first);
    std::memcpy(ring, memory_.data() + first, bytes_ - first);
  }

 private:
  static constexpr size_t kLargest = 640;  // 48 of head, 516 inline or 30 data segments, padded
  alignas(64) std::array<std::byte, kLargest> memory_ = {};
  size_t bytes_ = 0;
};

mlx5::Opcode opcode_of(ibv_wr_opcode opcode) {
  switch (opcode) {
    case IBV_WR_SEND:
      return mlx5::Opcode::kSend;
    case IBV_WR_SEND_WITH_IMM:
      return mlx5::Opcode::kSendImm;
    case IBV_WR_RDMA_WRITE:
      return mlx5::Opcode::kRdmaWrite;
    case IBV_WR_RDMA_WRITE_WITH_IMM:
      return mlx5::Opcode::kRdmaWriteImm;
    case IBV_WR_RDMA_READ:
      return mlx5::Opcode::kRdmaRead;
    case IBV_WR_ATOMIC_CMP_AND_SWP:
      return mlx5::Opcode::kAtomicCompareSwap;
    case IBV_WR_ATOMIC_FETCH_AND_ADD:
      return mlx5::Opcode::kAtomicFetchAdd;
    default:
      refuse(EINVAL);
  }
}

bool is_send(mlx5::Opcode opcode) {
  return opcode == mlx5::Opcode::kSend || opcode == mlx5::Opcode::kSendImm;
}

bool is_atomic(mlx5::Opcode opcode) {
  return opcode == mlx5::Opcode::kAtomicCompareSwap || opcode == mlx5::Opcode::kAtomicFetchAdd;
}

mlx5::DataSegment data_segment(const ibv_sge& sge) {
  return {Be32(sge.length), Be32(sge.lkey), Be64(sge.addr)};
}

/// The caller's list. Its entries of no bytes go into no queue: a byte count of 0 means 2^31 there.
template <class Request>
std::span<const ibv_sge> list_of(const Request& request, uint32_t limit) {
  if (request.num_sge < 0 || static_cast<uint32_t>(request.num_sge) > limit) refuse(EINVAL);
  std::span<const ibv_sge> list(request.sg_list, static_cast<size_t>(request.num_sge));
  bool too_long =
      std::ranges::any_of(list, [](const ibv_sge& s) { return s.length >= mlx5::kInlineFlag; });
  if (too_long) refuse(EINVAL);
  return list;
}

void add_remote(const ibv_send_wr& wr, mlx5::Opcode opcode, Composed& wqe) {
  if (!is_atomic(opcode)) {
    wqe.add(mlx5::RemoteAddressSegment{Be64(wr.wr.rdma.remote_addr), Be32(wr.wr.rdma.rkey), {}});
    return;
  }
  const auto& atomic = wr.wr.atomic;
  wqe.add(mlx5::RemoteAddressSegment{Be64(atomic.remote_addr), Be32(atomic.rkey), {}});
  if (opcode == mlx5::Opcode::kAtomicCompareSwap) {
    wqe.add(mlx5::AtomicSegment{Be64(atomic.swap), Be64(atomic.compare_add)});
  } else {
    wqe.add(mlx5::AtomicSegment{Be64(atomic.compare_add), {}});
  }
}

void add_inline(std::span<const ibv_sge> list, uint32_t limit, Composed& wqe) {
  uint64_t bytes = 0;
  for (const ibv_sge& sge : list) bytes += sge.length;
  if (bytes > limit) refuse(ENOMEM);  // what the real provider answers
  if (bytes == 0) return;
  wqe.add(mlx5::InlineHeader{Be32(static_cast<uint32_t>(bytes) | mlx5::kInlineFlag)});
  for (const ibv_sge& sge : list)
    if (sge.length > 0) wqe.append(reinterpret_cast<const void*>(sge.addr), sge.length);
  wqe.pad();
}

/// fence | completion | solicited of the control segment.
uint32_t modes_of(const VerbsQueuePair& qp, unsigned flags) {
  constexpr uint32_t kSolicited = 1u << 1;
  bool signalled = qp.created_with.sq_sig_all != 0 || (flags & IBV_SEND_SIGNALED) != 0;
  auto fence = (flags & IBV_SEND_FENCE) != 0 ? mlx5::Fence::kFenceAndSmall : mlx5::Fence::kNone;
  auto completion = signalled ? mlx5::Completion::kAlways : mlx5::Completion::kOnError;
  return static_cast<uint32_t>(fence) | static_cast<uint32_t>(completion) |
         ((flags & IBV_SEND_SOLICITED) != 0 ? kSolicited : 0);
}

Composed compose(const VerbsQueuePair& qp, const ibv_send_wr& wr) {
  constexpr unsigned kKnown =
      IBV_SEND_FENCE | IBV_SEND_SIGNALED | IBV_SEND_SOLICITED | IBV_SEND_INLINE;
  if ((wr.send_flags & ~kKnown) != 0) refuse(EINVAL);
  mlx5::Opcode opcode = opcode_of(wr.opcode);
  std::span<const ibv_sge> list = list_of(wr, qp.created_with.cap.max_send_sge);
  bool fetches = opcode == mlx5::Opcode::kRdmaRead || is_atomic(opcode);
  bool in_wqe = (wr.send_flags & IBV_SEND_INLINE) != 0;
  if (in_wqe && fetches) refuse(EINVAL);
  Composed wqe;
  wqe.add(mlx5::ControlSegment{});
  if (!is_send(opcode)) add_remote(wr, opcode, wqe);
  if (in_wqe) {
    add_inline(list, qp.created_with.cap.max_inline_data, wqe);
  } else {
    for (const ibv_sge& sge : list)
      if (sge.length > 0) wqe.add(data_segment(sge));
  }
  bool immediate = opcode == mlx5::Opcode::kRdmaWriteImm || opcode == mlx5::Opcode::kSendImm;
  auto index = static_cast<uint16_t>(qp.sent.block);
  wqe.begin_with({.opmod_idx_opcode = Be32(uint32_t{index} << 8 | static_cast<uint32_t>(opcode)),
                  .qpn_ds = Be32(qp.number << 8 | wqe.units()),
                  .signature_fm_ce_se = Be32(modes_of(qp, wr.send_flags)),
                  .imm = Be32::from_raw(immediate ? wr.imm_data : 0)});
  return wqe;
}

void post_one(VerbsQueuePair& qp, const ibv_send_wr& wr) {
  SendLedger& sent = qp.sent;
  if (sent.posted - sent.done >= qp.created_with.cap.max_send_wr) refuse(ENOMEM);
  Composed wqe = compose(qp, wr);
  size_t blocks = sent.entry.size();
  wqe.copy_to(qp.config.send_buffer, blocks * mlx5::kWqebbBytes, sent.block);
  sent.entry[sent.block & (blocks - 1)] = {wr.wr_id, sent.posted++};
  sent.block += wqe.blocks();
}

void post_one(VerbsQueuePair& qp, const ibv_recv_wr& wr) {
  ReceiveLedger& received = qp.received;
  uint64_t entries = received.wr_id.size();
  if (received.posted - received.done >= entries) refuse(ENOMEM);
  uint32_t segments = 1u << qp.config.log_receive_stride;
  std::span<const ibv_sge> list = list_of(wr, segments);
  uint64_t slot = received.posted & (entries - 1);
  std::byte* at = qp.config.receive_buffer + slot * segments * mlx5::kSegmentBytes;
  uint32_t used = 0;
  const auto put = [&](const mlx5::DataSegment& segment) {
    std::memcpy(at + used++ * mlx5::kSegmentBytes, &segment, sizeof segment);
  };
  for (const ibv_sge& sge : list)
    if (sge.length > 0) put(data_segment(sge));
  if (used < segments) put({Be32(0), Be32(mlx5::kInvalidLkey), Be64(0)});
  received.wr_id[slot] = wr.wr_id;
  ++received.posted;
}

/// The state now. The handle's own is behind when the queue pair was changed by commands.
ibv_qp_state state_of(VerbsQueuePair& qp, bool settled) {
  return settled ? qp.VerbsQp::state : qp.query().qp_state;
}

void require_sending(VerbsQueuePair& qp) {
  if (qp.config.service != Service::kReliable) refuse(EOPNOTSUPP);  // no address in an ibv_send_wr
  const auto sends = [](ibv_qp_state s) { return s == IBV_QPS_RTS || s == IBV_QPS_ERR; };
  if (!sends(state_of(qp, sends(qp.VerbsQp::state)))) refuse(EINVAL);
}

void require_receiving(VerbsQueuePair& qp) {
  if (qp.config.receive_buffer == nullptr) refuse(EINVAL);  // it has a shared one, or none
  bool settled = qp.VerbsQp::state != IBV_QPS_RESET;
  if (state_of(qp, settled) == IBV_QPS_RESET) refuse(EINVAL);
}

VerbsQueuePair& queue_pair_of(ibv_qp* handle) {
  auto* qp = dynamic_cast<VerbsQueuePair*>(&verbs_qp(handle));
  if (qp == nullptr) refuse(EOPNOTSUPP);  // a DC target
  return *qp;
}

/// Posts the list up to its first refusal, which goes to `bad`, and rings for what was posted.
template <class Request>
void post_list(VerbsQueuePair& qp, Request*& wr, Be32& record, const auto& count) {
  const auto ring = [&] { store<uint32_t>(&record, Be32(count() & 0xffff).raw); };
  try {
    for (; wr != nullptr; wr = wr->next) post_one(qp, *wr);
  } catch (...) {
    ring();
    throw;
  }
  ring();
}

}  // namespace

int post_send_slot(ibv_qp* handle, ibv_send_wr* wr, ibv_send_wr** bad) {
  int error = answer_error([&] {
    VerbsQueuePair& qp = queue_pair_of(handle);
    require_sending(qp);
    post_list(qp, wr, qp.config.doorbell->send,
              [&] { return static_cast<uint32_t>(qp.sent.block); });
  });
  if (error != 0 && bad != nullptr) *bad = wr;
  return error;
}

int post_receive_slot(ibv_qp* handle, ibv_recv_wr* wr, ibv_recv_wr** bad) {
  int error = answer_error([&] {
    VerbsQueuePair& qp = queue_pair_of(handle);
    require_receiving(qp);
    post_list(qp, wr, qp.config.doorbell->receive,
              [&] { return static_cast<uint32_t>(qp.received.posted); });
  });
  if (error != 0 && bad != nullptr) *bad = wr;
  return error;
}

}  // namespace peal::softnic::abi
