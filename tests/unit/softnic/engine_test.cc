// SPDX-License-Identifier: Apache-2.0
//
// The engine without a thread and without a NIC: two ports in one thread, a wire that loses what a
// seed tells it to lose, time that the test sets. Whatever is lost, every request acts once.
#include "softnic/engine/engine.h"

#include <deque>
#include <random>

#include "softnic/engine/serve.h"
#include "tests/unit/softnic/support.h"

namespace peal::softnic::testing {

/// A packet with its bytes.
struct Parcel {
  Packet packet;
  std::vector<std::byte> bytes;

  Parcel(const Packet& header, const Payload& payload) : packet(header) {
    packet.payload = payload.bytes;
    for (uint32_t i = 0; i < payload.count; ++i) {
      const Payload::Chunk& chunk = payload.chunk[i];
      bytes.insert(bytes.end(), chunk.memory, chunk.memory + chunk.bytes);
    }
  }
  Payload payload() const {
    Payload payload;
    payload.clear();
    if (!bytes.empty()) payload.append(bytes.data(), static_cast<uint32_t>(bytes.size()));
    return payload;
  }
};

/// Loses packets of either direction with a probability.
struct LossyWire {
  static constexpr uint32_t kSegment = 256;
  std::mt19937 random;
  double loss = 0;
  bool gone = false;
  std::deque<Parcel> requests = {};
  std::deque<Parcel> answers = {};
  uint64_t sent = 0;

  bool loses() { return std::uniform_real_distribution<>(0, 1)(random) < loss; }
  Port* direct(uint16_t) { return nullptr; }
  SendStatus open(uint16_t, uint64_t& generation) {
    generation = 1;
    return gone ? SendStatus::kLost : SendStatus::kSent;
  }
  uint32_t segment_bytes(uint16_t) { return kSegment; }
  SendStatus send(uint16_t, const Packet& packet, const Payload& payload) {
    if (requests.size() >= 64) return SendStatus::kFull;
    ++sent;
    if (!loses()) requests.emplace_back(packet, payload);
    return SendStatus::kSent;
  }
  uint64_t position(uint16_t) { return sent; }
  uint64_t consumed(uint16_t) { return sent; }
  bool lost(uint16_t, uint64_t) { return gone; }

  void acknowledge(const Packet& packet) { answer(packet, Payload{0, 0, {}}); }
  void answer(const Packet& packet, const Payload& payload) {
    if (!loses()) answers.emplace_back(packet, payload);
  }
};
static_assert(Wire<LossyWire> && Replies<LossyWire>);

/// A port with one queue pair and one region, all plain memory.
struct Side {
  static constexpr uint32_t kQpn = 1;
  static constexpr uint32_t kKey = 1 << 8;
  static constexpr uint32_t kBlocks = 64;

  Pages queue{kBlocks * 64};
  Pages cqes{64 * 1024};
  Pages memory{1 << 16};
  Pages doorbell{4096};
  std::vector<Key> keys = std::vector<Key>(2);
  std::vector<CompletionQueue> cqs = std::vector<CompletionQueue>(2);
  std::unique_ptr<QueuePair[]> qps = std::make_unique<QueuePair[]>(2);
  std::unique_ptr<Port> port = std::make_unique<Port>();
  uint64_t posted = 0;
  uint64_t seen = 0;

