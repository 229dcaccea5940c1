// SPDX-License-Identifier: Apache-2.0
//
// Waiting for words of one's own memory: comparisons, sets of words, every way a wait ends.
#include "device/wait.h"

#include <limits>
#include <thread>
#include <vector>

#include "gtest/gtest.h"
#include "tests/support/device_rig.h"

namespace peal {
namespace {

using testing::Background;
using testing::DeviceRig;
using testing::kMillisecond;

template <class T>
class WaitFor : public ::testing::Test {};
using Words = ::testing::Types<int32_t, uint32_t, int64_t, uint64_t, long long>;
TYPED_TEST_SUITE(WaitFor, Words);

/// For a value and the one above it: does `seen compare value` hold?
template <class T>
void expect_comparisons(T value) {
  DeviceRig rig;
  const T above = static_cast<T>(value + 1);
  const auto holds = [&](T seen, Compare compare, T than) {
    return test(rig.context(), &seen, compare, than);
  };
  EXPECT_TRUE(holds(value, Compare::kEq, value));
  EXPECT_FALSE(holds(value, Compare::kEq, above));
  EXPECT_FALSE(holds(value, Compare::kNe, value));
  EXPECT_TRUE(holds(value, Compare::kNe, above));
  EXPECT_FALSE(holds(value, Compare::kGt, value));
  EXPECT_TRUE(holds(above, Compare::kGt, value));
  EXPECT_FALSE(holds(value, Compare::kGt, above));
  EXPECT_TRUE(holds(value, Compare::kGe, value));
  EXPECT_TRUE(holds(above, Compare::kGe, value));
  EXPECT_FALSE(holds(value, Compare::kGe, above));
  EXPECT_FALSE(holds(value, Compare::kLt, value));
  EXPECT_TRUE(holds(value, Compare::kLt, above));
  EXPECT_FALSE(holds(above, Compare::kLt, value));
  EXPECT_TRUE(holds(value, Compare::kLe, value));
  EXPECT_TRUE(holds(value, Compare::kLe, above));
  EXPECT_FALSE(holds(above, Compare::kLe, value));
}

TYPED_TEST(WaitFor, ComparesAsItsTypeDoes) {
  expect_comparisons<TypeParam>(0);
  expect_comparisons<TypeParam>(std::numeric_limits<TypeParam>::max() - 1);
  expect_comparisons<TypeParam>(std::numeric_limits<TypeParam>::min());
  expect_comparisons<TypeParam>(static_cast<TypeParam>(-2));
}

TYPED_TEST(WaitFor, MinusOneIsBelowZeroOnlyIfSigned) {
  DeviceRig rig;
  const TypeParam seen = static_cast<TypeParam>(-1);
  EXPECT_EQ(test(rig.context(), &seen, Compare::kLt, 0), std::is_signed_v<TypeParam>);
}

TYPED_TEST(WaitFor, ReturnsAtOnceWhenTheConditionHolds) {
  DeviceRig rig({.timeout_ns = 1});
  const TypeParam word = 7;
  for (const Compare compare : {Compare::kEq, Compare::kGe, Compare::kLe}) {
    EXPECT_EQ(wait_until(rig.context(), &word, compare, 7), Status::kOk);
  }
  EXPECT_EQ(wait_until(rig.context(), &word, Compare::kNe, 8), Status::kOk);
  EXPECT_EQ(wait_until(rig.context(), &word, Compare::kGt, 6), Status::kOk);
  EXPECT_EQ(wait_until(rig.context(), &word, Compare::kLt, 8), Status::kOk);
}

TYPED_TEST(WaitFor, GivesUpAtTheContextsDeadline) {
  DeviceRig rig({.timeout_ns = kMillisecond});
  const TypeParam word = 7;
  EXPECT_EQ(wait_until(rig.context(), &word, Compare::kEq, 8), Status::kTimeout);
}

TEST(Wait, TheStopWordEndsIt) {
  for (const Status why : {Status::kPeerLost, Status::kAborted}) {
    DeviceRig rig;
    uint64_t words[2] = {};
    size_t found[2];
    const WaitSet<uint64_t> set{words, 2};
    rig.stop(why);
    EXPECT_EQ(wait_until(rig.context(), words, Compare::kEq, 1), why);
    EXPECT_EQ(wait_until_all(rig.context(), set, Compare::kEq, 1), why);
    EXPECT_EQ(wait_until_any(rig.context(), set, Compare::kEq, 1).status, why);
    EXPECT_EQ(wait_until_some(rig.context(), set, found, Compare::kEq, 1).status, why);
  }
}

TEST(Wait, AConditionThatHoldsGoesBeforeTheStopWord) {
  DeviceRig rig;
  rig.stop(Status::kAborted);
  const uint64_t word = 1;
  EXPECT_EQ(wait_until(rig.context(), &word, Compare::kEq, 1), Status::kOk);
}

struct Message {
  uint64_t flag;
  uint64_t data[4];
};

template <class Scope>
PEAL_KERNEL read_after_wait(Context ctx, Scope scope, Message* message, uint32_t* wrong) {
  const Status status = wait_until(ctx, scope, &message->flag, Compare::kGe, 1);
  for (uint64_t i = 0; i < 4; ++i) {
    if (status != Status::kOk || message->data[i] != i + 10) atomicAdd(wrong, 1u);
  }
}

template <class Scope>
void expect_data_visible(Scope scope) {
  DeviceRig rig;
  Message message{};
  uint32_t wrong = 0;
  auto running = launch({.blocks = 1, .threads = 70}, read_after_wait<Scope>, rig.context(), scope,
                        &message, &wrong);
  std::thread([&] {
    for (uint64_t i = 0; i < 4; ++i) message.data[i] = i + 10;
    store_release<Reach::kSystem>(&message.flag, uint64_t{1});
  }).join();
  running.wait();
  EXPECT_EQ(wrong, 0u);
}

// Under ThreadSanitizer these fail when only the lane that looked at the flag may read the data.
TEST(Wait, ALaneSeesWhatCameBeforeTheFlag) { expect_data_visible(thread); }
TEST(Wait, AllLanesOfAWarpSeeWhatCameBeforeTheFlag) { expect_data_visible(warp); }
TEST(Wait, AllLanesOfABlockSeeWhatCameBeforeTheFlag) { expect_data_visible(block); }

template <class Scope>
PEAL_KERNEL wait_in_vain(Context ctx, Scope scope, const uint64_t* word, Status* out) {
  out[thread_in_block()] = wait_until(ctx, scope, word, Compare::kEq, 1);
}

TEST(Wait, AllLanesOfAScopeLearnOfTheTimeout) {
  DeviceRig rig({.timeout_ns = kMillisecond});
  const uint64_t word = 0;
  std::vector<Status> out(40, Status::kOk);
  launch({.blocks = 1, .threads = 40}, wait_in_vain<Warp>, rig.context(), warp, &word, out.data())
      .wait();
  EXPECT_EQ(out, std::vector<Status>(40, Status::kTimeout));
  out.assign(40, Status::kOk);
  launch({.blocks = 1, .threads = 40}, wait_in_vain<Block>, rig.context(), block, &word, out.data())
      .wait();
  EXPECT_EQ(out, std::vector<Status>(40, Status::kTimeout));
}

// ---- sets

class WaitSets : public ::testing::Test {
 protected:
  DeviceRig rig{{.timeout_ns = kMillisecond}};
  uint64_t words[5] = {0, 5, 0, 5, 5};
  size_t found[5] = {99, 99, 99, 99, 99};
  const int skip_zeros[5] = {1, 0, 1, 0, 0};
  const int skip_fives[5] = {0, 1, 0, 1, 1};
  const int skip_all[5] = {1, 1, -1, 7, 1};
};

TEST_F(WaitSets, AllMeansAllThatAreNotSkipped) {
  EXPECT_FALSE(test_all(rig.context(), WaitSet<uint64_t>{words, 5}, Compare::kEq, 5));
  EXPECT_TRUE(test_all(rig.context(), WaitSet<uint64_t>{words, 5, skip_zeros}, Compare::kEq, 5));
  EXPECT_EQ(wait_until_all(rig.context(), WaitSet<uint64_t>{words, 5}, Compare::kEq, 5),
            Status::kTimeout);
  EXPECT_EQ(wait_until_all(rig.context(), WaitSet<uint64_t>{words, 5, skip_zeros}, Compare::kEq, 5),
            Status::kOk);
}

TEST_F(WaitSets, AnyNamesOne) {
  EXPECT_EQ(test_any(rig.context(), WaitSet<uint64_t>{words, 5}, Compare::kGt, 0), 1u);
  const WaitAny any = wait_until_any(rig.context(), WaitSet<uint64_t>{words, 5}, Compare::kEq, 5);
  EXPECT_EQ(any.status, Status::kOk);
  EXPECT_EQ(any.index, 1u);
}

TEST_F(WaitSets, AnySkips) {
  const WaitSet<uint64_t> zeros{words, 5, skip_fives};
  EXPECT_EQ(test_any(rig.context(), zeros, Compare::kEq, 5), kNone);
  const WaitAny any = wait_until_any(rig.context(), zeros, Compare::kEq, 5);
  EXPECT_EQ(any.status, Status::kTimeout);
  EXPECT_EQ(any.index, kNone);
}

TEST_F(WaitSets, SomeNamesThemAll) {
  EXPECT_EQ(test_some(rig.context(), WaitSet<uint64_t>{words, 5}, found, Compare::kEq, 5), 3u);
  EXPECT_EQ(found[0], 1u);
  EXPECT_EQ(found[1], 3u);
  EXPECT_EQ(found[2], 4u);
  EXPECT_EQ(found[3], 99u);
}

TEST_F(WaitSets, SomeWaitsForOneAtLeast) {
  const WaitSome none = wait_until_some(rig.context(), WaitSet<uint64_t>{words, 5, skip_fives},
                                        found, Compare::kEq, 5);
  EXPECT_EQ(none.status, Status::kTimeout);
  EXPECT_EQ(none.count, 0u);
  const WaitSome zeros =
      wait_until_some(rig.context(), WaitSet<uint64_t>{words, 5}, found, Compare::kLt, 5);
  EXPECT_EQ(zeros.status, Status::kOk);
  EXPECT_EQ(zeros.count, 2u);
  EXPECT_EQ(found[1], 2u);
}

TEST_F(WaitSets, AnEmptySetIsNeverWaitedFor) {
  for (const WaitSet<uint64_t>& set :
       {WaitSet<uint64_t>{words, 0}, WaitSet<uint64_t>{words, 5, skip_all}}) {
    EXPECT_TRUE(set.empty());
    EXPECT_TRUE(test_all(rig.context(), set, Compare::kEq, 77));
    EXPECT_EQ(wait_until_all(rig.context(), set, Compare::kEq, 77), Status::kOk);
    const WaitAny any = wait_until_any(rig.context(), set, Compare::kEq, 77);
    EXPECT_EQ(any.status, Status::kOk);
    EXPECT_EQ(any.index, kNone);
    const WaitSome some = wait_until_some(rig.context(), set, found, Compare::kEq, 77);
    EXPECT_EQ(some.status, Status::kOk);
    EXPECT_EQ(some.count, 0u);
  }
}

PEAL_KERNEL wait_for_all(Context ctx, const uint32_t* words, Status* out) {
  *out = wait_until_all(ctx, WaitSet<uint32_t>{words, 16}, Compare::kEq, 1);
}

TEST_F(WaitSets, AllWaitsForWordsInAnyOrder) {
  DeviceRig patient;
  uint32_t flags[16] = {};
  Status status = Status::kCount;
  auto running =
      launch({.blocks = 1, .threads = 1}, wait_for_all, patient.context(), flags, &status);
  for (int i = 15; i >= 0; --i) {
    store_release<Reach::kSystem>(&flags[i], 1u);
    std::this_thread::yield();
  }
  running.wait();
  EXPECT_EQ(status, Status::kOk);
}

// Sets a word every 0.6 deadlines: no single word is late, but all together are.
TEST_F(WaitSets, AllHasOneDeadlineForTheWholeSet) {
  constexpr uint64_t kPatience = 50 * kMillisecond;
  DeviceRig slow({.timeout_ns = kPatience});
  uint64_t flags[100] = {};
  Status status;
  {
    size_t next = 0;
    uint64_t start = now_ns();
    const Background setter([&] {
      if (next < 100 && now_ns() - start > kPatience * 6 / 10) {
        store_release<Reach::kSystem>(&flags[next++], uint64_t{1});
        start = now_ns();
      }
      return 0;
    });
    status = wait_until_all(slow.context(), WaitSet<uint64_t>{flags, 100}, Compare::kEq, 1);
  }
  EXPECT_EQ(status, Status::kTimeout);
}

}  // namespace
}  // namespace peal
