// SPDX-License-Identifier: Apache-2.0
//
// Queue pairs made by ibv_create_qp and mlx5dv_create_qp: RC, UD, DC initiator, DC
// target.
//
//   one block of memory:  receive queue | send queue | doorbell record
#include <infiniband/mlx5dv.h>

#include <algorithm>
#include <bit>
#include <cstring>

#include "device/mlx5/layout.h"
#include "softnic/abi/acknowledged.h"
#include "softnic/abi/verbs_queues.h"

namespace peal::softnic::abi {

VerbsQp::VerbsQp() : ibv_qp_ex{} {
  pthread_mutex_init(&qp_base.mutex, nullptr);
  pthread_cond_init(&qp_base.cond, nullptr);
}

VerbsQp::~VerbsQp() {
  pthread_cond_destroy(&qp_base.cond);
  pthread_mutex_destroy(&qp_base.mutex);
}

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
  const PresentedDevice& device = qp.nic->device();
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
      allocate_queue(pd, rq_bytes + sq_bytes + sizeof(mlx5::DoorbellRecord), MLX5DV_RES_TYPE_QP);
  std::byte* memory = qp.memory.get();
  config.receive_buffer = rq_bytes != 0 ? memory : nullptr;
  config.send_buffer = memory + rq_bytes;
  config.doorbell = reinterpret_cast<mlx5::DoorbellRecord*>(memory + rq_bytes + sq_bytes);
  cap->max_send_wr = blocks / per_request;
  qp.sent.open(config.send_buffer, blocks, config.doorbell);
  qp.received.open(config.receive_buffer, rq_bytes == 0 ? 0 : cap->max_recv_wr,
                   1u << config.log_receive_stride, config.doorbell);
}

/// The caller's view, common to all three kinds.
void introduce(VerbsQp& qp, ibv_pd* pd, const ibv_qp_init_attr& init) {
  qp.created_with = init;
  ibv_qp& base = qp.qp_base;
  base.context = pd->context;
  base.qp_context = init.qp_context;
  base.pd = pd;
  base.send_cq = init.send_cq;
  base.recv_cq = init.recv_cq;
  base.srq = init.srq;
  qp.shared = static_cast<VerbsSrq*>(init.srq);
  base.qp_num = base.handle = qp.object().number;
  base.qp_type = init.qp_type;
  base.state = IBV_QPS_RESET;
}

VerbsCq& required_cq(ibv_pd* pd, ibv_cq* cq) {
  if (cq == nullptr || cq->context != pd->context) refuse(EINVAL);
  return verbs_cq(cq);
}

/// Of any protection domain: the keys in its entries are judged by its own.
VerbsSrq& required_srq(ibv_pd* pd, ibv_srq* srq) {
  if (srq == nullptr || srq->context != pd->context) refuse(EINVAL);
  return *static_cast<VerbsSrq*>(srq);
}

VerbsQueuePair* create_queue_pair(ibv_pd* pd, ibv_qp_init_attr* init, Service service) {
  auto& domain = *static_cast<Pd*>(pd);
  Context& context = Context::of(pd->context);
  auto qp = std::make_unique<VerbsQueuePair>(context.shared_nic());
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
    VerbsSrq& srq = required_srq(pd, init->srq);
    config.shared_receive_queue = srq.number;
    qp->shared_receive_queue = Use(srq);
  }
  bool receives = init->srq == nullptr && service != Service::kDcInitiator;
  place_queues(*qp, domain, &init->cap, receives);
  if (service == Service::kDatagram && context.nic().on_gpu()) refuse(EOPNOTSUPP);
  qp->QueuePair::pd = Use(domain);
  qp->QueuePair::send_cq = Use(send_cq);
  qp->receive_cq = Use(receive_cq);
  qp->uar = Use(uar);
  qp->number = require(context.nic().create_qp(config));
  qp->sent.name(qp->number, init->cap.max_send_wr, uar.reg_addr);
  introduce(*qp, pd, *init);
  VerbsQueuePair* made = context.adopt(std::move(qp));
  context.set_pollable(made->number, made);
  return made;
}

