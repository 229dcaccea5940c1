// SPDX-License-Identifier: Apache-2.0
//
// The mutex of a thread that lets go of it for moments only, and of those who visit it. A plain one
// the thread would have again before anybody who waits has woken.
//
//   the thread:  let_visitors_in(), lock own(), one round, unlock
//   a visitor:   lock(), unlock()
#pragma once

#include <atomic>
#include <mutex>
#include <thread>

namespace peal {

class VisitedMutex {
 public:
  /// The lock of a visitor.
  using Visit = std::lock_guard<VisitedMutex>;
  void lock() {
    visitors_.fetch_add(1);
    mutex_.lock();
    visitors_.fetch_sub(1);
  }
  void unlock() { mutex_.unlock(); }

  /// What the thread itself locks.
  std::mutex& own() { return mutex_; }
  /// For the thread, when it has let go: returns once nobody waits.
  void let_visitors_in() const {
    while (visitors_.load() != 0) std::this_thread::yield();
  }

 private:
  std::mutex mutex_;
  std::atomic<int> visitors_{0};
};

}  // namespace peal
