// SPDX-License-Identifier: Apache-2.0
//
// CUDA's names mean what CUDA's documentation says.
#include "simt/runtime/cuda_names.h"

#include <gtest/gtest.h>

#include <array>
#include <type_traits>
#include <vector>

#include "simt/lanes/launch.h"
#include "tests/unit/simt/support.h"

namespace {

using peal::simt::run;

constexpr unsigned kAll = 0xffffffff;

// Runs one warp; lane i's answer is element i.
template <class Body>
auto on_warp(Body body) {
  std::array<decltype(body()), 32> answers{};
  run({1, 32}, [&] { answers[threadIdx.x] = body(); });
  return answers;
}

TEST(CudaNames, IndicesAreUnsigned) {
  static_assert(std::is_same_v<std::remove_cvref_t<decltype(threadIdx.x)>, unsigned>);
  std::vector<unsigned> ids(6 * 40);
  run({6, 40}, [&ids] {
    const auto i = blockIdx.x * blockDim.x + threadIdx.x;
    ids[i] = i + gridDim.x;
  });
  for (unsigned i = 0; i < ids.size(); ++i) EXPECT_EQ(ids[i], i + 6);
}

TEST(CudaNames, ShuffleBroadcastsWithinItsWidth) {
  const auto got = on_warp([] { return __shfl_sync(kAll, threadIdx.x, 2, 8); });
  for (unsigned i = 0; i < 32; ++i) EXPECT_EQ(got[i], i / 8 * 8 + 2);
}

TEST(CudaNames, ShuffleTakesTheSourceModuloItsWidth) {
  const auto got = on_warp([] { return __shfl_sync(kAll, threadIdx.x, 35); });
  for (unsigned i = 0; i < 32; ++i) EXPECT_EQ(got[i], 3U);
}

TEST(CudaNames, ShuffleUpKeepsTheFirstLanes) {
  const auto got = on_warp([] { return __shfl_up_sync(kAll, threadIdx.x, 3, 16); });
  for (unsigned i = 0; i < 32; ++i) EXPECT_EQ(got[i], i % 16 < 3 ? i : i - 3);
}

TEST(CudaNames, ShuffleDownKeepsTheLastLanes) {
  const auto got = on_warp([] { return __shfl_down_sync(kAll, threadIdx.x, 3, 16); });
  for (unsigned i = 0; i < 32; ++i) EXPECT_EQ(got[i], i % 16 + 3 >= 16 ? i : i + 3);
}

TEST(CudaNames, ShuffleXorReadsEarlierSegmentsOnly) {
  const auto got = on_warp([] { return __shfl_xor_sync(kAll, threadIdx.x, 16, 8); });
  for (unsigned i = 0; i < 32; ++i) EXPECT_EQ(got[i], i >= 16 ? i - 16 : i);
}

TEST(CudaNames, ShufflesEveryType) {
  const auto doubles = on_warp([] { return __shfl_xor_sync(kAll, threadIdx.x + 0.5, 1); });
  const auto floats = on_warp([] { return __shfl_sync(kAll, static_cast<float>(threadIdx.x), 7); });
  const auto wide = on_warp([] { return __shfl_sync(kAll, (1ULL << 40) + threadIdx.x, 9); });
  const auto negative =
      on_warp([] { return __shfl_sync(kAll, -static_cast<int>(threadIdx.x), 5); });
  EXPECT_EQ(doubles[4], 5.5);
  EXPECT_EQ(floats[0], 7.0F);
  EXPECT_EQ(wide[31], (1ULL << 40) + 9);
  EXPECT_EQ(negative[3], -5);
}

TEST(CudaNames, ReducesByShuffleDown) {
  const auto got = on_warp([] {
    unsigned sum = threadIdx.x + 1;
    for (unsigned delta = 16; delta != 0; delta /= 2) sum += __shfl_down_sync(kAll, sum, delta);
    return __shfl_sync(kAll, sum, 0);
  });
  for (const unsigned sum : got) EXPECT_EQ(sum, 528U);
}

TEST(CudaNames, VotesAnyAndAll) {
  const auto any = on_warp([] { return __any_sync(kAll, threadIdx.x == 20); });
  const auto none = on_warp([] { return __any_sync(kAll, threadIdx.x == 40); });
  const auto all = on_warp([] { return __all_sync(kAll, threadIdx.x < 32); });
  const auto most = on_warp([] { return __all_sync(kAll, threadIdx.x != 3); });
  EXPECT_EQ(any[0], 1);
  EXPECT_EQ(none[0], 0);
  EXPECT_EQ(all[31], 1);
  EXPECT_EQ(most[31], 0);
}

TEST(CudaNames, BallotTakesAnyNonzeroPredicate) {
  const auto got = on_warp([] { return __ballot_sync(kAll, static_cast<int>(threadIdx.x & 4)); });
  EXPECT_EQ(got[0], 0xf0f0f0f0U);
}

TEST(CudaNames, MatchesAnyAndAll) {
  const auto any =
      on_warp([] { return __match_any_sync(kAll, static_cast<int>(threadIdx.x % 2)); });
  EXPECT_EQ(any[0], 0x55555555U);
  EXPECT_EQ(any[1], 0xaaaaaaaaU);
  const auto same = on_warp([] {
    int equal = 0;
    const unsigned mask = __match_all_sync(kAll, 7ULL, &equal);
    return equal == 1 ? mask : 0;
  });
  EXPECT_EQ(same[5], kAll);
  const auto mixed = on_warp([] {
    int equal = 1;
    return __match_all_sync(kAll, threadIdx.x / 31, &equal) + static_cast<unsigned>(equal);
  });
  EXPECT_EQ(mixed[5], 0U);
}

TEST(CudaNames, MatchesAllInAPartialWarp) {
  unsigned got = 0;
  run({1, 5}, [&got] {
    int equal = 0;
    const unsigned mask = __match_all_sync(kAll, 1, &equal);
    if (threadIdx.x == 0) got = mask;
  });
  EXPECT_EQ(got, 0x1fU);
}

TEST(CudaNames, ActiveMaskSeesBranches) {
  const auto got = on_warp([] {
    unsigned mask = 0;
    if (threadIdx.x < 10) {
      mask = __activemask();
      __syncwarp(mask);
    } else {
      mask = __activemask();
    }
    return mask;
  });
  for (unsigned i = 0; i < 32; ++i) EXPECT_EQ(got[i], i < 10 ? 0x3ffU : ~0x3ffU);
}

TEST(CudaNames, BarriersReduce) {
  std::vector<int> answers(50);
  run({1, 50}, [&answers] {
    const int count = __syncthreads_count(threadIdx.x < 20);
    const int any = __syncthreads_or(threadIdx.x == 49);
    const int none = __syncthreads_or(0);
    const int all = __syncthreads_and(1);
    const int most = __syncthreads_and(threadIdx.x != 7);
    __syncthreads();
    answers[threadIdx.x] = count * 10000 + any * 1000 + none * 100 + all * 10 + most;
  });
  for (const int answer : answers) EXPECT_EQ(answer, 201010);
}

TEST(CudaNames, CountsBits) {
  EXPECT_EQ(__popc(0xf0f0), 8);
  EXPECT_EQ(__popcll(~0ULL), 64);
  EXPECT_EQ(__clz(1), 31);
  EXPECT_EQ(__clz(0), 32);
  EXPECT_EQ(__clzll(1), 63);
  EXPECT_EQ(__ffs(0), 0);
  EXPECT_EQ(__ffs(8), 4);
  EXPECT_EQ(__ffsll(1LL << 40), 41);
  EXPECT_EQ(warpSize, 32);
}

TEST(CudaNames, AtomicsReturnTheOldValue) {
  int i = 10;
  EXPECT_EQ(atomicAdd(&i, 5), 10);
  EXPECT_EQ(atomicSub(&i, 3), 15);
  EXPECT_EQ(atomicExch(&i, -4), 12);
  EXPECT_EQ(atomicMin(&i, -9), -4);
  EXPECT_EQ(atomicMax(&i, 2), -9);
  EXPECT_EQ(i, 2);
  unsigned u = 0xf0;
  EXPECT_EQ(atomicAnd(&u, 0x3c), 0xf0U);
  EXPECT_EQ(atomicOr(&u, 0x01), 0x30U);
  EXPECT_EQ(atomicXor(&u, 0xff), 0x31U);
  EXPECT_EQ(u, 0xceU);
  unsigned long long w = 1;
  EXPECT_EQ(atomicAdd(&w, 1ULL << 40), 1ULL);
  EXPECT_EQ(atomicCAS(&w, 1, 2), (1ULL << 40) + 1);
  EXPECT_EQ(atomicCAS(&w, (1ULL << 40) + 1, 7), (1ULL << 40) + 1);
  EXPECT_EQ(w, 7ULL);
  float f = 1.5F;
  EXPECT_EQ(atomicAdd(&f, 2.0F), 1.5F);
  EXPECT_EQ(f, 3.5F);
}

TEST(CudaNames, AtomicIncAndDecWrap) {
  unsigned u = 2;
  EXPECT_EQ(atomicInc(&u, 3), 2U);
  EXPECT_EQ(atomicInc(&u, 3), 3U);
  EXPECT_EQ(u, 0U);
  EXPECT_EQ(atomicDec(&u, 3), 0U);
  EXPECT_EQ(atomicDec(&u, 3), 3U);
  EXPECT_EQ(u, 2U);
  u = 9;
  EXPECT_EQ(atomicDec(&u, 3), 9U);
  EXPECT_EQ(u, 3U);
}

TEST(CudaNames, AtomicsCountOverManyBlocks) {
  unsigned long long sum = 0;
  unsigned largest = 0;
  double real = 0;
  run({20, 64}, [&] {
    for (unsigned i = 0; i < 10; ++i) {
      atomicAdd(&sum, 1);
      atomicMax(&largest, blockIdx.x * 64 + threadIdx.x);
      atomicAdd(&real, 0.5);
    }
  });
  EXPECT_EQ(sum, 12800ULL);
  EXPECT_EQ(largest, 1279U);
  EXPECT_EQ(real, 6400.0);
}

TEST(CudaNames, LocksByCompareAndSwapDoNotStarve) {
  // A spin lock without a yield: the holder is another lane of the same warp.
  unsigned lock = 0;
  unsigned inside = 0;
  run({4, 32}, [&] {
    while (atomicCAS(&lock, 0, 1) != 0) {
    }
    __threadfence();
    const unsigned seen = inside;
    __nanosleep(10);
    inside = seen + 1;
    __threadfence();
    atomicExch(&lock, 0);
  });
  EXPECT_EQ(inside, 128U);
}

TEST(CudaNames, ClocksRunForwardAndLetOthersRun) {
  unsigned ready = 0;
  run({1, 2}, [&ready] {
    if (threadIdx.x == 1) {
      atomicExch(&ready, 1);
      return;
    }
    const long long start = clock64();
    while (atomicAdd(&ready, 0) == 0) EXPECT_GE(clock64(), start);
  });
  EXPECT_EQ(ready, 1U);
}

}  // namespace
