// SPDX-License-Identifier: Apache-2.0
//
// Queue pairs with queues of their own: RC, UD, DC initiator.
//
//   one block of memory:  receive queue | send queue | doorbell record
#include <infiniband/mlx5dv.h>

#include <algorithm>
#include <bit>

#include "device/mlx5/layout.h"
#include "softnic/abi/core/verbs_queues.h"

namespace peal::softnic::abi {

namespace {

constexpr uint32_t kMaxSendSge = 30;
constexpr uint32_t kMaxReceiveSge = 31;

void check_capacity(const PresentedDevice& device, const ibv_qp_cap& cap, bool receives) {
  if (cap.max_send_wr > (1u << device.log_max_qp_wr) || cap.max_send_sge > kMaxSendSge)
    refuse(EINVAL);
  if (cap.max_inline_data > 512) refuse(EINVAL);
  if (!receives) return;
  if (cap.max_recv_wr > (1u << kMaxLogReceiveEntries) || cap.max_recv_sge > kMaxReceiveSge)
    refuse(EINVAL);
}

/// WQEBBs of the largest request: control, address, atomic, then scatter list or inline data.
uint32_t blocks_per_request(const ibv_qp_cap& cap, Service service) {
  uint32_t segments = 3;
  if (service == Service::kDcInitiator) segments = 6;
  if (service == Service::kDatagram) segments = 4;
  uint32_t head = mlx5::kSegmentBytes * segments;
  uint32_t list = mlx5::kSegmentBytes * std::max(cap.max_send_sge, 1u);
  uint32_t inline_bytes = cap.max_inline_data == 0 ? 0 : 4 + cap.max_inline_data;
  return (head + std::max(list, inline_bytes) + mlx5::kWqebbBytes - 1) / mlx5::kWqebbBytes;
}

/// Sizes both queues, allocates them and reports the real capacity in `cap`.
void place_queues(VerbsQueuePair& qp, Pd& pd, ibv_qp_cap* cap, bool receives) {
  const PresentedDevice& device = qp.nic().device();
  check_capacity(device, *cap, receives);
  QueuePairConfig& config = qp.config;
  uint32_t per_request = blocks_per_request(*cap, config.service);
  uint32_t blocks = std::bit_ceil(std::max(cap->max_send_wr, 1u) * per_request);
  if (blocks > (1u << device.log_max_qp_wr)) refuse(EINVAL);
  config.log_send_blocks = static_cast<uint32_t>(std::countr_zero(blocks));
  uint64_t rq_bytes = 0;
  if (receives && cap->max_recv_wr != 0) {
    uint32_t entries = std::bit_ceil(cap->max_recv_wr);
    uint32_t segments = std::bit_ceil(std::max(cap->max_recv_sge, 1u));
    config.log_receive_entries = static_cast<uint32_t>(std::countr_zero(entries));
    config.log_receive_stride = static_cast<uint32_t>(std::countr_zero(segments));
    rq_bytes = uint64_t{mlx5::kSegmentBytes} * segments * entries;
    rq_bytes = (rq_bytes + mlx5::kWqebbBytes - 1) / mlx5::kWqebbBytes * mlx5::kWqebbBytes;
    cap->max_recv_wr = entries;
    cap->max_recv_sge = segments;
  } else if (!receives) {
    cap->max_recv_wr = cap->max_recv_sge = 0;
  }
  uint64_t sq_bytes = uint64_t{blocks} * mlx5::kWqebbBytes;
  qp.memory =
      allocate_queue(&pd, rq_bytes + sq_bytes + sizeof(mlx5::DoorbellRecord), MLX5DV_RES_TYPE_QP);
  std::byte* memory = qp.memory.get();
  config.receive_buffer = rq_bytes != 0 ? memory : nullptr;
  config.send_buffer = memory + rq_bytes;
  config.doorbell = reinterpret_cast<mlx5::DoorbellRecord*>(memory + rq_bytes + sq_bytes);
  cap->max_send_wr = blocks / per_request;
  qp.sent.open(config.send_buffer, blocks, config.doorbell);
  qp.received.open(config.receive_buffer, rq_bytes == 0 ? 0 : cap->max_recv_wr,
                   1u << config.log_receive_stride, config.doorbell);
}

}  // namespace

void introduce(VerbsQp& qp, ibv_pd* pd, const ibv_qp_init_attr& init) {
  qp.created_with = init;
  ibv_qp& base = qp.qp_base;
  base.context = pd->context;
  base.qp_context = init.qp_context;
  base.pd = pd;
  base.send_cq = init.send_cq;
  base.recv_cq = init.recv_cq;
  base.srq = init.srq;
  qp.shared = static_cast<SharedReceives*>(init.srq);
  base.qp_num = base.handle = qp.object().number;
  base.qp_type = init.qp_type;
  base.state = IBV_QPS_RESET;
}

VerbsCq& required_cq(ibv_pd* pd, ibv_cq* cq) {
  if (cq == nullptr || cq->context != pd->context) refuse(EINVAL);
  return verbs_cq(cq);
}

SharedReceives& required_srq(ibv_pd* pd, ibv_srq* srq) {
  if (srq == nullptr || srq->context != pd->context) refuse(EINVAL);
  return *static_cast<SharedReceives*>(srq);
}

VerbsQueuePair* create_queue_pair(std::unique_ptr<VerbsQueuePair> qp, ibv_pd* pd,
                                  ibv_qp_init_attr* init, Service service) {
  auto& domain = *static_cast<Pd*>(pd);
  VerbsContext& context = VerbsContext::of(pd->context);
  QueuePairConfig& config = qp->config;
  config.service = service;
  VerbsCq& send_cq = required_cq(pd, init->send_cq);
  VerbsCq& receive_cq = required_cq(pd, init->recv_cq);
  Uar& uar = context.verbs_uar();
  config.pd = domain.pdn;
  config.uar_page = uar.number;
  config.send_cq = send_cq.number;
  config.receive_cq = receive_cq.number;
  if (init->srq != nullptr) {
    SharedReceives& srq = required_srq(pd, init->srq);
    config.shared_receive_queue = srq.number;
    qp->use(srq);
  }
  bool receives = init->srq == nullptr && service != Service::kDcInitiator;
  place_queues(*qp, domain, &init->cap, receives);
  if (service == Service::kDatagram && context.nic().on_gpu()) refuse(EOPNOTSUPP);
  qp->use(domain);
  qp->use(send_cq);
  qp->use(receive_cq);
  qp->use(uar);
  qp->number = require(context.nic().create_qp(config));
  qp->sent.name(qp->number, init->cap.max_send_wr, uar.reg_addr);
  introduce(*qp, pd, *init);
  VerbsQueuePair* made = context.adopt(std::move(qp));
  context.set_pollable(made->number, made);
  return made;
}

Service service_of(ibv_qp_type type) {
  if (type != IBV_QPT_RC && type != IBV_QPT_UD) refuse(EOPNOTSUPP);
  return type == IBV_QPT_RC ? Service::kReliable : Service::kDatagram;
}

void VerbsQueuePair::describe(mlx5dv_qp* out) {
  auto* page =
      static_cast<Uar&>(*VerbsContext::of(qp_base.context).find(ObjectKind::kUar, config.uar_page))
          .reg_addr;
  uint64_t asked = out->comp_mask;
  *out = {};
  out->dbrec = reinterpret_cast<__be32*>(config.doorbell);
  out->sq.buf = config.send_buffer;
  out->sq.wqe_cnt = 1u << config.log_send_blocks;
  out->sq.stride = mlx5::kWqebbBytes;
  out->rq.buf = config.receive_buffer;
  out->rq.wqe_cnt = config.receive_buffer == nullptr ? 0 : 1u << config.log_receive_entries;
  out->rq.stride = mlx5::kSegmentBytes << config.log_receive_stride;
  out->bf.reg = page;
  out->bf.size = 0;  // plain memory: an 8-byte doorbell, no copied requests
  if ((asked & MLX5DV_QP_MASK_RAW_QP_HANDLES) != 0) out->comp_mask = 0;
}

Refusal VerbsQueuePair::retire() {
  Refusal refusal = QpObject::retire();
  if (refusal.refused()) return refusal;
  forget_requests();
  VerbsContext::of(qp_base.context).set_pollable(number, nullptr);
  return refusal;
}

extern "C" {

ibv_qp* ibv_create_qp(ibv_pd* pd, ibv_qp_init_attr* init) {
  return answer_pointer([&] {
    auto fresh = std::make_unique<VerbsQueuePair>(VerbsContext::of(pd->context));
    return &create_queue_pair(std::move(fresh), pd, init, service_of(init->qp_type))->qp_base;
  });
}

int ibv_modify_qp(ibv_qp* handle, ibv_qp_attr* attr, int mask) {
  return answer_error([&] { verbs_qp(handle).modify(*attr, mask); });
}

int ibv_query_qp(ibv_qp* handle, ibv_qp_attr* attr, int, ibv_qp_init_attr* init) {
  return answer_error([&] {
    VerbsQp& qp = verbs_qp(handle);
    *attr = qp.query();
    attr->cap = qp.created_with.cap;
    qp.set_state(attr->qp_state);
    if (init != nullptr) *init = qp.created_with;
  });
}

int ibv_destroy_qp(ibv_qp* handle) {
  VerbsQp& qp = verbs_qp(handle);
  return destroy_with_events(handle->context, qp.object(), qp, handle);
}

int ibv_query_qp_data_in_order(ibv_qp*, ibv_wr_opcode, uint32_t) { return 0; }

}  // extern "C"
}  // namespace peal::softnic::abi
