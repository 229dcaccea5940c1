// SPDX-License-Identifier: Apache-2.0
//
// How a loss travels between hosts, who is elsewhere, and what is said of either.
#include "host/job/departure.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "host/base/place.h"

namespace peal {
namespace {

using How = Departure::How;

TEST(Departure, TellsOfTheLossOfAnother) {
  for (const How how : {How::kKilled, How::kEnded, How::kSilent}) {
    const std::string text = "UDP 10.0.0.3:4711 of host c";
    const LeavingMessage message({.own = {}, .lost_pe = 5, .loss = {how, 9, text}});
    const auto heard = read_leaving(message.word(), message.payload());
    ASSERT_TRUE(heard && heard->loss);
    EXPECT_EQ(heard->loss->first, 5);
    EXPECT_EQ(heard->loss->second.how, how);
    EXPECT_EQ(heard->loss->second.code, 9);
    EXPECT_EQ(heard->loss->second.text, text);
  }
}

TEST(Departure, OfNoKindIsNone) {
  const LeavingMessage message({.own = {static_cast<How>(99)}});
  EXPECT_FALSE(read_leaving(message.word(), message.payload()));
}

TEST(Departure, SaysWhatIsKnownOfAnotherHost) {
  EXPECT_EQ(describe({How::kSilent, 10'000, "UDP 10.0.0.3:4711 of host c"}),
            "has not answered for 10000 ms, nor has any PE of its host: UDP 10.0.0.3:4711 of host "
            "c");
  EXPECT_EQ(describe({How::kEnded, 0, "UDP 10.0.0.3:4711 of host c"}),
            "has ended, as its host says: UDP 10.0.0.3:4711 of host c");
}

/// Who waits in rejoin() has not ended, and a program may meet it again.
TEST(Departure, TellsWhoRejoinsFromWhoHasEnded) {
  const LeavingMessage message({.own = {How::kRejoins}, .lost_pe = 5, .loss = {How::kKilled, 9}});
  const auto heard = read_leaving(message.word(), message.payload());
  ASSERT_TRUE(heard && heard->loss);
  EXPECT_FALSE(heard->own.in_order());
  EXPECT_EQ(describe(heard->own), "waits in rejoin() for the others");
  EXPECT_EQ(heard->loss->first, 5);
}

Place on(const char* boot, uint64_t network) {
  Place place{};
  std::copy_n(boot, std::char_traits<char>::length(boot), place.boot_id.begin());
  place.network = network;
  return place;
}

TEST(Place, IsElsewhereOnAnotherHostOrNetworkAsFarAsLinuxTells) {
  EXPECT_TRUE(is_elsewhere(on("a", 1), on("b", 1)));
  EXPECT_TRUE(is_elsewhere(on("a", 1), on("a", 2)));
  EXPECT_FALSE(is_elsewhere(on("a", 1), on("a", 1)));
  EXPECT_FALSE(is_elsewhere(on("a", 0), on("a", 2)));
  EXPECT_FALSE(is_elsewhere(on("", 1), on("b", 2)));
}

}  // namespace
}  // namespace peal
