// SPDX-License-Identifier: Apache-2.0
//
// Fetching atomics that do not wait, and those that a NIC has no operation for: what is posted,
// where the old value goes, what happens when somebody comes between.
#include <cmath>
#include <limits>
#include <vector>

#include "device/atomics.h"
#include "device/atomics_nbi.h"
#include "device/rma.h"
#include "device/sync.h"
#include "gtest/gtest.h"
#include "tests/support/device_rig.h"

namespace peal {
namespace {

using testing::Background;
using testing::DeviceRig;
using testing::kDump;
using testing::kFetchAdd;
using testing::kMillisecond;
using testing::NicThread;
using testing::opcodes;
using testing::Ops;
using testing::SeenWqe;

constexpr size_t kWord = 0x40;
constexpr size_t kOld = 0x400;
constexpr uint8_t kSwapIf = 0x11;
constexpr uint8_t kMaskedSwap = 0x14;
constexpr uint8_t kMaskedAdd = 0x15;

TEST(FetchLater, TheOldValueComesToTheCallersMemory) {
  DeviceRig rig;
  *rig.remote<uint64_t>(1, kWord) = 40;
  auto* const old = rig.local<uint64_t>(kOld);
  *old = 7;
  const auto ctx = rig.context();
  const Ticket ticket = atomic_fetch_add_nbi(ctx, old, rig.local<uint64_t>(kWord), 2, 1);
  EXPECT_EQ(ticket.status, Status::kOk);
  EXPECT_FALSE(test(ctx, ticket));
  EXPECT_EQ(*old, 7u);
  rig.step_all();
  EXPECT_TRUE(test(ctx, ticket));
  EXPECT_EQ(*old, 40u);
  EXPECT_EQ(*rig.remote<uint64_t>(1, kWord), 42u);
  ASSERT_EQ(opcodes(rig), Ops{kFetchAdd});
  EXPECT_EQ(rig.nic(1).seen()[0].lkey(), DeviceRig::kHeapLkey);
  EXPECT_EQ(rig.nic(1).seen()[0].local_address(), kOld);
  EXPECT_EQ(rig.queue(1).landing_ticket, 0u);
}

TEST(FetchLater, FourBytesAreWaitedForBecauseTheyArriveReversed) {
  DeviceRig rig;
  *rig.remote<uint32_t>(1, kWord) = 0x01020304;
  const auto ctx = rig.context();
  Ticket ticket{};
  {
    const NicThread nics(rig);
    ticket = atomic_swap_nbi(ctx, rig.local<uint32_t>(kOld), rig.local<uint32_t>(kWord), 9u, 1);
  }
  EXPECT_EQ(ticket.status, Status::kOk);
  EXPECT_TRUE(test(ctx, ticket));
  EXPECT_EQ(*rig.local<uint32_t>(kOld), 0x01020304u);
  EXPECT_EQ(*rig.remote<uint32_t>(1, kWord), 9u);
}

// A CPU thread that carries out masked atomics writes their values into the queue's cells: it was
// given any address of the kernel's, which it cannot reach, and failed the queue.
TEST(FetchLater, WhereValuesComeToCellsAloneTheyAreWaitedFor) {
  DeviceRig rig;
  rig.queue(1).to_cells = 1;
  *rig.remote<uint64_t>(1, kWord) = 40;
  const auto ctx = rig.context();
  Ticket ticket{};
  {
    const NicThread nics(rig);
    ticket = atomic_swap_nbi(ctx, rig.local<uint64_t>(kOld), rig.local<uint64_t>(kWord), 9, 1);
  }
  EXPECT_EQ(ticket.status, Status::kOk);
  EXPECT_EQ(*rig.local<uint64_t>(kOld), 40u);
  EXPECT_EQ(rig.nic(1).seen()[0].local_address() % sizeof(LandingCell), 0u);
  EXPECT_NE(rig.nic(1).seen()[0].lkey(), DeviceRig::kHeapLkey);
}

TEST(FetchLater, IntoMemoryThatNoNicKnowsTheyAreWaitedFor) {
  DeviceRig rig;
  *rig.remote<uint64_t>(1, kWord) = 40;
  const auto ctx = rig.context();
  uint64_t mine = 0;
  const NicThread nics(rig);
  const Ticket ticket = atomic_fetch_inc_nbi(ctx, &mine, rig.local<uint64_t>(kWord), 1);
  EXPECT_EQ(ticket.status, Status::kOk);
  EXPECT_TRUE(test(ctx, ticket));
  EXPECT_EQ(mine, 40u);
}

TEST(FetchLater, IntoMemoryOfAnotherBusADumpVouchesForTheValue) {
  DeviceRig rig;
  rig.windows().window[0].dumped = 1;
  const auto ctx = rig.context();
  const Ticket ticket =
      atomic_swap_nbi(ctx, rig.local<uint64_t>(kOld), rig.local<uint64_t>(kWord), 9, 1);
  EXPECT_EQ(rig.nic(1).step(1), 1u);
  EXPECT_FALSE(test(ctx, ticket));
  rig.step_all();
  EXPECT_TRUE(test(ctx, ticket));
  EXPECT_EQ(opcodes(rig), (Ops{kMaskedSwap, kDump}));
}

TEST(FetchLater, MistakesPostNothing) {
  DeviceRig rig({.timeout_ns = kMillisecond});
  const auto ctx = rig.context();
  uint64_t mine = 0;
  auto* const word = rig.local<uint64_t>(kWord);
  auto* const old = rig.local<uint64_t>(kOld);
  auto* const crooked = reinterpret_cast<uint64_t*>(rig.heap() + kOld + 4);
  EXPECT_EQ(atomic_fetch_inc_nbi(ctx, crooked, word, 1).status, Status::kMisaligned);
  EXPECT_EQ(rig.usage().address, reinterpret_cast<uint64_t>(crooked));
  EXPECT_EQ(atomic_fetch_inc_nbi(ctx, old, crooked, 1).status, Status::kMisaligned);
  EXPECT_EQ(atomic_fetch_inc_nbi(ctx, old, word, 2).status, Status::kBadPe);
  EXPECT_EQ(atomic_fetch_inc_nbi(ctx, old, &mine, 1).status, Status::kNotSymmetric);
  EXPECT_EQ(rig.queue(1).reserved, 0u);
}

TEST(FetchLater, AFailureIsToldByTheTicket) {
  DeviceRig rig;
  rig.nic(1).fail(0, mlx5::Syndrome::kRemoteAccess, 0);
  const auto ctx = rig.context();
  const Ticket ticket =
      atomic_fetch_nbi(ctx, rig.local<uint64_t>(kOld), rig.local<uint64_t>(kWord), 1);
  rig.step_all();
  EXPECT_EQ(wait(ctx, ticket), Status::kQueueError);
}

TEST(ByCompareSwap, AWordIsReadAndThenSwapped) {
  DeviceRig rig;
  *rig.remote<double>(1, kWord) = 1.25;
  *rig.remote<float>(1, kWord + 8) = 5.0f;
  {
    const NicThread nics(rig);
    const auto ctx = rig.context();
    EXPECT_EQ(atomic_fetch_add(ctx, rig.local<double>(kWord), 2.5, 1).value, 1.25);
    EXPECT_EQ(atomic_min(ctx, rig.local<float>(kWord + 8), -1.0f, 1), Status::kOk);
  }
  EXPECT_EQ(opcodes(rig), (Ops{kFetchAdd, kSwapIf, kMaskedAdd, kMaskedSwap}));
  EXPECT_EQ(*rig.remote<double>(1, kWord), 3.75);
  EXPECT_EQ(*rig.remote<float>(1, kWord + 8), -1.0f);
}

TEST(ByCompareSwap, NothingIsSwappedWhereNothingChanges) {
  DeviceRig rig;
  *rig.remote<int64_t>(1, kWord) = -3;
  {
    const NicThread nics(rig);
    EXPECT_EQ(atomic_fetch_max(rig.context(), rig.local<int64_t>(kWord), -4, 1).value, -3);
  }
  EXPECT_EQ(opcodes(rig), Ops{kFetchAdd});
}

// Between the read and the swap somebody else changes the word: the swap must not undo that.
TEST(ByCompareSwap, IsTriedAgainWhenSomebodyCameBetween) {
  DeviceRig rig;
  *rig.remote<double>(1, kWord) = 1;
  {
    const Background nic([&rig] {
      const size_t done = rig.nic(1).step(1);
      if (done == 1 && rig.nic(1).seen().size() == 1) *rig.remote<double>(1, kWord) = 100;
      return done;
    });
    EXPECT_EQ(atomic_fetch_add(rig.context(), rig.local<double>(kWord), 0.5, 1).value, 100.0);
  }
  EXPECT_EQ(*rig.remote<double>(1, kWord), 100.5);
  EXPECT_EQ(opcodes(rig), (Ops{kFetchAdd, kSwapIf, kSwapIf}));
}

TEST(ByCompareSwap, EndsWithTheQueuesError) {
  DeviceRig rig;
  rig.nic(1).fail(1, mlx5::Syndrome::kRemoteAccess, 0);
  const NicThread nics(rig);
  EXPECT_EQ(atomic_fetch_min(rig.context(), rig.local<double>(kWord), -1.0, 1).status,
            Status::kQueueError);
}

TEST(ByCompareSwap, EndsAtTheDeadline) {
  DeviceRig rig({.timeout_ns = kMillisecond});
  EXPECT_EQ(atomic_add(rig.context(), rig.local<double>(kWord), 1.0, 1), Status::kTimeout);
}

TEST(ByCompareSwap, MistakesPostNothing) {
  DeviceRig rig;
  double mine = 0;
  EXPECT_EQ(atomic_add(rig.context(), rig.local<double>(0), 1.0, 2), Status::kBadPe);
  EXPECT_EQ(atomic_max(rig.context(), &mine, 1.0, 1), Status::kNotSymmetric);
  EXPECT_EQ(atomic_min(rig.context(), rig.local<double>(kWord) + 1, 1.0, -1), Status::kBadPe);
  auto* const crooked = reinterpret_cast<float*>(rig.heap() + kWord + 2);
  EXPECT_EQ(atomic_fetch_add(rig.context(), crooked, 1.0f, 1).status, Status::kMisaligned);
  EXPECT_EQ(rig.queue(1).reserved, 0u);
}

TEST(Mapped, RealsAndExtremesAreChangedDirectly) {
  DeviceRig rig;
  std::byte* direct[2] = {nullptr, rig.heap_of(1)};
  rig.windows().window[0].direct = direct;
  const auto ctx = rig.context();
  auto* const there = rig.remote<float>(1, kWord);
  auto* const word = rig.local<float>(kWord);
  *there = 1;
  EXPECT_EQ(atomic_fetch_add(ctx, word, 0.5f, 1).value, 1.0f);
  EXPECT_EQ(atomic_add(ctx, word, 1.0f, 1), Status::kOk);
  EXPECT_EQ(*there, 2.5f);
  EXPECT_EQ(atomic_fetch_max(ctx, word, 2.0f, 1).value, 2.5f);
  EXPECT_EQ(atomic_fetch_min(ctx, word, 2.0f, 1).value, 2.5f);
  EXPECT_EQ(*there, 2.0f);
  *rig.remote<int32_t>(1, kWord) = -7;
  EXPECT_EQ(atomic_max(ctx, rig.local<int32_t>(kWord), 3, 1), Status::kOk);
  EXPECT_EQ(*rig.remote<int32_t>(1, kWord), 3);
  *rig.remote<uint32_t>(1, kWord) = 0xfffffff0u;
  EXPECT_EQ(atomic_fetch_min(ctx, rig.local<uint32_t>(kWord), 5u, 1).value, 0xfffffff0u);
  uint32_t old = 0;
  EXPECT_EQ(atomic_fetch_xor_nbi(ctx, &old, rig.local<uint32_t>(kWord), 4u, 1).status, Status::kOk);
  EXPECT_EQ(old, 5u);
  EXPECT_EQ(*rig.remote<uint32_t>(1, kWord), 1u);
  EXPECT_EQ(rig.queue(1).reserved, 0u);
}

TEST(Mapped, WhatIsNoNumberIsNeitherStoredNorReplacedByMinAndMax) {
  DeviceRig rig;
  std::byte* direct[2] = {nullptr, rig.heap_of(1)};
  rig.windows().window[0].direct = direct;
  const auto ctx = rig.context();
  auto* const there = rig.remote<double>(1, kWord);
  const double none = std::numeric_limits<double>::quiet_NaN();
  *there = 3;
  EXPECT_EQ(atomic_max(ctx, rig.local<double>(kWord), none, 1), Status::kOk);
  EXPECT_EQ(atomic_min(ctx, rig.local<double>(kWord), none, 1), Status::kOk);
  EXPECT_EQ(*there, 3.0);
  *there = none;
  EXPECT_EQ(atomic_max(ctx, rig.local<double>(kWord), 1.0, 1), Status::kOk);
  EXPECT_TRUE(std::isnan(*there));
}

}  // namespace
}  // namespace peal
