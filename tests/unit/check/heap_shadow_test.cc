// SPDX-License-Identifier: Apache-2.0
//
// Accesses to whole chunks and to parts of them lie at different levels: what one level has must be
// seen by accesses at the other, by two PEs at the same moment too, and nothing may be told twice.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <random>
#include <thread>
#include <vector>

#include "host/check/shadow.h"
#include "tests/unit/check/past.h"

namespace peal::checking {
namespace {

constexpr uint64_t kChunks = 4;
constexpr uint64_t kBytes = kChunks * kChunk;

class Heap {
 public:
  HeapShadow shadow() { return {cells_.data(), chunks_.data()}; }
  bool cells_are_empty() const {
    return std::ranges::all_of(cells_, [](const auto& word) { return word.load() == 0; });
  }

 private:
  std::vector<std::atomic<uint64_t>> cells_ =
      std::vector<std::atomic<uint64_t>>(kBytes / kGranule * kSlots);
  std::vector<Chunk> chunks_ = std::vector<Chunk>(kChunks);
};

// The memory is that of a PE that takes no part, so that all writes are transfers.
Known knows(int pe, uint32_t stamp = 1) {
  Known known = nothing();
  known.done[static_cast<size_t>(pe)] = known.transferred[static_cast<size_t>(pe)] = stamp;
  return known;
}

Conflicts conflicts(Heap& heap, uint64_t begin, uint64_t end, ShadowSlot mine,
                    const Known& known = nothing()) {
  Conflicts found;
  access(heap.shadow(), begin, end, mine, known, found);
  return found;
}

void expect_one(const Conflicts& found, int pe, uint64_t begin, uint64_t end) {
  ASSERT_EQ(found.count, 1);
  EXPECT_EQ(found.list[0].other.pe(), pe);
  EXPECT_EQ(found.list[0].begin, begin);
  EXPECT_EQ(found.list[0].end, end);
}

TEST(HeapShadow, HalfAChunkBehindAWholeOne) {
  Heap heap;
  EXPECT_EQ(conflicts(heap, 0, 2 * kChunk, slot(0, true)).count, 0);
  expect_one(conflicts(heap, kChunk, kChunk + 512, slot(1, true)), 0, kChunk, kChunk + 512);
  expect_one(conflicts(heap, 700, kChunk + 3, slot(2, false), knows(1)), 0, 700, kChunk + 3);
}

TEST(HeapShadow, AWholeChunkBehindHalfAOne) {
  Heap heap;
  EXPECT_EQ(conflicts(heap, kChunk + 3, kChunk + 512, slot(0, true)).count, 0);
  expect_one(conflicts(heap, kChunk, 2 * kChunk, slot(1, false)), 0, kChunk + 3, kChunk + 512);
  EXPECT_EQ(conflicts(heap, 2 * kChunk, 3 * kChunk, slot(1, true)).count, 0);
}

TEST(HeapShadow, WholeChunksOfTwoPes) {
  Heap heap;
  EXPECT_EQ(conflicts(heap, 0, 3 * kChunk, slot(0, true)).count, 0);
  expect_one(conflicts(heap, kChunk, 4 * kChunk, slot(1, true)), 0, kChunk, 3 * kChunk);
  Heap ordered;
  EXPECT_EQ(conflicts(ordered, 0, 3 * kChunk, slot(0, true)).count, 0);
  EXPECT_EQ(conflicts(ordered, kChunk, 4 * kChunk, slot(1, true), knows(0)).count, 0);
  Heap read;
  EXPECT_EQ(conflicts(read, 0, kBytes, slot(0, false)).count, 0);
  EXPECT_EQ(conflicts(read, 0, kBytes, slot(1, false)).count, 0);
  EXPECT_EQ(conflicts(read, 0, kBytes, slot(2, true)).count, 2);
}

// A later write at one level does not hide in an earlier one at the other, nor make it seem later.
TEST(HeapShadow, EachLevelHasItsOwnStamps) {
  Heap part_last;
  EXPECT_EQ(conflicts(part_last, 0, kChunk, slot(0, true, 1)).count, 0);
  EXPECT_EQ(conflicts(part_last, 64, 128, slot(0, true, 2)).count, 0);
  EXPECT_EQ(conflicts(part_last, 128, 300, slot(1, false), knows(0, 1)).count, 0);
  expect_one(conflicts(part_last, 0, kChunk, slot(1, false), knows(0, 1)), 0, 64, 128);
  EXPECT_EQ(conflicts(part_last, 0, kChunk, slot(1, false), knows(0, 2)).count, 0);
  Heap whole_last;
  EXPECT_EQ(conflicts(whole_last, 64, 128, slot(0, true, 1)).count, 0);
  EXPECT_EQ(conflicts(whole_last, 0, kChunk, slot(0, true, 2)).count, 0);
  expect_one(conflicts(whole_last, 70, 80, slot(1, false), knows(0, 1)), 0, 70, 80);
  EXPECT_EQ(conflicts(whole_last, 70, 80, slot(1, false), knows(0, 2)).count, 0);
}

TEST(HeapShadow, WholeChunksNeedNoCells) {
  Heap heap;
  EXPECT_EQ(conflicts(heap, 0, kBytes, slot(0, true)).count, 0);
  EXPECT_EQ(conflicts(heap, 0, kBytes, slot(1, true), knows(0)).count, 0);
  EXPECT_TRUE(heap.cells_are_empty());
}

TEST(HeapShadow, WhatAWholeAccessStandsForLeavesTheCells) {
  Heap heap;
  EXPECT_EQ(conflicts(heap, 3, 900, slot(0, true)).count, 0);
  EXPECT_EQ(conflicts(heap, 0, kChunk, slot(1, false), knows(0)).count, 0);
  EXPECT_FALSE(heap.cells_are_empty());  // a read does not stand for a write
  EXPECT_EQ(conflicts(heap, 0, kChunk, slot(1, true), knows(0)).count, 0);
  EXPECT_TRUE(heap.cells_are_empty());
  EXPECT_EQ(Chunk::phase(heap.shadow().chunks[0].state.load()), Chunk::kEmpty);
  expect_one(conflicts(heap, 8, 9, slot(2, false)), 1, 8, 9);
}

TEST(HeapShadow, ForgetsARange) {
  Heap heap;
  EXPECT_EQ(conflicts(heap, 0, kBytes, slot(0, true)).count, 0);
  EXPECT_EQ(conflicts(heap, 0, kChunk + 64, slot(1, false), knows(0)).count, 0);
  forget(heap.shadow(), 512, 2 * kChunk + 512);
  EXPECT_EQ(conflicts(heap, 512, 2 * kChunk + 512, slot(2, true)).count, 0);
  EXPECT_EQ(conflicts(heap, 0, 512, slot(3, true), knows(2)).count, 2);
  expect_one(conflicts(heap, 2 * kChunk, 3 * kChunk, slot(3, true), knows(2)), 0, 2 * kChunk + 512,
             3 * kChunk);
  expect_one(conflicts(heap, 3 * kChunk, kBytes, slot(3, true), knows(2)), 0, 3 * kChunk, kBytes);
}

TEST(HeapShadow, WritersOfBothLevels) {
  Heap heap;
  EXPECT_EQ(conflicts(heap, 0, kChunk, slot(3, true)).count, 0);
  EXPECT_EQ(conflicts(heap, 64, 72, slot(5, true), knows(3)).count, 0);
  EXPECT_EQ(writers_of_data(heap.shadow(), 64), 1u << 3 | 1u << 5);
  EXPECT_EQ(writers_of_data(heap.shadow(), 72), 1u << 3);
  EXPECT_EQ(writers_of_data(heap.shadow(), kChunk), 0u);
}

// ---- at the same moment

// Threads that go on within nanoseconds of one another where they can: std::barrier may sleep.
class Start {
 public:
  void meet() {
    const int target = (arrived_.fetch_add(1) / 2 + 1) * 2;
    while (arrived_.load() < target) std::this_thread::yield();
  }

