// SPDX-License-Identifier: Apache-2.0
//
// The tables that kernels read: what contexts say of the heap, and where each entry lies.
#include "host/contexts/device_tables.h"

#include <gtest/gtest.h>

#include <array>

namespace peal {
namespace {

constexpr int kPes = 3;
constexpr DeviceTables::Extent kExtent{.n_pes = kPes};

Backing make(size_t bytes) { return make_host_backing(bytes, "tables"); }

class Tables : public testing::Test {
 protected:
  PublishedWindows windows_{make, kPes, 2};
  DeviceTables tables_{make(DeviceTables::bytes(kExtent)), kExtent, windows_};
  std::array<std::byte, 4096> memory_{};
  std::array<std::byte*, kPes> direct_{nullptr, &memory_[1], &memory_[2]};

  void publish_heap() {
    Window heap{};
    heap.base = memory_.data();
    heap.bytes = 64;
    windows_.publish(windows_.fill(heap, {.direct = direct_}));
  }
};

TEST_F(Tables, HaveTheHeapInEveryContext) {
  publish_heap();
  EXPECT_EQ(tables_.fields().heap.bytes, 64u);
  EXPECT_EQ(tables_.fields().heap.direct, windows_.table()->window[0].direct);
  EXPECT_EQ(tables_.fields().near_first, 1);
  EXPECT_EQ(tables_.fields().near[1], direct_[2]);
}

TEST_F(Tables, HaveNothingNearWhereNothingIsMapped) {
  windows_.publish(windows_.fill({}, {}));
  EXPECT_EQ(tables_.fields().near_first, INT32_MAX);
}

TEST_F(Tables, ShowMaskedPesNowhere) {
  publish_heap();
  const std::array<int, 1> masked{1};
  const std::array<int, 2> live{0, 2};
  tables_.leave_out(masked, live);
  const Window& heap = windows_.table()->window[0];
  EXPECT_EQ(heap.direct[1], nullptr);
  EXPECT_EQ(heap.direct[2], direct_[2]);
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
