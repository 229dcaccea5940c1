// SPDX-License-Identifier: Apache-2.0
//
// Circles among PEs that wait for one another.
#include "host/failures/inquiry.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace peal {
namespace {

WaitNote barrier_of(int from) {
  return {.kind = WaitKind::kBarrier, .from = from, .text = "waits for PE " + std::to_string(from)};
}
WaitNote signal() { return {.kind = WaitKind::kSignal, .text = "waits for a signal"}; }

TEST(Circle, OfThreePesIsToldInOrder) {
  const std::vector<PeWaits> all{{0, {barrier_of(2)}}, {1, {barrier_of(0)}}, {2, {barrier_of(1)}}};
  EXPECT_EQ(find_circle(all, 3),
            "PE 0: waits for PE 2; PE 2: waits for PE 1; PE 1: waits for PE 0");
}

TEST(Circle, IsFoundBehindWaitsThatLeadNowhere) {
  const std::vector<PeWaits> all{
      {0, {barrier_of(3)}}, {1, {barrier_of(3), barrier_of(2)}}, {2, {barrier_of(1)}}};
  EXPECT_EQ(find_circle(all, 4), "PE 1: waits for PE 2; PE 2: waits for PE 1");
}

TEST(Circle, OfTwoPesHasOnePossibleWriterOfAWord) {
  const std::vector<PeWaits> all{{0, {signal()}}, {1, {barrier_of(0)}}};
  EXPECT_EQ(find_circle(all, 2),
            "PE 0: waits for a signal, which only PE 1 can write; PE 1: waits for PE 0");
  EXPECT_EQ(find_circle(all, 3), "") << "PE 2 may write it";
}

TEST(Circle, NeedsWaitsThatLast) {
  WaitNote over = barrier_of(1);
  over.status = Status::kTimeout;
  const std::vector<PeWaits> all{{0, {over}}, {1, {barrier_of(0)}}};
  EXPECT_EQ(find_circle(all, 2), "");
  const std::vector<PeWaits> itself{{0, {barrier_of(0)}}};
  EXPECT_EQ(find_circle(itself, 2), "");
}

}  // namespace
}  // namespace peal
