// SPDX-License-Identifier: Apache-2.0
//
// Warp collectives: full, partial, divergent and disjoint masks, lanes that converge, and each
// misuse.
#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <string>
#include <vector>

#include "simt/lanes/lane.h"
#include "simt/lanes/launch.h"
#include "simt/lanes/sanitizer.h"
#include "tests/unit/simt/support.h"

namespace peal::simt {
namespace {

constexpr uint32_t kAll = 0xffffffff;

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

TEST(SimtWarp, ShufflesAcrossAllLanes) {
  std::vector<uint64_t> got(64);
  run({1, 64},
      [&got] { got[thread_rank()] = shuffle(kAll, thread_rank() * 10, (lane_id() + 1) % 32); });
  for (unsigned i = 0; i < 64; ++i) EXPECT_EQ(got[i], (i / 32 * 32 + (i + 1) % 32) * 10);
}

TEST(SimtWarp, MarksShufflesFromOutsideTheMask) {
  std::array<uint64_t, 4> got{};
  run({1, 4}, [&got] {
    if (lane_id() < 2) got[lane_id()] = shuffle(0x3, lane_id(), 2);
    if (lane_id() == 2) got[2] = shuffle(0x4, 5, 3);
    if (lane_id() == 3) got[3] = shuffle(0x8, 6, 99);
  });
  for (const uint64_t value : got) EXPECT_EQ(value, kUndefined);
}

TEST(SimtWarp, CountsVotes) {
  std::vector<uint32_t> got(96);
  run({1, 96}, [&got] { got[thread_rank()] = ballot(kAll, thread_rank() % 3 == 0); });
  for (unsigned i = 0; i < 96; ++i) {
    uint32_t expected = 0;
    for (unsigned lane = 0; lane < 32; ++lane) {
      if ((i / 32 * 32 + lane) % 3 == 0) expected |= uint32_t{1} << lane;
    }
    EXPECT_EQ(got[i], expected);
  }
}

TEST(SimtWarp, MatchesEqualValues) {
  std::vector<uint32_t> got(32);
  run({1, 32}, [&got] { got[lane_id()] = match_any(kAll, lane_id() / 8 + (uint64_t{1} << 40)); });
  for (unsigned i = 0; i < 32; ++i) EXPECT_EQ(got[i], uint32_t{0xff} << (i / 8 * 8));
}

TEST(SimtWarp, AcceptsFullMasksFromPartialWarps) {
  std::vector<uint32_t> votes(40);
  std::vector<uint32_t> masks(40);
  run({1, 40}, [&] {
    sync_warp(kAll);
    votes[thread_rank()] = ballot(kAll, true);
    masks[thread_rank()] = warp_mask();
  });
  EXPECT_EQ(votes[0], kAll);
  EXPECT_EQ(votes[39], 0xffU);
  EXPECT_EQ(masks[31], kAll);
  EXPECT_EQ(masks[32], 0xffU);
}

TEST(SimtWarp, LetsDisjointMasksPassOneAnother) {
  // Odd lanes meet ten times while even lanes wait for their last member.
  std::array<unsigned, 2> turns{};
  run({1, 32}, [&turns] {
    const bool odd = lane_id() % 2 == 1;
    const uint32_t mask = odd ? 0xaaaaaaaa : 0x55555555;
    for (unsigned i = 0; i < 10; ++i) {
      if (!odd && lane_id() == 30) {
        for (int delay = 0; delay < 20; ++delay) yield();
      }
      EXPECT_EQ(ballot(mask, true), mask);
      if (lane_id() < 2) turns[lane_id()] += 1;
    }
  });
  EXPECT_EQ(turns[0], 10U);
  EXPECT_EQ(turns[1], 10U);
}

TEST(SimtWarp, MeetsAcrossDivergedCode) {
  std::vector<uint64_t> got(32);
  run({1, 32}, [&got] {
    if (lane_id() < 16) {
      for (unsigned i = 0; i < lane_id(); ++i) yield();
      got[lane_id()] = shuffle(kAll, lane_id(), 31);
    } else {
      got[lane_id()] = shuffle(kAll, lane_id() + 100, 0);
    }
  });
  for (unsigned i = 0; i < 16; ++i) EXPECT_EQ(got[i], 131U);
  for (unsigned i = 16; i < 32; ++i) EXPECT_EQ(got[i], 0U);
}

TEST(SimtWarp, WaitsForLanesBusyInAnotherMask) {
  // Lanes 0 and 1 meet first; lane 2 already waits for all three.
  std::array<uint32_t, 3> got{};
  run({1, 3}, [&got] {
    if (lane_id() == 1) yield();
    if (lane_id() < 2) ballot(0x3, true);
    got[lane_id()] = ballot(0x7, lane_id() != 1);
  });
  for (const uint32_t votes : got) EXPECT_EQ(votes, 0x5U);
}

TEST(SimtWarp, OrdersMemoryAtSyncWarp) {
  // Plain memory: ThreadSanitizer reports this test when sync_warp() does not order it.
  std::vector<unsigned> cells(32);
  std::vector<unsigned> sums(32);
  run({1, 32}, [&] {
    for (unsigned round = 0; round < 4; ++round) {
      cells[lane_id()] = lane_id() + round;
      sync_warp(kAll);
      sums[lane_id()] += cells[(lane_id() + 1) % 32];
      sync_warp(kAll);
    }
  });
  EXPECT_EQ(sums[31], 0U + 1 + 2 + 3);
}

TEST(SimtWarp, CombinesOneVoteAfterAnother) {
  std::vector<unsigned> highest(32);
  run({1, 32}, [&highest] {
    // Binary search for the largest value by votes alone.
    const unsigned mine = (lane_id() * 37 + 11) % 101;
    unsigned best = 0;
    for (unsigned bit = 64; bit != 0; bit /= 2) {
      if (ballot(kAll, mine >= best + bit) != 0) best += bit;
    }
    highest[lane_id()] = best;
  });
  unsigned expected = 0;
  for (unsigned i = 0; i < 32; ++i) expected = std::max(expected, (i * 37 + 11) % 101);
  for (const unsigned best : highest) EXPECT_EQ(best, expected);
}

TEST(SimtWarp, PassesWorkThroughASpinWithinOneWarp) {
  std::atomic<unsigned> turn{0};
  run({1, 32}, [&turn] {
    for (unsigned round = 0; round < 10; ++round) {
      while (turn != round * 32 + lane_id()) yield();
      ++turn;
    }
  });
  EXPECT_EQ(turn, 320U);
}

// ---- convergence

TEST(SimtConvergedMask, GathersAWholeWarp) {
  std::vector<uint32_t> got(48);
  run({1, 48}, [&got] { got[thread_rank()] = converged_mask(); });
  for (unsigned i = 0; i < 48; ++i) EXPECT_EQ(got[i], i < 32 ? kAll : 0xffffU);
}

TEST(SimtConvergedMask, SplitsByCallSite) {
  std::vector<uint32_t> got(32);
  run({1, 32}, [&got] {
    if (lane_id() % 4 == 0) {
      got[lane_id()] = converged_mask();
      sync_warp(0x11111111);
    } else {
      got[lane_id()] = converged_mask() | 0;
      sync_warp(0xeeeeeeee);
    }
  });
  for (unsigned i = 0; i < 32; ++i) EXPECT_EQ(got[i], i % 4 == 0 ? 0x11111111U : 0xeeeeeeeeU);
}

TEST(SimtConvergedMask, GroupsByNamedSite) {
  std::vector<uint32_t> got(32);
  run({1, 32}, [&got] {
    static const int sites[2] = {};
    got[lane_id()] = converged_mask_at(&sites[lane_id() % 2]);
  });
  for (unsigned i = 0; i < 32; ++i) EXPECT_EQ(got[i], i % 2 == 0 ? 0x55555555U : 0xaaaaaaaaU);
}

TEST(SimtConvergedMask, DoesNotWaitForLanesElsewhere) {
  // Lane 0 spins until the others are through, lane 1 has ended, lane 2 waits in a collective.
  std::atomic<unsigned> through{0};
  std::vector<uint32_t> got(8);
  run({1, 8}, [&] {
    if (lane_id() == 0) {
      while (through < 5) yield();
      ballot(0x5, true);
    } else if (lane_id() == 2) {
      ballot(0x5, true);
    } else if (lane_id() > 2) {
      got[lane_id()] = converged_mask();
      ++through;
    }
  });
  for (unsigned i = 3; i < 8; ++i) EXPECT_EQ(got[i], 0xf8U);
}

TEST(SimtConvergedMask, MayLeadACollective) {
  // The idiom of warp-coalesced code: those who are here together elect one to speak for all.
  std::atomic<unsigned> reservations{0};
  std::vector<uint64_t> slots(32);
  run({1, 32}, [&] {
    if (lane_id() % 2 == 0) return;
    const uint32_t mask = converged_mask();
    const auto leader = static_cast<unsigned>(__builtin_ctz(mask));
    uint64_t first = 0;
    if (lane_id() == leader) {
      first = reservations.fetch_add(static_cast<unsigned>(__builtin_popcount(mask)));
    }
    first = shuffle(mask, first, leader);
    const uint32_t before = mask & ((uint32_t{1} << lane_id()) - 1);
    slots[lane_id()] = first + static_cast<unsigned>(__builtin_popcount(before));
  });
  EXPECT_EQ(reservations, 16U);
  for (unsigned i = 1; i < 32; i += 2) EXPECT_EQ(slots[i], i / 2);
}

// ---- misuse

TEST(SimtWarpMisuse, ReportsAMaskWithoutTheCaller) {
  const std::string error = error_of({{2, 3}, 64}, [] {
    if (blockIdx.x == 1 && blockIdx.y == 2 && thread_rank() == 37) ballot(0x7, true);
  });
  EXPECT_TRUE(contains(error, "block (1,2,0), warp 1, lane 5")) << error;
  EXPECT_TRUE(contains(error, "__ballot_sync with mask 0x00000007")) << error;
  EXPECT_TRUE(contains(error, "does not name the caller")) << error;
}

TEST(SimtWarpMisuse, ReportsAMaskThatNamesAnEndedLane) {
  const std::string error = error_of({1, 32}, [] {
    if (lane_id() == 9) return;
    for (int i = 0; i < 5; ++i) yield();
    sync_warp(kAll);
  });
  EXPECT_TRUE(contains(error, "__syncwarp with mask 0xffffffff names lane 9, which has ended"))
      << error;
}

TEST(SimtWarpMisuse, ReportsALaneThatEndsWhileOthersWaitForIt) {
  const std::string error = error_of({1, 32}, [] {
    if (lane_id() == 31) return;
    shuffle(kAll, 0, 0);
  });
  EXPECT_TRUE(contains(error, "__shfl_sync with mask 0xffffffff waits for lane 31")) << error;
}

TEST(SimtWarpMisuse, ReportsMixedCollectives) {
  const std::string error = error_of({1, 32}, [] {
    if (lane_id() < 16) {
      ballot(kAll, true);
    } else {
      match_any(kAll, 1);
    }
  });
  EXPECT_TRUE(contains(error, "lane 16: __match_any_sync")) << error;
  EXPECT_TRUE(contains(error, "but lane 0 waits in __ballot_sync")) << error;
}

TEST(SimtWarpMisuse, ReportsMasksThatDisagree) {
  const std::string error = error_of({1, 4}, [] { sync_warp(lane_id() == 3 ? 0xb : 0xf); });
  EXPECT_TRUE(
      contains(error, "mask 0x0000000b, but lane 0 waits in __syncwarp with mask 0x0000000f"))
      << error;
}

TEST(SimtWarpMisuse, ReportsWhoWaitsWhereInADeadlock) {
  const std::string error = error_of({1, 64}, [] {
    if (thread_rank() == 0) return;
    if (thread_rank() < 4) {
      sync_warp(0xe | 0x10);
    } else {
      sync_block();
    }
  });
  EXPECT_TRUE(contains(error, "deadlock: no lane of block (0,0,0) can run")) << error;
  EXPECT_TRUE(contains(error, "warp 0 lanes 0x0000000e wait in __syncwarp with mask 0x0000001e"))
      << error;
  EXPECT_TRUE(contains(error, "warp 0 lanes 0xfffffff0 wait in __syncthreads")) << error;
  EXPECT_TRUE(contains(error, "warp 0 lanes 0x00000001 have ended")) << error;
  EXPECT_TRUE(contains(error, "warp 1 lanes 0xffffffff wait in __syncthreads")) << error;
}

TEST(SimtWarpMisuse, StopsOtherBlocksThatSpin) {
  const std::string error = error_of({4, 32}, [] {
    if (blockIdx.x == 2 && lane_id() == 0) sync_warp(0x2);
    for (;;) yield();
  });
  EXPECT_TRUE(contains(error, "block (2,0,0)")) << error;
}

}  // namespace
}  // namespace peal::simt
