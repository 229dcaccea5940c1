// SPDX-License-Identifier: Apache-2.0
//
// How the software NIC hears of work. By value, the default, it takes the index from what is stored
// to the register, as a ConnectX does, and looks at doorbell records late; by record it goes by
// those alone.
//
// Fails at 438a779, which knew records only: a client that never rang worked, and one that rang
// before its record was there did not. Both are wrong on a ConnectX, the other way round.
#include "softnic/engine/doorbell.h"

#include <cstdlib>
#include <string>

#include "tests/unit/softnic/support.h"

namespace peal::softnic::testing {
namespace {

/// A NIC that goes by `Mode`, whatever the test's environment says.
template <const char* Mode>
class DoorbellBy : public SoftNic {
 protected:
  void SetUp() override {
    const char* const before = std::getenv("PEAL_SOFTNIC_DOORBELL");
    const std::string kept = before == nullptr ? "" : before;
    setenv("PEAL_SOFTNIC_DOORBELL", Mode, 1);
    SoftNic::SetUp();
    unsetenv("PEAL_SOFTNIC_DOORBELL");
    if (before != nullptr) setenv("PEAL_SOFTNIC_DOORBELL", kept.c_str(), 1);
  }
  /// Some rounds of the engine later.
  void wait_rounds(Qp& other) {
    for (int i = 0; i < 64; ++i) EXPECT_EQ(run(other, nop()).qpn, other.qpn);
  }
};

constexpr char kValue[] = "value";
constexpr char kRecord[] = "record";
using DoorbellByValue = DoorbellBy<kValue>;
using DoorbellByRecord = DoorbellBy<kRecord>;

Qp::Doorbell value(uint32_t count, const Qp& qp) { return {Be32(count << 8), Be32(qp.qpn << 8)}; }

TEST_F(DoorbellByValue, IsEnoughWithoutARecord) {
  auto qp = make_loop();
  for (uint32_t i = 1; i <= 200; ++i) {  // three times around the ring
    qp->post(nop());
    qp->press(value(i, *qp));
    EXPECT_EQ(cq->await().counter, i - 1);
  }
}

TEST_F(DoorbellByValue, IsHeardOnEachRegisterOfThePage) {
  auto qp = make_loop();
  uint32_t posted = 0;
  for (const size_t reg : {0x800, 0x900, 0xa00, 0xb00}) {
    qp->post(nop());
    qp->press(value(++posted, *qp), reg);
    EXPECT_EQ(cq->await().kind, CqeOpcode::kRequester);
  }
}

TEST_F(DoorbellByValue, ThatIsNotRungIsNotHeard) {
  auto forgetful = make_loop();
  auto other = make_loop();
  forgetful->post(nop());
  forgetful->record(1);
  wait_rounds(*other);
  EXPECT_EQ(forgetful->query().software_send_counter, 0);
  forgetful->press(value(1, *forgetful));
  EXPECT_EQ(cq->await().qpn, forgetful->qpn);
}

TEST_F(DoorbellByValue, OnAnotherPageIsNotHeard) {
  auto qp = make_loop();
  auto other = make_loop();
  qp->post(nop());
  other->press(value(1, *qp));
  wait_rounds(*other);
  EXPECT_EQ(qp->query().software_send_counter, 0);
}

TEST_F(DoorbellByValue, ThatComesBeforeTheRequestIsAnOperationError) {
  auto qp = make_loop();
  for (uint32_t i = 0; i < qp->blocks(); ++i) EXPECT_EQ(run(*qp, nop()).syndrome, Syndrome::kNone);
  // The next WQE is not written: its place holds that of the lap before.
  qp->press(value(qp->posted() + 1, *qp));
  EXPECT_EQ(cq->await().syndrome, Syndrome::kLocalQpOperation);
  EXPECT_EQ(nic->violations().index, 1u);
}

TEST_F(DoorbellByValue, ThatIsRepeatedOrOldChangesNothing) {
  auto qp = make_loop();
  for (int i = 0; i < 5; ++i) qp->post(nop());
  qp->ring();
  for (int i = 0; i < 5; ++i) EXPECT_EQ(cq->await().kind, CqeOpcode::kRequester);
  qp->ring(5);
  qp->ring(3);
  wait_rounds(*make_loop());
  EXPECT_EQ(nic->violations().doorbell, 0u);
  EXPECT_EQ(qp->query().software_send_counter, 5);
}

TEST_F(DoorbellByValue, OfAWqeHasTheRecordRead) {
  // As libmlx5 rings: the index of the last WQE, its opcode and its length. Two blocks are posted.
  auto qp = make_loop();
  qp->post(nop());
  qp->post(nop());
  qp->record(2);
  qp->press({Be32(1u << 8), Be32(qp->qpn << 8 | 1)});
  EXPECT_EQ(cq->await().counter, 0);
  EXPECT_EQ(cq->await().counter, 1);
}

TEST_F(DoorbellByValue, OfTheQueuesLifeBeforeIsForgotten) {
  auto qp = make_loop();
  qp->attributes.state = QpState::kError;
  for (uint32_t round = 0; round < 50; ++round) {
    qp->press(value(3, *qp));  // taken by the engine, or by the command
    EXPECT_FALSE(qp->to(QpState::kReset, QpState::kReadyToSend).refused());
    qp->connect(nic->lid(), qp->qpn);
    EXPECT_EQ(qp->query().software_send_counter, 0);
  }
}

// Looks at a page's records are for what was rung before: not for a queue pair that begins afresh.
TEST_F(DoorbellByValue, ThatWasNotRungSinceAResetIsNotHeard) {
  auto qp = make_loop();
  qp->post(nop());
  qp->ring();
  EXPECT_EQ(cq->await().counter, 0);
  wait_rounds(*make_loop());
  qp->attributes.state = QpState::kError;
  EXPECT_FALSE(qp->to(QpState::kError, QpState::kReadyToSend).refused());
  qp->reset();
  qp->connect(nic->lid(), qp->qpn);
  qp->post(nop());
  qp->record(1);
  wait_rounds(*make_loop());
  EXPECT_EQ(qp->query().software_send_counter, 0);
  qp->press(value(1, *qp));
  EXPECT_EQ(cq->await().kind, CqeOpcode::kRequester);
}

TEST_F(DoorbellByRecord, NeedsNoDoorbell) {
  auto qp = make_loop();
  qp->post(nop());
  qp->record(1);
  EXPECT_EQ(cq->await().kind, CqeOpcode::kRequester);
}

TEST_F(DoorbellByRecord, ThatGoesBackwardsFailsTheQueue) {
  auto qp = make_loop();
  for (int i = 0; i < 5; ++i) qp->post(nop());
  qp->ring();
  for (int i = 0; i < 5; ++i) EXPECT_EQ(cq->await().kind, CqeOpcode::kRequester);
  qp->ring(3);
  const SeenCqe cqe = cq->await();
  EXPECT_EQ(cqe.syndrome, Syndrome::kLocalQpOperation);
  EXPECT_EQ(cqe.counter, 5);
  EXPECT_EQ(nic->violations().doorbell, 1u);
  EXPECT_EQ(qp->query().state, QpState::kError);
}

TEST(DoorbellSetting, IsValueOrRecord) {
  const char* const before = std::getenv("PEAL_SOFTNIC_DOORBELL");
  const std::string kept = before == nullptr ? "value" : before;
  setenv("PEAL_SOFTNIC_DOORBELL", "both", 1);
  EXPECT_THROW(SoftwareNic::open(), std::exception);
  setenv("PEAL_SOFTNIC_DOORBELL", kept.c_str(), 1);
}

/// Two queue pairs on one page, and the passes of an engine by hand.
struct Bench {
  Pages memory{4096};
  std::unique_ptr<QueuePair[]> qps = std::make_unique<QueuePair[]>(3);
  DoorbellPage pages[2];
  mlx5::DoorbellRecord records[3] = {};
  std::byte ring[64] = {};
  Port port;

