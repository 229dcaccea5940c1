// SPDX-License-Identifier: Apache-2.0
#include "host/memory/registration_cache.h"

#include <gtest/gtest.h>

#include <array>
#include <map>
#include <string>
#include <vector>

#include "tests/support/error_of.h"

namespace peal {
namespace {

/// An allocator's blocks, by address, with the driver's numbers for them.
struct Blocks {
  std::array<std::byte, 256> memory;
  std::map<const std::byte*, MemoryIdentity> identity;
  RegistrationCache cache{[this](const std::byte* address, size_t) {
    const auto found = identity.find(address);
    return found == identity.end() ? MemoryIdentity{} : found->second;
  }};

  std::byte* at(size_t offset) { return memory.data() + offset; }
  RegistrationCache::Memory describe(size_t offset, size_t bytes) {
    return cache.describe("register_window", at(offset), bytes);
  }
  std::vector<uint64_t> found(size_t offset, size_t bytes) {
    std::vector<uint64_t> numbers;
    for (const uint64_t number : cache.find(describe(offset, bytes))) {
      if (number != 0) numbers.push_back(number);
    }
    return numbers;
  }
};

using Numbers = std::vector<uint64_t>;

TEST(RegistrationCache, FindsTheSameMemoryTheNewestFirst) {
  Blocks blocks;
  blocks.identity[blocks.at(0)] = {7, 8};
  EXPECT_EQ(blocks.found(0, 64), Numbers{});
  blocks.cache.keep(3, blocks.describe(0, 64));
  blocks.cache.keep(1, blocks.describe(0, 64));
  blocks.cache.keep(2, blocks.describe(0, 32));
  EXPECT_EQ(blocks.found(0, 64), (Numbers{1, 3}));
  EXPECT_EQ(blocks.found(0, 32), Numbers{2}) << "another size is other memory";
  EXPECT_EQ(blocks.cache.numbers(), (Numbers{1, 2, 3}));
  blocks.cache.forget(1);
  blocks.cache.forget(1);
  EXPECT_EQ(blocks.found(0, 64), Numbers{3});
  EXPECT_EQ(blocks.cache.count(), 2u);
}

TEST(RegistrationCache, FindsNotMoreThanAnExchangeHasRoomFor) {
  Blocks blocks;
  blocks.identity[blocks.at(0)] = {7};
  for (uint64_t number = 1; number <= 20; ++number) {
    blocks.cache.keep(number, blocks.describe(0, 64));
  }
  EXPECT_EQ(blocks.found(0, 64), (Numbers{20, 19, 18, 17, 16, 15, 14, 13}));
}

TEST(RegistrationCache, NoticesMemoryThatWasFreedOrMappedAnew) {
  Blocks blocks;
  blocks.identity[blocks.at(0)] = {1};
  blocks.identity[blocks.at(64)] = {2, 3};
  blocks.identity[blocks.at(128)] = {4};
  blocks.cache.keep(1, blocks.describe(0, 64));
  blocks.cache.keep(2, blocks.describe(64, 64));
  blocks.cache.keep(3, blocks.describe(128, 64));
  blocks.cache.keep(4,
                    blocks.cache.describe("register_window", nullptr, 0));  // a PE without a part
  EXPECT_EQ(blocks.cache.ended(), Numbers{});
  blocks.identity.erase(blocks.at(0));
  blocks.identity[blocks.at(64)] = {2, 9};  // its second half is another mapping's
  EXPECT_EQ(blocks.cache.ended(), (Numbers{1, 2}));
  EXPECT_EQ(blocks.found(64, 64), Numbers{}) << "other memory at the same address";
  EXPECT_EQ(blocks.found(128, 64), Numbers{3});
}

TEST(RegistrationCache, RefusesMemoryThatNothingTellsOf) {
  Blocks blocks;
  const std::string text = error_of([&] { blocks.describe(0, 64); }).what();
  EXPECT_NE(text.find("register_window: WindowOptions::cached: 64 bytes at"), std::string::npos)
      << text;
}

}  // namespace
}  // namespace peal
