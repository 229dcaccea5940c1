// SPDX-License-Identifier: Apache-2.0
//
// A question asked in a process of its own: whatever a vendor's library does there (crash, hang,
// exit), the asker goes on.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <functional>
#include <string>

#include "base/fd.h"

namespace peal::doctor {

/// Forks in the constructor; `body` runs in the child and its text is the answer. To be used before
/// the process has threads.
class Child {
 public:
  using Clock = std::chrono::steady_clock;

  /// Throws kSystem if no process can be had.
  explicit Child(const std::function<std::string()>& body);
  /// Ends the child if it still runs.
  ~Child();
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;

  struct Answer {
    std::string text;
    std::string problem;  // why there is no text; empty if there is
  };
  /// Waits for the answer until `deadline`. To be called once.
  Answer wait_until(Clock::time_point deadline);

 private:
  std::string cause_of_death(Clock::time_point deadline);

  pid_t pid_ = -1;
  Fd pipe_;
};

}  // namespace peal::doctor
