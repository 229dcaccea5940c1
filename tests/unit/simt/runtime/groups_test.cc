// SPDX-License-Identifier: Apache-2.0
//
// Cooperative groups mean what CUDA's documentation says. The grid's barrier:
// cuda_runtime_launches_test.
#include "simt/runtime/groups.h"

#include <gtest/gtest.h>

#include <array>
#include <vector>

#include "simt/runtime/group_reduce.h"
#include "tests/unit/simt/support.h"

namespace {

namespace cg = cooperative_groups;
using peal::simt::run;

template <class Body>
auto on_warp(Body body) {
  std::array<decltype(body()), 32> answers{};
  run({1, 32}, [&] { answers[threadIdx.x] = body(); });
  return answers;
}

TEST(CooperativeGroups, ABlockKnowsItsThreads) {
  std::vector<unsigned> ranks(2 * 6 * 4);
  run({2, {6, 4}}, [&] {
    const cg::thread_block block = cg::this_thread_block();
    block.sync();
    cg::sync(block);
    ranks[block.group_index().x * block.size() + block.thread_rank()] =
        block.thread_index().y * block.dim_threads().x + block.thread_index().x;
  });
  for (unsigned i = 0; i < ranks.size(); ++i) EXPECT_EQ(ranks[i], i % 24);
}

TEST(CooperativeGroups, TilesDoNotSeeEachOther) {
  const auto got = on_warp([] {
    const auto tile = cg::tiled_partition<8>(cg::this_thread_block());
    unsigned sum = tile.thread_rank();
    for (unsigned delta = tile.size() / 2; delta != 0; delta /= 2) {
      sum += tile.shfl_down(sum, delta);
    }
    return tile.shfl(sum, 0) + 100 * tile.meta_group_rank() + 1000 * tile.meta_group_size();
  });
  for (unsigned i = 0; i < 32; ++i) EXPECT_EQ(got[i], 28 + 100 * (i / 8) + 4000);
}

TEST(CooperativeGroups, TilesShuffleInAllDirections) {
  const auto up = on_warp([] {
    const auto tile = cg::tiled_partition<4>(cg::this_thread_block());
    return tile.shfl_up(threadIdx.x, 1);
  });
  const auto mirrored = on_warp([] {
    const auto tile = cg::tiled_partition<4>(cg::this_thread_block());
    return tile.shfl_xor(threadIdx.x, 3);
  });
  EXPECT_EQ(up[4], 4u);
  EXPECT_EQ(up[7], 6u);
  EXPECT_EQ(mirrored[5], 6u);
}

TEST(CooperativeGroups, TilesVoteInTheirOwnRanks) {
  const auto got = on_warp([] {
    const auto tile = cg::tiled_partition<16>(cg::this_thread_block());
    const unsigned votes = tile.ballot(threadIdx.x >= 20);
    const unsigned same = tile.match_any(static_cast<int>(threadIdx.x / 24));
    return std::array{votes, same, static_cast<unsigned>(tile.any(threadIdx.x == 31)),
                      static_cast<unsigned>(tile.all(threadIdx.x < 16))};
  });
  EXPECT_EQ(got[0], (std::array{0u, 0xffffu, 0u, 1u}));
  EXPECT_EQ(got[16], (std::array{0xfff0u, 0x00ffu, 1u, 0u}));
  EXPECT_EQ(got[24], (std::array{0xfff0u, 0xff00u, 1u, 0u}));
}

TEST(CooperativeGroups, TilesAreCutFromTiles) {
  const auto got = on_warp([] {
    const auto warp = cg::tiled_partition<32>(cg::this_thread_block());
    const auto half = cg::tiled_partition<16>(warp);
    const auto quad = cg::tiled_partition<4>(half);
    return quad.meta_group_rank() * 100 + quad.meta_group_size() * 10 + quad.thread_rank();
  });
  EXPECT_EQ(got[0], 40u);
  EXPECT_EQ(got[15], 343u);
  EXPECT_EQ(got[22], 142u);
}

TEST(CooperativeGroups, ShuffleStructures) {
  struct Best {
    double value;
    int index;
  };
  const auto got = on_warp([] {
    const auto tile = cg::tiled_partition<32>(cg::this_thread_block());
    return tile.shfl(Best{threadIdx.x * 0.5, static_cast<int>(threadIdx.x)}, 7);
  });
  EXPECT_EQ(got[30].value, 3.5);
  EXPECT_EQ(got[30].index, 7);
}

TEST(CooperativeGroups, ReduceByEveryOperation) {
  const auto got = on_warp([] {
    const auto tile = cg::tiled_partition<16>(cg::this_thread_block());
    const int value = static_cast<int>(threadIdx.x) - 3;
    return std::array{cg::reduce(tile, value, cg::plus<int>()),
                      cg::reduce(tile, value, cg::less<int>()),
                      cg::reduce(tile, value, cg::greater<int>()),
                      cg::reduce(tile, 1 << threadIdx.x % 16, cg::bit_or<int>()),
                      cg::reduce(tile, 0xff, cg::bit_and<int>()),
                      cg::reduce(tile, 1, cg::bit_xor<int>())};
  });
  EXPECT_EQ(got[3], (std::array{72, -3, 12, 0xffff, 0xff, 0}));
  EXPECT_EQ(got[20], (std::array{328, 13, 28, 0xffff, 0xff, 0}));
}

TEST(CooperativeGroups, CoalescedThreadsAreThoseOfTheBranch) {
  const auto got = on_warp([] {
    if (threadIdx.x % 3 != 0) return std::array{0u, 0u, 0u};
    const cg::coalesced_group active = cg::coalesced_threads();
    const unsigned sum = cg::reduce(active, threadIdx.x, cg::plus<unsigned>());
    return std::array{active.size(), active.thread_rank(), sum};
  });
  EXPECT_EQ(got[9], (std::array{11u, 3u, 165u}));
  EXPECT_EQ(got[30], (std::array{11u, 10u, 165u}));
}

TEST(CooperativeGroups, OneThreadOfTheBranchCountsForAll) {
  // The usual use: one atomic for all that came here.
  int counter = 0;
  std::vector<int> taken(32, -1);
  run({1, 32}, [&] {
    if (threadIdx.x < 20) {
      const auto active = cg::coalesced_threads();
      int first = 0;
      if (active.thread_rank() == 0) first = atomicAdd(&counter, static_cast<int>(active.size()));
      taken[threadIdx.x] = active.shfl(first, 0) + static_cast<int>(active.thread_rank());
    }
  });
  EXPECT_EQ(counter, 20);
  for (int i = 0; i < 20; ++i) EXPECT_EQ(taken[static_cast<size_t>(i)], i);
}

TEST(CooperativeGroups, PartsByLabelAndByRank) {
  const auto got = on_warp([] {
    const auto tile = cg::tiled_partition<32>(cg::this_thread_block());
    const auto third = cg::labeled_partition(tile, static_cast<int>(threadIdx.x % 3));
    const auto low = cg::binary_partition(tile, threadIdx.x < 10);
    const auto pair = cg::tiled_partition<4>(third);
    return std::array{third.size(), third.thread_rank(), low.size(), pair.size(),
                      pair.meta_group_rank()};
  });
  EXPECT_EQ(got[4], (std::array{11u, 1u, 10u, 4u, 0u}));
  EXPECT_EQ(got[31], (std::array{11u, 10u, 22u, 3u, 2u}));
}

TEST(CooperativeGroups, FunctionsTakeAnyGroup) {
  const auto size_of = [](const cg::thread_group& group) {
    group.sync();
    return group.size() * 100 + group.thread_rank();
  };
  const auto got = on_warp([&] {
    const auto block = cg::this_thread_block();
    return std::array{size_of(block), size_of(cg::tiled_partition<4>(block)),
                      size_of(cg::tiled_partition(block, 16)), size_of(cg::this_thread())};
  });
  EXPECT_EQ(got[21], (std::array{3221u, 401u, 1605u, 100u}));
}

TEST(CooperativeGroups, TheGridCountsItsThreads) {
  std::vector<unsigned long long> ranks(2 * 3 * 10);
  run({{2, 3}, 10}, [&] {
    const auto grid = cg::this_grid();
    ranks[grid.thread_rank()] = grid.size();
  });
  for (const auto size : ranks) EXPECT_EQ(size, 60u);
}

TEST(CooperativeGroups, AlsoInAPartialWarp) {
  std::vector<unsigned> sums(40);
  run({1, 40}, [&] {
    const auto tile = cg::tiled_partition<8>(cg::this_thread_block());
    sums[threadIdx.x] = cg::reduce(tile, 1u, cg::plus<unsigned>());
    tile.sync();
  });
  for (const unsigned sum : sums) EXPECT_EQ(sum, 8u);
}

}  // namespace
