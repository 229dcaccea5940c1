// SPDX-License-Identifier: Apache-2.0
//
// The engine without a thread and without a NIC: two ports in one thread, a wire that loses what a
// seed tells it to lose, time that the test sets. Whatever is lost, every request acts once.
#include "tests/unit/softnic/engine_pair.h"

namespace peal::softnic::testing {

class LossyWires : public ::testing::TestWithParam<uint32_t> {};

TEST_P(LossyWires, AtomicsActExactlyOnce) {
  Pair pair(0.15, GetParam());
  for (uint64_t i = 0; i < 200; ++i) {
    if (!pair.a.room()) {
      ASSERT_TRUE(pair.run_until(i - 8));
    }
    pair.a.post(fetch_add(0, Side::kKey, 1, Side::kKey, 1024 + 8 * i));
  }
  ASSERT_TRUE(pair.run_until(200));
  EXPECT_EQ(*pair.b.memory.as<uint64_t>(), 200u);
  for (uint64_t i = 0; i < 200; ++i) {
    EXPECT_EQ(pair.a.cqe(i).kind, CqeOpcode::kRequester);
    EXPECT_EQ(*pair.a.memory.as<uint64_t>(1024 + 8 * i), i);
  }
}

// An engine whose turns are further apart than a try found the deadline passed in each of them: it
// went back to the first packet that was missing, again and again, and never got to send it.
TEST(SeldomDriven, MessagesThatLostAPacketAreFinished) {
  Pair pair(0);
  pair.a.qp().attributes.ack_timeout = 0;  // for ever: a try lasts the longest time there is
  for (uint32_t i = 0; i < 1000; ++i) pair.a.memory.as<uint8_t>()[i] = static_cast<uint8_t>(i);
  pair.a.post(write_from(0, Side::kKey, 1000, Side::kKey, 0));
  advance(*pair.a.port, pair.wire, pair.a.qp(), pair.now, 16);
  pair.wire.requests.pop_back();
  for (int i = 0; i < 10; ++i) {
    pair.step();
    pair.now += 2 * pair.a.port->timing.longest_try;
  }
  EXPECT_EQ(pair.a.completions(), 1u);
  EXPECT_EQ(std::memcmp(pair.a.memory.data(), pair.b.memory.data(), 1000), 0);
}

TEST_P(LossyWires, WritesOfManyPacketsArriveWhole) {
  Pair pair(0.1, GetParam());
  for (uint32_t i = 0; i < 20'000; ++i) pair.a.memory.as<uint8_t>()[i] = static_cast<uint8_t>(i);
  for (uint32_t i = 0; i < 4; ++i) {
    pair.a.post(write_from(5000 * i + 1, Side::kKey, 5000, Side::kKey, 5000 * i));
  }
  ASSERT_TRUE(pair.run_until(4));
  EXPECT_EQ(std::memcmp(pair.a.memory.data(), pair.b.memory.data() + 1, 20'000), 0);
}

TEST_P(LossyWires, ReadsOfManyPacketsArriveWhole) {
  Pair pair(0.1, GetParam());
  for (uint32_t i = 0; i < 20'000; ++i) pair.b.memory.as<uint8_t>()[i] = static_cast<uint8_t>(i);
  for (uint32_t i = 0; i < 4; ++i) {
    pair.a.post(read_into(5000 * i, Side::kKey, 5000, Side::kKey, 30'000 + 5000 * i));
  }
  ASSERT_TRUE(pair.run_until(4));
  EXPECT_EQ(std::memcmp(pair.b.memory.data(), pair.a.memory.data() + 30'000, 20'000), 0);
  for (uint64_t i = 0; i < 4; ++i) EXPECT_EQ(pair.a.cqe(i).bytes, 5000u);
}

TEST_P(LossyWires, MixedRequestsKeepTheirOrder) {
  Pair pair(0.1, GetParam());
  uint64_t posted = 0;
  for (uint64_t i = 1; i <= 60; ++i) {
    while (!pair.a.room()) pair.step();
    pair.a.post(write_inline<uint64_t>(0, Side::kKey, i).with(Completion::kOnError));
    pair.a.post(nop());
    pair.a.post(read_into(0, Side::kKey, 8, Side::kKey, 64 * i)
                    .with(i % 2 == 0 ? Fence::kFence : Fence::kStrong));
    posted += 2;
    pair.step();
  }
  ASSERT_TRUE(pair.run_until(posted));
  for (uint64_t i = 1; i <= 60; ++i) {
    // A READ sees its WRITE; sent again, it may see a later one, as on hardware.
    EXPECT_GE(*pair.a.memory.as<uint64_t>(64 * i), i);
  }
  for (uint64_t i = 0; i < posted; ++i) {
    EXPECT_EQ(pair.a.cqe(i).counter, (i / 2) * 3 + 1 + (i % 2)) << i;
  }
}

TEST_P(LossyWires, ImmediatesAreDeliveredOnce) {
  Pair pair(0.15, GetParam());
  store<uint32_t>(&pair.b.record().receive, Be32(50).raw);
  for (uint32_t i = 0; i < 50; ++i) {
    while (!pair.a.room()) pair.step();
    Wqe wqe = write_inline<uint64_t>(0, Side::kKey, i);
    wqe.opcode = Opcode::kRdmaWriteImm;
    wqe.immediate = i;
    pair.a.post(wqe);
  }
  ASSERT_TRUE(pair.run_until(50));
  ASSERT_EQ(pair.b.completions(), 50u);
  for (uint32_t i = 0; i < 50; ++i) EXPECT_EQ(pair.b.cqe(i).immediate, i);
}

INSTANTIATE_TEST_SUITE_P(Seeds, LossyWires, ::testing::Range(1u, 9u));

TEST(Engine, SequenceNumbersWrap) {
  Pair pair(0.05, 3, kPsnMask - 20);
  for (uint64_t i = 0; i < 100; ++i) {
    while (!pair.a.room()) pair.step();
    pair.a.post(i % 3 == 0 ? fetch_add(0, Side::kKey, 1, Side::kKey, 64)
                           : write_from(128, Side::kKey, 700, Side::kKey, 1024));
  }
  ASSERT_TRUE(pair.run_until(100));
  EXPECT_EQ(*pair.b.memory.as<uint64_t>(), 34u);
}

TEST(Engine, RunningCountsCrossThirtyTwoBits) {
  Pair pair(0);
  pair.a.start_at((1ull << 32) - 10);
  for (uint64_t i = 0; i < 30; ++i) pair.a.post(fetch_add(0, Side::kKey, 1, Side::kKey, 64));
  ASSERT_TRUE(pair.run_until(30));
  EXPECT_EQ(pair.a.qp().send.retired, (1ull << 32) + 20);
  for (uint64_t i = 0; i < 30; ++i) {
    EXPECT_EQ(pair.a.cqe(i).counter, static_cast<uint16_t>(65526 + i));
  }
}

TEST(Engine, WaitComparesCountsBeyondThirtyTwoBits) {
  Pair pair(0);
  pair.a.cqs[1].produced = (1ull << 32) - 1;
  pair.a.post(wait_for(1, 0));  // CQE number 2^32
  for (int i = 0; i < 10; ++i) pair.step();
  EXPECT_EQ(pair.a.qp().send.next, 0u);
  pair.a.cqs[1].produced += 2;
  pair.step();
  EXPECT_EQ(pair.a.qp().send.next, 1u);
}

TEST(Engine, SilentPeerIsRetryExceededAfterAllTries) {
  Pair pair(1.0);
  pair.a.qp().attributes.retry_count = 3;
  pair.a.post(write_inline<uint64_t>(0, Side::kKey, 1));
  ASSERT_TRUE(pair.run_until(1));
  EXPECT_EQ(pair.a.cqe(0).syndrome, Syndrome::kTransportRetryExceeded);
  EXPECT_EQ(pair.wire.sent, 4u) << "one request and three retries";
}

TEST(Engine, LostNicFailsAtOnce) {
  Pair pair(1.0);
  pair.a.post(write_inline<uint64_t>(0, Side::kKey, 1));
  pair.step();
  pair.wire.gone = true;
  pair.step();
  ASSERT_EQ(pair.a.completions(), 1u);
  EXPECT_EQ(pair.a.cqe(0).syndrome, Syndrome::kTransportRetryExceeded);
}

TEST(Engine, EarlierRequestsCompleteBeforeAFault) {
  Pair pair(0);
  pair.a.post(fetch_add(0, Side::kKey, 1, Side::kKey, 64));
  pair.a.post(write_inline<uint64_t>(8, Side::kKey, 5));
  pair.a.post(write_from(0, Side::kKey, 8, 0x7700, 0));
  pair.a.post(nop());
  ASSERT_TRUE(pair.run_until(3));
  for (int i = 0; i < 10; ++i) pair.step();
  ASSERT_EQ(pair.a.completions(), 4u);
  EXPECT_EQ(pair.a.cqe(0).kind, CqeOpcode::kRequester);
  EXPECT_EQ(pair.a.cqe(1).kind, CqeOpcode::kRequester);
  EXPECT_EQ(pair.a.cqe(2).syndrome, Syndrome::kLocalProtection);
  EXPECT_EQ(pair.a.cqe(3).syndrome, Syndrome::kFlushed);
  EXPECT_EQ(*pair.b.memory.as<uint64_t>(), 1u);
  EXPECT_EQ(*pair.b.memory.as<uint64_t>(8), 5u);
}

TEST(Engine, RefusalFailsItsRequestAndFlushesTheRest) {
  Pair pair(0);
  pair.a.post(write_inline<uint64_t>(8, Side::kKey, 5));
  pair.a.post(write_inline<uint64_t>(8, Side::kKey ^ 1, 6));
  pair.a.post(write_inline<uint64_t>(8, Side::kKey, 7));
  ASSERT_TRUE(pair.run_until(3));
  EXPECT_EQ(pair.a.cqe(0).kind, CqeOpcode::kRequester);
  EXPECT_EQ(pair.a.cqe(1).syndrome, Syndrome::kRemoteAccess);
  EXPECT_EQ(pair.a.cqe(2).syndrome, Syndrome::kFlushed);
  EXPECT_EQ(*pair.b.memory.as<uint64_t>(8), 5u);
  EXPECT_EQ(pair.b.qp().state, QpState::kError);
}

TEST(Engine, ReadsInFlightStayWithinTheInitiatorDepth) {
  Pair pair(0);  // depth 4
  for (int i = 0; i < 10; ++i) pair.a.post(read_into(0, Side::kKey, 8, Side::kKey, 64));
  advance(*pair.a.port, pair.wire, pair.a.qp(), pair.now, 64);
  EXPECT_EQ(pair.wire.requests.size(), 4u);
  ASSERT_TRUE(pair.run_until(10));
}

TEST(Engine, FenceHoldsAWriteBehindAnUnansweredRead) {
  for (const Fence fence : {Fence::kFence, Fence::kFenceAndSmall, Fence::kStrong}) {
    Pair pair(0);
    pair.a.post(read_into(0, Side::kKey, 8, Side::kKey, 64));
    pair.a.post(write_inline<uint64_t>(8, Side::kKey, 1).with(fence));
    advance(*pair.a.port, pair.wire, pair.a.qp(), pair.now, 64);
    EXPECT_EQ(pair.wire.requests.size(), 1u);
    ASSERT_TRUE(pair.run_until(2));
  }
}

TEST(Engine, WithoutFenceAWriteOvertakesTheAnswerOfARead) {
  for (const Fence fence : {Fence::kNone, Fence::kInitiatorSmall}) {
    Pair pair(0);
    pair.a.post(read_into(0, Side::kKey, 8, Side::kKey, 64));
    pair.a.post(write_inline<uint64_t>(8, Side::kKey, 1).with(fence));
    advance(*pair.a.port, pair.wire, pair.a.qp(), pair.now, 64);
    EXPECT_EQ(pair.wire.requests.size(), 2u);
    ASSERT_TRUE(pair.run_until(2));
  }
}

TEST(Engine, StrongOrderWaitsForWritesToo) {
  Pair pair(0);
  pair.a.post(write_inline<uint64_t>(8, Side::kKey, 1));
  pair.a.post(write_inline<uint64_t>(8, Side::kKey, 2).with(Fence::kStrong));
  advance(*pair.a.port, pair.wire, pair.a.qp(), pair.now, 64);
  EXPECT_EQ(pair.wire.requests.size(), 1u);
  ASSERT_TRUE(pair.run_until(2));
}

TEST(Engine, AnswersNobodyWaitsForAreIgnored) {
  Pair pair(0);
  auto random = [generator = std::mt19937(5)]() mutable {
    return static_cast<uint32_t>(generator());
  };
  pair.a.post(fetch_add(0, Side::kKey, 1, Side::kKey, 64));
  for (int i = 0; i < 20'000; ++i) {
    Packet packet = {};
    packet.kind = static_cast<PacketKind>(random() % 8);
    if (packet.kind == PacketKind::kAck || packet.kind == PacketKind::kRefuse) continue;
    packet.destination = random() % 3;
    packet.psn = random() % 4 + 1;  // the request will have 0
    take_answer(*pair.a.port, packet, Payload{0, 0, {}}, pair.now);
  }
  ASSERT_TRUE(pair.run_until(1));
  EXPECT_EQ(pair.a.cqe(0).kind, CqeOpcode::kRequester);
}

TEST(Engine, GarbageRequestsAreAnsweredOrDroppedButNeverActOutsideKeys) {
  Pair pair(0);
  auto random = [generator = std::mt19937(7)]() mutable {
    return static_cast<uint32_t>(generator());
  };
  std::vector<std::byte> junk(256, std::byte{0x55});
  for (int i = 0; i < 50'000; ++i) {
    pair.b.qp().state = QpState::kReadyToSend;  // it would fail at the first
    Packet packet = {};
    packet.kind = PacketKind::kRequest;
    packet.opcode = static_cast<Opcode>(random() % 0x26);
    packet.opmod = static_cast<uint8_t>(random() % 12);
    packet.flags = static_cast<uint8_t>(random() & 5);
    packet.destination = random() % 3;
    packet.source = Side::kQpn;
    packet.detail = kDefaultPkey;
    packet.psn = pair.b.qp().receive.expected_psn;
    packet.address = random() % 4 == 0 ? ~0ull - random() % 64 : random() % 70'000;
    packet.rkey = random() % 4 == 0 ? random() : Side::kKey;
    packet.total = random() % 3 == 0 ? random() : random() % 300;
    packet.offset = random() % 3 == 0 ? random() : random() % 300;
    packet.bytes = random() % 256;
    Payload payload{0, 0, {}};
    const uint32_t bytes = random() % 2 == 0 ? packet.bytes : random() % 256;
    if (bytes > 0) payload.append(junk.data(), bytes);
    RequestServer<LossyWire> server(*pair.b.port, 1, pair.wire, pair.now);
    server.serve(packet, payload);
    pair.wire.answers.clear();
  }
  SUCCEED() << "address sanitizer watches";
}

}  // namespace peal::softnic::testing
