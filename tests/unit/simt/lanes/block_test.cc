// SPDX-License-Identifier: Apache-2.0
//
// Blocks: the barrier, shared memory, and blocks that wait for one another by spinning.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <set>
#include <string>
#include <vector>

#include "simt/lanes/lane.h"
#include "simt/lanes/launch.h"
#include "tests/unit/simt/support.h"

namespace peal::simt {
namespace {

/// Waits for all lanes of the grid.
void meet_all(std::atomic<unsigned>& arrived, unsigned lanes) {
  ++arrived;
  while (arrived < lanes) yield();
}

TEST(SimtBlock, OrdersMemoryAtTheBarrier) {
  // Plain memory: ThreadSanitizer reports this test when the barrier does not order it.
  std::vector<unsigned> cells(3 * 100);
  std::atomic<unsigned> wrong{0};
  run({3, 100}, [&] {
    unsigned* const mine = &cells[blockIdx.x * 100];
    for (unsigned round = 0; round < 5; ++round) {
      mine[threadIdx.x] = threadIdx.x + round;
      sync_block();
      const unsigned next = (threadIdx.x + 37) % 100;
      if (mine[next] != next + round) ++wrong;
      sync_block();
    }
  });
  EXPECT_EQ(wrong, 0U);
}

TEST(SimtBlock, DoesNotWaitForLanesThatEnded) {
  std::atomic<unsigned> passed{0};
  run({2, 96}, [&passed] {
    if (threadIdx.x % 3 == 0) return;
    sync_block();
    if (threadIdx.x % 3 == 1) return;
    sync_block();
    ++passed;
  });
  EXPECT_EQ(passed, 64U);
}

TEST(SimtBlock, CompletesTheBarrierWhenTheLastMissingLaneEnds) {
  std::atomic<unsigned> passed{0};
  run({1, 64}, [&passed] {
    if (threadIdx.x == 10) {
      for (int i = 0; i < 50; ++i) yield();
      return;
    }
    sync_block();
    ++passed;
  });
  EXPECT_EQ(passed, 63U);
}

TEST(SimtBlock, AllowsDifferentBarrierSites) {
  std::atomic<unsigned> passed{0};
  run({1, 64}, [&passed] {
    if (threadIdx.x % 2 == 0) {
      sync_block();
    } else {
      sync_block();
      ++passed;
    }
  });
  EXPECT_EQ(passed, 32U);
}

TEST(SimtBlock, CountsPredicates) {
  std::vector<int> counts(70);
  run({1, 70}, [&counts] {
    counts[threadIdx.x] = sync_block_count(threadIdx.x < 10);
    counts[threadIdx.x] += 100 * sync_block_count(threadIdx.x >= 65);
  });
  for (const int count : counts) EXPECT_EQ(count, 510);
}

TEST(SimtBlock, ReportsMixedBarriers) {
  const std::string error = error_of({1, 64}, [] {
    if (threadIdx.x < 40) {
      sync_block();
    } else {
      sync_block_count(true);
    }
  });
  EXPECT_NE(error.find("lane 8: __syncthreads_count, but other lanes of the block wait in "
                       "__syncthreads"),
            std::string::npos)
      << error;
}

TEST(SimtBlock, ReportsABarrierThatAWarpCollectiveBlocks) {
  const std::string error = error_of({1, 32}, [] {
    if (lane_id() == 0) {
      sync_warp(0x3);
    } else {
      sync_block();
    }
  });
  EXPECT_NE(error.find("deadlock"), std::string::npos) << error;
}

// The blocks here are resident at the same time: later ones take over the memory of those before.
TEST(SimtShared, IsOnePieceForABlock) {
  static const int key = 0;
  std::vector<void*> at(4 * 64);
  std::atomic<unsigned> arrived{0};
  run({4, 64}, [&] {
    meet_all(arrived, 4 * 64);
    auto* const cells = static_cast<unsigned*>(block_shared(&key, 64 * sizeof(unsigned), 64));
    cells[threadIdx.x] = threadIdx.x * 3;
    sync_block();
    EXPECT_EQ(cells[63 - threadIdx.x], (63 - threadIdx.x) * 3);
    at[blockIdx.x * 64 + threadIdx.x] = cells;
  });
  for (unsigned i = 0; i < at.size(); ++i) EXPECT_EQ(at[i], at[i / 64 * 64]);
  EXPECT_EQ(std::set<void*>(at.begin(), at.end()).size(), 4U);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(at[0]) % 64, 0U);
}

TEST(SimtShared, KeepsKeysApart) {
  run({2, 32}, [] {
    static const int keys[2] = {};
    auto* const first = static_cast<unsigned*>(block_shared(&keys[0], 4, 4));
    auto* const second = static_cast<unsigned*>(block_shared(&keys[1], 4, 4));
    EXPECT_NE(first, second);
    if (lane_id() == 0) *first = 1 + blockIdx.x;
    if (lane_id() == 1) *second = 10 + blockIdx.x;
    sync_block();
    EXPECT_EQ(*first, 1 + blockIdx.x);
    EXPECT_EQ(*second, 10 + blockIdx.x);
  });
}

TEST(SimtShared, ReportsSizesThatDisagree) {
  const std::string error = error_of({1, 2}, [] {
    static const int key = 0;
    block_shared(&key, 16 + lane_id() * 8, 8);
  });
  EXPECT_NE(error.find("block_shared of 24 bytes"), std::string::npos) << error;
}

TEST(SimtShared, ReportsAlignmentsThatCannotBe) {
  const std::string error = error_of({1, 1}, [] {
    static const int key = 0;
    block_shared(&key, 16, 12);
  });
  EXPECT_NE(error.find("aligned to 12"), std::string::npos) << error;
}

TEST(SimtShared, GivesDynamicMemoryOfTheSizeAskedFor) {
  constexpr size_t kBytes = 100 * 1024;
  std::vector<void*> at(3);
  std::atomic<unsigned> arrived{0};
  run({3, 32, kBytes}, [&] {
    meet_all(arrived, 3 * 32);
    auto* const bytes = static_cast<unsigned char*>(dynamic_shared());
    const size_t share = kBytes / 32;
    std::memset(bytes + lane_id() * share, static_cast<int>(lane_id() + 1), share);
    sync_block();
    EXPECT_EQ(bytes[(31 - lane_id()) * share], 32 - lane_id());
    if (lane_id() == 0) at[blockIdx.x] = bytes;
  });
  for (void* const start : at) EXPECT_EQ(reinterpret_cast<uintptr_t>(start) % 128, 0U);
  EXPECT_EQ(std::set<void*>(at.begin(), at.end()).size(), 3U);
}

TEST(SimtShared, IsNullWhenNoneWasAskedFor) {
  run({1, 2}, [] { EXPECT_EQ(dynamic_shared(), nullptr); });
}

// ---- grids that synchronise by spinning

// A barrier of the whole grid, written as a kernel would.
class GridBarrier {
 public:
  explicit GridBarrier(unsigned blocks) : blocks_(blocks) {}