  Bench() {
    pages[1] = {.exists = true, .memory = memory.data()};
    port.qps = qps.get();
    port.qp_count = 3;
    port.pages = pages;
    port.page_count = 2;
    port.by_value = true;
    for (uint32_t qpn = 1; qpn < 3; ++qpn) {
      qps[qpn].exists = true;
      qps[qpn].qpn = qpn;
      qps[qpn].uar_page = 1;
      qps[qpn].send_buffer = ring;
      qps[qpn].doorbell = &records[qpn];
    }
  }
  void ring_for(uint32_t qpn, uint32_t count) {
    *memory.as<uint64_t>(0x800) = Be32(count << 8).raw | uint64_t{Be32(qpn << 8).raw} << 32;
  }
};

TEST(DoorbellRegister, IsTakenOnceAndIsZeroThen) {
  Bench bench;
  bench.ring_for(1, 7);
  hear_registers(bench.port);
  EXPECT_EQ(told(bench.port, bench.qps[1]), 7);
  EXPECT_EQ(told(bench.port, bench.qps[2]), 0);
  EXPECT_EQ(*bench.memory.as<uint64_t>(0x800), 0u);
}

TEST(DoorbellRegister, StoredOverByAnotherQueueLosesADoorbellThatTheRecordMakesGood) {
  Bench bench;
  bench.records[1].send = Be32(7);
  bench.ring_for(1, 7);
  bench.ring_for(2, 3);
  hear_registers(bench.port);
  EXPECT_EQ(told(bench.port, bench.qps[1]), 0) << "read the record at once";
  EXPECT_EQ(told(bench.port, bench.qps[2]), 3);
  int passes = 0;
  while (hear_registers(bench.port)) ++passes;
  EXPECT_LE(passes, 8);
  EXPECT_EQ(told(bench.port, bench.qps[1]), 7);
  EXPECT_EQ(told(bench.port, bench.qps[2]), 3) << "whose record is behind still";
}

TEST(DoorbellRegister, CountsInSixteenBitsAndTakesAFullRingAtOnce) {
  Bench bench;
  bench.ring_for(1, 1u << 15);
  hear_registers(bench.port);
  EXPECT_EQ(told(bench.port, bench.qps[1]), 1u << 15);
  bench.ring_for(1, 0);
  hear_registers(bench.port);
  EXPECT_EQ(told(bench.port, bench.qps[1]), 0) << "0x10000";
}

TEST(DoorbellRegister, OfNobodyIsPassedOver) {
  Bench bench;
  for (const uint32_t qpn : {3u, 0xffffffu, 0u}) {
    bench.ring_for(qpn, 9);
    hear_registers(bench.port);
  }
  EXPECT_EQ(told(bench.port, bench.qps[1]), 0);
  EXPECT_EQ(told(bench.port, bench.qps[2]), 0);
}

}  // namespace
}  // namespace peal::softnic::testing
