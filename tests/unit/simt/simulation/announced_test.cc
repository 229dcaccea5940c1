// SPDX-License-Identifier: Apache-2.0
//
// Accesses that compilers' hooks announce, played by hand: announce, access, complete. Hazards: an
// old value stays in memory; a store is lost, or counts as somebody else's; an update is torn.
#include "simt/simulation/announced.h"

#include <gtest/gtest.h>

#include <atomic>
#include <cstdint>
#include <set>

#include "simt/simulation/decisions.h"

namespace peal::simt {
namespace {

constexpr ModelAccess kAcquire{Scope::kSystem, MemoryOrder::kAcquire};
constexpr ModelAccess kRelaxed{Scope::kSystem, MemoryOrder::kRelaxed};
constexpr uint64_t kSeeds = 200;

/// Two agents of two devices.
struct World {
  explicit World(uint64_t seed) : decisions(seed), memory(4096, decisions), announced(memory) {
    memory.set_weakness({.stale_in_256 = 128, .horizon = 4096});
    memory.add_agent({.device = 0, .group = 0});
    memory.add_agent({.device = 1, .group = 1});
    word = static_cast<uint64_t*>(memory.allocate(64, "word"));
    flag = static_cast<uint64_t*>(memory.allocate(64, "flag"));
  }

  void store(uint64_t me, uint64_t* p, uint64_t value, bool atomic = false,
             int order = __ATOMIC_RELAXED) {
    announced.complete();
    announced.take(me, {p, 8, true, atomic, order, nullptr});
    __atomic_store_n(p, value, __ATOMIC_RELAXED);
    announced.complete();
  }
  uint64_t load(uint64_t me, const uint64_t* p) {
    announced.complete();
    announced.take(me, {p, 8, false, false, 0, nullptr});
    const uint64_t value = __atomic_load_n(p, __ATOMIC_RELAXED);
    announced.complete();
    return value;
  }
  /// As the hook of an atomic operation announces it.
  uint64_t add(uint64_t me, uint64_t* p, uint64_t value, int order) {
    announced.complete();
    announced.take(me, {p, 8, true, true, order, this});
    const uint64_t old = __atomic_fetch_add(p, value, __ATOMIC_RELAXED);
    EXPECT_TRUE(announced.take_end_of_update({p, 8, false, true, order, this}));
    return old;
  }

  Decisions decisions;
  WeakMemory memory;
  Announced announced;
  uint64_t* word;
  uint64_t* flag;
};

TEST(Announced, AStoreIsTheAgentsOwn) {
  World world(1);
  world.store(0, world.word, 7);
  EXPECT_EQ(*world.word, 7u);
  EXPECT_EQ(world.load(0, world.word), 7u) << "it sees what it stored";
  EXPECT_NE(world.memory.last_of(0).find("word + 0"), std::string::npos);
}

TEST(Announced, ALoadMayAnswerAnOldValueAndLeavesTheNewestInMemory) {
  std::set<uint64_t> seen;
  for (uint64_t seed = 0; seed < kSeeds; ++seed) {
    World world(seed);
    world.store(0, world.word, 7);
    seen.insert(world.load(1, world.word));
    EXPECT_EQ(*world.word, 7u) << "seed " << seed;
  }
  EXPECT_EQ(seen, (std::set<uint64_t>{0, 7}));
}

TEST(Announced, AnAcquireBehindAReleaseOrdersPlainAccesses) {
  for (uint64_t seed = 0; seed < kSeeds; ++seed) {
    World world(seed);
    world.store(0, world.word, 7);
    world.store(0, world.flag, 1, true, __ATOMIC_RELEASE);
    if (world.memory.load(1, world.flag, 8, kAcquire) == 0) continue;
    EXPECT_EQ(world.load(1, world.word), 7u) << "seed " << seed;
  }
}

TEST(Announced, ARelaxedFlagOrdersNothing) {
  bool old = false;
  for (uint64_t seed = 0; seed < kSeeds; ++seed) {
    World world(seed);
    world.store(0, world.word, 7);
    world.store(0, world.flag, 1, true, __ATOMIC_RELAXED);
    if (world.memory.load(1, world.flag, 8, kAcquire) != 0 && world.load(1, world.word) == 0) {
      old = true;
    }
  }
  EXPECT_TRUE(old);
}

TEST(Announced, AnUpdateActsOnTheNewestAndReleases) {
  for (uint64_t seed = 0; seed < kSeeds; ++seed) {
    World world(seed);
    world.store(0, world.word, 7);
    EXPECT_EQ(world.add(0, world.flag, 1, __ATOMIC_ACQ_REL), 0u);
    EXPECT_EQ(world.add(1, world.flag, 1, __ATOMIC_ACQ_REL), 1u);
    EXPECT_EQ(world.load(1, world.word), 7u) << "seed " << seed;
    EXPECT_EQ(*world.flag, 2u);
  }
}

TEST(Announced, AnUpdateThatChangesNothingStoresNothing) {
  World world(3);
  world.store(0, world.flag, 1);
  const uint64_t changes = world.memory.changes();
  EXPECT_EQ(world.add(1, world.flag, 0, __ATOMIC_ACQ_REL), 1u);
  EXPECT_EQ(world.memory.changes(), changes);
}

TEST(Announced, PiecesOfAWideAccessMayBeOfDifferentAge) {
  std::set<std::pair<uint64_t, uint64_t>> seen;
  for (uint64_t seed = 0; seed < kSeeds; ++seed) {
    World world(seed);
    world.store(0, world.word, 7);
    world.store(0, world.word + 1, 7);
    world.announced.take(1, {world.word, 16, false, false, 0, nullptr});
    const std::pair now{world.word[0], world.word[1]};
    world.announced.complete();
    seen.insert(now);
  }
  EXPECT_EQ(seen.size(), 4u);
}

TEST(Announced, OtherMemoryIsNoConcern) {
  World world(1);
  uint64_t own = 0;
  EXPECT_FALSE(world.announced.concerns({&own, 8, true, false, 0, nullptr}));
  EXPECT_TRUE(world.announced.concerns({world.word, 8, true, false, 0, nullptr}));
  EXPECT_TRUE(world.announced.concerns({nullptr, 0, false, true, __ATOMIC_SEQ_CST, nullptr}));
}

TEST(Announced, AdoptedMemoryIsModelledUntilItIsForgotten) {
  World world(1);
  alignas(8) uint64_t own[4] = {1, 2, 3, 4};
  world.memory.adopt(own, sizeof own, "own");
  EXPECT_EQ(world.load(0, &own[2]), 3u);
  EXPECT_EQ(world.memory.name_of(&own[2]), "own + 16");
  world.memory.name(&own[1], "part");
  EXPECT_EQ(world.memory.name_of(&own[2]), "part + 8");
  world.memory.forget(own);
  EXPECT_FALSE(world.announced.concerns({own, 8, true, false, 0, nullptr}));
}

}  // namespace
}  // namespace peal::simt
