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
    plan.errors = &errors_;
    plan.seed = pattern_seed(preparation_, pe);
    plan.peers_seed = pattern_seed(preparation_, peer);
    launch({.blocks = 2, .threads = 3}, prepare, plan, kExtent, uint64_t{2}).wait();
  }

  uint64_t errors(int partner = 2, uint64_t slots = kSlots) {
    errors_ = 0;
    const Expected e{.seed = pattern_seed(preparation_, partner),
                     .bytes = kBytes,
                     .stride = kStride,
                     .slots = slots,
                     .extent = kExtent};
    launch({.blocks = 1, .threads = 5}, check, dst_.data(), e, &errors_).wait();
    return errors_;
  }
  uint64_t word_errors(uint64_t value, uint64_t bytes) {
    errors_ = 0;
    launch({.blocks = 1, .threads = 2}, check_words, words_, uint64_t{2}, value, bytes, &errors_)
        .wait();
    return errors_;
  }

  std::vector<std::byte> src_, dst_, partner_;
  uint64_t words_[2] = {7, 7};
  uint64_t errors_ = 7;
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

TEST(Cases, SayWhatTheirWordsMustHold) {
  Case c{{"add", Op::kAdd, Way::kStream}, ScopeKind::kThread, 2, 32, 8, 10};
  EXPECT_EQ(c.words(2), 64u);
  EXPECT_EQ(c.word_value(3), 30 * kAddend);
  c.what = {"add_same", Op::kAddSame, Way::kStream};
  EXPECT_EQ(c.words(2), 1u);
  EXPECT_EQ(c.word_value(3), 64 * 30 * kAddend);
  c.what = {"put_signal", Op::kPutSignal, Way::kStream};
  EXPECT_EQ(c.words(2), 64u);
  EXPECT_EQ(c.word_value(1), 10u);
  c.what = {"p", Op::kP, Way::kBounce};
  EXPECT_EQ(c.words(2), 0u) << "the value is its own flag";
  c.what = {"put", Op::kPut, Way::kStream};
  EXPECT_EQ(c.words(2), 0u);
}

TEST(Layouts, GiveEveryCallASlotOrTheAgentsOneTogether) {
  const Case c{{"put", Op::kPut, Way::kStream}, ScopeKind::kBlock, 4, 32, 100, 10};
  const Layout own{.stride = 104, .span = 1040};
  EXPECT_EQ(own.slots(c, 1), 40u);
  const Layout shared{.stride = 256, .span = 4 * 256, .shared = true};
  EXPECT_EQ(shared.slots(c, 10), 4u);
  EXPECT_GT(shared.extent(c, 10), 4u * 256) << "nothing may be written behind them";
}

}  // namespace
}  // namespace peal::perf
