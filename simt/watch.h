// SPDX-License-Identifier: Apache-2.0
//
// What a worker's thread is told by signals: that a lane runs on and on, and that a lane has used
// up its stack. Both are said on stderr; the second ends the process as it would have ended anyway.
//
//   SIGURG   from a timer on the thread's CPU time, every Limits::busy_ms. A lane that is in the
//            same slice as one tick before has neither called peal nor yielded for so long
//   SIGSEGV  on a stack of its own; within a guard page it names the lane, then the handler of
//            before takes over
#pragma once

#include <semaphore.h>
#include <time.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>

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
class Watch {
 public:
  /// `slices` counts up when another slice begins; `bell` rings when there is something to tell.
  Watch(unsigned busy_ms, const std::atomic<uint64_t>& slices, Bell& bell);
  ~Watch();
  Watch(const Watch&) = delete;
  Watch& operator=(const Watch&) = delete;

  /// For the handler.
  void tick(uint64_t code);

  /// What was found, once. Any thread.
  bool take(BusyLane* found);

 private:
  enum State : int { kNothing, kFound, kTaken };
  static constexpr size_t kSignalStack = 64 << 10;

  const std::atomic<uint64_t>& slices_;
  Bell& bell_;
  uint64_t last_ = 0;  // `slices` one tick before
  std::atomic<int> state_{kNothing};
  BusyLane found_;
  bool timed_ = false;
  timer_t timer_{};
  std::unique_ptr<std::byte[]> signal_stack_;
};

/// Says on stderr that the lane has run so long.
void tell(const BusyLane& lane, unsigned busy_ms);

}  // namespace peal::simt
