// SPDX-License-Identifier: Apache-2.0
//
// Grids of which only some blocks are resident at a time, and lanes that begin as calls. Hazard:
// blocks that wait for one that has not begun, memory that grows with the grid.
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <set>
#include <string>
#include <vector>

#include "base/forks.h"
#include "simt/lanes/lane.h"
#include "simt/lanes/launch.h"
#include "simt/lanes/sanitizer.h"
#include "simt/runtime/cuda_names.h"
#include "tests/unit/simt/support.h"

namespace peal::simt {
namespace {

Limits with_lanes_and_workers(unsigned lanes, unsigned workers) {
  Limits changed = with_lanes(lanes);
  changed.workers = workers;
  return changed;
}

TEST(SimtWaves, RunEveryBlockOfAGridThatIsNotResidentAsAWhole) {
  const LimitsFor scope(with_lanes(256));
  std::vector<std::atomic<unsigned>> runs(1000 * 64);
  run({1000, 64}, [&] { ++runs[blockIdx.x * 64 + threadIdx.x]; });
  EXPECT_TRUE(std::ranges::all_of(runs, [](const auto& count) { return count == 1; }));
}

TEST(SimtWaves, RunBlocksWithBarriersAndSharedMemory) {
  const LimitsFor scope(with_lanes(256));
  static const int key = 0;
  std::atomic<unsigned> wrong{0};
  run({300, 96}, [&] {
    auto* const cells = static_cast<unsigned*>(block_shared(&key, 96 * sizeof(unsigned), 64));
    if (cells[threadIdx.x] != 0xa5a5a5a5) ++wrong;  // another block's are not to be seen
    sync_block();
    cells[threadIdx.x] = blockIdx.x + threadIdx.x;
    sync_block();
    if (cells[95 - threadIdx.x] != blockIdx.x + 95 - threadIdx.x) ++wrong;
  });
  EXPECT_EQ(wrong, 0U);
}

TEST(SimtWaves, BeginBlocksInOrder) {
  const LimitsFor scope(with_workers(1));
  std::vector<unsigned> order(12);
  std::atomic<unsigned> begun{0};
  run({{3, 2, 2}, 1},
      [&] { order[(blockIdx.z * gridDim.y + blockIdx.y) * gridDim.x + blockIdx.x] = begun++; });
  for (unsigned i = 0; i < order.size(); ++i) EXPECT_EQ(order[i], i);
}

// As a scan does that looks back: whoever waits, waits for a block that has begun.
TEST(SimtWaves, LetABlockWaitForThoseBefore) {
  const LimitsFor scope(with_lanes(128));
  std::atomic<unsigned> done{0};
  run({200, 32}, [&] {
    if (threadIdx.x == 0) {
      while (done != blockIdx.x) yield();
    }
    sync_block();
    if (threadIdx.x == 31) ++done;
  });
  EXPECT_EQ(done, 200U);
}

void wait_for_the_last_block(void (*turn)(), unsigned workers) {
  const LimitsFor scope(with_workers(workers));
  std::atomic<bool> last{false};
  run({24, 40}, [&, turn] {
    if (blockIdx.x == 23) last = true;
    while (!last) turn();
  });
  EXPECT_TRUE(last);
}

TEST(SimtWaves, BeginBlocksWhileOthersYield) {
  wait_for_the_last_block([] { yield(); }, 1);
  wait_for_the_last_block([] { yield(); }, 2);
}

TEST(SimtWaves, BeginBlocksWhileOthersOnlyLookAtAtomics) {
  wait_for_the_last_block([] { breathe(); }, 1);
}

TEST(SimtWaves, BeginBlocksWhileOthersTurnThroughBarriers) {
  wait_for_the_last_block([] { sync_block(); }, 2);
}

TEST(SimtWaves, EndWithASentenceWhereResidentBlocksWaitForOneThatHasNoRoom) {
  // With the most lanes one worker may have all that it would begin.
  for (const unsigned lanes : {64u, 53 * 32u, 97 * 32u}) {
    Limits few = with_lanes_and_workers(lanes, 2);
    few.stall_ms = 50;
    const LimitsFor scope(few);
    std::atomic<bool> last{false};
    const std::string error = error_of({100, 32}, [&] {
      if (blockIdx.x == 99) last = true;
      while (!last) yield();
    });
    EXPECT_NE(error.find("of 100 blocks"), std::string::npos) << error;
    EXPECT_NE(error.find("no lane of those that are resident has ended or got on"),
              std::string::npos)
        << error;
    EXPECT_NE(error.find("SIMT_MAX_LANES"), std::string::npos) << error;
  }
}

TEST(SimtWaves, HoldAllBlocksOfACooperativeGrid) {
  const LimitsFor scope(with_lanes_and_workers(640, 2));
  std::atomic<unsigned> arrived{0};
  run({.blocks = 20, .threads = 32, .cooperative = true}, [&] {
    ++arrived;
    while (arrived < 640) yield();
  });
  EXPECT_EQ(arrived, 640U);
}

// As a GPU refuses a cooperative launch; a call that waited for blocks without room would hang.
TEST(SimtWaves, RefuseACallThatNeedsMoreBlocksThanCanBeResident) {
  const LimitsFor scope(with_lanes_and_workers(64, 2));
  std::atomic<unsigned> arrived{0};
  run({4, 32}, [&] {  // one of each worker, and two more
    EXPECT_TRUE(all_blocks_fit());
    ++arrived;
    while (arrived < 4 * 32) yield();
  });
  EXPECT_EQ(arrived, 4U * 32);
  const auto call = [] {
    if (!all_blocks_fit()) refuse_blocks("all_reduce");
  };
  EXPECT_EQ(error_of({5, 32}, call),
            "all_reduce by a grid needs all of its 5 blocks of 32 threads at once, and only 4 can "
            "be resident (Limits::max_lanes = 64): launch fewer, or raise the limit by "
            "SIMT_MAX_LANES or set_limits()");
  EXPECT_EQ(error_of({.blocks = 2, .threads = 32, .cooperative = true}, call), "");
  const std::string refused = error_of({.blocks = 3, .threads = 32, .cooperative = true}, call);
  EXPECT_NE(refused.find("3 x 1 x 1 blocks of 32 threads"), std::string::npos) << refused;
  EXPECT_NE(refused.find("room for 2"), std::string::npos) << refused;
  EXPECT_TRUE(all_blocks_fit()) << "of a host there is one";
}

// Lanes that end without a wait are booked together: barriers and votes must not miss them.
TEST(SimtWaves, LetLanesThatWaitGoOnBesideThoseThatOnlyEnd) {
  for (const unsigned threads : {1u, 2u, 31u, 33u, 100u}) {
    for (unsigned rest = 0; rest < 3; ++rest) {
      std::atomic<unsigned> passed{0};
      std::atomic<unsigned> wrong{0};
      run({5, threads}, [&] {
        if (threadIdx.x % 3 != rest) return;
        sync_block();
        ++passed;
        if (sync_block_count(true) != static_cast<int>((block_threads() + 2 - rest) / 3)) ++wrong;
      });
      EXPECT_EQ(passed, 5 * ((threads + 2 - rest) / 3)) << threads << " threads, " << rest;
      EXPECT_EQ(wrong, 0U) << threads << " threads, " << rest;
    }
  }
}

TEST(SimtWaves, TellThatAVoteNamesALaneThatOnlyEnded) {
  for (const unsigned early : {0u, 3u, 31u}) {  // ends ahead of the others, between them, behind
    const std::string error = error_of({1, 32}, [&] {
      if (threadIdx.x != early) ballot(~0u, true);
    });
    EXPECT_NE(error.find("__ballot_sync"), std::string::npos) << error;
    EXPECT_NE(error.find("lane " + std::to_string(early)), std::string::npos) << error;
  }
}

TEST(SimtWaves, UnwindTheLanesOfResidentBlocksAndBeginNoOthers) {
  const LimitsFor scope(with_lanes(128));
  std::atomic<unsigned> begun{0};
  std::atomic<int> alive{0};
  struct Local {
    explicit Local(std::atomic<int>& counter) : count(counter) { ++count; }
    ~Local() { --count; }
    std::atomic<int>& count;
  };
  EXPECT_THROW(run({100000, 64},
                   [&] {
                     const Local local(alive);
                     ++begun;
                     if (blockIdx.x == 20 && threadIdx.x == 7) throw 1;
                     sync_block();
                   }),
               int);
  EXPECT_EQ(alive, 0);
  EXPECT_LT(begun, 100000U * 64);
}

// The environment is read once: each case is a process of its own.
TEST(SimtWavesDeathTest, TakeTheLimitOfTheEnvironment) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const auto tell = [](const char* setting) {
    ::setenv("SIMT_MAX_LANES", setting, 1);
    try {
      ::_exit(limits().max_lanes == 48 ? 0 : 1);
    } catch (const LaneError& error) {
      const std::string said = error.what();
      if (::write(STDERR_FILENO, said.data(), said.size()) < 0) ::_exit(4);
      ::_exit(3);
    }
  };
  EXPECT_EXIT(tell("48"), testing::ExitedWithCode(0), "");
  for (const char* wrong : {"0", "many", "12x", "99999999999"}) {
    EXPECT_EXIT(tell(wrong), testing::ExitedWithCode(3), "must be a number from 1 to 16777216");
  }
}

TEST(SimtWaves, BeginToRunTheLargestGridOfCuda) {
  std::atomic<uint64_t> begun{0};
  EXPECT_THROW(run({0x7fffffff, 1024},
                   [&] {
                     if (++begun == 100000) throw 1;
                   }),
               int);
  EXPECT_THROW(run({{0x7fffffff, 65535, 65535}, 1}, [] { throw 1; }), int);
}

TEST(SimtWaves, TakeNoStackForLanesThatNeverWait) {
  if (kThreadSanitized) GTEST_SKIP() << "each lane is a thread to it";
  const LimitsFor scope(with_workers(1));
  std::set<const void*> frames;
  run({40, 256}, [&] { frames.insert(__builtin_frame_address(0)); });
  EXPECT_EQ(frames.size(), 1U);
  // Lanes that wait have one each, and those behind them begin on others.
  frames.clear();
  run({2, 8}, [&] {
    frames.insert(__builtin_frame_address(0));
    sync_block();
  });
  EXPECT_EQ(frames.size(), 8U);
}

TEST(SimtWaves, TouchNoMoreMemoryForALargerGrid) {
  if (sanitized()) GTEST_SKIP() << "it keeps shadows";
  const auto most = [] {
    rusage usage{};
    ::getrusage(RUSAGE_SELF, &usage);
    return usage.ru_maxrss;  // KiB
  };
  const auto meet = [] { sync_block(); };
  run({64, 256}, meet);
  const long before = most();
  run({4096, 256}, meet);
  EXPECT_LT(most() - before, 16 * 1024);
}

// Its parent's threads are not in a child of fork(), also where all else is for it as well.
TEST(SimtWaves, RunInAChildOfFork) {
  if (sanitized()) GTEST_SKIP() << "it does not follow a child of a process with threads";
  run({8, 32}, [] { sync_block(); });
  for (pid_t (*const fork)() : {+[] { return ::fork(); }, +[] { return Forks::fork_whole(); }}) {
    const pid_t child = fork();
    if (child == 0) {
      std::atomic<unsigned> ended{0};
      run({8, 32}, [&ended] {
        sync_block();
        ++ended;
      });
      ::_exit(ended == 8 * 32 ? 0 : 1);
    }
    int status = -1;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
  }
}

TEST(SimtWaves, GiveEachLaneItsIndicesBehindOneThatWaited) {
  std::atomic<unsigned> wrong{0};
  run({50, 64}, [&] {
    const Dim3 thread = threadIdx;
    const Dim3 block = blockIdx;
    if (threadIdx.x % 3 == 0) yield();
    if (threadIdx.x % 5 == 0) sync_warp(1u << lane_id());
    if (threadIdx != thread || blockIdx != block) ++wrong;
  });
  EXPECT_EQ(wrong, 0U);
}

}  // namespace
}  // namespace peal::simt