  explicit Side(uint16_t lid, uint16_t peer, uint32_t psn = 0) {
    keys[1] = {.number = kKey,
               .pd = 1,
               .access = kEverything,
               .bytes = memory.bytes(),
               .memory = memory.data()};
    cqs[1].exists = cqs[1].ignore_overrun = true;
    cqs[1].cqn = 1;
    cqs[1].log_entries = 10;
    cqs[1].buffer = cqes.data();
    std::memset(cqes.data(), 0xf0, cqes.bytes());
    QueuePair& qp = qps[1];
    qp.exists = true;
    qp.state = QpState::kReadyToSend;
    qp.qpn = kQpn;
    qp.pd = qp.send_cq = qp.receive_cq = 1;
    qp.send_buffer = queue.data();
    qp.send_blocks = kBlocks;
    qp.receive_buffer = memory.data();
    qp.receive_entries = 1u << 15;
    qp.doorbell = doorbell.as<mlx5::DoorbellRecord>();
    qp.attributes.access = kEverything;
    qp.attributes.atomic_mode = 3;
    qp.attributes.remote_qpn = kQpn;
    qp.attributes.remote_lid = peer;
    qp.attributes.log_initiator_depth = 2;
    qp.attributes.ack_timeout = 8;
    qp.attributes.retry_count = 7;
    qp.attributes.rnr_retry = 7;
    qp.attributes.min_rnr_timer = 1;
    qp.send.psn = qp.receive.expected_psn = psn & kPsnMask;
    qp.send.acked_psn = (psn - 1) & kPsnMask;
    port->lid = lid;
    port->keys = keys.data();
    port->cqs = cqs.data();
    port->qps = qps.get();
    port->key_count = port->cq_count = port->qp_count = 2;
  }
  QueuePair& qp() { return qps[1]; }

  /// Starts all running counts at `index`, as after that many blocks.
  void start_at(uint64_t index) {
    posted = index;
    qp().send.posted = qp().send.next = qp().send.retired = index;
    publish();
  }
  void post(const Wqe& wqe) {
    mlx5::ControlSegment control;
    control.opmod_idx_opcode =
        Be32(uint32_t{wqe.opmod} << 24 | (static_cast<uint32_t>(posted) & 0xffff) << 8 |
             static_cast<uint32_t>(wqe.opcode));
    control.qpn_ds = Be32(kQpn << 8 | wqe.units());
    control.signature_fm_ce_se =
        Be32(static_cast<uint32_t>(wqe.fence) | static_cast<uint32_t>(wqe.completion));
    control.imm = Be32(wqe.immediate);
    std::vector<std::byte> bytes(16);
    std::memcpy(bytes.data(), &control, 16);
    bytes.insert(bytes.end(), wqe.body.begin(), wqe.body.end());
    for (size_t i = 0; i < bytes.size(); ++i) {
      queue.data()[(posted * 64 + i) % queue.bytes()] = bytes[i];
    }
    posted += (wqe.units() + 3) / 4;
    publish();
  }
  void publish() {
    store<uint32_t>(&qp().doorbell->send, Be32(static_cast<uint32_t>(posted) & 0xffff).raw);
  }
  bool room() { return posted - qp().send.retired + 4 <= kBlocks; }
  uint64_t completions() { return cqs[1].produced; }
  SeenCqe cqe(uint64_t n) { return Cq::decode(cqes.data() + (n % 1024) * 64); }
};

/// Two sides and the wire from `a` to `b`, stepped by hand.
struct Pair {
  explicit Pair(double loss, uint32_t seed = 1, uint32_t psn = 0)
      : a(1, 2, psn), b(2, 1, psn), wire{.random = std::mt19937(seed), .loss = loss} {}

  void step() {
    advance(*a.port, wire, a.qp(), now, 16);
    Server<LossyWire> server(*b.port, 1, wire, now);
    for (int i = 0; i < 8 && !wire.requests.empty(); ++i) {
      const Parcel parcel = wire.requests.front();
      wire.requests.pop_front();
      server.serve(parcel.packet, parcel.payload());
    }
    while (!wire.answers.empty()) {
      const Parcel parcel = wire.answers.front();
      wire.answers.pop_front();
      take_answer(*a.port, parcel.packet, parcel.payload(), now);
    }
    now += 200'000;
  }
  /// Steps until `n` completions; false after too many steps.
  bool run_until(uint64_t n) {
    for (int i = 0; i < 200'000 && a.completions() < n; ++i) step();
    return a.completions() >= n;
  }
  Side a;
  Side b;
  LossyWire wire;
  uint64_t now = 1;
};

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
  store<uint32_t>(&pair.b.qp().doorbell->receive, Be32(50).raw);
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
    Server<LossyWire> server(*pair.b.port, 1, pair.wire, pair.now);
    server.serve(packet, payload);
    pair.wire.answers.clear();
  }
  SUCCEED() << "address sanitizer watches";
}

}  // namespace peal::softnic::testing