 private:
  std::atomic<int> arrived_{0};
};

struct Range {
  uint64_t begin, end;
};

// Both PEs write, PE i range[i], over and over in new memory: one of the two is told of the other.
void race(const std::array<Range, 2>& range) {
  constexpr int kRounds = 2000;
  std::vector<Heap> heaps(kRounds);
  std::atomic<int> found{0};
  Start start;
  const auto run = [&](int pe) {
    const Range& mine = range[static_cast<size_t>(pe)];
    for (Heap& heap : heaps) {
      start.meet();
      if (conflicts(heap, mine.begin, mine.end, slot(pe, true)).count != 0) found.fetch_add(1);
      start.meet();
      if (pe == 0) {
        EXPECT_GE(found.exchange(0), 1);
      }
      start.meet();
    }
  };
  std::thread other(run, 1);
  run(0);
  other.join();
}

TEST(HeapShadow, OfTwoWholeAccessesAtATimeOneSeesTheOther) {
  race({Range{0, kChunk}, Range{0, kChunk}});
}

TEST(HeapShadow, OfAWholeOneAndAPartAtATimeOneSeesTheOther) {
  race({Range{0, kChunk}, Range{512, 520}});
  race({Range{0, kChunk}, Range{0, 512}});
}

TEST(HeapShadow, APartThatTwoBreakAtOnceIsFoundByBothAndByOneAnother) {
  constexpr int kRounds = 2000;
  std::vector<Heap> heaps(kRounds);
  for (Heap& heap : heaps) ASSERT_EQ(conflicts(heap, 0, kChunk, slot(2, true)).count, 0);
  std::atomic<int> of_whole{0};
  std::atomic<int> of_part{0};
  Start start;
  const auto run = [&](int pe) {
    for (Heap& heap : heaps) {
      start.meet();
      const Conflicts found =
          conflicts(heap, pe == 0 ? 0 : 504, pe == 0 ? 512 : 900, slot(pe, true));
      for (int i = 0; i < found.count; ++i) {
        const int other = found.list[static_cast<size_t>(i)].other.pe();
        (other == 2 ? of_whole : of_part).fetch_add(1);
      }
      start.meet();
      if (pe == 0) {
        EXPECT_EQ(of_whole.exchange(0), 2);
        EXPECT_GE(of_part.exchange(0), 1);
      }
      start.meet();
    }
  };
  std::thread other(run, 1);
  run(0);
  other.join();
}

// Now one of two is first, now the other.
void turn(std::mt19937& random) {
  const auto end = static_cast<int>(random() % 200);
  for (std::atomic<int> i{0}; i.load() < end;) i.fetch_add(1);
}

// PE 1's access to the whole takes PE 0's earlier parts out of the cells while PE 0 leaves a later
// one. That one must not go with them: PE 2, which knows of everything else, finds it.
TEST(HeapShadow, APartIsNotLostToOneThatClears) {
  constexpr int kRounds = 10000;
  Heap heap;
  Start start;
  std::thread other([&] {
    std::mt19937 random(1);
    for (int round = 0; round < kRounds; ++round) {
      const uint64_t at = random() % 16 * kGranule;  // where the one who clears has soon been
      start.meet();
      turn(random);
      conflicts(heap, at, at + kGranule, slot(0, false, 2));
      start.meet();
    }
  });
  Known known = knows(0, 1);
  known.done[1] = known.transferred[1] = 1;
  std::mt19937 random(2);
  int lost = 0;
  for (int round = 0; round < kRounds; ++round) {
    forget(heap.shadow(), 0, kBytes);
    conflicts(heap, 0, kChunk - kGranule, slot(0, false, 1));
    start.meet();
    turn(random);
    conflicts(heap, 0, kChunk, slot(1, false), knows(0, 1));
    start.meet();
    if (conflicts(heap, 0, kChunk, slot(2, true), known).count != 1) ++lost;
  }
  other.join();
  EXPECT_EQ(lost, 0);
}

// ---- against a list of everything that ever happened

// Ranges of whole units, every other time of whole chunks.
void compare(uint64_t unit, bool exact, unsigned seed) {
  Heap heap;
  compare_with_past(
      seed, exact,
      [unit](std::mt19937& random) {
        const uint64_t step = random() % 2 == 0 ? kChunk : unit;
        const uint64_t most = step == kChunk ? 2 : 2 * kChunk / unit;
        const uint64_t begin = random() % (kBytes / step) * step;
        return Bytes{begin, std::min(kBytes, begin + (random() % most + 1) * step)};
      },
      [&](const Bytes& at, ShadowSlot mine, const Known& known) {
        return conflicts(heap, at.begin, at.end, mine, known).count != 0;
      });
}

TEST(HeapShadow, FindsWhatAListOfAllAccessesFinds) {
  for (unsigned seed = 1; seed <= 200; ++seed) compare(kGranule, true, seed);
}

TEST(HeapShadow, MakesNothingUpWhereItForgets) {
  for (unsigned seed = 1; seed <= 200; ++seed) compare(1, false, seed);
}

}  // namespace
}  // namespace peal::checking
