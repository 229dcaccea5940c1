// SPDX-License-Identifier: Apache-2.0
//
// The one wait loop: which of its three ends it takes, and when it looks.
#include "device/base/spin.h"

#include "device/base/launch.h"
#include "device/base/scope.h"
#include "gtest/gtest.h"

namespace peal {
namespace {

constexpr auto kNever = [] { return false; };

TEST(Spin, AConditionThatHoldsCostsNeitherClockNorStop) {
  int stops = 0;
  const SpinEnd end = spin_until(
      1, [] { return true; }, [&] { return ++stops != 0; });
  EXPECT_EQ(end, SpinEnd::kDone);
  EXPECT_EQ(stops, 0);
}

TEST(Spin, ReturnsOnceTheConditionHolds) {
  int turns = 0;
  EXPECT_EQ(spin_until(
                0, [&] { return ++turns == 1000; }, kNever),
            SpinEnd::kDone);
  EXPECT_EQ(turns, 1000);
}

TEST(Spin, LooksAtStopEvery32Turns) {
  int turns = 0;
  const SpinEnd end = spin_until(
      0, [&] { return ++turns < 0; }, [] { return true; });
  EXPECT_EQ(end, SpinEnd::kStopped);
  EXPECT_LE(turns, 33);
}

TEST(Spin, WithoutADeadlineOnlyStopEndsIt) {
  int stops = 0;
  EXPECT_EQ(spin_until(0, kNever, [&] { return ++stops == 50; }), SpinEnd::kStopped);
  EXPECT_EQ(stops, 50);
}

TEST(Spin, GivesUpAfterItsDeadlineAndNotBefore) {
  constexpr uint64_t kPatience = 3'000'000;
  const uint64_t start = now_ns();
  EXPECT_EQ(spin_until(kPatience, kNever, kNever), SpinEnd::kTimedOut);
  EXPECT_GE(now_ns() - start, kPatience);
}

TEST(Spin, StopGoesBeforeTheDeadline) {
  EXPECT_EQ(spin_until(1, kNever, [] { return true; }), SpinEnd::kStopped);
}

TEST(Spin, AConditionMetAtTheLastMomentCounts) {
  // The last look comes after the clock's.
  bool late = false;
  const auto stop_late = [&] {
    late = true;
    const Deadline passed = Deadline::in(1000);
    while (!passed.passed()) {
    }
    return false;
  };
  EXPECT_EQ(spin_until(
                1, [&] { return late; }, stop_late),
            SpinEnd::kDone);
}

TEST(Deadline, ZeroIsNever) { EXPECT_FALSE(Deadline::in(0).passed()); }

TEST(Deadline, AVeryLongOneHasNotPassed) {
  EXPECT_FALSE(Deadline::in(~uint64_t{0}).passed());
  EXPECT_FALSE(Deadline::in(~uint64_t{0} / 2).passed());
}

PEAL_KERNEL wait_for_the_other(uint32_t* word) {
  if (threadIdx.x == 0) {
    spin_until(
        0, [&] { return __atomic_load_n(word, __ATOMIC_ACQUIRE) == 1; }, kNever);
    __atomic_store_n(word, 2u, __ATOMIC_RELEASE);
  } else {
    __atomic_store_n(word, 1u, __ATOMIC_RELEASE);
    spin_until(
        0, [&] { return __atomic_load_n(word, __ATOMIC_ACQUIRE) == 2; }, kNever);
  }
}

TEST(Spin, AWaitingLaneLetsTheLaneItWaitsForRun) {
  uint32_t word = 0;
  launch({.blocks = 1, .threads = 2}, wait_for_the_other, &word).wait();
  EXPECT_EQ(word, 2u);
}

}  // namespace
}  // namespace peal
