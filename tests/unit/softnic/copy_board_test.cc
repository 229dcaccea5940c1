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
  std::memcpy(part.to, part.from, kPartBytes);
  board.finish(job);
  return true;
}

TEST(CopyBoard, EndsWithoutHelp) {
  CopyBoard board = {};
  const std::vector<std::byte> from(3 * kPartBytes, std::byte{7});
  std::vector<std::byte> to(from.size());
  const uint32_t job = board.begin(to.data(), from.data(), 3);
  ASSERT_NE(job, kNoJob);
  EXPECT_EQ(board.open(), uint64_t{1} << job);
  for (int part = 0; part < 3; ++part) {
    EXPECT_FALSE(board.is_done(job));
    EXPECT_TRUE(copy_part(board, job));
  }
  EXPECT_FALSE(copy_part(board, job));
  EXPECT_EQ(board.open(), 0u);
  EXPECT_TRUE(board.is_done(job));
  board.end(job);
  EXPECT_EQ(to, from);
}

TEST(CopyBoard, SaysWhereItIsFull) {
  CopyBoard board = {};
  std::byte byte = {};
  for (uint32_t job = 0; job < kCopyJobs; ++job) EXPECT_EQ(board.begin(&byte, &byte, 1), job);
  EXPECT_EQ(board.begin(&byte, &byte, 1), kNoJob);
  board.end(5);
  EXPECT_EQ(board.begin(&byte, &byte, 1), 5u);
}

TEST(CopyBoard, MovesEveryByteOnceWhoeverHelps) {
  constexpr uint32_t kOwners = 2;
  constexpr uint32_t kJobs = 40;
  CopyBoard board = {};
  std::atomic<uint32_t> owners = kOwners;
  const auto help = [&] {
    while (owners.load() != 0) {
      const uint64_t open = board.open();
      if (open == 0 || !copy_part(board, static_cast<uint32_t>(__builtin_ctzll(open)))) {
        std::this_thread::yield();
      }
    }
  };
  const auto own = [&](uint32_t owner) {
    for (uint32_t round = 0; round < kJobs; ++round) {
      const uint32_t parts = 2 + round % 5;
      const std::vector<std::byte> from(parts * kPartBytes,
                                        static_cast<std::byte>(owner * 100 + round));
      std::vector<std::byte> to(from.size());
      uint32_t job = kNoJob;
      while (job == kNoJob) job = board.begin(to.data(), from.data(), parts);
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
  EXPECT_EQ(board.open(), 0u);
}

}  // namespace
}  // namespace peal::softnic::gpu
