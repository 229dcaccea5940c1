// SPDX-License-Identifier: Apache-2.0
//
// WRITEs of a queue pair placed out of order, as adaptive routing places them: what may overtake
// what, what may not, and which queue pairs are left alone. At 438a779 the software NIC placed
// everything in order, so nothing that relied on it could fail.
#include <cstdlib>

#include "tests/unit/softnic/support.h"

namespace peal::softnic::testing {
namespace {

constexpr uint64_t kData = 0;
constexpr uint64_t kFlag = 64;

class SoftnicPlacement : public SoftNic {
 protected:
  void SetUp() override {
    ASSERT_EQ(setenv("PEAL_SOFTNIC_PLACEMENT", "any:3", 1), 0);
    SoftNic::SetUp();
  }
  void TearDown() override { unsetenv("PEAL_SOFTNIC_PLACEMENT"); }
};

/// The word becomes `value`, whatever it was: a masked compare-swap that compares nothing.
Wqe swap_in(uint64_t address, uint32_t rkey, uint64_t value, uint32_t lkey, uint64_t local) {
  Wqe wqe{.opcode = Opcode::kAtomicMaskedCompareSwap, .opmod = mlx5::kOpmodAtomic8};
  return wqe.remote(address, rkey)
      .add(mlx5::MaskedCompareSwap8Segment{Be64(value), Be64(0)})
      .add(mlx5::MaskedCompareSwap8Segment{Be64(~uint64_t{0}), Be64(0)})
      .data(8, lkey, local);
}

/// Two queue pairs connected to each other, and memory that one writes to.
struct Loop {
  Loop(SoftwareNic& nic, uint32_t pd, bool in_order)
      : lid(nic.lid()),
        cq(nic, {}),
        qp(nic, pd, cq, cq, {}),
        other(nic, pd, cq, cq, {}),
        memory(nic, pd, 4096) {
    other.attributes.in_order = in_order;
    connect(0);
  }
  void connect(uint32_t psn) {
    qp.attributes.send_psn = other.attributes.receive_psn = psn;
    other.connect(lid, qp.qpn);
    qp.connect(lid, other.qpn);
  }
  void reset() {
    for (Qp* end : {&qp, &other}) {
      EXPECT_FALSE(end->to(QpState::kError, QpState::kReadyToSend).refused());
      end->reset();
    }
  }
  /// Data, then a flag that `flag` composes; answers whether a reader that waits for the flag finds
  /// old data.
  template <class Flag>
  bool overtakes(uint64_t round, const Flag& flag) {
    qp.post(write_inline<uint64_t>(kData, memory.key, round).with(Completion::kOnFirstError));
    qp.post(flag(round));
    qp.ring();
    EXPECT_TRUE(eventually([&] { return memory.load<uint64_t>(kFlag) == round; }));
    const bool stale = memory.load<uint64_t>(kData) != round;
    EXPECT_EQ(cq.await().kind, CqeOpcode::kRequester);
    EXPECT_EQ(memory.load<uint64_t>(kData), round) << "a completion says that the data is there";
    return stale;
  }
  Wqe flag_by_write(uint64_t round) const { return write_inline(kFlag, memory.key, round); }
  Wqe flag_by_swap(uint64_t round) const {
    return swap_in(kFlag, memory.key, round, memory.key, 128);
  }

