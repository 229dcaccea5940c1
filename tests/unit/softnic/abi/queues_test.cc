// SPDX-License-Identifier: Apache-2.0
//
// Queues made by verbs: completion queues, shared receive queues, RC and DC queue pairs, address
// handles, async events.
#include <fcntl.h>
#include <poll.h>

#include <chrono>

#include "tests/unit/softnic/abi/support.h"

extern "C" {
int peal_softnic_inject(const char* plan, char* error, size_t bytes);
int peal_softnic_clear_faults();
}

namespace peal::softnic::abi_test {
namespace {

constexpr int kInitMask = IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS;
constexpr int kRtrMask = IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
                         IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
constexpr int kRtsMask = IBV_QP_STATE | IBV_QP_SQ_PSN | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT |
                         IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC;

class SoftnicAbiQueues : public SoftnicAbi {
 protected:
  void SetUp() override {
    SoftnicAbi::SetUp();
    cq = ibv_create_cq(context, 100, &cookie, nullptr, 0);
    ASSERT_NE(cq, nullptr);
    ibv_srq_init_attr init = {};
    init.attr.max_wr = 10;
    init.attr.max_sge = 1;
    srq = ibv_create_srq(pd, &init);
    ASSERT_NE(srq, nullptr);
  }
  ibv_qp_init_attr rc_init() {
    ibv_qp_init_attr init = {};
    init.send_cq = init.recv_cq = cq;
    init.cap = {.max_send_wr = 16,
                .max_recv_wr = 16,
                .max_send_sge = 1,
                .max_recv_sge = 1,
                .max_inline_data = 28};
    init.qp_type = IBV_QPT_RC;
    return init;
  }
  ibv_qp* create_rc() {
    ibv_qp_init_attr init = rc_init();
    return ibv_create_qp(pd, &init);
  }
  ibv_qp* create_dc(mlx5dv_dc_type type, uint64_t key) {
    ibv_qp_init_attr_ex attr = {};
    attr.qp_type = IBV_QPT_DRIVER;
    attr.send_cq = attr.recv_cq = cq;
    attr.comp_mask = IBV_QP_INIT_ATTR_PD;
    attr.pd = pd;
    attr.srq = srq;
    attr.cap.max_send_wr = 8;
    attr.cap.max_send_sge = 1;
    mlx5dv_qp_init_attr mlx5 = {};
    mlx5.comp_mask = MLX5DV_QP_INIT_ATTR_MASK_DC;
    mlx5.dc_init_attr.dc_type = type;
    mlx5.dc_init_attr.dct_access_key = key;
    return mlx5dv_create_qp(context, &attr, &mlx5);
  }
  ibv_qp_attr attributes(ibv_qp_state state, uint32_t peer) {
    ibv_qp_attr attr = {};
    attr.qp_state = state;
    attr.port_num = 1;
    attr.qp_access_flags = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC;
    attr.path_mtu = IBV_MTU_1024;
    attr.dest_qp_num = peer;
    attr.rq_psn = 5;
    attr.sq_psn = 5;
    attr.ah_attr.dlid = lid();
    attr.ah_attr.port_num = 1;
    attr.max_rd_atomic = 4;
    attr.max_dest_rd_atomic = 8;
    attr.min_rnr_timer = 12;
    attr.timeout = 14;
    attr.retry_cnt = 7;
    attr.rnr_retry = 7;
    return attr;
  }
  int modify(ibv_qp* qp, ibv_qp_state state, int mask) {
    ibv_qp_attr attr = attributes(state, qp->qp_num);
    return ibv_modify_qp(qp, &attr, mask);
  }

