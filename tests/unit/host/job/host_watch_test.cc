// SPDX-License-Identifier: Apache-2.0
//
// Who asks whom of another host, and when a PE there counts as lost.
#include "host/job/host_watch.h"

#include <gtest/gtest.h>

#include <map>
#include <string>
#include <vector>

namespace peal {
namespace {

using Heard = FarChannel::Heard;
using Time = HostWatch::Time;
using Pes = std::vector<int>;
using Losses = std::vector<HostWatch::Loss>;

constexpr Time kLimit = std::chrono::seconds(10);

/// "aabc": PE 0 and 1 on host a, 2 on b, 3 on c.
std::vector<Place> on(const std::string& hosts) {
  std::vector<Place> places;
  for (const char host : hosts) {
    Place place{};
    place.boot_id[0] = host;
    place.network = 1;
    places.push_back(place);
  }
  return places;
}

Pes asked(const std::string& hosts, int rank, const Pes& live) {
  return HostWatch(on(hosts), rank, kLimit).to_ask(live, Time(0));
}

TEST(HostWatch, HasTheFirstPeOfAHostAskAllOfTheNext) {
  EXPECT_EQ(asked("aabbcc", 0, {0, 1, 2, 3, 4, 5}), (Pes{2, 3}));
  EXPECT_EQ(asked("aabbcc", 1, {0, 1, 2, 3, 4, 5}), Pes{});
  EXPECT_EQ(asked("aabbcc", 4, {0, 1, 2, 3, 4, 5}), (Pes{0, 1}));
  EXPECT_EQ(asked("abab", 1, {0, 1, 2, 3}), (Pes{0, 2}));
  EXPECT_EQ(asked("aaaa", 0, {0, 1, 2, 3}), Pes{}) << "there is no other host";
}

TEST(HostWatch, GoesOnWithoutThoseThatAreLost) {
  EXPECT_EQ(asked("aabbcc", 1, {1, 2, 3, 4, 5}), (Pes{2, 3})) << "PE 0 is lost";
  EXPECT_EQ(asked("aabbcc", 0, {0, 1, 3, 4, 5}), (Pes{3}));
  EXPECT_EQ(asked("aabbcc", 0, {0, 1, 4, 5}), (Pes{4, 5})) << "host b is lost";
}

TEST(HostWatch, AsksAgainAfterAWhile) {
  HostWatch watch(on("ab"), 0, kLimit);
  EXPECT_EQ(watch.to_ask({0, 1}, Time(0)), (Pes{1}));
  EXPECT_EQ(watch.to_ask({0, 1}, HostWatch::kAskAgain - Time(1)), Pes{});
  EXPECT_EQ(watch.to_ask({0, 1}, HostWatch::kAskAgain), (Pes{1}));
}

Losses losses(const std::string& hosts, std::map<int, Heard> heard, Time limit = kLimit) {
  Pes live;
  for (int pe = 0; pe < static_cast<int>(hosts.size()); ++pe) live.push_back(pe);
  return HostWatch(on(hosts), 0, limit).losses(live, std::chrono::minutes(1), [&](int pe) {
    return heard[pe];
  });
}

constexpr Time kLately = std::chrono::seconds(51);
constexpr Time kLongAgo = std::chrono::seconds(49);

TEST(HostWatch, TakesARefusalForTheEndOfAProcess) {
  EXPECT_EQ(losses("abb", {{1, {true, true, kLately}}, {2, {true, false, kLately}}}),
            (Losses{{1, false}}));
}

TEST(HostWatch, TakesSilenceOfAllForTheLossOfAHost) {
  EXPECT_EQ(losses("abb", {{1, {true, false, kLongAgo}}, {2, {true, false, kLongAgo}}}),
            (Losses{{1, true}, {2, true}}));
  EXPECT_EQ(losses("abb", {{1, {true, false, kLongAgo}}, {2, {true, false, kLately}}}), Losses{})
      << "PE 1 may stand still";
}

TEST(HostWatch, LosesNobodyThatItHasNeverHeard) {
  EXPECT_EQ(losses("abb", {}), Losses{});
  EXPECT_EQ(losses("abb", {{1, {true, false, kLately}}}), Losses{}) << "PE 2 begins later";
}

TEST(HostWatch, LosesNobodyForSilenceWithoutALimit) {
  EXPECT_EQ(losses("ab", {{1, {true, false, kLongAgo}}}, Time(0)), Losses{});
}

}  // namespace
}  // namespace peal
