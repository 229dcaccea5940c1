// SPDX-License-Identifier: Apache-2.0
//
// Data and the word that vouches for it, with a reader that polls; atomics from all PEs to one.
#include "tests/sim/kernels.h"

namespace peal::sim {
namespace {

constexpr size_t kCounters = 2560;
constexpr uint32_t kSlotWords = 16;

/// PE 0 sends, PE 1 checks and answers, each lane for itself.
void ping_pong(Job& job, int pe, uint32_t rounds, uint32_t words, bool adds) {
  const Context ctx = job.context<Reach::kGpu>(pe);
  const uint32_t lane = thread_in_block();
  auto* const source = job.at<uint64_t>(pe, kSource, lane * kSlotWords);
  auto* const target = job.at<uint64_t>(pe, kTarget, lane * kSlotWords);
  auto* const flag = job.at<uint64_t>(pe, kFlags, lane);
  auto* const answer = job.at<uint64_t>(pe, kAnswers, lane);
  for (uint32_t round = 1; round <= rounds; ++round) {
    if (pe == 0) {
      write_words(source, words, 0, lane, round);
      const Signal signal = adds ? Signal::add(flag, 1, 1) : Signal::set(flag, round, 1);
      must(put_signal(ctx, target, source, words, signal), "put_signal");
      must(wait_until(ctx, answer, Compare::kGe, round), "wait_until of the sender");
    } else {
      must(wait_until(ctx, flag, Compare::kGe, round), "wait_until of the receiver");
      check_words(target, words, 0, lane, round);
      must(signal(ctx, Signal::set(answer, round, 0)), "signal");
    }
  }
}

/// The lanes of a scope fill the source together and look at the target together.
template <class Scope>
void scope_ping_pong(Job& job, int pe, uint32_t rounds, Scope scope) {
  const Context ctx = job.context<Reach::kGpu>(pe);
  auto* const source = job.at<uint64_t>(pe, kSource);
  auto* const target = job.at<uint64_t>(pe, kTarget);
  auto* const flag = job.at<uint64_t>(pe, kFlags);
  auto* const answer = job.at<uint64_t>(pe, kAnswers);
  for (uint32_t round = 1; round <= rounds; ++round) {
    if (pe == 0) {
      write_words(source + 2 * scope.rank(), 2, 0, scope.rank(), round);
      must(put_signal(ctx, scope, target, source, 2 * scope.size(), Signal::set(flag, round, 1)),
           "put_signal");
      must(wait_until(ctx, scope, answer, Compare::kGe, round), "wait_until of the sender");
    } else {
      must(wait_until(ctx, scope, flag, Compare::kGe, round), "wait_until of the receiver");
      check_words(target + 2 * scope.rank(), 2, 0, scope.rank(), round);
      scope.sync();
      if (scope.leader()) must(signal(ctx, Signal::set(answer, round, 0)), "signal");
    }
  }
}

}  // namespace

void put_signal_thread(simt::Simulation& sim) {
  JobOptions options = any_options(sim.random());
  Job job(sim, options);
  const uint32_t lanes = 1 + sim.random().below(3);
  const uint32_t words = sim.random().one_in(3) ? 3 : 4 + sim.random().below(10);
  const bool adds = sim.random().one_in(2);
  for (int pe = 0; pe < 2; ++pe) {
    job.launch(pe, {1, lanes}, [&job, pe, words, adds] { ping_pong(job, pe, 2, words, adds); });
  }
  run_clean(sim, job);
}

void put_signal_scope(simt::Simulation& sim) {
  JobOptions options = any_options(sim.random());
  Job job(sim, options);
  const bool whole_block = sim.random().one_in(2);
  const uint32_t lanes = 2 + sim.random().below(5);
  for (int pe = 0; pe < 2; ++pe) {
    job.launch(pe, {1, lanes}, [&job, pe, whole_block] {
      if (whole_block) {
        scope_ping_pong(job, pe, 2, block);
      } else {
        scope_ping_pong(job, pe, 2, warp);
      }
    });
  }
  run_clean(sim, job);
}

/// The same where the peer's memory is mapped: no NIC orders anything.
void put_signal_direct(simt::Simulation& sim) {
  JobOptions options = any_options(sim.random());
  options.direct = true;
  Job job(sim, options);
  const uint32_t lanes = 1 + sim.random().below(4);
  const uint32_t words = 1 + sim.random().below(12);
  const uint32_t kind = sim.random().below(3);
  for (int pe = 0; pe < 2; ++pe) {
    job.launch(pe, {1, lanes}, [&job, pe, words, kind] {
      if (kind == 2) {
        scope_ping_pong(job, pe, 3, warp);
      } else {
        ping_pong(job, pe, 3, words, kind == 1);
      }
    });
  }
  run_clean(sim, job);
}

/// PE 0 puts to PE 2 by the NIC and tells PE 1 by the NIC, which tells PE 2 by a store.
void relay_mixed(simt::Simulation& sim) {
  constexpr uint32_t kRounds = 2;
  JobOptions options = any_options(sim.random());
  options.n_pes = 3;
  options.settle = true;
  options.map = [](int pe, int peer) { return (pe == 0) == (peer == 0); };
  Job job(sim, options);
  const uint32_t words = 1 + sim.random().below(12);
  const bool one_pe = sim.random().one_in(2);
  for (int pe = 0; pe < 3; ++pe) {
    job.launch(pe, {1, 1}, [&job, pe, words, one_pe] {
      const Context ctx = job.context<Reach::kGpu>(pe);
      auto* const source = job.at<uint64_t>(pe, kSource);
      auto* const target = job.at<uint64_t>(pe, kTarget);
      auto* const flag = job.at<uint64_t>(pe, kFlags);
      for (uint32_t round = 1; round <= kRounds; ++round) {
        if (pe == 0) {
          write_words(source, words, 0, 0, round);
          must(put(ctx, target, source, words, 2), "put");
          must(one_pe ? quiet(ctx, 2) : quiet(ctx), "quiet");
        } else {
          must(wait_until(ctx, flag, Compare::kGe, round), "wait_until");
        }
        if (pe == 2) check_words(target, words, 0, 0, round);
        must(signal(ctx, Signal::set(flag, round, (pe + 1) % 3)), "signal");
        if (pe == 0) must(wait_until(ctx, flag, Compare::kGe, round), "wait_until of PE 0");
      }
    });
  }
  run_clean(sim, job);
}

/// One peer by two ways: data into the heap by the NIC, the signal into a window that is mapped.
void put_signal_two_ways(simt::Simulation& sim) {
  constexpr uint32_t kRounds = 3;
  JobOptions options = any_options(sim.random());
  options.settle = true;
  Job job(sim, options);
  const uint32_t lanes = 1 + sim.random().below(3);
  const uint32_t words = 1 + sim.random().below(12);
  std::byte* window[2];
  for (int pe = 0; pe < 2; ++pe) {
    window[pe] = static_cast<std::byte*>(sim.memory().allocate(64, "window 1"));
  }
  for (int pe = 0; pe < 2; ++pe) {
    job.windows(pe).window[1] = {window[pe], 64, {}, nullptr, nullptr, window};
    job.windows(pe).count = 2;
    job.launch(pe, {1, lanes}, [&job, &window, pe, words] {
      const Context ctx = job.context<Reach::kGpu>(pe);
      const uint32_t lane = thread_in_block();
      auto* const source = job.at<uint64_t>(pe, kSource, lane * kSlotWords);
      auto* const target = job.at<uint64_t>(pe, kTarget, lane * kSlotWords);
      auto* const flag = reinterpret_cast<uint64_t*>(window[pe]) + lane;
      for (uint32_t round = 1; round <= kRounds; ++round) {
        if (pe == 0) {
          write_words(source, words, 0, lane, round);
          must(put_signal(ctx, target, source, words, Signal::set(flag, round, 1)), "put_signal");
          must(wait_until(ctx, flag, Compare::kGe, round), "wait_until of the sender");
        } else {
          must(wait_until(ctx, flag, Compare::kGe, round), "wait_until of the receiver");
          check_words(target, words, 0, lane, round);
          must(signal(ctx, Signal::set(flag, round, 0)), "signal");
        }
      }
    });
  }
  run_clean(sim, job);
}

/// Every lane of every PE counts on PE 0: nothing is lost, no old value is seen twice.
void atomics_to_one(simt::Simulation& sim) {
  constexpr uint32_t kRounds = 2;
  JobOptions options = any_options(sim.random());
  options.n_pes = 3;
  Job job(sim, options);
  const uint32_t lanes = 1 + sim.random().below(4);
  const uint32_t total = 3 * lanes * kRounds;
  std::vector<uint32_t> seen(total, 0);
  for (int pe = 0; pe < 3; ++pe) {
    job.launch(pe, {1, lanes}, [&job, &seen, pe] {
      const Context ctx = job.context<Reach::kGpu>(pe);
      auto* const counters = job.at<uint64_t>(pe, kCounters);
      for (uint32_t round = 0; round < kRounds; ++round) {
        must(atomic_add(ctx, counters, 1, 0), "atomic_add");
        const Fetched<uint64_t> old = atomic_fetch_add(ctx, counters + 1, 1, 0);
        must(old.status, "atomic_fetch_add");
        expect(old.value < seen.size(), "atomic_fetch_add answered what never was there");
        ++seen[old.value];
      }
      must(barrier_all(ctx, block), "barrier_all");
      if (pe == 0 && thread_in_block() == 0) {
        expect_equal<uint64_t>(read(counters), seen.size(), "the counter of atomic_add");
      }
    });
  }
  run_clean(sim, job);
  for (uint32_t i = 0; i < total; ++i) {
    expect_equal(seen[i], 1u, "how often atomic_fetch_add answered " + std::to_string(i));
  }
}

}  // namespace peal::sim