  void wait() {
    sync_block();
    if (thread_rank() == 0) {
      const unsigned generation = generation_.load();
      if (arrived_.fetch_add(1) + 1 == blocks_) {
        arrived_ = 0;
        generation_ = generation + 1;
      }
      while (generation_.load() == generation) yield();
    }
    sync_block();
  }

 private:
  const unsigned blocks_;
  std::atomic<unsigned> arrived_{0};
  std::atomic<unsigned> generation_{0};
};

void cross_grid_barriers(unsigned workers) {
  const LimitsFor scope(with_workers(workers));
  constexpr unsigned kBlocks = 13;
  GridBarrier barrier(kBlocks);
  std::vector<unsigned> cells(kBlocks);
  std::atomic<unsigned> wrong{0};
  run({kBlocks, 33}, [&] {
    for (unsigned round = 1; round <= 20; ++round) {
      if (thread_rank() == 0) cells[blockIdx.x] = round;
      barrier.wait();
      if (cells[(blockIdx.x + 5) % kBlocks] != round) ++wrong;
      barrier.wait();
    }
  });
  EXPECT_EQ(wrong, 0U);
}

TEST(SimtGrid, CrossesSpinBarriersOnOneWorker) { cross_grid_barriers(1); }

TEST(SimtGrid, CrossesSpinBarriersOnTwoWorkers) { cross_grid_barriers(2); }

TEST(SimtGrid, CrossesSpinBarriersOnMoreWorkersThanCpus) { cross_grid_barriers(6); }

TEST(SimtGrid, CarriesMessagesBetweenBlocks) {
  constexpr unsigned kMessages = 500;
  std::atomic<unsigned> full{0};
  unsigned mailbox = 0;
  uint64_t sum = 0;
  run({2, 1}, [&] {
    for (unsigned i = 1; i <= kMessages; ++i) {
      if (blockIdx.x == 0) {
        while (full.load(std::memory_order_acquire) != 0) yield();
        progressed();
        mailbox = i;
        full.store(1, std::memory_order_release);
      } else {
        while (full.load(std::memory_order_acquire) == 0) yield();
        progressed();
        sum += mailbox;
        full.store(0, std::memory_order_release);
      }
    }
  });
  EXPECT_EQ(sum, uint64_t{kMessages} * (kMessages + 1) / 2);
}

TEST(SimtGrid, GivesEverySpinningLaneItsTurns) {
  // Lanes count their turns until the slowest has 100: round robin keeps them together.
  std::vector<std::atomic<unsigned>> turns(64);
  run({1, 64}, [&turns] {
    while (turns[63] < 100) {
      ++turns[threadIdx.x];
      yield();
    }
  });
  for (const auto& count : turns) {
    EXPECT_GE(count, 99U);
    EXPECT_LE(count, 101U);
  }
}

}  // namespace
}  // namespace peal::simt
