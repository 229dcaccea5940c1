// SPDX-License-Identifier: Apache-2.0
//
// ibv_wr_* and the extended completion queue: every operation, batches, and what is refused.
#include "tests/unit/softnic/abi/data_support.h"

namespace peal::softnic::abi_test {
namespace {

class SoftnicAbiWr : public SoftnicAbiData {
 protected:
  static constexpr uint64_t kAll = IBV_QP_EX_WITH_RDMA_WRITE | IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM |
                                   IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_SEND_WITH_IMM |
                                   IBV_QP_EX_WITH_RDMA_READ | IBV_QP_EX_WITH_ATOMIC_CMP_AND_SWP |
                                   IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD;

  void SetUp() override {
    SoftnicAbiData::SetUp();
    ibv_cq_init_attr_ex attr = {};
    attr.cqe = 100;
    attr.wc_flags = IBV_WC_EX_WITH_BYTE_LEN | IBV_WC_EX_WITH_IMM | IBV_WC_EX_WITH_QP_NUM |
                    IBV_WC_EX_WITH_COMPLETION_TIMESTAMP;
    ex_cq = ibv_create_cq_ex(context, &attr);
    ASSERT_NE(ex_cq, nullptr) << std::strerror(errno);
    receive_cq = ibv_cq_ex_to_cq(ex_cq);
    a = make_ex(kAll);
    b = make_ex(kAll);
    ASSERT_NE(a, nullptr) << std::strerror(errno);
    ASSERT_NE(b, nullptr);
    ex = ibv_qp_to_qp_ex(a);
    ASSERT_NE(ex, nullptr);
    connect();
  }

  ibv_qp* make_ex(uint64_t operations) {
    ibv_qp_init_attr_ex init = {};
    init.send_cq = cq;
    init.recv_cq = receive_cq;
    init.cap = kCap;
    init.qp_type = IBV_QPT_RC;
    init.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
    init.pd = pd;
    init.send_ops_flags = operations;
    ibv_qp* qp = ibv_create_qp_ex(context, &init);
    cap = init.cap;
    return qp;
  }
  uint64_t at(size_t offset) { return reinterpret_cast<uintptr_t>(buffer.get() + offset); }
  void name(uint64_t wr_id, unsigned flags = IBV_SEND_SIGNALED) {
    ex->wr_id = wr_id;
    ex->wr_flags = flags;
  }
  void write_word(uint64_t wr_id) {
    name(wr_id);
    ibv_wr_rdma_write(ex, mr->rkey, at(4096));
    ibv_wr_set_sge(ex, mr->lkey, at(0), 8);
  }
  /// The next completion of the extended queue, between start_poll and end_poll.
  void start() {
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(30);
    ibv_poll_cq_attr attr = {};
    int error = ENOENT;
    while (error == ENOENT && std::chrono::steady_clock::now() < deadline) {
      error = ibv_start_poll(ex_cq, &attr);
    }
    ASSERT_EQ(error, 0);
  }

