// SPDX-License-Identifier: Apache-2.0
//
// RoCE between two engines: every operation, refusals, and networks that lose, double and overtake.
#include "softnic/wire/roce/udp_wire.h"
#include "tests/unit/softnic/bad_network.h"

namespace peal::softnic::testing {
namespace {

Wqe send_from(uint32_t bytes, uint64_t local, Opcode opcode = Opcode::kSend) {
  Wqe wqe{.opcode = opcode, .immediate = 0x01020304};
  return wqe.data(bytes, Side::kKey, local);
}

Wqe masked_swap8(uint64_t address, uint64_t swap, uint64_t compare, uint64_t local) {
  Wqe wqe{.opcode = Opcode::kAtomicMaskedCompareSwap, .opmod = mlx5::kOpmodAtomic8};
  return wqe.remote(address, Side::kKey)
      .add(mlx5::MaskedCompareSwap8Segment{Be64(swap), Be64(compare)})
      .add(mlx5::MaskedCompareSwap8Segment{Be64(~0ull), Be64(uint64_t{0xff})})
      .data(8, Side::kKey, local);
}

Wqe masked_add4(uint64_t address, uint32_t add, uint64_t local) {
  Wqe wqe{.opcode = Opcode::kAtomicMaskedFetchAdd, .opmod = mlx5::kOpmodAtomic4};
  return wqe.remote(address, Side::kKey)
      .add(mlx5::MaskedFetchAdd4Segment{Be32(add), Be32(0u), Be64(uint64_t{0})})
      .data(4, Side::kKey, local);
}

TEST(UdpWire, AWriteArrives) {
  Far pair;
  fill(pair.a.memory.data(), 100, 1);
  pair.a.post(write_from(4096, Side::kKey, 100, Side::kKey, 0));
  ASSERT_TRUE(pair.run_until(1));
  EXPECT_EQ(pair.a.cqe(0).kind, CqeOpcode::kRequester);
  EXPECT_EQ(std::memcmp(pair.b.memory.data() + 4096, pair.a.memory.data(), 100), 0);
  EXPECT_EQ(opcodes_of(pair.here), std::vector<int>{0x0a});
  EXPECT_EQ(opcodes_of(pair.there), std::vector<int>{0x11});
}

TEST(UdpWire, ALongWriteIsCutByThePathMtu) {
  Far pair;  // 256
  fill(pair.a.memory.data(), 1000, 1);
  pair.a.post(write_from(4096, Side::kKey, 1000, Side::kKey, 0));
  ASSERT_TRUE(pair.run_until(1));
  EXPECT_EQ(std::memcmp(pair.b.memory.data() + 4096, pair.a.memory.data(), 1000), 0);
  EXPECT_EQ(opcodes_of(pair.here), (std::vector<int>{0x06, 0x07, 0x07, 0x08}));
  EXPECT_EQ(pair.here.sent[0].size(), 12u + 16 + 256 + 4);
  EXPECT_EQ(pair.here.sent[3].size(), 12u + 232 + 4);
}

TEST(UdpWire, AReadFetches) {
  Far pair;
  fill(pair.b.memory.data(), 5000, 2);
  pair.a.post(read_into(3, Side::kKey, 4001, Side::kKey, 0));
  ASSERT_TRUE(pair.run_until(1));
  EXPECT_EQ(pair.a.cqe(0).kind, CqeOpcode::kRequester);
  EXPECT_EQ(std::memcmp(pair.a.memory.data(), pair.b.memory.data() + 3, 4001), 0);
}

TEST(UdpWire, SendsFillReceiveEntries) {
  Far pair;
  fill(pair.a.memory.data(), 2000, 3);
  pair.remote.receive_into(8192, 1024, 2);
  pair.a.post(send_from(1000, 0));
  pair.a.post(send_from(7, 1000, Opcode::kSendImm));
  ASSERT_TRUE(pair.run_until(2));
  ASSERT_EQ(pair.b.completions(), 2u);
  EXPECT_EQ(pair.b.cqe(0).kind, CqeOpcode::kResponderSend);
  EXPECT_EQ(pair.b.cqe(0).bytes, 1000u);
  EXPECT_EQ(pair.b.cqe(1).kind, CqeOpcode::kResponderSendImm);
  EXPECT_EQ(pair.b.cqe(1).immediate, 0x01020304u);
  EXPECT_EQ(std::memcmp(pair.b.memory.data() + 8192, pair.a.memory.data(), 1000), 0);
  EXPECT_EQ(std::memcmp(pair.b.memory.data() + 8192 + 1024, pair.a.memory.data() + 1000, 7), 0);
}

TEST(UdpWire, AnImmediateCompletesAtTheOtherEnd) {
  Far pair;
  pair.remote.receive_into(0, 16, 1);
  Wqe wqe{.opcode = Opcode::kRdmaWriteImm, .immediate = 0xa1b2c3d4};
  pair.a.post(wqe.remote(4096, Side::kKey).data(700, Side::kKey, 0));
  ASSERT_TRUE(pair.run_until(1));
  ASSERT_EQ(pair.b.completions(), 1u);
  EXPECT_EQ(pair.b.cqe(0).kind, CqeOpcode::kResponderWriteImm);
  EXPECT_EQ(pair.b.cqe(0).immediate, 0xa1b2c3d4u);
  EXPECT_EQ(pair.b.cqe(0).bytes, 700u);
}

TEST(UdpWire, AtomicsAnswerWhatWasThere) {
  Far pair;
  auto* word = pair.b.memory.as<uint64_t>();
  *word = 40;
  pair.a.post(fetch_add(0, Side::kKey, 2, Side::kKey, 64));
  pair.a.post(masked_swap8(0, 7, 0x12002a, 72));  // only its lowest byte is compared
  pair.a.post(masked_add4(0, 5, 80));
  ASSERT_TRUE(pair.run_until(3));
  for (uint64_t i = 0; i < 3; ++i) EXPECT_EQ(pair.a.cqe(i).kind, CqeOpcode::kRequester);
  EXPECT_EQ(*pair.a.memory.as<uint64_t>(64), 40u);
  EXPECT_EQ(*pair.a.memory.as<uint64_t>(72), 42u);
  EXPECT_EQ(*pair.a.memory.as<uint32_t>(80), Be32(7u).raw);
  EXPECT_EQ(*word, 12u);
}

TEST(UdpWire, RefusalsComeBackAsTheSyndromeTheyAre) {
  const auto refused = [](Far& pair, const Wqe& wqe) {
    pair.a.post(wqe);
    EXPECT_TRUE(pair.run_until(1));
    return pair.a.cqe(0).syndrome;
  };
  Far wrong_key;
  EXPECT_EQ(refused(wrong_key, write_from(0, 0x777, 8, Side::kKey, 0)), Syndrome::kRemoteAccess);
  Far beyond;
  EXPECT_EQ(refused(beyond, read_into(1 << 16, Side::kKey, 8, Side::kKey, 0)),
            Syndrome::kRemoteAccess);
  Far no_right;
  no_right.b.qp().attributes.access = kRemoteRead;
  EXPECT_EQ(refused(no_right, write_from(0, Side::kKey, 8, Side::kKey, 0)),
            Syndrome::kRemoteInvalidRequest);
  Far crooked;
  EXPECT_EQ(refused(crooked, fetch_add(4, Side::kKey, 1, Side::kKey, 0)),
            Syndrome::kRemoteInvalidRequest);
  Far short_entry;
  short_entry.remote.receive_into(0, 300, 1);
  EXPECT_EQ(refused(short_entry, send_from(1000, 0)), Syndrome::kRemoteInvalidRequest);
  EXPECT_EQ(short_entry.b.cqe(0).syndrome, Syndrome::kLocalLength);
}

TEST(UdpWire, DcIsRefusedWhereItIsSent) {
  Far pair;
  pair.a.qp().service = Service::kDcInitiator;
  mlx5::CompactAddressVector head = {};
  head.ext_dqp_dct = Be32(1u << 31 | Side::kQpn);
  mlx5::AddressVectorGrh route = {};
  route.rmac_47_16 = Be32(kMacPrefix);
  route.rmac_15_0_tclass_hop = Be32(uint32_t{Host::kPeer} << 16 | 64);
  Wqe wqe{.opcode = Opcode::kRdmaWrite};
  pair.a.post(wqe.add(head).add(route).remote(0, Side::kKey).data(8, Side::kKey, 0));
  ASSERT_TRUE(pair.run_until(1));
  EXPECT_EQ(pair.a.cqe(0).syndrome, Syndrome::kLocalQpOperation);
  EXPECT_TRUE(pair.here.sent.empty());
}

TEST(UdpWire, AReceiverThatIsNotReadyIsAskedAgain) {
  Far pair;
  pair.a.post(send_from(10, 0));
  pair.settle();
  EXPECT_EQ(pair.a.completions(), 0u);
  pair.remote.receive_into(0, 64, 1);
  ASSERT_TRUE(pair.run_until(1));
  EXPECT_EQ(pair.a.cqe(0).kind, CqeOpcode::kRequester);
}

TEST(UdpWire, NobodyThereIsNamedInTheEnd) {
  Far pair({.loss = 1});
  pair.a.post(write_from(0, Side::kKey, 8, Side::kKey, 0));
  ASSERT_TRUE(pair.run_until(1));
  EXPECT_EQ(pair.a.cqe(0).syndrome, Syndrome::kTransportRetryExceeded);
}

// Tries are counted, and end: what is sent again early must not use them up.
TEST(UdpWire, WhatIsRepeatedEarlyIsNoTry) {
  Far pair({.loss = 1});
  pair.a.qp().attributes.retry_count = 7;
  pair.a.port->timing.shortest_try = pair.a.port->timing.longest_try = 1'000'000'000;
  pair.a.post(write_from(0, Side::kKey, 8, Side::kKey, 0));
  for (int i = 0; i < 4000; ++i) pair.step();  // 800 ms
  EXPECT_GT(pair.here.sent.size(), 8u);
  EXPECT_EQ(pair.a.qp().send.retries, 0u);
  EXPECT_EQ(pair.a.completions(), 0u);
}

TEST(UdpWire, NoMoreIsAskedForThanThePeerKeepsCountOf) {
  Far pair;
  pair.a.qp().attributes.log_initiator_depth = 1;
  fill(pair.b.memory.data(), 4000, 5);
  pair.a.post(read_into(0, Side::kKey, 8, Side::kKey, 8192));
  pair.a.post(read_into(0, Side::kKey, 4000, Side::kKey, 0));
  pair.a.post(fetch_add(8000, Side::kKey, 1, Side::kKey, 8000));
  for (uint64_t answered = 0; pair.a.completions() < 3; ++answered) {
    ASSERT_LT(answered, 100u);
    advance(*pair.local.side.port, pair.local, pair.a.qp(), pair.now, 16);
    EXPECT_LE(pair.to_there.letters.size(), 2u);
    pair.step();
  }
  EXPECT_EQ(std::memcmp(pair.a.memory.data(), pair.b.memory.data(), 4000), 0);
}

/// Datagrams that go out for requests without an end while nothing is taken.
size_t on_their_way(Far& pair) {
  for (int i = 0; i < 100; ++i) {
    advance(*pair.local.side.port, pair.local, pair.a.qp(), pair.now, 64);
  }
  return pair.to_there.letters.size();
}

TEST(UdpWire, ManyPacketsAreOnTheirWayWhereNoneIsLost) {
  Far pair;
  pair.a.post(write_from(0, Side::kKey, 1 << 16, Side::kKey, 0));  // 256 packets
  EXPECT_EQ(on_their_way(pair), roce::SendWindow::kLeast);
  for (uint64_t n = 1; n <= 8; ++n) {
    ASSERT_TRUE(pair.run_until(n));
    pair.a.post(write_from(0, Side::kKey, 1 << 16, Side::kKey, 0));
    pair.a.post(write_from(0, Side::kKey, 1 << 16, Side::kKey, 0));
  }
  ASSERT_TRUE(pair.run_until(17));
  for (int i = 0; i < 4; ++i) pair.a.post(write_from(0, Side::kKey, 1 << 16, Side::kKey, 0));
  EXPECT_EQ(on_their_way(pair), roce::SendWindow::kMost);
  pair.to_there.letters.pop_front();
  pair.remote.udp.poll(pair.now);  // the peer has missed one
  ASSERT_EQ(pair.to_here.letters.size(), 1u);
  pair.to_here.letters.push_back(pair.to_here.letters.front());  // and says so twice
  ASSERT_TRUE(pair.run_until(21));
  for (int i = 0; i < 4; ++i) pair.a.post(write_from(0, Side::kKey, 1 << 16, Side::kKey, 0));
  const size_t after = on_their_way(pair);
  EXPECT_LT(after, roce::SendWindow::kMost);
  EXPECT_GE(after, roce::SendWindow::kMost / 2);
  ASSERT_TRUE(pair.run_until(25));
  for (uint64_t i = 0; i < 25; ++i) EXPECT_EQ(pair.a.cqe(i).kind, CqeOpcode::kRequester) << i;
}

/// 8 WRITEs, after which the window is as wide as it gets.
bool open_window(Far& pair) {
  for (uint64_t n = 1; n <= 8; ++n) {
    pair.a.post(write_from(0, Side::kKey, 1 << 16, Side::kKey, 0));
    if (!pair.run_until(n)) return false;
  }
  return true;
}

// All of it has arrived, and the answer names the last packet: a requester that sends less again
// than it had sent has not sent that one, and takes no notice.
TEST(UdpWire, AllIsSentAgainThatTheWindowHadRoomForBefore) {
  Far pair;
  ASSERT_TRUE(open_window(pair));
  for (int i = 0; i < 2; ++i) pair.a.post(write_from(0, Side::kKey, 1 << 16, Side::kKey, 0));
  ASSERT_EQ(on_their_way(pair), roce::SendWindow::kMost);
  pair.remote.udp.poll(pair.now);
  pair.to_here.letters.clear();
  ASSERT_TRUE(pair.run_until(10));
  EXPECT_EQ(pair.a.cqe(8).kind, CqeOpcode::kRequester);
  EXPECT_EQ(pair.a.cqe(9).kind, CqeOpcode::kRequester);
}

// An atomic without an answer is sent again with all behind it, and what is acknowledged meanwhile
// lets more out: what is sent again is then more than a window.
TEST(UdpWire, AllIsSentAgainBehindAnAtomicWithoutAnAnswer) {
  Far pair;
  ASSERT_TRUE(open_window(pair));
  constexpr uint64_t kCounter = 60'000;
  pair.a.post(fetch_add(kCounter, Side::kKey, 2, Side::kKey, kCounter));
  for (int i = 0; i < 4; ++i) pair.a.post(write_from(0, Side::kKey, 1 << 16, Side::kKey, 0));
  ASSERT_EQ(on_their_way(pair), roce::SendWindow::kMost);
  pair.remote.udp.poll(pair.now);
  ASSERT_EQ(pair.to_here.letters.size(), 2u);
  pair.to_here.letters.pop_front();  // the atomic's
  pair.local.udp.poll(pair.now);
  ASSERT_EQ(on_their_way(pair), 2 * roce::SendWindow::kMost);
  pair.remote.udp.poll(pair.now);
  pair.to_here.letters.clear();
  ASSERT_TRUE(pair.run_until(13));
  for (uint64_t i = 8; i < 13; ++i) EXPECT_EQ(pair.a.cqe(i).kind, CqeOpcode::kRequester) << i;
}

TEST(UdpWire, OfAQueuePairThatIsConnectedAnewNothingHasBeenSent) {
  roce::Flow flow(1000, 1);
  for (uint32_t psn = 1001; psn <= 1040; ++psn) flow.sent(psn, 1);
  flow.acknowledged(1040, 2);
  EXPECT_FALSE(flow.holds(1000));
  flow.acknowledged(400, 3);
  EXPECT_FALSE(flow.holds(401));
  EXPECT_TRUE(flow.holds(1000));
}

TEST(UdpWire, HowLongAnswersTakeIsLearnt) {
  constexpr uint64_t kMs = 1'000'000;
  roce::Flow flow(0, 0);
  EXPECT_FALSE(flow.tired(2 * kMs - 1));
  EXPECT_TRUE(flow.tired(2 * kMs));
  EXPECT_FALSE(flow.tired(6 * kMs - 1)) << "twice as long";
  EXPECT_TRUE(flow.tired(6 * kMs));
  for (uint32_t psn = 1; psn <= 50; ++psn) {
    flow.sent(psn, psn * 20 * kMs);
    flow.acknowledged(psn, (psn + 1) * 20 * kMs);
  }
  EXPECT_FALSE(flow.tired(51 * 20 * kMs + 20 * kMs - 1));
  EXPECT_TRUE(flow.tired(51 * 20 * kMs + 40 * kMs));
}

// After such an answer it is not known which of them it is for.
TEST(UdpWire, WhatIsSentAgainTellsNotHowLongAnswersTake) {
  constexpr uint64_t kMs = 1'000'000;
  roce::Flow flow(0, kMs);
  flow.sent(1, kMs);
  EXPECT_TRUE(flow.tired(3 * kMs));
  flow.sent(1, 3 * kMs);
  flow.acknowledged(1, 60 * kMs);
  EXPECT_FALSE(flow.tired(64 * kMs - 1)) << "still twice as long";
  flow.sent(2, 61 * kMs);
  flow.acknowledged(2, 64 * kMs);
  EXPECT_FALSE(flow.tired(73 * kMs - 1)) << "3 ms, and 1.5 off";
  EXPECT_TRUE(flow.tired(73 * kMs));
}

TEST(UdpWire, AWindowDoublesUntilALossAndThenGrowsByOne) {
  roce::SendWindow window;
  const uint32_t least = roce::SendWindow::kLeast;
  EXPECT_EQ(window.packets(), least);
  window.widen(least);
  EXPECT_EQ(window.packets(), 2 * least);
  window.narrow();
  EXPECT_EQ(window.packets(), least);
  window.narrow();
  EXPECT_EQ(window.packets(), least);
  window.widen(least - 1);
  EXPECT_EQ(window.packets(), least);
  window.widen(1);
  EXPECT_EQ(window.packets(), least + 1);
  window.widen(1'000'000);
  EXPECT_EQ(window.packets(), roce::SendWindow::kMost);
}

/// Random operations over a network: all complete, memory is as if nothing had happened, and what
/// atomics have added is exact.
void survives(const Badness& badness, uint32_t psn) {
  SCOPED_TRACE("seed " + std::to_string(badness.seed));
  constexpr uint32_t kOperations = 120;
  constexpr uint64_t kCounter = 60'000;
  Far pair(badness, psn);
  pair.a.qp().attributes.retry_count = 7;
  pair.a.port->timing.longest_try = pair.a.port->timing.shortest_try = 400'000'000;
  std::mt19937 random(badness.seed);
  fill(pair.a.memory.data(), 20'000, badness.seed);
  std::vector<std::byte> expected(20'000);
  uint64_t added = 0;
  for (uint32_t i = 0; i < kOperations; ++i) {
    while (!pair.a.room()) pair.step();
    const uint32_t bytes = 1 + below(random, 3000);
    const uint32_t to = below(random, 20'000 - bytes);
    switch (random() % 3) {
      case 0:
        pair.a.post(write_from(to, Side::kKey, bytes, Side::kKey, to));
        std::memcpy(expected.data() + to, pair.a.memory.data() + to, bytes);
        break;
      case 1:
        pair.a.post(read_into(to, Side::kKey, bytes, Side::kKey, 24'000));
        break;
      default:
        pair.a.post(fetch_add(kCounter, Side::kKey, i, Side::kKey, kCounter));
        added += i;
    }
  }
  ASSERT_TRUE(pair.run_until(kOperations)) << pair.a.completions();
  for (uint64_t i = 0; i < kOperations; ++i) {
    EXPECT_EQ(pair.a.cqe(i).kind, CqeOpcode::kRequester) << i;
  }
  EXPECT_EQ(std::memcmp(pair.b.memory.data(), expected.data(), expected.size()), 0);
  EXPECT_EQ(*pair.b.memory.as<uint64_t>(kCounter), added);
  EXPECT_EQ(pair.remote.udp.counts().wrong_icrc, 0u);
  EXPECT_EQ(pair.remote.udp.counts().malformed, 0u);
}

TEST(UdpWire, SurvivesLoss) {
  for (uint32_t seed = 1; seed <= 10; ++seed) survives({.loss = 0.05, .seed = seed}, 0);
}
TEST(UdpWire, SurvivesAllOfItAtOnce) {
  for (uint32_t seed = 1; seed <= 10; ++seed) {
    survives({.loss = 0.03, .doubled = 0.1, .overtaken = 0.1, .seed = seed}, 0xffffe0);
  }
}

}  // namespace
}  // namespace peal::softnic::testing
