// SPDX-License-Identifier: Apache-2.0
//
// Atomics of kernels, which hooks carry out and tell of. Hazard: a hook that drops an update, or
// gives back the wrong value, breaks every program that is checked.
#include <gtest/gtest.h>

#include <atomic>
#include <limits>

#include "simt/lanes/lane.h"
#include "tests/unit/simt/hooks/kernels.h"
#include "tests/unit/simt/hooks/recorder.h"

namespace peal::simt {
namespace {

using observed::Kind;

constexpr std::memory_order kOfUpdates[] = {std::memory_order_relaxed, std::memory_order_acquire,
                                            std::memory_order_release, std::memory_order_acq_rel,
                                            std::memory_order_seq_cst};

template <class T>
T updated(Kind kind, T old, T value) {
  switch (kind) {
    case Kind::kExchange:
      return value;
    case Kind::kAdd:
      return static_cast<T>(old + value);
    case Kind::kSub:
      return static_cast<T>(old - value);
    case Kind::kAnd:
      return static_cast<T>(old & value);
    case Kind::kOr:
      return static_cast<T>(old | value);
    case Kind::kXor:
      return static_cast<T>(old ^ value);
    case Kind::kNand:
      return static_cast<T>(~(old & value));
  }
  return 0;
}

template <class T>
void expect(const PlainAccess& told, const T* word, bool write, std::memory_order order) {
  EXPECT_EQ(told.address, word);
  EXPECT_EQ(told.bytes, sizeof(T));
  EXPECT_EQ(told.write, write);
  EXPECT_TRUE(told.atomic);
  EXPECT_EQ(told.order, static_cast<int>(order));
  EXPECT_NE(told.pc, nullptr);
}

template <class T>
class Widths : public testing::Test {};
using All = testing::Types<uint8_t, uint16_t, uint32_t, uint64_t>;
TYPED_TEST_SUITE(Widths, All);

TYPED_TEST(Widths, LoadsGiveTheValueAndAreTold) {
  constexpr TypeParam kTop = std::numeric_limits<TypeParam>::max();
  for (const auto order : {std::memory_order_relaxed, std::memory_order_consume,
                           std::memory_order_acquire, std::memory_order_seq_cst}) {
    TypeParam word = kTop;
    TypeParam value = 0;
    Recorder recorder(&word, sizeof word);
    const auto told = recorder.accesses_of([&] { value = observed::atomic_load(&word, order); });
    EXPECT_EQ(value, kTop);
    ASSERT_EQ(told.size(), 1u);
    // std::atomic_ref makes a consume an acquire, or does not.
    if (order != std::memory_order_consume) expect(told[0], &word, false, order);
  }
}

TYPED_TEST(Widths, StoresReachTheWordAloneAndAreTold) {
  for (const auto order :
       {std::memory_order_relaxed, std::memory_order_release, std::memory_order_seq_cst}) {
    TypeParam words[3] = {1, 2, 3};
    Recorder recorder(words, sizeof words);
    const auto told =
        recorder.accesses_of([&] { observed::atomic_store(&words[1], TypeParam{0x7f}, order); });
    EXPECT_EQ(words[0], 1);
    EXPECT_EQ(words[1], 0x7f);
    EXPECT_EQ(words[2], 3);
    ASSERT_EQ(told.size(), 1u);
    expect(told[0], &words[1], true, order);
    EXPECT_EQ(recorder.seen().at(0), 2u) << "told behind the store";
  }
}

TYPED_TEST(Widths, UpdatesGiveTheOldValueAndAreToldOnBothSides) {
  constexpr TypeParam kTop = std::numeric_limits<TypeParam>::max();
  const TypeParam kOld = static_cast<TypeParam>(kTop - 5);
  const TypeParam kValue = static_cast<TypeParam>(kTop / 3 + 4);
  for (const Kind kind :
       {Kind::kExchange, Kind::kAdd, Kind::kSub, Kind::kAnd, Kind::kOr, Kind::kXor, Kind::kNand}) {
    for (const std::memory_order order : kOfUpdates) {
      TypeParam words[3] = {1, kOld, 3};
      TypeParam found = 0;
      Recorder recorder(words, sizeof words);
      const auto told = recorder.accesses_of(
          [&] { found = observed::atomic_update(kind, &words[1], kValue, order); });
      const TypeParam wanted = updated(kind, kOld, kValue);
      EXPECT_EQ(found, kOld);
      EXPECT_EQ(words[0], 1);
      EXPECT_EQ(words[1], wanted) << static_cast<int>(kind);
      EXPECT_EQ(words[2], 3);
      ASSERT_EQ(told.size(), 2u);
      const auto meant = kind == Kind::kNand ? std::memory_order_seq_cst : order;
      expect(told[0], &words[1], true, meant);
      expect(told[1], &words[1], false, meant);
      EXPECT_EQ(recorder.seen(), (std::vector<uint64_t>{kOld, wanted}));
    }
  }
}

TYPED_TEST(Widths, CompareExchangesExchangeWhatIsEqualAlone) {
  for (const bool weak : {false, true}) {
    TypeParam word = 7;
    TypeParam expected = 7;
    bool done = false;
    Recorder recorder(&word, sizeof word);
    auto told = recorder.accesses_of(
        [&] { done = observed::atomic_compare_exchange(&word, &expected, TypeParam{9}, weak); });
    EXPECT_TRUE(done);
    EXPECT_EQ(word, 9);
    EXPECT_EQ(expected, 7);
    ASSERT_EQ(told.size(), 2u);
    expect(told[0], &word, true, std::memory_order_seq_cst);
    expect(told[1], &word, false, std::memory_order_seq_cst);

    told = recorder.accesses_of(
        [&] { done = observed::atomic_compare_exchange(&word, &expected, TypeParam{1}, weak); });
    EXPECT_FALSE(done);
    EXPECT_EQ(word, 9);
    EXPECT_EQ(expected, 9) << "what was found";
    EXPECT_EQ(told.size(), 2u);
  }
}

// No update of many lanes on several workers is lost.
TYPED_TEST(Widths, UpdatesOfManyLanesAddUp) {
  TypeParam word = 0;
  const LimitsFor limits(with_workers(2));
  run({.blocks = {4, 1, 1}, .threads = {32, 1, 1}}, [&] {
    for (int i = 0; i < 100; ++i) {
      observed::atomic_update(Kind::kAdd, &word, TypeParam{1}, std::memory_order_relaxed);
      yield();
    }
  });
  EXPECT_EQ(word, static_cast<TypeParam>(12800));
}

TEST(Fences, AreToldWithTheirOrder) {
  char nothing = 0;
  Recorder recorder(&nothing, 1);
  for (const std::memory_order order : kOfUpdates) {
    if (order == std::memory_order_relaxed) continue;
    const auto told = recorder.accesses_of([&] { observed::fence(order); });
    ASSERT_EQ(told.size(), 1u);
    EXPECT_EQ(told[0].address, nullptr);
    EXPECT_EQ(told[0].bytes, 0u);
    EXPECT_TRUE(told[0].atomic);
    EXPECT_EQ(told[0].order, static_cast<int>(order));
  }
  EXPECT_TRUE(recorder.accesses_of([] { observed::fence(std::memory_order_relaxed); }).empty());
}

}  // namespace
}  // namespace peal::simt
