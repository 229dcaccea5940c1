// SPDX-License-Identifier: Apache-2.0
//
// What a worker does between two passes over lanes that all spin: offers its CPU to other threads,
// and after a long wait on a busy machine naps. Up to 8 processes with their workers and NIC
// engines share the CPUs, and the one that waits must not starve the one it waits for.
#pragma once

#include <chrono>

namespace peal::simt {

class Backoff {
 public:
  /// A lane got on: the wait starts anew.
  void reset() { waiting_ = false; }

  /// Every lane has spun once more. Takes 50 us plus a scheduling delay at most.
  void pass();

 private:
  using Clock = std::chrono::steady_clock;

  bool waiting_ = false;
  Clock::time_point since_;
  std::chrono::microseconds nap_{0};
};

}  // namespace peal::simt
