// SPDX-License-Identifier: Apache-2.0
#include "host/nic/counter_set.h"

#include <memory>

#include "host/nic/mlx5_prm.h"

namespace peal::nic {

uint8_t counter_set_of(const VerbsLibrary& library, ibv_context* context, uint8_t port) {
  constexpr uint8_t kNone = 0;
  const auto& ibv = library.ibv;
  if (library.mlx5dv.devx_qp_query == nullptr) return kNone;
  const std::unique_ptr<ibv_pd, decltype(ibv.dealloc_pd)> pd(ibv.alloc_pd(context), ibv.dealloc_pd);
  if (!pd) return kNone;
  const std::unique_ptr<ibv_cq, decltype(ibv.destroy_cq)> cq(
      ibv.create_cq(context, 1, nullptr, nullptr, 0), ibv.destroy_cq);
  if (!cq) return kNone;
  ibv_qp_init_attr init{};
  init.send_cq = init.recv_cq = cq.get();
  init.qp_type = IBV_QPT_RC;
  init.cap = {.max_send_wr = 1,
              .max_recv_wr = 1,
              .max_send_sge = 1,
              .max_recv_sge = 1,
              .max_inline_data = 0};
  const std::unique_ptr<ibv_qp, decltype(ibv.destroy_qp)> qp(ibv.create_qp(pd.get(), &init),
                                                             ibv.destroy_qp);
  if (!qp) return kNone;
  // Linux names the set on the way to init.
  ibv_qp_attr attributes{};
  attributes.qp_state = IBV_QPS_INIT;
  attributes.port_num = port;
  constexpr int kMask = IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS;
  if (ibv.modify_qp(qp.get(), &attributes, kMask) != 0) return kNone;
  const prm::Mailbox<prm::kShortIn> in(prm::Command::kQueryQp, qp->qp_num);
  prm::Mailbox<prm::kQueryQpOut> out;
  if (library.mlx5dv.devx_qp_query(qp.get(), in.data(), in.bytes(), out.data(), out.bytes()) != 0) {
    return kNone;
  }
  return static_cast<uint8_t>(out.value(prm::qpc::kCounterSet));
}

}  // namespace peal::nic
