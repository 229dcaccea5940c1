// SPDX-License-Identifier: Apache-2.0
//
// The index by which kernels find windows, against a search of all windows: random ones that lie
// apart, side by side, within one another, of one byte and of gigabytes.
#include "host/contexts/window_index.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <random>
#include <string>

#include "device/detail/windows.h"

namespace peal {
namespace {

/// An index as kernels have it; the windows are nowhere.
class Indexed {
 public:
  explicit Indexed(std::vector<IndexedWindow> windows)
      : windows_(std::move(windows)), image_(make_index(windows_)) {
    std::ranges::copy(image_.slots, index_->slot);
    std::ranges::copy(image_.spans, index_->span);
    table_->shown = {index_.get(), image_.shift, static_cast<uint32_t>(image_.slots.size() - 1)};
  }
  uint32_t hinted(uint64_t address, detail::Side side) const {
    return detail::hinted(table_.get(), reinterpret_cast<const void*>(address), side);
  }
  /// Of the windows that hold the address the one that ends last, by looking at all.
  uint64_t end_of_best(uint64_t address, detail::Side side) const {
    uint64_t end = 0;
    for (const IndexedWindow& window : windows_) {
      if (side == detail::Side::kPeer && !window.peer) continue;
      if (address - window.begin < window.bytes) end = std::max(end, window.begin + window.bytes);
    }
    return end;
  }
  uint64_t end_of(uint32_t number) const {
    for (const IndexedWindow& window : windows_) {
      if (window.number == number) return window.begin + window.bytes;
    }
    return 0;
  }
  const IndexImage& image() const { return image_; }

  /// The hint for each byte at which something may begin or end.
  void expect_right() const {
    for (const IndexedWindow& window : windows_) {
      const uint64_t end = window.begin + window.bytes;
      for (const uint64_t at :
           {window.begin - 1, window.begin, window.begin + window.bytes / 2, end - 1, end}) {
        for (const auto side : {detail::Side::kHome, detail::Side::kPeer}) {
          const uint64_t best = end_of_best(at, side);
          if (best == 0) continue;
          ASSERT_EQ(end_of(hinted(at, side)), best) << std::hex << at;
        }
      }
    }
  }

 private:
  std::vector<IndexedWindow> windows_;
  IndexImage image_;
  std::unique_ptr<WindowIndex> index_ = std::make_unique<WindowIndex>();
  std::unique_ptr<WindowTable> table_ = std::make_unique<WindowTable>();
};

TEST(WindowIndex, OfNoWindowsHintsAtNone) {
  const Indexed none({});
  EXPECT_EQ(none.hinted(0, detail::Side::kHome), 0u);
  EXPECT_EQ(none.hinted(0x7f0000001000, detail::Side::kPeer), 0u);
}

TEST(WindowIndex, TellsHomeFromPeer) {
  const Indexed both({{0x10000, 0x100, 1, false}, {0x10080, 0x40, 2, true}});
  EXPECT_EQ(both.hinted(0x10090, detail::Side::kHome), 1u) << "it ends last";
  EXPECT_EQ(both.hinted(0x10090, detail::Side::kPeer), 2u);
  EXPECT_EQ(both.hinted(0x10000, detail::Side::kPeer), 0u);
  both.expect_right();
}

TEST(WindowIndex, KeepsToItsSizeForWindowsOfAnySize) {
  std::vector<IndexedWindow> windows;
  for (uint32_t i = 1; i <= 100; ++i) {
    windows.push_back({uint64_t{i} << 40, (uint64_t{1} << 39) + i, i, true});
  }
  const Indexed large(windows);
  EXPECT_LE(large.image().slots.size(), size_t{WindowIndex::kSlots});
  large.expect_right();
}

TEST(WindowIndex, HoldsAsManyAsTheTable) {
  std::vector<IndexedWindow> windows;
  for (uint32_t i = 1; i < kMaxWindows; ++i) {
    windows.push_back({0x7f0000000000 + uint64_t{i} * 0x10000000, 1, i, i % 2 == 0});
  }
  const Indexed all(windows);
  EXPECT_LE(all.image().slots.size(), size_t{WindowIndex::kSlots});
  EXPECT_LE(all.image().spans.size(), size_t{WindowIndex::kSpans});
  all.expect_right();
}

class RandomWindows : public testing::TestWithParam<uint32_t> {};

TEST_P(RandomWindows, AreHintedAt) {
  std::mt19937_64 random(GetParam());
  const auto below = [&](uint64_t n) { return random() % n; };
  const uint64_t room = uint64_t{1} << (12 + below(28));
  const uint32_t longest = static_cast<uint32_t>(below(30));
  std::vector<IndexedWindow> windows;
  for (uint32_t i = 1; i <= 1 + below(200); ++i) {
    const uint64_t bytes = 1 + below(uint64_t{1} << below(longest + 1));
    windows.push_back({0x7e0000000000 + below(room), bytes, i, below(2) == 0});
  }
  Indexed(windows).expect_right();
}

INSTANTIATE_TEST_SUITE_P(Seeds, RandomWindows, testing::Range(0u, 200u));

}  // namespace
}  // namespace peal
