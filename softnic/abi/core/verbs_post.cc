// SPDX-License-Identifier: Apache-2.0
//
// ibv_post_send, ibv_post_recv: work requests become entries of rings.
//
//   ibv_send_wr -> control | [address vector] | remote address | atomic | data
//   ibv_recv_wr -> scatter list, ended by an invalid key
//
// Both then go into the ring and, with release, into the doorbell record.
//
// A post holds the lock of its queue and no other: neither the engine nor another queue waits for
// it. Refusals are answers here, not exceptions: a full queue is everyday life.
#include <span>

#include "softnic/abi/core/compose.h"
#include "softnic/abi/core/verbs_queues.h"
#include "softnic/engine/word.h"

namespace peal::softnic::abi {
namespace {

/// What queues here execute.
constexpr Row<ibv_wr_opcode, mlx5::Opcode> kPostedAs[] = {
    {IBV_WR_SEND, mlx5::Opcode::kSend},
    {IBV_WR_SEND_WITH_IMM, mlx5::Opcode::kSendImm},
    {IBV_WR_RDMA_WRITE, mlx5::Opcode::kRdmaWrite},
    {IBV_WR_RDMA_WRITE_WITH_IMM, mlx5::Opcode::kRdmaWriteImm},
    {IBV_WR_RDMA_READ, mlx5::Opcode::kRdmaRead},
    {IBV_WR_ATOMIC_CMP_AND_SWP, mlx5::Opcode::kAtomicCompareSwap},
    {IBV_WR_ATOMIC_FETCH_AND_ADD, mlx5::Opcode::kAtomicFetchAdd},
};

bool is_send(mlx5::Opcode opcode) {
  return opcode == mlx5::Opcode::kSend || opcode == mlx5::Opcode::kSendImm;
}

void add_remote(const ibv_send_wr& wr, mlx5::Opcode opcode, WqeWriter& wqe) {
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

int post_one(VerbsQueuePair& qp, const ibv_send_wr& wr) {
  constexpr unsigned kKnown =
      IBV_SEND_FENCE | IBV_SEND_SIGNALED | IBV_SEND_SOLICITED | IBV_SEND_INLINE;
  const ibv_qp_cap& cap = qp.created_with.cap;
  if (qp.sent.full()) return ENOMEM;
  const mlx5::Opcode opcode = right_of(kPostedAs, wr.opcode, mlx5::Opcode::kNop);
  std::span<const ibv_sge> list;
  if ((wr.send_flags & ~kKnown) != 0 || opcode == mlx5::Opcode::kNop) return EINVAL;
  if (!list_of(wr, cap.max_send_sge, &list)) return EINVAL;
  const bool in_wqe = (wr.send_flags & IBV_SEND_INLINE) != 0;
  if (in_wqe && fetches(opcode)) return EINVAL;
  const bool datagram = qp.config.service == Service::kDatagram;
  if (datagram && (!is_send(opcode) || wr.wr.ud.ah == nullptr)) return EINVAL;
  WqeWriter wqe = qp.sent.begin();
  if (datagram) {
    const auto& to = *static_cast<const AddressHandle*>(wr.wr.ud.ah);
    const auto vector = datagram_address(to.vector, wr.wr.ud.remote_qpn, wr.wr.ud.remote_qkey);
    wqe.append(&vector, sizeof vector);
  }
  if (!is_send(opcode)) add_remote(wr, opcode, wqe);
  if (in_wqe) {
    if (const int error = add_inline(list, cap.max_inline_data, wqe); error != 0) return error;
  } else {
    add_list(list, wqe);
  }
  const bool immediate = opcode == mlx5::Opcode::kRdmaWriteImm || opcode == mlx5::Opcode::kSendImm;
  qp.sent.finish(wqe, {opcode, qp.modes_of(wr.send_flags), immediate ? wr.imm_data : 0}, wr.wr_id);
  return 0;
}

/// EINVAL unless the queue pair is in a state that `allowed` accepts. The handle's own state is
/// behind when the queue pair was changed by commands: then the NIC is asked.
int require_state(VerbsQueuePair& qp, const auto& allowed) {
  if (allowed(qp.state_seen())) return 0;
  return answer_error([&] {
    if (!allowed(qp.query().qp_state)) refuse(EINVAL);
  });
}

}  // namespace

uint32_t VerbsQueuePair::modes_of(unsigned flags) const {
  constexpr uint32_t kSolicited = 1u << 1;
  const bool signalled = created_with.sq_sig_all != 0 || (flags & IBV_SEND_SIGNALED) != 0;
  const auto fence =
      (flags & IBV_SEND_FENCE) != 0 ? mlx5::Fence::kFenceAndSmall : mlx5::Fence::kNone;
  const auto completion = signalled ? mlx5::Completion::kAlways : mlx5::Completion::kOnError;
  return static_cast<uint32_t>(fence) | static_cast<uint32_t>(completion) |
         ((flags & IBV_SEND_SOLICITED) != 0 ? kSolicited : 0);
}

int VerbsQueuePair::require_sending() {
  if (config.service == Service::kDcInitiator) return EOPNOTSUPP;  // no address in an ibv_send_wr
  return require_state(*this, [](ibv_qp_state s) { return s == IBV_QPS_RTS || s == IBV_QPS_ERR; });
}

int post_send_slot(ibv_qp* handle, ibv_send_wr* wr, ibv_send_wr** bad) {
  VerbsQueuePair* qp = verbs_qp(handle).queue_pair();
  const int error = qp == nullptr ? EOPNOTSUPP : qp->require_sending();
  if (error != 0) return refused(error, wr, bad);
  return post_list(qp->sent, wr, bad, [&](const ibv_send_wr& each) { return post_one(*qp, each); });
}

int post_receive_slot(ibv_qp* handle, ibv_recv_wr* wr, ibv_recv_wr** bad) {
  VerbsQueuePair* qp = verbs_qp(handle).queue_pair();
  int error = qp == nullptr ? EOPNOTSUPP : 0;
  if (error == 0 && !qp->received.exists()) error = EINVAL;  // a shared one, or none
  if (error == 0) error = require_state(*qp, [](ibv_qp_state s) { return s != IBV_QPS_RESET; });
  if (error != 0) return refused(error, wr, bad);
  return post_list(qp->received, wr, bad,
                   [&](const ibv_recv_wr& each) { return post_receive(qp->received, each); });
}

}  // namespace peal::softnic::abi
