// SPDX-License-Identifier: Apache-2.0
//
// Which time counts for deadlines, by clocks of the test's own.
#include "base/run_clock.h"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>
#include <vector>

namespace peal {
namespace {

constexpr uint64_t kMillisecond = 1'000'000;
constexpr uint64_t kSecond = 1'000 * kMillisecond;
constexpr uint64_t kHour = 3600 * kSecond;
// To what a stop is known: a few ticks of RunTime.
constexpr uint64_t kNear = 100 * kMillisecond;

/// A process that began some time ago.
struct Process {
  RunTime time;
  uint64_t now_ns = 5 * kHour;
  uint64_t cpu_ns = kSecond;

  uint64_t look() {
    return time.look([this] { return now_ns; }, [this] { return cpu_ns; });
  }
  uint64_t start = look();
  uint64_t running() { return look() - start; }
};

TEST(RunClock, IsTheSteadyClockOfAProcessThatLooksAtIt) {
  Process process;
  for (int i = 1; i <= 1000; ++i) {
    process.now_ns += 100 * kMillisecond;
    EXPECT_EQ(process.running(), i * 100 * kMillisecond);
  }
}

// Each stop in a debugger ended all waits that were under way: an hour had passed by the clock.
TEST(RunClock, StandsStillWhileTheProcessIsHeld) {
  Process process;
  for (uint64_t stops = 1; stops <= 20; ++stops) {
    process.now_ns += kHour;
    EXPECT_LE(process.running(), stops * kNear);
    process.now_ns += kMillisecond;
    EXPECT_LE(process.running(), stops * kNear + stops * kMillisecond);
  }
}

TEST(RunClock, NeverRunsBackwards) {
  Process process;
  uint64_t last = process.running();
  for (uint64_t i = 0; i < 2000; ++i) {
    process.now_ns += i * i * i % 977 * kMillisecond;
    process.cpu_ns += i % 7 * kMillisecond;
    const uint64_t now = process.running();
    EXPECT_GE(now, last);
    last = now;
  }
}

// Lanes that compute for long between two turns of a wait have a deadline all the same.
TEST(RunClock, CountsTimeInWhichTheProcessComputed) {
  Process process;
  for (int i = 1; i <= 10; ++i) {
    process.now_ns += 10 * kSecond;
    process.cpu_ns += 10 * kSecond;
    EXPECT_EQ(process.running(), i * 10 * kSecond);
  }
  process.now_ns += kHour;
  process.cpu_ns += kSecond;
  EXPECT_LE(process.running(), 101 * kSecond + kNear);
  EXPECT_GE(process.running(), 101 * kSecond - kNear);
}

// Every thread that waits looks right after a stop: it is taken out once, and nobody sees the time
// of the stop before it was.
TEST(RunClock, ThreadsThatLookAtOnceTakeAStopOutOnce) {
  RunTime time;
  std::atomic<uint64_t> now_ns{kHour};
  const auto look = [&] {
    return time.look([&] { return now_ns.load(); }, [] { return uint64_t{0}; });
  };
  const uint64_t start = look();
  std::atomic<bool> over{false};
  std::atomic<uint64_t> furthest{0};
  std::vector<std::thread> lookers;
  for (int i = 0; i < 3; ++i) {
    lookers.emplace_back([&] {
      while (!over) {
        const uint64_t running = look() - start;
        if (running > furthest) furthest = running;
      }
    });
  }
  constexpr uint64_t kStops = 1000;
  for (uint64_t i = 0; i < kStops; ++i) {
    now_ns += kHour;
    look();
  }
  over = true;
  for (std::thread& looker : lookers) looker.join();
  EXPECT_LE(furthest, kStops * kNear);
  EXPECT_LE(look() - start, kStops * kNear);
}

TEST(RunClock, AThreadThatWaitsLooksAgainSoon) {
  EXPECT_EQ(RunClock::slice(RunClock::now() + std::chrono::hours(1)), RunClock::kSlice);
  EXPECT_EQ(RunClock::slice(RunClock::now() - std::chrono::hours(1)), RunClock::duration::zero());
}

}  // namespace
}  // namespace peal
