// SPDX-License-Identifier: Apache-2.0
//
// The named memory operations on the CPU: what each does to the word, and what each orders. The
// ordering is ThreadSanitizer's to check: these tests move plain data behind every edge.
#include "device/base/order.h"

#include <thread>
#include <vector>

#include "gtest/gtest.h"

namespace peal {
namespace {

template <class R>
class OrderOf : public ::testing::Test {};
template <Reach R>
struct At {
  static constexpr Reach kReach = R;
};
using Reaches =
    ::testing::Types<At<Reach::kLane>, At<Reach::kBlock>, At<Reach::kGpu>, At<Reach::kSystem>>;
TYPED_TEST_SUITE(OrderOf, Reaches);

TYPED_TEST(OrderOf, LoadsReturnWhatStoresStored) {
  constexpr Reach kReach = TypeParam::kReach;
  uint64_t word = 0;
  store_relaxed<kReach>(&word, uint64_t{1} << 63);
  EXPECT_EQ(load_relaxed<kReach>(&word), uint64_t{1} << 63);
  store_release<kReach>(&word, uint64_t{5});
  EXPECT_EQ(load_acquire<kReach>(&word), 5u);
  uint32_t half = 0;
  store_release<kReach>(&half, 0x80000001u);
  EXPECT_EQ(load_acquire<kReach>(&half), 0x80000001u);
}

TYPED_TEST(OrderOf, FetchAddReturnsTheOldValueAndWraps) {
  uint32_t word = ~0u;
  EXPECT_EQ(fetch_add_relaxed<TypeParam::kReach>(&word, 2u), ~0u);
  EXPECT_EQ(word, 1u);
}

TYPED_TEST(OrderOf, ExchangeReturnsTheOldValue) {
  uint64_t word = 7;
  EXPECT_EQ(exchange<TypeParam::kReach>(&word, uint64_t{9}), 7u);
  EXPECT_EQ(word, 9u);
}

TYPED_TEST(OrderOf, CompareExchangeStoresOnlyOnAMatch) {
  uint32_t word = 4;
  EXPECT_FALSE(compare_exchange<TypeParam::kReach>(&word, 5u, 6u));
  EXPECT_EQ(word, 4u);
  EXPECT_TRUE(compare_exchange<TypeParam::kReach>(&word, 4u, 6u));
  EXPECT_EQ(word, 6u);
}

TYPED_TEST(OrderOf, RaisingNeverLowers) {
  uint64_t word = 10;
  raise_to<TypeParam::kReach>(&word, uint64_t{3});
  EXPECT_EQ(word, 10u);
  raise_to<TypeParam::kReach>(&word, uint64_t{1} << 40);
  EXPECT_EQ(word, uint64_t{1} << 40);
}

TYPED_TEST(OrderOf, RaisingWithReleaseNeverLowers) {
  uint64_t word = 10;
  raise_to_release<TypeParam::kReach>(&word, uint64_t{3});
  EXPECT_EQ(word, 10u);
  raise_to_release<TypeParam::kReach>(&word, uint64_t{11});
  EXPECT_EQ(word, 11u);
}

TEST(Order, AnObjectIsCopiedWhole) {
  const struct {
    uint64_t first;
    uint32_t second[2];
  } object{~uint64_t{0} - 1, {3, 4}};
  const auto copy = load_object(object);
  EXPECT_EQ(copy.first, object.first);
  EXPECT_EQ(copy.second[0], 3u);
  EXPECT_EQ(copy.second[1], 4u);
}

// One thread writes plain data and then says so; the other may read the data once it has heard.
template <class Say, class Heard>
void expect_message_arrives(Say say, Heard heard) {
  for (int i = 0; i < 200; ++i) {
    alignas(16) uint64_t data[2] = {0, 0};
    uint64_t word = 0;
    std::thread writer([&] {
      store_line(data, Line{{11, 12}});
      say(&word);
    });
    while (!heard(&word)) std::this_thread::yield();
    EXPECT_EQ(data[0], 11u);
    EXPECT_EQ(data[1], 12u);
    writer.join();
  }
}

TEST(Order, AReleaseIsHeardByAnAcquire) {
  expect_message_arrives([](uint64_t* w) { store_release<Reach::kGpu>(w, uint64_t{1}); },
                         [](uint64_t* w) { return load_acquire<Reach::kGpu>(w) == 1; });
}

TEST(Order, ARaiseIsHeardByAnAcquire) {
  expect_message_arrives([](uint64_t* w) { raise_to<Reach::kGpu>(w, uint64_t{9}); },
                         [](uint64_t* w) { return load_acquire<Reach::kGpu>(w) == 9; });
}

TEST(Order, ARaiseWithReleaseIsHeardByABatch) {
  expect_message_arrives([](uint64_t* w) { raise_to_release<Reach::kGpu>(w, uint64_t{9}); },
                         [](uint64_t* w) {
                           const bool heard = load_batched<Reach::kGpu>(w) == 9;
                           acquire_batch<Reach::kGpu>();
                           return heard;
                         });
}

TEST(Order, AReleaseIsHeardByAnExchangeAndANeighbour) {
  expect_message_arrives(
      [](uint64_t* w) {
        store_release<Reach::kGpu>(reinterpret_cast<uint32_t*>(w), 1u);
        fetch_or<Reach::kGpu>(reinterpret_cast<uint32_t*>(w) + 1, 1u);
      },
      [](uint64_t* w) {
        auto* const words = reinterpret_cast<uint32_t*>(w);
        if (exchange<Reach::kGpu>(&words[1], 0u) == 0) return false;
        const bool heard = load_neighbour(&words[0]) == 1;
        acquire_batch<Reach::kGpu>();
        return heard;
      });
}

TEST(Order, AnExchangeIsHeardByAnExchange) {
  expect_message_arrives([](uint64_t* w) { exchange<Reach::kBlock>(w, uint64_t{1}); },
                         [](uint64_t* w) { return exchange<Reach::kBlock>(w, uint64_t{2}) == 1; });
}

TEST(Order, ACompareExchangeIsHeardByACompareExchange) {
  expect_message_arrives(
      [](uint64_t* w) { compare_exchange<Reach::kGpu>(w, uint64_t{0}, uint64_t{1}); },
      [](uint64_t* w) { return compare_exchange<Reach::kGpu>(w, uint64_t{1}, uint64_t{2}); });
}

TEST(Order, ADoorbellIsHeardByTheNic) {
  expect_message_arrives([](uint64_t* w) { store_mmio(w, 1); },
                         [](uint64_t* w) { return load_acquire<Reach::kSystem>(w) == 1; });
}

TEST(Order, ManyAddersLoseNothing) {
  uint32_t word = 0;
  uint64_t highest = 0;
  std::vector<std::thread> adders;
  for (int t = 0; t < 4; ++t) {
    adders.emplace_back([&] {
      for (int i = 0; i < 1000; ++i) {
        raise_to<Reach::kGpu>(&highest, uint64_t{fetch_add_relaxed<Reach::kGpu>(&word, 1u)});
      }
    });
  }
  for (std::thread& adder : adders) adder.join();
  EXPECT_EQ(word, 4000u);
  EXPECT_EQ(highest, 3999u);
}

TEST(Order, ALineIsSixteenBytesInMemoryOrder) {
  alignas(16) uint64_t memory[4] = {1, 2, 3, 4};
  store_line(&memory[2], Line{{30, 40}});
  EXPECT_EQ(memory[1], 2u);
  EXPECT_EQ(memory[2], 30u);
  EXPECT_EQ(memory[3], 40u);
}

}  // namespace
}  // namespace peal
