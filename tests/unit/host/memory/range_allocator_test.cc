// SPDX-License-Identifier: Apache-2.0
//
// The allocator against a byte map, and its promises about reuse and determinism.
#include "host/memory/range_allocator.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>
#include <vector>

#include "host/base/error.h"

namespace peal {
namespace {

constexpr uint64_t kGranule = 64;
using State = RangeAllocator::Range::State;

TEST(RangeAllocator, DealsOutFromTheBottom) {
  RangeAllocator ranges(1024, kGranule);
  EXPECT_EQ(ranges.allocate(1, 1), 0u);
  EXPECT_EQ(ranges.allocate(64, 1), 64u);
  EXPECT_EQ(ranges.allocate(65, 1), 128u);
  EXPECT_EQ(ranges.allocate(1, 1), 256u);
  EXPECT_EQ(ranges.allocated(), 320u);
  EXPECT_EQ(ranges.available(), 1024u - 320);
  EXPECT_EQ(ranges.blocks(), 4u);
}

TEST(RangeAllocator, DealsOutAtAPlace) {
  RangeAllocator ranges(1024, kGranule);
  EXPECT_TRUE(ranges.allocate_at(256, 100));
  EXPECT_EQ(ranges.find(300).asked, 100u);
  EXPECT_EQ(ranges.allocated(), 128u);
  for (const uint64_t taken : {256, 320}) EXPECT_FALSE(ranges.allocate_at(taken, 1));
  EXPECT_FALSE(ranges.allocate_at(192, 65)) << "goes into it";
  EXPECT_FALSE(ranges.allocate_at(10, 1)) << "no multiple";
  EXPECT_FALSE(ranges.allocate_at(1024, 1));
  EXPECT_FALSE(ranges.allocate_at(960, 65));
  EXPECT_FALSE(ranges.allocate_at(0, 0));
  EXPECT_TRUE(ranges.allocate_at(192, 64));
  EXPECT_TRUE(ranges.allocate_at(384, 1024 - 384));
  EXPECT_EQ(ranges.allocate(192, 1), 0u);
  EXPECT_EQ(ranges.available(), 0u);
  EXPECT_TRUE(ranges.free(256));
  EXPECT_EQ(ranges.allocate(128, 1), 256u);
}

// Another allocator that is told what is taken goes on as the first does.
TEST(RangeAllocator, GoesOnFromWhatIsTaken) {
  std::mt19937 random(3);
  RangeAllocator first(1 << 20, kGranule);
  std::map<uint64_t, uint64_t> taken;
  const auto change = [&](RangeAllocator& ranges, uint64_t bytes) {
    return ranges.allocate(bytes, 1).value();
  };
  for (int i = 0; i < 300; ++i) {
    const uint64_t bytes = 1 + random() % 2000;
    taken[change(first, bytes)] = bytes;
    if (i % 3 != 0) continue;
    const auto gone = std::next(taken.begin(), static_cast<long>(random() % taken.size()));
    EXPECT_TRUE(first.free(gone->first));
    taken.erase(gone);
  }
  RangeAllocator second(1 << 20, kGranule);
  for (const auto& [offset, bytes] : taken) EXPECT_TRUE(second.allocate_at(offset, bytes));
  EXPECT_EQ(second.allocated(), first.allocated());
  EXPECT_EQ(second.holes(), first.holes());
  for (int i = 0; i < 200; ++i) {
    const uint64_t bytes = 1 + random() % 2000;
    EXPECT_EQ(change(second, bytes), change(first, bytes));
  }
}

TEST(RangeAllocator, RefusesZeroBytes) {
  RangeAllocator ranges(1024, kGranule);
  EXPECT_EQ(ranges.allocate(0, 1), std::nullopt);
}

TEST(RangeAllocator, CanBeUsedUpExactly) {
  RangeAllocator ranges(4 * kGranule, kGranule);
  for (int i = 0; i < 4; ++i) EXPECT_TRUE(ranges.allocate(kGranule, 1));
  EXPECT_EQ(ranges.allocate(1, 1), std::nullopt);
  EXPECT_EQ(ranges.largest_free(), 0u);
}

TEST(RangeAllocator, HasNoUseForThePartBehindTheLastGranule) {
  RangeAllocator ranges(100, kGranule);
  EXPECT_EQ(ranges.size(), 64u);
  EXPECT_EQ(ranges.allocate(65, 1), std::nullopt);
  EXPECT_EQ(ranges.allocate(64, 1), 0u);
}

TEST(RangeAllocator, MayHaveNoRoomAtAll) {
  RangeAllocator ranges(10, kGranule);
  EXPECT_EQ(ranges.allocate(1, 1), std::nullopt);
  EXPECT_EQ(ranges.find(0).state, State::kOutside);
}

TEST(RangeAllocator, HonoursAlignmentAndKeepsTheGapUsable) {
  RangeAllocator ranges(1 << 20, kGranule);
  EXPECT_EQ(ranges.allocate(64, 1), 0u);
  EXPECT_EQ(ranges.allocate(64, 4096), 4096u);
  EXPECT_EQ(ranges.allocate(4032, 1), 64u);
}

TEST(RangeAllocator, FindsTheOneBlockThatFitsAnAlignment) {
  RangeAllocator ranges(8192, kGranule);
  EXPECT_EQ(ranges.allocate(64, 1), 0u);
  EXPECT_EQ(ranges.allocate(4096, 4096), 4096u);  // exactly the upper half
  EXPECT_EQ(ranges.allocate(64, 4096), std::nullopt);
}

TEST(RangeAllocator, FindsAFittingBlockBehindManyThatDoNot) {
  // 40 free blocks of 5 granules, then one of 7: the same class, more than allocate() tries first.
  RangeAllocator ranges(41 * 16 * kGranule, kGranule);
  std::vector<uint64_t> blocks;
  for (int i = 0; i < 40; ++i) {
    blocks.push_back(*ranges.allocate(5 * kGranule, 1));
    ASSERT_TRUE(ranges.allocate(kGranule, 1));
  }
  const uint64_t wide = *ranges.allocate(7 * kGranule, 1);
  ASSERT_TRUE(ranges.allocate(ranges.largest_free(), 1));
  for (const uint64_t block : blocks) EXPECT_TRUE(ranges.free(block));
  EXPECT_TRUE(ranges.free(wide));
  EXPECT_EQ(ranges.allocate(6 * kGranule, 1), wide);
}

TEST(RangeAllocator, ReusesFreedMemoryLowestFirst) {
  RangeAllocator ranges(1 << 16, kGranule);
  const uint64_t a = *ranges.allocate(128, 1);
  const uint64_t b = *ranges.allocate(128, 1);
  const uint64_t c = *ranges.allocate(128, 1);
  ASSERT_TRUE(ranges.allocate(64, 1));
  EXPECT_EQ(ranges.free(c), 128u);
  EXPECT_EQ(ranges.free(a), 128u);
  EXPECT_EQ(ranges.allocate(100, 1), a);
  EXPECT_EQ(ranges.allocate(100, 1), c);
  EXPECT_TRUE(ranges.free(b));
}

TEST(RangeAllocator, MergesNeighboursFreedInAnyOrder) {
  std::vector<int> order{0, 1, 2, 3};
  do {
    RangeAllocator ranges(4 * kGranule, kGranule);
    for (uint64_t i = 0; i < 4; ++i) EXPECT_EQ(ranges.allocate(kGranule, 1), i * kGranule);
    for (const int i : order) EXPECT_TRUE(ranges.free(static_cast<uint64_t>(i) * kGranule));
    EXPECT_EQ(ranges.largest_free(), 4 * kGranule);
    EXPECT_EQ(ranges.allocate(4 * kGranule, 1), 0u);
  } while (std::next_permutation(order.begin(), order.end()));
}

TEST(RangeAllocator, RefusesToFreeWhatIsNoBlock) {
  RangeAllocator ranges(1024, kGranule);
  const uint64_t block = *ranges.allocate(256, 1);
  EXPECT_EQ(ranges.free(block + 64), std::nullopt);
  EXPECT_EQ(ranges.free(512), std::nullopt);
  EXPECT_EQ(ranges.free(1 << 20), std::nullopt);
  EXPECT_EQ(ranges.allocated(), 256u);
  EXPECT_TRUE(ranges.free(block));
  EXPECT_EQ(ranges.free(block), std::nullopt);
}

TEST(RangeAllocator, KnowsWhatAnOffsetBelongsTo) {
  RangeAllocator ranges(1024, kGranule);
  ranges.allocate(128, 1);
  RangeAllocator::Range range = ranges.find(127);
  EXPECT_EQ(range.state, State::kAllocated);
  EXPECT_EQ(range.offset, 0u);
  EXPECT_EQ(range.bytes, 128u);
  range = ranges.find(1023);
  EXPECT_EQ(range.state, State::kFree);
  EXPECT_EQ(range.offset, 128u);
  EXPECT_EQ(range.bytes, 896u);
  EXPECT_EQ(ranges.find(1024).state, State::kOutside);
}

TEST(RangeAllocator, RefusesImpossibleArguments) {
  EXPECT_THROW(RangeAllocator(1024, 48), Error);
  EXPECT_THROW(RangeAllocator(1024, 0), Error);
  EXPECT_THROW(RangeAllocator(~uint64_t{0}, 64), Error);
  RangeAllocator ranges(1024, kGranule);
  EXPECT_THROW(ranges.allocate(1, 0), Error);
  EXPECT_THROW(ranges.allocate(1, 96), Error);
}

TEST(RangeAllocator, RefusesHugeRequestsWithoutOverflow) {
  RangeAllocator ranges(1024, kGranule);
  EXPECT_EQ(ranges.allocate(~uint64_t{0}, 1), std::nullopt);
  EXPECT_EQ(ranges.allocate(~uint64_t{0} - 62, 64), std::nullopt);
  EXPECT_EQ(ranges.allocate(1, uint64_t{1} << 63), std::nullopt);
  EXPECT_EQ(ranges.allocate(1024, 1), 0u);
}

// One random life: allocations and frees, checked against a list of who has what.
class RandomLife : public ::testing::TestWithParam<unsigned> {};

TEST_P(RandomLife, NeverOverlapsAndAddsUp) {
  constexpr uint64_t kSize = 1 << 18;
  std::mt19937 random(GetParam());
  const auto pick = [&random](uint64_t n) { return random() % n; };
  RangeAllocator ranges(kSize, kGranule);
  std::map<uint64_t, uint64_t> live;
  uint64_t bytes_live = 0;
  for (int step = 0; step < 4000; ++step) {
    if (live.empty() || pick(100) < 55) {
      const uint64_t bytes = pick(1 + (uint64_t{1} << pick(15))) + 1;
      const uint64_t alignment = uint64_t{1} << pick(13);
      const auto offset = ranges.allocate(bytes, alignment);
      if (!offset) continue;
      const uint64_t rounded = (bytes + kGranule - 1) / kGranule * kGranule;
      ASSERT_EQ(*offset % alignment, 0u);
      ASSERT_EQ(*offset % kGranule, 0u);
      ASSERT_LE(*offset + rounded, kSize);
      const auto after = live.upper_bound(*offset);
      ASSERT_TRUE(after == live.end() || *offset + rounded <= after->first);
      ASSERT_TRUE(after == live.begin() ||
                  std::prev(after)->first + std::prev(after)->second <= *offset);
      live.emplace(*offset, rounded);
      bytes_live += rounded;
    } else {
      const auto block = std::next(live.begin(), static_cast<long>(pick(live.size())));
      ASSERT_EQ(ranges.free(block->first), block->second);
      bytes_live -= block->second;
      live.erase(block);
    }
    ASSERT_EQ(ranges.allocated(), bytes_live);
    ASSERT_EQ(ranges.blocks(), live.size());
  }
  for (const auto& [offset, bytes] : live) ASSERT_EQ(ranges.free(offset), bytes);
  EXPECT_EQ(ranges.largest_free(), kSize);
}

TEST_P(RandomLife, RefusesOnlyWhenNoHoleFits) {
  constexpr uint64_t kSize = 1 << 14;
  std::mt19937 random(GetParam());
  RangeAllocator ranges(kSize, kGranule);
  std::vector<bool> taken(kSize / kGranule);
  std::vector<std::pair<uint64_t, uint64_t>> live;
  for (int step = 0; step < 3000; ++step) {
    const uint64_t bytes = (random() % 32 + 1) * kGranule;
    const uint64_t alignment = kGranule << random() % 5;
    if (const auto offset = ranges.allocate(bytes, alignment)) {
      live.emplace_back(*offset, bytes);
      for (uint64_t i = *offset; i < *offset + bytes; i += kGranule) taken[i / kGranule] = true;
      continue;
    }
    for (uint64_t begin = 0; begin + bytes <= kSize; begin += alignment) {
      const auto first = taken.begin() + static_cast<long>(begin / kGranule);
      ASSERT_NE(std::find(first, first + static_cast<long>(bytes / kGranule), true),
                first + static_cast<long>(bytes / kGranule))
          << bytes << " bytes fit at " << begin;
    }
    const size_t victim = random() % live.size();
    const auto [offset, size] = live[victim];
    ASSERT_EQ(ranges.free(offset), size);
    for (uint64_t i = offset; i < offset + size; i += kGranule) taken[i / kGranule] = false;
    live.erase(live.begin() + static_cast<long>(victim));
  }
}

TEST_P(RandomLife, GivesTheSameOffsetsForTheSameCalls) {
  const auto run = [seed = GetParam()] {
    std::mt19937 random(seed);
    RangeAllocator ranges(1 << 16, kGranule);
    std::vector<uint64_t> offsets;
    for (int step = 0; step < 2000; ++step) {
      if (const auto offset = ranges.allocate(random() % 2000 + 1, uint64_t{1} << random() % 9)) {
        offsets.push_back(*offset);
      }
      if (random() % 2 == 0 && !offsets.empty()) ranges.free(offsets[random() % offsets.size()]);
    }
    return offsets;
  };
  EXPECT_EQ(run(), run());
}

TEST_P(RandomLife, ServesAHeapThatIsHalfFull) {
  // Mixed sizes, at most half of the memory live: fragmentation must not make this fail.
  constexpr uint64_t kSize = 8 << 20;
  std::mt19937 random(GetParam());
  RangeAllocator ranges(kSize, kGranule);
  std::vector<uint64_t> live;
  for (int step = 0; step < 20000; ++step) {
    const uint64_t bytes = uint64_t{64} << random() % 9;  // 64 B .. 16 KiB
    while (ranges.allocated() + bytes > kSize / 2) {
      const size_t victim = random() % live.size();
      ranges.free(live[victim]);
      live[victim] = live.back();
      live.pop_back();
    }
    const auto offset = ranges.allocate(bytes, kGranule);
    ASSERT_TRUE(offset) << "step " << step << ", " << ranges.allocated() << " allocated";
    live.push_back(*offset);
  }
}

INSTANTIATE_TEST_SUITE_P(Seeds, RandomLife, ::testing::Range(1u, 9u));

}  // namespace
}  // namespace peal
