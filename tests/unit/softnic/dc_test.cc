// SPDX-License-Identifier: Apache-2.0
//
// Dynamically connected transport: the address travels in the WQE, the target checks a key.
#include "softnic/control/control.h"
#include "softnic/engine/engine.h"
#include "tests/unit/softnic/processes.h"

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

/// What an engine on a GPU has: the peers' tables, and no GIDs.
struct TablesOnly {
  Port* port;
  Port* direct(uint16_t lid) { return lid == port->lid ? port : nullptr; }
  SendStatus open(uint16_t, uint64_t&) { return SendStatus::kAbsent; }
  uint32_t segment_bytes(uint16_t) { return 1; }
  SendStatus send(uint16_t, const Packet&, const Payload&) { return SendStatus::kAbsent; }
  uint64_t position(uint16_t) { return 0; }
  uint64_t consumed(uint16_t) { return 0; }
  bool lost(uint16_t, uint64_t) { return false; }
};

// Hazard: on Ethernet the field of the LID has a UDP port, which leads to somebody else.
TEST(DcEthernet, WithoutGidsTheEthernetAddressLeads) {
  struct : Runner {
    void pause() override {}
    void resume() override {}
    void watch(uint32_t) override {}
    void forget(uint32_t) override {}
  } runner;
  Tables tables{7, 1, Timing{}};
  Control control(tables, runner);
  Pages cq{4096}, ring{4096}, record{4096}, memory{4096};
  const uint32_t pd = control.allocate_pd().number;
  const uint32_t cqn =
      control.create_cq({.buffer = cq.data(), .log_entries = 4, .ignore_overrun = true}).number;
  const uint32_t key =
      control
          .register_memory(
              {.pd = pd, .access = kEverything, .bytes = 4096, .memory = memory.data()})
          .number;
  const uint32_t target = control
                              .create_dc_target({.pd = pd,
                                                 .receive_cq = cqn,
                                                 .access = kRemoteWrite,
                                                 .network = Network::kRoceV2,
                                                 .dc_access_key = kDcKey})
                              .number;
  QueuePairConfig config;
  config.service = Service::kDcInitiator;
  config.pd = pd;
  config.send_cq = cqn;
  config.send_buffer = ring.data();
  config.log_send_blocks = 4;
  config.doorbell = record.as<mlx5::DoorbellRecord>();
  const uint32_t qpn = control.create_qp(config).number;
  QueuePairAttributes to;
  to.network = Network::kRoceV1;
  for (const QpState next : {QpState::kInit, QpState::kReadyToReceive, QpState::kReadyToSend}) {
    to.state = next;
    const auto from = static_cast<QpState>(static_cast<uint8_t>(next) - 1);
    ASSERT_FALSE(control.modify_qp(qpn, from, to).refused());
  }
  const uint64_t value = 0x1234;
  Wqe wqe{.opcode = Opcode::kRdmaWrite};
  wqe.add(mlx5::CompactAddressVector{Be64(kDcKey), Be32(1u << 31 | target), Be32(0xc007)});
  wqe.add(mlx5::AddressVectorGrh{Be32(0), Be32(kMacPrefix), Be32(7u << 16), Be32(1u << 30), {}});
  wqe.remote(0, key).inline_data(&value, sizeof(value));
  const mlx5::ControlSegment control_segment{
      .opmod_idx_opcode = Be32(static_cast<uint32_t>(Opcode::kRdmaWrite)),
      .qpn_ds = Be32(qpn << 8 | wqe.units()),
      .signature_fm_ce_se = Be32(static_cast<uint32_t>(Completion::kAlways)),
      .imm = Be32(0)};
  std::memcpy(ring.data(), &control_segment, sizeof(control_segment));
  std::memcpy(ring.data() + 16, wqe.body.data(), wqe.body.size());
  record.as<mlx5::DoorbellRecord>()->send = Be32(2);
  TablesOnly wire{&tables.port};
  advance(tables.port, wire, tables.qps[qpn], 1, 8);
  ASSERT_EQ(control.cq_produced(cqn), 1u);
  EXPECT_EQ(Cq::decode(cq.data()).kind, CqeOpcode::kRequester);
  EXPECT_EQ(*memory.as<uint64_t>(), value);
}

}  // namespace peal::softnic::testing
