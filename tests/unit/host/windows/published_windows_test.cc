// SPDX-License-Identifier: Apache-2.0
//
// The windows that kernels are shown: where each entry lies, what is seen of one before it is shown
// and after it was hidden. Hazard: a window that failed on one PE stayed in the tables of the
// others.
#include "host/windows/published_windows.h"

#include <gtest/gtest.h>

#include <array>
#include <span>
#include <vector>

#include "host/base/error.h"
#include "tests/unit/host/windows/near_to.h"

namespace peal {
namespace {

constexpr int kPes = 3;
constexpr uint32_t kRails = 2;

class Shown : public testing::Test {
 protected:
  PublishedWindows windows_{[](size_t bytes) { return make_host_backing(bytes, "windows"); }, kPes,
                            kRails};
  std::vector<std::byte> memory_ = std::vector<std::byte>(1 << 20);
  std::vector<NicKey> rkeys_, word_rkeys_;
  std::array<std::byte*, kPes> direct_{nullptr, &memory_[1], &memory_[2]};

  Shown() {
    for (uint32_t i = 0; i < kRails * kPes; ++i) {
      rkeys_.push_back({100 + i});
      word_rkeys_.push_back({200 + i});
    }
    add(0, 64);  // the heap
  }
  PublishedWindows::Draft fill(size_t at, uint64_t bytes, std::span<const WindowPart> parts = {}) {
    Window window{};
    window.base = &memory_[at];
    window.bytes = bytes;
    return windows_.fill(window, {rkeys_, word_rkeys_, direct_, parts});
  }
  uint32_t add(size_t at, uint64_t bytes, std::span<const WindowPart> parts = {}) {
    return windows_.publish(fill(at, bytes, parts));
  }
  /// What kernels find; 0 for nothing.
  uint32_t found(size_t at, uint64_t bytes) const {
    const auto place = detail::find_window(table(), &memory_[at], bytes, detail::Side::kPeer);
    return place.window == nullptr ? 0 : static_cast<uint32_t>(place.window - table()->window);
  }
  std::byte* near(const void* address, uint64_t bytes, uint32_t slot) const {
    return detail::near_to(table(), address, bytes, slot);
  }
  const WindowTable* table() const { return windows_.table(); }
};

TEST_F(Shown, HaveTheirKeysAndAddresses) {
  const std::array<WindowPart, kPes> parts{{{1, 10}, {2, 20}, {3, 30}}};
  const Window& second = table()->window[add(100, 10, parts)];
  EXPECT_EQ(second.base, &memory_[100]);
  EXPECT_EQ(second.bytes, 10u);
  for (uint32_t i = 0; i < kRails * kPes; ++i) {
    EXPECT_EQ(second.rkeys[i].bits, 100 + i);
    EXPECT_EQ(second.word_rkeys[i].bits, 200 + i);
    EXPECT_EQ(windows_.heap_keys().words[i].bits, 200 + i);
  }
  for (size_t pe = 0; pe < kPes; ++pe) {
    EXPECT_EQ(second.direct[pe], direct_[pe]);
    EXPECT_EQ(second.parts[pe].iova, parts[pe].iova);
    EXPECT_EQ(second.parts[pe].bytes, parts[pe].bytes);
  }
}

TEST_F(Shown, AreNothingBefore) {
  fill(4096, 128);
  EXPECT_EQ(table()->count, 1u);
  EXPECT_EQ(found(4096, 1), 0u);
  EXPECT_EQ(add(4096, 256), 1u);
  EXPECT_EQ(found(4096, 256), 1u) << "in the place of the one before";
}

TEST_F(Shown, HaveNullWhereThereAreNoEntries) {
  const Window& window = table()->window[windows_.publish(windows_.fill({}, {}))];
  EXPECT_EQ(window.rkeys, nullptr);
  EXPECT_EQ(window.word_rkeys, nullptr);
  EXPECT_EQ(window.direct, nullptr);
  EXPECT_EQ(window.parts, nullptr);
}

TEST_F(Shown, AreNothingAfterwards) {
  const uint32_t first = add(4096, 64);
  const uint32_t second = add(8192, 64);
  const uint32_t version = table()->version;
  windows_.hide(first);
  EXPECT_GT(table()->version, version);
  EXPECT_EQ(found(4096, 1), 0u);
  EXPECT_EQ(found(8192, 64), second);
  EXPECT_FALSE(detail::symmetric(table()->window[first]));
}

TEST_F(Shown, TakeNewNumbersAsLongAsThereAreSome) {
  const uint32_t first = add(4096, 64);
  windows_.hide(first);
  for (uint32_t number = 2; number < kMaxWindows; ++number) {
    ASSERT_EQ(windows_.publish(windows_.fill({}, {})), number);
  }
  EXPECT_EQ(add(4096, 64), first);
  EXPECT_EQ(found(4096, 64), first);
  EXPECT_THROW(windows_.check_room(), Error);
  EXPECT_THROW(fill(0, 64), Error);
  windows_.hide(5);
  windows_.hide(4);
  EXPECT_EQ(add(0, 8), 5u) << "the one that was free first";
  EXPECT_EQ(windows_.table()->count, kMaxWindows);
}

// PEs 1 and 2 are mapped, and so near.
TEST_F(Shown, AreNearWhereTheyAreMapped) {
  EXPECT_EQ(windows_.heap().near_first, 1);
  const uint32_t number = add(4096, 64);
  EXPECT_EQ(near(&memory_[4100], 60, 0), direct_[1] + 4);
  EXPECT_EQ(near(&memory_[4100], 60, 1), direct_[2] + 4);
  EXPECT_EQ(near(&memory_[4100], 61, 1), nullptr);
  EXPECT_EQ(near(&memory_[4100], 60, 2), nullptr) << "there are three";
  EXPECT_EQ(near(WindowHandle{number}.at(60), 4, 1), direct_[2] + 60);
  windows_.hide(number);
  EXPECT_EQ(near(&memory_[4100], 60, 0), nullptr);
  EXPECT_EQ(near(WindowHandle{number}.at(60), 4, 1), nullptr);
}

TEST_F(Shown, AreNearAsFarAsTheSmallestPartGoes) {
  const std::array<WindowPart, kPes> parts{{{0, 100}, {0, 20}, {0, 300}}};
  const WindowHandle handle{add(4096, 100, parts)};
  EXPECT_EQ(near(&memory_[4096], 20, 1), direct_[2]);
  EXPECT_EQ(near(&memory_[4096], 21, 1), nullptr) << "the entry knows more";
  EXPECT_EQ(near(handle.at(0), 21, 0), nullptr);
  EXPECT_EQ(near(handle.at(299), 1, 1), direct_[2] + 299);
  EXPECT_EQ(near(handle.at(300), 1, 1), nullptr);
}

TEST_F(Shown, DoNotShowMaskedPes) {
  for (uint32_t i = 0; i < 200; ++i) add(4096 + 64 * i, 64);  // parts in several blocks
  windows_.hide(7);
  const std::array<int, 1> masked{1};
  windows_.leave_out(masked);
  for (const void* at :
       {static_cast<const void*>(&memory_[4096]), static_cast<const void*>(WindowHandle{1}.at())}) {
    EXPECT_EQ(near(at, 8, 0), nullptr);
    EXPECT_EQ(near(at, 8, 1), direct_[2]);
  }
  add(1 << 19, 64);
  EXPECT_EQ(near(&memory_[4096], 8, 0), nullptr) << "nor in the next index";
  for (const uint32_t number : {0u, 1u, 63u, 64u, 191u, 192u, 200u}) {
    EXPECT_EQ(table()->window[number].direct[1], nullptr) << number;
    EXPECT_EQ(table()->window[number].direct[2], direct_[2]) << number;
  }
}

TEST_F(Shown, AreFoundAmongMany) {
  for (uint32_t i = 1; i <= 1000; ++i) ASSERT_EQ(add(i * 1000, 500), i);
  for (uint32_t i = 1; i <= 1000; ++i) {
    ASSERT_EQ(found(i * 1000, 500), i);
    ASSERT_EQ(found(i * 1000 + 499, 1), i);
    ASSERT_EQ(found(i * 1000 + 499, 2), 0u);
  }
}

}  // namespace
}  // namespace peal
