// SPDX-License-Identifier: Apache-2.0
//
// The benchmarks' verification: it must see what can go wrong with a message, or it is worth
// nothing.
#include "perf/common/plan.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <set>
#include <vector>

namespace peal::perf {
namespace {

constexpr int kInitiator = 3;

// One agent's and round's worth of slots, filled.
class Slots : public testing::Test {
 protected:
  static constexpr uint64_t kBytes = 20;
  static constexpr uint64_t kStride = 24;

  Slots() : slots_(2 * 4 * kStride) {
    plan_ = {.local = nullptr,
             .remote = slots_.data(),
             .words = words_,
             .bytes = kBytes,
             .stride = kStride,
             .window = 4,
             .first = 100,
             .count = 4,
             .agents = 2,
             .peer = 0};
    launch({.blocks = 2, .threads = 3}, fill, plan_, slots_.data(), kInitiator).wait();
  }

  uint64_t errors(const Plan& plan, int initiator = kInitiator) {
    uint64_t count = 0;
    launch({.blocks = 1, .threads = 5}, check, plan, slots_.data(), initiator, &count).wait();
    return count;
  }
  uint64_t word_errors(Word kind) {
    uint64_t count = 0;
    launch({.blocks = 1, .threads = 2}, check_words, plan_, kind, kInitiator, &count).wait();
    return count;
  }

  std::vector<std::byte> slots_;
  uint64_t words_[2] = {};
  Plan plan_{};
};

TEST_F(Slots, HoldWhatWasFilledIn) { EXPECT_EQ(errors(plan_), 0u); }

TEST_F(Slots, ShowEveryFlippedBitOfAMessage) {
  for (uint64_t bit = 0; bit < plan_.bytes * 8; ++bit) {
    std::byte& victim = slots_[plan_.offset(1, 2) + bit / 8];
    victim ^= std::byte(1 << bit % 8);
    EXPECT_EQ(errors(plan_), 1u) << "bit " << bit;
    victim ^= std::byte(1 << bit % 8);
  }
}

TEST_F(Slots, DoNotLookBehindAMessage) {
  slots_[plan_.offset(1, 2) + plan_.bytes] ^= std::byte{1};
  EXPECT_EQ(errors(plan_), 0u);
}

TEST_F(Slots, ShowMessagesOfAnotherRound) {
  Plan next = plan_;
  next.first += next.count;
  EXPECT_EQ(errors(next), 8u);
}

TEST_F(Slots, ShowMessagesOfAnotherPe) { EXPECT_EQ(errors(plan_, kInitiator + 1), 8u); }

TEST_F(Slots, ShowMessagesInEachOthersPlace) {
  std::swap_ranges(slots_.begin(), slots_.begin() + static_cast<ptrdiff_t>(plan_.stride),
                   slots_.begin() + static_cast<ptrdiff_t>(plan_.offset(1, 0)));
  EXPECT_EQ(errors(plan_), 2u);
}

TEST_F(Slots, ShowATornMessage) {
  const uint64_t at = plan_.offset(0, 1);
  std::memcpy(&slots_[at + 8], &slots_[plan_.offset(0, 2) + 8], 8);
  EXPECT_EQ(errors(plan_), 1u);
}

TEST_F(Slots, CheckOnlyTheOperationsOfTheRound) {
  slots_[plan_.offset(0, 3)] ^= std::byte{1};
  plan_.count = 3;
  EXPECT_EQ(errors(plan_), 0u);
}

TEST_F(Slots, CountEveryOperationOfAWrongWord) {
  words_[0] = words_[1] = plan_.count;
  EXPECT_EQ(word_errors(Word::kCount), 0u);
  words_[1] -= 1;  // a signal was lost
  EXPECT_EQ(word_errors(Word::kCount), plan_.count);
}

TEST_F(Slots, SumWhatAtomicsAdded) {
  for (uint32_t agent = 0; agent < 2; ++agent) {
    for (uint64_t i = 0; i < plan_.count; ++i) {
      words_[agent] += message_word(message_seed(kInitiator, agent, plan_.first + i), 0);
    }
  }
  EXPECT_EQ(word_errors(Word::kSum), 0u);
  words_[0] += uint64_t{1} << 40;
  EXPECT_EQ(word_errors(Word::kSum), plan_.count);
  plan_.bytes = 4;  // then only the low half counts
  EXPECT_EQ(word_errors(Word::kSum), 0u);
  words_[0] += 1;
  EXPECT_EQ(word_errors(Word::kSum), plan_.count);
}

TEST(Messages, DifferInTheirFirstWord) {
  std::set<uint64_t> words;
  for (int pe = 0; pe < 4; ++pe) {
    for (uint32_t agent = 0; agent < 32; ++agent) {
      for (uint64_t i = 0; i < 64; ++i) words.insert(message_word(message_seed(pe, agent, i), 0));
    }
  }
  EXPECT_EQ(words.size(), 4u * 32 * 64);
}

}  // namespace
}  // namespace peal::perf
