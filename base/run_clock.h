// SPDX-License-Identifier: Apache-2.0
//
// The clock of deadlines on a CPU: it stands still while the process does. A debugger may hold a
// process for an hour, or a shell (Ctrl-Z) or a freezer; its waits must not all have timed out when
// it goes on.
//
//   CLOCK_MONOTONIC   ----looks-----|      held       |---looks----
//   RunClock          --------------|-|---------------------          what its CPU time was
//   meanwhile
//
// No system call tells how long a process was stopped, and after a debugger has detached nothing is
// left to ask. But a process that waits looks at its clock all the time, at least once a kSlice.
// Two looks that are further apart than kLongest are of a process that was held, or that computed:
// of such an interval no more counts than the CPU time in it. A process that gets no CPU is held,
// too.
#pragma once

#include <time.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>

#include "base/clock.h"

namespace peal {

/// Time less the time held. Thread-safe; orders nothing, so that ThreadSanitizer sees no order
/// between lanes where there is none.
class RunTime {
 public:
  /// Now. `clock` and `cpu` answer nanoseconds of a steady clock and of the process's CPU time.
  template <class Clock, class Cpu>
  uint64_t look(const Clock& clock, const Cpu& cpu) {
    for (;;) {
      // First the word: a stop behind this line shows in what the clock says.
      uint64_t word = word_.load(std::memory_order_relaxed);
      const uint64_t now_ns = clock();
      const uint32_t tick = static_cast<uint32_t>(now_ns >> kTickBits);
      const uint32_t apart = tick - seen(word);
      uint32_t out = held(word);
      // Negative: CPUs may differ by a little.
      if (static_cast<int32_t>(apart) < static_cast<int32_t>(kRefresh)) return less(now_ns, out);
      const uint64_t cpu_ns = cpu();
      if (apart > kLongest) out += not_run(apart, cpu_ns);
      // Who comes second looks again: what was held is taken out once.
      if (word_.compare_exchange_strong(word, uint64_t{out} << 32 | tick,
                                        std::memory_order_relaxed)) {
        cpu_ns_.store(cpu_ns, std::memory_order_relaxed);
        return less(now_ns, out);
      }
    }
  }

 private:
  // In ticks of 16.8 ms, so that 32 bits last for two years.
  static constexpr unsigned kTickBits = 24;
  static constexpr uint32_t kRefresh = 2;
  static constexpr uint32_t kLongest = 16;

  static uint32_t seen(uint64_t word) { return static_cast<uint32_t>(word); }
  static uint32_t held(uint64_t word) { return static_cast<uint32_t>(word >> 32); }
  static uint64_t less(uint64_t now_ns, uint32_t out) {
    return now_ns - (uint64_t{out} << kTickBits);
  }
  /// How many of `apart` ticks the process did not run in. kRefresh: time never runs backwards.
  uint32_t not_run(uint32_t apart, uint64_t cpu_ns) const {
    const uint64_t used = (cpu_ns - cpu_ns_.load(std::memory_order_relaxed)) >> kTickBits;
    return apart - static_cast<uint32_t>(std::min<uint64_t>(used + kRefresh, apart));
  }

  // When the clock was looked at last, and above it what was held: one word, so that nobody sees
  // one without the other.
  std::atomic<uint64_t> word_{0};
  std::atomic<uint64_t> cpu_ns_{0};  // at about that time
};

/// Nanoseconds in which this process ran. For deadlines; only differences mean anything.
inline uint64_t running_ns() {
  // One for each library: time is the process's, and whoever looks must know when others did.
  static constinit RunTime time;
  return time.look(monotonic_ns, [] {
    timespec used;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &used);
    return static_cast<uint64_t>(used.tv_sec) * 1'000'000'000u +
           static_cast<uint64_t>(used.tv_nsec);
  });
}

/// The same as a clock of the standard library.
struct RunClock {
  using duration = std::chrono::nanoseconds;
  using rep = duration::rep;
  using period = duration::period;
  using time_point = std::chrono::time_point<RunClock>;
  static constexpr bool is_steady = true;

  static time_point now() { return time_point(duration(static_cast<rep>(running_ns()))); }

  /// A thread that sleeps looks again after this time at the latest.
  static constexpr std::chrono::milliseconds kSlice{100};
  /// How long to sleep now for one that waits until `until`: not below 0.
  static duration slice(time_point until) {
    return std::clamp<duration>(until - now(), duration::zero(), kSlice);
  }
};

}  // namespace peal
