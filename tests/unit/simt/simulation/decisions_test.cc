// SPDX-License-Identifier: Apache-2.0
//
// Decisions of a simulation. Hazards: leaving one out changes the answers to others; a kept one is
// answered otherwise than before.
#include "simt/simulation/decisions.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <vector>

namespace peal::simt {
namespace {

constexpr uint64_t kSeed = 5;

std::vector<uint32_t> answers(Decisions& decisions, Question question, uint64_t agent) {
  std::vector<uint32_t> all;
  for (int i = 0; i < 50; ++i) all.push_back(decisions.below(question, agent, 10));
  return all;
}

TEST(Decisions, FollowTheSeed) {
  Decisions one(kSeed);
  Decisions same(kSeed);
  Decisions other(kSeed + 1);
  const auto first = answers(one, Question::kNext, 0);
  EXPECT_EQ(first, answers(same, Question::kNext, 0));
  EXPECT_NE(first, answers(other, Question::kNext, 0));
}

TEST(Decisions, OfOneAgentAreNotThoseOfAnother) {
  Decisions one(kSeed);
  const auto first = answers(one, Question::kValue, 0);
  EXPECT_NE(first, answers(one, Question::kValue, 1));
  EXPECT_NE(first, answers(one, Question::kInterrupt, 0));
}

TEST(Decisions, AnotherAgentsQuestionsChangeNothing) {
  Decisions alone(kSeed);
  Decisions among(kSeed);
  const auto first = answers(alone, Question::kValue, 3);
  answers(among, Question::kValue, 4);
  answers(among, Question::kInterrupt, 3);
  EXPECT_EQ(first, answers(among, Question::kValue, 3));
}

TEST(Decisions, WhatIsNotKeptIsTheDefault) {
  Decisions all(kSeed);
  const auto first = answers(all, Question::kValue, 2);
  ASSERT_GT(all.made().size(), 10u);
  const uint64_t one = all.made()[7];
  Decisions few(kSeed);
  few.keep_only({one});
  const auto again = answers(few, Question::kValue, 2);
  EXPECT_EQ(few.made(), std::vector{one});
  size_t different = 0;
  for (size_t i = 0; i < again.size(); ++i) {
    if (again[i] == 0) continue;
    ++different;
    EXPECT_EQ(again[i], first[i]);
  }
  EXPECT_EQ(different, 1u);
}

TEST(Decisions, ChancesAreKeptTheSameWay) {
  Decisions none(kSeed);
  none.keep_only({});
  for (int i = 0; i < 100; ++i) EXPECT_FALSE(none.chance(Question::kInterrupt, 0, 1, 2));
  EXPECT_TRUE(none.made().empty());
}

}  // namespace
}  // namespace peal::simt
