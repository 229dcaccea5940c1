// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstdint>

namespace peal {

/// What a context of one's own may differ in. 0 = as configured.
struct ContextOptions {
  uint32_t queues_per_peer = 0;
  uint32_t depth = 0;                     // WQEBBs per queue, power of two
  std::chrono::microseconds timeout{-1};  // of every wait; 0 = none, negative = as configured
};

}  // namespace peal
