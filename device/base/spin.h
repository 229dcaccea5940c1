// SPDX-License-Identifier: Apache-2.0
//
// The one way to wait inside a kernel. A wait ends because its condition holds, because somebody
// said stop, or because its deadline passed: there is no fourth case.
#pragma once

#include <bit>
#include <cstdint>

#include "device/base/target.h"

#if !PEAL_CUDA
#include "simt/lanes/lane.h"
#endif
#if PEAL_CUDA && !PEAL_ON_GPU
#include <sched.h>
#include <time.h>
#endif

namespace peal {

// Turns of a wait before a GPU's lane naps between them, some 20 us on an H200, and for how long at
// most: a hundredth of that.
inline constexpr uint32_t kTurnsBeforeNap = 31;
inline constexpr uint32_t kNapNs = 200;

/// Nanoseconds of a steady clock; only differences mean anything.
PEAL_HD uint64_t now_ns() {
#if PEAL_ON_GPU
  uint64_t ns;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(ns));
  return ns;
#elif !PEAL_CUDA
  return simt::now_ns();
#else
  timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<uint64_t>(now.tv_sec) * 1'000'000'000u + static_cast<uint64_t>(now.tv_nsec);
#endif
}

/// The clock of deadlines: on a CPU it stands still while the process does.
PEAL_HD uint64_t deadline_ns() {
#if PEAL_CUDA
  return now_ns();
#else
  return simt::running_ns();
#endif
}

/// What a waiting lane does each turn: lets other lanes, and on a CPU the NIC and other processes,
/// run.
PEAL_HD void relax() {
#if PEAL_ON_GPU
#elif PEAL_CUDA
  sched_yield();
#else
  simt::yield();
#endif
}

/// What a waiting lane of a GPU does each turn, once its wait is long. Lanes of its warp that took
/// another branch run meanwhile, among them those whose slots others wait for, and the word waited
/// for is left to who writes it. Without it 1,056 warps that shared 4 queues waited for room for
/// seconds.
PEAL_HD void nap() {
#if PEAL_ON_GPU
  __nanosleep(kNapNs);
#endif
}

/// Tells the scheduler of a CPU that this lane's wait has ended: many short waits are no long one.
PEAL_HD void end_of_wait() {
#if !PEAL_CUDA
  simt::progressed();
#endif
}

/// A point in time after which a wait gives up. 0 means never.
class Deadline {
 public:
  PEAL_HD static Deadline in(uint64_t ns) {
    if (ns == 0) return Deadline(0);
    const uint64_t at_ns = deadline_ns() + ns;
    return Deadline(at_ns < ns ? ~uint64_t{0} : at_ns);
  }
  PEAL_HD bool passed() const { return at_ns_ != 0 && deadline_ns() > at_ns_; }

 private:
  PEAL_HD explicit Deadline(uint64_t at_ns) : at_ns_(at_ns) {}
  uint64_t at_ns_;
};

enum class SpinEnd { kDone, kStopped, kTimedOut };

// A GPU's loads of one word of the host follow one another, 1 us each on an H200 however many lanes
// ask: 99 blocks that look at once wait 100 us. So no wait of a GPU that is shorter than about half
// a millisecond asks the host.
#if PEAL_ON_GPU
inline constexpr uint32_t kTurnsBetweenLooks = 4096;
inline constexpr uint32_t kTurnsBeforeStop = 4095;
#else
inline constexpr uint32_t kTurnsBetweenLooks = 1024;
inline constexpr uint32_t kTurnsBeforeStop = 31;
#endif
/// How often stop() is asked before a wait has lasted kTurnsBetweenLooks turns.
inline constexpr uint32_t kLooksBeforeRecord =
    std::bit_width(kTurnsBetweenLooks / (kTurnsBeforeStop + 1));

/// Repeats done() until it is true; stop() true or `timeout_ns` (0 = none) end the wait early. The
/// clock is looked at after 32 turns, 64, 128, ..., then every kTurnsBetweenLooks; stop(), which
/// may ask memory of the host, likewise from kTurnsBeforeStop on.
template <class Done, class Stop>
PEAL_HD SpinEnd spin_until(uint64_t timeout_ns, Done done, Stop stop) {
  Deadline deadline = Deadline::in(0);
  // Counted modulo 2^32: `look` goes round as `turn` does, and is a multiple of kTurnsBetweenLooks,
  // less 1, by then.
  uint32_t look = 31;
  for (uint32_t turn = 0;; ++turn) {
    if (done()) {
      if (turn != 0) end_of_wait();
      return SpinEnd::kDone;
    }
    if (turn == look) {
      if (turn >= kTurnsBeforeStop && stop()) return SpinEnd::kStopped;
      if (turn == 31) deadline = Deadline::in(timeout_ns);
      if (deadline.passed()) return done() ? SpinEnd::kDone : SpinEnd::kTimedOut;
      look += look + 1 < kTurnsBetweenLooks ? look + 1 : kTurnsBetweenLooks;
    }
    if (turn >= kTurnsBeforeNap) nap();
    relax();
  }
}

}  // namespace peal
