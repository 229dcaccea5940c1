// SPDX-License-Identifier: Apache-2.0
//
// How a thread of the software NIC waits.
#include "softnic/rest.h"

#include <gtest/gtest.h>

namespace peal::softnic {
namespace {

using std::chrono::milliseconds;

// The GPU engine's process asked the driver without a rest whether the kernel had stopped, for up
// to 20 s of a core that a PE may need. Whoever sleeps between its looks has few.
TEST(Rest, AThreadThatWaitsForLongLooksSeldom) {
  constexpr milliseconds kPatience{50};
  uint32_t looks = 0;
  EXPECT_FALSE(wait_until_done([&] { return ++looks == 0; }, kPatience));
  EXPECT_LE(looks, kLooksAwake + 2 + kPatience / std::chrono::microseconds(20));
}

TEST(Rest, AWaitEndsWhenItsThingIsDone) {
  uint32_t looks = 0;
  EXPECT_TRUE(wait_until_done([&] { return ++looks == kLooksAwake + 100; }, milliseconds(60'000)));
  EXPECT_EQ(looks, kLooksAwake + 100);
  EXPECT_TRUE(wait_until_done([] { return true; }, milliseconds(0)));
}

// What the look finds out may be an error.
TEST(Rest, AWaitEndsWithWhatTheLookThrows) {
  EXPECT_THROW(wait_until_done([]() -> bool { throw 1; }, milliseconds(60'000)), int);
}

}  // namespace
}  // namespace peal::softnic
