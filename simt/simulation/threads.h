// SPDX-License-Identifier: Apache-2.0
//
// Threads, mutexes and condition variables of a program's host: the standard's, and in a simulation
// processes of it (simt/simulation/simulated_process.h), whose waits let others run and whose locks
// order modelled memory.
#pragma once

#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>

#include "simt/simulation/memory.h"

namespace peal::simt {

struct SimulatedProcess;

/// For std::lock_guard and std::unique_lock.
class Mutex {
 public:
  void lock();
  void unlock();

 private:
  friend class Condition;
  std::mutex mutex_;
  bool taken_ = false;  // in a simulation
  Released released_;   // by whoever had it last
};

class Condition {
 public:
  /// done() is asked under the lock, and may throw.
  template <class Done>
  void wait(std::unique_lock<Mutex>& lock, const Done& done) {
    if (done()) return;
    begin(lock);
    do {
      wait_once(lock);
    } while (!done());
  }
  void notify_all() { changed_.notify_all(); }

 private:
  void begin(std::unique_lock<Mutex>& lock);
  void wait_once(std::unique_lock<Mutex>& lock);
  std::condition_variable_any changed_;
};

/// Joined before it is destroyed, as std::thread is.
class ProcessThread {
 public:
  ProcessThread() = default;
  explicit ProcessThread(std::function<void()> body);
  void join();

 private:
  std::thread thread_;
  std::shared_ptr<SimulatedProcess> process_;
};

}  // namespace peal::simt
