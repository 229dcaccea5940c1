// SPDX-License-Identifier: Apache-2.0
//
// What several PEs have to say is said once, by the first of them.
#include "host/transport/warn_once.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <array>
#include <functional>
#include <set>
#include <string>
#include <vector>

#include "bootstrap/bootstraps.h"

namespace peal {
namespace {

struct Saying {
  std::string text;
  std::vector<std::string> names = {};
};

/// The lines that `pes` PEs print of what they have to say.
std::multiset<std::string> lines_of(int pes, const std::function<Saying(int)>& saying) {
  std::array<int, 2> ends{};
  EXPECT_EQ(::pipe(ends.data()), 0);
  bootstrap::run_threads(pes, [&](Bootstrap& group) {
    const Saying mine = saying(group.rank());
    warn_once(group, Log(LogLevel::kWarn, group.rank(), ends[1]), mine.text, mine.names);
  });
  ::close(ends[1]);
  std::string text;
  char part[4096];
  for (ssize_t n = 0; (n = ::read(ends[0], part, sizeof part)) > 0;) {
    text.append(part, static_cast<size_t>(n));
  }
  ::close(ends[0]);
  std::multiset<std::string> lines;
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = text.find('\n', begin);
    lines.insert(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return lines;
}

using Lines = std::multiset<std::string>;

TEST(WarnOnce, IsSilentWhereThereIsNothingToSay) {
  EXPECT_EQ(lines_of(3, [](int) { return Saying{""}; }), Lines{});
}

TEST(WarnOnce, SpeaksForAll) {
  EXPECT_EQ(lines_of(1, [](int) { return Saying{"slow"}; }), Lines{"peal[0] nic: slow"});
  EXPECT_EQ(lines_of(4, [](int) { return Saying{"slow"}; }),
            Lines{"peal[0] nic: slow; likewise PEs 1-3"});
}

TEST(WarnOnce, SpeaksForThoseThatHaveTheSameToSay) {
  EXPECT_EQ(
      lines_of(6,
               [](int pe) { return pe == 1 ? Saying{""} : Saying{pe % 2 == 0 ? "slow" : "down"}; }),
      (Lines{"peal[0] nic: slow; likewise PEs 2, 4", "peal[3] nic: down; likewise PE 5"}));
}

TEST(WarnOnce, SpeaksOfOtherNicsInTheSameWords) {
  const auto by_name = [](int pe) {
    const std::string name = "mlx5_" + std::to_string(pe);
    return Saying{name + " is down, and so are " + name + "0 and " + name, {name, name + "0"}};
  };
  EXPECT_EQ(lines_of(3, by_name),
            Lines{"peal[0] nic: mlx5_0 is down, and so are mlx5_00 and mlx5_0; likewise PEs 1-2"});
}

// Each process has its memory elsewhere; a syndrome is the same where the cause is.
TEST(WarnOnce, SpeaksOfOtherAddressesInTheSameWords) {
  const auto at = [](int pe) {
    return Saying{"4096 bytes at 0x7f000000100" + std::to_string(pe) + ": refused"};
  };
  EXPECT_EQ(lines_of(3, at),
            Lines{"peal[0] nic: 4096 bytes at 0x7f0000001000: refused; likewise PEs 1-2"});
  const auto with = [](int pe) { return Saying{"syndrome 0x5ea1000" + std::to_string(pe)}; };
  EXPECT_EQ(lines_of(2, with).size(), 2u);
}

TEST(WarnOnce, CountsInRanges) {
  EXPECT_EQ(ranges({}), "");
  EXPECT_EQ(ranges({7}), "7");
  EXPECT_EQ(ranges({0, 1}), "0-1");
  EXPECT_EQ(ranges({0, 2, 3, 4, 9}), "0, 2-4, 9");
}

}  // namespace
}  // namespace peal