  uint16_t lid;
  Cq cq;
  Qp qp;
  Qp other;
  Region memory;
};

TEST_F(SoftnicPlacement, AnAtomicOvertakesNothing) {
  Loop loop(*nic, pd, false);
  for (int round = 1; round <= 500; ++round) {
    ASSERT_FALSE(loop.overtakes(round, [&](uint64_t value) { return loop.flag_by_swap(value); }));
  }
}

// Packets that take several ways are for a queue pair that knows of it.
TEST_F(SoftnicPlacement, BothEndsAskForAdaptiveRouting) {
  for (const bool both : {true, false}) {
    Loop loop(*nic, pd, false);
    loop.reset();
    loop.qp.attributes.ack_timeout = 1;
    loop.qp.attributes.retry_count = 1;
    loop.qp.attributes.any_order = true;
    loop.other.attributes.any_order = both;
    loop.connect(0);
    loop.qp.post(write_inline<uint64_t>(kData, loop.memory.key, 1));
    loop.qp.ring();
    EXPECT_EQ(loop.cq.await().syndrome, both ? Syndrome::kNone : Syndrome::kTransportRetryExceeded);
  }
}

// PCI Express AtomicOps: the flag is there before the data, unless it starts when that is done.
TEST_F(SoftnicPlacement, AnAtomicOfTheBusOvertakesWritesUnlessItWaitsForThem) {
  const std::shared_ptr<SoftwareNic> bus = SoftwareNic::open({.pci_atomics = true});
  Loop loop(*bus, bus->allocate_pd().number, false);
  uint64_t round = 0;
  // A reader that was not running at the time has missed it.
  EXPECT_TRUE(eventually([&] {
    return loop.overtakes(++round, [&](uint64_t value) { return loop.flag_by_swap(value); });
  }));
  const uint64_t last = round + 500;
  while (++round <= last) {
    ASSERT_FALSE(loop.overtakes(
        round, [&](uint64_t value) { return loop.flag_by_swap(value).with(Fence::kStrong); }));
  }
}

TEST_F(SoftnicPlacement, AReadSeesWhatWasWrittenBeforeIt) {
  Loop loop(*nic, pd, false);
  for (uint64_t round = 1; round <= 500; ++round) {
    for (uint64_t i = 0; i < 8; ++i) {
      loop.qp.post(
          write_inline<uint64_t>(8 * i, loop.memory.key, round).with(Completion::kOnFirstError));
    }
    loop.qp.post(read_into(0, loop.memory.key, 64, loop.memory.key, 256));
    loop.qp.ring();
    ASSERT_EQ(loop.cq.await().kind, CqeOpcode::kRequester);
    for (uint64_t i = 0; i < 8; ++i) ASSERT_EQ(loop.memory.load<uint64_t>(256 + 8 * i), round);
  }
}

TEST_F(SoftnicPlacement, AQueuePairThatForcesOrderHasIt) {
  Loop loop(*nic, pd, true);
  for (int round = 1; round <= 500; ++round) {
    ASSERT_FALSE(loop.overtakes(round, [&](uint64_t value) { return loop.flag_by_write(value); }));
  }
}

// What was not acknowledged when a queue pair is reset may be there or not, but it does not arrive
// later, in memory that has another use by then.
TEST_F(SoftnicPlacement, NothingIsPlacedBehindAReset) {
  Loop loop(*nic, pd, false);
  for (uint64_t round = 1; round <= 200; ++round) {
    for (uint64_t i = 0; i < 4; ++i) {
      loop.qp.post(write_inline(8 * i, loop.memory.key, round).with(Completion::kOnFirstError));
    }
    loop.qp.ring();
    eventually([&] { return loop.memory.load<uint64_t>(8) == round; },
               std::chrono::microseconds(20));
    loop.reset();
    for (uint64_t i = 0; i < 4; ++i) loop.memory.store<uint64_t>(8 * i, 0);
    loop.connect(static_cast<uint32_t>(round * 1000));  // what is still on the wire is not of it
    loop.qp.post(write_inline<uint64_t>(512, loop.memory.key, round));
    loop.qp.ring();
    ASSERT_EQ(loop.cq.await().kind, CqeOpcode::kRequester);
    for (uint64_t i = 0; i < 4; ++i) ASSERT_EQ(loop.memory.load<uint64_t>(8 * i), 0u) << round;
  }
}

// The acknowledgement of a WRITE that is held may come after its responder alone was reset: the
// bytes are there then, too.
TEST_F(SoftnicPlacement, WhatIsAcknowledgedBehindAResetIsThere) {
  Loop loop(*nic, pd, false);
  uint32_t acknowledged = 0;
  // Where cores are few none may be for a while.
  for (uint64_t round = 1; round <= 3000 || (acknowledged == 0 && round <= 300'000); ++round) {
    loop.qp.post(write_inline<uint64_t>(kData, loop.memory.key, round));
    loop.qp.ring();
    eventually([&] { return loop.memory.load<uint64_t>(kData) == round; },
               std::chrono::microseconds(8));
    EXPECT_FALSE(loop.other.to(QpState::kReset, QpState::kReadyToSend).refused());
    if (eventually([&] { return loop.cq.ready(); }, std::chrono::microseconds(200))) {
      if (loop.cq.await().syndrome == Syndrome::kNone) {
        ++acknowledged;
        ASSERT_EQ(loop.memory.load<uint64_t>(kData), round);
      }
    }
    loop.reset();
    while (loop.cq.ready()) loop.cq.await();  // what was flushed
    loop.connect(static_cast<uint32_t>(round * 1000));
  }
  EXPECT_GT(acknowledged, 0u);
}

}  // namespace
}  // namespace peal::softnic::testing
