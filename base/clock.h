// SPDX-License-Identifier: Apache-2.0
//
// The clock of kernels on a CPU, of the software NIC, and of what the host records beside them.
#pragma once

#include <time.h>

#include <cstdint>

namespace peal {

/// Now, by CLOCK_MONOTONIC.
inline uint64_t monotonic_ns() {
  timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<uint64_t>(now.tv_sec) * 1'000'000'000u + static_cast<uint64_t>(now.tv_nsec);
}

}  // namespace peal
