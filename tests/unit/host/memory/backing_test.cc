// SPDX-License-Identifier: Apache-2.0
//
// Host memory with an owner.
#include "host/memory/backing.h"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdint>
#include <cstring>
#include <limits>
#include <utility>

#include "host/base/error.h"

namespace peal {
namespace {

TEST(Backing, IsZeroedWritableAndAligned) {
  const Backing memory = make_host_backing(3 * 4096, "peal-test");
  EXPECT_EQ(reinterpret_cast<uintptr_t>(memory.address()) % Backing::kAlignment, 0u);
  EXPECT_EQ(memory.bytes(), 3u * 4096);
  EXPECT_TRUE(memory.host_accessible());
  for (size_t i = 0; i < memory.bytes(); ++i) ASSERT_EQ(memory.address()[i], std::byte{0});
  std::memset(memory.address(), 0x5a, memory.bytes());
  EXPECT_EQ(memory.address()[memory.bytes() - 1], std::byte{0x5a});
}

TEST(Backing, RoundsUpToWholePages) {
  EXPECT_EQ(make_host_backing(1, "peal-test").bytes(),
            static_cast<size_t>(::sysconf(_SC_PAGESIZE)));
}

TEST(Backing, CanBeMappedAgainThroughItsDescriptor) {
  const Backing memory = make_host_backing(4096, "peal-test");
  void* const other = ::mmap(nullptr, 4096, PROT_READ, MAP_SHARED, memory.fd(), 0);
  ASSERT_NE(other, MAP_FAILED);
  memory.address()[100] = std::byte{42};
  EXPECT_EQ(static_cast<std::byte*>(other)[100], std::byte{42});
  ::munmap(other, 4096);
}

TEST(Backing, ZeroesExactlyTheRangeAsked) {
  Backing memory = make_host_backing(4096, "peal-test");
  std::memset(memory.address(), 0xff, 4096);
  memory.zero(8, 16);
  EXPECT_EQ(memory.address()[7], std::byte{0xff});
  for (size_t i = 8; i < 24; ++i) EXPECT_EQ(memory.address()[i], std::byte{0});
  EXPECT_EQ(memory.address()[24], std::byte{0xff});
  EXPECT_NO_THROW(memory.zero(4096, 0));
}

TEST(Backing, RefusesToZeroOutside) {
  Backing memory = make_host_backing(4096, "peal-test");
  EXPECT_THROW(memory.zero(4095, 2), Error);
  EXPECT_THROW(memory.zero(4097, 0), Error);
  EXPECT_THROW(memory.zero(1, std::numeric_limits<size_t>::max()), Error);
}

TEST(Backing, RefusesNothing) {
  try {
    make_host_backing(0, "queues");
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kInvalidArgument);
  }
}

TEST(Backing, RefusesMoreThanTheMachineHasAndNamesTheRemedy) {
  for (const size_t bytes : {size_t{1} << 50, std::numeric_limits<size_t>::max()}) {
    try {
      make_host_backing(bytes, "heap");
      FAIL();
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::kOutOfMemory);
      const std::string what = error.what();
      EXPECT_NE(what.find(std::to_string(bytes)), std::string::npos) << what;
      EXPECT_NE(what.find("PEAL_HEAP_SIZE"), std::string::npos) << what;
    }
  }
}

// A kind of memory whose releases are counted.
struct Counted {
  static inline int releases = 0;
  static void release(const Backing::Block&) noexcept { ++releases; }
  static void zero(const Backing::Block&, std::byte*, size_t) {}
  static void copy(const Backing::Block&, std::span<const Copy>) {}
  static constexpr Backing::Operations kOperations{release, zero, copy};
};

TEST(Backing, IsReleasedOnceHoweverOftenItMoves) {
  static std::byte storage[2];
  Counted::releases = 0;
  {
    Backing a({&storage[0], 1, -1, false, nullptr}, Counted::kOperations);
    Backing b(std::move(a));
    Backing c({&storage[1], 1, -1, false, nullptr}, Counted::kOperations);
    c = std::move(b);
    EXPECT_EQ(Counted::releases, 1);  // what c held
    EXPECT_EQ(c.address(), &storage[0]);
    EXPECT_FALSE(c.host_accessible());
    Backing& same = c;
    c = std::move(same);
    EXPECT_EQ(c.address(), &storage[0]);
  }
  EXPECT_EQ(Counted::releases, 2);
}

}  // namespace
}  // namespace peal
