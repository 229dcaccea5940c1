// SPDX-License-Identifier: Apache-2.0
//
// DC targets by mlx5dv_create_qp: queue pairs to the client, without queues and with two states.
#include "softnic/abi/extras/extras.h"

namespace peal::softnic::abi {
namespace {

/// Exists at the NIC from RTR on, when qp_num becomes its DCTN.
class DcTarget : public Object, public VerbsQp {
 public:
  explicit DcTarget(VerbsContext& of) : Object(ObjectKind::kDctQp, of) {}
  Refusal retire() override;
  Object& object() override { return *this; }
  void modify(const ibv_qp_attr& attr, int mask) override;
  ibv_qp_attr query() override {
    attributes.qp_state = attributes.cur_qp_state = qp_base.state;
    return attributes;
  }
  void describe(mlx5dv_qp*) override { refuse(EOPNOTSUPP); }

  DcTargetConfig config;
  ibv_qp_attr attributes = {};
  uint32_t dctn = 0;
};

Refusal DcTarget::retire() {
  if (dctn == 0) return {};
  const Refusal refusal = nic().destroy_dc_target(dctn);
  if (refusal.refused()) return refusal;
  drop_completions(verbs_cq(qp_base.recv_cq), *this);
  VerbsContext::of(qp_base.context).set_pollable(dctn, nullptr);
  return {};
}

// RESET -> INIT -> RTR, where the target comes to be. Nothing else.
void DcTarget::modify(const ibv_qp_attr& attr, int mask) {
  if ((mask & IBV_QP_STATE) == 0) refuse(EINVAL);
  check_identity(nic().device(), attr, mask);
  if (qp_base.state == IBV_QPS_RESET && attr.qp_state == IBV_QPS_INIT) {
    constexpr int kRequired = kInitRequired | IBV_QP_ACCESS_FLAGS;
    if ((mask & kRequired) != kRequired) refuse(EINVAL);
    config.access = attr.qp_access_flags & (kRemoteWrite | kRemoteRead | kRemoteAtomic);
    config.atomic_mode = (config.access & kRemoteAtomic) != 0 ? 3 : 0;
    config.pkey = nic().device().pkey(attr.pkey_index);
    attributes.qp_access_flags = config.access;
    attributes.pkey_index = attr.pkey_index;
    attributes.port_num = attr.port_num;
    set_state(IBV_QPS_INIT);
    return;
  }
  if (qp_base.state != IBV_QPS_INIT || attr.qp_state != IBV_QPS_RTR) refuse(EINVAL);
  constexpr int kRequired = IBV_QP_MIN_RNR_TIMER | IBV_QP_AV | IBV_QP_PATH_MTU;
  if ((mask & kRequired) != kRequired) refuse(EINVAL);
  config.min_rnr_timer = limited(attr.min_rnr_timer, 31);
  config.network = nic().router().network_of(source_gid_of(nic(), attr.ah_attr));
  dctn = require(nic().create_dc_target(config));
  qp_base.qp_num = dctn;
  VerbsContext::of(qp_base.context).set_pollable(dctn, this);
  attributes.path_mtu = attr.path_mtu;
  attributes.min_rnr_timer = attr.min_rnr_timer;
  set_state(IBV_QPS_RTR);
}

}  // namespace

ibv_qp* create_dc_target(ibv_pd* pd, ibv_qp_init_attr* init, uint64_t key) {
  auto& domain = *static_cast<Pd*>(pd);
  VerbsContext& context = VerbsContext::of(pd->context);
  auto dct = std::make_unique<DcTarget>(context);
  VerbsCq& cq = required_cq(pd, init->recv_cq);
  SharedReceives& srq = required_srq(pd, init->srq);
  dct->config.pd = domain.pdn;
  dct->config.receive_cq = cq.number;
  dct->config.shared_receive_queue = srq.number;
  dct->config.dc_access_key = key;
  dct->use(domain);
  dct->use(cq);
  dct->use(srq);
  dct->number = context.next_number();
  introduce(*dct, pd, *init);
  dct->qp_base.qp_num = 0;  // known from RTR on
  return &context.adopt(std::move(dct))->qp_base;
}

}  // namespace peal::softnic::abi
