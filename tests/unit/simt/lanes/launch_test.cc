// SPDX-License-Identifier: Apache-2.0
//
// Launching: who runs, with which indices, on what terms, and how a launch ends when a lane fails.
#include "simt/lanes/launch.h"

#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "simt/runtime/cuda_names.h"
#include "tests/unit/simt/support.h"

namespace peal::simt {
namespace {

struct Seen {
  Dim3 thread{0, 0, 0}, block{0, 0, 0}, threads, blocks;
  unsigned lane = 0, warp = 0, rank = 0;
};

// Every lane writes what it sees into the cell of its place in the grid.
std::vector<Seen> observe(const LaneGrid& grid) {
  std::vector<Seen> seen(grid.blocks.count() * grid.threads.count());
  run(grid, [&seen] {
    const unsigned block = (blockIdx.z * gridDim.y + blockIdx.y) * gridDim.x + blockIdx.x;
    const unsigned rank = (threadIdx.z * blockDim.y + threadIdx.y) * blockDim.x + threadIdx.x;
    seen[block * block_threads() + rank] = {threadIdx, blockIdx,  blockDim,     gridDim,
                                            lane_id(), warp_id(), thread_rank()};
  });
  return seen;
}

void expect_indices(const LaneGrid& grid) {
  const std::vector<Seen> seen = observe(grid);
  const uint64_t threads = grid.threads.count();
  for (unsigned i = 0; i < seen.size(); ++i) {
    const unsigned rank = i % static_cast<unsigned>(threads);
    EXPECT_EQ(seen[i].threads, grid.threads) << i;
    EXPECT_EQ(seen[i].blocks, grid.blocks) << i;
    EXPECT_EQ(seen[i].rank, rank);
    EXPECT_EQ(seen[i].lane, rank % 32);
    EXPECT_EQ(seen[i].warp, rank / 32);
  }
}

LaneGrid cooperative(const Dim3& blocks, const Dim3& threads) {
  return {.blocks = blocks, .threads = threads, .cooperative = true};
}

TEST(SimtLaunch, RunsOneLane) { expect_indices({1, 1}); }

TEST(SimtLaunch, NumbersOneDimension) { expect_indices({5, 70}); }

TEST(SimtLaunch, NumbersTwoDimensions) { expect_indices({{3, 2}, {8, 6}}); }

TEST(SimtLaunch, NumbersThreeDimensions) { expect_indices({{2, 3, 2}, {4, 3, 5}}); }

TEST(SimtLaunch, FollowsIndicesAcrossYields) {
  std::atomic<unsigned> wrong{0};
  run({3, {16, 4}}, [&wrong] {
    const Dim3 thread = threadIdx;
    const Dim3 block = blockIdx;
    for (int i = 0; i < 20; ++i) {
      yield();
      if (threadIdx != thread || blockIdx != block) ++wrong;
    }
  });
  EXPECT_EQ(wrong, 0U);
}

TEST(SimtLaunch, KeepsBlocksOnOneThread) {
  std::vector<std::thread::id> homes(8 * 64);
  run({8, 64}, [&homes] {
    sync_block();
    homes[blockIdx.x * 64 + threadIdx.x] = std::this_thread::get_id();
  });
  for (size_t i = 0; i < homes.size(); ++i) EXPECT_EQ(homes[i], homes[i / 64 * 64]);
}

TEST(SimtLaunch, IsAsynchronous) {
  std::atomic<bool> go{false};
  std::atomic<bool> went{false};
  GridRun running = launch({1, 1}, [&] {
    while (!go) yield();
    went = true;
  });
  EXPECT_FALSE(went);
  go = true;
  running.wait();
  EXPECT_TRUE(went);
}

TEST(SimtLaunch, WaitsInItsDestructor) {
  std::atomic<unsigned> ended{0};
  {
    const GridRun running = launch({2, 32}, [&ended] {
      for (int i = 0; i < 100; ++i) yield();
      ++ended;
    });
  }
  EXPECT_EQ(ended, 64U);
}

TEST(SimtLaunch, WaitsForTheOldGridWhenAssigned) {
  std::atomic<unsigned> ended{0};
  const auto body = [&ended] {
    yield();
    ++ended;
  };
  GridRun running = launch({1, 32}, body);
  running = launch({1, 1}, body);
  EXPECT_GE(ended, 32U);
  GridRun moved = std::move(running);
  moved.wait();
  EXPECT_EQ(ended, 33U);
}

TEST(SimtLaunch, LetsLaunchesMeet) {
  // Two kernels in flight that wait for one another, launched by two host threads.
  std::atomic<int> first{0};
  std::atomic<int> second{0};
  const auto meet = [](std::atomic<int>& mine, const std::atomic<int>& other) {
    run({2, 40}, [&] {
      ++mine;
      while (other < 80) yield();
    });
  };
  std::thread peer([&] { meet(second, first); });
  meet(first, second);
  peer.join();
  EXPECT_EQ(first, 80);
  EXPECT_EQ(second, 80);
}

TEST(SimtLaunch, SeesWhatTheHostWroteAndShowsWhatItWrote) {
  int input = 20;
  int output = 0;
  GridRun running = launch({1, 1}, [&] { output = input + 1; });
  running.wait();
  EXPECT_EQ(output, 21);
}

TEST(SimtLaunch, HoldsThousandsOfLanesAtOnce) {
  const unsigned blocks = limits().max_lanes >= 32768 ? 32 : 2;
  std::atomic<unsigned> arrived{0};
  run({blocks, 1024}, [&arrived, blocks] {
    ++arrived;
    while (arrived < blocks * 1024) yield();
  });
  EXPECT_EQ(arrived, blocks * 1024);
}

TEST(SimtLaunch, HoldsManyOneLaneBlocks) {
  std::atomic<unsigned> arrived{0};
  run({2000, 1}, [&arrived] {
    ++arrived;
    while (arrived < 2000) yield();
  });
  EXPECT_EQ(arrived, 2000U);
}

TEST(SimtLaunch, OffersTheStackItPromises) {
  run({1, 33}, [] {
    volatile char deep[48 * 1024];
    for (size_t i = 0; i < sizeof deep; i += 512) deep[i] = static_cast<char>(i);
    yield();
    EXPECT_EQ(deep[512], static_cast<char>(512));
  });
}

TEST(SimtLaunch, RefusesWhatCudaRefuses) {
  const auto nothing = [] {};
  EXPECT_NE(error_of({0, 32}, nothing).find("blocks = 0 x 1 x 1"), std::string::npos);
  EXPECT_NE(error_of({1, {32, 0}}, nothing).find("threads = 32 x 0 x 1"), std::string::npos);
  EXPECT_NE(error_of({1, 1025}, nothing).find("1024"), std::string::npos);
  EXPECT_NE(error_of({1, {64, 32}}, nothing).find("at most 1024"), std::string::npos);
  EXPECT_NE(error_of({1, {1, 1, 65}}, nothing).find("at most 1024 x 1024 x 64"), std::string::npos);
  EXPECT_NE(error_of({{1, 65536}, 1}, nothing).find("65535"), std::string::npos);
  EXPECT_NE(error_of({1, 1, 228 * 1024}, nothing).find("shared_bytes"), std::string::npos);
}

TEST(SimtLaunch, RefusesCooperativeGridsOverTheLimit) {
  EXPECT_NE(error_of(cooperative(limits().max_lanes / 1024 + 1, 1024), [] {}).find("max_lanes"),
            std::string::npos);
  // The product of these overflows 64 bits.
  EXPECT_NE(error_of(cooperative({0x7fffffff, 65535, 65535}, 1024), [] {}).find("max_lanes"),
            std::string::npos);
}

TEST(SimtLaunch, DoesNotWaitForTheLanesOfOtherLaunches) {
  const LimitsFor scope(with_lanes(64));
  std::atomic<bool> go{false};
  GridRun running = launch({1, 48}, [&go] {
    while (!go) yield();
  });
  EXPECT_EQ(error_of({1, 32}, [] {}), "");
  EXPECT_EQ(error_of({9, 64}, [] { sync_block(); }), "");
  go = true;
  running.wait();
}

TEST(SimtLaunch, RefusesLimitsThatCannotWork) {
  Limits wrong = limits();
  wrong.workers = 0;
  EXPECT_THROW(set_limits(wrong), LaneError);
  wrong = limits();
  wrong.stack_bytes = 4096;
  EXPECT_THROW(set_limits(wrong), LaneError);
}

TEST(SimtLaunch, TakesNewStackSizes) {
  Limits larger = limits();
  larger.stack_bytes *= 2;
  const LimitsFor scope(larger);
  std::atomic<unsigned> ended{0};
  run({2, 64}, [&ended] { ++ended; });
  EXPECT_EQ(ended, 128U);
}

TEST(SimtLaunch, RefusesToLaunchFromAKernel) {
  EXPECT_NE(error_of({1, 1},
                     [] {
                       run({1, 1}, [] {});
                     })
                .find("inside a kernel"),
            std::string::npos);
}

TEST(SimtLaunch, RethrowsWhatALaneThrew) {
  GridRun running = launch({2, 64}, [] {
    if (blockIdx.x == 1 && threadIdx.x == 40) throw std::out_of_range("lane 40");
  });
  try {
    running.wait();
    FAIL() << "wait() returned";
  } catch (const std::out_of_range& error) {
    EXPECT_STREQ(error.what(), "lane 40");
  }
}

TEST(SimtLaunch, UnwindsTheOtherLanesWhenOneThrows) {
  const auto witness = std::make_shared<int>(0);
  GridRun running = launch({4, 64}, [&witness] {
    const std::shared_ptr<int> local = witness;
    const std::vector<int> heap(1000);
    if (blockIdx.x == 3 && threadIdx.x == 63) throw std::runtime_error("stop");
    if (threadIdx.x % 2 == 0) sync_block();
    for (;;) yield();
  });
  EXPECT_THROW(running.wait(), std::runtime_error);
  EXPECT_EQ(witness.use_count(), 1);
}

TEST(SimtLaunch, UnwindsThroughDestructorsThatWait) {
  struct Meets {
    ~Meets() {
      sync_block();
      yield();
    }
  };
  EXPECT_THROW(run({1, 8},
                   [] {
                     const Meets local;
                     if (threadIdx.x == 5) throw std::runtime_error("stop");
                     sync_block();  // meets lane 5 in its destructor
                     for (;;) yield();
                   }),
               std::runtime_error);
}

TEST(SimtLaunch, DestroysLaneLocals) {
  std::atomic<int> alive{0};
  struct Local {
    explicit Local(std::atomic<int>& counter) : count(counter) { ++count; }
    ~Local() { --count; }
    std::atomic<int>& count;
  };
  run({3, 50}, [&alive] {
    const Local local(alive);
    yield();
    EXPECT_GT(alive, 0);
  });
  EXPECT_EQ(alive, 0);
}

TEST(SimtLaunch, KeepsExceptionsInFlightApart) {
  // Every lane suspends inside a handler; each must find its own exception again.
  std::atomic<unsigned> right{0};
  run({2, 32}, [&right] {
    try {
      throw threadIdx.x;
    } catch (unsigned mine) {
      for (int i = 0; i < 5; ++i) yield();
      try {
        throw;
      } catch (unsigned again) {
        if (again == mine && again == threadIdx.x) ++right;
      }
    }
  });
  EXPECT_EQ(right, 64U);
}

TEST(SimtLaunch, RunsAgainAfterAFailure) {
  EXPECT_THROW(run({1, 64}, [] { throw 1; }), int);
  std::atomic<unsigned> ended{0};
  run({1, 64}, [&ended] { ++ended; });
  EXPECT_EQ(ended, 64U);
}

TEST(SimtLaunch, LetsTheHostThreadBeAGridOfOneLane) {
  EXPECT_FALSE(in_kernel());
  EXPECT_EQ(lane_id(), 0U);
  EXPECT_EQ(threadIdx.x, 0U);
  EXPECT_EQ(blockDim, Dim3(1));
  yield();
  sync_block();
  sync_warp(1);
  EXPECT_EQ(shuffle(1, 7, 0), 7U);
  EXPECT_EQ(ballot(1, true), 1U);
  EXPECT_EQ(ballot(1, false), 0U);
  EXPECT_EQ(match_any(1, 9), 1U);
  EXPECT_EQ(converged_mask(), 1U);
  EXPECT_EQ(warp_mask(), 1U);
  EXPECT_EQ(sync_block_count(true), 1);
  EXPECT_EQ(dynamic_shared(), nullptr);
  int key = 0;
  EXPECT_EQ(block_shared(&key, 16, 8), block_shared(&key, 16, 8));
}

}  // namespace
}  // namespace peal::simt
