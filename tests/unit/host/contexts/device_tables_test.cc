// SPDX-License-Identifier: Apache-2.0
//
// The tables that kernels read: where each entry lies, and what is seen of a window before it is
// published. Hazard: a window that failed on one PE stayed in the tables of the others.
#include "host/contexts/device_tables.h"

#include <gtest/gtest.h>

#include <array>
#include <vector>

#include "host/base/error.h"

namespace peal {
namespace {

constexpr int kPes = 3;
constexpr DeviceTables::Extent kExtent{.n_pes = kPes, .rails = 2};

class Tables : public testing::Test {
 protected:
  DeviceTables tables_{make_host_backing(DeviceTables::bytes(kExtent), "tables"), kExtent};
  std::array<std::byte, 4096> memory_{};
  std::vector<Be32> rkeys_, word_rkeys_;
  std::array<std::byte*, kPes> direct_{nullptr, &memory_[1], &memory_[2]};

  Tables() {
    for (uint32_t i = 0; i < 2 * kPes; ++i) {
      rkeys_.emplace_back(100 + i);
      word_rkeys_.emplace_back(200 + i);
    }
  }
  Window window(uint64_t bytes) {
    Window window{};
    window.base = memory_.data();
    window.bytes = bytes;
    return window;
  }
  void fill(uint64_t bytes) { tables_.fill(window(bytes), {rkeys_, word_rkeys_, direct_}); }
  void add(uint64_t bytes) {
    fill(bytes);
    tables_.publish();
  }
};

TEST_F(Tables, ShowAWindowWithItsKeysAndAddresses) {
  add(64);
  add(128);
  ASSERT_EQ(tables_.windows()->count, 2u);
  const Window& second = tables_.windows()->window[1];
  EXPECT_EQ(second.bytes, 128u);
  for (uint32_t i = 0; i < 2 * kPes; ++i) {
    EXPECT_EQ(second.rkeys[i].host(), 100 + i);
    EXPECT_EQ(second.word_rkeys[i].host(), 200 + i);
    EXPECT_EQ(tables_.heap_keys().words[i].host(), 200 + i);
  }
  for (size_t pe = 0; pe < kPes; ++pe) EXPECT_EQ(second.direct[pe], direct_[pe]);
  EXPECT_EQ(tables_.fields().heap.bytes, 64u);
  EXPECT_EQ(tables_.fields().near_first, 1);
  EXPECT_EQ(tables_.fields().near[1], direct_[2]);
}

TEST_F(Tables, ShowNothingThatWasNotPublished) {
  add(64);
  fill(128);
  EXPECT_EQ(tables_.windows()->count, 1u);
  EXPECT_EQ(tables_.window_count(), 1u);
  add(256);
  ASSERT_EQ(tables_.windows()->count, 2u);
  EXPECT_EQ(tables_.windows()->window[1].bytes, 256u) << "in the place of the one before";
}

TEST_F(Tables, HoldNullWhereAWindowHasNoEntries) {
  tables_.fill(window(64), {});
  tables_.publish();
  EXPECT_EQ(tables_.windows()->window[0].rkeys, nullptr);
  EXPECT_EQ(tables_.windows()->window[0].direct, nullptr);
  EXPECT_EQ(tables_.fields().near_first, INT32_MAX);
}

TEST_F(Tables, RefuseAWindowTooMany) {
  for (uint32_t i = 0; i < kMaxWindows; ++i) add(64);
  EXPECT_THROW(tables_.check_room(), Error);
  EXPECT_THROW(fill(64), Error);
  EXPECT_EQ(tables_.windows()->count, kMaxWindows);
}

TEST_F(Tables, ShowMaskedPesNowhere) {
  add(64);
  add(128);
  const std::array<int, 1> masked{1};
  const std::array<int, 2> live{0, 2};
  tables_.leave_out(masked, live);
  for (uint32_t window = 0; window < 2; ++window) {
    EXPECT_EQ(tables_.windows()->window[window].direct[1], nullptr);
    EXPECT_EQ(tables_.windows()->window[window].direct[2], direct_[2]);
  }
  EXPECT_EQ(tables_.fields().near[0], nullptr);
  tables_.keep_survivors(5, 1, 2);
  EXPECT_EQ(tables_.state(5)->survivors.count, 2u);
  EXPECT_EQ(tables_.state(5)->survivors.rank, 1u);
  EXPECT_EQ(tables_.state(5)->survivors.pe[1], 2);
}

TEST_F(Tables, KeepTheStatesOfContextsApart) {
  uint32_t alarm = 0;
  tables_.set_sync_epoch(3, 77);
  tables_.set_sync_epoch(4, 88);
  tables_.state(4)->usage.pe = 2;
  tables_.state(4)->usage.status = 9;
  EXPECT_EQ(tables_.usage(3).status, 0u);
  EXPECT_EQ(tables_.usage(4).status, 9u);
  EXPECT_EQ(tables_.usage(4).pe, 2);
  tables_.forget_usage(4);
  EXPECT_EQ(tables_.usage(4).status, 0u);
  EXPECT_EQ(tables_.sync_epoch(4), 88u) << "nothing else is forgotten";
  tables_.reset_state(3, &alarm);
  EXPECT_EQ(tables_.sync_epoch(3), 0u);
  EXPECT_EQ(tables_.state(3)->alarm, &alarm);
  EXPECT_EQ(tables_.sync_epoch(4), 88u);
}

}  // namespace
}  // namespace peal