ibv_qp* create_dc_target(ibv_pd* pd, ibv_qp_init_attr* init, uint64_t key) {
  auto& domain = *static_cast<Pd*>(pd);
  Context& context = Context::of(pd->context);
  auto dct = std::make_unique<VerbsDcTarget>(context.shared_nic());
  VerbsCq& cq = required_cq(pd, init->recv_cq);
  VerbsSrq& srq = required_srq(pd, init->srq);
  dct->config.pd = domain.pdn;
  dct->config.receive_cq = cq.number;
  dct->config.shared_receive_queue = srq.number;
  dct->config.dc_access_key = key;
  dct->domain = Use(domain);
  dct->receive_cq = Use(cq);
  dct->shared_receive_queue = Use(srq);
  dct->number = context.next_number();
  introduce(*dct, pd, *init);
  dct->qp_base.qp_num = 0;  // known from RTR on
  return &context.adopt(std::move(dct))->qp_base;
}

/// ibv_create_qp's part of the extended attributes, and its pd.
ibv_qp_init_attr plain(const ibv_qp_init_attr_ex& attr) {
  ibv_qp_init_attr init = {};
  init.qp_context = attr.qp_context;
  init.send_cq = attr.send_cq;
  init.recv_cq = attr.recv_cq;
  init.srq = attr.srq;
  init.cap = attr.cap;
  init.qp_type = attr.qp_type;
  init.sq_sig_all = attr.sq_sig_all;
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

Service service_of(ibv_qp_type type) {
  if (type != IBV_QPT_RC && type != IBV_QPT_UD) refuse(EOPNOTSUPP);
  return type == IBV_QPT_RC ? Service::kReliable : Service::kDatagram;
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
  VerbsQueuePair* qp = create_queue_pair(attr.pd, &init, service);
  attr.cap = init.cap;
  if (operations != 0) qp->offer_builders(operations);
  return &qp->qp_base;
}

}  // namespace

void VerbsQueuePair::describe(mlx5dv_qp* out) {
  auto* page =
      static_cast<Uar&>(*Context::of(qp_base.context).find(Kind::kUar, config.uar_page)).reg_addr;
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
  Refusal refusal = QueuePair::retire();
  if (refusal.refused()) return refusal;
  forget_requests();
  Context::of(qp_base.context).set_pollable(number, nullptr);
  return refusal;
}

Refusal VerbsDcTarget::retire() {
  if (dctn == 0) return {};
  const Refusal refusal = nic->destroy_dc_target(dctn);
  if (refusal.refused()) return refusal;
  drop_completions(verbs_cq(qp_base.recv_cq), *this);
  Context::of(qp_base.context).set_pollable(dctn, nullptr);
  return {};
}

void VerbsDcTarget::describe(mlx5dv_qp*) { refuse(EOPNOTSUPP); }

ibv_qp* create_qp_ex_slot(ibv_context* handle, ibv_qp_init_attr_ex* attr) {
  return answer_pointer([&] {
    check_extended(handle, *attr, nullptr);
    return create_extended(*attr);
  });
}

}  // namespace peal::softnic::abi

using namespace peal::softnic;
using namespace peal::softnic::abi;

extern "C" {

ibv_qp* ibv_create_qp(ibv_pd* pd, ibv_qp_init_attr* init) {
  return answer_pointer(
      [&] { return &create_queue_pair(pd, init, service_of(init->qp_type))->qp_base; });
}

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
    VerbsQueuePair* qp = create_queue_pair(attr->pd, &init, Service::kDcInitiator);
    attr->cap = init.cap;
    return &qp->qp_base;
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
  const bool waited =
      wait_acknowledged(*handle, [&] { return handle->events_completed == qp.async_reported; });
  return answer_error([&] {
    if (!waited) refuse(EBUSY);
    destroy_with_events(Context::of(handle->context), qp.object(), handle);
  });
}

int ibv_query_qp_data_in_order(ibv_qp*, ibv_wr_opcode, uint32_t) { return 0; }

}  // extern "C"
