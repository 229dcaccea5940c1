// SPDX-License-Identifier: Apache-2.0
//
// Ranges cut into pieces for threads. Hazard: a byte in no piece, or in two.
#include "host/storage/file_ranges.h"

#include <gtest/gtest.h>

#include <atomic>
#include <stdexcept>

namespace peal::storage {
namespace {

TEST(FileRanges, CoverTheRangeOnceAndBeginAtBlocks) {
  for (const uint64_t offset : {0, 1, 4095, 4096, 9000}) {
    for (const uint64_t bytes : {0, 1, 4095, 4096, 8191, 8192, 30000}) {
      const FileRanges pieces(offset, bytes, 2 * kBlock);
      uint64_t covered = 0;
      for (size_t i = 0; i < pieces.count(); ++i) {
        const FileRange one = pieces[i];
        EXPECT_EQ(one.index, i);
        EXPECT_EQ(one.at, covered);
        EXPECT_GT(one.bytes, 0u);
        EXPECT_LE(one.bytes + (i == 0 ? offset % kBlock : 0), 2 * kBlock);
        EXPECT_TRUE(i == 0 || (offset + one.at) % kBlock == 0);
        covered += one.bytes;
      }
      EXPECT_EQ(covered, bytes) << offset;
    }
  }
}

TEST(FileRanges, AreMovedOnceEachByAllThreads) {
  for (const size_t threads : {1, 2, 7}) {
    std::atomic<size_t> moved = 0;
    std::atomic<size_t> largest = 0;
    move_all(FileRanges(0, 100 * kBlock, kBlock), threads,
             [&](size_t worker, const FileRange& piece) {
               moved += piece.index;
               if (worker >= threads) largest = worker;
             });
    EXPECT_EQ(moved, 4950u);
    EXPECT_EQ(largest, 0u);
  }
}

TEST(FileRanges, EndWithTheFirstError) {
  std::atomic<size_t> begun = 0;
  EXPECT_THROW(move_all(FileRanges(0, 1000 * kBlock, kBlock), 3,
                        [&](size_t, const FileRange&) {
                          ++begun;
                          throw std::runtime_error("no");
                        }),
               std::runtime_error);
  EXPECT_LE(begun, 3u);
}

}  // namespace
}  // namespace peal::storage
