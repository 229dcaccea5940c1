// SPDX-License-Identifier: Apache-2.0
//
// Jobs of as many PEs as run on clusters: meetings of several rounds, reductions whose elements
// have few owners and many readers. All memory is mapped.
#include <gtest/gtest.h>

#include "tests/sim/team_steps.h"

namespace peal::sim {
namespace {

void run_job(uint64_t seed, int n, const Steps& steps) {
  SCOPED_TRACE("seed " + std::to_string(seed));
  const auto members = static_cast<uint32_t>(n);
  const uint32_t workspace = 32 * members;  // messages of a word are short
  const auto team_bytes = static_cast<uint32_t>(collective::part_bytes(members, 1, workspace));
  JobOptions options;
  options.n_pes = n;
  options.direct = true;
  options.heap_bytes = kTeamHeap + team_bytes;
  // The clock runs ahead while few of many work and only load: the slices are the deadline.
  options.timeout_ns = 0;
  simt::Simulation sim(
      seed, {.memory_bytes = members * (size_t{options.heap_bytes} + 8192), .slices = 20'000'000});
  Job job(sim, options);
  for (int pe = 0; pe < n; ++pe) {
    Team team = team_of_all(job, pe, 1, workspace);
    team.memory += kTeamHeap - 1024;  // behind what the steps use, ahead of the barrier's flags
    job.launch(pe, {1, 1}, [&job, &steps, pe, team] { Player(job, pe, team, thread).play(steps); });
  }
  ASSERT_NO_THROW(run_clean(sim, job));
}

// Long: 24 words have 12 owners.
TEST(ManyPes, SixtyFourMeetAndReduce) {
  const Steps steps = {{Kind::kBarrier}, {Kind::kReduce, 1}, {Kind::kReduce, 24},
                       {Kind::kSync},    {Kind::kReduce, 1}, {Kind::kReduce, 24, 0, true}};
  for (uint64_t seed = 1; seed <= 8; ++seed) run_job(seed, 64, steps);
}

TEST(ManyPes, AThousandMeetAndReduceInLines) {
  const Steps steps = {{Kind::kBarrier}, {Kind::kReduce, 24}, {Kind::kSync}};
  run_job(1, 1024, steps);
}

/// Each of a thousand sends each a line.
TEST(ManyPes, AThousandReduceAWord) { run_job(1, 1024, {{Kind::kReduce, 1}}); }

}  // namespace
}  // namespace peal::sim
