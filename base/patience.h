// SPDX-License-Identifier: Apache-2.0
//
// How a thread waits for work that nothing can wake it for: many of them may share few cores. It
// looks again at once, then yields, then naps that grow.
//
//   rounds without work   0, 1      .. 1023   ..
//   before the next       nothing   yield     20 us, 40 us, ... up to the longest
//
// What it waits for is as a rule done by a thread that wants the same core: 64 looks before the
// first yield took the other one up to half of its time. Where nobody else can run a yield returns
// at once.
#pragma once

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <thread>

#include "base/run_clock.h"

namespace peal {

class Patience {
 public:
  using Nap = std::chrono::microseconds;
  static constexpr uint32_t kAwake = 1024;  // rounds without work before the first nap

  /// Who comes after a rest waits for `longest` at most.
  explicit Patience(Nap longest) : longest_(longest) {}

  /// To be called after a round; returns when it is time for the next one.
  void after(bool worked) {
    after(worked, [](Nap nap) { std::this_thread::sleep_for(nap); });
  }

  /// The same for a thread that naps by rest(nap), which something may cut short.
  template <class Rest>
  void after(bool worked, const Rest& rest) {
    rounds_ = worked ? 0 : rounds_ + 1;
    if (rounds_ < kSpins) return;
    const Nap nap = nap_after(rounds_, longest_);
    if (nap == Nap::zero()) {
      std::this_thread::yield();
    } else {
      rest(nap);
    }
  }

  /// The nap after so many rounds without work, none before those that yield.
  static Nap nap_after(uint32_t rounds, Nap longest) {
    if (rounds < kAwake) return Nap::zero();
    const uint32_t doublings = std::min((rounds - kAwake) / kEqualNaps, kMostDoublings);
    return std::min(kShortest * (1u << doublings), longest);
  }

 private:
  static constexpr uint32_t kSpins = 2;
  static constexpr uint32_t kEqualNaps = 16;
  static constexpr uint32_t kMostDoublings = 16;
  static constexpr Nap kShortest{20};

  Nap longest_;
  uint32_t rounds_ = 0;  // without work; wraps after days of naps, to spin once more
};

/// Looks until done() says yes, resting in between; false when `until` has passed before.
template <class Done, class Clock, class Duration>
bool wait_until(const Done& done, std::chrono::time_point<Clock, Duration> until,
                Patience::Nap longest = Patience::Nap(200)) {
  for (Patience patience(longest); !done(); patience.after(false)) {
    if (Clock::now() >= until) return false;
  }
  return true;
}

/// The same for one that is woken: `done` is asked under the lock, whenever `changed` says so.
template <class Done>
bool wait_until(std::condition_variable& changed, std::unique_lock<std::mutex>& lock,
                RunClock::time_point until, const Done& done) {
  while (!done()) {
    if (RunClock::now() >= until) return false;
    changed.wait_for(lock, RunClock::slice(until));
  }
  return true;
}

}  // namespace peal
