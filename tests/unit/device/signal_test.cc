// SPDX-License-Identifier: Apache-2.0
//
// Signals: which WQEs follow the data, in which order, under how many completions; and the
// receiver who sees the data once it sees the signal.
#include "device/signal.h"

#include <array>
#include <string>
#include <vector>

#include "device/atomics.h"
#include "device/sync.h"
#include "device/wait.h"
#include "gtest/gtest.h"
#include "tests/support/device_rig.h"

namespace peal {
namespace {

using testing::DeviceRig;
using testing::kSource;
using testing::kTarget;
using testing::NicThread;
using testing::SeenWqe;

constexpr size_t kFlag = 0x4000;

const char* const kSet =
    "00000008 abc00103 00000008 00000000 00000000 00004000 11223301 00000000 "
    "80000008 88776655 44332211 00000000";
const char* const kAdd =
    "00000012 abc00104 00000008 00000000 00000000 00004000 11223301 00000000 "
    "11223344 55667788 00000000 00000000 00000008 77000001 00000000 00000840";

/// A golden WQE at another index.
std::string at_index(std::string golden, const char* index) { return golden.replace(2, 4, index); }

Signal set_flag(DeviceRig& rig) {
  return Signal::set(rig.local<uint64_t>(kFlag), 0x1122334455667788, 1);
}
Signal add_flag(DeviceRig& rig) {
  return Signal::add(rig.local<uint64_t>(kFlag), 0x1122334455667788, 1);
}

TEST(Signal, SetIsAnInlineWriteOf8Bytes) {
  DeviceRig rig;
  EXPECT_EQ(signal(rig.context(), set_flag(rig)), Status::kOk);
  rig.step_all();
  EXPECT_EQ(rig.nic(1).seen().at(0).text(), kSet);
  EXPECT_EQ(*rig.remote<uint64_t>(1, kFlag), 0x1122334455667788u);
}

TEST(Signal, AddIsAnAtomicWhoseResultNobodyReads) {
  DeviceRig rig;
  *rig.remote<uint64_t>(1, kFlag) = 1;
  EXPECT_EQ(signal(rig.context(), add_flag(rig)), Status::kOk);
  rig.step_all();
  EXPECT_EQ(rig.nic(1).seen().at(0).text(), kAdd);
  EXPECT_EQ(*rig.remote<uint64_t>(1, kFlag), 0x1122334455667789u);
  for (size_t i = 0; i < kLandingCells; ++i) {
    ASSERT_EQ(rig.rig(1).landing(i).value, 0u) << "cells belong to fetches";
  }
}

// Where a NIC executes atomics ahead of WRITEs: bits 7 to 5 say strong order. Fails at 63fa10b:
// signals that were atomics had no fence.
TEST(Signal, ThatIsAnAtomicStartsBehindWhatIsAheadWhereItMust) {
  for (const bool add : {false, true}) {
    for (const uint32_t signals : {kSignalsSwap, kSignalsSwap | kSignalsWait}) {
      DeviceRig rig;
      Context ctx = rig.context();
      ctx.signals = signals;
      {
        const NicThread nics(rig);
        EXPECT_EQ(put_signal(ctx, rig.heap() + kTarget, rig.heap() + kSource, 100,
                             add ? add_flag(rig) : set_flag(rig)),
                  Status::kOk);
      }
      ASSERT_EQ(rig.nic(1).seen().size(), 2u);
      EXPECT_EQ(rig.nic(1).seen()[0].text().substr(18, 8), "00000004") << "the data";
      EXPECT_EQ(rig.nic(1).seen()[1].text().substr(18, 8),
                (signals & kSignalsWait) != 0 ? "00000068" : "00000008");
    }
  }
}

TEST(Signal, AReleaseWaitsForWhatIsAheadWhereAnAtomicWouldNot) {
  for (const bool waits : {false, true}) {
    DeviceRig rig;
    Context ctx = rig.context();
    ctx.signals = waits ? kSignalsSwap | kSignalsWait : kSignalsSwap;
    {
      const NicThread nics(rig);
      EXPECT_EQ(put(ctx, rig.heap() + kTarget, rig.heap() + kSource, 100, 1), Status::kOk);
      EXPECT_EQ(atomic_add(ctx, rig.local<uint64_t>(kFlag), 1, 1, release), Status::kOk);
      EXPECT_EQ(quiet(ctx), Status::kOk);
    }
    using testing::kFetchAdd, testing::kRead, testing::kWrite;
    EXPECT_EQ(opcodes(rig),
              waits ? (testing::Ops{kWrite, kRead, kFetchAdd}) : (testing::Ops{kWrite, kFetchAdd}));
  }
}

struct Case {
  const char* name;
  uint64_t bytes;
  bool add;
  size_t wqes;
};

void PrintTo(const Case& tested, std::ostream* out) { *out << tested.name; }

class PutSignal : public ::testing::TestWithParam<Case> {};

TEST_P(PutSignal, FollowsItsDataInOneReservation) {
  const Case tested = GetParam();
  DeviceRig rig;
  std::memset(rig.heap() + kSource, 7, 1000);
  const Signal what = tested.add ? add_flag(rig) : set_flag(rig);
  const Ticket ticket =
      put_signal_nbi(rig.context(), rig.heap() + kTarget, rig.heap() + kSource, tested.bytes, what);
  EXPECT_EQ(ticket.status, Status::kOk);
  EXPECT_EQ(ticket.index, tested.wqes - 1);
  EXPECT_EQ(rig.rig(1).record(), tested.wqes) << "one doorbell";
  rig.step_all();
  const auto& seen = rig.nic(1).seen();
  ASSERT_EQ(seen.size(), tested.wqes);
  if (tested.wqes == 2) {
    EXPECT_EQ(seen[0].opcode(), 0x08);
    EXPECT_EQ(seen[0].remote_address(), kTarget);
    EXPECT_FALSE(seen[0].signalled()) << "the signal's completion covers the data";
  }
  EXPECT_EQ(seen.back().text(),
            at_index(tested.add ? kAdd : kSet, tested.wqes == 2 ? "0001" : "0000"));
  EXPECT_EQ(*rig.remote<uint64_t>(1, kFlag), 0x1122334455667788u);
  for (size_t i = 0; i < 1000; ++i) {
    ASSERT_EQ(*rig.remote<uint8_t>(1, kTarget + i), i < tested.bytes ? 7 : 0);
  }
}

INSTANTIATE_TEST_SUITE_P(
    Every, PutSignal,
    ::testing::Values(Case{"SetBehindNothing", 0, false, 1}, Case{"SetBehind8", 8, false, 2},
                      Case{"SetBehind12", 12, false, 2}, Case{"SetBehind28", 28, false, 2},
                      Case{"SetBehind29", 29, false, 2}, Case{"SetBehind1000", 1000, false, 2},
                      Case{"AddBehindNothing", 0, true, 1}, Case{"AddBehind8", 8, true, 2},
                      Case{"AddBehind28", 28, true, 2}, Case{"AddBehind1000", 1000, true, 2}),
    [](const auto& tested) { return std::string(tested.param.name); });

TEST(Signal, FollowsTheLastPartOfAHugePut) {
  DeviceRig rig;
  constexpr uint64_t kGiB = uint64_t{1} << 30;
  const std::array<NicKey, 2> keys = {mlx5::key(0xaa), mlx5::key(0xbb)};
  auto* const base = reinterpret_cast<std::byte*>(uintptr_t{1} << 44);  // not there, never touched
  rig.windows().window[1] = {base, 8 * kGiB, {mlx5::key(0x77)}, keys.data(), keys.data(), nullptr};
  rig.windows().count = 2;
  const Ticket ticket =
      put_signal_nbi(rig.context(), base, base + 4 * kGiB, kGiB + 1, set_flag(rig));
  rig.step_all();
  ASSERT_EQ(rig.nic(1).seen().size(), 3u);
  EXPECT_EQ(rig.nic(1).seen()[1].data_bytes(), 1u);
  EXPECT_EQ(rig.nic(1).seen()[2].text(), at_index(kSet, "0002"));
  EXPECT_EQ(ticket.index, 2u);
}

template <class Scope>
PEAL_KERNEL signal_by(Context ctx, Scope scope, std::byte* heap) {
  (void)put_signal_nbi(ctx, scope, heap + kTarget, heap + kSource, 40,
                       Signal::add(reinterpret_cast<uint64_t*>(heap + kFlag), 1, 1));
}

TEST(Signal, LanesOfAWarpPostDataAndSignalInTurn) {
  DeviceRig rig;
  launch({.blocks = 1, .threads = 32}, signal_by<Thread>, rig.context(), thread, rig.heap()).wait();
  rig.step_all();
  const auto& seen = rig.nic(1).seen();
  ASSERT_EQ(seen.size(), 64u);
  for (size_t i = 0; i < 64; ++i) {
    EXPECT_EQ(seen[i].opcode(), i % 2 == 0 ? 0x08 : 0x12);
    EXPECT_EQ(seen[i].signalled(), i == 63);
  }
  EXPECT_EQ(*rig.remote<uint64_t>(1, kFlag), 32u);
}

TEST(Signal, AWarpOrBlockSignalsOnce) {
  DeviceRig rig;
  launch({.blocks = 1, .threads = 64}, signal_by<Warp>, rig.context(), warp, rig.heap()).wait();
  rig.step_all();
  EXPECT_EQ(*rig.remote<uint64_t>(1, kFlag), 2u);
  launch({.blocks = 1, .threads = 64}, signal_by<Block>, rig.context(), block, rig.heap()).wait();
  rig.step_all();
  EXPECT_EQ(*rig.remote<uint64_t>(1, kFlag), 3u);
  EXPECT_EQ(rig.nic(1).seen().size(), 6u);
}

TEST(Signal, MistakesPostNothing) {
  DeviceRig rig;
  auto* const flag = rig.local<uint64_t>(kFlag);
  auto* const crooked = reinterpret_cast<uint64_t*>(rig.heap() + kFlag + 4);
  uint64_t elsewhere = 0;
  EXPECT_EQ(signal(rig.context(), Signal::set(flag, 1, 2)), Status::kBadPe);
  EXPECT_EQ(signal(rig.context(), Signal::set(&elsewhere, 1, 1)), Status::kNotSymmetric);
  EXPECT_EQ(signal(rig.context(), Signal::add(crooked, 1, 1)), Status::kMisaligned);
  EXPECT_EQ(put_signal(rig.context(), rig.heap(), rig.heap(), 100, Signal::set(crooked, 1, 1)),
            Status::kMisaligned);
  EXPECT_EQ(put_signal(rig.context(), rig.heap() - 8, rig.heap(), 8, Signal::set(flag, 1, 1)),
            Status::kNotSymmetric);
  EXPECT_EQ(rig.queue(1).reserved, 0u) << "no signal without its data";
}

TEST(Signal, AMisalignedOneIsKeptWithItsAddress) {
  DeviceRig rig;
  auto* const crooked = reinterpret_cast<uint64_t*>(rig.heap() + kFlag + 2);
  EXPECT_EQ(signal(rig.context(), Signal::set(crooked, 1, 1)), Status::kMisaligned);
  EXPECT_EQ(rig.usage().status, static_cast<uint32_t>(Status::kMisaligned));
  EXPECT_EQ(rig.usage().address, reinterpret_cast<uint64_t>(crooked));
  EXPECT_EQ(rig.usage().pe, 1);
  EXPECT_EQ(rig.usage().bytes, 8u);
  EXPECT_EQ(quiet(rig.context()), Status::kMisaligned);
}

PEAL_KERNEL send_and_receive(Context ctx, uint32_t* data, uint64_t* flag, uint32_t* wrong) {
  // Block 0 sends to its own PE, block 1 waits.
  constexpr uint32_t kCount = 200;
  if (block_in_grid() == 0) {
    uint32_t* const source = data + kCount;
    for (uint32_t i = thread_in_block(); i < kCount; i += threads_in_block()) source[i] = i + 1;
    if (put_signal(ctx, block, data, source, kCount, Signal::set(flag, 1, 0)) != Status::kOk) {
      atomicAdd(wrong, 1u);
    }
  } else {
    if (wait_until(ctx, block, flag, Compare::kEq, 1) != Status::kOk) atomicAdd(wrong, 1u);
    for (uint32_t i = 0; i < kCount; ++i) {
      if (data[i] != i + 1) atomicAdd(wrong, 1u);
    }
  }
}

// Under ThreadSanitizer: from the stores of all lanes of the sending block, through queue and NIC,
// to the loads of all lanes of the receiving one.
TEST(Signal, WhoSeesTheSignalSeesTheData) {
  DeviceRig rig;
  uint32_t wrong = 0;
  {
    const NicThread nics(rig);
    launch({.blocks = 2, .threads = 64}, send_and_receive, rig.context(),
           rig.local<uint32_t>(kTarget), rig.local<uint64_t>(kFlag), &wrong)
        .wait();
  }
  EXPECT_EQ(wrong, 0u);
}

TEST(Signal, AMappedPeerIsSignalledByAStore) {
  DeviceRig rig;
  std::byte* direct[2] = {nullptr, rig.heap_of(1)};
  rig.windows().window[0].direct = direct;
  std::memset(rig.heap() + kSource, 7, 100);
  EXPECT_EQ(
      put_signal(rig.context(), rig.heap() + kTarget, rig.heap() + kSource, 100, add_flag(rig)),
      Status::kOk);
  EXPECT_EQ(signal(rig.context(), Signal::add(rig.local<uint64_t>(kFlag), 1, 1)), Status::kOk);
  EXPECT_EQ(*rig.remote<uint64_t>(1, kFlag), 0x1122334455667789u);
  EXPECT_EQ(*rig.remote<uint8_t>(1, kTarget + 99), 7);
  EXPECT_EQ(rig.queue(1).reserved, 0u);
}

// Data by the NIC, its signal by a store into a window that is mapped. Fails at 438a779: the signal
// followed the ACK, which does not say that the peer sees the data by any other way.
TEST(Signal, OfAMappedWindowFollowsAReadBehindTheData) {
  DeviceRig rig({.settle = true});
  alignas(8) std::byte window[8] = {};
  std::byte* direct[2] = {nullptr, window};
  rig.windows().window[1] = {window, sizeof window, {}, nullptr, nullptr, direct};
  rig.windows().count = 2;
  const NicThread nics(rig);
  auto* const flag = reinterpret_cast<uint64_t*>(window);
  EXPECT_EQ(put_signal(rig.context(), rig.heap() + kTarget, rig.heap() + kSource, 100,
                       Signal::set(flag, 5, 1)),
            Status::kOk);
  EXPECT_EQ(*flag, 5u);
  ASSERT_EQ(rig.nic(1).seen().size(), 2u);
  EXPECT_EQ(rig.nic(1).seen()[1].opcode(), 0x10);
}

TEST(PutSignal, WithNothingToSendNeedsNoDestination) {
  DeviceRig rig;
  auto* flag = rig.local<uint64_t>(64);
  const int* nowhere = nullptr;
  EXPECT_EQ(
      put_signal(rig.context(), const_cast<int*>(nowhere), nowhere, 0, Signal::set(flag, 5, 1)),
      Status::kOk);
  EXPECT_EQ(posted_end(rig.queue(1).posted), 1u);
  EXPECT_EQ(rig.usage().status, 0u);
}

}  // namespace
}  // namespace peal
