// SPDX-License-Identifier: Apache-2.0
//
// Rings a NIC for kernels that cannot reach its register: each of their queues rings a word of host
// memory instead, and a thread copies what it finds there to the register.
//
//   kernel: WQEs, record, word   ->   thread: word, register   ->   NIC: record, WQEs
//
// The thread takes a value away as it copies it, so a kernel that rings twice, the second time
// behind a fence, is copied behind that fence at least once (kRecordBeforeSecondDoorbell). A word's
// values reach the register in their order, and the newest always does.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <thread>
#include <vector>

#include "base/visited_mutex.h"

namespace peal {

/// The thread, of one NIC. All functions may be called from any thread, while kernels run.
class Assist {
 public:
  /// `reg` is the doorbell register as this process has it.
  explicit Assist(uint64_t* reg);
  /// Passes on what is in the words still.
  ~Assist();
  Assist(const Assist&) = delete;
  Assist& operator=(const Assist&) = delete;

  /// From now on passes on what is stored into words[0..count), which are zero.
  void watch(uint64_t* words, size_t count);
  /// On return the thread looks at them no more.
  void forget(const uint64_t* words);
  /// Doorbells passed on so far.
  uint64_t passed_on() const { return passed_on_.load(); }

 private:
  struct Range {
    uint64_t* words;
    size_t count;
  };

  void run();
  bool look();

  uint64_t* const register_;
  VisitedMutex mutex_;
  std::condition_variable changed_;
  std::atomic<uint64_t> passed_on_{0};
  std::vector<Range> ranges_;
  bool stopping_ = false;
  std::thread thread_;  // last: it uses the others
};

}  // namespace peal
