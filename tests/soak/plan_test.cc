// SPDX-License-Identifier: Apache-2.0
//
// The plan of a round keeps to its region. The hazard: a region filled to its last bytes (round
// 4567 of seed 1, after two minutes) made room for more, and the traffic overwrote what others had
// put.
#include "tests/soak/plan.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace peal::soak {
namespace {

// Every round until past the first that fills a region to its last bytes.
TEST(SoakPlan, StaysWithinItsRegion) {
  constexpr uint64_t kRounds = 8000;
  uint64_t fullest = 0;
  for (uint64_t round = 0; round < kRounds; ++round) {
    for (uint32_t i = 0; i < 2 * kBlocks; ++i) {
      Stream stream(1, round, static_cast<int>(i / kBlocks), i % kBlocks, 2);
      for (uint32_t taken = 0; taken < kSteps; ++taken) {
        const Step step = stream.next();
        const uint64_t end = step.offset + uint64_t{step.stride} * step.pieces();
        if (step.bytes == 0) continue;
        ASSERT_LE(end, kRegion - 64) << "round " << round;
        fullest = std::max(fullest, end);
      }
    }
  }
  EXPECT_GT(fullest, kRegion - 128) << "no round came near the end: this test looks at nothing";
}

}  // namespace
}  // namespace peal::soak
