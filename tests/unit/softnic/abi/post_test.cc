// SPDX-License-Identifier: Apache-2.0
//
// ibv_post_send, ibv_post_recv and ibv_poll_cq: one-sided operations, what a completion says, full
// queues, wrong states, errors and flushes.
#include <atomic>

#include "tests/unit/softnic/abi/data_support.h"

namespace peal::softnic::abi_test {
namespace {

using SoftnicAbiPost = SoftnicAbiData;

TEST_P(SoftnicAbiPost, WriteArrivesAndItsCompletionHasItsName) {
  connect();
  fill(0, 100, 1);
  std::vector<ibv_sge> list = {piece(0, 10), piece(10, 0), piece(10, 90)};
  ibv_send_wr wr = request(IBV_WR_RDMA_WRITE, 0xfedcba9876543210, list, 4096);
  ASSERT_EQ(post(a, wr), 0);
  const ibv_wc wc = next(cq);
  EXPECT_EQ(wc.status, IBV_WC_SUCCESS);
  EXPECT_EQ(wc.wr_id, 0xfedcba9876543210u);
  EXPECT_EQ(wc.opcode, IBV_WC_RDMA_WRITE);
  EXPECT_EQ(wc.qp_num, a->qp_num);
  EXPECT_EQ(wc.wc_flags, 0u);
  EXPECT_TRUE(same(0, 4096, 100));
  EXPECT_EQ(buffer.get()[4196], 0);
}

TEST_P(SoftnicAbiPost, InlineDataIsTakenWhenPosted) {
  connect();
  fill(0, 100, 3);
  fill(200, 100, 3);
  std::vector<ibv_sge> list = {piece(0, 33), piece(33, 67)};
  list[0].lkey = list[1].lkey = 0;  // nobody looks
  ibv_send_wr wr = request(IBV_WR_RDMA_WRITE, 1, list, 4096);
  wr.send_flags |= IBV_SEND_INLINE;
  ASSERT_EQ(post(a, wr), 0);
  std::memset(buffer.get(), 0, 100);
  EXPECT_EQ(next(cq).status, IBV_WC_SUCCESS);
  EXPECT_TRUE(same(200, 4096, 100));
}

TEST_P(SoftnicAbiPost, ReadSaysHowManyBytes) {
  connect();
  fill(4096, 5000, 9);
  std::vector<ibv_sge> list = {piece(0, 1000), piece(1000, 3996)};
  ibv_send_wr wr = request(IBV_WR_RDMA_READ, 2, list, 4096);
  ASSERT_EQ(post(a, wr), 0);
  const ibv_wc wc = next(cq);
  EXPECT_EQ(wc.status, IBV_WC_SUCCESS);
  EXPECT_EQ(wc.opcode, IBV_WC_RDMA_READ);
  EXPECT_EQ(wc.byte_len, 4996u);
  EXPECT_TRUE(same(0, 4096, 4996));
}

TEST_P(SoftnicAbiPost, AtomicsChangeThePeerAndReturnTheOldValue) {
  connect();
  auto* word = reinterpret_cast<uint64_t*>(buffer.get());
  word[512] = 40;
  std::vector<ibv_sge> list = {piece(0, 8)};
  ibv_send_wr wr = request(IBV_WR_ATOMIC_FETCH_AND_ADD, 3, list);
  wr.wr.atomic.remote_addr = reinterpret_cast<uintptr_t>(&word[512]);
  wr.wr.atomic.rkey = mr->rkey;
  wr.wr.atomic.compare_add = 2;
  ASSERT_EQ(post(a, wr), 0);
  ibv_wc wc = next(cq);
  EXPECT_EQ(wc.opcode, IBV_WC_FETCH_ADD);
  EXPECT_EQ(wc.byte_len, 8u);
  EXPECT_EQ(word[0], 40u);
  EXPECT_EQ(word[512], 42u);
  wr.opcode = IBV_WR_ATOMIC_CMP_AND_SWP;
  wr.wr.atomic.compare_add = 42;
  wr.wr.atomic.swap = 7;
  ASSERT_EQ(post(a, wr), 0);
  wc = next(cq);
  EXPECT_EQ(wc.opcode, IBV_WC_COMP_SWAP);
  EXPECT_EQ(word[0], 42u);
  EXPECT_EQ(word[512], 7u);
}

TEST_P(SoftnicAbiPost, WriteWithImmediateTakesAReceive) {
  connect();
  fill(0, 64, 5);
  ASSERT_EQ(post_receive(b, 77, {}), 0);
  std::vector<ibv_sge> list = {piece(0, 64)};
  ibv_send_wr wr = request(IBV_WR_RDMA_WRITE_WITH_IMM, 4, list, 4096);
  wr.imm_data = htobe32(0x12345678);
  ASSERT_EQ(post(a, wr), 0);
  const ibv_wc wc = next(receive_cq);
  EXPECT_EQ(wc.status, IBV_WC_SUCCESS);
  EXPECT_EQ(wc.wr_id, 77u);
  EXPECT_EQ(wc.opcode, IBV_WC_RECV_RDMA_WITH_IMM);
  EXPECT_EQ(wc.wc_flags, static_cast<unsigned>(IBV_WC_WITH_IMM));
  EXPECT_EQ(be32toh(wc.imm_data), 0x12345678u);
  EXPECT_EQ(wc.byte_len, 64u);
  EXPECT_EQ(wc.qp_num, b->qp_num);
  EXPECT_TRUE(same(0, 4096, 64));
  EXPECT_EQ(next(cq).opcode, IBV_WC_RDMA_WRITE);
}

/// Room comes back when a later request's completion is polled, and the ring goes round.
TEST_P(SoftnicAbiPost, UnsignalledRequestsAreSilentAndFreeTheirRoom) {
  connect();
  std::vector<ibv_sge> list = {piece(0, 8)};
  auto* word = reinterpret_cast<uint64_t*>(buffer.get());
  for (uint64_t i = 1; i <= 500; ++i) {
    word[0] = i;
    // A word for each of five: those of one word may overtake each other.
    ibv_send_wr wr = request(IBV_WR_RDMA_WRITE, i, list, 4096 + 8 * (i % 5));
    wr.send_flags = IBV_SEND_INLINE;
    if (i % 5 == 0) wr.send_flags |= IBV_SEND_SIGNALED;
    ASSERT_EQ(post(a, wr), 0) << i;
    if (i % 5 != 0) continue;
    const ibv_wc wc = next(cq);
    ASSERT_EQ(wc.wr_id, i);
    ASSERT_EQ(wc.status, IBV_WC_SUCCESS);
    ASSERT_EQ(word[512], i);
  }
  ibv_wc wc = {};
  EXPECT_EQ(ibv_poll_cq(cq, 1, &wc), 0);
}

TEST_P(SoftnicAbiPost, AQueuePairCanSignalEverything) {
  ibv_destroy_qp(a);
  a = make_qp(1);
  connect();
  std::vector<ibv_sge> list = {piece(0, 8)};
  ibv_send_wr wr = request(IBV_WR_RDMA_WRITE, 5, list, 4096);
  wr.send_flags = 0;
  ASSERT_EQ(post(a, wr), 0);
  EXPECT_EQ(next(cq).wr_id, 5u);
}

TEST_P(SoftnicAbiPost, AFullQueueNamesTheRequestThatDidNotFit) {
  connect();
  std::vector<ibv_sge> list = {piece(0, 8)};
  std::vector<ibv_send_wr> chain(cap.max_send_wr + 2, request(IBV_WR_RDMA_WRITE, 0, list, 4096));
  for (size_t i = 0; i < chain.size(); ++i) {
    chain[i].wr_id = i;
    chain[i].next = i + 1 < chain.size() ? &chain[i + 1] : nullptr;
  }
  ibv_send_wr* bad = nullptr;
  ASSERT_EQ(ibv_post_send(a, chain.data(), &bad), ENOMEM);
  ASSERT_EQ(bad, &chain[cap.max_send_wr]);
  for (uint32_t i = 0; i < cap.max_send_wr; ++i) EXPECT_EQ(next(cq).wr_id, i);
  EXPECT_EQ(ibv_post_send(a, bad, &bad), 0);  // the last two
  EXPECT_EQ(next(cq).wr_id, cap.max_send_wr);
  EXPECT_EQ(next(cq).wr_id, cap.max_send_wr + 1);
  for (uint32_t i = 0; i < cap.max_recv_wr; ++i) ASSERT_EQ(post_receive(b, i, {}), 0);
  EXPECT_EQ(post_receive(b, 99, {}), ENOMEM);
}

TEST_P(SoftnicAbiPost, PollsSeveralAtOnce) {
  connect();
  std::vector<ibv_sge> list = {piece(0, 8)};
  for (uint64_t i = 0; i < 6; ++i) {
    ibv_send_wr wr = request(IBV_WR_RDMA_WRITE, i, list, 4096);
    ASSERT_EQ(post(a, wr), 0);
  }
  std::vector<uint64_t> names;
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(30);
  while (names.size() < 6 && std::chrono::steady_clock::now() < deadline) {
    ibv_wc wc[4] = {};
    const int count = ibv_poll_cq(cq, 4, wc);
    ASSERT_GE(count, 0);
    ASSERT_LE(count, 4);
    for (int i = 0; i < count; ++i) names.push_back(wc[i].wr_id);
  }
  EXPECT_EQ(names, (std::vector<uint64_t>{0, 1, 2, 3, 4, 5}));
}

TEST_P(SoftnicAbiPost, PostingWantsTheRightState) {
  std::vector<ibv_sge> list = {piece(0, 8)};
  ibv_send_wr wr = request(IBV_WR_RDMA_WRITE, 0, list, 4096);
  EXPECT_EQ(post(a, wr), EINVAL);
  EXPECT_EQ(post_receive(a, 0, {}), EINVAL);
  ASSERT_EQ(to_init(a), 0);
  EXPECT_EQ(post(a, wr), EINVAL);
  EXPECT_EQ(post_receive(a, 0, {}), 0);
  ASSERT_EQ(to_rtr(a, b->qp_num), 0);
  EXPECT_EQ(post(a, wr), EINVAL);
  ASSERT_EQ(to_rts(a), 0);
  EXPECT_EQ(post(a, wr), 0);
}

TEST_P(SoftnicAbiPost, RefusesRequestsItCannotWrite) {
  connect();
  std::vector<ibv_sge> list = {piece(0, 8)};
  const ibv_send_wr good = request(IBV_WR_RDMA_WRITE, 0, list, 4096);
  std::vector<ibv_sge> five(5, piece(0, 8));
  ibv_send_wr wr = request(IBV_WR_RDMA_WRITE, 0, five, 4096);
  EXPECT_EQ(post(a, wr), EINVAL);
  wr = good;
  wr.num_sge = -1;
  EXPECT_EQ(post(a, wr), EINVAL);
  wr = good;
  wr.opcode = IBV_WR_LOCAL_INV;
  EXPECT_EQ(post(a, wr), EINVAL);
  wr = good;
  wr.send_flags |= IBV_SEND_IP_CSUM;
  EXPECT_EQ(post(a, wr), EINVAL);
  wr = good;
  wr.opcode = IBV_WR_RDMA_READ;
  wr.send_flags |= IBV_SEND_INLINE;
  EXPECT_EQ(post(a, wr), EINVAL);
  std::vector<ibv_sge> huge = {piece(0, 1u << 31)};
  wr = request(IBV_WR_RDMA_WRITE, 0, huge, 4096);
  EXPECT_EQ(post(a, wr), EINVAL);
  std::vector<ibv_sge> wide = {piece(0, 101)};
  wr = request(IBV_WR_RDMA_WRITE, 0, wide, 4096);
  wr.send_flags |= IBV_SEND_INLINE;
  EXPECT_EQ(post(a, wr), ENOMEM);
  EXPECT_EQ(post_receive(b, 0, five), EINVAL);
  ibv_wc wc = {};
  wr = good;
  wr.wr_id = 9;
  EXPECT_EQ(post(a, wr), 0);
  wc = next(cq);
  EXPECT_EQ(wc.wr_id, 9u);  // nothing of the refused was posted
  EXPECT_EQ(wc.status, IBV_WC_SUCCESS);
}

/// The first error has its own status; everything behind it, and posted later, is flushed.
TEST_P(SoftnicAbiPost, ABadLocalKeyFailsAndFlushesTheRest) {
  connect();
  ASSERT_EQ(post_receive(a, 50, {}), 0);
  std::vector<ibv_sge> bad = {piece(0, 8)};
  bad[0].lkey ^= 0x7700;
  std::vector<ibv_sge> list = {piece(0, 8)};
  ibv_send_wr last = request(IBV_WR_RDMA_WRITE, 3, list, 4096);
  last.send_flags = 0;  // reported nevertheless
  ibv_send_wr wrong = request(IBV_WR_RDMA_WRITE, 2, bad, 4096);
  wrong.next = &last;
  ibv_send_wr first = request(IBV_WR_RDMA_WRITE, 1, list, 4096);
  first.next = &wrong;
  ASSERT_EQ(post(a, first), 0);
  EXPECT_EQ(next(cq).status, IBV_WC_SUCCESS);
  ibv_wc wc = next(cq);
  EXPECT_EQ(wc.status, IBV_WC_LOC_PROT_ERR);
  EXPECT_EQ(wc.wr_id, 2u);
  wc = next(cq);
  EXPECT_EQ(wc.status, IBV_WC_WR_FLUSH_ERR);
  EXPECT_EQ(wc.wr_id, 3u);
  wc = next(receive_cq);
  EXPECT_EQ(wc.status, IBV_WC_WR_FLUSH_ERR);
  EXPECT_EQ(wc.wr_id, 50u);
  EXPECT_EQ(wc.qp_num, a->qp_num);
  last.wr_id = 4;
  ASSERT_EQ(post(a, last), 0);
  wc = next(cq);
  EXPECT_EQ(wc.status, IBV_WC_WR_FLUSH_ERR);
  EXPECT_EQ(wc.wr_id, 4u);
}

TEST_P(SoftnicAbiPost, ABadRemoteKeyIsARemoteAccessError) {
  connect();
  std::vector<ibv_sge> list = {piece(0, 8)};
  ibv_send_wr wr = request(IBV_WR_RDMA_WRITE, 6, list, 4096);
  wr.wr.rdma.rkey ^= 0x7700;
  ASSERT_EQ(post(a, wr), 0);
  const ibv_wc wc = next(cq);
  EXPECT_EQ(wc.status, IBV_WC_REM_ACCESS_ERR);
  EXPECT_EQ(wc.wr_id, 6u);
}

TEST_P(SoftnicAbiPost, ImmediateWithoutAReceiveRunsOutOfTries) {
  connect(0);
  std::vector<ibv_sge> list = {piece(0, 8)};
  ibv_send_wr wr = request(IBV_WR_RDMA_WRITE_WITH_IMM, 7, list, 4096);
  ASSERT_EQ(post(a, wr), 0);
  EXPECT_EQ(next(cq).status, IBV_WC_RNR_RETRY_EXC_ERR);
}

/// A reset queue pair starts at the beginning of its rings, and what it left in the CQ is gone; a
/// neighbour's completions are not.
TEST_P(SoftnicAbiPost, ResetForgetsWhatWasPosted) {
  connect();
  std::vector<ibv_sge> list = {piece(0, 8)};
  ibv_send_wr wr = request(IBV_WR_RDMA_WRITE, 1, list, 4096);
  ASSERT_EQ(post(a, wr), 0);
  EXPECT_EQ(next(cq).wr_id, 1u);
  wr.wr_id = 2;
  ASSERT_EQ(post(a, wr), 0);
  await_written(cq, 1);
  ibv_qp* neighbour = make_qp();
  connect_to_itself(neighbour);
  wr.wr_id = 3;
  ASSERT_EQ(post(neighbour, wr), 0);
  await_written(cq, 2);
  ASSERT_EQ(to_state(a, IBV_QPS_ERR), 0);
  ASSERT_EQ(to_state(a, IBV_QPS_RESET), 0);
  const ibv_wc wc = next(cq);
  EXPECT_EQ(wc.wr_id, 3u);
  EXPECT_EQ(wc.qp_num, neighbour->qp_num);
  ibv_wc none = {};
  EXPECT_EQ(ibv_poll_cq(cq, 1, &none), 0);
  ASSERT_EQ(to_state(b, IBV_QPS_RESET), 0);
  connect();
  wr.wr_id = 4;
  ASSERT_EQ(post(a, wr), 0);
  EXPECT_EQ(next(cq).wr_id, 4u);
  EXPECT_EQ(ibv_poll_cq(cq, 1, &none), 0);
}

TEST_P(SoftnicAbiPost, DestroyingAQueuePairTakesItsCompletionsAlong) {
  connect();
  std::vector<ibv_sge> list = {piece(0, 8)};
  ibv_send_wr wr = request(IBV_WR_RDMA_WRITE, 1, list, 4096);
  ASSERT_EQ(post(a, wr), 0);
  await_written(cq, 0);
  ibv_qp* neighbour = make_qp();
  connect_to_itself(neighbour);
  wr.wr_id = 2;
  ASSERT_EQ(post(neighbour, wr), 0);
  EXPECT_EQ(ibv_destroy_qp(a), 0);
  EXPECT_EQ(next(cq).wr_id, 2u);
  ibv_wc none = {};
  EXPECT_EQ(ibv_poll_cq(cq, 1, &none), 0);
}

/// Two threads post to one queue pair and two poll its completions: every name comes once.
TEST_P(SoftnicAbiPost, ThreadsShareAQueuePairAndItsCq) {
  constexpr uint64_t kEach = 2000;
  connect();
  std::atomic<bool> wrong{false};
  std::vector<std::atomic<uint32_t>> seen(2 * kEach);
  std::atomic<uint64_t> polled{0};
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(60);
  const auto late = [&] { return std::chrono::steady_clock::now() > deadline; };
  const auto poster = [&](uint64_t first) {
    for (uint64_t name = first; name < first + kEach && !late();) {
      std::vector<ibv_sge> list = {piece(name % 64 * 8, 8)};
      ibv_send_wr wr = request(IBV_WR_RDMA_WRITE, name, list, 4096 + name % 64 * 8);
      ibv_send_wr* bad = nullptr;
      const int error = ibv_post_send(a, &wr, &bad);
      if (error == 0) ++name;
      if (error != 0 && error != ENOMEM) wrong = true;
      if (error != 0) std::this_thread::yield();
    }
  };
  const auto poller = [&] {
    while (polled.load() < 2 * kEach && !late()) {
      ibv_wc wc[3] = {};
      const int count = ibv_poll_cq(cq, 3, wc);
      if (count < 0) wrong = true;
      for (int i = 0; i < count; ++i) {
        if (wc[i].status != IBV_WC_SUCCESS || wc[i].wr_id >= seen.size()) {
          wrong = true;
        } else {
          ++seen[wc[i].wr_id];
        }
        ++polled;
      }
    }
  };
  std::vector<std::thread> threads;
  threads.emplace_back(poster, 0);
  threads.emplace_back(poster, kEach);
  threads.emplace_back(poller);
  threads.emplace_back(poller);
  for (std::thread& thread : threads) thread.join();
  EXPECT_FALSE(wrong.load());
  EXPECT_EQ(polled.load(), 2 * kEach);
  for (const auto& count : seen) ASSERT_EQ(count.load(), 1u);
}

/// The CQE of a queue pair that DEVX made names nothing that ibv_poll_cq could report.
TEST_P(SoftnicAbiPost, ACompletionThatHasNoNameIsAnError) {
  mlx5dv_cq view = {};
  mlx5dv_obj obj = {};
  obj.cq.in = cq;
  obj.cq.out = &view;
  ASSERT_EQ(mlx5dv_init_obj(&obj, MLX5DV_OBJ_CQ), 0);
  Mailbox command = qp_command(view.cqn);
  mlx5dv_devx_obj* qp = create(command);
  ASSERT_NE(qp, nullptr);
  const uint32_t qpn = out.number();
  ASSERT_EQ(modify(qp, SoftnicAbi::to_init(qpn)), 0);
  ASSERT_EQ(modify(qp, SoftnicAbi::to_rtr(qpn, qpn)), 0);
  ASSERT_EQ(modify(qp, SoftnicAbi::to_rts(qpn)), 0);
  mlx5dv_set_ctrl_seg(reinterpret_cast<mlx5_wqe_ctrl_seg*>(memory.get() + kQpOffset), 0,
                      MLX5_OPCODE_NOP, 0, qpn, MLX5_WQE_CTRL_CQ_UPDATE, 1, 0, 0);
  auto* record = reinterpret_cast<uint32_t*>(memory.get() + kRecordOffset + 64);
  __atomic_store_n(&record[MLX5_SND_DBR], htobe32(1), __ATOMIC_RELEASE);
  ring(uar->reg_addr, memory.get() + kQpOffset);
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(30);
  ibv_wc wc = {};
  int count = 0;
  while (count == 0 && std::chrono::steady_clock::now() < deadline) {
    count = ibv_poll_cq(cq, 1, &wc);
  }
  EXPECT_LT(count, 0);
  EXPECT_EQ(errno, EINVAL);
  EXPECT_EQ(ibv_poll_cq(cq, 1, &wc), 0);
}

INSTANTIATE_TEST_SUITE_P(Ways, SoftnicAbiPost, kBothWays, way_name);

}  // namespace
}  // namespace peal::softnic::abi_test
