// SPDX-License-Identifier: Apache-2.0
//
// What is of core and of extras: opening a device, a context with the slots of both, and
// mlx5dv_init_obj, the hardware view of verbs objects (queue memory, numbers, doorbell records).
#include <cerrno>

#include "softnic/abi/core/context.h"
#include "softnic/abi/extras/extras.h"

namespace peal::softnic::abi {
namespace {

int unsupported_bind(ibv_qp*, ibv_mw*, ibv_mw_bind*) { return errno = EOPNOTSUPP; }
int unsupported_window(ibv_mw*) { return errno = EOPNOTSUPP; }
int unsupported_xrcd(ibv_xrcd*) { return errno = EOPNOTSUPP; }

/// Where inline functions of rdma-core find what has no exported name.
void fill_slots(verbs_context& verbs) {
  verbs.query_port = query_port_slot;
  verbs.query_device_ex = query_device_ex_slot;
  verbs.alloc_parent_domain = alloc_parent_domain_slot;
  verbs.alloc_td = alloc_td_slot;
  verbs.dealloc_td = dealloc_td_slot;
  verbs.create_qp_ex = create_qp_ex_slot;
  verbs.create_cq_ex = create_cq_ex_slot;
  verbs.get_srq_num = get_srq_num_slot;
  verbs.alloc_dm = alloc_dm_slot;
  verbs.free_dm = free_dm_slot;
  verbs.reg_dm_mr = reg_dm_mr_slot;
  verbs.query_rt_values = query_rt_values_slot;
  verbs.close_xrcd = unsupported_xrcd;  // clients call it without looking

  ibv_context_ops& ops = verbs.context.ops;
  ops._compat_query_device = ::ibv_query_device;
  ops._compat_query_port = ::ibv_query_port;
  ops.poll_cq = poll_cq_slot;
  ops.req_notify_cq = req_notify_slot;
  ops.post_send = post_send_slot;
  ops.post_recv = post_receive_slot;
  ops.post_srq_recv = post_shared_receive_slot;
  ops.bind_mw = unsupported_bind;
  ops.dealloc_mw = unsupported_window;
}

/// Who learns of a queue's record and register may arm it through them.
void describe(VerbsCq& cq, mlx5dv_cq* out) {
  if (cq.channel != nullptr && !cq.nic().on_gpu()) require(cq.nic().listen_cq(cq.number, cq));
  *out = {};
  out->buf = cq.config.buffer;
  out->dbrec = reinterpret_cast<__be32*>(cq.config.doorbell);
  out->cqe_cnt = 1u << cq.config.log_entries;
  out->cqe_size = cq.config.cqe_bytes;
  out->cq_uar = cq.uar_register;
  out->cqn = cq.number;
}

void describe_all(const mlx5dv_obj& obj, uint64_t types) {
  constexpr uint64_t kKnown = MLX5DV_OBJ_QP | MLX5DV_OBJ_CQ | MLX5DV_OBJ_SRQ | MLX5DV_OBJ_DM |
                              MLX5DV_OBJ_AH | MLX5DV_OBJ_PD;
  if ((types & ~kKnown) != 0) refuse(EOPNOTSUPP);
  if ((types & MLX5DV_OBJ_QP) != 0) verbs_qp(obj.qp.in).describe(obj.qp.out);
  if ((types & MLX5DV_OBJ_CQ) != 0) describe(verbs_cq(obj.cq.in), obj.cq.out);
  if ((types & MLX5DV_OBJ_SRQ) != 0) describe_srq(obj.srq.in, obj.srq.out);
  if ((types & MLX5DV_OBJ_DM) != 0) describe_dm(obj.dm.in, obj.dm.out);
  if ((types & MLX5DV_OBJ_AH) != 0) {
    obj.ah.out->av = &static_cast<AddressHandle*>(obj.ah.in)->vector;
    obj.ah.out->comp_mask = 0;
  }
  if ((types & MLX5DV_OBJ_PD) != 0) {
    obj.pd.out->pdn = static_cast<Pd*>(obj.pd.in)->pdn;
    obj.pd.out->comp_mask = 0;
  }
}

}  // namespace

extern "C" {

ibv_context* ibv_open_device(ibv_device* device) {
  return answer_pointer([&] {
    auto context = std::make_unique<VerbsContext>(process().required(device));
    fill_slots(context->verbs);
    VerbsContext* answer = context.get();
    process().contexts[answer] = std::move(context);
    return answer->handle();
  });
}

ibv_context* mlx5dv_open_device(ibv_device* device, mlx5dv_context_attr* attr) {
  return answer_pointer([&] {
    constexpr uint32_t kKnown = MLX5DV_CONTEXT_FLAGS_DEVX;
    if (attr != nullptr && ((attr->flags & ~kKnown) != 0 || attr->comp_mask != 0)) refuse(EINVAL);
    // Every context can do DEVX, where the device can.
    const bool devx = attr != nullptr && (attr->flags & MLX5DV_CONTEXT_FLAGS_DEVX) != 0;
    if (devx && process().required(device).shown.refuses_any(kRefuseDevx)) refuse(EOPNOTSUPP);
    return ibv_open_device(device);
  });
}

int mlx5dv_init_obj(mlx5dv_obj* obj, uint64_t types) {
  return answer_error([&] { describe_all(*obj, types); });
}

// What programs linked against MLX5_1.0 get: a CQ's UAR by the address of the pointer to it.
int peal_softnic_init_obj_1_0(mlx5dv_obj* obj, uint64_t types) {
  return answer_error([&] {
    describe_all(*obj, types);
    if ((types & MLX5DV_OBJ_CQ) != 0) obj->cq.out->cq_uar = &verbs_cq(obj->cq.in).uar_register;
  });
}

}  // extern "C"
}  // namespace peal::softnic::abi
