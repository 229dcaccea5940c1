// SPDX-License-Identifier: Apache-2.0
//
// Batches, tiles, atomics that do not wait and atomics of reals, comparisons with many values, by
// every scope on every kind of context.
#include <gtest/gtest.h>

#include "tests/support/family_cases.h"
#include "tests/support/job.h"
#include "tests/support/ordered_cases.h"

namespace peal::api_test {
namespace {

template <class C>
class FamiliesBy : public testing::Test {
 protected:
  /// Small queues: batches and tiles must make room for themselves.
  static auto context(Runtime& pe) { return pe.make_context<C::kReach>({.depth = 128}); }
};
using Callers = testing::Types<Caller<Thread, Reach::kGpu, 1>, Caller<Thread, Reach::kLane, 1>,
                               Caller<Warp, Reach::kGpu, 32>, Caller<Warp, Reach::kLane, 9>,
                               Caller<Block, Reach::kGpu, 96>, Caller<Block, Reach::kBlock, 64>,
                               Caller<Block, Reach::kLane, 40>>;
TYPED_TEST_SUITE(FamiliesBy, Callers);

TYPED_TEST(FamiliesBy, TilesOfWords) {
  on_every_pe([](Runtime& pe) {
    const auto ctx = TestFixture::context(pe);
    EXPECT_EQ((run_tiles<uint32_t, typename TypeParam::Scope>(pe, ctx.value(), TypeParam::grid())),
              "");
    pe.check();
  });
}

TYPED_TEST(FamiliesBy, TilesOfLongElements) {
  on_every_pe([](Runtime& pe) {
    const auto ctx = TestFixture::context(pe);
    EXPECT_EQ((run_tiles<Wide, typename TypeParam::Scope>(pe, ctx.value(), TypeParam::grid())), "");
    pe.check();
  });
}

TYPED_TEST(FamiliesBy, TilesOfBytes) {
  on_every_pe([](Runtime& pe) {
    const auto ctx = TestFixture::context(pe);
    EXPECT_EQ((run_tiles<uint8_t, typename TypeParam::Scope>(pe, ctx.value(), TypeParam::grid())),
              "");
    pe.check();
  });
}

TYPED_TEST(FamiliesBy, Batches) {
  on_every_pe([](Runtime& pe) {
    const auto ctx = TestFixture::context(pe);
    EXPECT_EQ((run_batches<typename TypeParam::Scope>(pe, ctx.value(), TypeParam::grid())), "");
    pe.check();
  });
}

TYPED_TEST(FamiliesBy, MessagesThatAReleaseVouchesFor) {
  on_every_pe([](Runtime& pe) {
    const auto ctx = TestFixture::context(pe);
    EXPECT_EQ((run_mail<typename TypeParam::Scope>(pe, ctx.value(), TypeParam::grid())), "");
    pe.check();
  });
}

template <class T>
class FamiliesOf : public testing::Test {};
using Numbers = testing::Types<uint32_t, int32_t, uint64_t, int64_t, float, double>;
TYPED_TEST_SUITE(FamiliesOf, Numbers);

TYPED_TEST(FamiliesOf, SumMinAndMaxOfAllLanes) {
  on_every_pe([](Runtime& pe) {
    EXPECT_EQ(run_combine<TypeParam>(pe), "");
    pe.check();
  });
}

TYPED_TEST(FamiliesOf, AtomicsThatAcquireAndRelease) {
  on_every_pe([](Runtime& pe) {
    EXPECT_EQ(run_ordered<TypeParam>(pe), "");
    pe.check();
  });
}

TEST(Families, ARecordUnderALock) {
  on_every_pe([](Runtime& pe) {
    const auto shared = pe.make_context<Reach::kBlock>({.queues_per_peer = 3});
    EXPECT_EQ(run_locked(pe, pe.context(), 3), "");
    EXPECT_EQ(run_locked(pe, shared.value(), 3), "");
    pe.check();
  });
}

TEST(Families, TasksThatAreStolen) {
  on_every_pe([](Runtime& pe) {
    const auto exclusive = pe.make_context<Reach::kLane>();
    EXPECT_EQ(run_stolen(pe, pe.context()), "");
    EXPECT_EQ(run_stolen(pe, exclusive.value()), "");
    pe.check();
  });
}

template <class T>
class FamiliesOfIntegers : public testing::Test {};
using Integers = testing::Types<uint32_t, int32_t, uint64_t, int64_t>;
TYPED_TEST_SUITE(FamiliesOfIntegers, Integers);

TYPED_TEST(FamiliesOfIntegers, OldValuesThatComeLater) {
  on_every_pe([](Runtime& pe) {
    EXPECT_EQ(run_fetch_later<TypeParam>(pe), "");
    pe.check();
  });
}

TYPED_TEST(FamiliesOfIntegers, ComparisonsWithManyValues) {
  on_every_pe([](Runtime& pe) {
    EXPECT_EQ(run_values<TypeParam>(pe), "");
    pe.check();
  });
}

}  // namespace
}  // namespace peal::api_test
