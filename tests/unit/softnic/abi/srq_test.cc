// SPDX-License-Identifier: Apache-2.0
//
// Shared receive queues: which entry a message gets, where its bytes go, what both ends are told,
// and what becomes of entries that come back.
#include <atomic>
#include <random>

#include "tests/unit/softnic/abi/srq_support.h"

namespace peal::softnic::abi_test {
namespace {

TEST_P(SoftnicAbiSrq, EntriesGoInOrderToWhoeverNeedsOne) {
  connect_both();
  fill(0, 300, 1);
  for (uint64_t name = 1; name <= 4; ++name) ASSERT_EQ(post_shared(name), 0);
  ibv_qp* const from[] = {a, a2, a2, a};
  for (uint64_t i = 0; i < 4; ++i) {
    ASSERT_EQ(send(from[i], 20 + i, 50 * i, 100), 0);
    const ibv_wc wc = next(from[i] == a ? receive_cq : receive_cq2);
    EXPECT_EQ(wc.status, IBV_WC_SUCCESS);
    EXPECT_EQ(wc.opcode, IBV_WC_RECV);
    EXPECT_EQ(wc.wr_id, 1 + i);
    EXPECT_EQ(wc.byte_len, 100u);
    EXPECT_EQ(wc.qp_num, from[i] == a ? b->qp_num : b2->qp_num);
    EXPECT_TRUE(same(50 * i, target(1 + i), 100));
    EXPECT_EQ(next(cq).wr_id, 20 + i);
  }
}

TEST_P(SoftnicAbiSrq, BytesGoWhereTheListSays) {
  connect_both();
  fill(0, 100, 3);
  ASSERT_EQ(
      post_shared(7, {piece(kTarget, 30), piece(kTarget + 1000, 0), piece(kTarget + 2000, 70)}), 0);
  ASSERT_EQ(send(a, 1, 0, 100), 0);
  EXPECT_EQ(next(receive_cq).wr_id, 7u);
  EXPECT_TRUE(same(0, kTarget, 30));
  EXPECT_TRUE(same(30, kTarget + 2000, 70));
}

TEST_P(SoftnicAbiSrq, AWriteWithImmediateTakesAnEntryAndLeavesItsMemoryAlone) {
  connect_both();
  fill(0, 64, 9);
  ASSERT_EQ(post_shared(1), 0);
  ASSERT_EQ(post_shared(2, {}), 0);
  for (uint64_t name : {1, 2}) {
    std::vector<ibv_sge> list = {piece(0, 64)};
    ibv_send_wr wr = request(IBV_WR_RDMA_WRITE_WITH_IMM, name, list, 1 << 20);
    wr.imm_data = htobe32(0xbeef);
    ASSERT_EQ(post(a2, wr), 0);
    const ibv_wc wc = next(receive_cq2);
    EXPECT_EQ(wc.status, IBV_WC_SUCCESS);
    EXPECT_EQ(wc.opcode, IBV_WC_RECV_RDMA_WITH_IMM);
    EXPECT_EQ(wc.wr_id, name);
    EXPECT_EQ(wc.byte_len, 64u);
    EXPECT_EQ(be32toh(wc.imm_data), 0xbeefu);
  }
  EXPECT_TRUE(same(0, 1 << 20, 64));
  EXPECT_EQ(buffer.get()[target(1)], 0);
  // A plain WRITE takes none.
  std::vector<ibv_sge> list = {piece(0, 64)};
  ibv_send_wr wr = request(IBV_WR_RDMA_WRITE, 3, list, 1 << 20);
  ASSERT_EQ(post(a2, wr), 0);
  for (uint64_t name : {1, 2, 3}) EXPECT_EQ(next(cq).wr_id, name);
}

/// Messages of many packets arrive at both ends at once: each fills the entry it took first.
TEST_P(SoftnicAbiSrq, LongMessagesKeepTheirEntries) {
  connect_both();
  constexpr uint32_t kLong = 900'001;
  fill(0, kLong + 1, 5);
  for (int round = 0; round < 10; ++round) {
    std::memset(buffer.get() + (1 << 20), 0, 3 << 20);
    ASSERT_EQ(post_shared(1, {piece(1 << 20, 300'000), piece((1 << 20) + 300'000, kLong)}), 0);
    ASSERT_EQ(post_shared(2, {piece(5 << 19, kLong)}), 0);
    ASSERT_EQ(send(a, 1, 0, kLong), 0);
    ASSERT_EQ(send(a2, 2, 1, kLong), 0);
    const ibv_wc first = next(receive_cq);
    const ibv_wc second = next(receive_cq2);
    ASSERT_EQ(first.status, IBV_WC_SUCCESS);
    ASSERT_EQ(second.status, IBV_WC_SUCCESS);
    ASSERT_EQ(first.wr_id + second.wr_id, 3u);
    const auto place = [](const ibv_wc& wc) { return size_t{wc.wr_id == 1 ? 1u << 20 : 5u << 19}; };
    ASSERT_TRUE(same(0, place(first), kLong));
    ASSERT_TRUE(same(1, place(second), kLong));
    next(cq);
    next(cq);
  }
}

/// Entries come back in another order than they went, many times round.
TEST_P(SoftnicAbiSrq, EntriesThatComeBackAreTakenInTheOrderTheyArePosted) {
  connect_both();
  std::mt19937 random(17);
  uint64_t posted = 0;
  uint64_t taken = 0;
  for (int round = 0; round < 60; ++round) {
    while (post_shared(posted % 200) == 0) ++posted;
    EXPECT_EQ(errno, ENOMEM);
    const auto count = static_cast<uint32_t>(1 + random() % 7);
    std::vector<uint64_t> left, right;
    for (uint32_t i = 0; i < count; ++i) {
      const bool other = random() % 2 != 0;
      fill(0, 8, static_cast<uint8_t>(taken));
      ASSERT_EQ(send(other ? a2 : a, i, 0, 8), 0);
      ASSERT_EQ(next(cq).status, IBV_WC_SUCCESS);
      ASSERT_TRUE(same(0, target(taken % 200), 8));
      (other ? right : left).push_back(taken++ % 200);
    }
    // Polled, and so freed, by connection.
    for (uint64_t name : right) ASSERT_EQ(next(receive_cq2).wr_id, name);
    for (uint64_t name : left) ASSERT_EQ(next(receive_cq).wr_id, name);
  }
  EXPECT_LE(posted - taken, 15u);
}

TEST_P(SoftnicAbiSrq, AnEmptyQueueEndsTheSendersTries) {
  connect_both(1);
  ASSERT_EQ(send(a, 2, 0, 8), 0);
  const ibv_wc wc = next(cq);
  EXPECT_EQ(wc.status, IBV_WC_RNR_RETRY_EXC_ERR);
  EXPECT_EQ(wc.wr_id, 2u);
  std::vector<ibv_sge> list = {piece(0, 8)};
  ibv_send_wr wr = request(IBV_WR_RDMA_WRITE_WITH_IMM, 3, list, 1 << 20);
  ASSERT_EQ(post(a2, wr), 0);
  EXPECT_EQ(next(cq).status, IBV_WC_RNR_RETRY_EXC_ERR);
}

TEST_P(SoftnicAbiSrq, SendersThatNeverGiveUpWaitForEntries) {
  connect_both(7);
  fill(0, 70'000, 2);
  ASSERT_EQ(send(a, 3, 0, 70'000), 0);
  ASSERT_EQ(send(a2, 4, 0, 70'000), 0);
  const auto until = std::chrono::steady_clock::now() + std::chrono::milliseconds(20);
  ibv_wc wc = {};
  while (std::chrono::steady_clock::now() < until) ASSERT_EQ(ibv_poll_cq(cq, 1, &wc), 0);
  ASSERT_EQ(post_shared(14, {piece(kTarget, 70'000)}), 0);
  EXPECT_EQ(next(cq).status, IBV_WC_SUCCESS);
  EXPECT_TRUE(same(0, kTarget, 70'000));
  ASSERT_EQ(post_shared(15, {piece(kTarget, 70'000)}), 0);
  EXPECT_EQ(next(cq).status, IBV_WC_SUCCESS);
  EXPECT_NE(next(receive_cq).wr_id, next(receive_cq2).wr_id);
}

/// The connection fails; the queue goes on for the others, and its entries are not flushed.
TEST_P(SoftnicAbiSrq, AnEntryTooShortFailsItsConnectionOnly) {
  connect_both();
  fill(0, 101, 2);
  ASSERT_EQ(post_shared(15, {piece(kTarget, 60), piece(kTarget + 4096, 40)}), 0);
  ASSERT_EQ(post_shared(16, {piece(kTarget + 8192, 101)}), 0);
  ASSERT_EQ(send(a, 4, 0, 101), 0);
  ibv_wc wc = next(receive_cq);
  EXPECT_EQ(wc.status, IBV_WC_LOC_LEN_ERR);
  EXPECT_EQ(wc.wr_id, 15u);
  EXPECT_EQ(wc.qp_num, b->qp_num);
  wc = next(cq);
  EXPECT_EQ(wc.status, IBV_WC_REM_INV_REQ_ERR);
  EXPECT_EQ(wc.wr_id, 4u);
  EXPECT_EQ(buffer.get()[kTarget], 0);  // nothing was stored
  EXPECT_EQ(acknowledged_event().event_type, IBV_EVENT_QP_LAST_WQE_REACHED);
  EXPECT_EQ(ibv_poll_cq(receive_cq, 1, &wc), 0);
  ASSERT_EQ(send(a2, 5, 0, 101), 0);
  EXPECT_EQ(next(receive_cq2).wr_id, 16u);
  EXPECT_TRUE(same(0, kTarget + 8192, 101));
}

TEST_P(SoftnicAbiSrq, AnEntryWithABadKeyFailsItsConnectionOnly) {
  ibv_mr* read_only = ibv_reg_mr(pd, buffer.get(), 4096, 0);
  ASSERT_NE(read_only, nullptr);
  connect_both();
  ibv_sge target_piece = piece(0, 64);
  target_piece.lkey = read_only->lkey;
  ASSERT_EQ(post_shared(17, {piece(kTarget, 4), target_piece}), 0);
  ASSERT_EQ(post_shared(18), 0);
  ASSERT_EQ(send(a, 5, 8192, 8), 0);
  ibv_wc wc = next(receive_cq);
  EXPECT_EQ(wc.status, IBV_WC_LOC_PROT_ERR);
  EXPECT_EQ(wc.wr_id, 17u);
  wc = next(cq);
  EXPECT_EQ(wc.status, IBV_WC_REM_OP_ERR);
  EXPECT_EQ(wc.wr_id, 5u);
  ASSERT_EQ(send(a2, 6, 8192, 8), 0);
  EXPECT_EQ(next(receive_cq2).wr_id, 18u);
}

/// As IBTA has it, the queue has a domain of its own, and so have the keys of its entries.
TEST_P(SoftnicAbiSrq, KeysOfEntriesAreOfTheQueuesDomain) {
  ibv_pd* other = ibv_alloc_pd(context);
  ibv_mr* theirs = ibv_reg_mr(other, buffer.get(), kBytes, IBV_ACCESS_LOCAL_WRITE);
  ASSERT_NE(theirs, nullptr);
  ASSERT_EQ(ibv_destroy_qp(b), 0);
  ASSERT_EQ(ibv_destroy_qp(b2), 0);
  ASSERT_EQ(ibv_destroy_srq(srq), 0);
  srq = make_srq(other, 10, 1);
  b = make_shared(receive_cq);
  b2 = make_shared(receive_cq2);
  ASSERT_NE(b2, nullptr);
  connect_both();
  fill(0, 8, 77);
  ibv_sge entry = piece(kTarget, 8);
  entry.lkey = theirs->lkey;
  ASSERT_EQ(post_shared(1, {entry}), 0);
  ASSERT_EQ(post_shared(2, {piece(kTarget, 8)}), 0);
  ASSERT_EQ(send(a, 1, 0, 8), 0);
  EXPECT_EQ(next(receive_cq).status, IBV_WC_SUCCESS);
  EXPECT_TRUE(same(0, kTarget, 8));
  ASSERT_EQ(send(a2, 2, 0, 8), 0);
  EXPECT_EQ(next(receive_cq2).status, IBV_WC_LOC_PROT_ERR);
}

/// Who resets a connection has no more completions of it, and gets their entries back.
TEST_P(SoftnicAbiSrq, AResetFreesWhatWasNotPolled) {
  connect_both();
  for (uint64_t name = 0; name < 15; ++name) ASSERT_EQ(post_shared(name), 0);
  EXPECT_EQ(post_shared(15), ENOMEM);
  for (uint64_t i = 0; i < 3; ++i) {
    ASSERT_EQ(send(a, i, 0, 8), 0);
    ASSERT_EQ(next(cq).status, IBV_WC_SUCCESS);
  }
  ASSERT_EQ(send(a2, 3, 0, 8), 0);
  ASSERT_EQ(next(cq).status, IBV_WC_SUCCESS);
  ASSERT_EQ(to_state(b, IBV_QPS_RESET), 0);
  for (uint64_t name = 15; name < 18; ++name) EXPECT_EQ(post_shared(name), 0);
  EXPECT_EQ(post_shared(18), ENOMEM);
  ibv_wc wc = {};
  EXPECT_EQ(ibv_poll_cq(receive_cq, 1, &wc), 0);
  EXPECT_EQ(next(receive_cq2).wr_id, 3u);
  EXPECT_EQ(post_shared(18), 0);
  ASSERT_EQ(send(a2, 4, 0, 8), 0);
  EXPECT_EQ(next(receive_cq2).wr_id, 4u);
  ASSERT_EQ(ibv_destroy_qp(b2), 0);
}

/// Threads post, send and poll without knowing of each other.
TEST_P(SoftnicAbiSrq, ThreadsThatShareTheQueueLoseNothing) {
  constexpr uint32_t kMessages = 2000;  // of each connection
  connect_both();
  std::atomic<uint32_t> received{0};
  std::atomic<bool> failed{false};
  const auto late = [until = std::chrono::steady_clock::now() + std::chrono::seconds(60)] {
    return std::chrono::steady_clock::now() > until;
  };
  const auto keep_posting = [&](uint64_t name) {
    ibv_sge entry = piece(target(name), 8);
    while (received < 2 * kMessages && !failed) {
      ibv_recv_wr wr = {};
      wr.wr_id = name;
      wr.sg_list = &entry;
      wr.num_sge = 1;
      ibv_recv_wr* bad = nullptr;
      const int error = ibv_post_srq_recv(srq, &wr, &bad);
      if ((error != 0 && error != ENOMEM) || late()) failed = true;
      if (error != 0) std::this_thread::yield();
    }
  };
  const auto keep_receiving = [&](ibv_cq* completions, uint32_t qpn) {
    ibv_wc wc[4];
    for (uint32_t mine = 0; mine < kMessages && !failed;) {
      const int count = ibv_poll_cq(completions, 4, wc);
      if (count < 0 || late()) failed = true;
      for (int i = 0; i < count; ++i) {
        if (wc[i].status != IBV_WC_SUCCESS || wc[i].qp_num != qpn) failed = true;
        if (wc[i].wr_id != 1 && wc[i].wr_id != 2) failed = true;
        ++mine;
        ++received;
      }
    }
  };
  std::thread threads[] = {std::thread(keep_posting, 1), std::thread(keep_posting, 2),
                           std::thread(keep_receiving, receive_cq, b->qp_num),
                           std::thread(keep_receiving, receive_cq2, b2->qp_num)};
  uint32_t sent = 0;
  uint32_t done = 0;
  ibv_sge list = piece(0, 8);
  for (ibv_wc wc = {}; done < 2 * kMessages && !failed;) {
    ibv_send_wr wr = {};
    wr.sg_list = &list;
    wr.num_sge = 1;
    wr.opcode = IBV_WR_SEND;
    wr.send_flags = IBV_SEND_SIGNALED;
    ibv_send_wr* bad = nullptr;
    if (sent < 2 * kMessages && ibv_post_send(sent % 2 == 0 ? a : a2, &wr, &bad) == 0) ++sent;
    const int count = ibv_poll_cq(cq, 1, &wc);
    if (count < 0 || (count > 0 && wc.status != IBV_WC_SUCCESS) || late()) failed = true;
    done += count > 0;
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_FALSE(failed);
  EXPECT_EQ(received, 2 * kMessages);
}

INSTANTIATE_TEST_SUITE_P(Ways, SoftnicAbiSrq, kBothWays, way_name);

}  // namespace
}  // namespace peal::softnic::abi_test
