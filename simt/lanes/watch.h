// SPDX-License-Identifier: Apache-2.0
//
// What a worker's thread is told by a signal, SIGURG, from a timer on its CPU time, every
// Limits::busy_ms: that a lane runs on and on. A lane that is in the same slice as one tick before
// has neither called peal nor yielded for so long, which is said on stderr: by a thread that the
// process has for it, for the lane's own is busy. crash.h has the signals that end a process.
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
  unsigned busy_ms = 0;
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

/// The signals of the calling thread, while it lives: of one that runs lanes.
class SignalWatch {
 public:
  SignalWatch();
  ~SignalWatch();
  SignalWatch(const SignalWatch&) = delete;
  SignalWatch& operator=(const SignalWatch&) = delete;

  /// Another launch: who runs for so long is told of once; 0: never.
  void begin(unsigned busy_ms);

  /// Another slice begins.
  void count_slice() {
    slices_.store(slices_.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
  }

  /// Called by the signal handler.
  void tick(uint64_t code);

  /// What was found, once. Any thread.
  bool take(BusyLane* found);

 private:
  enum State : int { kNothing, kFound, kTaken };

  const SignalStack signal_stack_;
  std::atomic<uint64_t> slices_{0};  // begun; one thread writes
  Bell& bell_;
  // `slices_` one tick before. To ThreadSanitizer a handler is of the lane that it interrupts.
  std::atomic<uint64_t> last_{0};
  std::atomic<int> state_{kNothing};
  BusyLane found_;
  unsigned busy_ms_ = 0;
  bool timed_ = false;
  timer_t timer_{};
};

}  // namespace peal::simt
