// SPDX-License-Identifier: Apache-2.0
//
// How one run of a simulation goes about it, drawn from its seed: different runs look for different
// trouble.
#pragma once

#include <cstdint>

#include "simt/simulation/memory.h"
#include "simt/simulation/random.h"

namespace peal::simt {

struct SeedProfile {
  uint32_t switch_one_in;  // operations on memory
  uint32_t sleep_one_in;   // slices
  MemoryWeakness weakness;
};

inline SeedProfile draw_profile(Random& random) {
  constexpr uint32_t kSwitch[] = {2, 4, 16};
  constexpr uint32_t kSleep[] = {20, 100, 1000};
  constexpr uint32_t kStale[] = {32, 96, 160, 224};
  constexpr uint64_t kHorizon[] = {256, 2048, 16384};
  SeedProfile profile{};
  profile.switch_one_in = kSwitch[random.below(3)];
  profile.sleep_one_in = kSleep[random.below(3)];
  profile.weakness.stale_in_256 = kStale[random.below(4)];
  profile.weakness.horizon = kHorizon[random.below(3)];
  return profile;
}

}  // namespace peal::simt
