// SPDX-License-Identifier: Apache-2.0
//
// How a thread of the NIC waits for what nothing wakes it for: it looks again at once, then yields,
// then sleeps for short times that grow. Eight processes with an engine each may share two cores.
//
//   looks in vain       0 .. 255   .. 1023   ..
//   before the next     nothing    yield     20 us, 40 us, ... up to 200 us
#pragma once

#include <time.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <thread>

namespace peal::softnic {

inline constexpr uint32_t kLooksAtOnce = 256;
inline constexpr uint32_t kLooksAwake = 1024;

/// Rests after so many looks in vain.
inline void rest(uint32_t looks) {
  constexpr int64_t kShortestSleep = 20'000;
  constexpr int64_t kLongestSleep = 200'000;
  if (looks < kLooksAtOnce) return;
  if (looks < kLooksAwake) {
    std::this_thread::yield();
    return;
  }
  const uint32_t doublings = std::min(4u, (looks - kLooksAwake) / 16);
  const timespec sleep = {0, std::min(kLongestSleep, kShortestSleep << doublings)};
  clock_nanosleep(CLOCK_MONOTONIC, 0, &sleep, nullptr);
}

/// Looks until done() says yes, resting in between; false when `patience` has passed before.
template <class Done>
bool wait_until_done(const Done& done, std::chrono::nanoseconds patience) {
  const auto deadline = std::chrono::steady_clock::now() + patience;
  for (uint32_t looks = 1; !done(); ++looks) {
    if (std::chrono::steady_clock::now() > deadline) return false;
    rest(looks);
  }
  return true;
}

}  // namespace peal::softnic
