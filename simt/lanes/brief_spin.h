// SPDX-License-Identifier: Apache-2.0
//
// What a thread of the host does before it sleeps: to be woken takes longer than a short kernel.
#pragma once

#include <sched.h>

#include <chrono>

namespace peal::simt {

/// Looks at done() for some microseconds, in which others may have the CPU; true once it is.
template <class Done>
bool spin_briefly(const Done& done) {
  constexpr auto kLongest = std::chrono::microseconds(30);
  constexpr int kLooks = 64;  // for each offer of the CPU, a system call
  const auto begin = std::chrono::steady_clock::now();
  do {
    for (int i = 0; i < kLooks; ++i) {
      if (done()) return true;
    }
    ::sched_yield();
  } while (std::chrono::steady_clock::now() - begin < kLongest);
  return done();
}

}  // namespace peal::simt
