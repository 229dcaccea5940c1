// SPDX-License-Identifier: Apache-2.0
//
// Simulations: many grids and servers in one thread, as the seed says.
#include "simt/simulation/simulation.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <string>
#include <vector>

#include "simt/lanes/lane.h"
#include "simt/lanes/launch.h"
#include "simt/runtime/cuda_names.h"
#include "tests/unit/simt/support.h"

namespace peal::simt {
namespace {

TEST(Simulation, RunsAllGridsWithCudasNames) {
  Simulation sim(1);
  std::set<std::string> ran;
  for (int device = 0; device < 2; ++device) {
    sim.launch({"grid", device}, {2, Dim3{3, 2}}, [&ran, device] {
      ran.insert(std::to_string(device) + ":" + std::to_string(blockIdx.x) + ":" +
                 std::to_string(threadIdx.x + 3 * threadIdx.y) + " of " +
                 std::to_string(blockDim.x * blockDim.y) + "x" + std::to_string(gridDim.x));
      __syncthreads();
    });
  }
  sim.run();
  EXPECT_EQ(ran.size(), 24u);
  EXPECT_TRUE(ran.contains("1:1:5 of 6x2"));
  EXPECT_EQ(blockDim.x, 1u) << "the thread is a host's again";
}

std::string order_of(uint64_t seed) {
  Simulation sim(seed);
  std::string order;
  sim.launch({"grid", 0}, {1, 8}, [&order] {
    for (int i = 0; i < 3; ++i) {
      order += static_cast<char>('a' + threadIdx.x);
      yield();
    }
  });
  sim.run();
  return order;
}

TEST(Simulation, SameSeedSameOrder) {
  for (uint64_t seed = 1; seed <= 20; ++seed) EXPECT_EQ(order_of(seed), order_of(seed));
}

TEST(Simulation, SeedsDiffer) {
  std::set<std::string> orders;
  for (uint64_t seed = 1; seed <= 20; ++seed) orders.insert(order_of(seed));
  EXPECT_GT(orders.size(), 15u);
}

// Plain CUDA atomics are places to switch, so that lost updates show.
TEST(Simulation, ARaceOfAKernelShowsUnderSomeSeed) {
  int wrong = 0;
  for (uint64_t seed = 1; seed <= 100; ++seed) {
    Simulation sim(seed);
    unsigned counter = 0;
    unsigned noise = 0;
    sim.launch({"grid", 0}, {1, 4}, [&] {
      const unsigned seen = counter;
      atomicAdd(&noise, 1u);
      counter = seen + 1;
    });
    sim.run();
    wrong += counter != 4;
  }
  EXPECT_GT(wrong, 10);
}

TEST(Simulation, ServersEndWithTheKernels) {
  Simulation sim(1);
  int served = 0;
  bool unwound = false;
  struct Note {
    bool& flag;
    ~Note() { flag = true; }
  };
  bool asked = false;
  sim.serve({"server", 1}, [&] {
    const Note note{unwound};
    for (;;) {
      if (asked) ++served;
      asked = false;
      yield();
    }
  });
  sim.launch({"grid", 0}, {1, 1}, [&] {
    for (int i = 0; i < 3; ++i) {
      asked = true;
      while (asked) yield();
    }
  });
  sim.run();
  EXPECT_EQ(served, 3);
  EXPECT_TRUE(unwound);
}

TEST(Simulation, TimeRunsWhileEverybodyWaits) {
  Simulation sim(1);
  uint64_t waited = 0;
  sim.launch({"grid", 0}, {1, 4}, [&] {
    const uint64_t begin = now_ns();
    while (now_ns() - begin < 10'000'000'000) yield();
    waited = now_ns() - begin;
  });
  sim.run();
  EXPECT_GE(waited, 10'000'000'000u);
  EXPECT_LT(sim.slices(), 100'000u);
}

std::string failure_of(Simulation& sim) {
  try {
    sim.run();
  } catch (const LaneError& error) {
    return error.what();
  }
  return {};
}

TEST(Simulation, AnExceptionNamesSeedAndAgents) {
  Simulation sim(4711);
  auto* const word = static_cast<uint64_t*>(sim.memory().allocate(8, "word"));
  sim.launch({"bad", 0}, {1, 1}, [] { throw std::runtime_error("out of luck"); });
  sim.launch({"good", 1}, {1, 1}, [word] {
    for (;;) {
      model().load(agent(), word, 8, {});
      yield();
    }
  });
  const std::string text = failure_of(sim);
  EXPECT_NE(text.find("out of luck"), std::string::npos);
  EXPECT_NE(text.find("seed 4711"), std::string::npos);
  EXPECT_NE(text.find("agent 1 (good, block 0, lane 0)"), std::string::npos);
}

TEST(Simulation, DeadlockIsFoundAndSaysWhoWaitsWhere) {
  Simulation sim(3);
  sim.launch({"grid", 0}, {1, 2}, [] {
    if (threadIdx.x == 0) {
      __syncthreads();
    } else {
      __syncwarp(0x3);
    }
  });
  const std::string text = failure_of(sim);
  EXPECT_NE(text.find("deadlock"), std::string::npos);
  EXPECT_NE(text.find("__syncthreads"), std::string::npos);
  EXPECT_NE(text.find("seed 3"), std::string::npos);
}

TEST(Simulation, ARunThatDoesNotEndIsEnded) {
  Simulation sim(5, {.memory_bytes = 4096, .slices = 1000});
  sim.launch({"grid", 0}, {1, 1}, [] {
    for (;;) yield();
  });
  EXPECT_NE(failure_of(sim).find("not at its end after 1000 slices"), std::string::npos);
}

TEST(Simulation, BarriersOrderModelledMemoryAndVotesDoNot) {
  int stale = 0;
  for (uint64_t seed = 1; seed <= 100; ++seed) {
    for (const bool votes : {false, true}) {
      Simulation sim(seed);
      auto* const word = static_cast<uint64_t*>(sim.memory().allocate(8, "word"));
      sim.launch({"grid", 0}, {1, 2}, [&] {
        if (threadIdx.x == 0) model().store(agent(), word, 8, 1, {});
        if (votes) {
          __ballot_sync(0x3, 1);
        } else {
          __syncwarp(0x3);
        }
        if (threadIdx.x == 0) return;
        const bool old = model().load(agent(), word, 8, {}) == 0;
        if (!votes) {
          EXPECT_FALSE(old) << "seed " << seed;
        }
        stale += old;
      });
      sim.run();
    }
  }
  EXPECT_GT(stale, 10);
}

TEST(Simulation, RefusesAGridThatCudaWouldRefuse) {
  Simulation sim(1);
  EXPECT_THROW(sim.launch({"grid", 0}, {1, 2000}, [] {}), LaneError);
  EXPECT_THROW(sim.launch({"grid", 0}, {0, 1}, [] {}), LaneError);
}

struct WavesRun {
  unsigned resident = 0;  // blocks, at most
  uint64_t digest = 0;
  std::vector<int> runs;  // of each lane
};

WavesRun run_waves(uint64_t seed) {
  WavesRun run;
  run.runs.resize(300 * 32);
  Simulation sim(seed);
  auto* const word = static_cast<uint64_t*>(sim.memory().allocate(8, "word"));
  unsigned resident = 0;
  sim.launch({"grid", 0}, {300, 32}, [&] {
    if (threadIdx.x == 0) run.resident = std::max(run.resident, ++resident);
    __syncthreads();
    ++run.runs[blockIdx.x * 32 + threadIdx.x];
    model().store(agent(), word, 8, blockIdx.x, {});
    __syncthreads();
    if (threadIdx.x == 0) --resident;
  });
  sim.run();
  run.digest = sim.digest();
  return run;
}

TEST(Simulation, RunsAGridOfWhichSomeBlocksAreResidentTheSameWayAgain) {
  const LimitsFor scope(with_lanes(128));
  for (uint64_t seed = 1; seed <= 3; ++seed) {
    const WavesRun run = run_waves(seed);
    EXPECT_EQ(run.runs, std::vector<int>(300 * 32, 1));
    EXPECT_GT(run.resident, 1u);
    EXPECT_LE(run.resident, 4u);
    EXPECT_EQ(run.digest, run_waves(seed).digest);
  }
}

// They begin one by one once all that are resident have waited for long.
TEST(Simulation, BeginsBlocksThatOthersWaitForAsLongAsThereIsRoom) {
  const auto ring = [](unsigned blocks, unsigned lanes) {
    const LimitsFor scope(with_lanes(lanes));
    Simulation sim(1, {.slices = 1'000'000});
    unsigned arrived = 0;
    sim.launch({"grid", 0}, {blocks, 32}, [&] {
      ++arrived;
      while (arrived != blocks * 32) yield();
    });
    return failure_of(sim);
  };
  EXPECT_EQ(ring(40, 40 * 32), "");
  const std::string error = ring(5, 4 * 32);
  EXPECT_NE(error.find("not at its end"), std::string::npos) << error;
  EXPECT_NE(error.find("grid: of 5 blocks 4 have begun"), std::string::npos) << error;
}

TEST(Simulation, RefusesACallThatNeedsMoreBlocksThanCanBeResident) {
  const LimitsFor scope(with_lanes(128));
  for (const unsigned blocks : {4u, 5u}) {
    Simulation sim(1);
    sim.launch({"grid", 0}, {blocks, 32}, [] {
      if (!all_blocks_fit()) refuse_blocks("all_reduce");
    });
    const std::string error = failure_of(sim);
    EXPECT_EQ(error.find("all_reduce by a grid needs all of its 5 blocks") != error.npos,
              blocks == 5)
        << error;
  }
}

TEST(Simulation, HoldsGridsOfSeveralDevicesBesideEachOther) {
  const LimitsFor scope(with_lanes(32));
  Simulation sim(1);
  bool told[2] = {false, false};
  for (const int device : {0, 1}) {  // the first block of each has room, whatever the others have
    sim.launch({"grid", device}, {10, 32}, [&told, device] {
      told[device] = true;
      while (!told[1 - device]) yield();
    });
  }
  EXPECT_EQ(failure_of(sim), "");
}

TEST(Simulation, RefusesToRunInsideAnother) {
  Simulation outer(1);
  std::string refusal;
  outer.launch({"grid", 0}, {1, 1}, [&refusal] {
    Simulation inner(2);
    inner.launch({"grid", 0}, {1, 1}, [] {});
    refusal = failure_of(inner);
  });
  outer.run();
  EXPECT_NE(refusal.find("another one runs"), std::string::npos);
}

TEST(Simulation, OutsideOfOneNothingIsModelled) {
  EXPECT_FALSE(in_simulation());
  EXPECT_FALSE(weakened(1));
  point();
  uint64_t word = 0;
  EXPECT_EQ(model_of(reinterpret_cast<uintptr_t>(&word)), nullptr);
}

}  // namespace
}  // namespace peal::simt