  ibv_cq_ex* ex_cq = nullptr;
  ibv_qp_ex* ex = nullptr;
};

TEST_P(SoftnicAbiWr, WritesFromPiecesAndInline) {
  fill(0, 200, 1);
  ibv_wr_start(ex);
  name(1);
  ibv_wr_rdma_write(ex, mr->rkey, at(4096));
  const ibv_sge list[] = {piece(0, 10), piece(10, 0), piece(10, 60)};
  ibv_wr_set_sge_list(ex, 3, list);
  name(2);
  ibv_wr_rdma_write(ex, mr->rkey, at(4096 + 70));
  ibv_wr_set_inline_data(ex, buffer.get() + 70, 30);
  name(3);
  ibv_wr_rdma_write(ex, mr->rkey, at(4096 + 100));
  const ibv_data_buf pieces[] = {{buffer.get() + 100, 33}, {nullptr, 0}, {buffer.get() + 133, 67}};
  ibv_wr_set_inline_data_list(ex, 3, pieces);
  ASSERT_EQ(ibv_wr_complete(ex), 0);
  for (uint64_t id = 1; id <= 3; ++id) {
    const ibv_wc wc = next(cq);
    EXPECT_EQ(wc.status, IBV_WC_SUCCESS);
    EXPECT_EQ(wc.wr_id, id);
    EXPECT_EQ(wc.opcode, IBV_WC_RDMA_WRITE);
  }
  EXPECT_TRUE(same(0, 4096, 200));
}

TEST_P(SoftnicAbiWr, ReadsAndAtomics) {
  auto* word = reinterpret_cast<uint64_t*>(buffer.get());
  word[512] = 40;
  ibv_wr_start(ex);
  name(1);
  ibv_wr_rdma_read(ex, mr->rkey, at(4096));
  ibv_wr_set_sge(ex, mr->lkey, at(0), 8);
  name(2);
  ibv_wr_atomic_fetch_add(ex, mr->rkey, at(4096), 2);
  ibv_wr_set_sge(ex, mr->lkey, at(8), 8);
  name(3);
  ibv_wr_atomic_cmp_swp(ex, mr->rkey, at(4096), 42, 7);
  ibv_wr_set_sge(ex, mr->lkey, at(16), 8);
  ASSERT_EQ(ibv_wr_complete(ex), 0);
  EXPECT_EQ(next(cq).opcode, IBV_WC_RDMA_READ);
  EXPECT_EQ(next(cq).opcode, IBV_WC_FETCH_ADD);
  EXPECT_EQ(next(cq).opcode, IBV_WC_COMP_SWAP);
  EXPECT_EQ(word[0], 40u);
  EXPECT_EQ(word[1], 40u);
  EXPECT_EQ(word[2], 42u);
  EXPECT_EQ(word[512], 7u);
}

TEST_P(SoftnicAbiWr, SendsArriveAndTheExtendedQueueTells) {
  fill(0, 64, 5);
  for (uint64_t id = 70; id < 73; ++id) {
    ASSERT_EQ(post_receive(b, id, {piece(4096 + 64 * (id - 70), 64)}), 0);
  }
  ibv_wr_start(ex);
  name(1);
  ibv_wr_send(ex);
  ibv_wr_set_sge(ex, mr->lkey, at(0), 64);
  name(2);
  ibv_wr_send_imm(ex, htobe32(0x12345678));
  ibv_wr_set_inline_data(ex, buffer.get(), 20);
  name(3);
  ibv_wr_rdma_write_imm(ex, mr->rkey, at(8192), htobe32(9));
  ibv_wr_set_sge_list(ex, 0, nullptr);
  ASSERT_EQ(ibv_wr_complete(ex), 0);
  for (int i = 0; i < 3; ++i) EXPECT_EQ(next(cq).status, IBV_WC_SUCCESS);
  start();
  EXPECT_EQ(ex_cq->wr_id, 70u);
  EXPECT_EQ(ex_cq->status, IBV_WC_SUCCESS);
  EXPECT_EQ(ibv_wc_read_opcode(ex_cq), IBV_WC_RECV);
  EXPECT_EQ(ibv_wc_read_byte_len(ex_cq), 64u);
  EXPECT_EQ(ibv_wc_read_wc_flags(ex_cq), 0u);
  EXPECT_EQ(ibv_wc_read_qp_num(ex_cq), b->qp_num);
  const uint64_t stamp = ibv_wc_read_completion_ts(ex_cq);
  EXPECT_GT(stamp, 0u);
  ASSERT_EQ(ibv_next_poll(ex_cq), 0);
  EXPECT_EQ(ex_cq->wr_id, 71u);
  EXPECT_EQ(ibv_wc_read_byte_len(ex_cq), 20u);
  EXPECT_EQ(ibv_wc_read_wc_flags(ex_cq), static_cast<unsigned>(IBV_WC_WITH_IMM));
  EXPECT_EQ(be32toh(ibv_wc_read_imm_data(ex_cq)), 0x12345678u);
  EXPECT_GE(ibv_wc_read_completion_ts(ex_cq), stamp);
  ASSERT_EQ(ibv_next_poll(ex_cq), 0);
  EXPECT_EQ(ibv_wc_read_opcode(ex_cq), IBV_WC_RECV_RDMA_WITH_IMM);
  EXPECT_EQ(ibv_next_poll(ex_cq), ENOENT);
  ibv_end_poll(ex_cq);
  EXPECT_TRUE(same(0, 4096, 64));
  EXPECT_TRUE(same(0, 4160, 20));
  ibv_poll_cq_attr attr = {};
  EXPECT_EQ(ibv_start_poll(ex_cq, &attr), ENOENT);
}

TEST_P(SoftnicAbiWr, AnAbortedBatchWasNeverThere) {
  ibv_wr_start(ex);
  write_word(1);
  write_word(2);
  ibv_wr_abort(ex);
  ibv_wr_start(ex);
  write_word(3);
  ASSERT_EQ(ibv_wr_complete(ex), 0);
  EXPECT_EQ(next(cq).wr_id, 3u);
  ibv_wc wc = {};
  EXPECT_EQ(ibv_poll_cq(cq, 1, &wc), 0);
}

/// A batch that does not fit posts nothing; both ways to post share the ring.
TEST_P(SoftnicAbiWr, AFullQueueRefusesTheWholeBatch) {
  ibv_wr_start(ex);
  for (uint64_t id = 0; id <= cap.max_send_wr; ++id) write_word(id);
  EXPECT_EQ(ibv_wr_complete(ex), ENOMEM);
  ibv_wr_start(ex);
  for (uint64_t id = 0; id < cap.max_send_wr; ++id) write_word(id);
  EXPECT_EQ(ibv_wr_complete(ex), 0);
  for (uint64_t id = 0; id < cap.max_send_wr; ++id) EXPECT_EQ(next(cq).wr_id, id);
  std::vector<ibv_sge> list = {piece(0, 8)};
  ibv_send_wr wr = request(IBV_WR_RDMA_WRITE, 50, list, 4096);
  ASSERT_EQ(post(a, wr), 0);
  EXPECT_EQ(next(cq).wr_id, 50u);
}

TEST_P(SoftnicAbiWr, TheFirstMistakeIsTheAnswer) {
  const auto batch = [&](const auto& requests) {
    ibv_wr_start(ex);
    write_word(1);
    requests();
    write_word(2);
    return ibv_wr_complete(ex);
  };
  const ibv_sge five[5] = {};
  EXPECT_EQ(batch([&] {
              ibv_wr_send(ex);
              ibv_wr_set_sge_list(ex, 5, five);
            }),
            EINVAL);
  EXPECT_EQ(batch([&] {
              ibv_wr_send(ex);
              ibv_wr_set_inline_data(ex, buffer.get(), 101);
            }),
            ENOMEM);
  EXPECT_EQ(batch([&] {
              ibv_wr_rdma_read(ex, mr->rkey, at(0));
              ibv_wr_set_inline_data(ex, buffer.get(), 8);
            }),
            EINVAL);
  EXPECT_EQ(batch([&] {
              ibv_wr_send(ex);
              ibv_wr_set_sge(ex, mr->lkey, at(0), 1u << 31);
            }),
            EINVAL);
  EXPECT_EQ(batch([&] { ibv_wr_send(ex); }), EINVAL);  // no data before the next
  EXPECT_EQ(batch([&] { ibv_wr_set_sge(ex, mr->lkey, at(0), 8); }), EINVAL);  // data of nothing
  EXPECT_EQ(batch([&] { ibv_wr_local_inv(ex, 1); }), EOPNOTSUPP);
  EXPECT_EQ(batch([&] {
              name(3, IBV_SEND_IP_CSUM);
              ibv_wr_send(ex);
            }),
            EINVAL);
  ibv_wc wc = {};
  EXPECT_EQ(ibv_poll_cq(cq, 1, &wc), 0);   // nothing of all this was posted
  EXPECT_EQ(ibv_wr_complete(ex), EINVAL);  // nothing was started
  write_word(4);                           // without a start: ignored
  EXPECT_EQ(batch([] {}), 0);
  EXPECT_EQ(next(cq).wr_id, 1u);
  EXPECT_EQ(next(cq).wr_id, 2u);
}

TEST_P(SoftnicAbiWr, OnlyWhatWasAskedForIsThere) {
  ibv_qp* writes = make_ex(IBV_QP_EX_WITH_RDMA_WRITE);
  ASSERT_NE(writes, nullptr);
  connect_to_itself(writes);
  ex = ibv_qp_to_qp_ex(writes);
  ibv_wr_start(ex);
  name(1);
  ibv_wr_send(ex);
  ibv_wr_set_sge(ex, mr->lkey, at(0), 8);
  EXPECT_EQ(ibv_wr_complete(ex), EINVAL);
  ibv_wr_start(ex);
  write_word(2);
  EXPECT_EQ(ibv_wr_complete(ex), 0);
  EXPECT_EQ(next(cq).wr_id, 2u);
  EXPECT_EQ(make_ex(IBV_QP_EX_WITH_BIND_MW), nullptr);
  EXPECT_EQ(errno, EOPNOTSUPP);
  EXPECT_EQ(ibv_qp_to_qp_ex(make_qp()), nullptr);
}

TEST_P(SoftnicAbiWr, BuildingWantsTheRightState) {
  ibv_qp* fresh = make_ex(kAll);
  ex = ibv_qp_to_qp_ex(fresh);
  ibv_wr_start(ex);
  write_word(1);
  EXPECT_EQ(ibv_wr_complete(ex), EINVAL);
  ex = ibv_qp_to_qp_ex(a);
  ASSERT_EQ(to_state(a, IBV_QPS_ERR), 0);
  ibv_wr_start(ex);
  write_word(2);
  EXPECT_EQ(ibv_wr_complete(ex), 0);
  const ibv_wc wc = next(cq);
  EXPECT_EQ(wc.status, IBV_WC_WR_FLUSH_ERR);
  EXPECT_EQ(wc.wr_id, 2u);
}

TEST_P(SoftnicAbiWr, ExtendedQueuesRefuseWhatTheyCannotTell) {
  ibv_cq_init_attr_ex attr = {};
  attr.cqe = 16;
  attr.wc_flags = IBV_WC_EX_WITH_TM_INFO;
  EXPECT_EQ(ibv_create_cq_ex(context, &attr), nullptr);
  EXPECT_EQ(errno, EOPNOTSUPP);
  attr.wc_flags = 0;
  attr.cqe = 0;
  EXPECT_EQ(ibv_create_cq_ex(context, &attr), nullptr);
  EXPECT_EQ(errno, EINVAL);
  attr.cqe = 16;
  attr.comp_mask = IBV_CQ_INIT_ATTR_MASK_FLAGS;
  attr.flags = 1u << 7;
  EXPECT_EQ(ibv_create_cq_ex(context, &attr), nullptr);
  attr.flags = IBV_CREATE_CQ_ATTR_SINGLE_THREADED;
  ibv_cq_ex* queue = ibv_create_cq_ex(context, &attr);
  ASSERT_NE(queue, nullptr);
  EXPECT_EQ(queue->read_byte_len, nullptr);  // not asked for
  ibv_poll_cq_attr poll = {.comp_mask = 1};
  EXPECT_EQ(ibv_start_poll(queue, &poll), EINVAL);
  EXPECT_EQ(ibv_destroy_cq(ibv_cq_ex_to_cq(queue)), 0);
}

INSTANTIATE_TEST_SUITE_P(Ways, SoftnicAbiWr, kBothWays, way_name);

}  // namespace
}  // namespace peal::softnic::abi_test
