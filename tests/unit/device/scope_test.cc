// SPDX-License-Identifier: Apache-2.0
//
// Thread, warp and block as callers: who leads, what the others learn, and which lanes of a warp
// are taken for one group.
#include "device/base/scope.h"

#include <vector>

#include "device/base/launch.h"
#include "gtest/gtest.h"

namespace peal {
namespace {

struct Seen {
  uint32_t rank = 99;
  uint32_t size = 99;
  uint32_t leader = 99;
  uint32_t extra = 99;
};

template <class Scope>
PEAL_KERNEL report(Seen* out, Scope scope) {
  const uint32_t me = block_in_grid() * threads_in_block() + thread_in_block();
  out[me] = {scope.rank(), scope.size(), scope.leader(), thread_in_block()};
}

template <class Scope>
std::vector<Seen> report_of(const Grid& grid, Scope scope) {
  std::vector<Seen> out(512);
  launch(grid, report<Scope>, out.data(), scope).wait();
  return out;
}

TEST(Scope, AThreadIsAlone) {
  const auto seen = report_of({.blocks = 1, .threads = 40}, thread);
  for (size_t i = 0; i < 40; ++i) {
    EXPECT_EQ(seen[i].rank, 0u);
    EXPECT_EQ(seen[i].size, 1u);
    EXPECT_EQ(seen[i].leader, 1u);
  }
}

TEST(Scope, AWarpHas32LanesAndTheLastOneWhatIsLeft) {
  const auto seen = report_of({.blocks = 1, .threads = 75}, warp);
  for (uint32_t i = 0; i < 75; ++i) {
    EXPECT_EQ(seen[i].rank, i % 32);
    EXPECT_EQ(seen[i].size, i < 64 ? 32u : 11u);
    EXPECT_EQ(seen[i].leader, i % 32 == 0 ? 1u : 0u);
  }
}

TEST(Scope, ABlockHasItsThreads) {
  const auto seen = report_of({.blocks = 2, .threads = 70}, block);
  for (uint32_t i = 0; i < 140; ++i) {
    EXPECT_EQ(seen[i].rank, i % 70);
    EXPECT_EQ(seen[i].size, 70u);
    EXPECT_EQ(seen[i].leader, i % 70 == 0 ? 1u : 0u);
  }
}

TEST(Scope, ThreadsOfAThreeDimensionalBlockCountXFirst) {
  const auto seen = report_of({.blocks = Dim{2, 2, 1}, .threads = Dim{4, 3, 5}}, block);
  for (uint32_t i = 0; i < 240; ++i) EXPECT_EQ(seen[i].extra, i % 60);
}

struct Wide {
  uint64_t a;
  uint32_t b;
  uint32_t c;
  uint64_t d;
};

template <class Scope>
PEAL_KERNEL hand_over(Wide* out, Scope scope) {
  const uint32_t me = thread_in_block();
  const Wide mine{me + 1000ull, me, me + 1, ~uint64_t{me}};
  out[me] = scope.from_leader(mine);
  const Wide again{me + 2000ull, me, me, me};
  out[me + 128] = scope.from_leader(again);
}

template <class Scope>
void expect_leaders_value(Scope scope, uint32_t lanes, uint32_t group) {
  std::vector<Wide> out(256);
  launch({.blocks = 1, .threads = lanes}, hand_over<Scope>, out.data(), scope).wait();
  for (uint32_t i = 0; i < lanes; ++i) {
    const uint32_t leader = i / group * group;
    EXPECT_EQ(out[i].a, leader + 1000u);
    EXPECT_EQ(out[i].b, leader);
    EXPECT_EQ(out[i].c, leader + 1);
    EXPECT_EQ(out[i].d, ~uint64_t{leader});
    EXPECT_EQ(out[i + 128].a, leader + 2000u);
  }
}

TEST(Scope, AThreadLearnsItsOwnValue) { expect_leaders_value(thread, 40, 1); }
TEST(Scope, AWarpLearnsItsLeadersValue) { expect_leaders_value(warp, 75, 32); }
TEST(Scope, ABlockLearnsItsLeadersValue) { expect_leaders_value(block, 75, 75); }

struct Exchange {
  uint32_t written[128];  // by each lane, before the call
  uint32_t sum[4];        // by the leader, during the call
  uint32_t read[128];     // by each lane, after the call
  uint32_t calls;
};

template <class Scope>
PEAL_KERNEL through_leader(Exchange* x, Scope scope) {
  const uint32_t me = thread_in_block();
  const uint32_t group = me / scope.size();
  x->written[me] = me;
  const uint32_t answer = by_leader(scope, [&] {
    for (uint32_t i = 0; i < scope.size(); ++i) {
      x->sum[group] += x->written[group * scope.size() + i];
    }
    atomicAdd(&x->calls, 1u);
    return x->sum[group];
  });
  x->read[me] = answer == x->sum[group] ? answer : 0;
}

// Under ThreadSanitizer every lane is a thread: these fail if by_leader orders too little.
TEST(Scope, TheLeaderOfAWarpSeesAllLanesAndTheySeeWhatItDid) {
  Exchange x{};
  launch({.blocks = 1, .threads = 64}, through_leader<Warp>, &x, warp).wait();
  EXPECT_EQ(x.calls, 2u);
  for (uint32_t i = 0; i < 64; ++i) EXPECT_EQ(x.read[i], i < 32 ? 496u : 1520u);
}

TEST(Scope, TheLeaderOfABlockSeesAllLanesAndTheySeeWhatItDid) {
  Exchange x{};
  launch({.blocks = 1, .threads = 64}, through_leader<Block>, &x, block).wait();
  EXPECT_EQ(x.calls, 1u);
  for (uint32_t i = 0; i < 64; ++i) EXPECT_EQ(x.read[i], 2016u);
}

enum class Code : uint32_t { kFine, kBad = 3, kWorse = 7 };

struct Failing {
  uint32_t first_bad;  // lane, and from there on kWorse
  Code code[128];
};

template <class Scope>
PEAL_KERNEL fail_some(Failing* f, Scope scope) {
  const uint32_t me = thread_in_block();
  const Code mine = me == f->first_bad  ? Code::kBad
                    : me > f->first_bad ? Code::kWorse
                                        : Code::kFine;
  f->code[me] = first_failure(scope, mine);
}

TEST(Scope, AllWellIsNoFailure) {
  Failing f{1000, {}};
  launch({.blocks = 1, .threads = 70}, fail_some<Block>, &f, block).wait();
  for (uint32_t i = 0; i < 70; ++i) EXPECT_EQ(f.code[i], Code::kFine);
  launch({.blocks = 1, .threads = 70}, fail_some<Warp>, &f, warp).wait();
  for (uint32_t i = 0; i < 70; ++i) EXPECT_EQ(f.code[i], Code::kFine);
}

TEST(Scope, AWarpReportsItsFirstLanesFailure) {
  Failing f{5, {}};
  launch({.blocks = 1, .threads = 32}, fail_some<Warp>, &f, warp).wait();
  for (uint32_t i = 0; i < 32; ++i) EXPECT_EQ(f.code[i], Code::kBad);
}

TEST(Scope, ABlockReportsOneOfItsFailures) {
  Failing f{69, {}};
  launch({.blocks = 1, .threads = 70}, fail_some<Block>, &f, block).wait();
  for (uint32_t i = 0; i < 70; ++i) EXPECT_EQ(f.code[i], Code::kBad);
}

template <class Scope>
PEAL_KERNEL read_after_verdict(Exchange* x, Scope scope) {
  const uint32_t me = thread_in_block();
  x->written[me] = me + 1;
  (void)first_failure(scope, Code::kFine);
  x->read[me] = x->written[me ^ 1];
}

// What each lane fetched for itself is everybody's once all know that all is well.
TEST(Scope, LanesSeeOneAnothersWorkOnceTheyKnowThatNoneFailed) {
  Exchange x{};
  launch({.blocks = 1, .threads = 32}, read_after_verdict<Warp>, &x, warp).wait();
  for (uint32_t i = 0; i < 32; ++i) EXPECT_EQ(x.read[i], (i ^ 1) + 1);
  launch({.blocks = 1, .threads = 64}, read_after_verdict<Block>, &x, block).wait();
  for (uint32_t i = 0; i < 64; ++i) EXPECT_EQ(x.read[i], (i ^ 1) + 1);
}

TEST(Scope, AThreadReportsItsOwnFailure) {
  Failing f{1, {}};
  launch({.blocks = 1, .threads = 3}, fail_some<Thread>, &f, thread).wait();
  EXPECT_EQ(f.code[0], Code::kFine);
  EXPECT_EQ(f.code[1], Code::kBad);
  EXPECT_EQ(f.code[2], Code::kWorse);
}

struct Grouped {
  uint32_t rank;
  uint32_t size;
  bool leader;
  bool last;
  bool shared;
  uint64_t value;
};

PEAL_KERNEL group_by_key(Grouped* out, const int* keys) {
  const uint32_t me = thread_in_block();
  const Coalesced group(&keys[keys[me]]);
  uint64_t value = me + 100;
  const bool shared = group.share(true, &value);
  out[me] = {group.rank(), group.size(), group.leader(), group.last(), shared, value};
}

TEST(Coalesced, LanesWithOneKeyAreOneGroup) {
  const int keys[32] = {};
  Grouped out[32];
  launch({.blocks = 1, .threads = 32}, group_by_key, out, keys).wait();
  for (uint32_t i = 0; i < 32; ++i) {
    EXPECT_EQ(out[i].rank, i);
    EXPECT_EQ(out[i].size, 32u);
    EXPECT_EQ(out[i].leader, i == 0);
    EXPECT_EQ(out[i].last, i == 31);
    EXPECT_TRUE(out[i].shared);
    EXPECT_EQ(out[i].value, 100u);
  }
}

TEST(Coalesced, LanesPartByKey) {
  int keys[32];
  for (int i = 0; i < 32; ++i) keys[i] = i % 3;
  Grouped out[32];
  launch({.blocks = 1, .threads = 32}, group_by_key, out, keys).wait();
  for (uint32_t i = 0; i < 32; ++i) {
    EXPECT_EQ(out[i].rank, i / 3);
    EXPECT_EQ(out[i].size, i % 3 == 2 ? 10u : 11u);
    EXPECT_EQ(out[i].value, 100 + i % 3) << "the leader is the group's lowest lane";
  }
}

PEAL_KERNEL share_nothing(Grouped* out, const int* keys) {
  const uint32_t me = thread_in_block();
  const Coalesced group(keys);
  uint64_t value = 5;
  out[me].shared = group.share(false, &value);
}

TEST(Coalesced, ALeaderWithoutAValueTellsAll) {
  const int keys[1] = {};
  Grouped out[32];
  launch({.blocks = 1, .threads = 32}, share_nothing, out, keys).wait();
  for (const Grouped& lane : out) EXPECT_FALSE(lane.shared);
}

// Two places in a kernel are two groups, whatever the compiler inlines: lanes in different calls
// reserve different numbers of blocks.
template <int kPlace>
[[gnu::noinline]] void group_here(Grouped* out, const int* key) {
  const Coalesced group(key);
  *out = {group.rank(), group.size(), group.leader(), group.last(), true, kPlace};
}

PEAL_KERNEL group_in_two_places(Grouped* out, const int* key) {
  const uint32_t me = thread_in_block();
  if (me % 2 == 0) {
    group_here<0>(&out[me], key);
  } else {
    group_here<1>(&out[me], key);
  }
}

TEST(Coalesced, LanesInDifferentCallsAreDifferentGroups) {
  const int key = 0;
  Grouped out[32];
  launch({.blocks = 1, .threads = 32}, group_in_two_places, out, &key).wait();
  for (const Grouped& lane : out) EXPECT_EQ(lane.size, 16u);
}

TEST(Coalesced, OutsideAKernelThereIsOneLane) {
  const Coalesced group(nullptr);
  EXPECT_EQ(group.size(), 1u);
  EXPECT_EQ(group.rank(), 0u);
  EXPECT_TRUE(group.leader());
  EXPECT_TRUE(group.last());
}

PEAL_KERNEL through_shared_memory(uint32_t* out) {
  struct Cell {
    uint32_t value;
  };
  auto* dynamic = dynamic_shared<uint32_t>();
  if (thread_in_block() == 1) {
    block_shared<Cell>().value = block_in_grid() + 10;
    dynamic[3] = block_in_grid() + 20;
  }
  __syncthreads();
  if (thread_in_block() == 0) {
    out[block_in_grid() * 2] = block_shared<Cell>().value;
    out[block_in_grid() * 2 + 1] = dynamic[3];
  }
}

TEST(Scope, SharedMemoryBelongsToItsBlock) {
  uint32_t out[6] = {};
  launch({.blocks = 3, .threads = 2, .shared_bytes = 64}, through_shared_memory, out).wait();
  for (uint32_t i = 0; i < 3; ++i) {
    EXPECT_EQ(out[2 * i], i + 10);
    EXPECT_EQ(out[2 * i + 1], i + 20);
  }
}

}  // namespace
}  // namespace peal
