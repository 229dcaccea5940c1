// SPDX-License-Identifier: Apache-2.0
//
// Waits of a process that is held: in a debugger, by Ctrl-Z, in a frozen container. The program has
// a clock_gettime() of its own, by which a stop of an hour takes no time: to a process it is a
// steady clock that jumps, and a CPU clock that does not.
#include <gtest/gtest.h>
#include <sys/eventfd.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <atomic>
#include <condition_variable>
#include <mutex>

#include "base/fd.h"
#include "base/patience.h"
#include "base/poll.h"
#include "device/base/spin.h"
#include "simt/lanes/launch.h"

namespace {

constinit std::atomic<time_t> steady_seconds{0};
constinit std::atomic<time_t> cpu_seconds{0};

}  // namespace

extern "C" int clock_gettime(clockid_t id, timespec* time) noexcept {
  const long failed = ::syscall(SYS_clock_gettime, id, time);
  if (id == CLOCK_MONOTONIC) time->tv_sec += steady_seconds;
  if (id == CLOCK_PROCESS_CPUTIME_ID) time->tv_sec += cpu_seconds;
  return static_cast<int>(failed);
}

namespace peal {
namespace {

using std::chrono::minutes;

constexpr uint64_t kMinuteNs = 60'000'000'000;

void hold_for_an_hour() { steady_seconds += 3600; }
void compute_for_an_hour() {
  cpu_seconds += 3600;
  steady_seconds += 3600;
}

/// A wait of a lane with a deadline of a minute, and what happens to it in its hundredth turn.
SpinEnd wait_through(void (*what)()) {
  SpinEnd end = SpinEnd::kStopped;
  simt::launch({1, 1}, [&] {
    int turn = 0;
    const auto done = [&] {
      if (++turn == 100) what();
      return turn == 10'000;
    };
    end = spin_until(kMinuteNs, done, [] { return false; });
  }).wait();
  return end;
}

// A breakpoint for longer than PEAL_TIMEOUT ended every wait of every kernel with kTimeout.
TEST(Held, ALanesDeadlineStandsStill) {
  for (int i = 0; i < 3; ++i) EXPECT_EQ(wait_through(hold_for_an_hour), SpinEnd::kDone);
}

TEST(Held, ALanesDeadlinePassesWhileTheProcessComputes) {
  EXPECT_EQ(wait_through(compute_for_an_hour), SpinEnd::kTimedOut);
}

// The bootstrap's waits, and those of collective calls of the host.
TEST(Held, DeadlinesOfTheHostStandStill) {
  const auto until = RunClock::now() + minutes(1);
  int looks = 0;
  const auto done = [&] {
    if (++looks == 2) hold_for_an_hour();
    return looks == 5;
  };
  EXPECT_TRUE(wait_until(done, until));
  hold_for_an_hour();
  EXPECT_GT(poll_timeout(until), 0);
  compute_for_an_hour();
  EXPECT_EQ(poll_timeout(until), 0);
  std::mutex mutex;
  std::condition_variable changed;
  std::unique_lock lock(mutex);
  EXPECT_FALSE(wait_until(changed, lock, until, [] { return false; }));
}

// Had a thread slept in poll() for all of its time, nothing would tell a stop from that sleep.
TEST(Held, APollLooksAtTheClockAllAlong) {
  const Fd event(::eventfd(0, EFD_CLOEXEC));
  const auto until = RunClock::now() + 5 * RunClock::kSlice;
  EXPECT_EQ(poll_until(event.get(), POLLIN, until), 0);
  EXPECT_GE(RunClock::now(), until);
}

}  // namespace
}  // namespace peal
