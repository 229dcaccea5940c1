// SPDX-License-Identifier: Apache-2.0
//
// The time codes of a queue pair in nanoseconds.
#pragma once

#include <cstdint>

#include "softnic/engine/objects.h"

namespace peal::softnic {

/// One try of a request: 4.096 us << code as the manual has it, kept between what a shared machine
/// needs at least and what anybody wants to wait at most. Code 0 (for ever) still asks again.
PEAL_HD uint64_t try_ns(const Timing& timing, uint8_t code) {
  const uint64_t exact = code == 0 || code > 31 ? timing.longest_try : 4096ull << code;
  const uint64_t bounded = exact < timing.shortest_try  ? timing.shortest_try
                           : exact > timing.longest_try ? timing.longest_try
                                                        : exact;
  return static_cast<uint64_t>(static_cast<double>(bounded) * timing.scale);
}

/// RNR timer: 1, 2, 3, 4, 6, 8, 12, 16 ... times 10 us; code 0 is the longest.
PEAL_HD uint64_t rnr_ns(uint8_t code) {
  constexpr uint64_t kTick = 10'000;
  const uint32_t n = code & 31;
  if (n == 0) return kTick << 16;
  if (n == 1) return kTick;
  return n % 2 == 0 ? kTick << (n / 2) : (3 * kTick) << ((n - 3) / 2);
}

}  // namespace peal::softnic
