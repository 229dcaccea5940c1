// SPDX-License-Identifier: Apache-2.0
//
// Shared receive queues outside of the data path: async events and their acknowledgement, what is
// refused, what mlx5dv shows of them, and DC targets.
#include "tests/unit/softnic/abi/srq_support.h"

namespace peal::softnic::abi_test {
namespace {

using SoftnicAbiSrqEvent = SoftnicAbiSrq;

// ---- the limit

TEST_P(SoftnicAbiSrqEvent, TheLimitTellsOnceAndDisarms) {
  connect_both();
  for (uint64_t name = 0; name < 10; ++name) ASSERT_EQ(post_shared(name), 0);
  ASSERT_EQ(arm(7), 0);
  EXPECT_EQ(limit(), 7u);
  for (uint64_t i = 0; i < 3; ++i) {
    ASSERT_EQ(send(i % 2 == 0 ? a : a2, i, 0, 8), 0);
    ASSERT_EQ(next(cq).status, IBV_WC_SUCCESS);
  }
  EXPECT_TRUE(no_event());  // 7 wait
  EXPECT_EQ(limit(), 7u);
  ASSERT_EQ(send(a, 3, 0, 8), 0);
  ibv_async_event told = event();
  EXPECT_EQ(told.event_type, IBV_EVENT_SRQ_LIMIT_REACHED);
  EXPECT_EQ(told.element.srq, srq);
  ibv_ack_async_event(&told);
  EXPECT_EQ(limit(), 0u);
  ASSERT_EQ(send(a, 4, 0, 8), 0);
  for (int i = 0; i < 2; ++i) ASSERT_EQ(next(cq).status, IBV_WC_SUCCESS);
  EXPECT_TRUE(no_event());
}

TEST_P(SoftnicAbiSrqEvent, ALimitThatIsNotReachedAnyMoreTellsAtOnce) {
  ASSERT_EQ(post_shared(1), 0);
  ASSERT_EQ(arm(1), 0);
  EXPECT_TRUE(no_event());
  ASSERT_EQ(arm(0), 0);
  EXPECT_EQ(limit(), 0u);
  ASSERT_EQ(arm(2), 0);
  EXPECT_EQ(acknowledged_event().event_type, IBV_EVENT_SRQ_LIMIT_REACHED);
  EXPECT_EQ(limit(), 0u);
  EXPECT_TRUE(no_event());
}

TEST_P(SoftnicAbiSrqEvent, DestroyingWaitsForTheAcknowledgement) {
  ASSERT_EQ(ibv_destroy_qp(b), 0);
  ASSERT_EQ(ibv_destroy_qp(b2), 0);
  ASSERT_EQ(arm(1), 0);
  ibv_async_event told = event();
  EXPECT_EQ(ibv_destroy_srq(srq), EBUSY);
  std::thread later([&] {
    std::this_thread::yield();
    ibv_ack_async_event(&told);
  });
  EXPECT_EQ(ibv_destroy_srq(srq), 0);
  later.join();
}

TEST_P(SoftnicAbiSrqEvent, MoreAcknowledgementsThanEventsCountForNothing) {
  ASSERT_EQ(arm(1), 0);
  ibv_async_event told = event();
  ibv_ack_async_event(&told);
  errno = 0;
  ibv_ack_async_event(&told);
  EXPECT_EQ(errno, EINVAL);
}

/// What waits to be told of a destroyed object is told of no other that gets its number.
TEST_P(SoftnicAbiSrqEvent, TheNextOfItsNumberHearsNothingOfADestroyedOne) {
  ibv_srq* first = make_srq(pd, 4, 1);
  uint32_t number = 0;
  ASSERT_EQ(ibv_get_srq_num(first, &number), 0);
  ibv_srq_attr attr = {};
  attr.srq_limit = 2;
  ASSERT_EQ(ibv_modify_srq(first, &attr, IBV_SRQ_LIMIT), 0);
  ASSERT_EQ(ibv_destroy_srq(first), 0);
  ibv_srq* second = make_srq(pd, 4, 1);
  uint32_t same_number = 0;
  ASSERT_EQ(ibv_get_srq_num(second, &same_number), 0);
  EXPECT_EQ(number, same_number);
  EXPECT_TRUE(no_event());
}

// ---- the last entry

TEST_P(SoftnicAbiSrqEvent, AFailedConnectionTellsOfItsLastEntryOnce) {
  connect_both();
  ASSERT_EQ(post_shared(1), 0);
  ASSERT_EQ(to_state(b, IBV_QPS_ERR), 0);
  ibv_async_event told = event();
  EXPECT_EQ(told.event_type, IBV_EVENT_QP_LAST_WQE_REACHED);
  EXPECT_EQ(told.element.qp, b);
  EXPECT_EQ(ibv_destroy_qp(b), EBUSY);  // not acknowledged
  ibv_ack_async_event(&told);
  ASSERT_EQ(to_state(b, IBV_QPS_ERR), 0);
  EXPECT_TRUE(no_event());
  ibv_wc wc = {};
  EXPECT_EQ(ibv_poll_cq(receive_cq, 1, &wc), 0);  // entries of the queue are not flushed
  ASSERT_EQ(send(a2, 1, 0, 8), 0);
  EXPECT_EQ(next(receive_cq2).wr_id, 1u);
  ASSERT_EQ(to_state(b, IBV_QPS_RESET), 0);
  ASSERT_EQ(to_init(b), 0);
  ASSERT_EQ(to_state(b, IBV_QPS_ERR), 0);  // another life
  EXPECT_EQ(acknowledged_event().event_type, IBV_EVENT_QP_LAST_WQE_REACHED);
  ASSERT_EQ(ibv_destroy_qp(b), 0);
}

/// A connection that only receives, and was idle for long, fails by what its peer asks for.
TEST_P(SoftnicAbiSrqEvent, ARefusalIsToldBeforeTheLastEntry) {
  ASSERT_EQ(to_init(b), 0);
  ASSERT_EQ(to_rtr(b, a->qp_num), 0);
  ASSERT_EQ(to_init(a), 0);
  ASSERT_EQ(to_rtr(a, b->qp_num), 0);
  ASSERT_EQ(to_rts(a), 0);
  std::vector<ibv_sge> list = {piece(0, 8)};
  ibv_send_wr wr = request(IBV_WR_RDMA_WRITE, 1, list);
  wr.wr.rdma.rkey ^= 0x55;
  ASSERT_EQ(post(a, wr), 0);
  EXPECT_EQ(next(cq).status, IBV_WC_REM_ACCESS_ERR);
  EXPECT_EQ(acknowledged_event().event_type, IBV_EVENT_QP_ACCESS_ERR);
  ibv_async_event told = acknowledged_event();
  EXPECT_EQ(told.event_type, IBV_EVENT_QP_LAST_WQE_REACHED);
  EXPECT_EQ(told.element.qp, b);
}

/// The same without a shared queue: the entries of one that only receives are flushed too.
TEST_P(SoftnicAbiSrqEvent, AConnectionThatOnlyReceivesFlushesItsOwnEntries) {
  ibv_qp* own = make_qp();
  ASSERT_NE(own, nullptr);
  ASSERT_EQ(to_init(own), 0);
  ASSERT_EQ(to_rtr(own, a->qp_num), 0);
  ASSERT_EQ(to_init(a), 0);
  ASSERT_EQ(to_rtr(a, own->qp_num), 0);
  ASSERT_EQ(to_rts(a), 0);
  ASSERT_EQ(post_receive(own, 1, {piece(0, 4)}), 0);
  ASSERT_EQ(post_receive(own, 2, {piece(0, 4)}), 0);
  ASSERT_EQ(send(a, 1, 8, 8), 0);
  EXPECT_EQ(next(receive_cq).status, IBV_WC_LOC_LEN_ERR);
  const ibv_wc wc = next(receive_cq);
  EXPECT_EQ(wc.status, IBV_WC_WR_FLUSH_ERR);
  EXPECT_EQ(wc.wr_id, 2u);
  EXPECT_TRUE(no_event());
}

// ---- a client that drives the memory itself

TEST_P(SoftnicAbiSrqEvent, TheMemoryIsAListThatClientsMayFollow) {
  const mlx5dv_srq before = view();
  EXPECT_EQ(before.stride, 64u);
  EXPECT_EQ(before.head, 0u);
  EXPECT_EQ(before.tail, 15u);
  auto* entries = static_cast<uint8_t*>(before.buf);
  const auto link = [&](uint32_t index) {
    return reinterpret_cast<mlx5_wqe_srq_next_seg*>(entries + index * before.stride);
  };
  for (uint32_t i = 0; i < 15; ++i) EXPECT_EQ(be16toh(link(i)->next_wqe_index), i + 1);
  connect_both();
  fill(0, 8, 3);
  auto* list = reinterpret_cast<mlx5_wqe_data_seg*>(link(0) + 1);
  mlx5dv_set_data_seg(list, 8, mr->lkey, reinterpret_cast<uintptr_t>(buffer.get() + kTarget));
  __atomic_store_n(before.dbrec, htobe32(1), __ATOMIC_RELEASE);
  ASSERT_EQ(send(a, 1, 0, 8), 0);
  ASSERT_EQ(next(cq).status, IBV_WC_SUCCESS);
  EXPECT_TRUE(same(0, kTarget, 8));
}

TEST_P(SoftnicAbiSrqEvent, EntriesThatComeBackAreLinkedBehindTheLast) {
  connect_both();
  for (uint64_t name = 0; name < 2; ++name) ASSERT_EQ(post_shared(name), 0);
  EXPECT_EQ(view().head, 2u);
  ASSERT_EQ(send(a, 0, 0, 8), 0);  // takes entry 0
  ASSERT_EQ(next(cq).status, IBV_WC_SUCCESS);
  ASSERT_EQ(send(a2, 1, 0, 8), 0);  // takes entry 1
  EXPECT_EQ(next(receive_cq2).wr_id, 1u);
  EXPECT_EQ(view().tail, 1u);
  EXPECT_EQ(next(receive_cq).wr_id, 0u);
  EXPECT_EQ(view().tail, 0u);
  auto* entries = static_cast<uint8_t*>(view().buf);
  const auto next_of = [&](uint32_t index) {
    auto* link = reinterpret_cast<mlx5_wqe_srq_next_seg*>(entries + index * view().stride);
    return be16toh(link->next_wqe_index);
  };
  EXPECT_EQ(next_of(15), 1u);
  EXPECT_EQ(next_of(1), 0u);
}

TEST_P(SoftnicAbiSrqEvent, ALinkOutOfTheQueueFailsIt) {
  connect_both();
  ASSERT_EQ(post_shared(1), 0);
  auto* link = static_cast<mlx5_wqe_srq_next_seg*>(view().buf);
  link->next_wqe_index = htobe16(16);
  __atomic_store_n(view().dbrec, htobe32(1), __ATOMIC_RELEASE);
  ASSERT_EQ(send(a, 1, 0, 8), 0);
  EXPECT_EQ(next(cq).status, IBV_WC_REM_OP_ERR);
  ibv_async_event told = acknowledged_event();
  EXPECT_EQ(told.event_type, IBV_EVENT_SRQ_ERR);
  EXPECT_EQ(told.element.srq, srq);
  told = acknowledged_event();
  EXPECT_EQ(told.event_type, IBV_EVENT_QP_FATAL);
  EXPECT_EQ(told.element.qp, b);
  EXPECT_EQ(acknowledged_event().event_type, IBV_EVENT_QP_LAST_WQE_REACHED);
  // And nobody else gets anything from it.
  ASSERT_EQ(send(a2, 2, 0, 8), 0);
  EXPECT_EQ(next(cq).status, IBV_WC_REM_OP_ERR);
  told = acknowledged_event();
  EXPECT_EQ(told.event_type, IBV_EVENT_QP_FATAL);
  EXPECT_EQ(told.element.qp, b2);
}

TEST_P(SoftnicAbiSrqEvent, ARecordThatPostsTheWholeListFailsIt) {
  connect_both();
  __atomic_store_n(view().dbrec, htobe32(16), __ATOMIC_RELEASE);
  std::vector<ibv_sge> list = {piece(0, 8)};
  ibv_send_wr wr = request(IBV_WR_RDMA_WRITE_WITH_IMM, 1, list, 4096);
  ASSERT_EQ(post(a, wr), 0);
  EXPECT_EQ(next(cq).status, IBV_WC_REM_OP_ERR);
  EXPECT_EQ(acknowledged_event().event_type, IBV_EVENT_SRQ_ERR);
  EXPECT_EQ(buffer.get()[4096], 0);
}

// ---- refusals

TEST_P(SoftnicAbiSrqEvent, SaysWhatItHolds) {
  ibv_srq_init_attr init = {};
  init.attr.max_wr = 20;
  init.attr.max_sge = 4;
  init.attr.srq_limit = 5;  // of no meaning here
  ibv_srq* other = ibv_create_srq(pd, &init);
  ASSERT_NE(other, nullptr);
  EXPECT_EQ(init.attr.max_wr, 31u);
  EXPECT_EQ(init.attr.max_sge, 7u);
  ibv_srq_attr attr = {};
  ASSERT_EQ(ibv_query_srq(other, &attr), 0);
  EXPECT_EQ(attr.max_wr, 31u);
  EXPECT_EQ(attr.max_sge, 7u);
  EXPECT_EQ(attr.srq_limit, 0u);
  EXPECT_EQ(ibv_destroy_srq(other), 0);
}

TEST_P(SoftnicAbiSrqEvent, RefusesQueuesItCannotMake) {
  EXPECT_EQ(make_srq(pd, (1 << 15) + 1, 1), nullptr);
  EXPECT_EQ(errno, EINVAL);
  EXPECT_EQ(make_srq(pd, 10, 32), nullptr);
  EXPECT_EQ(errno, EINVAL);
  ibv_srq* largest = make_srq(pd, 1 << 15, 31);
  EXPECT_NE(largest, nullptr);
}

TEST_P(SoftnicAbiSrqEvent, RefusesOtherChangesThanALimitItCanReach) {
  ibv_srq_attr attr = {};
  attr.max_wr = 100;
  attr.srq_limit = 1;
  EXPECT_EQ(ibv_modify_srq(srq, &attr, IBV_SRQ_MAX_WR), EINVAL);
  EXPECT_EQ(ibv_modify_srq(srq, &attr, IBV_SRQ_MAX_WR | IBV_SRQ_LIMIT), EINVAL);
  EXPECT_EQ(ibv_modify_srq(srq, &attr, 8), EINVAL);
  EXPECT_EQ(limit(), 0u);
  EXPECT_EQ(arm(16), EINVAL);
  EXPECT_EQ(ibv_modify_srq(srq, &attr, 0), 0);
  for (uint64_t name = 0; name < 15; ++name) ASSERT_EQ(post_shared(name), 0);
  EXPECT_EQ(arm(15), 0);
  EXPECT_EQ(limit(), 15u);
}

TEST_P(SoftnicAbiSrqEvent, RefusesWhatDoesNotFit) {
  const ibv_sge one = piece(0, 1);
  EXPECT_EQ(post_shared(1, {one, one, one, one}), EINVAL);  // three are what it has
  EXPECT_EQ(post_shared(1, {piece(0, 1u << 31)}), EINVAL);
  ibv_recv_wr list[17] = {};
  for (int i = 0; i < 17; ++i) list[i].next = i < 16 ? &list[i + 1] : nullptr;
  list[3].num_sge = -1;
  ibv_recv_wr* bad = nullptr;
  EXPECT_EQ(ibv_post_srq_recv(srq, list, &bad), EINVAL);
  EXPECT_EQ(bad, &list[3]);
  EXPECT_EQ(view().head, 3u);  // those before it are posted
  list[3].num_sge = 0;
  EXPECT_EQ(ibv_post_srq_recv(srq, list, &bad), ENOMEM);
  EXPECT_EQ(bad, &list[12]);
}

TEST_P(SoftnicAbiSrqEvent, StaysWhileAQueuePairUsesIt) {
  EXPECT_EQ(ibv_destroy_srq(srq), EBUSY);
  EXPECT_EQ(ibv_destroy_qp(b), 0);
  EXPECT_EQ(ibv_destroy_srq(srq), EBUSY);
  EXPECT_EQ(ibv_dealloc_pd(pd), EBUSY);
  EXPECT_EQ(ibv_destroy_qp(b2), 0);
  EXPECT_EQ(ibv_destroy_srq(srq), 0);
}

TEST_P(SoftnicAbiSrqEvent, AQueuePairThatSharesHasNoReceiveQueue) {
  ibv_qp_init_attr init = shared_init(receive_cq);
  ibv_qp* qp = ibv_create_qp(pd, &init);
  ASSERT_NE(qp, nullptr);
  EXPECT_EQ(init.cap.max_recv_wr, 0u);
  EXPECT_EQ(init.cap.max_recv_sge, 0u);
  EXPECT_EQ(qp->srq, srq);
  ASSERT_EQ(to_init(qp), 0);
  EXPECT_EQ(post_receive(qp, 1, {piece(0, 8)}), EINVAL);
}

TEST_P(SoftnicAbiSrqEvent, AQueueOfAnotherContextIsUnknown) {
  ibv_context* other = ibv_open_device(context->device);
  ibv_pd* domain = ibv_alloc_pd(other);
  ibv_qp_init_attr init = shared_init(receive_cq);
  init.srq = make_srq(domain, 4, 1);
  ASSERT_NE(init.srq, nullptr);
  EXPECT_EQ(ibv_create_qp(pd, &init), nullptr);
  EXPECT_EQ(errno, EINVAL);
  EXPECT_EQ(ibv_close_device(other), 0);
}

TEST_P(SoftnicAbiSrqEvent, ExtendedCreationSharesToo) {
  for (bool through_mlx5 : {false, true}) {
    ibv_qp_init_attr_ex init = {};
    init.send_cq = cq;
    init.recv_cq = receive_cq;
    init.srq = srq;
    init.cap = {.max_send_wr = 8,
                .max_recv_wr = 8,
                .max_send_sge = 1,
                .max_recv_sge = 1,
                .max_inline_data = 0};
    init.qp_type = IBV_QPT_RC;
    init.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
    init.pd = pd;
    init.send_ops_flags = IBV_QP_EX_WITH_SEND;
    ibv_qp* qp =
        through_mlx5 ? mlx5dv_create_qp(context, &init, nullptr) : ibv_create_qp_ex(context, &init);
    ASSERT_NE(qp, nullptr);
    EXPECT_EQ(init.cap.max_recv_wr, 0u);
    connect_to_itself(qp);
    fill(0, 8, through_mlx5 ? 4 : 5);
    ASSERT_EQ(post_shared(40), 0);
    ibv_qp_ex* builder = ibv_qp_to_qp_ex(qp);
    ibv_wr_start(builder);
    builder->wr_id = 6;
    builder->wr_flags = IBV_SEND_SIGNALED;
    ibv_wr_send(builder);
    ibv_wr_set_sge(builder, mr->lkey, reinterpret_cast<uintptr_t>(buffer.get()), 8);
    ASSERT_EQ(ibv_wr_complete(builder), 0);
    EXPECT_EQ(next(receive_cq).wr_id, 40u);
    EXPECT_TRUE(same(0, target(40), 8));
    EXPECT_EQ(next(cq).wr_id, 6u);
    ASSERT_EQ(ibv_destroy_qp(qp), 0);
  }
}

// ---- DC targets

/// A DC initiator and target of this process; the initiator's requests are written by hand.
class SoftnicAbiSrqDc : public SoftnicAbiSrq {
 protected:
  static constexpr uint64_t kKey = 0x1234;

