// SPDX-License-Identifier: Apache-2.0
//
// When a thread that looks for work naps, and for how long.
#include "base/patience.h"

#include <gtest/gtest.h>
#include <sys/resource.h>

namespace peal {
namespace {

using Nap = Patience::Nap;

TEST(Patience, NapsAfterLongIdlenessOnly) {
  for (const uint32_t rounds : {0u, 1u, 2u, 255u, 1023u}) {
    EXPECT_EQ(Patience::nap_after(rounds, Nap{320}), Nap::zero()) << rounds;
  }
  EXPECT_EQ(Patience::nap_after(1024, Nap{320}), Nap{20});
}

TEST(Patience, NapsGrowToTheLongest) {
  for (const Nap longest : {Nap{50}, Nap{320}, Nap{1000}}) {
    Nap last{0};
    for (uint32_t rounds = Patience::kAwake; rounds < Patience::kAwake + 16 * 40; ++rounds) {
      const Nap nap = Patience::nap_after(rounds, longest);
      EXPECT_GE(nap, last);
      EXPECT_LE(nap, longest);
      last = nap;
    }
    EXPECT_EQ(last, longest);
    EXPECT_EQ(Patience::nap_after(~0u, longest), longest);
  }
}

TEST(Patience, WorkEndsIt) {
  Patience patience(Nap{320});
  rusage before{}, behind{};
  ASSERT_EQ(::getrusage(RUSAGE_THREAD, &before), 0);
  for (int i = 0; i < 100'000; ++i) patience.after(i % 2 == 0);
  ASSERT_EQ(::getrusage(RUSAGE_THREAD, &behind), 0);
  // Had it ever napped, it would have done so tens of thousands of times.
  EXPECT_LT(behind.ru_nvcsw - before.ru_nvcsw, 1000);
}

// The GPU engine's process asked the driver without a rest whether the kernel had stopped, for up
// to 20 s of a core that a PE may need. Whoever sleeps between its looks has few.
TEST(WaitUntil, AThreadThatWaitsForLongLooksSeldom) {
  constexpr std::chrono::milliseconds kWait{50};
  uint32_t looks = 0;
  EXPECT_FALSE(wait_until([&] { return ++looks == 0; }, std::chrono::steady_clock::now() + kWait));
  EXPECT_LE(looks, Patience::kAwake + 2 + kWait / std::chrono::microseconds(20));
}

TEST(WaitUntil, EndsWhenItsThingIsDone) {
  const auto far = std::chrono::steady_clock::now() + std::chrono::minutes(1);
  uint32_t looks = 0;
  EXPECT_TRUE(wait_until([&] { return ++looks == Patience::kAwake + 100; }, far));
  EXPECT_EQ(looks, Patience::kAwake + 100);
  EXPECT_TRUE(wait_until([] { return true; }, std::chrono::steady_clock::now()));
}

// What the look finds out may be an error.
TEST(WaitUntil, EndsWithWhatTheLookThrows) {
  const auto far = std::chrono::steady_clock::now() + std::chrono::minutes(1);
  EXPECT_THROW(wait_until([]() -> bool { throw 1; }, far), int);
}

}  // namespace
}  // namespace peal
