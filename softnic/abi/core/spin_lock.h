// SPDX-License-Identifier: Apache-2.0
//
// The lock of one queue, between the threads that use it. The engine never takes one.
#pragma once

#include <atomic>
#include <thread>

namespace peal::softnic::abi {

/// Held for the time of a post or a poll; whoever waits longer gives its CPU to the holder.
class SpinLock {
 public:
  void lock() {
    for (uint32_t tries = 0; held_.exchange(true, std::memory_order_acquire); ++tries) {
      if (tries >= kSpins) std::this_thread::yield();
    }
  }
  bool try_lock() { return !held_.exchange(true, std::memory_order_acquire); }
  void unlock() { held_.store(false, std::memory_order_release); }

 private:
  static constexpr uint32_t kSpins = 64;
  std::atomic<bool> held_{false};
};

}  // namespace peal::softnic::abi