  void SetUp() override {
    SoftnicAbiSrq::SetUp();
    initiator = create(MLX5DV_DCTYPE_DCI);
    target_qp = create(MLX5DV_DCTYPE_DCT);
    ASSERT_NE(initiator, nullptr);
    ASSERT_NE(target_qp, nullptr);
    for (ibv_qp* qp : {initiator, target_qp}) {
      ASSERT_EQ(to_init(qp), 0);
      ASSERT_EQ(to_rtr(qp, 0), 0);
    }
    ASSERT_EQ(to_rts(initiator, 1), 0);
  }
  ibv_qp* create(mlx5dv_dc_type type) {
    ibv_qp_init_attr_ex init = {};
    init.qp_type = IBV_QPT_DRIVER;
    init.send_cq = cq;
    init.recv_cq = receive_cq;
    init.comp_mask = IBV_QP_INIT_ATTR_PD;
    init.pd = pd;
    init.srq = type == MLX5DV_DCTYPE_DCT ? srq : nullptr;
    init.cap.max_send_wr = 8;
    init.cap.max_send_sge = 1;
    mlx5dv_qp_init_attr mlx5 = {};
    mlx5.comp_mask = MLX5DV_QP_INIT_ATTR_MASK_DC;
    mlx5.dc_init_attr.dc_type = type;
    mlx5.dc_init_attr.dct_access_key = kKey;
    return mlx5dv_create_qp(context, &init, &mlx5);
  }
  /// WRITE of buffer[0, 8) with immediate to buffer[4096...] at the target.
  void write_with_immediate(uint32_t immediate) {
    mlx5dv_qp queue = {};
    mlx5dv_obj obj = {};
    obj.qp.in = initiator;
    obj.qp.out = &queue;
    ASSERT_EQ(mlx5dv_init_obj(&obj, MLX5DV_OBJ_QP), 0);
    const uint32_t block = 2 * written++;  // control, address of 48 bytes, remote | data
    auto* at = static_cast<uint8_t*>(queue.sq.buf) + size_t{block} * 64;
    mlx5dv_set_ctrl_seg(reinterpret_cast<mlx5_wqe_ctrl_seg*>(at), static_cast<uint16_t>(block),
                        MLX5_OPCODE_RDMA_WRITE_IMM, 0, initiator->qp_num, MLX5_WQE_CTRL_CQ_UPDATE,
                        6, 0, htobe32(immediate));
    auto* address = reinterpret_cast<mlx5_wqe_av*>(at + 16);
    address->key.dc_key = htobe64(kKey);
    address->dqp_dct = htobe32(1u << 31 | target_qp->qp_num);  // the long form
    address->rlid = htobe16(lid());
    auto* remote = reinterpret_cast<mlx5_wqe_raddr_seg*>(at + 64);
    remote->raddr = htobe64(reinterpret_cast<uintptr_t>(buffer.get() + 4096));
    remote->rkey = htobe32(mr->rkey);
    mlx5dv_set_data_seg(reinterpret_cast<mlx5_wqe_data_seg*>(remote + 1), 8, mr->lkey,
                        reinterpret_cast<uintptr_t>(buffer.get()));
    __atomic_store_n(&queue.dbrec[MLX5_SND_DBR], htobe32(block + 2), __ATOMIC_RELEASE);
    ring(queue.bf.reg, at);
  }

