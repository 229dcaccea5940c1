// SPDX-License-Identifier: Apache-2.0
//
// The index by which kernels find windows, against a search of all windows: random ones that lie
// apart, side by side, within one another, of one byte and of gigabytes.
#include "host/windows/window_index.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <random>
#include <string>

#include "tests/unit/host/windows/near_to.h"

namespace peal {
namespace {

/// An index as kernels have it; the windows are nowhere.
class Indexed {
 public:
  explicit Indexed(std::vector<IndexedWindow> windows)
      : windows_(std::move(windows)), image_(make_index(windows_)) {
    std::ranges::copy(image_.slots, index_->slot);
    std::ranges::copy(image_.spans, index_->span);
    std::ranges::copy(image_.near, index_->near);
    table_->published = {index_.get(), image_.shift, image_.drop()};
  }
  uint32_t hinted(uint64_t address, detail::Side side) const {
    return detail::hinted(table_.get(), reinterpret_cast<const void*>(address), side);
  }
  std::byte* near(uint64_t address, uint64_t bytes, uint32_t slot) const {
    return detail::near_to(table_.get(), reinterpret_cast<const void*>(address), bytes, slot);
  }
  WindowIndex& index() { return *index_; }
  WindowTable& table() { return *table_; }

  /// The end of that window with the address that ends last, by looking at all.
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

// A lane that misses the index looks at all windows, and must find the same one.
TEST(WindowIndex, IsWhatASearchOfAllWindowsFinds) {
  WindowTable table{};
  const auto add = [&](uint32_t number, uint64_t begin, uint64_t bytes, bool peer) {
    static std::byte* const direct[2] = {};
    Window& window = table.window[number];
    window.base = reinterpret_cast<std::byte*>(begin);
    window.bytes = bytes;
    window.direct = peer ? direct : nullptr;
    table.count = std::max(table.count, number + 1);
  };
  add(1, 0x10080, 0x40, true);
  add(2, 0x10000, 0x100, true);
  add(3, 0x10090, 0x20, true);
  add(4, 0x10000, 0x200, false);
  const auto found = [&](uint64_t at, uint64_t bytes, detail::Side side) {
    const auto* const address = reinterpret_cast<const void*>(at);
    const Window* const window = detail::find_window(&table, address, bytes, side).window;
    return window == nullptr ? 0 : window - table.window;
  };
  EXPECT_EQ(found(0x10090, 8, detail::Side::kPeer), 2);
  EXPECT_EQ(found(0x10090, 8, detail::Side::kHome), 4);
  EXPECT_EQ(found(0x10090, 0x100, detail::Side::kPeer), 0);
  add(5, 0x100a0, 0x60, true);  // ends where window 2 does
  EXPECT_EQ(found(0x100b0, 8, detail::Side::kPeer), 5);
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

/// Windows of two PEs, of which PE 1 has its parts at `kApart` * number from those of this PE; PE 0
/// is not mapped.
class Mapped {
 public:
  static constexpr uint64_t kApart = uint64_t{1} << 32;

  explicit Mapped(std::vector<IndexedWindow> windows) {
    for (IndexedWindow& window : windows) {
      if (!window.peer) continue;
      window.near.begin = marked(window, window.begin);
      window.near.limit = marked(window, window.begin + window.bytes + 1);
      window.near.apart[1] = marked(window, kApart * window.number);
    }
    windows_ = windows;
    indexed_ = std::make_unique<Indexed>(std::move(windows));
    for (const IndexedWindow& window : windows_) {
      if (!window.peer) continue;
      indexed_->table().near[1][window.number] = {
          marked(window, window.bytes + 1), marked(window, window.begin + kApart * window.number)};
    }
  }

  /// Whether a byte of the address is found; where it is, it must be right.
  bool finds(uint64_t at, uint64_t bytes) const {
    const auto found = reinterpret_cast<uint64_t>(indexed_->near(at, bytes, 1));
    if (found == 0) return false;
    const uint64_t number = (found - at) / kApart;
    const auto window = std::ranges::find(windows_, number, &IndexedWindow::number);
    EXPECT_EQ((found - at) % kApart, 0u);
    EXPECT_TRUE(window != windows_.end() && window->peer) << number;
    EXPECT_EQ(window->begin + window->bytes, indexed_->end_of_best(at, detail::Side::kPeer));
    EXPECT_TRUE(at - window->begin < window->bytes && bytes <= window->begin + window->bytes - at);
    return true;
  }
  Indexed& indexed() { return *indexed_; }

 private:
  static uint64_t marked(const IndexedWindow& window, uint64_t value) {
    return value | uint64_t{window.number} << kMarkShift;
  }

  std::vector<IndexedWindow> windows_;
  std::unique_ptr<Indexed> indexed_;
};

TEST(WindowNear, IsFoundByAddressAndByNumber) {
  Mapped two({{0x10000, 0x1000, 1, true}, {0x20010, 0x500, 2, true}, {0x30000, 0x80, 3, false}});
  EXPECT_TRUE(two.finds(0x10000, 0x1000));
  EXPECT_TRUE(two.finds(0x20500, 0x10));
  EXPECT_FALSE(two.finds(0x20500, 0x11)) << "it ends there";
  EXPECT_FALSE(two.finds(0x2000f, 1));
  EXPECT_FALSE(two.finds(0x10000, ~uint64_t{0}));
  EXPECT_FALSE(two.finds(0x30000, 8)) << "not symmetric";
  EXPECT_FALSE(two.finds(0, 8));
  const Indexed& indexed = two.indexed();
  const auto by_number = [&](uint32_t number, uint64_t offset, uint64_t bytes, uint32_t slot) {
    return reinterpret_cast<uint64_t>(
        indexed.near(reinterpret_cast<uint64_t>(WindowHandle{number}.at(offset)), bytes, slot));
  };
  EXPECT_EQ(by_number(2, 0x4f8, 8, 1), 0x20508 + 2 * Mapped::kApart);
  EXPECT_EQ(by_number(2, 0x4f9, 8, 1), 0u);
  EXPECT_EQ(by_number(2, 0x4f8, ~uint64_t{0}, 1), 0u);
  EXPECT_EQ(by_number(2, 0, 8, 0), 0u) << "PE 0 is not mapped";
  EXPECT_EQ(by_number(2, 0, 8, 1 + kNearPes), 0u) << "not near";
  EXPECT_EQ(indexed.near(0x10000, 8, 0), nullptr);
  EXPECT_EQ(indexed.near(0x10000, 8, 1 + kNearPes), nullptr);
  EXPECT_EQ(by_number(3, 0, 8, 1), 0u);
  EXPECT_EQ(by_number(0, 0, 8, 1), 0u);
  EXPECT_EQ(by_number(kMaxWindows - 1, 0, 8, 1), 0u);
}

// A lane may read half of what was there before.
TEST(WindowNear, OfTwoHalvesIsNone) {
  Mapped one({{0x10000, 0x1000, 1, true}});
  const Indexed& indexed = one.indexed();
  const auto at = reinterpret_cast<uint64_t>(WindowHandle{1}.at(0));
  ASSERT_TRUE(one.finds(0x10000, 8));
  ASSERT_NE(indexed.near(at, 8, 1), nullptr);
  auto* const by_address = std::ranges::find_if(
      one.indexed().index().near, [](const WindowNearAt& near) { return near.limit != 0; });
  WindowNear& by_number = one.indexed().table().near[1][1];
  for (uint64_t* word : {&by_address->begin, &by_address->limit, &by_address->apart[1],
                         &by_number.limit, &by_number.there}) {
    const uint64_t whole = *word;
    *word ^= uint64_t{3} << kMarkShift;  // of another window
    EXPECT_FALSE(one.finds(0x10000, 8) && indexed.near(at, 8, 1) != nullptr);
    *word = whole;
  }
  EXPECT_TRUE(one.finds(0x10000, 8));
}

TEST(WindowNear, OfAGranuleIsTheLargest) {
  // More windows than slots for their pages: granules are larger than a page.
  std::vector<IndexedWindow> windows;
  for (uint32_t i = 0; i < 100; ++i) {
    windows.push_back({0x7f0000000000 + uint64_t{i} * 0x40000000, 0x2ffff000, i + 1, true});
    windows.push_back({0x7f0000000000 + uint64_t{i} * 0x40000000 + 0x2ffff800, 64, i + 200, true});
  }
  const Mapped mapped(windows);
  const auto found = std::ranges::count_if(windows, [&](const IndexedWindow& window) {
    return mapped.finds(window.begin + window.bytes / 2, 8);
  });
  // But for granules that others have the slots of; small windows lie in a granule of a large one.
  EXPECT_GE(found, 90);
  EXPECT_LE(found, 110);
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
  const Mapped mapped(windows);
  for (int i = 0; i < 200; ++i) mapped.finds(0x7e0000000000 + below(room), 1 + below(64));
  for (const IndexedWindow& window : windows) mapped.finds(window.begin, window.bytes);
}

INSTANTIATE_TEST_SUITE_P(Seeds, RandomWindows, testing::Range(0u, 200u));

}  // namespace
}  // namespace peal
