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
  enum class Scope : uint32_t { kThread, kWarp, kBlock, kGrid, kLaunched } scope = Scope::kThread;
  uint32_t channels = 1;
  uint32_t workspace = 0;
  uint32_t grid_workspace = 0;
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
  const Team team =
      team_of_all(job, pe, callers.channels, callers.workspace, callers.grid_workspace);
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
      case Callers::Scope::kLaunched:
        return run(launched_grid);
    }
  });
}

/// Short broadcasts in a row, whose roots wait for nobody: more than a ring has lines.
Steps broadcasts(simt::Random& random, int n) {
  Steps steps;
  for (uint32_t i = 0; i < 12; ++i) {
    const int root = static_cast<int>(random.below(static_cast<uint32_t>(n)));
    steps.push_back({Kind::kBroadcast, 1 + random.below(2), root, random.one_in(2)});
  }
  return steps;
}

/// Calls of all kinds, some short, some of up to `longest` words, some in place.
Steps any_steps(simt::Random& random, int n, uint32_t longest) {
  if (random.one_in(4)) return broadcasts(random, n);
  Steps steps;
  for (uint32_t i = 0; i < 6; ++i) {
    Step step{static_cast<Kind>(random.below(7))};
    step.count = 1 + (random.one_in(2) ? random.below(2) : random.below(longest));
    step.root = static_cast<int>(random.below(static_cast<uint32_t>(n)));
    step.in_place = random.one_in(2);
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

/// PEs dealt over two nodes in turn.
JobOptions two_nodes(simt::Random& random) {
  JobOptions options = any_team(random);
  options.n_pes = 10;
  options.settle = true;
  options.map = [](int pe, int peer) { return pe % 2 == peer % 2; };
  options.depth = 8;
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
  const uint32_t each = sim.random().one_in(3) ? 16 : 32;  // of 16 bytes nothing is short
  callers.workspace = each * static_cast<uint32_t>(options.n_pes);
  Steps steps = any_steps(sim.random(), options.n_pes, 16);
  steps.resize(3);
  play_all(sim, options, callers, steps);
}

/// Two nodes: what PE k + 1 put to PE k came by the NIC, and that it has arrived PE k hears of
/// PE k + 2, by a store. One PE is late: else words of others push what its NIC has brought.
void team_mixed(simt::Simulation& sim) {
  const JobOptions options = two_nodes(sim.random());
  Callers callers;
  callers.workspace = 32 * 10;
  const Step step{Kind::kGather, 5};
  Job job(sim, options);
  const int late = static_cast<int>(sim.random().below(10));
  for (int pe = 0; pe < options.n_pes; ++pe) {
    launch(job, pe, callers, [&job, pe, late, step](auto& player) {
      // Busy: the clock runs ahead of those who only wait.
      for (uint64_t turn = 1; pe == late && turn <= 150; ++turn) {
        write(job.at<uint64_t>(pe, kMail), turn);
        simt::yield();
      }
      player.play({step});
    });
  }
  run_clean(sim, job);
}

/// The two nodes again, and short calls: in the second round members pass on what others brought.
void team_carried(simt::Simulation& sim) {
  const JobOptions options = two_nodes(sim.random());
  Callers callers;
  if (sim.random().one_in(2)) callers = {1, 2, Callers::Scope::kBlock, 1, 0};
  callers.workspace = 2 * 16 * 10;
  Steps steps;
  for (const Kind kind : {Kind::kGather, Kind::kBroadcast, Kind::kReduce}) {
    steps.push_back({kind, 1 + sim.random().below(2), static_cast<int>(sim.random().below(10)),
                     sim.random().one_in(2)});
  }
  play_all(sim, options, callers, steps);
}

/// Blocks that own their queues make the calls in turn: words of a meeting come on the queue of
/// whichever block it is. Then all of them meet in barriers of the grid, each with puts of its own.
void team_of_owners(simt::Simulation& sim) {
  JobOptions options = any_team(sim.random());
  options.n_pes = 3;
  constexpr uint32_t kBlocks = 3;
  options.queues_per_peer = kBlocks;
  options.owned = true;
  Steps steps = any_steps(sim.random(), options.n_pes, 4);
  steps.resize(4);
  Job job(sim, options);
  const uint32_t lanes = 1 + sim.random().below(2);
  for (int pe = 0; pe < options.n_pes; ++pe) {
    const Team team = team_of_all(job, pe, 1, 32 * 3);
    job.launch(pe, {kBlocks, lanes}, [&job, pe, team, steps] {
      Player<Block, Reach::kBlock> player(job, pe, team, block);
      uint64_t* const turn = job.at<uint64_t>(pe, kMail) + 8 * steps.size();
      for (uint32_t i = 0; i < steps.size(); ++i) {
        if (block_in_grid() == i % kBlocks) {
          player.play(steps[i], i);
          block.sync();
          if (block.leader()) store_release<Reach::kGpu>(turn, uint64_t{i} + 1);
          continue;
        }
        const Status come = by_leader(block, [&] {
          return detail::spin(job.fields(pe), [&] { return load_acquire<Reach::kGpu>(turn) > i; });
        });
        must(come, "another block");
      }
      Player<WholeGrid, Reach::kBlock> grid(job, pe, team, whole_grid);
      grid.play({Kind::kBarrier}, 8);
      grid.play({Kind::kBarrier}, 9);
    });
  }
  run_clean(sim, job);
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

/// Launches that make one call each, one after the other. Their blocks share what is short and wait
/// for nobody of their own.
void team_of_launches(simt::Simulation& sim) {
  JobOptions options = any_team(sim.random());
  options.direct = true;
  Callers callers{2 + sim.random().below(2), 1 + sim.random().below(2), Callers::Scope::kLaunched,
                  2};
  callers.grid_workspace = workspace_for(4, options.n_pes);
  Steps steps = any_steps(sim.random(), options.n_pes, 9);
  std::erase_if(steps, [](const Step& s) { return s.kind >= Kind::kSync; });  // made by one block
  play_all(sim, options, callers, steps);
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
