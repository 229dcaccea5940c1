// SPDX-License-Identifier: Apache-2.0
//
// Queue pairs by extended attributes: ibv_create_qp_ex and mlx5dv_create_qp.
#include <cstddef>
#include <cstring>

#include "softnic/abi/extras/extras.h"

namespace peal::softnic::abi {
namespace {

/// ibv_create_qp's part of the extended attributes, which begin with it.
ibv_qp_init_attr plain(const ibv_qp_init_attr_ex& attr) {
  constexpr size_t kLast = offsetof(ibv_qp_init_attr, sq_sig_all);
  static_assert(kLast == offsetof(ibv_qp_init_attr_ex, sq_sig_all));
  ibv_qp_init_attr init = {};
  std::memcpy(&init, &attr, kLast + sizeof init.sq_sig_all);
  return init;
}

void check_extended(ibv_context* handle, const ibv_qp_init_attr_ex& attr,
                    const mlx5dv_qp_init_attr* mlx5) {
  if ((attr.comp_mask & IBV_QP_INIT_ATTR_PD) == 0 || attr.pd == nullptr) refuse(EINVAL);
  if (attr.pd->context != handle) refuse(EINVAL);
  constexpr uint32_t kAttributes =
      IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS | IBV_QP_INIT_ATTR_CREATE_FLAGS;
  if ((attr.comp_mask & ~kAttributes) != 0) refuse(EOPNOTSUPP);
  const bool created_by_flags = (attr.comp_mask & IBV_QP_INIT_ATTR_CREATE_FLAGS) != 0;
  // Without multicast none comes back to who sent it.
  const uint32_t granted = attr.qp_type == IBV_QPT_UD ? IBV_QP_CREATE_BLOCK_SELF_MCAST_LB : 0;
  if (created_by_flags && (attr.create_flags & ~granted) != 0) refuse(EOPNOTSUPP);
  if (mlx5 == nullptr) return;
  constexpr uint64_t kKnown =
      MLX5DV_QP_INIT_ATTR_MASK_DC | MLX5DV_QP_INIT_ATTR_MASK_QP_CREATE_FLAGS;
  if ((mlx5->comp_mask & ~kKnown) != 0) refuse(EOPNOTSUPP);
  // CQEs never carry scattered data here: the wish to have none is granted, and leave to do it is
  // not used.
  bool flags = (mlx5->comp_mask & MLX5DV_QP_INIT_ATTR_MASK_QP_CREATE_FLAGS) != 0;
  constexpr uint32_t kDisable = MLX5DV_QP_CREATE_DISABLE_SCATTER_TO_CQE;
  constexpr uint32_t kAllow = MLX5DV_QP_CREATE_ALLOW_SCATTER_TO_CQE;
  if (!flags) return;
  if ((mlx5->create_flags & ~(kDisable | kAllow)) != 0) refuse(EOPNOTSUPP);
  if ((mlx5->create_flags & kDisable) != 0 && (mlx5->create_flags & kAllow) != 0) refuse(EINVAL);
}

/// ibv_qp_create_send_ops_flags of the request, 0 without.
uint64_t send_operations(const ibv_qp_init_attr_ex& attr) {
  return (attr.comp_mask & IBV_QP_INIT_ATTR_SEND_OPS_FLAGS) != 0 ? attr.send_ops_flags : 0;
}

/// An RC or UD queue pair by its extended attributes.
ibv_qp* create_extended(ibv_qp_init_attr_ex& attr) {
  constexpr uint64_t kOperations = IBV_QP_EX_WITH_RDMA_WRITE | IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM |
                                   IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_SEND_WITH_IMM |
                                   IBV_QP_EX_WITH_RDMA_READ | IBV_QP_EX_WITH_ATOMIC_CMP_AND_SWP |
                                   IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD;
  const uint64_t operations = send_operations(attr);
  constexpr uint64_t kSends = IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_SEND_WITH_IMM;
  const Service service = service_of(attr.qp_type);
  const uint64_t known = service == Service::kReliable ? kOperations : kSends;
  if ((operations & ~known) != 0) refuse(EOPNOTSUPP);
  ibv_qp_init_attr init = plain(attr);
  VerbsContext& context = VerbsContext::of(attr.pd->context);
  auto fresh = operations == 0 ? std::make_unique<VerbsQueuePair>(context)
                               : make_builder(context, operations);
  VerbsQueuePair* qp = create_queue_pair(std::move(fresh), attr.pd, &init, service);
  attr.cap = init.cap;
  return &qp->qp_base;
}

}  // namespace

ibv_qp* create_qp_ex_slot(ibv_context* handle, ibv_qp_init_attr_ex* attr) {
  return answer_pointer([&] {
    check_extended(handle, *attr, nullptr);
    return create_extended(*attr);
  });
}

extern "C" {

ibv_qp* mlx5dv_create_qp(ibv_context* handle, ibv_qp_init_attr_ex* attr,
                         mlx5dv_qp_init_attr* mlx5) {
  return answer_pointer([&] {
    check_extended(handle, *attr, mlx5);
    ibv_qp_init_attr init = plain(*attr);
    bool dc = mlx5 != nullptr && (mlx5->comp_mask & MLX5DV_QP_INIT_ATTR_MASK_DC) != 0;
    if (!dc) return create_extended(*attr);
    // No queue of a DC initiator takes requests by calls: there is nowhere to say which target.
    if (send_operations(*attr) != 0) refuse(EOPNOTSUPP);
    if (attr->qp_type != IBV_QPT_DRIVER) refuse(EINVAL);
    const mlx5dv_dc_init_attr& kind = mlx5->dc_init_attr;
    if (kind.dc_type == MLX5DV_DCTYPE_DCT)
      return create_dc_target(attr->pd, &init, kind.dct_access_key);
    if (kind.dc_type != MLX5DV_DCTYPE_DCI) refuse(EINVAL);
    auto fresh = std::make_unique<VerbsQueuePair>(VerbsContext::of(handle));
    VerbsQueuePair* qp =
        create_queue_pair(std::move(fresh), attr->pd, &init, Service::kDcInitiator);
    attr->cap = init.cap;
    return &qp->qp_base;
  });
}

}  // extern "C"
}  // namespace peal::softnic::abi
