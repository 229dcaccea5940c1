// SPDX-License-Identifier: Apache-2.0
#include "kernels/entry.h"

#include <gtest/gtest.h>

#include <atomic>
#include <cstdint>
#include <thread>
#include <vector>

#include "simt/lanes/launch.h"

namespace peal::kernels {
namespace {

constexpr uint32_t kBlocks = 3;

/// A call that a graph has recorded: each replay has the same number.
class Replayed : public testing::Test {
 protected:
  /// One grid more of it comes. What each of its blocks was answered.
  std::vector<uint64_t> come(uint32_t blocks) {
    std::vector<uint64_t> answers(blocks);
    simt::launch({blocks, 1}, [&] { answers[block_in_grid()] = enter(call_); }).wait();
    return answers;
  }
  void go(uint32_t blocks) {
    simt::launch({blocks, 1}, [&] { leave(call_); }).wait();
  }

  uint64_t word_ = 0;
  Collective call_ = [this] {
    Collective call{};
    call.under_way = &word_;
    call.launch = UnderWay::of(0xfffffe, Call::kAllReduce);
    return call;
  }();
};

TEST_F(Replayed, OneGridTakesTheWordAndGivesItBack) {
  for (int replay = 0; replay < 3; ++replay) {
    EXPECT_EQ(come(kBlocks), std::vector<uint64_t>(kBlocks, 0));
    EXPECT_NE(word_, 0u);
    go(kBlocks);
    EXPECT_EQ(word_, 0u);
  }
}

/// Hazard: the number let blocks of the second one in, and when both had gone the word was ~0, a
/// call that nothing ended.
TEST_F(Replayed, ASecondGridOfItIsRefused) {
  EXPECT_EQ(come(kBlocks), std::vector<uint64_t>(kBlocks, 0));
  for (const uint64_t other : come(kBlocks)) {
    EXPECT_EQ(UnderWay::call(other), Call::kAllReduce);
  }
  go(kBlocks);
  EXPECT_EQ(word_, 0u);
}

/// Hazard: a block tried anew whenever another had changed the word meanwhile, so that of many each
/// try let one in; and its own grid refused it when it had tried often enough.
TEST_F(Replayed, ABlockIsLetInWhileOthersComeAndGo) {
  std::atomic<bool> done{false};
  std::atomic_ref word(word_);
  word = call_.launch | UnderWay::kCame | 2;
  std::thread others([&] {
    while (!done) {
      word.fetch_add(1);
      word.fetch_sub(1);
    }
  });
  uint32_t refused = 0;
  simt::launch({2, 1}, [&] {
    for (int round = 0; block_in_grid() == 1 && round < 100'000; ++round) {
      refused += enter(call_) == 0 ? 0 : 1;
      word.fetch_sub(UnderWay::kCame);
    }
  }).wait();
  done = true;
  others.join();
  EXPECT_EQ(refused, 0u);
}

TEST_F(Replayed, AGridOfOneBlockIsRefusedByAnother) {
  EXPECT_EQ(come(1), std::vector<uint64_t>{0});
  EXPECT_NE(come(1)[0], 0u);
  go(1);
  EXPECT_EQ(come(1), std::vector<uint64_t>{0});
}

}  // namespace
}  // namespace peal::kernels
