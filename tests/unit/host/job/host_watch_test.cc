// SPDX-License-Identifier: Apache-2.0
//
// Who asks whom of another host, and when a PE there counts as lost.
#include "host/job/host_watch.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <string>
#include <vector>

namespace peal {
namespace {

using Heard = UdpChannel::Heard;
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

Heard all_heard(int) { return {true, false, Time(0)}; }

Pes asked(const std::string& hosts, int rank, const Pes& live) {
  return HostWatch(on(hosts), rank, kLimit).to_ask(live, Time(0), all_heard);
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
  EXPECT_EQ(watch.to_ask({0, 1}, Time(0), all_heard), (Pes{1}));
  EXPECT_EQ(watch.to_ask({0, 1}, HostWatch::kAskAgain - Time(1), all_heard), Pes{});
  EXPECT_EQ(watch.to_ask({0, 1}, HostWatch::kAskAgain, all_heard), (Pes{1}));
}

Losses losses(const std::string& hosts, std::map<int, Heard> heard, Time limit = kLimit) {
  Pes live;
  for (int pe = 0; pe < static_cast<int>(hosts.size()); ++pe) live.push_back(pe);
  HostWatch watch(on(hosts), 0, limit);
  const auto of = [&](int pe) { return heard[pe]; };
  watch.to_ask(live, Time(0), of);
  return watch.losses(live, std::chrono::minutes(1), of);
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

// Hazard: a PE had heard one of two of a host when it began to ask there, and both had ended: it
// waited for the other one until a collective call's deadline.
TEST(HostWatch, LosesAPeUnheardOfAHostOfWhichAnotherWasHeard) {
  HostWatch watch(on("abb"), 0, kLimit);
  const auto heard = [](int pe) { return pe == 1 ? Heard{true, true, kLately} : Heard(); };
  EXPECT_EQ(watch.losses({0, 2}, Time(0), heard), Losses{});
  EXPECT_EQ(watch.losses({0, 2}, kLimit + Time(1), heard), (Losses{{2, true}}));
}

TEST(HostWatch, AsksOnePeOfEachHostThatWasNeverHeard) {
  HostWatch watch(on("abbcdd"), 0, kLimit);
  const auto heard = [](int pe) { return pe == 3 ? all_heard(pe) : Heard(); };
  EXPECT_EQ(watch.to_ask({0, 1, 2, 3, 4, 5}, Time(0), heard), (Pes{1, 2, 4}));
}

// Who speaks for its host since another PE is lost has heard nothing of late, and did not ask.
TEST(HostWatch, CountsSilenceFromWhenItBeganToAsk) {
  HostWatch watch(on("aab"), 1, kLimit);
  const auto long_ago = [](int) { return Heard{true, false, Time(0)}; };
  constexpr Time kNow = std::chrono::hours(1);
  EXPECT_EQ(watch.losses({0, 1, 2}, kNow, long_ago), Losses{}) << "PE 0 speaks";
  EXPECT_EQ(watch.losses({1, 2}, kNow + Time(1), long_ago), Losses{});
  EXPECT_EQ(watch.losses({1, 2}, kNow + kLimit + Time(1), long_ago), Losses{});
  EXPECT_EQ(watch.losses({1, 2}, kNow + kLimit + Time(2), long_ago), (Losses{{2, true}}));
}

TEST(HostWatch, WaitsForSeveralQuestionsBeforeItCallsAHostSilent) {
  HostWatch watch(on("ab"), 0, Time(1));
  const auto long_ago = [](int) { return Heard{true, false, Time(0)}; };
  EXPECT_EQ(watch.losses({0, 1}, Time(1), long_ago), Losses{});
  EXPECT_EQ(watch.losses({0, 1}, Time(1) + HostWatch::kLeastLimit, long_ago), Losses{});
  EXPECT_EQ(watch.losses({0, 1}, Time(2) + HostWatch::kLeastLimit, long_ago), (Losses{{1, true}}));
}

constexpr Time kEnd = std::chrono::seconds(1);  // of a connection
constexpr Time kCounts = kEnd + HostWatch::kAskAgain;
constexpr Time kSure = kCounts + 2 * HostWatch::kAskAgain;

/// The two questions that one whose connection has hung up has to be asked.
void ask_twice(HostWatch& watch, const HostWatch::HeardOf& heard) {
  for (const Time now : {kCounts, kCounts + HostWatch::kAskAgain}) {
    watch.to_ask({0, 1, 2}, now, heard);
  }
}

// Hazard: of a PE alone on its host only the network told, of which Linux lets one answer a second
// through; what NICs send again took those.
TEST(HostWatch, LosesWhoHangsUpAndAnswersNoMore) {
  HostWatch watch(on("abc"), 0, kLimit);
  Heard last{true, false, Time(0)};
  const auto heard = [&](int pe) { return pe == 2 ? last : Heard{true, false, Time(1)}; };
  watch.hung_up(2, kEnd);
  EXPECT_EQ(watch.to_ask({0, 1, 2}, kEnd, heard), (Pes{1, 2})) << "PE 2 is not its to ask";
  ask_twice(watch, heard);
  EXPECT_EQ(watch.losses({0, 1, 2}, kSure - Time(1), heard), Losses{});
  last.at = kCounts - Time(1);  // sent before
  EXPECT_EQ(watch.losses({0, 1, 2}, kSure, heard), (Losses{{2, false}}));
  EXPECT_EQ(watch.to_ask({0, 1}, 2 * kSure, heard), (Pes{1}));
}

// Hazard: who hung up was taken for lost by the clock: after one question, or none.
TEST(HostWatch, AsksTwiceBeforeItLosesWhoHangsUp) {
  constexpr Time kLook = HostWatch::kAskAgain * 2 / 5;
  const auto heard = [](int) { return Heard{true, false, Time(0)}; };
  for (int phase = 0; phase < 3; ++phase) {
    HostWatch watch(on("abc"), 0, kLimit);
    std::vector<Time> questions;
    Losses lost;
    Time now = Time(0);
    for (int look = 0; look < 100 && lost.empty(); ++look, now += kLook) {
      if (look == phase) watch.hung_up(2, now);
      const Pes asked = watch.to_ask({0, 1, 2}, now, heard);
      const bool counts = now >= phase * kLook + HostWatch::kAskAgain;
      if (counts && std::ranges::count(asked, 2) == 1) questions.push_back(now);
      lost = watch.losses({0, 1, 2}, now, heard);
    }
    EXPECT_EQ(lost, (Losses{{2, false}})) << phase;
    ASSERT_GE(questions.size(), 2u) << phase;
    EXPECT_LE(questions[1], now - kLook - HostWatch::kAskAgain) << "there is time to answer both";
  }
}

TEST(HostWatch, LosesNobodyThatHangsUpAndIsNotAsked) {
  HostWatch watch(on("abc"), 0, kLimit);
  const auto heard = [](int pe) { return Heard{true, false, pe == 2 ? Time(0) : 10 * kSure}; };
  watch.hung_up(2, kEnd);
  EXPECT_EQ(watch.losses({0, 1, 2}, 10 * kSure, heard), Losses{}) << "this PE stood still";
}

TEST(HostWatch, KeepsWhoHangsUpAndAnswers) {
  HostWatch watch(on("abc"), 0, kLimit);
  const auto heard = [&](int) { return Heard{true, false, kCounts}; };
  watch.hung_up(2, kEnd);
  ask_twice(watch, heard);
  EXPECT_EQ(watch.losses({0, 1, 2}, kSure, heard), Losses{});
  EXPECT_EQ(watch.to_ask({0, 1, 2}, 2 * kSure, heard), (Pes{1})) << "it was told once";
}

TEST(HostWatch, LosesNobodyThatHangsUpUnheard) {
  HostWatch watch(on("abc"), 0, kLimit);
  const auto never = [](int) { return Heard(); };
  watch.hung_up(2, kEnd);
  ask_twice(watch, never);
  EXPECT_EQ(watch.losses({0, 1, 2}, kSure, never), Losses{});
}

// Who does not speak for its host may be the only one that has a connection.
TEST(HostWatch, HasAnyPeAskWhoHangsUp) {
  HostWatch watch(on("aab"), 1, kLimit);
  const auto long_ago = [](int) { return Heard{true, false, Time(0)}; };
  watch.hung_up(2, kEnd);
  EXPECT_EQ(watch.to_ask({0, 1, 2}, kEnd, long_ago), (Pes{2}));
  ask_twice(watch, long_ago);
  EXPECT_EQ(watch.losses({0, 1, 2}, kSure, long_ago), (Losses{{2, false}}));
}

TEST(HostWatch, LosesNobodyForSilenceWithoutALimit) {
  EXPECT_EQ(losses("ab", {{1, {true, false, kLongAgo}}}, Time(0)), Losses{});
}

}  // namespace
}  // namespace peal
