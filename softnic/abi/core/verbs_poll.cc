// SPDX-License-Identifier: Apache-2.0
//
// ibv_poll_cq: completion entries become ibv_wc.
//
//   last word (acquire): opcode, owner bit = lap parity -> the other words -> consumer index
//   (release)
//
// An entry names its queue pair and its place in the ring; the queue pair's ledger knows the wr_id.
#include <cerrno>
#include <cstring>
#include <mutex>
#include <thread>

#include "device/mlx5/layout.h"
#include "softnic/abi/core/verbs_queues.h"
#include "softnic/engine/completion.h"
#include "softnic/engine/word.h"

namespace peal::softnic::abi {
namespace {

mlx5::CqeOpcode kind_of(const mlx5::Cqe& cqe) {
  return static_cast<mlx5::CqeOpcode>(cqe.counter_sig_op_own.host() >> 4 & 0xf);
}
uint32_t qpn_of(const mlx5::Cqe& cqe) { return cqe.opcode_qpn.host() & 0xffffff; }

/// Reads the next completion, if there is one, and leaves it where it is.
bool read_entry(const VerbsCq& cq, mlx5::Cqe* cqe) {
  uint64_t slot = cq.consumed & ((uint64_t{1} << cq.config.log_entries) - 1);
  const uint64_t stride = cq.config.cqe_bytes;
  const std::byte* at = cq.config.buffer + (slot + 1) * stride - sizeof *cqe;
  constexpr size_t kLast = offsetof(mlx5::Cqe, opcode_qpn);
  uint64_t last = load<uint64_t>(at + kLast);
  std::memcpy(reinterpret_cast<std::byte*>(cqe) + kLast, &last, sizeof last);
  uint32_t lap = static_cast<uint32_t>(cq.consumed >> cq.config.log_entries) & 1;
  const bool owned = (cqe->counter_sig_op_own.host() & 1) == lap;
  if (kind_of(*cqe) == mlx5::CqeOpcode::kInvalid || !owned) return false;
  std::memcpy(cqe, at, kLast);
  return true;
}

constexpr Row<mlx5::Syndrome, ibv_wc_status> kStatusOf[] = {
    {mlx5::Syndrome::kNone, IBV_WC_SUCCESS},
    {mlx5::Syndrome::kLocalLength, IBV_WC_LOC_LEN_ERR},
    {mlx5::Syndrome::kLocalQpOperation, IBV_WC_LOC_QP_OP_ERR},
    {mlx5::Syndrome::kLocalProtection, IBV_WC_LOC_PROT_ERR},
    {mlx5::Syndrome::kFlushed, IBV_WC_WR_FLUSH_ERR},
    {mlx5::Syndrome::kMwBind, IBV_WC_MW_BIND_ERR},
    {mlx5::Syndrome::kBadResponse, IBV_WC_BAD_RESP_ERR},
    {mlx5::Syndrome::kLocalAccess, IBV_WC_LOC_ACCESS_ERR},
    {mlx5::Syndrome::kRemoteInvalidRequest, IBV_WC_REM_INV_REQ_ERR},
    {mlx5::Syndrome::kRemoteAccess, IBV_WC_REM_ACCESS_ERR},
    {mlx5::Syndrome::kRemoteOperation, IBV_WC_REM_OP_ERR},
    {mlx5::Syndrome::kTransportRetryExceeded, IBV_WC_RETRY_EXC_ERR},
    {mlx5::Syndrome::kRnrRetryExceeded, IBV_WC_RNR_RETRY_EXC_ERR},
    {mlx5::Syndrome::kRemoteAborted, IBV_WC_REM_ABORT_ERR},
};

constexpr Row<mlx5::Opcode, ibv_wc_opcode> kReceivedAs[] = {
    {mlx5::Opcode::kRdmaRead, IBV_WC_RDMA_READ},
    {mlx5::Opcode::kAtomicCompareSwap, IBV_WC_COMP_SWAP},
    {mlx5::Opcode::kAtomicFetchAdd, IBV_WC_FETCH_ADD},
    {mlx5::Opcode::kSend, IBV_WC_SEND},
    {mlx5::Opcode::kSendImm, IBV_WC_SEND},
};

/// The name of the request that the entry completes, whose place is free from now on.
uint64_t complete_request(VerbsQp& qp, const mlx5::Cqe& cqe) {
  const auto counter = static_cast<uint16_t>(cqe.counter_sig_op_own.host() >> 16);
  const bool sent = kind_of(cqe) == mlx5::CqeOpcode::kRequester ||
                    kind_of(cqe) == mlx5::CqeOpcode::kRequesterError;
  if (!sent && qp.shared != nullptr) return qp.shared->complete(counter);
  VerbsQueuePair* own = qp.queue_pair();
  if (own == nullptr) return 0;
  return sent ? own->sent.complete(counter) : own->received.complete(counter);
}

/// Who sent a message, where the queue pair cannot know.
void name_sender(const mlx5::Cqe& cqe, ibv_wc* wc) {
  Be16 lid;
  Be32 source;  // GRH, service level, queue pair
  std::memcpy(&lid, cqe.inline_data + kCqeSourceLidByte, sizeof lid);
  std::memcpy(&source, cqe.inline_data + kCqeSourceByte, sizeof source);
  wc->src_qp = source.host() & 0xffffff;
  wc->slid = lid.host();
  wc->sl = static_cast<uint8_t>(source.host() >> 24 & 0xf);
  if ((source.host() >> 28 & 3) != 0) wc->wc_flags |= IBV_WC_GRH;
}

ibv_wc completion_of(VerbsQp& qp, const mlx5::Cqe& cqe) {
  const mlx5::CqeOpcode kind = kind_of(cqe);
  const uint64_t error = cqe.timestamp.host();
  ibv_wc wc = {};
  wc.qp_num = qpn_of(cqe);
  wc.wr_id = complete_request(qp, cqe);
  switch (kind) {
    case mlx5::CqeOpcode::kRequester:
      wc.opcode = right_of(kReceivedAs, static_cast<mlx5::Opcode>(cqe.opcode_qpn.host() >> 24),
                           IBV_WC_RDMA_WRITE);
      wc.byte_len = cqe.byte_count.host();
      return wc;
    case mlx5::CqeOpcode::kResponderWriteImm:
    case mlx5::CqeOpcode::kResponderSendImm:
      wc.wc_flags = IBV_WC_WITH_IMM;
      wc.imm_data = cqe.imm.raw;
      [[fallthrough]];
    case mlx5::CqeOpcode::kResponderSend:
      wc.opcode =
          kind == mlx5::CqeOpcode::kResponderWriteImm ? IBV_WC_RECV_RDMA_WITH_IMM : IBV_WC_RECV;
      wc.byte_len = cqe.byte_count.host();
      if (qp.created_with.qp_type != IBV_QPT_RC) name_sender(cqe, &wc);
      return wc;
    default:
      wc.status =
          right_of(kStatusOf, static_cast<mlx5::Syndrome>(error & 0xff), IBV_WC_GENERAL_ERR);
      wc.vendor_err = static_cast<uint8_t>(error >> 8);
      return wc;
  }
}

VerbsQp* owner_of(VerbsCq& cq, const mlx5::Cqe& cqe) {
  return VerbsContext::of(cq.ibv_cq_ex::context).pollable(qpn_of(cqe));
}

}  // namespace

// Takes every completion off the CQ and keeps those of other queue pairs for later.
void drop_completions(VerbsCq& cq, VerbsQp& leaving) {
  const std::lock_guard hold(cq.lock);
  const uint32_t qpn = leaving.qp_base.qp_num;
  std::erase_if(cq.kept, [&](const PolledCompletion& one) { return one.wc.qp_num == qpn; });
  uint64_t lap = cq.consumed + (uint64_t{1} << cq.config.log_entries);
  for (mlx5::Cqe cqe; cq.consumed < lap && read_entry(cq, &cqe); ++cq.consumed) {
    VerbsQp* qp = owner_of(cq, cqe);
    if (qp == nullptr) continue;
    const ibv_wc wc = completion_of(*qp, cqe);
    if (qp != &leaving) cq.kept.push_back({wc, cqe.timestamp.host()});
  }
  cq.publish();
}

int VerbsCq::take(PolledCompletion* next) {
  if (!kept.empty()) {
    *next = kept.front();
    kept.pop_front();
    return 1;
  }
  mlx5::Cqe entry;
  if (!read_entry(*this, &entry)) return 0;
  VerbsQp* qp = owner_of(*this, entry);
  ++consumed;
  if (qp == nullptr) return -1;
  *next = {completion_of(*qp, entry), entry.timestamp.host()};
  return 1;
}

// Only what ibv_post_* posted can have completions that ibv_poll_cq has to lose: the CQ of a client
// that drives its queues through their memory stays untouched.
void VerbsQueuePair::forget_requests() {
  if (sent.used() || received.used() || (shared != nullptr && shared->used())) {
    VerbsCq& first = verbs_cq(qp_base.send_cq);
    VerbsCq& second = verbs_cq(qp_base.recv_cq);
    drop_completions(first, *this);
    if (&second != &first) drop_completions(second, *this);
  }
  const std::scoped_lock hold(sent.lock(), received.lock());
  sent.clear();
  received.clear();
}

// A completion without a name (-1) ends the call, or is told by the next when there is something
// to report before it.
int poll_cq_slot(ibv_cq* handle, int count, ibv_wc* wc) {
  // Who polls in a loop waits for the engine's thread, which may need this CPU.
  constexpr uint32_t kPatience = 16;
  VerbsCq& cq = verbs_cq(handle);
  std::unique_lock hold(cq.lock);
  int taken = 0;
  int last = cq.nameless ? -1 : 1;
  cq.nameless = false;
  for (PolledCompletion one; taken < count && last > 0; taken += last > 0) {
    last = cq.take(&one);
    if (last > 0) wc[taken] = one.wc;
  }
  if (taken > 0 || last < 0) cq.publish();
  cq.nameless = last < 0 && taken > 0;
  cq.empty_polls = taken == 0 ? cq.empty_polls + 1 : 0;
  const bool yields = cq.empty_polls >= kPatience;
  hold.unlock();
  if (yields) std::this_thread::yield();
  if (last >= 0 || taken > 0) return taken;
  errno = EINVAL;
  return -1;
}

}  // namespace peal::softnic::abi
