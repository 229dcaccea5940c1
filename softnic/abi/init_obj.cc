// SPDX-License-Identifier: Apache-2.0
//
// mlx5dv_init_obj: the hardware view of verbs objects (queue memory, numbers, doorbell records).
#include "softnic/abi/extras/extras.h"

namespace peal::softnic::abi {
namespace {

void describe(VerbsCq& cq, mlx5dv_cq* out) {
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
