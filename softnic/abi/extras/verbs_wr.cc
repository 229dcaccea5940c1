// SPDX-License-Identifier: Apache-2.0
//
// ibv_wr_*: requests put together call by call, in the ring itself.
//
//   ibv_wr_start -> (ibv_wr_rdma_write ... -> ibv_wr_set_sge ...)* -> ibv_wr_complete: ring
//
// From start to complete or abort the queue is the caller's. The first mistake is kept: what
// follows is ignored, ibv_wr_complete answers it, and nothing of the whole batch is posted.
#include <cerrno>
#include <optional>
#include <span>

#include "softnic/abi/core/compose.h"
#include "softnic/abi/extras/extras.h"

namespace peal::softnic::abi {
namespace {

using mlx5::Opcode;

/// What was put together since ibv_wr_start.
struct BuiltRequest {
  bool started = false;
  int error = EINVAL;  // of the first mistake; to build without ibv_wr_start is one
  VerbsSendQueue::Mark mark = {};
  std::optional<WqeWriter> wqe;  // that is not whole yet
  bool lacks_data = false;
  bool lacks_address = false;  // of a datagram
  SendHead head = {};
  uint64_t wr_id = 0;
};

class Builder : public VerbsQueuePair {
 public:
  Builder(VerbsContext& of, uint64_t operations);

