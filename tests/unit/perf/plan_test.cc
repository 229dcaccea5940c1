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

#include "perf/common/job.h"

namespace peal::perf {
namespace {

// Prepared memory of a PE to which its partner's messages are copied: eight slots.
class Slots : public testing::Test {
 protected:
  static constexpr uint64_t kBytes = 20, kStride = 24, kSlots = 8, kExtent = 9 * kStride;

  Slots() : src_(kExtent), dst_(kExtent), partner_(kExtent) {
    std::vector<std::byte> unused(kExtent);
    run(src_, dst_, 1, 2);
    run(partner_, unused, 2, 1);
    for (uint64_t i = 0; i < kSlots; ++i) {
      std::copy_n(&partner_[i * kStride], kBytes, &dst_[i * kStride]);
    }
  }

  void run(std::vector<std::byte>& src, std::vector<std::byte>& dst, int pe, int peer) {
    Plan plan{};
    plan.src = src.data();
    plan.dst = dst.data();
    plan.words = words_;
    plan.errors = errors_;
    plan.seed = pattern_seed(preparation_, pe);
    plan.peers_seed = pattern_seed(preparation_, peer);
    launch({.blocks = 2, .threads = 3}, prepare, plan, kExtent, uint64_t{2}).wait();
  }

  uint64_t errors(int partner = 2, uint64_t slots = kSlots) {
    errors_[0] = 0;
    const Expected e{.seed = pattern_seed(preparation_, partner),
                     .bytes = kBytes,
                     .stride = kStride,
                     .slots = slots,
                     .extent = kExtent};
    launch({.blocks = 1, .threads = 5}, check, dst_.data(), e, errors_).wait();
    return errors_[0];
  }
  uint64_t word_errors(uint64_t first, uint64_t bytes, uint64_t step = 0) {
    errors_[0] = 0;
    const ExpectedWords e{.count = 2, .first = first, .step = step, .bytes = bytes};
    launch({.blocks = 1, .threads = 2}, check_words, words_, e, errors_).wait();
    return errors_[0];
  }

