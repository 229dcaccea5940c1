// SPDX-License-Identifier: Apache-2.0
//
// A seed is a run: the same again, wherever its memory lies. Another seed is another run.
#include <gtest/gtest.h>

#include <cstddef>
#include <memory>
#include <set>
#include <vector>

#include "tests/sim/run.h"

namespace peal::sim {
namespace {

TEST(Replay, SameSeedIsTheSameRunBitForBit) {
  std::vector<std::unique_ptr<std::byte[]>> in_the_way;  // the next run's memory lies elsewhere
  for (const Workload& workload : workloads()) {
    for (uint64_t seed = 1; seed <= 10; ++seed) {
      const Result first = run_once(workload, seed);
      in_the_way.push_back(std::make_unique<std::byte[]>(100'000 + seed * 4096));
      const Result again = run_once(workload, seed);
      EXPECT_EQ(first.digest, again.digest) << workload.name << ", seed " << seed;
      EXPECT_EQ(first.slices, again.slices) << workload.name << ", seed " << seed;
    }
  }
}

TEST(Replay, AFailureReplaysToTheWord) {
  const Workload& workload = *find_workload("many_lanes");
  const unsigned weaken = edge_by_name("M2");
  for (uint64_t seed = 1; seed <= 5; ++seed) {
    EXPECT_EQ(run_once(workload, seed, weaken).failure, run_once(workload, seed, weaken).failure);
  }
}

TEST(Replay, OtherSeedsAreOtherRuns) {
  for (const Workload& workload : workloads()) {
    std::set<uint64_t> digests;
    for (uint64_t seed = 1; seed <= 20; ++seed) digests.insert(run_once(workload, seed).digest);
    EXPECT_EQ(digests.size(), 20u) << workload.name;
  }
}

}  // namespace
}  // namespace peal::sim
