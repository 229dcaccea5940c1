// SPDX-License-Identifier: Apache-2.0
//
// The device's clock: what time stamps of completions count, and what time of day that is.
#pragma once

#include <cstdint>

namespace peal::softnic::abi {

/// Ticks now: nanoseconds of CLOCK_MONOTONIC, as in CQEs.
uint64_t device_clock();
/// Nanoseconds since 1970 at that tick.
uint64_t wall_clock_of(uint64_t tick);

}  // namespace peal::softnic::abi
