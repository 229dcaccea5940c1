// SPDX-License-Identifier: Apache-2.0
//
// A queue pair by plain verbs, on a fake libibverbs: what is asked of it, and what its answers
// mean.
#include "host/nic/verbs_queue.h"

#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "device/mlx5/layout.h"
#include "tests/support/fake_rdma_fixture.h"

namespace peal::nic {
namespace {

using mlx5::Syndrome;

class VerbsQueueTest : public FakeRdmaTest {
 protected:
  VerbsQueueTest() {
    fake_.devices.clear();
    fake_.foreign = {"rxe0"};
  }
  /// libibverbs alone: a NIC that is no mlx5.
  std::shared_ptr<const VerbsLibrary> plain() const {
    return VerbsLibrary::open({path_, "", "", "", "", NicUse::kVerbs});
  }
  static DeviceOptions options() {
    DeviceOptions options;
    options.use = NicUse::kVerbs;
    return options;
  }
};

TEST_F(VerbsQueueTest, OpensAnyDeviceWithoutLibmlx5) {
  const Device device(plain(), "", options());
  EXPECT_EQ(device.name(), "rxe0");
  EXPECT_EQ(fake_.opened, "rxe0");
  EXPECT_EQ(device.capabilities().log_max_responder_depth, 4u);
  EXPECT_TRUE(fake_.commands.empty()) << "no firmware is asked";
  const ProtectionDomain domain(device);
  EXPECT_EQ(domain.number(), 0u);
  expect_in(device.description(), {"rxe0", "verbs of"});
}

TEST_F(VerbsQueueTest, RefusesADeviceWithoutAtomicsAndNamesWhatThereIs) {
  expect_in(refusal(ErrorCode::kUnsupported, [&] { Device(plain(), "mlx5_0", options()); }),
            {"no RDMA device", "mlx5_0", "rxe0", "PEAL_HCA"});
  fake_.atomics = IBV_ATOMIC_NONE;
  expect_in(refusal(ErrorCode::kUnsupported, [&] { Device(plain(), "", options()); }),
            {"rxe0", "atomic_cap", "PEAL_HCA"});
  fake_.refuse_open = true;
  expect_in(refusal(ErrorCode::kSystem, [&] { Device(plain(), "", options()); }),
            {"ibv_open_device(rxe0)", "/dev/infiniband"});
}

TEST_F(VerbsQueueTest, TakesTheStatesWithWhatThePathSays) {
  const Device device(plain(), "", options());
  const ProtectionDomain domain(device);
  VerbsQueue queue(device, domain, 100);
  EXPECT_EQ(fake_.created.cap.max_send_wr, 100u);
  EXPECT_EQ(fake_.created.qp_type, IBV_QPT_RC);
  EXPECT_GE(fake_.created.cap.max_inline_data, mlx5::kMaxInlineBytes);
  RemoteQueue remote;
  remote.qpn = 0xabcde;
  remote.psn = 0x11;
  remote.path.mtu = 3;
  remote.path.dlid = 0x77;
  remote.path.service_level = 5;
  remote.path.log_responder_depth = 2;
  remote.path.log_initiator_depth = 3;
  remote.path.ack_timeout = 14;
  remote.path.retry_count = 5;
  queue.connect(remote, 0x22);
  ASSERT_EQ(fake_.transitions.size(), 3u);
  const auto& [init, init_mask] = fake_.transitions[0];
  EXPECT_EQ(init.qp_state, IBV_QPS_INIT);
  EXPECT_EQ(init_mask, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS);
  EXPECT_EQ(init.qp_access_flags,
            unsigned{IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC});
  const ibv_qp_attr& rtr = fake_.transitions[1].first;
  EXPECT_EQ(rtr.qp_state, IBV_QPS_RTR);
  EXPECT_EQ(rtr.path_mtu, IBV_MTU_1024);
  EXPECT_EQ(rtr.dest_qp_num, 0xabcdeu);
  EXPECT_EQ(rtr.rq_psn, 0x11u);
  EXPECT_EQ(rtr.ah_attr.dlid, 0x77);
  EXPECT_EQ(rtr.ah_attr.sl, 5);
  EXPECT_EQ(rtr.ah_attr.is_global, 0);
  EXPECT_EQ(rtr.max_dest_rd_atomic, 4);
  const ibv_qp_attr& rts = fake_.transitions[2].first;
  EXPECT_EQ(rts.qp_state, IBV_QPS_RTS);
  EXPECT_EQ(rts.sq_psn, 0x22u);
  EXPECT_EQ(rts.timeout, 14);
  EXPECT_EQ(rts.retry_cnt, 5);
  EXPECT_EQ(rts.max_rd_atomic, 8);
}

// Linux' rxe takes 7 as for ever: no error told that a peer was gone, kernels waited out their
// deadline.
TEST_F(VerbsQueueTest, RetriesEnd) {
  const Device device(plain(), "", options());
  const ProtectionDomain domain(device);
  VerbsQueue queue(device, domain, 100);
  RemoteQueue remote;
  remote.path.mtu = 3;
  remote.path.retry_count = 7;
  queue.connect(remote, 0x22);
  EXPECT_EQ(fake_.transitions.at(2).first.retry_cnt, 6);
}

// Both fail at 438a779: entry 0 of the table whatever it is, and one question for the next hop.
TEST_F(VerbsQueueTest, UsesThePartitionOfItsPort) {
  fake_.pkeys = {0x7fff, 0x8001};
  const Device device(plain(), "", options());
  const ProtectionDomain domain(device);
  VerbsQueue(device, domain, 16).connect({}, 0);
  EXPECT_EQ(fake_.transitions[0].first.pkey_index, 1);
}

TEST_F(VerbsQueueTest, AsksForTheNextHopAgainOnce) {
  const Device device(plain(), "", options());
  const ProtectionDomain domain(device);
  VerbsQueue queue(device, domain, 16);
  fake_.late_ahs = 1;
  queue.connect({}, 0);
  EXPECT_EQ(fake_.transitions.size(), 4u);
  fake_.late_ahs = 2;
  expect_in(refusal(ErrorCode::kSystem, [&] { queue.connect({}, 0); }),
            {"ready to receive", "Connection timed out"});
}

TEST_F(VerbsQueueTest, GoesByGidsWhereThePathDoes) {
  const Device device(plain(), "", options());
  const ProtectionDomain domain(device);
  VerbsQueue queue(device, domain, 16);
  RemoteQueue remote;
  remote.path.global = true;
  remote.path.source_gid = 3;
  remote.path.hop_limit = 255;
  remote.path.traffic_class = 106;
  remote.path.remote_gid.bytes[15] = 9;
  queue.connect(remote, 0);
  const ibv_ah_attr& address = fake_.transitions[1].first.ah_attr;
  EXPECT_EQ(address.is_global, 1);
  EXPECT_EQ(address.grh.sgid_index, 3);
  EXPECT_EQ(address.grh.hop_limit, 255);
  EXPECT_EQ(address.grh.traffic_class, 106);
  EXPECT_EQ(address.grh.dgid.raw[15], 9);
  fake_.refuse_modify = EINVAL;
  expect_in(refusal(ErrorCode::kSystem, [&] { queue.connect(remote, 0); }),
            {"ibv_modify_qp(0x123456 of rxe0, to init)", "Invalid argument"});
}

TEST_F(VerbsQueueTest, PostsChainsAndTellsHowManyWereTaken) {
  const Device device(plain(), "", options());
  const ProtectionDomain domain(device);
  VerbsQueue queue(device, domain, 16);
  std::vector<SendRequest> requests(4);
  for (size_t i = 0; i < 4; ++i) {
    requests[i] = {.id = 10 + i,
                   .kind = static_cast<SendRequest::Kind>(i),
                   .signalled = i == 3,
                   .fence = i == 1,
                   .in_place = i == 0,
                   .rkey = 7,
                   .remote = 0x1000,
                   .local = 0x2000,
                   .lkey = 8,
                   .bytes = 8,
                   .swap_or_add = 21,
                   .compare = 20};
  }
  int error = 0;
  ASSERT_EQ(queue.post(requests, &error), 4u);
  EXPECT_EQ(fake_.posted[0].opcode, IBV_WR_RDMA_WRITE);
  EXPECT_EQ(fake_.posted[0].send_flags, unsigned{IBV_SEND_INLINE});
  EXPECT_EQ(fake_.posted[1].opcode, IBV_WR_RDMA_READ);
  EXPECT_EQ(fake_.posted[1].send_flags, unsigned{IBV_SEND_FENCE});
  EXPECT_EQ(fake_.posted[1].wr.rdma.remote_addr, 0x1000u);
  EXPECT_EQ(fake_.posted[1].wr.rdma.rkey, 7u);
  EXPECT_EQ(fake_.gathered[1].addr, 0x2000u);
  EXPECT_EQ(fake_.gathered[1].lkey, 8u);
  EXPECT_EQ(fake_.posted[2].opcode, IBV_WR_ATOMIC_CMP_AND_SWP);
  EXPECT_EQ(fake_.posted[2].wr.atomic.compare_add, 20u);
  EXPECT_EQ(fake_.posted[2].wr.atomic.swap, 21u);
  EXPECT_EQ(fake_.posted[3].opcode, IBV_WR_ATOMIC_FETCH_AND_ADD);
  EXPECT_EQ(fake_.posted[3].wr.atomic.compare_add, 21u);
  EXPECT_EQ(fake_.posted[3].send_flags, unsigned{IBV_SEND_SIGNALED});
  EXPECT_EQ(fake_.posted[3].wr_id, 13u);
  fake_.room = 6;
  EXPECT_EQ(queue.post(requests, &error), 2u);
  EXPECT_EQ(error, ENOMEM);
  requests[0].bytes = 0;
  fake_.room = 7;
  fake_.refuse_post = EINVAL;
  EXPECT_EQ(queue.post(requests, &error), 1u);
  EXPECT_EQ(error, EINVAL);
  EXPECT_EQ(fake_.posted[6].num_sge, 0) << "a write of nothing names no memory";
}

TEST_F(VerbsQueueTest, TurnsStatusesBackIntoSyndromes) {
  const Device device(plain(), "", options());
  const ProtectionDomain domain(device);
  VerbsQueue queue(device, domain, 16);
  const std::pair<ibv_wc_status, Syndrome> kPairs[] = {
      {IBV_WC_SUCCESS, Syndrome::kNone},
      {IBV_WC_LOC_LEN_ERR, Syndrome::kLocalLength},
      {IBV_WC_LOC_QP_OP_ERR, Syndrome::kLocalQpOperation},
      {IBV_WC_LOC_PROT_ERR, Syndrome::kLocalProtection},
      {IBV_WC_WR_FLUSH_ERR, Syndrome::kFlushed},
      {IBV_WC_REM_INV_REQ_ERR, Syndrome::kRemoteInvalidRequest},
      {IBV_WC_REM_ACCESS_ERR, Syndrome::kRemoteAccess},
      {IBV_WC_REM_OP_ERR, Syndrome::kRemoteOperation},
      {IBV_WC_RETRY_EXC_ERR, Syndrome::kTransportRetryExceeded},
      {IBV_WC_RNR_RETRY_EXC_ERR, Syndrome::kRnrRetryExceeded},
      {IBV_WC_REM_ABORT_ERR, Syndrome::kRemoteAborted}};
  for (const auto& [status, syndrome] : kPairs) {
    ibv_wc wc{};
    wc.wr_id = 5;
    wc.status = status;
    wc.vendor_err = 0x93;
    fake_.completions = {wc};
    SendCompletion taken[4];
    ASSERT_EQ(queue.poll(taken), 1u);
    EXPECT_EQ(taken[0].id, 5u);
    EXPECT_EQ(taken[0].syndrome, static_cast<uint8_t>(syndrome)) << status;
    EXPECT_EQ(taken[0].vendor_syndrome, 0x93);
  }
}

TEST_F(VerbsQueueTest, IsAsDeepAsTheNicAllows) {
  fake_.most_requests = 50;
  const Device device(plain(), "", options());
  const ProtectionDomain domain(device);
  VerbsQueue queue(device, domain, 1026);
  EXPECT_EQ(queue.capacity(), 50u);
  fake_.qp_state = IBV_QPS_ERR;
  EXPECT_EQ(queue.state(), QueueState::kError);
  fake_.completions = std::vector<ibv_wc>(70);
  queue.to_reset();
  EXPECT_EQ(fake_.transitions.back().first.qp_state, IBV_QPS_RESET);
  EXPECT_TRUE(fake_.completions.empty()) << "those of before are nobody's";
}

}  // namespace
}  // namespace peal::nic
