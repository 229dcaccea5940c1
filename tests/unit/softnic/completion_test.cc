// SPDX-License-Identifier: Apache-2.0
//
// Completion queue entries: when they are written, where, and with which owner bit.
#include "tests/unit/softnic/support.h"

namespace peal::softnic::testing {

using Completions = SoftNic;

TEST_F(Completions, OnErrorModeWritesNothingForASuccess) {
  auto qp = make_loop();
  qp->post(nop().with(Completion::kOnError));
  qp->post(nop());
  qp->ring();
  EXPECT_EQ(cq->await().counter, 1);
  EXPECT_TRUE(cq->quiet());
}

TEST_F(Completions, OnFirstErrorModeWritesNothingForASuccess) {
  auto qp = make_loop();
  qp->post(nop().with(Completion::kOnFirstError));
  qp->post(nop());
  qp->ring();
  EXPECT_EQ(cq->await().counter, 1);
  EXPECT_TRUE(cq->quiet());
}

TEST_F(Completions, AlwaysWithEventWritesOneEach) {
  auto qp = make_loop();
  for (uint16_t i = 0; i < 4; ++i) qp->post(nop().with(Completion::kAlwaysWithEvent));
  qp->ring();
  for (uint16_t i = 0; i < 4; ++i) EXPECT_EQ(cq->await().counter, i);
}

TEST_F(Completions, EveryModeReportsAFirstError) {
  for (const Completion mode : {Completion::kOnError, Completion::kOnFirstError,
                                Completion::kAlways, Completion::kAlwaysWithEvent}) {
    auto qp = make_loop();
    Wqe wqe;
    wqe.opcode = static_cast<Opcode>(0x3f);
    const SeenCqe cqe = run(*qp, wqe.with(mode));
    EXPECT_EQ(cqe.kind, CqeOpcode::kRequesterError);
    EXPECT_EQ(cqe.syndrome, Syndrome::kLocalQpOperation);
    EXPECT_EQ(cqe.wqe_opcode, 0x3f);
  }
}

TEST_F(Completions, FlushedOnFirstErrorRequestsStaySilent) {
  auto qp = make_loop();
  Wqe bad;
  bad.opcode = static_cast<Opcode>(0x3f);
  qp->post(bad);
  qp->post(nop().with(Completion::kOnFirstError));
  qp->post(nop().with(Completion::kOnError));
  qp->post(nop().with(Completion::kOnFirstError));
  qp->post(nop());
  qp->ring();
  EXPECT_EQ(cq->await().syndrome, Syndrome::kLocalQpOperation);
  SeenCqe cqe = cq->await();
  EXPECT_EQ(cqe.syndrome, Syndrome::kFlushed);
  EXPECT_EQ(cqe.counter, 2);
  cqe = cq->await();
  EXPECT_EQ(cqe.syndrome, Syndrome::kFlushed);
  EXPECT_EQ(cqe.counter, 4);
  EXPECT_TRUE(cq->quiet());
}

TEST_F(Completions, OwnerBitFollowsTheLap) {
  Cq small(*nic, {.log_entries = 2});
  Qp qp(*nic, pd, small, *receive_cq, {});
  qp.connect(nic->lid(), qp.qpn);
  for (uint32_t i = 0; i < 23; ++i) {
    qp.post(nop());
    qp.ring();
    const SeenCqe cqe = small.await();
    EXPECT_EQ(cqe.owner, (i / 4) % 2) << i;
    EXPECT_EQ(cqe.counter, i);
  }
}

TEST_F(Completions, CollapsedQueueUsesSlotZeroOnly) {
  Cq small(*nic, {.log_entries = 2, .collapsed = true, .fill = 0xff});
  Qp qp(*nic, pd, small, *receive_cq, {});
  qp.connect(nic->lid(), qp.qpn);
  for (uint32_t i = 0; i < 9; ++i) {
    qp.post(nop());
    qp.ring();
    EXPECT_TRUE(eventually([&] { return Cq::decode(small.slot(0)).counter == i; }));
  }
  EXPECT_EQ(nic->cq_produced(small.cqn), 9u);
  EXPECT_EQ(static_cast<uint8_t>(small.slot(0)[64]), 0xff) << "slot 1 is untouched";
}

TEST_F(Completions, CollapsedQueueOfOneEntryWorks) {
  Cq small(*nic, {.log_entries = 0, .collapsed = true});
  Qp qp(*nic, pd, small, *receive_cq, {});
  qp.connect(nic->lid(), qp.qpn);
  for (uint32_t i = 0; i < 5; ++i)
    qp.post(nop().with(i == 4 ? Completion::kAlways : Completion::kOnError));
  qp.ring();
  EXPECT_TRUE(eventually([&] { return Cq::decode(small.slot(0)).counter == 4; }));
}

TEST_F(Completions, LargeEntriesUseTheirSecondHalf) {
  Cq large(*nic, {.log_entries = 1, .cqe_bytes = 128});
  Qp qp(*nic, pd, large, *receive_cq, {});
  qp.connect(nic->lid(), qp.qpn);
  for (uint16_t i = 0; i < 5; ++i) {
    qp.post(nop());
    qp.ring();
    EXPECT_EQ(large.await().counter, i);
    EXPECT_EQ(static_cast<uint8_t>((large.slot(i) - 64)[63]), 0xf0) << "first half is untouched";
  }
}

TEST_F(Completions, ErrorEntryCarriesSyndromeAndOpcode) {
  auto qp = make_loop();
  Region memory(*nic, pd, 64);
  const SeenCqe cqe = run(*qp, write_inline<uint64_t>(64, memory.key, 1));
  EXPECT_EQ(cqe.kind, CqeOpcode::kRequesterError);
  EXPECT_EQ(cqe.syndrome, Syndrome::kRemoteAccess);
  EXPECT_EQ(cqe.wqe_opcode, 0x08);
  EXPECT_EQ(cqe.qpn, qp->qpn);
  EXPECT_EQ(cqe.user_index, 0x123u);
}

TEST_F(Completions, CompletionsOfOneQueuePairComeInOrder) {
  auto qp = make_loop();
  Region memory(*nic, pd, 4096);
  for (uint16_t i = 0; i < 60; i = static_cast<uint16_t>(i + 3)) {
    qp->post(fetch_add(0, memory.key, 1, memory.key, 64));
    qp->post(nop());
    qp->post(write_inline<uint64_t>(8, memory.key, i));
  }
  qp->ring();
  for (uint16_t i = 0; i < 60; ++i) EXPECT_EQ(cq->await().counter, i);
}

TEST_F(Completions, TwoQueuePairsShareAQueue) {
  auto a = make_loop();
  auto b = make_loop();
  a->post(nop());
  b->post(nop());
  a->ring();
  b->ring();
  const uint32_t first = cq->await().qpn;
  const uint32_t second = cq->await().qpn;
  EXPECT_EQ(first + second, a->qpn + b->qpn);
  EXPECT_NE(first, second);
}

TEST_F(Completions, OverrunIsAnEventUnlessIgnored) {
  Cq small(*nic, {.log_entries = 1, .ignore_overrun = false});
  Qp qp(*nic, pd, small, *receive_cq, {});
  qp.connect(nic->lid(), qp.qpn);
  for (int i = 0; i < 3; ++i) qp.post(nop());
  qp.ring();
  AsyncEvent event;
  ASSERT_TRUE(eventually([&] { return nic->next_event(&event); }));
  EXPECT_EQ(event.kind, AsyncEvent::Kind::kCqError);
  EXPECT_EQ(event.number, small.cqn);
  EXPECT_EQ(nic->cq_produced(small.cqn), 2u);
  EXPECT_EQ(nic->violations().cq_overrun, 1u);
}

TEST_F(Completions, ConsumerCounterMakesRoom) {
  Cq small(*nic, {.log_entries = 1, .ignore_overrun = false});
  Qp qp(*nic, pd, small, *receive_cq, {});
  qp.connect(nic->lid(), qp.qpn);
  for (uint32_t i = 0; i < 9; ++i) {
    qp.post(nop());
    qp.ring();
    EXPECT_EQ(small.await().counter, i);
    small.consume(i + 1);
  }
  EXPECT_EQ(nic->violations().cq_overrun, 0u);
}

TEST_F(Completions, IgnoredOverrunWritesOn) {
  Cq small(*nic, {.log_entries = 1});
  Qp qp(*nic, pd, small, *receive_cq, {});
  qp.connect(nic->lid(), qp.qpn);
  for (int i = 0; i < 7; ++i) qp.post(nop());
  qp.ring();
  EXPECT_TRUE(eventually([&] { return nic->cq_produced(small.cqn) == 7; }));
  EXPECT_EQ(Cq::decode(small.slot(6)).counter, 6);
}

}  // namespace peal::softnic::testing
