// SPDX-License-Identifier: Apache-2.0
//
// SEND and RECV by verbs: where the bytes go, what both ends are told, and what happens without a
// receive entry, with one too short, and with one whose key is wrong.
#include "tests/unit/softnic/abi/data_support.h"

namespace peal::softnic::abi_test {
namespace {

using SoftnicAbiSend = SoftnicAbiData;

TEST_P(SoftnicAbiSend, BytesGoWhereTheReceiveSays) {
  connect();
  fill(0, 100, 1);
  ASSERT_EQ(post_receive(b, 11, {piece(4096, 30), piece(8192, 0), piece(12288, 200)}), 0);
  std::vector<ibv_sge> list = {piece(0, 1), piece(1, 60), piece(61, 39)};
  ibv_send_wr wr = request(IBV_WR_SEND, 1, list);
  ASSERT_EQ(post(a, wr), 0);
  ibv_wc wc = next(receive_cq);
  EXPECT_EQ(wc.status, IBV_WC_SUCCESS);
  EXPECT_EQ(wc.wr_id, 11u);
  EXPECT_EQ(wc.opcode, IBV_WC_RECV);
  EXPECT_EQ(wc.byte_len, 100u);
  EXPECT_EQ(wc.wc_flags, 0u);
  EXPECT_EQ(wc.qp_num, b->qp_num);
  EXPECT_TRUE(same(0, 4096, 30));
  EXPECT_TRUE(same(30, 12288, 70));
  EXPECT_EQ(buffer.get()[4126], 0);
  EXPECT_EQ(buffer.get()[12288 + 70], 0);
  wc = next(cq);
  EXPECT_EQ(wc.status, IBV_WC_SUCCESS);
  EXPECT_EQ(wc.opcode, IBV_WC_SEND);
  EXPECT_EQ(wc.wr_id, 1u);
}

TEST_P(SoftnicAbiSend, ImmediateComesAlong) {
  connect();
  ASSERT_EQ(post_receive(b, 12, {}), 0);
  std::vector<ibv_sge> none;
  ibv_send_wr wr = request(IBV_WR_SEND_WITH_IMM, 1, none);
  wr.imm_data = htobe32(0xcafe);
  ASSERT_EQ(post(a, wr), 0);
  const ibv_wc wc = next(receive_cq);
  EXPECT_EQ(wc.status, IBV_WC_SUCCESS);
  EXPECT_EQ(wc.opcode, IBV_WC_RECV);
  EXPECT_EQ(wc.wc_flags, static_cast<unsigned>(IBV_WC_WITH_IMM));
  EXPECT_EQ(be32toh(wc.imm_data), 0xcafeu);
  EXPECT_EQ(wc.byte_len, 0u);
}

/// More than a packet, more than what goes straight in one turn, and the ring of receives goes
/// round.
TEST_P(SoftnicAbiSend, LongMessagesArriveWholeAndInOrder) {
  connect();
  constexpr uint32_t kLong = 1'000'003;
  fill(0, kLong, 5);
  for (uint64_t i = 0; i < 20; ++i) {
    const uint32_t bytes = i % 2 == 0 ? kLong : 17;
    std::memset(buffer.get() + (2 << 20), 0, kLong);
    ASSERT_EQ(post_receive(b, 100 + i, {piece(2 << 20, 70'001), piece((2 << 20) + 70'001, kLong)}),
              0);
    std::vector<ibv_sge> list = {piece(0, bytes)};
    ibv_send_wr wr = request(IBV_WR_SEND, i, list);
    ASSERT_EQ(post(a, wr), 0);
    const ibv_wc wc = next(receive_cq);
    ASSERT_EQ(wc.status, IBV_WC_SUCCESS);
    ASSERT_EQ(wc.wr_id, 100 + i);
    ASSERT_EQ(wc.byte_len, bytes);
    ASSERT_TRUE(same(0, 2 << 20, bytes)) << i;
    ASSERT_EQ(next(cq).wr_id, i);
  }
}

TEST_P(SoftnicAbiSend, InlineBytesAreSentToo) {
  connect();
  fill(0, 90, 8);
  ASSERT_EQ(post_receive(b, 13, {piece(4096, 90)}), 0);
  std::vector<ibv_sge> list = {piece(0, 90)};
  ibv_send_wr wr = request(IBV_WR_SEND, 1, list);
  wr.send_flags |= IBV_SEND_INLINE;
  ASSERT_EQ(post(a, wr), 0);
  EXPECT_EQ(next(receive_cq).byte_len, 90u);
  EXPECT_TRUE(same(0, 4096, 90));
}

TEST_P(SoftnicAbiSend, WithoutAReceiveTheSenderRunsOutOfTries) {
  connect(1);
  std::vector<ibv_sge> list = {piece(0, 8)};
  ibv_send_wr wr = request(IBV_WR_SEND, 2, list);
  ASSERT_EQ(post(a, wr), 0);
  const ibv_wc wc = next(cq);
  EXPECT_EQ(wc.status, IBV_WC_RNR_RETRY_EXC_ERR);
  EXPECT_EQ(wc.wr_id, 2u);
}

TEST_P(SoftnicAbiSend, ASenderThatNeverGivesUpWaitsForTheReceive) {
  connect(7);
  fill(0, 70'000, 2);
  std::vector<ibv_sge> list = {piece(0, 70'000)};
  ibv_send_wr wr = request(IBV_WR_SEND, 3, list);
  ASSERT_EQ(post(a, wr), 0);
  const auto until = std::chrono::steady_clock::now() + std::chrono::milliseconds(20);
  ibv_wc wc = {};
  while (std::chrono::steady_clock::now() < until) ASSERT_EQ(ibv_poll_cq(cq, 1, &wc), 0);
  ASSERT_EQ(post_receive(b, 14, {piece(1 << 20, 70'000)}), 0);
  EXPECT_EQ(next(receive_cq).byte_len, 70'000u);
  EXPECT_EQ(next(cq).status, IBV_WC_SUCCESS);
  EXPECT_TRUE(same(0, 1 << 20, 70'000));
}

TEST_P(SoftnicAbiSend, AMessageLongerThanTheReceiveFailsAtBothEnds) {
  connect();
  fill(0, 101, 2);
  ASSERT_EQ(post_receive(b, 15, {piece(4096, 60), piece(8192, 40)}), 0);
  ASSERT_EQ(post_receive(b, 16, {piece(4096, 60)}), 0);
  std::vector<ibv_sge> list = {piece(0, 101)};
  ibv_send_wr wr = request(IBV_WR_SEND, 4, list);
  ASSERT_EQ(post(a, wr), 0);
  ibv_wc wc = next(receive_cq);
  EXPECT_EQ(wc.status, IBV_WC_LOC_LEN_ERR);
  EXPECT_EQ(wc.wr_id, 15u);
  wc = next(receive_cq);
  EXPECT_EQ(wc.status, IBV_WC_WR_FLUSH_ERR);
  EXPECT_EQ(wc.wr_id, 16u);
  wc = next(cq);
  EXPECT_EQ(wc.status, IBV_WC_REM_INV_REQ_ERR);
  EXPECT_EQ(wc.wr_id, 4u);
  EXPECT_EQ(buffer.get()[4096], 0);  // nothing was stored
}

TEST_P(SoftnicAbiSend, AReceiveWithABadKeyFailsAtBothEnds) {
  ibv_mr* read_only = ibv_reg_mr(pd, buffer.get(), 4096, 0);
  ASSERT_NE(read_only, nullptr);
  connect();
  ibv_sge target = piece(0, 64);
  target.lkey = read_only->lkey;
  ASSERT_EQ(post_receive(b, 17, {piece(4096, 4), target}), 0);
  std::vector<ibv_sge> list = {piece(8192, 8)};
  ibv_send_wr wr = request(IBV_WR_SEND, 5, list);
  ASSERT_EQ(post(a, wr), 0);
  ibv_wc wc = next(receive_cq);
  EXPECT_EQ(wc.status, IBV_WC_LOC_PROT_ERR);
  EXPECT_EQ(wc.wr_id, 17u);
  wc = next(cq);
  EXPECT_EQ(wc.status, IBV_WC_REM_OP_ERR);
  EXPECT_EQ(wc.wr_id, 5u);
}

INSTANTIATE_TEST_SUITE_P(Ways, SoftnicAbiSend, kBothWays, way_name);

}  // namespace
}  // namespace peal::softnic::abi_test
