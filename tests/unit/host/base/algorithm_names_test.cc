// SPDX-License-Identifier: Apache-2.0
//
// The table of algorithms: every call has one on each way, names are told apart, and the page shows
// what the code has.
#include "host/base/algorithm_names.h"

#include <gtest/gtest.h>

#include <fstream>
#include <iterator>
#include <set>
#include <string>

#include "device/shared/call_names.h"

namespace peal {
namespace {

using collective::Algorithm;
using collective::ForcedAlgorithm;
using collective::kAlgorithmRows;
using collective::kAlgorithms;

constexpr Call kCalls[] = {Call::kBroadcast,     Call::kAllGather, Call::kAllToAll,
                           Call::kAllToAllV,     Call::kAllReduce, Call::kReduce,
                           Call::kReduceScatter, Call::kScan,      Call::kExclusiveScan};

TEST(Algorithms, AreThereForEveryCallOnEachWay) {
  for (const Call call : kCalls) {
    EXPECT_LT(collective::next_row<collective::kMapped>(call, 0), kAlgorithmRows)
        << to_string(call);
    EXPECT_LT(collective::next_row<collective::kByNic>(call, 0), kAlgorithmRows) << to_string(call);
  }
  EXPECT_EQ(collective::row_of(Call::kSync, Algorithm::kExchange), kAlgorithmRows);
  EXPECT_EQ(collective::bit_of(Call::kPut), 0u);
}

TEST(Algorithms, GoOneWayEach) {
  for (const auto& row : kAlgorithms) {
    const uint32_t ways = row.needs & (collective::kMapped | collective::kByNic);
    EXPECT_TRUE(ways == collective::kMapped || ways == collective::kByNic)
        << to_string(row.algorithm);
    EXPECT_EQ(row.needs & row.best, 0u);
  }
}

// A pair that two rows had would be one that nobody can force.
TEST(Algorithms, OfACallHaveDifferentNames) {
  std::set<std::string> names;
  for (const auto& row : kAlgorithms) {
    for (const Call call : kCalls) {
      if ((row.calls & collective::bit_of(call)) == 0) continue;
      const ForcedAlgorithm forced{call, row.algorithm};
      EXPECT_TRUE(names.insert(to_string(forced)).second) << to_string(forced);
      EXPECT_EQ(forced_algorithm(to_string(forced)), forced);
      EXPECT_EQ(ForcedAlgorithm::of(forced.word() | 1), forced) << "beside Team's lowest bit";
    }
  }
  EXPECT_EQ(names.size(), 38u);
}

TEST(Algorithms, OfOtherCallsAreNone) {
  for (const char* text : {"", "all_reduce", "all_reduce:", ":stage", "all_reduce:relay",
                           "sync:exchange", "put:put", "all_reduce:stage ", "ALL_REDUCE:stage"}) {
    EXPECT_EQ(forced_algorithm(text), ForcedAlgorithm{}) << text;
  }
}

TEST(Algorithms, LieInThePageAsInTheCode) {
  std::ifstream file("docs/collectives.md");
  const std::string page{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  ASSERT_FALSE(page.empty());
  EXPECT_NE(page.find("\n\n" + table_of_algorithms() + "\n"), std::string::npos)
      << "docs/collectives.md should have\n"
      << table_of_algorithms();
}

}  // namespace
}  // namespace peal
