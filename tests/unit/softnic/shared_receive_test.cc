// SPDX-License-Identifier: Apache-2.0
//
// Shared receive queues packet by packet: who holds which entry between the packets of a message,
// what becomes of it when the queue pair fails; and what the control calls refuse.
#include "softnic/engine/shared_receive.h"

#include <cstring>
#include <set>
#include <vector>

#include "softnic/control/control.h"
#include "softnic/engine/engine.h"
#include "softnic/engine/serve.h"
#include "tests/unit/softnic/support.h"

namespace peal::softnic::testing {
namespace {

constexpr uint16_t kLid = 7;
constexpr uint16_t kPeerLid = 9;
constexpr uint32_t kEntries = 8;
constexpr uint32_t kStride = 32;

/// Nothing runs but what a test calls.
struct NoRunner : Runner {
  void pause() override {}
  void resume() override {}
  void watch(uint32_t) override {}
  void forget(uint32_t) override {}
};

/// Nobody is there.
struct NoWire {
  Port* direct(uint16_t) { return nullptr; }
  SendStatus open(uint16_t, uint64_t&) { return SendStatus::kAbsent; }
  uint32_t segment_bytes(uint16_t) { return 1; }
  SendStatus send(uint16_t, const Packet&, const Payload&) { return SendStatus::kAbsent; }
  uint64_t position(uint16_t) { return 0; }
  uint64_t consumed(uint16_t) { return 0; }
  bool lost(uint16_t, uint64_t) { return false; }
};

class SharedReceive : public ::testing::Test {
 protected:
  void SetUp() override {
    pd = control.run(AllocatePd{}).number;
    cqn = control
              .run(CreateCq{
                  {.buffer = as_queue(cq_memory.data()), .log_entries = 4, .ignore_overrun = true}})
              .number;
    memory_key = control
                     .run(RegisterMemory{{.pd = pd,
                                          .access = kLocalWrite,
                                          .bytes = memory.bytes(),
                                          .memory = as_registered(memory.data())}})
                     .number;
    srqn = control.run(CreateSrq{config()}).number;
    ASSERT_NE(srqn, 0u);
    for (uint32_t i = 0; i < kEntries; ++i) link(i, (i + 1) % kEntries);
  }

  SharedReceiveConfig config() {
    return {.pd = pd,
            .buffer = as_queue(ring.data()),
            .log_entries = 3,
            .log_stride = 1,
            .doorbell = as_queue(record.as<mlx5::DoorbellRecord>())};
  }
  void link(uint32_t index, uint32_t next) {
    auto* segment = ring.as<LinkSegment>(index * kStride);
    segment->next[0] = static_cast<uint8_t>(next >> 8);
    segment->next[1] = static_cast<uint8_t>(next);
  }
  /// Entry `index` is `bytes` at its own KiB of the memory.
  void put(uint32_t index, uint32_t bytes) {
    const mlx5::DataSegment segment{Be32(bytes), Be32(memory_key), Be64(index * 1024)};
    std::memcpy(ring.data() + index * kStride + sizeof(LinkSegment), &segment, sizeof(segment));
  }
  void ring_for(uint32_t posted) {
    record.as<mlx5::DoorbellRecord>()->receive = Be32(posted & 0xffff);
  }
  QueuePairConfig qp_config() {
    QueuePairConfig answer;
    answer.pd = pd;
    answer.receive_cq = cqn;
    answer.shared_receive_queue = srqn;
    return answer;
  }
  /// A queue pair that receives from `remote` of another NIC.
  QueuePair& make_receiver(uint32_t remote) {
    const Created created = control.run(CreateQp{qp_config()});
    EXPECT_FALSE(created.refusal.refused()) << created.refusal.reason;
    QueuePairAttributes to;
    to.state = QpState::kInit;
    EXPECT_FALSE(control.run(ModifyQp{created.number, QpState::kReset, to}).refusal.refused());
    to.state = QpState::kReadyToReceive;
    to.remote_qpn = remote;
    to.remote_lid = kPeerLid;
    EXPECT_FALSE(control.run(ModifyQp{created.number, QpState::kInit, to}).refusal.refused());
    return tables.qps[created.number];
  }
  /// The next packet of a SEND of `total` bytes.
  Response arrive(QueuePair& qp, uint32_t total, uint32_t offset, uint32_t bytes) {
    Packet packet = {};
    packet.kind = PacketKind::kRequest;
    packet.opcode = Opcode::kSend;
    packet.destination = qp.qpn;
    packet.source = qp.attributes.remote_qpn;
    packet.detail = qp.attributes.pkey;
    packet.psn = qp.receive.expected_psn;
    packet.total = total;
    packet.offset = offset;
    packet.bytes = bytes;
    packet.mtu = qp.attributes.mtu;
    Payload payload;
    payload.clear();
    payload.append(message.data() + offset, bytes);
    return deliver(tables.port, packet, payload, kPeerLid, 1);
  }
  uint64_t completions() { return control.run(CqProduced{cqn}).produced; }
  SeenCqe completion(uint64_t n) { return Cq::decode(cq_memory.data() + n * 64); }
  void advance_failed(QueuePair& qp) {
    NoWire wire;
    while (advance(tables.port, wire, qp, 1, 64)) {
    }
  }
  AsyncEvent::Kind event(uint32_t number) {
    control.collect();
    AsyncEvent answer = {};
    EXPECT_TRUE(control.next_event(&answer));
    EXPECT_EQ(answer.number, number);
    return answer.kind;
  }
  bool no_event() {
    control.collect();
    AsyncEvent answer;
    return !control.next_event(&answer);
  }

