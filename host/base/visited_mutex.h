// SPDX-License-Identifier: Apache-2.0
//
// The mutex of a thread that lets go of it for moments only, and of those who visit it. A plain one
// the thread would have again before anybody who waits has woken.
#pragma once

#include <atomic>
#include <mutex>
#include <thread>

namespace peal {

class VisitedMutex {
 public:
  /// Holds the mutex, for any thread but the one that lives behind it.
  class Visit {
   public:
    explicit Visit(VisitedMutex& visited) {
      visited.visitors_.fetch_add(1);
      lock_ = std::unique_lock(visited.mutex_);
      visited.visitors_.fetch_sub(1);
    }

   private:
    std::unique_lock<std::mutex> lock_;
  };

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