  std::vector<std::byte> src_, dst_, partner_;
  uint64_t words_[2] = {7, 7};
  uint64_t errors_[2] = {7, 7};
  uint64_t preparation_ = 1;
};

TEST_F(Slots, HoldWhatThePartnerSent) { EXPECT_EQ(errors(), 0u); }

TEST_F(Slots, ShowEveryFlippedBitOfAMessageAndOfWhatLiesBehind) {
  for (uint64_t bit = 0; bit < kExtent * 8; ++bit) {
    dst_[bit / 8] ^= std::byte(1 << bit % 8);
    EXPECT_EQ(errors(), 1u) << "bit " << bit;
    dst_[bit / 8] ^= std::byte(1 << bit % 8);
  }
}

TEST_F(Slots, ShowAMessageThatDidNotCome) {
  EXPECT_EQ(errors(2, kSlots - 1), 3u) << "one too many";
  EXPECT_EQ(errors(2, kSlots + 1), 3u) << "one too few";
}

TEST_F(Slots, ShowMessagesOfAnotherPreparation) {
  preparation_ = 2;
  EXPECT_EQ(errors(), kExtent / 8);
}

TEST_F(Slots, ShowMessagesOfAnotherPe) { EXPECT_EQ(errors(3), kExtent / 8); }

TEST_F(Slots, ShowMessagesInEachOthersPlace) {
  std::swap_ranges(&dst_[0], &dst_[kBytes], &dst_[4 * kStride]);
  EXPECT_EQ(errors(), 6u);
}

TEST_F(Slots, ShowATornMessage) {
  std::memcpy(&dst_[kStride + 8], &dst_[2 * kStride + 8], 8);
  EXPECT_EQ(errors(), 1u);
}

TEST_F(Slots, BeginWithWordsOfZeroAndShowWrongOnes) {
  EXPECT_EQ(word_errors(0, 8), 0u);
  words_[1] = 1;
  EXPECT_EQ(word_errors(0, 8), 1u);
  words_[1] = uint64_t{1} << 40;
  EXPECT_EQ(word_errors(0, 8), 1u);
  EXPECT_EQ(word_errors(0, 4), 0u) << "only the low half counts";
  words_[1] = 5;
  EXPECT_EQ(word_errors(0, 8, 5), 0u) << "the second holds a step more";
  EXPECT_EQ(word_errors(5, 8, 0), 1u);
}

TEST_F(Slots, KeepTheStatusOfTheFirstCallThatFailed) {
  Plan plan{};
  plan.errors = errors_;
  errors_[0] = errors_[1] = 0;
  for (const Status s : {Status::kOk, Status::kTimeout, Status::kOk, Status::kPeerLost}) {
    count_failure(plan, s);
  }
  EXPECT_EQ(errors_[0], 2u);
  EXPECT_EQ(static_cast<Status>(errors_[1]), Status::kTimeout);
}

TEST(Patterns, DifferInEveryWord) {
  std::set<uint64_t> words;
  for (uint64_t preparation = 1; preparation < 9; ++preparation) {
    for (int pe = 0; pe < 4; ++pe) {
      for (uint64_t i = 0; i < 256; ++i)
        words.insert(pattern_word(pattern_seed(preparation, pe), i));
    }
  }
  EXPECT_EQ(words.size(), 8u * 4 * 256);
}

// What an agent adds 30 times is the sum of what is expected of its word, and of the word of all.
TEST(Cases, SayWhatTheirWordsMustHold) {
  constexpr uint64_t kSeed = 5, kAgents = 64;
  Case c{{"add", Op::kAdd, CallWay::kStream}, ScopeKind::kThread, 2, 32, 8, 10};
  EXPECT_EQ(c.words(2), kAgents);
  const ExpectedWords own = expected_words(c, kAgents, 3, kSeed);
  c.what = {"add_same", Op::kAddSame, CallWay::kStream};
  EXPECT_EQ(c.words(2), 1u);
  uint64_t all = 0;
  std::set<uint64_t> different;
  for (uint64_t agent = 0; agent < kAgents; ++agent) {
    uint64_t sum = 0;
    for (uint64_t i = 0; i < 30; ++i) {
      const uint64_t value = addend(kSeed, i * kAgents + agent);
      different.insert(value);
      sum += value;
      // After the warm-up a launch's are alike.
      all += i < 10 ? value : addend(kSeed, i / 10 * 10 * kAgents);
    }
    EXPECT_EQ(own.first + agent * own.step, sum);
  }
  EXPECT_EQ(different.size(), 30 * kAgents) << "a lost and a doubled one must not cancel";
  EXPECT_EQ(expected_words(c, 1, 3, kSeed).first, all);
  c.what = {"put_signal", Op::kPutSignal, CallWay::kStream};
  EXPECT_EQ(c.words(2), kAgents);
  EXPECT_EQ(expected_words(c, kAgents, 1, kSeed).first, 10u);
  c.what = {"p", Op::kP, CallWay::kBounce};
  EXPECT_EQ(c.words(2), 0u) << "the value is its own flag";
  c.what = {"put", Op::kPut, CallWay::kStream};
  EXPECT_EQ(c.words(2), 0u);
}

TEST(Layouts, GiveEveryCallASlotOrTheAgentsOneTogether) {
  const Case c{{"put", Op::kPut, CallWay::kStream}, ScopeKind::kBlock, 4, 32, 100, 10};
  const Layout own{.stride = 104, .span = 1040};
  EXPECT_EQ(own.slots(c, 1), 40u);
  const Layout shared{.stride = 256, .span = 4 * 256, .shared = true};
  EXPECT_EQ(shared.slots(c, 10), 4u);
  EXPECT_GT(shared.extent(c, 10), 4u * 256) << "nothing may be written behind them";
}

}  // namespace
}  // namespace peal::perf
