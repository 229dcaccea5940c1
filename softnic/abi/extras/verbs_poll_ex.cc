// SPDX-License-Identifier: Apache-2.0
//
// ibv_create_cq_ex: completions one by one, each field by a call of its own.
//
//   ibv_start_poll -> fields -> ibv_next_poll -> fields ... ENOENT -> ibv_end_poll: consumer index
//
// Between start and end the queue is the caller's. What was not asked for at creation has no call.
#include <infiniband/mlx5dv.h>

#include <cerrno>

#include "softnic/abi/extras/extras.h"

namespace peal::softnic::abi {
namespace {

class IteratedCq : public VerbsCq {
 public:
  /// With the fields that were asked for, ibv_create_cq_wc_flags.
  IteratedCq(VerbsContext& of, uint64_t fields);

  PolledCompletion current = {};  // between ibv_start_poll and ibv_end_poll
};

IteratedCq& queue_of(ibv_cq_ex* handle) { return *static_cast<IteratedCq*>(handle); }
const PolledCompletion& told(ibv_cq_ex* handle) { return queue_of(handle).current; }

/// 0, ENOENT when there is none, or EINVAL for one of a queue pair that DEVX made.
int step(IteratedCq& cq) {
  const int taken = cq.take(&cq.current);
  if (taken < 0) return EINVAL;
  if (taken == 0) return ENOENT;
  cq.wr_id = cq.current.wc.wr_id;
  cq.status = cq.current.wc.status;
  return 0;
}

int start_poll(ibv_cq_ex* handle, ibv_poll_cq_attr* attr) {
  if (attr->comp_mask != 0) return EINVAL;
  IteratedCq& cq = queue_of(handle);
  cq.lock.lock();
  const int error = step(cq);
  if (error == 0) return 0;
  cq.publish();
  cq.lock.unlock();
  return error;
}

int next_poll(ibv_cq_ex* handle) { return step(queue_of(handle)); }

void end_poll(ibv_cq_ex* handle) {
  IteratedCq& cq = queue_of(handle);
  cq.publish();
  cq.lock.unlock();
}

ibv_cq_ex* create_cq_ex(ibv_context* handle, const ibv_cq_init_attr_ex& attr, uint32_t cqe_bytes) {
  constexpr uint64_t kFields = uint64_t{IBV_WC_STANDARD_FLAGS} |
                               IBV_WC_EX_WITH_COMPLETION_TIMESTAMP |
                               IBV_WC_EX_WITH_COMPLETION_TIMESTAMP_WALLCLOCK;
  constexpr uint32_t kFlags =
      IBV_CREATE_CQ_ATTR_SINGLE_THREADED | IBV_CREATE_CQ_ATTR_IGNORE_OVERRUN;
  const bool flagged = (attr.comp_mask & IBV_CQ_INIT_ATTR_MASK_FLAGS) != 0;
  if ((attr.wc_flags & ~kFields) != 0) refuse(EOPNOTSUPP);
  constexpr uint32_t kMasks = IBV_CQ_INIT_ATTR_MASK_FLAGS | IBV_CQ_INIT_ATTR_MASK_PD;
  if ((attr.comp_mask & ~kMasks) != 0) refuse(EOPNOTSUPP);
  if (flagged && (attr.flags & ~kFlags) != 0) refuse(EOPNOTSUPP);
  CqRequest request = {.entries = attr.cqe,
                       .cq_context = attr.cq_context,
                       .channel = attr.channel,
                       .vector = attr.comp_vector};
  request.cqe_bytes = cqe_bytes;
  request.ignore_overrun = flagged && (attr.flags & IBV_CREATE_CQ_ATTR_IGNORE_OVERRUN) != 0;
  if ((attr.comp_mask & IBV_CQ_INIT_ATTR_MASK_PD) != 0) {
    if (attr.parent_domain == nullptr || attr.parent_domain->context != handle) refuse(EINVAL);
    request.domain = static_cast<Pd*>(attr.parent_domain);
    if (request.domain->kind != ObjectKind::kParentDomain) refuse(EINVAL);
  }
  auto fresh = std::make_unique<IteratedCq>(VerbsContext::of(handle), attr.wc_flags);
  return create_completion_queue(handle, std::move(fresh), request);
}

IteratedCq::IteratedCq(VerbsContext& of, uint64_t fields) : VerbsCq(of) {
  ibv_cq_ex::start_poll = abi::start_poll;
  ibv_cq_ex::next_poll = abi::next_poll;
  ibv_cq_ex::end_poll = abi::end_poll;
  read_opcode = [](ibv_cq_ex* cq) { return told(cq).wc.opcode; };
  read_vendor_err = [](ibv_cq_ex* cq) { return told(cq).wc.vendor_err; };
  read_wc_flags = [](ibv_cq_ex* cq) { return told(cq).wc.wc_flags; };
  if ((fields & IBV_WC_EX_WITH_BYTE_LEN) != 0)
    read_byte_len = [](ibv_cq_ex* cq) { return told(cq).wc.byte_len; };
  if ((fields & IBV_WC_EX_WITH_IMM) != 0)
    read_imm_data = [](ibv_cq_ex* cq) { return told(cq).wc.imm_data; };
  if ((fields & IBV_WC_EX_WITH_QP_NUM) != 0)
    read_qp_num = [](ibv_cq_ex* cq) { return told(cq).wc.qp_num; };
  if ((fields & IBV_WC_EX_WITH_SRC_QP) != 0)
    read_src_qp = [](ibv_cq_ex* cq) { return told(cq).wc.src_qp; };
  if ((fields & IBV_WC_EX_WITH_SLID) != 0)
    read_slid = [](ibv_cq_ex* cq) { return uint32_t{told(cq).wc.slid}; };
  if ((fields & IBV_WC_EX_WITH_SL) != 0) read_sl = [](ibv_cq_ex* cq) { return told(cq).wc.sl; };
  if ((fields & IBV_WC_EX_WITH_DLID_PATH_BITS) != 0)
    read_dlid_path_bits = [](ibv_cq_ex*) { return uint8_t{0}; };
  if ((fields & IBV_WC_EX_WITH_COMPLETION_TIMESTAMP) != 0)
    read_completion_ts = [](ibv_cq_ex* cq) { return told(cq).timestamp; };
  if ((fields & IBV_WC_EX_WITH_COMPLETION_TIMESTAMP_WALLCLOCK) != 0)
    read_completion_wallclock_ns = [](ibv_cq_ex* cq) { return wall_clock_of(told(cq).timestamp); };
}

}  // namespace

ibv_cq_ex* create_cq_ex_slot(ibv_context* handle, ibv_cq_init_attr_ex* attr) {
  return answer_pointer([&] { return create_cq_ex(handle, *attr, 0); });
}

extern "C" {

ibv_cq_ex* mlx5dv_create_cq(ibv_context* handle, ibv_cq_init_attr_ex* attr,
                            mlx5dv_cq_init_attr* mlx5) {
  return answer_pointer([&] {
    uint32_t bytes = 0;
    if (mlx5 != nullptr) {
      // Neither compressed entries nor padding.
      constexpr uint64_t kKnown = MLX5DV_CQ_INIT_ATTR_MASK_CQE_SIZE;
      if ((mlx5->comp_mask & ~kKnown) != 0) refuse(EOPNOTSUPP);
      if ((mlx5->comp_mask & MLX5DV_CQ_INIT_ATTR_MASK_CQE_SIZE) != 0) {
        bytes = mlx5->cqe_size;
        if (bytes == 0) refuse(EINVAL);
      }
    }
    return create_cq_ex(handle, *attr, bytes);
  });
}

}  // extern "C"
}  // namespace peal::softnic::abi