  ibv_qp* initiator = nullptr;
  ibv_qp* target_qp = nullptr;
  uint32_t written = 0;
};

TEST_P(SoftnicAbiSrqDc, AWriteWithImmediateTakesAnEntry) {
  fill(0, 8, 6);
  ASSERT_EQ(post_shared(30), 0);
  write_with_immediate(0xcafe);
  const ibv_wc wc = next(receive_cq);
  EXPECT_EQ(wc.status, IBV_WC_SUCCESS);
  EXPECT_EQ(wc.opcode, IBV_WC_RECV_RDMA_WITH_IMM);
  EXPECT_EQ(wc.wr_id, 30u);
  EXPECT_EQ(wc.qp_num, target_qp->qp_num);
  EXPECT_EQ(be32toh(wc.imm_data), 0xcafeu);
  EXPECT_TRUE(same(0, 4096, 8));
  EXPECT_EQ(next(cq).status, IBV_WC_SUCCESS);
  write_with_immediate(1);  // there is no other
  EXPECT_EQ(next(cq).status, IBV_WC_RNR_RETRY_EXC_ERR);
}

TEST_P(SoftnicAbiSrqDc, ATargetThatGoesGivesItsEntriesBack) {
  for (uint64_t name = 0; name < 15; ++name) ASSERT_EQ(post_shared(name), 0);
  write_with_immediate(1);
  ASSERT_EQ(next(cq).status, IBV_WC_SUCCESS);
  EXPECT_EQ(post_shared(15), ENOMEM);
  ASSERT_EQ(ibv_destroy_qp(target_qp), 0);
  EXPECT_EQ(post_shared(15), 0);
  ibv_wc wc = {};
  EXPECT_EQ(ibv_poll_cq(receive_cq, 1, &wc), 0);
}

INSTANTIATE_TEST_SUITE_P(Ways, SoftnicAbiSrqEvent, kBothWays, way_name);
INSTANTIATE_TEST_SUITE_P(Ways, SoftnicAbiSrqDc, kBothWays, way_name);

}  // namespace
}  // namespace peal::softnic::abi_test
