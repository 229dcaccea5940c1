// SPDX-License-Identifier: Apache-2.0
//
// Collective calls of a team of all PEs: by loads and stores and by NICs, short and long, by every
// scope; calls that members do not agree on, and members that never call.
#include "tests/sim/team_steps.h"

namespace peal::sim {
namespace {

/// Who calls, at all PEs alike.
struct Callers {
  uint32_t blocks = 1;
  uint32_t lanes = 1;
  enum class Scope : uint32_t { kThread, kWarp, kBlock, kGrid } scope = Scope::kThread;
  uint32_t channels = 1;
  uint32_t workspace = 0;
};

Callers any_callers(simt::Random& random) {
  Callers callers;
  callers.scope = static_cast<Callers::Scope>(random.below(4));
  if (callers.scope != Callers::Scope::kThread) callers.lanes = 2 + random.below(2);
  if (callers.scope == Callers::Scope::kGrid) {
    callers.blocks = 2 + random.below(2);  // a third one has no channel
    callers.lanes = 1 + random.below(2);
    callers.channels = 2;
  }
  return callers;
}

/// Launches body(player) at a PE by its callers.
template <class Body>
void launch(Job& job, int pe, const Callers& callers, const Body& body) {
  const Team team = team_of_all(job, pe, callers.channels, callers.workspace);
  const auto run = [&job, pe, team, body](auto scope) {
    Player player(job, pe, team, scope);
    body(player);
  };
  job.launch(pe, {callers.blocks, callers.lanes}, [run, scope = callers.scope] {
    switch (scope) {
      case Callers::Scope::kThread:
        return run(thread);
      case Callers::Scope::kWarp:
        return run(warp);
      case Callers::Scope::kBlock:
        return run(block);
      case Callers::Scope::kGrid:
        return run(whole_grid);
    }
  });
}

/// Calls of all kinds, some short, some of up to `longest` words, some in place; broadcasts from
/// different roots follow one another.
Steps any_steps(simt::Random& random, int n, uint32_t longest) {
  Steps steps;
  for (uint32_t i = 0; i < 5; ++i) {
    Step step{static_cast<Kind>(random.below(7))};
    step.count = 1 + (random.one_in(2) ? random.below(2) : random.below(longest));
    step.root = static_cast<int>(random.below(static_cast<uint32_t>(n)));
    step.in_place = random.one_in(2);
    steps.push_back(step);
    if (step.kind != Kind::kBroadcast || !random.one_in(2)) continue;
    step.root = (step.root + 1) % n;
    steps.push_back(step);
  }
  return steps;
}

void play_all(simt::Simulation& sim, const JobOptions& options, const Callers& callers,
              const Steps& steps) {
  Job job(sim, options);
  for (int pe = 0; pe < options.n_pes; ++pe) {
    launch(job, pe, callers, [steps](auto& player) { player.play(steps); });
  }
  run_clean(sim, job);
}

/// Messages of up to `words` words are short where members are mapped.
uint32_t workspace_for(uint32_t words, int n) { return words * 16 * 2 * static_cast<uint32_t>(n); }

JobOptions any_team(simt::Random& random) {
  JobOptions options = any_options(random);
  options.heap_bytes = kTeamHeap;
  options.n_pes = 3 + static_cast<int>(random.below(2));
  return options;
}

}  // namespace

void team_mapped(simt::Simulation& sim) {
  JobOptions options = any_team(sim.random());
  options.direct = true;
  Callers callers = any_callers(sim.random());
  callers.workspace = workspace_for(2, options.n_pes);
  play_all(sim, options, callers, any_steps(sim.random(), options.n_pes, 12));
}

/// Ten PEs meet in two rounds: some hear of others through third ones only.
void team_of_ten(simt::Simulation& sim) {
  JobOptions options = any_team(sim.random());
  options.n_pes = 10;
  options.direct = true;
  Callers callers;
  callers.workspace = workspace_for(1, options.n_pes);
  Steps steps = any_steps(sim.random(), options.n_pes, 3);
  steps.resize(2);
  play_all(sim, options, callers, steps);
}

/// By NICs alone, or by NICs between two nodes. Reductions and swaps go in pieces.
void team_by_nic(simt::Simulation& sim) {
  JobOptions options = any_team(sim.random());
  if (sim.random().one_in(3)) {
    options.map = [](int pe, int peer) { return pe % 2 == peer % 2; };
    options.settle = true;
  }
  options.queues_per_peer = 1 + sim.random().below(2);
  Callers callers = any_callers(sim.random());
  callers.workspace = 32 * static_cast<uint32_t>(options.n_pes);
  Steps steps = any_steps(sim.random(), options.n_pes, 12);
  steps.resize(3);
  play_all(sim, options, callers, steps);
}

/// Blocks of a grid meet other PEs by one of them, and what that one learned all blocks know.
void team_of_grids(simt::Simulation& sim) {
  JobOptions options = any_team(sim.random());
  options.n_pes = 2;
  options.direct = true;
  Callers callers{3, 1 + sim.random().below(2), Callers::Scope::kGrid, 2,
                  workspace_for(2, options.n_pes)};
  play_all(sim, options, callers, any_steps(sim.random(), options.n_pes, 9));
}

/// One member calls with another count: all hear of it and nothing moves. The next call works. Then
/// one does not call at all.
void team_disagrees(simt::Simulation& sim) {
  JobOptions options = any_team(sim.random());
  options.direct = sim.random().one_in(2);
  Callers callers = any_callers(sim.random());
  callers.workspace = workspace_for(2, options.n_pes);
  const int odd = static_cast<int>(sim.random().below(static_cast<uint32_t>(options.n_pes)));
  const int absent = static_cast<int>(sim.random().below(static_cast<uint32_t>(options.n_pes)));
  const Step last{Kind::kReduce, 1 + sim.random().below(12)};
  Job job(sim, options);
  for (int pe = 0; pe < options.n_pes; ++pe) {
    launch(job, pe, callers, [pe, odd, absent, last](auto& player) {
      constexpr Step kAgreed{Kind::kReduce, 9};
      const Step mine{Kind::kReduce, pe == odd ? 10u : 9u};
      player.fill(mine, 0);
      expect_equal(to_string(player.call(mine, 0)), to_string(Status::kMismatch), "other counts");
      for (uint32_t k = 0; k < mine.count; ++k) {
        expect_equal(read(player.taken() + k), uint64_t{0}, "a word that was not to be moved");
      }
      player.play({kAgreed});
      if (pe == absent) return;
      expect_equal(to_string(player.call(last, 0)), to_string(Status::kTimeout),
                   "without a member");
    });
  }
  run_clean(sim, job);
}

}  // namespace peal::sim
