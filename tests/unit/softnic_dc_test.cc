// SPDX-License-Identifier: Apache-2.0
//
// Dynamically connected transport: the address travels in the WQE, the target checks a key.
#include "tests/unit/softnic_processes.h"

namespace peal::softnic::testing {

constexpr uint64_t kDcKey = 0x5623ceaf;

/// An initiator's request: address vector first, compact or full.
Wqe addressed(Opcode opcode, uint16_t lid, uint32_t dctn, bool full, uint64_t key = kDcKey) {
  Wqe wqe{.opcode = opcode};
  wqe.add(mlx5::CompactAddressVector{Be64(key), Be32(dctn | (full ? 1u << 31 : 0)),
                                     Be32(0xf300'0000 | lid)});
  if (full) wqe.add(mlx5::AddressVectorGrh{Be32(1), Be32(2), Be32(3), Be32(0), {9}});
  return wqe;
}

class DcTransport : public SoftNic {
 protected:
  void SetUp() override {
    SoftNic::SetUp();
    initiator = make_qp({.service = Service::kDcInitiator});
    initiator->connect(0, 0);
    target = make_target();
  }
  void TearDown() override { nic->destroy_dc_target(target); }
  uint32_t make_target(uint64_t key = kDcKey) {
    const Created created =
        nic->create_dc_target({.pd = pd,
                               .receive_cq = receive_cq->cqn,
                               .access = kRemoteWrite | kRemoteRead | kRemoteAtomic,
                               .atomic_mode = 3,
                               .min_rnr_timer = 1,
                               .dc_access_key = key});
    EXPECT_FALSE(created.refusal.refused());
    return created.number;
  }
  Wqe write(uint32_t dctn, uint32_t rkey, uint64_t value, bool full = false,
            uint64_t key = kDcKey) {
    return addressed(Opcode::kRdmaWrite, nic->lid(), dctn, full, key)
        .remote(0, rkey)
        .inline_data(&value, sizeof(value));
  }
  std::unique_ptr<Qp> initiator;
  uint32_t target = 0;
};

TEST_F(DcTransport, CompactAddressReachesTheTarget) {
  Region memory(*nic, pd, 4096);
  const Wqe wqe = write(target, memory.key, 11);
  EXPECT_EQ(wqe.units(), 4u);
  EXPECT_EQ(run(*initiator, wqe).kind, CqeOpcode::kRequester);
  EXPECT_EQ(memory.load<uint64_t>(0), 11u);
}

TEST_F(DcTransport, FullAddressReachesTheTarget) {
  Region memory(*nic, pd, 4096);
  const Wqe wqe = write(target, memory.key, 12, true);
  EXPECT_EQ(wqe.units(), 6u);
  EXPECT_EQ(run(*initiator, wqe).kind, CqeOpcode::kRequester);
  EXPECT_EQ(memory.load<uint64_t>(0), 12u);
}

TEST_F(DcTransport, AtomicsAndReadsCarryAddressesToo) {
  Region memory(*nic, pd, 4096);
  memory.store<uint64_t>(0, 40);
  run(*initiator, addressed(Opcode::kAtomicFetchAdd, nic->lid(), target, false)
                      .remote(0, memory.key)
                      .add(mlx5::AtomicSegment{Be64(2), Be64(0)})
                      .data(8, memory.key, 64));
  EXPECT_EQ(memory.load<uint64_t>(64), 40u);
  run(*initiator, addressed(Opcode::kRdmaRead, nic->lid(), target, true)
                      .remote(0, memory.key)
                      .data(8, memory.key, 72));
  EXPECT_EQ(memory.load<uint64_t>(72), 42u);
}

TEST_F(DcTransport, OneInitiatorTalksToManyTargets) {
  Region memory(*nic, pd, 4096);
  const uint32_t other = make_target();
  for (uint64_t i = 0; i < 20; ++i) {
    initiator->post(write(i % 2 == 0 ? target : other, memory.key, i));
  }
  initiator->ring();
  for (uint16_t i = 0; i < 20; ++i) EXPECT_EQ(cq->await().kind, CqeOpcode::kRequester);
  EXPECT_EQ(memory.load<uint64_t>(0), 19u);
  nic->destroy_dc_target(other);
}

TEST_F(DcTransport, WrongAccessKeyIsAccessErrorAndTheTargetLives) {
  Region memory(*nic, pd, 4096);
  EXPECT_EQ(run(*initiator, write(target, memory.key, 1, false, kDcKey + 1)).syndrome,
            Syndrome::kRemoteAccess);
  EXPECT_EQ(nic->violations().dc_key, 1u);
  EXPECT_EQ(memory.load<uint64_t>(0), 0u);
  auto second = make_qp({.service = Service::kDcInitiator});
  second->connect(0, 0);
  EXPECT_EQ(run(*second, write(target, memory.key, 2)).kind, CqeOpcode::kRequester);
}

TEST_F(DcTransport, BadRkeyFailsTheInitiatorOnly) {
  Region memory(*nic, pd, 4096);
  EXPECT_EQ(run(*initiator, write(target, 0x1100, 1)).syndrome, Syndrome::kRemoteAccess);
  auto second = make_qp({.service = Service::kDcInitiator});
  second->connect(0, 0);
  EXPECT_EQ(run(*second, write(target, memory.key, 2)).kind, CqeOpcode::kRequester);
}

TEST_F(DcTransport, MissingTargetIsRetryExceeded) {
  Region memory(*nic, pd, 4096);
  auto qp = make_qp({.service = Service::kDcInitiator});
  qp->attributes.ack_timeout = 8;
  qp->connect(0, 0);
  EXPECT_EQ(run(*qp, write(0x7abc, memory.key, 1)).syndrome, Syndrome::kTransportRetryExceeded);
}

TEST_F(DcTransport, AQueuePairIsNoTarget) {
  Region memory(*nic, pd, 4096);
  auto reliable = make_loop();
  auto qp = make_qp({.service = Service::kDcInitiator});
  qp->attributes.ack_timeout = 8;
  qp->connect(0, 0);
  EXPECT_EQ(run(*qp, write(reliable->qpn, memory.key, 1)).syndrome,
            Syndrome::kTransportRetryExceeded);
}

TEST_F(DcTransport, AddressCutShortIsAnOperationError) {
  Wqe wqe = addressed(Opcode::kRdmaWrite, nic->lid(), target, true);
  wqe.ds = 2;
  EXPECT_EQ(run(*initiator, wqe).syndrome, Syndrome::kLocalQpOperation);
}

TEST_F(DcTransport, ImmediateWithoutReceivesIsRnrExceeded) {
  Region memory(*nic, pd, 4096);
  EXPECT_EQ(run(*initiator, addressed(Opcode::kRdmaWriteImm, nic->lid(), target, false)
                                .remote(0, memory.key)
                                .inline_data("x", 1))
                .syndrome,
            Syndrome::kRnrRetryExceeded);
}

TEST_F(DcTransport, TargetIsNotAQueuePair) {
  QueuePairAttributes attributes;
  EXPECT_TRUE(nic->query_qp(target, &attributes).refused());
  EXPECT_TRUE(nic->destroy_qp(target).refused());
  EXPECT_TRUE(nic->destroy_dc_target(initiator->qpn).refused());
}

TEST(DcWire, OneInitiatorAlternatesBetweenProcesses) {
  const auto serve = [](Line& line) {
    Station station;
    const uint32_t dctn = station.nic
                              ->create_dc_target({.pd = station.pd,
                                                  .access = kRemoteWrite | kRemoteAtomic,
                                                  .atomic_mode = 3,
                                                  .dc_access_key = kDcKey})
                              .number;
    line.say(Card{station.nic->lid(), dctn, station.memory.key});
    line.meet();
    EXPECT_EQ(station.memory.load<uint64_t>(0), 100u);
    line.meet();
  };
  Process first(serve);
  Process second(serve);
  Station station(1 << 16, {.service = Service::kDcInitiator});
  const Card cards[] = {first.line().hear<Card>(), second.line().hear<Card>()};
  station.qp.connect(0, 0);
  for (uint64_t i = 0; i < 200; ++i) {
    const Card& card = cards[(i / 2) % 2];
    const SeenCqe cqe = station.run(addressed(Opcode::kAtomicFetchAdd, card.lid, card.qpn, false)
                                        .remote(0, card.key)
                                        .add(mlx5::AtomicSegment{Be64(1), Be64(0)})
                                        .data(8, station.memory.key, 0));
    ASSERT_EQ(cqe.kind, CqeOpcode::kRequester) << i;
  }
  first.line().meet();
  second.line().meet();
  first.line().meet();
  second.line().meet();
}

}  // namespace peal::softnic::testing
