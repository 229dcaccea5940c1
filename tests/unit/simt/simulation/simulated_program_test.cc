// SPDX-License-Identifier: Apache-2.0
//
// Options of simulated programs, and hosts of a simulation with their streams, threads and locks.
// tests/install/sim_test.sh runs whole programs.
#include "simt/simulation/simulated_program.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <mutex>
#include <string>

#include "simt/lanes/lane.h"
#include "simt/lanes/launch.h"
#include "simt/runtime/stream.h"
#include "simt/simulation/simulation.h"
#include "simt/simulation/threads.h"

namespace peal::simt {
namespace {

std::string refusal(const std::string& text) {
  try {
    read_simulated_options(text);
    return "";
  } catch (const LaneError& error) {
    return error.what();
  }
}

TEST(SimulatedOptions, AreReadAndRefused) {
  const SimulatedOptions options = read_simulated_options("-n 3 --seed 17 --shrink 0 --steps 5");
  EXPECT_EQ(options.pes, 3);
  EXPECT_EQ(options.first_seed, 17u);
  EXPECT_TRUE(options.replay);
  EXPECT_EQ(options.shrinks, 0u);
  EXPECT_EQ(options.steps, 5u);
  EXPECT_NE(refusal("--pes 65").find("1 to 64"), std::string::npos);
  EXPECT_NE(refusal("--seeds").find("without a value"), std::string::npos);
  EXPECT_NE(refusal("--seeds 1x").find("1x"), std::string::npos);
  EXPECT_NE(refusal("--sede 1").find("no option --sede"), std::string::npos);
}

TEST(SimulatedHost, LaunchesAndIsBehindWhatItsKernelsStored) {
  for (uint64_t seed = 0; seed < 100; ++seed) {
    Simulation sim(seed);
    auto* const word = static_cast<uint64_t*>(sim.memory().allocate(8, "word"));
    sim.host({.name = "host", .device = 0}, [&] {
      EXPECT_FALSE(in_kernel());
      for (uint64_t turn = 1; turn <= 3; ++turn) {
        launch({2, 2}, [&] {
          EXPECT_TRUE(in_kernel());
          const uint64_t old = model().newest(agent(), word, 8, {});
          model().replace(agent(), word, 8, old + 1, {Scope::kDevice, MemoryOrder::kRelaxed});
        }).wait();
        EXPECT_EQ(model().load(agent(), word, 8, {}), turn * 4);
      }
    });
    sim.run();
  }
}

TEST(SimulatedHost, StreamsDoTheirWorkInOrder) {
  for (uint64_t seed = 0; seed < 100; ++seed) {
    Simulation sim(seed);
    std::string order;
    sim.host({.name = "host", .device = 0}, [&] {
      WorkStream stream;
      WorkStream other;
      for (const char letter : {'a', 'b', 'c'}) {
        stream.add([&order, letter] {
          EXPECT_TRUE(on_stream_thread());
          launch({1, 1}, [&] { order += letter; }).wait();
        });
      }
      EXPECT_FALSE(on_stream_thread());
      other.follow(stream.mark());
      other.add([&order] { order += 'd'; });
      other.synchronize();
    });
    sim.run();
    EXPECT_EQ(order, "abcd") << "seed " << seed;
  }
}

TEST(SimulatedHost, LocksOrderWhatThreadsStore) {
  for (uint64_t seed = 0; seed < 100; ++seed) {
    Simulation sim(seed);
    auto* const word = static_cast<uint64_t*>(sim.memory().allocate(8, "word"));
    sim.host({.name = "host", .device = 0}, [&] {
      Mutex mutex;
      const auto count = [&] {
        for (int i = 0; i < 5; ++i) {
          const std::lock_guard lock(mutex);
          const uint64_t old = model().load(agent(), word, 8, {});
          yield();
          model().store(agent(), word, 8, old + 1, {});
        }
      };
      ProcessThread one(count);
      ProcessThread two(count);
      one.join();
      two.join();
      EXPECT_EQ(model().load(agent(), word, 8, {}), 10u);
    });
    sim.run();
  }
}

TEST(SimulatedHost, AFailureEndsTheRunThoughALaneSpinsForEver) {
  Simulation sim(1);
  auto* const word = static_cast<uint64_t*>(sim.memory().allocate(8, "word"));
  sim.launch({.name = "spins", .device = 0}, {1, 1}, [&] {
    for (;;) {
      point();
      if (model().newest(agent(), word, 8, {}) != 0) return;
    }
  });
  sim.launch({.name = "fails", .device = 0}, {1, 1}, [] { throw LaneError("it failed"); });
  EXPECT_THROW(sim.run(), LaneError);
}

TEST(SimulatedHost, ALaneThatNobodyInterruptsLetsOthersRun) {
  Simulation sim(1);
  sim.keep_only({});
  auto* const word = static_cast<uint64_t*>(sim.memory().allocate(8, "word"));
  sim.launch({.name = "spins", .device = 0}, {1, 1}, [&] {
    do {
      point();
    } while (model().newest(agent(), word, 8, {}) == 0);
  });
  sim.launch({.name = "ends it", .device = 0}, {1, 1},
             [&] { model().replace(agent(), word, 8, 1, {}); });
  sim.run();
  EXPECT_TRUE(sim.decisions().made().empty());
}

}  // namespace
}  // namespace peal::simt