  int cookie = 0;
  ibv_cq* cq = nullptr;
  ibv_srq* srq = nullptr;
};

TEST_F(SoftnicAbiQueues, CompletionQueueHoldsMoreThanAskedFor) {
  EXPECT_EQ(cq->cqe, 127);
  EXPECT_EQ(cq->cq_context, &cookie);
  mlx5dv_cq view = {};
  mlx5dv_obj obj = {};
  obj.cq.in = cq;
  obj.cq.out = &view;
  ASSERT_EQ(mlx5dv_init_obj(&obj, MLX5DV_OBJ_CQ), 0);
  EXPECT_EQ(view.cqe_cnt, 128u);
  EXPECT_EQ(view.cqe_size, 64u);
  EXPECT_NE(view.cqn, 0u);
  EXPECT_NE(view.dbrec, nullptr);
  EXPECT_NE(view.cq_uar, nullptr);
  auto* last = static_cast<mlx5_cqe64*>(view.buf) + 127;
  EXPECT_EQ(mlx5dv_get_cqe_opcode(last), MLX5_CQE_INVALID);
}

TEST_F(SoftnicAbiQueues, CompletionQueueRefusesImpossibleRequests) {
  EXPECT_EQ(ibv_create_cq(context, 0, nullptr, nullptr, 0), nullptr);
  EXPECT_EQ(errno, EINVAL);
  EXPECT_EQ(ibv_create_cq(context, 1 << 23, nullptr, nullptr, 0), nullptr);
  EXPECT_EQ(errno, EINVAL);
  EXPECT_EQ(ibv_create_cq(context, 16, nullptr, nullptr, 1), nullptr);
  EXPECT_EQ(errno, EINVAL);
}

TEST_F(SoftnicAbiQueues, ChannelStaysWhileAQueueUsesIt) {
  ibv_comp_channel* channel = ibv_create_comp_channel(context);
  ASSERT_NE(channel, nullptr);
  EXPECT_GE(channel->fd, 0);
  ibv_cq* with_channel = ibv_create_cq(context, 16, nullptr, channel, 0);
  ASSERT_NE(with_channel, nullptr);
  EXPECT_EQ(channel->refcnt, 1);
  EXPECT_EQ(ibv_destroy_comp_channel(channel), EBUSY);
  EXPECT_EQ(ibv_destroy_cq(with_channel), 0);
  EXPECT_EQ(ibv_destroy_comp_channel(channel), 0);
}

TEST_F(SoftnicAbiQueues, SharedReceiveQueueHasANumber) {
  uint32_t number = 0;
  ASSERT_EQ(ibv_get_srq_num(srq, &number), 0);
  EXPECT_NE(number, 0u);
  mlx5dv_srq view = {};
  view.comp_mask = MLX5DV_SRQ_MASK_SRQN;
  mlx5dv_obj obj = {};
  obj.srq.in = srq;
  obj.srq.out = &view;
  ASSERT_EQ(mlx5dv_init_obj(&obj, MLX5DV_OBJ_SRQ), 0);
  EXPECT_EQ(view.srqn, number);
  EXPECT_EQ(view.stride, 32u);
  ibv_srq_attr attr = {};
  EXPECT_EQ(ibv_query_srq(srq, &attr), 0);
  EXPECT_GE(attr.max_wr, 10u);
}

TEST_F(SoftnicAbiQueues, ViewsAQueuePair) {
  ibv_qp* qp = create_rc();
  ASSERT_NE(qp, nullptr);
  mlx5dv_qp view = {};
  mlx5dv_obj obj = {};
  obj.qp.in = qp;
  obj.qp.out = &view;
  ASSERT_EQ(mlx5dv_init_obj(&obj, MLX5DV_OBJ_QP), 0);
  EXPECT_EQ(view.sq.stride, 64u);
  EXPECT_GE(view.sq.wqe_cnt, 16u);
  EXPECT_EQ(view.rq.wqe_cnt, 16u);
  EXPECT_EQ(static_cast<uint8_t*>(view.rq.buf) + 256, view.sq.buf);
  EXPECT_NE(view.bf.reg, nullptr);
  EXPECT_EQ(mlx5dv_init_obj(&obj, MLX5DV_OBJ_RWQ), EOPNOTSUPP);
}

TEST_F(SoftnicAbiQueues, WalksARcQueuePairToReadyToSend) {
  ibv_qp* qp = create_rc();
  ASSERT_NE(qp, nullptr);
  EXPECT_EQ(modify(qp, IBV_QPS_INIT, kInitMask), 0);
  EXPECT_EQ(modify(qp, IBV_QPS_RTR, kRtrMask), 0);
  EXPECT_EQ(modify(qp, IBV_QPS_RTS, kRtsMask), 0);
  EXPECT_EQ(qp->state, IBV_QPS_RTS);
  ibv_qp_attr attr = {};
  ibv_qp_init_attr init = {};
  ASSERT_EQ(ibv_query_qp(qp, &attr, 0, &init), 0);
  EXPECT_EQ(attr.qp_state, IBV_QPS_RTS);
  EXPECT_EQ(attr.path_mtu, IBV_MTU_1024);
  EXPECT_EQ(attr.dest_qp_num, qp->qp_num);
  EXPECT_EQ(attr.rq_psn, 5u);
  EXPECT_EQ(attr.ah_attr.dlid, lid());
  EXPECT_EQ(attr.max_rd_atomic, 4);
  EXPECT_EQ(attr.max_dest_rd_atomic, 8);
  EXPECT_EQ(attr.timeout, 14);
  EXPECT_EQ(init.send_cq, cq);
  EXPECT_EQ(modify(qp, IBV_QPS_ERR, IBV_QP_STATE), 0);
  EXPECT_EQ(modify(qp, IBV_QPS_RESET, IBV_QP_STATE), 0);
  EXPECT_EQ(qp->state, IBV_QPS_RESET);
  EXPECT_EQ(ibv_destroy_cq(cq), EBUSY);
  EXPECT_EQ(ibv_destroy_qp(qp), 0);
  EXPECT_EQ(ibv_destroy_cq(cq), 0);
}

TEST_F(SoftnicAbiQueues, RefusesATransitionWithAMissingAttribute) {
  ibv_qp* qp = create_rc();
  for (int missing : {IBV_QP_PKEY_INDEX, IBV_QP_PORT, IBV_QP_ACCESS_FLAGS})
    EXPECT_EQ(modify(qp, IBV_QPS_INIT, kInitMask & ~missing), EINVAL) << missing;
  ASSERT_EQ(modify(qp, IBV_QPS_INIT, kInitMask), 0);
  for (int missing : {IBV_QP_AV, IBV_QP_PATH_MTU, IBV_QP_DEST_QPN, IBV_QP_RQ_PSN,
                      IBV_QP_MAX_DEST_RD_ATOMIC, IBV_QP_MIN_RNR_TIMER})
    EXPECT_EQ(modify(qp, IBV_QPS_RTR, kRtrMask & ~missing), EINVAL) << missing;
  ASSERT_EQ(modify(qp, IBV_QPS_RTR, kRtrMask), 0);
  for (int missing :
       {IBV_QP_SQ_PSN, IBV_QP_TIMEOUT, IBV_QP_RETRY_CNT, IBV_QP_RNR_RETRY, IBV_QP_MAX_QP_RD_ATOMIC})
    EXPECT_EQ(modify(qp, IBV_QPS_RTS, kRtsMask & ~missing), EINVAL) << missing;
  EXPECT_EQ(modify(qp, IBV_QPS_RTS, kRtsMask), 0);
}

TEST_F(SoftnicAbiQueues, RefusesImpossibleAttributes) {
  ibv_qp* qp = create_rc();
  EXPECT_EQ(modify(qp, IBV_QPS_RTR, kRtrMask), EINVAL);  // from RESET
  ibv_qp_attr attr = attributes(IBV_QPS_INIT, 0);
  attr.port_num = 2;
  EXPECT_EQ(ibv_modify_qp(qp, &attr, kInitMask), EINVAL);
  ASSERT_EQ(modify(qp, IBV_QPS_INIT, kInitMask), 0);
  attr = attributes(IBV_QPS_RTR, qp->qp_num);
  attr.ah_attr.dlid = 0;
  EXPECT_EQ(ibv_modify_qp(qp, &attr, kRtrMask), EINVAL);
  attr = attributes(IBV_QPS_RTR, qp->qp_num);
  attr.max_dest_rd_atomic = 17;
  EXPECT_EQ(ibv_modify_qp(qp, &attr, kRtrMask), EINVAL);
  attr = attributes(IBV_QPS_RTR, qp->qp_num);
  attr.cur_qp_state = IBV_QPS_RTS;
  EXPECT_EQ(ibv_modify_qp(qp, &attr, kRtrMask | IBV_QP_CUR_STATE), EINVAL);
  EXPECT_EQ(modify(qp, IBV_QPS_SQD, IBV_QP_STATE), EINVAL);
}

TEST_F(SoftnicAbiQueues, RefusesQueuePairsItCannotMake) {
  ibv_qp_init_attr init = rc_init();
  init.qp_type = IBV_QPT_UC;
  EXPECT_EQ(ibv_create_qp(pd, &init), nullptr);
  EXPECT_EQ(errno, EOPNOTSUPP);
  init = rc_init();
  init.send_cq = nullptr;
  EXPECT_EQ(ibv_create_qp(pd, &init), nullptr);
  EXPECT_EQ(errno, EINVAL);
  init = rc_init();
  init.cap.max_send_wr = 1u << 20;
  EXPECT_EQ(ibv_create_qp(pd, &init), nullptr);
  EXPECT_EQ(errno, EINVAL);
  init = rc_init();
  init.cap.max_inline_data = 4096;
  EXPECT_EQ(ibv_create_qp(pd, &init), nullptr);
  EXPECT_EQ(errno, EINVAL);
}

TEST_F(SoftnicAbiQueues, DcTargetGetsItsNumberInReadyToReceive) {
  ibv_qp* dct = create_dc(MLX5DV_DCTYPE_DCT, 0x5623ceaf);
  ASSERT_NE(dct, nullptr) << std::strerror(errno);
  EXPECT_EQ(dct->qp_num, 0u);
  EXPECT_EQ(modify(dct, IBV_QPS_RTR, kRtrMask), EINVAL);
  EXPECT_EQ(modify(dct, IBV_QPS_INIT, kInitMask & ~IBV_QP_PORT), EINVAL);
  ASSERT_EQ(modify(dct, IBV_QPS_INIT, kInitMask), 0);
  EXPECT_EQ(modify(dct, IBV_QPS_RTR, IBV_QP_STATE | IBV_QP_AV), EINVAL);
  ASSERT_EQ(
      modify(dct, IBV_QPS_RTR, IBV_QP_STATE | IBV_QP_MIN_RNR_TIMER | IBV_QP_AV | IBV_QP_PATH_MTU),
      0);
  EXPECT_NE(dct->qp_num, 0u);
  EXPECT_EQ(modify(dct, IBV_QPS_RTS, kRtsMask), EINVAL);
  ibv_qp_attr attr = {};
  EXPECT_EQ(ibv_query_qp(dct, &attr, 0, nullptr), 0);
  EXPECT_EQ(attr.qp_state, IBV_QPS_RTR);
  EXPECT_EQ(ibv_destroy_srq(srq), EBUSY);
  EXPECT_EQ(ibv_destroy_qp(dct), 0);
  EXPECT_EQ(ibv_destroy_srq(srq), 0);
}

TEST_F(SoftnicAbiQueues, DcInitiatorWalksToReadyToSendWithoutAPeer) {
  ibv_qp* dci = create_dc(MLX5DV_DCTYPE_DCI, 0);
  ASSERT_NE(dci, nullptr);
  EXPECT_EQ(modify(dci, IBV_QPS_INIT, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT), 0);
  EXPECT_EQ(modify(dci, IBV_QPS_RTR, IBV_QP_STATE | IBV_QP_PATH_MTU), 0);
  EXPECT_EQ(modify(dci, IBV_QPS_RTS, kRtsMask & ~IBV_QP_SQ_PSN), 0);
  EXPECT_EQ(ibv_destroy_qp(dci), 0);
}

TEST_F(SoftnicAbiQueues, DcTargetByCommand) {
  mlx5dv_cq view = {};
  mlx5dv_obj obj = {};
  obj.cq.in = cq;
  obj.cq.out = &view;
  ASSERT_EQ(mlx5dv_init_obj(&obj, MLX5DV_OBJ_CQ), 0);
  uint32_t srqn = 0;
  ASSERT_EQ(ibv_get_srq_num(srq, &srqn), 0);
  Mailbox in(128, 0x710);
  in.set(kDctc + 2, 23, 0, view.cqn).set(kDctc + 5, 23, 0, srqn).set(kDctc + 6, 23, 0, pdn_of(pd));
  in.set(kDctc + 3, 18, 18, 1).set(kDctc + 9, 31, 0, 77).set(kDctc + 10, 26, 24, 5);
  expect_refused(in, 0x03, EINVAL);  // no port
  in.set(kDctc + 10, 23, 16, 1);
  mlx5dv_devx_obj* dct = create(in);
  ASSERT_NE(dct, nullptr) << out.status();
  uint32_t dctn = out.number();
  Mailbox answer = query(dct, 0x713, dctn, 80);
  EXPECT_EQ(answer.get(kDctc + 9, 31, 0), 77u);
  EXPECT_EQ(answer.get(kDctc + 3, 19, 17), 2u);  // remote write only
  EXPECT_EQ(mlx5dv_devx_obj_destroy(dct), 0);
  // UCX 1.22 knows a longer context.
  Mailbox longer(in);
  longer.resize(176);
  dct = create(longer);
  EXPECT_NE(dct, nullptr) << out.status();
  EXPECT_EQ(mlx5dv_devx_obj_destroy(dct), 0);
  longer.resize(144);
  expect_refused(longer, 0x50, EIO);
  expect_refused(Mailbox(in).set(kDctc + 5, 23, 0, 0xffff), 0x05, EINVAL);
  expect_refused(Mailbox(in).set(kDctc + 2, 23, 0, 0xffff), 0x05, EINVAL);
}

TEST_F(SoftnicAbiQueues, CommandsReachVerbsObjectsToo) {
  ibv_qp* qp = create_rc();
  Mailbox in(16, 0x50b);
  in.set(2, 23, 0, qp->qp_num);
  Mailbox answer(272);
  ASSERT_EQ(mlx5dv_devx_qp_query(qp, in.data(), 16, answer.data(), answer.size()), 0);
  EXPECT_EQ(answer.get(kQpc, 31, 28), 0u);
  EXPECT_EQ(answer.get(kQpc + 2, 22, 19), 4u);  // 16 receive entries
  Mailbox to = to_init(qp->qp_num);
  EXPECT_EQ(mlx5dv_devx_qp_modify(qp, to.data(), to.size(), out.data(), 16), 0);
  ibv_qp_attr attr = {};
  ASSERT_EQ(ibv_query_qp(qp, &attr, 0, nullptr), 0);
  EXPECT_EQ(attr.qp_state, IBV_QPS_INIT);
  Mailbox cq_in(16, 0x402);
  cq_in.set(2, 23, 0, cq->handle);
  ASSERT_EQ(mlx5dv_devx_cq_query(cq, cq_in.data(), 16, answer.data(), answer.size()), 0);
  EXPECT_EQ(answer.get(kCqc + 3, 28, 24), 7u);
}

TEST_F(SoftnicAbiQueues, AddressHandleIsAnAddressVector) {
  ibv_ah_attr attr = {};
  attr.dlid = 0x1234;
  attr.sl = 3;
  attr.port_num = 1;
  ibv_ah* ah = ibv_create_ah(pd, &attr);
  ASSERT_NE(ah, nullptr);
  mlx5dv_ah view = {};
  mlx5dv_obj obj = {};
  obj.ah.in = ah;
  obj.ah.out = &view;
  ASSERT_EQ(mlx5dv_init_obj(&obj, MLX5DV_OBJ_AH), 0);
  EXPECT_EQ(be16toh(view.av->rlid), 0x1234);
  EXPECT_EQ(view.av->stat_rate_sl, 3);
  EXPECT_EQ(ibv_destroy_ah(ah), 0);
  attr.dlid = 0;
  EXPECT_EQ(ibv_create_ah(pd, &attr), nullptr);
  EXPECT_EQ(errno, EINVAL);
  attr.dlid = 1;
  attr.port_num = 2;
  EXPECT_EQ(ibv_create_ah(pd, &attr), nullptr);
}

TEST_F(SoftnicAbiQueues, EmptySlotsAnswerUnsupportedThroughInlineCalls) {
  EXPECT_EQ(ibv_alloc_null_mr(pd), nullptr);
  EXPECT_EQ(errno, EOPNOTSUPP);
  EXPECT_EQ(ibv_alloc_mw(pd, IBV_MW_TYPE_1), nullptr);
  EXPECT_EQ(errno, EOPNOTSUPP);
  ibv_xrcd_init_attr xrcd = {};
  EXPECT_EQ(ibv_open_xrcd(context, &xrcd), nullptr);
  EXPECT_EQ(errno, EOPNOTSUPP);
  EXPECT_EQ(ibv_advise_mr(pd, IBV_ADVISE_MR_ADVICE_PREFETCH, 0, nullptr, 0), EOPNOTSUPP);
}

TEST_F(SoftnicAbiQueues, NoEventMeansEagainWhenNonblocking) {
  ASSERT_EQ(fcntl(context->async_fd, F_SETFL, O_NONBLOCK), 0);
  ibv_async_event event = {};
  EXPECT_EQ(ibv_get_async_event(context, &event), -1);
  EXPECT_EQ(errno, EAGAIN);
}

/// The NIC refuses a WRITE whose key nobody knows; the responder's queue pair reports it.
TEST_F(SoftnicAbiQueues, AFailingPeerRaisesAnEventInTheOwningContextOnly) {
  ibv_qp* qp = create_rc();
  ASSERT_EQ(modify(qp, IBV_QPS_INIT, kInitMask), 0);
  ASSERT_EQ(modify(qp, IBV_QPS_RTR, kRtrMask), 0);
  ASSERT_EQ(modify(qp, IBV_QPS_RTS, kRtsMask), 0);
  ibv_context* bystander = ibv_open_device(context->device);
  ASSERT_EQ(fcntl(bystander->async_fd, F_SETFL, O_NONBLOCK), 0);
  ibv_mr* mr = ibv_reg_mr(pd, memory.get(), kPage, IBV_ACCESS_LOCAL_WRITE);
  ASSERT_NE(mr, nullptr);
  mlx5dv_qp view = {};
  mlx5dv_obj obj = {};
  obj.qp.in = qp;
  obj.qp.out = &view;
  ASSERT_EQ(mlx5dv_init_obj(&obj, MLX5DV_OBJ_QP), 0);
  auto* control = static_cast<mlx5_wqe_ctrl_seg*>(view.sq.buf);
  mlx5dv_set_ctrl_seg(control, 0, MLX5_OPCODE_RDMA_WRITE, 0, qp->qp_num, MLX5_WQE_CTRL_CQ_UPDATE, 3,
                      0, 0);
  auto* remote = reinterpret_cast<mlx5_wqe_raddr_seg*>(control + 1);
  remote->raddr = 0;
  remote->rkey = htobe32(0xdeadbe00);
  mlx5dv_set_data_seg(reinterpret_cast<mlx5_wqe_data_seg*>(remote + 1), 8, mr->lkey,
                      reinterpret_cast<uintptr_t>(mr->addr));
  __atomic_store_n(&view.dbrec[MLX5_SND_DBR], htobe32(1), __ATOMIC_RELEASE);
  ring(view.bf.reg, view.sq.buf);

  pollfd wait = {.fd = context->async_fd, .events = POLLIN, .revents = 0};
  ASSERT_EQ(poll(&wait, 1, 20000), 1);
  ibv_async_event event = {};
  EXPECT_EQ(ibv_get_async_event(bystander, &event), -1);  // routes it, gets nothing
  EXPECT_EQ(errno, EAGAIN);
  ASSERT_EQ(ibv_get_async_event(context, &event), 0);
  EXPECT_EQ(event.event_type, IBV_EVENT_QP_ACCESS_ERR);
  EXPECT_EQ(event.element.qp, qp);
  EXPECT_EQ(ibv_destroy_qp(qp), EBUSY);  // not acknowledged yet
  ibv_ack_async_event(&event);
  ibv_qp_attr attr = {};
  ASSERT_EQ(ibv_query_qp(qp, &attr, 0, nullptr), 0);
  EXPECT_EQ(attr.qp_state, IBV_QPS_ERR);
  EXPECT_EQ(ibv_destroy_qp(qp), 0);
  EXPECT_EQ(ibv_close_device(bystander), 0);
}

TEST_F(SoftnicAbiQueues, APortThatGoesDownAndUpRaisesEventsInEveryContext) {
  ibv_context* other = ibv_open_device(first_device());
  ibv_port_attr port = {};
  ASSERT_EQ(ibv_query_port(context, 1, &port), 0);
  EXPECT_EQ(port.state, IBV_PORT_ACTIVE);
  ASSERT_EQ(peal_softnic_inject("after_ms=0 fault=port_down", nullptr, 0), 0);
  for (ibv_context* each : {context, other}) {
    ibv_async_event event = {};
    ASSERT_EQ(ibv_get_async_event(each, &event), 0);
    EXPECT_EQ(event.event_type, IBV_EVENT_PORT_ERR);
    EXPECT_EQ(event.element.port_num, 1);
    ibv_ack_async_event(&event);
  }
  ASSERT_EQ(ibv_query_port(context, 1, &port), 0);
  EXPECT_EQ(port.state, IBV_PORT_DOWN);
  ASSERT_EQ(peal_softnic_clear_faults(), 0);
  ibv_async_event event = {};
  ASSERT_EQ(ibv_get_async_event(other, &event), 0);
  EXPECT_EQ(event.event_type, IBV_EVENT_PORT_ACTIVE);
  ASSERT_EQ(ibv_query_port(context, 1, &port), 0);
  EXPECT_EQ(port.state, IBV_PORT_ACTIVE);
  EXPECT_EQ(ibv_close_device(other), 0);
}

TEST_F(SoftnicAbiQueues, ClosingTheContextCleansUpEverything) {
  ibv_context* other = ibv_open_device(context->device);
  ibv_pd* domain = ibv_alloc_pd(other);
  ibv_cq* queue = ibv_create_cq(other, 16, nullptr, nullptr, 0);
  ibv_qp_init_attr init = rc_init();
  init.send_cq = init.recv_cq = queue;
  ASSERT_NE(ibv_create_qp(domain, &init), nullptr);
  ASSERT_NE(ibv_reg_mr(domain, memory.get(), 64, IBV_ACCESS_LOCAL_WRITE), nullptr);
  ASSERT_NE(mlx5dv_devx_umem_reg(other, memory.get(), kPage, 0), nullptr);
  EXPECT_EQ(ibv_close_device(other), 0);
  // The numbers are free again: the next context gets the same.
  uint32_t pdn = pdn_of(pd);
  other = ibv_open_device(context->device);
  domain = ibv_alloc_pd(other);
  EXPECT_LE(pdn_of(domain), pdn + 1);
  EXPECT_EQ(ibv_close_device(other), 0);
}

}  // namespace
}  // namespace peal::softnic::abi_test
