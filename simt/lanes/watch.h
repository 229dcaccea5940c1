// SPDX-License-Identifier: Apache-2.0
//
// What a worker's thread is told by a signal, SIGURG, from a timer on its CPU time, every
// Limits::busy_ms: that a lane runs on and on. A lane that is in the same slice as one tick before
// has neither called peal nor yielded for so long, which is said on stderr. crash.h has the signals
// that end a process.
#pragma once

#include <semaphore.h>
#include <time.h>

#include <atomic>
#include <cstdint>

#include "simt/lanes/crash.h"

namespace peal::simt {

/// A lane that has run for long: what the handler of a signal leaves for somebody to tell.
struct BusyLane {
  uint64_t kernel = 0;
  uint64_t code = 0;  // where it was
  uint64_t block = 0;
  unsigned thread = 0;
};

/// A semaphore that a handler of a signal may post.
class Bell {
 public:
  Bell() { ::sem_init(&semaphore_, 0, 0); }
  ~Bell() { ::sem_destroy(&semaphore_); }
  Bell(const Bell&) = delete;
  Bell& operator=(const Bell&) = delete;

  void ring() { ::sem_post(&semaphore_); }
  void wait() {
    while (::sem_wait(&semaphore_) != 0) {  // interrupted by a signal
    }
  }

 private:
  sem_t semaphore_;
};

/// The signals of the calling thread, while it lives: for the thread of a worker.
class SignalWatch {
 public:
  /// `slices` counts up when another slice begins; `bell` rings when there is something to tell.
  SignalWatch(unsigned busy_ms, const std::atomic<uint64_t>& slices, Bell& bell);
  ~SignalWatch();
  SignalWatch(const SignalWatch&) = delete;
  SignalWatch& operator=(const SignalWatch&) = delete;

  /// For the handler.
  void tick(uint64_t code);

  /// What was found, once. Any thread.
  bool take(BusyLane* found);

 private:
  enum State : int { kNothing, kFound, kTaken };

  const SignalStack signal_stack_;
  const std::atomic<uint64_t>& slices_;
  Bell& bell_;
  uint64_t last_ = 0;  // `slices` one tick before
  std::atomic<int> state_{kNothing};
  BusyLane found_;
  bool timed_ = false;
  timer_t timer_{};
};

/// Says on stderr that the lane has run so long.
void tell(const BusyLane& lane, unsigned busy_ms);

}  // namespace peal::simt