  const uint64_t send_operations;
  BuiltRequest building;  // under the lock of `sent`
};

Builder& builder_of(ibv_qp_ex* handle) {
  return static_cast<Builder&>(static_cast<VerbsQp&>(*handle));
}

void keep(Builder& qp, int error) {
  if (qp.building.error == 0) qp.building.error = error;
}

/// Begins a request of the kind that `operation` (ibv_qp_create_send_ops_flags) names. Null when it
/// cannot be; libmlx5 does not look whether the operation was asked for at creation.
WqeWriter* begin(ibv_qp_ex* handle, uint64_t operation, Opcode opcode, uint32_t immediate = 0) {
  Builder& qp = builder_of(handle);
  BuiltRequest& now = qp.building;
  constexpr unsigned kKnown =
      IBV_SEND_FENCE | IBV_SEND_SIGNALED | IBV_SEND_SOLICITED | IBV_SEND_INLINE;
  if (now.wqe) keep(qp, EINVAL);  // the one before is not whole
  if ((qp.send_operations & operation) == 0 || (handle->wr_flags & ~kKnown) != 0) keep(qp, EINVAL);
  if (now.error == 0 && qp.sent.full()) keep(qp, ENOMEM);
  if (now.error != 0) return nullptr;
  now.wqe = qp.sent.begin();
  now.lacks_data = true;
  now.lacks_address = qp.config.service == Service::kDatagram;
  const mlx5_wqe_av nobody = {};
  if (now.lacks_address) now.wqe->append(&nobody, sizeof nobody);
  now.head = {opcode, qp.modes_of(handle->wr_flags), immediate};
  now.wr_id = handle->wr_id;
  return &*now.wqe;
}

WqeWriter* begin_remote(ibv_qp_ex* handle, uint64_t operation, const SendHead& head, uint32_t rkey,
                        uint64_t address) {
  WqeWriter* const wqe = begin(handle, operation, head.opcode, head.immediate);
  if (wqe != nullptr) wqe->add(mlx5::RemoteAddressSegment{Be64(address), Be32(rkey), {}});
  return wqe;
}

/// The request is whole when its data is set, and that of a datagram its address.
void finish(Builder& qp, int error) {
  keep(qp, error);
  if (error == 0 && (qp.building.lacks_data || qp.building.lacks_address)) return;
  if (qp.building.error == 0) qp.sent.finish(*qp.building.wqe, qp.building.head, qp.building.wr_id);
  qp.building.wqe.reset();
}

void set_list(ibv_qp_ex* handle, std::span<const ibv_sge> list) {
  Builder& qp = builder_of(handle);
  if (!qp.building.wqe || !qp.building.lacks_data) return keep(qp, EINVAL);
  const int error = check_list(list, qp.created_with.cap.max_send_sge);
  if (error == 0) add_list(list, *qp.building.wqe);
  qp.building.lacks_data = false;
  finish(qp, error);
}

void set_inline(ibv_qp_ex* handle, std::span<const ibv_data_buf> pieces) {
  Builder& qp = builder_of(handle);
  if (!qp.building.wqe || !qp.building.lacks_data) return keep(qp, EINVAL);
  const int error = fetches(qp.building.head.opcode)
                        ? EINVAL
                        : add_inline(pieces, qp.created_with.cap.max_inline_data, *qp.building.wqe);
  qp.building.lacks_data = false;
  finish(qp, error);
}

void wr_set_ud_addr(ibv_qp_ex* handle, ibv_ah* to, uint32_t qpn, uint32_t qkey) {
  Builder& qp = builder_of(handle);
  if (!qp.building.wqe || !qp.building.lacks_address) return keep(qp, EINVAL);
  const auto vector = datagram_address(static_cast<AddressHandle*>(to)->vector, qpn, qkey);
  qp.building.wqe->replace(kAddressAt, &vector, sizeof vector);
  qp.building.lacks_address = false;
  finish(qp, 0);
}

// ---- what ibv_qp_ex points at

void wr_start(ibv_qp_ex* handle) {
  Builder& qp = builder_of(handle);
  const int error = qp.require_sending();
  qp.sent.lock().lock();
  qp.building = {.started = true, .error = error, .mark = qp.sent.mark(), .wqe = {}};
}

int end(ibv_qp_ex* handle, bool posts) {
  Builder& qp = builder_of(handle);
  if (!qp.building.started) return EINVAL;
  if (qp.building.wqe) keep(qp, EINVAL);
  const int error = qp.building.error;
  if (posts && error == 0) {
    qp.sent.ring();
  } else {
    qp.sent.take_back(qp.building.mark);
  }
  qp.building = {};
  qp.sent.lock().unlock();
  return error;
}

int wr_complete(ibv_qp_ex* handle) {
  const int error = end(handle, true);
  if (error != 0) errno = error;
  return error;
}

void wr_abort(ibv_qp_ex* handle) { end(handle, false); }

/// An operation that no queue pair here has. Calling it is kept like any other mistake.
template <class... Arguments>
void wr_unsupported(ibv_qp_ex* handle, Arguments...) {
  keep(builder_of(handle), EOPNOTSUPP);
}

Builder::Builder(VerbsContext& of, uint64_t operations)
    : VerbsQueuePair(of), send_operations(operations) {
  ibv_qp_ex::wr_start = abi::wr_start;
  ibv_qp_ex::wr_complete = abi::wr_complete;
  ibv_qp_ex::wr_abort = abi::wr_abort;
  wr_rdma_write = [](ibv_qp_ex* handle, uint32_t rkey, uint64_t address) {
    begin_remote(handle, IBV_QP_EX_WITH_RDMA_WRITE, {Opcode::kRdmaWrite, 0, 0}, rkey, address);
  };
  wr_rdma_write_imm = [](ibv_qp_ex* handle, uint32_t rkey, uint64_t address, __be32 immediate) {
    begin_remote(handle, IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM, {Opcode::kRdmaWriteImm, 0, immediate},
                 rkey, address);
  };
  wr_rdma_read = [](ibv_qp_ex* handle, uint32_t rkey, uint64_t address) {
    begin_remote(handle, IBV_QP_EX_WITH_RDMA_READ, {Opcode::kRdmaRead, 0, 0}, rkey, address);
  };
  wr_send = [](ibv_qp_ex* handle) { begin(handle, IBV_QP_EX_WITH_SEND, Opcode::kSend); };
  wr_send_imm = [](ibv_qp_ex* handle, __be32 immediate) {
    begin(handle, IBV_QP_EX_WITH_SEND_WITH_IMM, Opcode::kSendImm, immediate);
  };
  wr_atomic_cmp_swp = [](ibv_qp_ex* handle, uint32_t rkey, uint64_t address, uint64_t compare,
                         uint64_t swap) {
    auto* wqe = begin_remote(handle, IBV_QP_EX_WITH_ATOMIC_CMP_AND_SWP,
                             {Opcode::kAtomicCompareSwap, 0, 0}, rkey, address);
    if (wqe != nullptr) wqe->add(mlx5::AtomicSegment{Be64(swap), Be64(compare)});
  };
  wr_atomic_fetch_add = [](ibv_qp_ex* handle, uint32_t rkey, uint64_t address, uint64_t add) {
    auto* wqe = begin_remote(handle, IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD,
                             {Opcode::kAtomicFetchAdd, 0, 0}, rkey, address);
    if (wqe != nullptr) wqe->add(mlx5::AtomicSegment{Be64(add), {}});
  };
  wr_set_sge = [](ibv_qp_ex* handle, uint32_t lkey, uint64_t address, uint32_t bytes) {
    const ibv_sge sge = {address, bytes, lkey};
    set_list(handle, {&sge, 1});
  };
  wr_set_sge_list = [](ibv_qp_ex* handle, size_t count, const ibv_sge* list) {
    set_list(handle, {list, count});
  };
  wr_set_inline_data = [](ibv_qp_ex* handle, void* address, size_t bytes) {
    const ibv_data_buf piece = {address, bytes};
    set_inline(handle, {&piece, 1});
  };
  wr_set_inline_data_list = [](ibv_qp_ex* handle, size_t count, const ibv_data_buf* list) {
    set_inline(handle, {list, count});
  };
  wr_bind_mw = wr_unsupported;
  wr_local_inv = wr_unsupported;
  wr_send_inv = wr_unsupported;
  wr_send_tso = wr_unsupported;
  ibv_qp_ex::wr_set_ud_addr = abi::wr_set_ud_addr;
  wr_set_xrc_srqn = wr_unsupported;
  wr_atomic_write = wr_unsupported;
}

}  // namespace

std::unique_ptr<VerbsQueuePair> make_builder(VerbsContext& context, uint64_t operations) {
  return std::make_unique<Builder>(context, operations);
}

extern "C" ibv_qp_ex* ibv_qp_to_qp_ex(ibv_qp* handle) {
  return dynamic_cast<Builder*>(&verbs_qp(handle));
}

}  // namespace peal::softnic::abi
