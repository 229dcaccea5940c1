// SPDX-License-Identifier: Apache-2.0
//
// Long copies that are shared: every byte once, whoever moves it, and jobs that follow each other
// in the same place of the board.
#include "softnic/gpu/copy_board.h"

#include <gtest/gtest.h>

#include <atomic>
#include <cstring>
#include <thread>
#include <vector>

namespace peal::softnic::gpu {
namespace {

bool copy_part(CopyBoard& board, uint32_t job) {
  CopyPart part = {};
  if (!board.take(job, &part)) return false;
  std::memcpy(part.to, part.from, part.bytes);
  board.finish(job);
  return true;
}

/// A job of the copy, once there is room for one.
uint32_t begin(CopyBoard& board, uint32_t word, std::byte* to, const std::byte* from,
               uint64_t bytes) {
  uint64_t bit = 0;
  while (bit == 0) bit = board.reserve(word, 1, true);
  const uint32_t job = 64 * word + static_cast<uint32_t>(__builtin_ctzll(bit));
  board.set(job, to, from, bytes);
  board.show(word, bit);
  return job;
}

TEST(CopyBoard, EndsWithoutHelp) {
  CopyBoard board = {};
  const std::vector<std::byte> from(2 * kSmallestPart + 5, std::byte{7});  // the last part is short
  std::vector<std::byte> to(from.size());
  const uint32_t job = begin(board, 2, to.data(), from.data(), from.size());
  EXPECT_EQ(job / 64, 2u);
  EXPECT_EQ(board.open(2), uint64_t{1} << job % 64);
  for (int part = 0; part < 3; ++part) {
    EXPECT_FALSE(board.is_done(job));
    EXPECT_TRUE(copy_part(board, job));
  }
  EXPECT_FALSE(copy_part(board, job));
  EXPECT_EQ(board.open(2), 0u);
  EXPECT_TRUE(board.is_done(job));
  board.end(job);
  EXPECT_EQ(to, from);
}

TEST(CopyBoard, TakesLargerPartsOfMore) {
  EXPECT_EQ(part_of(1), kSmallestPart);
  EXPECT_EQ(part_of(8 * kSmallestPart), kSmallestPart);
  EXPECT_EQ(part_of(8 * kSmallestPart + 1), 2 * kSmallestPart);
  EXPECT_EQ(part_of(uint64_t{1} << 30), kLargestPart);
}

TEST(CopyBoard, KeepsJobsForQueuePairsWithoutOne) {
  CopyBoard board = {};
  EXPECT_EQ(board.reserve(1, 3, true), 0b111u);
  EXPECT_EQ(board.reserve(1, 40, false), 0xffffffffu & ~uint64_t{0b111}) << "the lower half";
  EXPECT_EQ(board.reserve(1, 8, false), 0u);
  EXPECT_EQ(board.reserve(1, 8, true), uint64_t{1} << 32) << "one of the upper half";
  for (int job = 33; job < 64; ++job) EXPECT_EQ(board.reserve(1, 1, true), uint64_t{1} << job);
  EXPECT_EQ(board.reserve(1, 1, true), 0u);
  EXPECT_EQ(board.reserve(0, 1, true), 1u) << "of another word";
  board.end(64 + 5);
  EXPECT_EQ(board.reserve(1, 8, false), uint64_t{1} << 5);
}

TEST(CopyBoard, MovesEveryByteOnceWhoeverHelps) {
  constexpr uint32_t kOwners = 2;
  constexpr uint32_t kJobs = 40;
  CopyBoard board = {};
  std::atomic<uint32_t> owners = kOwners;
  const auto help = [&] {
    while (owners.load() != 0) {
      const uint64_t open = board.open(3);
      if (open == 0 || !copy_part(board, 3 * 64 + static_cast<uint32_t>(__builtin_ctzll(open)))) {
        std::this_thread::yield();
      }
    }
  };
  const auto own = [&](uint32_t owner) {
    for (uint32_t round = 0; round < kJobs; ++round) {
      const uint32_t parts = 2 + round % 5;
      const std::vector<std::byte> from(parts * kSmallestPart,
                                        static_cast<std::byte>(owner * 100 + round));
      std::vector<std::byte> to(from.size());
      const uint32_t job = begin(board, 3, to.data(), from.data(), from.size());
      while (!board.is_done(job)) {
        if (!copy_part(board, job)) std::this_thread::yield();
      }
      board.end(job);
      EXPECT_EQ(to, from) << "job " << round << " of owner " << owner;
    }
    owners.fetch_sub(1);
  };
  std::vector<std::jthread> threads;
  for (int helper = 0; helper < 2; ++helper) threads.emplace_back(help);
  for (uint32_t owner = 0; owner < kOwners; ++owner) threads.emplace_back(own, owner);
  threads.clear();
  EXPECT_EQ(board.open(3), 0u);
}

}  // namespace
}  // namespace peal::softnic::gpu
