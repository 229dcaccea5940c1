// SPDX-License-Identifier: Apache-2.0
//
// Send queues: wrap of blocks, of the 16-bit index, of WQEs longer than one block; fences; WAIT;
// what the doorbell record may do and may not.
#include "tests/unit/softnic/support.h"

namespace peal::softnic::testing {

using Queues = SoftNic;

Wqe long_write(uint32_t key, uint32_t bytes, uint8_t fill) {
  const std::vector<uint8_t> data(bytes, fill);
  Wqe wqe{.opcode = Opcode::kRdmaWrite};
  return wqe.remote(0, key).inline_data(data.data(), bytes);
}

TEST_F(Queues, MultiBlockRequestsReportTheirFirstBlock) {
  auto qp = make_loop();
  Region memory(*nic, pd, 4096);
  qp->post(long_write(memory.key, 200, 1));  // 4 blocks
  qp->post(nop());
  qp->ring();
  EXPECT_EQ(cq->await().counter, 0);
  EXPECT_EQ(cq->await().counter, 4);
}

TEST_F(Queues, LongRequestsWrapAtTheEndOfTheRing) {
  auto qp = make_loop({.log_blocks = 3});
  Region memory(*nic, pd, 4096);
  for (uint32_t i = 0; i < 40; ++i) {
    const auto fill = static_cast<uint8_t>(i + 1);
    ASSERT_EQ(run(*qp, long_write(memory.key, 150, fill)).kind, CqeOpcode::kRequester) << i;
    const auto* got = memory.pages.as<uint8_t>();
    ASSERT_EQ(std::count(got, got + 150, fill), 150) << i;
  }
}

TEST_F(Queues, LongestRequestHas63Segments) {
  auto qp = make_loop();
  Region memory(*nic, pd, 4096);
  const Wqe wqe = long_write(memory.key, 61 * 16 - 4, 9);
  EXPECT_EQ(wqe.units(), 63u);
  EXPECT_EQ(run(*qp, wqe).kind, CqeOpcode::kRequester);
  EXPECT_EQ(memory.load<uint8_t>(61 * 16 - 5), 9);
  EXPECT_EQ(memory.load<uint8_t>(61 * 16 - 4), 0);
}

TEST_F(Queues, SegmentsOfOneRequestWrapToo) {
  auto qp = make_loop({.log_blocks = 2});
  Region memory(*nic, pd, 4096);
  for (uint32_t i = 0; i < 64; ++i) memory.pages.as<uint8_t>()[i] = static_cast<uint8_t>(i);
  for (uint32_t turn = 0; turn < 9; ++turn) {
    std::memset(memory.pages.data() + 1024, 0xff, 64);
    Wqe wqe{.opcode = Opcode::kRdmaWrite};
    wqe.remote(1024, memory.key);
    for (uint32_t i = 0; i < 8; ++i) wqe.data(8, memory.key, i * 8);
    ASSERT_EQ(run(*qp, wqe).kind, CqeOpcode::kRequester);
    ASSERT_EQ(std::memcmp(memory.pages.data(), memory.pages.data() + 1024, 64), 0);
  }
}

TEST_F(Queues, IndexWrapsAtSixteenBits) {
  auto qp = make_loop({.log_blocks = 8});
  Region memory(*nic, pd, 4096);
  constexpr uint32_t kCount = 70'000;
  uint32_t done = 0;
  while (done < kCount) {
    const uint32_t batch = std::min(100u, kCount - done);
    for (uint32_t i = 0; i < batch; ++i) {
      qp->post(write_inline<uint64_t>(8 * (i % 4), memory.key, done + i)
                   .with(i + 1 == batch ? Completion::kAlways : Completion::kOnError));
    }
    qp->ring();
    done += batch;
    ASSERT_EQ(cq->await().counter, static_cast<uint16_t>(done - 1));
  }
  EXPECT_EQ(memory.load<uint64_t>(8 * 3), kCount - 1);
  EXPECT_EQ(qp->query().hardware_send_counter, static_cast<uint16_t>(kCount));
}

TEST_F(Queues, LargestRingMayBeFilledWhole) {
  auto qp = make_loop({.log_blocks = 15});
  for (uint32_t i = 0; i < 32768; ++i) {
    qp->post(nop().with(i == 32767 ? Completion::kAlways : Completion::kOnError));
  }
  qp->ring();
  EXPECT_EQ(cq->await().counter, 32767);
  for (uint32_t i = 0; i < 32768; ++i) {
    qp->post(nop().with(i == 32767 ? Completion::kAlways : Completion::kOnError));
  }
  qp->ring();
  EXPECT_EQ(cq->await().counter, 65535);
}

TEST_F(Queues, NothingBeyondTheDoorbellRecordStarts) {
  auto qp = make_loop();
  Region memory(*nic, pd, 4096);
  qp->post(nop());
  qp->post(write_inline<uint64_t>(0, memory.key, 1));
  qp->ring(1);
  EXPECT_EQ(cq->await().counter, 0);
  EXPECT_EQ(memory.load<uint64_t>(0), 0u);
  qp->ring(2);
  EXPECT_EQ(cq->await().counter, 1);
  EXPECT_EQ(memory.load<uint64_t>(0), 1u);
}

TEST_F(Queues, EveryFenceModeLetsTheQueueGoOn) {
  auto qp = make_loop();
  Region memory(*nic, pd, 4096);
  for (const Fence fence : {Fence::kNone, Fence::kInitiatorSmall, Fence::kFence, Fence::kStrong,
                            Fence::kFenceAndSmall}) {
    qp->post(fetch_add(0, memory.key, 1, memory.key, 64));
    qp->post(write_inline<uint64_t>(8, memory.key, 1).with(fence));
  }
  qp->ring();
  for (uint16_t i = 0; i < 10; ++i) EXPECT_EQ(cq->await().counter, i);
}

TEST_F(Queues, UnknownFenceModeIsAnOperationError) {
  auto qp = make_loop();
  EXPECT_EQ(run(*qp, nop().with(static_cast<Fence>(0xa0))).syndrome, Syndrome::kLocalQpOperation);
}

TEST_F(Queues, WaitHoldsTheQueueUntilTheOtherHasCompleted) {
  Cq main_cq(*nic, {});
  Qp main(*nic, pd, main_cq, *receive_cq, {});
  main.connect(nic->lid(), main.qpn);
  auto companion = make_loop();
  Region memory(*nic, pd, 4096);
  companion->post(wait_for(main_cq.cqn, 2));
  companion->post(write_inline<uint64_t>(0, memory.key, 5));
  companion->ring();
  for (int i = 0; i < 2; ++i) {
    main.post(nop());
    main.ring();
    main_cq.await();
  }
  EXPECT_EQ(companion->query().software_send_counter, 2);
  EXPECT_EQ(companion->query().hardware_send_counter, 0);
  EXPECT_EQ(memory.load<uint64_t>(0), 0u);
  EXPECT_TRUE(cq->quiet());
  main.post(nop());
  main.ring();
  SeenCqe cqe = cq->await();
  EXPECT_EQ(cqe.counter, 0);
  EXPECT_EQ(cqe.wqe_opcode, 0x0f);
  EXPECT_EQ(cq->await().counter, 1);
  EXPECT_EQ(memory.load<uint64_t>(0), 5u);
}

TEST_F(Queues, WaitOnAnUnknownQueueIsAnOperationError) {
  auto qp = make_loop();
  EXPECT_EQ(run(*qp, wait_for(0x7777, 0)).syndrome, Syndrome::kLocalQpOperation);
}

TEST_F(Queues, WaitOnTimeIsNotServed) {
  auto qp = make_loop();
  Wqe wqe = wait_for(cq->cqn, 0);
  wqe.opmod = 2;
  EXPECT_EQ(run(*qp, wqe).syndrome, Syndrome::kLocalQpOperation);
}

TEST_F(Queues, DoorbellBeyondTheRingFailsTheQueue) {
  auto qp = make_loop({.log_blocks = 4});
  for (int i = 0; i < 17; ++i) qp->post(nop());
  qp->ring();
  EXPECT_EQ(cq->await().syndrome, Syndrome::kLocalQpOperation);
  EXPECT_EQ(nic->violations().doorbell, 1u);
}

TEST_F(Queues, WorkBeforeABadDoorbellStillCompletes) {
  auto qp = make_loop({.log_blocks = 4});
  Cq held_cq(*nic, {});
  qp->post(wait_for(held_cq.cqn, 0));
  qp->post(nop());
  qp->ring();
  ASSERT_TRUE(eventually([&] { return qp->query().software_send_counter == 2; }));
  qp->ring(0x8000);
  ASSERT_TRUE(eventually([&] { return nic->violations().doorbell == 1; }));
  EXPECT_TRUE(cq->quiet());
  Qp other(*nic, pd, held_cq, *receive_cq, {});
  other.connect(nic->lid(), other.qpn);
  other.post(nop());
  other.ring();
  EXPECT_EQ(cq->await().kind, CqeOpcode::kRequester);
  EXPECT_EQ(cq->await().kind, CqeOpcode::kRequester);
  EXPECT_EQ(cq->await().syndrome, Syndrome::kLocalQpOperation);
}

TEST_F(Queues, StaleIndexIsAnOperationError) {
  auto qp = make_loop();
  Wqe wqe;
  wqe.index_error = 0x40;  // as a block left over from the previous lap
  EXPECT_EQ(run(*qp, wqe).syndrome, Syndrome::kLocalQpOperation);
  EXPECT_EQ(nic->violations().index, 1u);
}

TEST_F(Queues, HalfPublishedRequestIsAnOperationError) {
  auto qp = make_loop();
  Region memory(*nic, pd, 4096);
  qp->post(long_write(memory.key, 100, 1));
  qp->ring(1);
  EXPECT_EQ(cq->await().syndrome, Syndrome::kLocalQpOperation);
  EXPECT_EQ(nic->violations().truncated, 1u);
  EXPECT_EQ(memory.load<uint8_t>(0), 0);
}

TEST_F(Queues, ForeignQueuePairNumberIsAnOperationError) {
  auto qp = make_loop();
  Wqe wqe;
  wqe.qpn = qp->qpn + 1;
  EXPECT_EQ(run(*qp, wqe).syndrome, Syndrome::kLocalQpOperation);
  EXPECT_EQ(nic->violations().foreign_qpn, 1u);
}

TEST_F(Queues, ManyIdleQueuePairsDoNotHideABusyOne) {
  std::vector<std::unique_ptr<Qp>> crowd;
  for (int i = 0; i < 300; ++i) crowd.push_back(make_loop());
  for (int round = 0; round < 3; ++round) {
    for (auto& qp : crowd) {
      qp->post(nop());
      qp->ring();
      EXPECT_EQ(cq->await().qpn, qp->qpn);
    }
  }
}

TEST_F(Queues, ResetQueuePairStartsAtZeroAgain) {
  auto qp = make_loop();
  Region memory(*nic, pd, 4096);
  run(*qp, nop());
  run(*qp, write_inline<uint64_t>(99999, memory.key, 1));
  EXPECT_EQ(qp->query().state, QpState::kError);
  qp->reset();
  EXPECT_EQ(qp->query().state, QpState::kReset);
  qp->connect(nic->lid(), qp->qpn);
  const SeenCqe cqe = run(*qp, write_inline<uint64_t>(0, memory.key, 7));
  EXPECT_EQ(cqe.kind, CqeOpcode::kRequester);
  EXPECT_EQ(cqe.counter, 0);
  EXPECT_EQ(memory.load<uint64_t>(0), 7u);
}

TEST_F(Queues, WorkPostedBeforeReadyToSendStartsThen) {
  auto qp = make_qp();
  qp->to_init();
  qp->to_receive(nic->lid(), qp->qpn);
  qp->post(nop());
  qp->ring();
  EXPECT_EQ(qp->query().hardware_send_counter, 0);
  EXPECT_TRUE(cq->quiet());
  qp->to_send();
  EXPECT_EQ(cq->await().counter, 0);
}

}  // namespace peal::softnic::testing
