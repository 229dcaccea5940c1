// SPDX-License-Identifier: Apache-2.0
//
// Small stores of the lanes of a warp that follow one another at the peer are one request; all
// others are a request each, in the order of the lanes.
#include <cstring>
#include <vector>

#include "device/batch.h"
#include "device/rma.h"
#include "device/sync.h"
#include "gtest/gtest.h"
#include "tests/support/device_rig.h"

namespace peal {
namespace {

using testing::DeviceRig;
using testing::kTarget;
using testing::NicThread;
using testing::SeenWqe;

constexpr Grid kWarp{.blocks = 1, .threads = 32};

/// Where lane i stores, in words of T.
enum class Order { kForwards, kBackwards, kEven, kSame };
PEAL_DEVICE uint32_t place_of(Order order, uint32_t lane) {
  switch (order) {
    case Order::kForwards:
      return lane;
    case Order::kBackwards:
      return 31 - lane;
    case Order::kEven:
      return 2 * lane;
    default:
      return 0;
  }
}

template <class T>
PEAL_KERNEL put_lane(Context ctx, T* to, Order order, uint32_t lanes) {
  const uint32_t me = thread_in_block();
  if (me < lanes) (void)p(ctx, to + place_of(order, me), static_cast<T>(me + 1), 1);
}

template <class T>
std::vector<SeenWqe> seen_of(DeviceRig& rig, Order order, uint32_t lanes) {
  launch(kWarp, put_lane<T>, rig.context(), rig.local<T>(kTarget), order, lanes).wait();
  rig.step_all();
  EXPECT_EQ(rig.complaints(), "");
  for (uint32_t i = 0; order != Order::kSame && i < lanes; ++i) {
    EXPECT_EQ(rig.remote<T>(1, kTarget)[place_of(order, i)], static_cast<T>(i + 1)) << i;
  }
  return rig.nic(1).seen();
}

TEST(Combine, WordsInARowAreOneRequest) {
  DeviceRig rig;
  const auto seen = seen_of<uint64_t>(rig, Order::kForwards, 32);
  ASSERT_EQ(seen.size(), 1u);
  // 19 lines: control, remote address, 4 + 256 bytes.
  EXPECT_EQ(seen[0].text().substr(0, 2 * 44 + 10),
            "00000008 abc00113 00000008 00000000 00000000 00002000 11223301 00000000 "
            "80000100 01000000 00000000");
  EXPECT_EQ(rig.queue(1).posted, posted_word(5, 5));
}

TEST(Combine, ALaneMoreOrLess) {
  for (uint32_t lanes = 1; lanes <= 32; ++lanes) {
    DeviceRig rig;
    EXPECT_EQ(seen_of<uint32_t>(rig, Order::kForwards, lanes).size(), 1u) << lanes;
    EXPECT_EQ(rig.remote<uint32_t>(1, kTarget)[lanes], 0u) << "what nobody has stored";
    EXPECT_EQ(rig.queue(1).posted,
              posted_word((36 + 4 * lanes + 63) / 64, (36 + 4 * lanes + 63) / 64));
  }
}

TEST(Combine, GoesRoundTheRingsEnd) {
  for (uint64_t start = 120; start < 129; ++start) {
    DeviceRig rig({.start = start});
    EXPECT_EQ(seen_of<uint64_t>(rig, Order::kForwards, 32).size(), 1u) << start;
  }
}

TEST(Combine, AnyOtherOrderIsARequestEach) {
  for (const Order order : {Order::kBackwards, Order::kEven, Order::kSame}) {
    DeviceRig rig;
    const auto seen = seen_of<uint64_t>(rig, order, 32);
    ASSERT_EQ(seen.size(), 32u);
    for (size_t i = 0; i < seen.size(); ++i) EXPECT_EQ(seen[i].bytes[36], i + 1) << "lane " << i;
    size_t completions = 0;
    for (const SeenWqe& wqe : seen) completions += wqe.signalled() ? 1 : 0;
    EXPECT_EQ(completions, 1u);
  }
}

TEST(Combine, BytesThatAreNoWordsAreARequestEach) {
  DeviceRig rig;
  EXPECT_EQ(seen_of<uint16_t>(rig, Order::kForwards, 32).size(), 32u);
}

TEST(Combine, WhatACpuPostsAnewIsARequestEach) {
  DeviceRig rig;
  rig.queue(1).to_cells = 1;
  EXPECT_EQ(seen_of<uint64_t>(rig, Order::kForwards, 32).size(), 32u);
}

/// Puts of `bytes` from everybody's own source; `odd` of the lanes is a word shorter.
PEAL_KERNEL put_bytes_of_lane(Context ctx, std::byte* to, const std::byte* from, uint32_t bytes,
                              uint32_t odd) {
  const uint32_t me = thread_in_block();
  const uint32_t mine = me == odd ? bytes - 4 : bytes;
  (void)put_nbi(ctx, static_cast<void*>(to + me * bytes), from + me * bytes, mine, 1);
}

std::vector<SeenWqe> seen_of_puts(DeviceRig& rig, uint32_t bytes, uint32_t odd) {
  std::vector<std::byte> source(32 * bytes);
  for (size_t i = 0; i < source.size(); ++i) source[i] = static_cast<std::byte>(7 * i + 1);
  launch(kWarp, put_bytes_of_lane, rig.context(), rig.local<std::byte>(kTarget), source.data(),
         bytes, odd)
      .wait();
  rig.step_all();
  EXPECT_EQ(rig.complaints(), "");
  if (odd < 32) std::memset(&source[odd * bytes + bytes - 4], 0, 4);
  EXPECT_EQ(std::memcmp(rig.remote<std::byte>(1, kTarget), source.data(), source.size()), 0);
  return rig.nic(1).seen();
}

TEST(Combine, ShortPutsAsWell) {
  for (const uint32_t bytes : {4u, 8u, 12u}) {
    DeviceRig rig;
    EXPECT_EQ(seen_of_puts(rig, bytes, 32).size(), 1u) << bytes;
  }
  DeviceRig longer;
  EXPECT_EQ(seen_of_puts(longer, 16, 32).size(), 32u);
}

TEST(Combine, NotPutsOfDifferentLengths) {
  for (const uint32_t odd : {0u, 13u}) {
    DeviceRig rig;
    EXPECT_EQ(seen_of_puts(rig, 8, odd).size(), 32u) << odd;
  }
}

/// Lane `missing` stores nothing, and the others' places are as if it were not there.
PEAL_KERNEL put_but_one(Context ctx, uint64_t* to, uint32_t missing) {
  const uint32_t me = thread_in_block();
  if (me != missing) (void)p(ctx, to + me - (me > missing ? 1 : 0), uint64_t{me} + 1, 1);
}

TEST(Combine, NotOverAMissingLane) {
  for (const uint32_t missing : {0u, 7u, 31u}) {
    DeviceRig rig;
    launch(kWarp, put_but_one, rig.context(), rig.local<uint64_t>(kTarget), missing).wait();
    rig.step_all();
    EXPECT_EQ(rig.nic(1).seen().size(), missing == 7 ? 31u : 1u) << missing;
    for (uint64_t i = 0; i < 31; ++i) {
      EXPECT_EQ(rig.remote<uint64_t>(1, kTarget)[i], i + (i < missing ? 1 : 2));
    }
  }
}

PEAL_KERNEL put_to_two(Context ctx, uint64_t* to) {
  const uint32_t me = thread_in_block();
  (void)p(ctx, to + me / 2, uint64_t{me} + 1, 1 + static_cast<int>(me % 2));
}

// Lanes of each PE have gaps between them.
TEST(Combine, TwoPesOfAWarp) {
  DeviceRig rig({.n_pes = 3});
  launch(kWarp, put_to_two, rig.context(), rig.local<uint64_t>(kTarget)).wait();
  rig.step_all();
  for (const int pe : {1, 2}) {
    EXPECT_EQ(rig.nic(pe).seen().size(), 16u);
    for (uint64_t i = 0; i < 16; ++i) {
      EXPECT_EQ(rig.remote<uint64_t>(pe, kTarget)[i], 2 * i + static_cast<uint64_t>(pe));
    }
  }
}

PEAL_KERNEL put_in_a_batch(Context ctx, uint64_t* to, const uint64_t* from) {
  const uint32_t me = thread_in_block();
  Batch batch(ctx);
  for (uint32_t i = 0; i < 60; ++i) (void)batch.put_nbi(to + me, from + me, 1, 1);
}

// More than the queue holds, of requests that are rung later.
TEST(Combine, InABatch) {
  DeviceRig rig({.depth = 128});
  for (uint64_t i = 0; i < 32; ++i) rig.local<uint64_t>(testing::kSource)[i] = i + 1;
  {
    const NicThread nics(rig);
    launch(kWarp, put_in_a_batch, rig.context(), rig.local<uint64_t>(kTarget),
           rig.local<uint64_t>(testing::kSource))
        .wait();
    EXPECT_EQ(quiet(rig.context()), Status::kOk);
  }
  EXPECT_EQ(rig.nic(1).seen().size(), 60u);
  EXPECT_EQ(rig.complaints(), "");
  for (uint64_t i = 0; i < 32; ++i) EXPECT_EQ(rig.remote<uint64_t>(1, kTarget)[i], i + 1);
}

PEAL_KERNEL put_again_and_again(Context ctx, uint64_t* to, uint32_t rounds, uint32_t* wrong) {
  const uint32_t me = block_in_grid() * threads_in_block() + thread_in_block();
  const uint32_t all = blocks_in_grid() * threads_in_block();
  for (uint32_t i = 0; i < rounds; ++i) {
    if (p(ctx, to + i * all + me, uint64_t{me} << 32 | i, 1) != Status::kOk) atomicAdd(wrong, 1u);
    if (i % 5 == me / 32 % 5 && quiet(ctx) != Status::kOk) atomicAdd(wrong, 1u);
  }
}

// Combined requests of several warps, and of laps of the ring, on one queue.
TEST(Combine, ManyWarpsOnOneQueue) {
  constexpr uint32_t kRounds = 12, kAll = 4 * 96;
  DeviceRig rig({.start = 0xfff0});
  uint32_t wrong = 0;
  {
    const NicThread nics(rig);
    launch({.blocks = 4, .threads = 96}, put_again_and_again, rig.context(),
           rig.local<uint64_t>(kTarget), kRounds, &wrong)
        .wait();
    EXPECT_EQ(quiet(rig.context()), Status::kOk);
  }
  EXPECT_EQ(wrong, 0u);
  EXPECT_EQ(rig.complaints(), "");
  for (uint32_t i = 0; i < kRounds * kAll; ++i) {
    ASSERT_EQ(rig.remote<uint64_t>(1, kTarget)[i], uint64_t{i % kAll} << 32 | i / kAll) << i;
  }
}

}  // namespace
}  // namespace peal