  NoRunner runner;
  Tables tables{kLid, 1, Timing{}};
  Control control{tables, runner};
  Pages cq_memory{4096}, ring{4096}, record{4096}, memory{16384}, message{4096};
  uint32_t pd = 0, cqn = 0, srqn = 0, memory_key = 0;
};

TEST_F(SharedReceive, AMessageHoldsItsEntryFromItsFirstPacketOn) {
  for (uint32_t i = 0; i < 3; ++i) put(i, 200);
  ring_for(3);
  for (uint32_t i = 0; i < 200; ++i) message.data()[i] = static_cast<std::byte>(i);
  QueuePair& one = make_receiver(1);
  QueuePair& two = make_receiver(2);
  ASSERT_EQ(arrive(one, 200, 0, 100).verdict, Verdict::kDone);
  ASSERT_EQ(arrive(two, 150, 0, 100).verdict, Verdict::kDone);
  EXPECT_EQ(completions(), 0u);
  ASSERT_EQ(arrive(two, 150, 100, 50).verdict, Verdict::kDone);
  ASSERT_EQ(arrive(one, 200, 100, 100).verdict, Verdict::kDone);
  ASSERT_EQ(completions(), 2u);
  EXPECT_EQ(completion(0).counter, 1);
  EXPECT_EQ(completion(0).qpn, two.qpn);
  EXPECT_EQ(completion(0).bytes, 150u);
  EXPECT_EQ(completion(1).counter, 0);
  EXPECT_EQ(completion(1).qpn, one.qpn);
  EXPECT_EQ(std::memcmp(memory.data(), message.data(), 200), 0);
  EXPECT_EQ(std::memcmp(memory.data() + 1024, message.data(), 150), 0);
  ASSERT_EQ(arrive(two, 10, 0, 10).verdict, Verdict::kDone);
  EXPECT_EQ(completion(2).counter, 2);
  EXPECT_EQ(arrive(two, 10, 0, 10).verdict, Verdict::kNotReady);
}

TEST_F(SharedReceive, AFailedQueuePairFlushesTheOneEntryItHolds) {
  put(0, 200);
  put(1, 200);
  ring_for(2);
  QueuePair& qp = make_receiver(1);
  ASSERT_EQ(arrive(qp, 200, 0, 100).verdict, Verdict::kDone);
  QueuePairAttributes to;
  to.state = QpState::kError;
  ASSERT_FALSE(control.run(ModifyQp{qp.qpn, QpState::kReadyToReceive, to}).refusal.refused());
  EXPECT_TRUE(unsettled(qp));
  EXPECT_EQ(arrive(qp, 200, 100, 100).verdict, Verdict::kDropped);
  advance_failed(qp);
  EXPECT_FALSE(unsettled(qp));
  ASSERT_EQ(completions(), 1u);
  EXPECT_EQ(completion(0).kind, CqeOpcode::kResponderError);
  EXPECT_EQ(completion(0).syndrome, Syndrome::kFlushed);
  EXPECT_EQ(completion(0).counter, 0);
  EXPECT_EQ(event(qp.qpn), AsyncEvent::Kind::kQpLastEntry);
  advance_failed(qp);
  EXPECT_TRUE(no_event());
  QueuePair& other = make_receiver(2);
  ASSERT_EQ(arrive(other, 10, 0, 10).verdict, Verdict::kDone);
  EXPECT_EQ(completion(1).counter, 1);
}

/// More than the log of events has room for.
TEST_F(SharedReceive, EveryQueuePairTellsOfItsLastEntry) {
  constexpr uint32_t kMany = EventLog::kCapacity + 50;
  std::vector<QueuePair*> qps;
  for (uint32_t i = 0; i < kMany; ++i) qps.push_back(&make_receiver(i));
  for (QueuePair* qp : qps) qp->state = QpState::kError;
  NoWire wire;
  std::set<uint32_t> told;
  for (int round = 0; round < 2; ++round) {
    for (QueuePair* qp : qps) static_cast<void>(advance(tables.port, wire, *qp, 1, 64));
    control.collect();
    for (AsyncEvent event = {}; control.next_event(&event);) {
      EXPECT_EQ(event.kind, AsyncEvent::Kind::kQpLastEntry);
      EXPECT_TRUE(told.insert(event.number).second);
    }
  }
  EXPECT_EQ(told.size(), kMany);
}

/// The client says in which order entries follow each other.
TEST_F(SharedReceive, LinksAreFollowed) {
  const uint32_t order[] = {0, 5, 2, 7};
  for (uint32_t i = 0; i < 3; ++i) link(order[i], order[i + 1]);
  for (uint32_t i : order) put(i, 10);
  ring_for(4);
  QueuePair& qp = make_receiver(1);
  for (uint64_t i = 0; i < 4; ++i) {
    ASSERT_EQ(arrive(qp, 10, 0, 10).verdict, Verdict::kDone);
    EXPECT_EQ(completion(i).counter, order[i]);
  }
}

/// The record has 16 bits; the queue goes round many times more.
TEST_F(SharedReceive, CountsBeyondTheRecord) {
  QueuePair& qp = make_receiver(1);
  for (uint32_t i = 0; i < kEntries; ++i) put(i, 10);
  for (uint32_t i = 0; i < 70'000; ++i) {
    ASSERT_EQ(arrive(qp, 10, 0, 10).verdict, Verdict::kNotReady);
    ring_for(i + 1);
    ASSERT_EQ(arrive(qp, 10, 0, 10).verdict, Verdict::kDone) << i;
    ASSERT_EQ(completion(i % 16).counter, i % kEntries);
  }
  EXPECT_TRUE(no_event());
}

TEST_F(SharedReceive, ARecordThatGoesBackFailsTheQueue) {
  QueuePair& qp = make_receiver(1);
  for (uint32_t i = 0; i < 3; ++i) put(i, 10);
  ring_for(3);
  ASSERT_EQ(arrive(qp, 10, 0, 10).verdict, Verdict::kDone);
  ring_for(2);
  const Response answer = arrive(qp, 10, 0, 10);
  EXPECT_EQ(answer.verdict, Verdict::kRefused);
  EXPECT_EQ(answer.syndrome, Syndrome::kRemoteOperation);
  EXPECT_EQ(qp.state, QpState::kError);
  EXPECT_EQ(event(srqn), AsyncEvent::Kind::kSrqError);
  EXPECT_EQ(event(qp.qpn), AsyncEvent::Kind::kQpFatal);
  EXPECT_EQ(tables.port.violations.doorbell, 1u);
  EXPECT_FALSE(control.arm_srq(srqn, 1).refused());
  EXPECT_TRUE(no_event());  // there is nothing to be low on
}

TEST_F(SharedReceive, ControlRefusesWhatItCannotMake) {
  const auto status = [&](const SharedReceiveConfig& wrong) {
    return control.run(CreateSrq{wrong}).refusal.status;
  };
  SharedReceiveConfig wrong = config();
  wrong.pd = 999;
  EXPECT_EQ(status(wrong), CommandStatus::kBadResource);
  wrong = config();
  wrong.buffer += 8;
  EXPECT_EQ(status(wrong), CommandStatus::kBadParameter);
  wrong = config();
  wrong.log_entries = 17;
  EXPECT_EQ(status(wrong), CommandStatus::kBadParameter);
  wrong.log_entries = 0;
  EXPECT_EQ(status(wrong), CommandStatus::kBadParameter);
  wrong = config();
  wrong.log_stride = 0;
  EXPECT_EQ(status(wrong), CommandStatus::kBadParameter);
  wrong.log_stride = 8;
  EXPECT_EQ(status(wrong), CommandStatus::kBadParameter);
  wrong = config();
  wrong.doorbell = nullptr;
  EXPECT_EQ(status(wrong), CommandStatus::kBadParameter);
}

TEST_F(SharedReceive, ControlRefusesQueuePairsItDoesNotFit) {
  const auto status = [&](const QueuePairConfig& wrong) {
    return control.run(CreateQp{wrong}).refusal.status;
  };
  QueuePairConfig wrong = qp_config();
  wrong.shared_receive_queue = srqn + 1;
  EXPECT_EQ(status(wrong), CommandStatus::kBadResource);
  wrong = qp_config();
  wrong.receive_cq = 0;
  EXPECT_EQ(status(wrong), CommandStatus::kBadResource);
  wrong = qp_config();
  wrong.receive_buffer = memory.data();
  wrong.doorbell = record.as<mlx5::DoorbellRecord>();
  EXPECT_EQ(status(wrong), CommandStatus::kBadParameter);
  const Created target = control.run(CreateDcTarget{{.pd = pd, .shared_receive_queue = srqn + 1}});
  EXPECT_EQ(target.refusal.status, CommandStatus::kBadResource);
}

TEST_F(SharedReceive, WhatIsInUseStays) {
  const QueuePair& qp = make_receiver(1);
  EXPECT_EQ(control.run(DestroySrq{srqn}).refusal.status, CommandStatus::kBusy);
  EXPECT_EQ(control.run(DestroySrq{srqn + 1}).refusal.status, CommandStatus::kBadResource);
  EXPECT_EQ(control.arm_srq(srqn + 1, 1).status, CommandStatus::kBadResource);
  EXPECT_EQ(control.arm_srq(srqn, kEntries).status, CommandStatus::kBadParameter);
  ASSERT_FALSE(control.run(DestroyQp{qp.qpn}).refusal.refused());
  ASSERT_FALSE(control.run(DeregisterMemory{memory_key}).refusal.refused());
  EXPECT_EQ(control.run(FreePd{pd}).refusal.status, CommandStatus::kBusy);
  EXPECT_FALSE(control.run(DestroySrq{srqn}).refusal.refused());
  EXPECT_FALSE(control.run(FreePd{pd}).refusal.refused());
}

/// What an engine on a GPU knows of one.
TEST_F(SharedReceive, OneWithoutMemoryIsAlwaysEmpty) {
  SharedReceiveConfig bare;
  bare.pd = pd;
  bare.log_entries = 3;
  srqn = control.run(CreateSrq{bare}).number;
  ASSERT_NE(srqn, 0u);
  QueuePair& qp = make_receiver(1);
  EXPECT_EQ(arrive(qp, 10, 0, 10).verdict, Verdict::kNotReady);
}

// ---- DC targets

/// Where the answers of a responder go that nobody reads.
struct NoReplies {
  void acknowledge(const Packet&) {}
  void answer(const Packet& packet, const Payload&) { last = packet.kind; }
  PacketKind last = PacketKind::kAck;
};

/// A target that several initiators SEND to, each message in two packets; as peers in reach call it
/// and as the wire does.
class TargetStreams : public SharedReceive, public ::testing::WithParamInterface<bool> {
 protected:
  void SetUp() override {
    SharedReceive::SetUp();
    dctn = make_target();
    for (uint32_t i = 0; i < kEntries - 1; ++i) put(i, 64);
    ring_for(kEntries - 1);
    for (uint32_t i = 0; i < 256; ++i) message.data()[i] = static_cast<std::byte>(i);
  }
  uint32_t make_target() {
    return control
        .run(CreateDcTarget{
            {.pd = pd, .shared_receive_queue = srqn, .receive_cq = cqn, .dc_access_key = 1}})
        .number;
  }
  /// Half `half` of initiator `source`'s message of 64 bytes, which are those from `source` on.
  void half(uint32_t source, uint32_t half, uint32_t epoch = 1, uint32_t total = 64) {
    Packet packet = {};
    packet.kind = PacketKind::kRequest;
    packet.opcode = Opcode::kSend;
    packet.flags = static_cast<uint8_t>(kDcRequest | (half == 0 ? kFirstOfConnection : 0));
    packet.destination = dctn;
    packet.source = source;
    packet.detail = kDefaultPkey;
    packet.psn = half;
    packet.total = total;
    packet.offset = half * 32;
    packet.bytes = half == 0 ? 32 : total - 32;
    packet.dc_key = 1;
    packet.epoch = epoch;
    Payload payload;
    payload.clear();
    payload.append(message.data() + source + packet.offset, packet.bytes);
    if (GetParam()) {
      NoReplies replies;
      RequestServer<NoReplies>(tables.port, kPeerLid, replies, 1).serve(packet, payload);
    } else {
      deliver(tables.port, packet, payload, kPeerLid, 1);
    }
  }
  bool holds(uint32_t entry, uint32_t source) {
    return std::memcmp(memory.data() + entry * 1024, message.data() + source, 64) == 0;
  }
  uint32_t source(uint64_t n) {
    Be32 raw;
    std::memcpy(&raw, cq_memory.data() + n * 64 + kCqeSourceByte, sizeof(raw));
    return raw.host();
  }
  uint32_t dctn = 0;
};

// Hazard: a target that holds one entry, whoever sends, lets the second initiator's first packet
// fall into the message of the first.
TEST_P(TargetStreams, MessagesOfTwoInitiatorsDoNotMeet) {
  half(11, 0);
  half(22, 0);
  EXPECT_EQ(completions(), 0u);
  half(11, 1);
  half(22, 1);
  ASSERT_EQ(completions(), 2u);
  EXPECT_EQ(completion(0).counter, 0u);
  EXPECT_EQ(completion(1).counter, 1u);
  EXPECT_EQ(source(0), 11u);
  EXPECT_EQ(source(1), 22u);
  EXPECT_TRUE(holds(0, 11));
  EXPECT_TRUE(holds(1, 22));
}

// Hazard: the entry of an initiator that left in the middle of a message is lost to the client.
TEST_P(TargetStreams, AnInitiatorThatBeginsAnewGivesItsEntryBack) {
  half(11, 0, 1);
  half(11, 0, 2);
  ASSERT_EQ(completions(), 1u);
  EXPECT_EQ(completion(0).syndrome, Syndrome::kFlushed);
  EXPECT_EQ(completion(0).counter, 0u);
  half(11, 1, 2);
  ASSERT_EQ(completions(), 2u);
  EXPECT_EQ(completion(1).kind, CqeOpcode::kResponderSend);
  EXPECT_TRUE(holds(1, 11));
}

TEST_P(TargetStreams, AMessageThatDoesNotFitHurtsNobodyElse) {
  half(22, 0);
  half(11, 0, 1, 65);
  ASSERT_EQ(completions(), 1u);
  EXPECT_EQ(completion(0).syndrome, Syndrome::kLocalLength);
  EXPECT_EQ(completion(0).counter, 1u);
  half(22, 1);
  ASSERT_EQ(completions(), 2u);
  EXPECT_EQ(completion(1).kind, CqeOpcode::kResponderSend);
  EXPECT_TRUE(holds(0, 22));
}

// Hazard: a target that has the number of one that is gone completes what that one held.
TEST_P(TargetStreams, WhatATargetHeldGoesWithIt) {
  half(11, 0);
  uint32_t last = dctn;
  for (uint32_t i = 0; i <= Tables::kQpnsAtRest; ++i) {  // until its number has rested
    ASSERT_FALSE(control.run(DestroyDcTarget{last}).refusal.refused());
    last = make_target();
    ASSERT_NE(last == dctn, i < Tables::kQpnsAtRest) << i;
  }
  half(11, 0, 2);
  half(11, 1, 2);
  ASSERT_EQ(completions(), 1u);
  EXPECT_EQ(completion(0).kind, CqeOpcode::kResponderSend);
  EXPECT_EQ(completion(0).counter, 1u);
}

INSTANTIATE_TEST_SUITE_P(Ways, TargetStreams, ::testing::Bool(),
                         [](const auto& way) { return way.param ? "ByWire" : "Directly"; });

}  // namespace
}  // namespace peal::softnic::testing
