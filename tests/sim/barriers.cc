// SPDX-License-Identifier: Apache-2.0
//
// quiet and barriers: what they vouch for is there, for lanes that learn of them in any way.
#include "tests/sim/kernels.h"

namespace peal::sim {
namespace {

constexpr uint32_t kSlotWords = 6;

/// Long enough for others to find a queue drained, now and then.
void pause(simt::Random& random) {
  for (uint32_t turn = random.below(4) * 20; turn != 0; --turn) simt::yield();
}

/// Each PE puts to those `distances` ahead of it, all meet, each checks; and again.
void storm(Job& job, int pe, uint32_t rounds, std::initializer_list<int> distances) {
  const Context ctx = job.context<Reach::kGpu>(pe);
  const int n = n_pes(ctx);
  auto* const source = job.at<uint64_t>(pe, kSource);
  auto* const target = job.at<uint64_t>(pe, kTarget);
  for (uint32_t round = 1; round <= rounds; ++round) {
    if (warp.leader()) {
      write_words(source, kSlotWords, pe, 0, round);
      for (const int distance : distances) {
        const int to = (pe + distance) % n;
        const Ticket ticket = put_nbi(ctx, target + static_cast<uint32_t>(distance) * kSlotWords,
                                      source, kSlotWords, to);
        must(ticket.status, "put_nbi");
      }
    }
    must(barrier_all(ctx, warp), "barrier_all");
    for (const int distance : distances) {
      const int from = (pe + n - distance % n) % n;
      check_words(target + static_cast<uint32_t>(distance) * kSlotWords, kSlotWords, from, 0,
                  round);
    }
    must(sync_all(ctx, warp), "sync_all");
  }
}

}  // namespace

void barrier_storm(simt::Simulation& sim) {
  JobOptions options = any_options(sim.random());
  options.n_pes = 3;
  Job job(sim, options);
  const uint32_t lanes = 1 + sim.random().below(3);
  for (int pe = 0; pe < 3; ++pe) {
    job.launch(pe, {1, lanes}, [&job, pe] { storm(job, pe, 2, {1, 2}); });
  }
  run_clean(sim, job);
}

namespace {

constexpr uint32_t kOwnLanes = 2;

/// Blocks that own their queues: each puts and drains for itself while the others do, one of them,
/// another each time, meets the other PEs for all. A block that touched the queue of another would
/// do so while that one posts.
template <Reach R>
void own_and_meet(Job& job, int pe) {
  const BasicContext<R> ctx = job.context<R>(pe);
  const uint32_t blocks = blocks_in_grid();
  const uint32_t lane = block_in_grid() * kOwnLanes + thread_in_block();
  const int next = (pe + 1) % n_pes(ctx);
  const int before = (pe + n_pes(ctx) - 1) % n_pes(ctx);
  auto* const source = job.at<uint64_t>(pe, kSource, lane * kSlotWords);
  auto* const target = job.at<uint64_t>(pe, kTarget, lane * kSlotWords);
  auto* const arrived = job.at<uint64_t>(pe, kFlags);  // by block: the step it has come to
  auto* const met = arrived + blocks;                  // the step all PEs have come to
  auto* const scratch = met + 1 + lane;
  const auto reached = [&](const uint64_t* word, uint64_t step) {
    must(detail::spin(ctx, [&] { return load_acquire<Reach::kGpu>(word) >= step; }), "a block");
  };
  for (uint64_t step = 1; step <= 4; ++step) {
    const auto round = static_cast<uint32_t>(step);
    if (step % 2 == 1) {  // all have read what the step before brought
      write_words(source, kSlotWords, pe, lane, round);
      must(put_nbi(ctx, target, source, kSlotWords, next).status, "put_nbi");
      must(quiet(ctx, block), "quiet");
    }
    block.sync();  // its lanes have read, too
    if (thread_in_block() == 0) store_release<Reach::kGpu>(&arrived[block_in_grid()], step);
    if (block_in_grid() == step % blocks) {
      for (uint32_t other = 0; other < blocks; ++other) reached(&arrived[other], step);
      must(step % 2 == 1 ? barrier_all(ctx, block) : sync_all(ctx, block), "barrier");
      if (thread_in_block() == 0) store_release<Reach::kGpu>(met, step);
    } else {
      must(p(ctx, scratch, tagged(pe, lane, round), next), "p");
      must(fence(ctx, block), "fence");
      must(p(ctx, scratch, tagged(pe, lane, round, 1), next), "p");
    }
    reached(met, step);
    if (step % 2 == 1) check_words(target, kSlotWords, before, lane, round);
  }
}

}  // namespace

void owner_blocks(simt::Simulation& sim) {
  JobOptions options = any_options(sim.random());
  const uint32_t blocks = 2 + sim.random().below(2);
  options.queues_per_peer = blocks;
  options.owned = true;
  options.depth = 8;
  options.settle = sim.random().one_in(2);
  Job job(sim, options);
  const bool lanes = sim.random().one_in(2);
  for (int pe = 0; pe < options.n_pes; ++pe) {
    if (lanes) {
      job.launch(pe, {blocks, 1}, [&job, pe] { own_and_meet<Reach::kLane>(job, pe); });
    } else {
      job.launch(pe, {blocks, kOwnLanes}, [&job, pe] { own_and_meet<Reach::kBlock>(job, pe); });
    }
  }
  run_clean(sim, job);
}

/// Ten PEs: two rounds of notices, so that some hear of others through third ones only.
void barrier_direct(simt::Simulation& sim) {
  JobOptions options = any_options(sim.random());
  options.n_pes = 10;
  options.direct = true;
  Job job(sim, options);
  for (int pe = 0; pe < options.n_pes; ++pe) {
    job.launch(pe, {1, 1}, [&job, pe] { storm(job, pe, 2, {1, 9}); });
  }
  run_clean(sim, job);
}

/// Two nodes, PEs dealt over them in turn, that meet in two rounds: what PE k put to PE k - 1 came
/// by the NIC, and that PE k has arrived PE k - 1 hears of PE k + 1, by a store. One PE is late:
/// else words of others push what its NIC has brought.
void barrier_mixed(simt::Simulation& sim) {
  JobOptions options = any_options(sim.random());
  options.n_pes = 10;
  options.settle = true;
  options.map = [](int pe, int peer) { return pe % 2 == peer % 2; };
  options.depth = 8;
  Job job(sim, options);
  const int late = static_cast<int>(sim.random().below(10));
  for (int pe = 0; pe < options.n_pes; ++pe) {
    job.launch(pe, {1, 1}, [&job, pe, late] {
      // Busy: the clock runs ahead of those who only wait.
      for (uint64_t turn = 1; pe == late && turn <= 150; ++turn) {
        write(job.at<uint64_t>(pe, kFlags), turn);
        simt::yield();
      }
      storm(job, pe, 1, {1, 9});
    });
  }
  run_clean(sim, job);
}

/// Lanes put to different PEs, each asks for quiet and then tells its readers past all queues: by a
/// store of its own.
void quiet_of_many(simt::Simulation& sim) {
  JobOptions options = any_options(sim.random());
  options.n_pes = 3;
  options.settle = sim.random().one_in(2);  // for the stores
  options.wire_faults.prompt = !options.settle;
  options.queues_per_peer = 1 + sim.random().below(2);
  Job job(sim, options);
  const uint32_t lanes = 2 + sim.random().below(4);
  const uint32_t rounds = 2;
  job.launch(0, {2, lanes}, [&job, &sim, lanes] {
    const Context ctx = job.context<Reach::kGpu>(0);
    const uint32_t lane = block_in_grid() * lanes + thread_in_block();
    const int to = 1 + static_cast<int>(lane % 2);
    auto* const source = job.at<uint64_t>(0, kSource, lane * kSlotWords);
    auto* const target = job.at<uint64_t>(0, kTarget, lane * kSlotWords);
    for (uint32_t round = 1; round <= 2; ++round) {
      write_words(source, kSlotWords, 0, lane, round);
      const Ticket ticket = put_nbi(ctx, target, source, kSlotWords, to);
      must(ticket.status, "put_nbi");
      pause(sim.random());
      must(quiet(ctx), "quiet");
      store_release<Reach::kSystem>(job.at<uint64_t>(to, kFlags, lane), uint64_t{round});
      // The reader has looked before the slot is written again.
      must(detail::spin(ctx,
                        [&] {
                          return load_acquire<Reach::kSystem>(job.at<uint64_t>(0, kFlags, lane)) ==
                                 round;
                        }),
           "the reader's answer");
    }
  });
  for (int pe = 1; pe < 3; ++pe) {
    job.launch(pe, {1, lanes}, [&job, pe, rounds] {
      const Context ctx = job.context<Reach::kGpu>(pe);
      const uint32_t lane = 2 * thread_in_block() + static_cast<uint32_t>(pe - 1);
      const auto* const target = job.at<uint64_t>(pe, kTarget, lane * kSlotWords);
      for (uint32_t round = 1; round <= rounds; ++round) {
        must(detail::spin(ctx,
                          [&] {
                            return load_acquire<Reach::kSystem>(
                                       job.at<uint64_t>(pe, kFlags, lane)) == round;
                          }),
             "the writer's word");
        check_words(target, kSlotWords, 0, lane, round);
        store_release<Reach::kSystem>(job.at<uint64_t>(0, kFlags, lane), uint64_t{round});
      }
    });
  }
  run_clean(sim, job);
}

namespace {

constexpr uint32_t kMarkRounds = 4;
constexpr size_t kTold = kFlags + 512;
constexpr size_t kBack = 512;

/// Posts without waiting, and leaves the waiting to the lane that it tells.
void post_and_tell(Job& job, uint32_t pair, int to, simt::Random& random) {
  const Context ctx = job.context<Reach::kGpu>(0);
  auto* const source = job.at<uint64_t>(0, kSource, pair * kSlotWords);
  auto* const target = job.at<uint64_t>(0, kTarget, pair * kSlotWords);
  auto* const back = job.at<uint64_t>(0, kBack, pair * kSlotWords);
  for (uint32_t round = 1; round <= kMarkRounds; ++round) {
    write_words(source, kSlotWords, 0, pair, round);
    must(put_nbi(ctx, target, source, kSlotWords, to).status, "put_nbi");
    must(get_nbi(ctx, back, target, kSlotWords, to).status, "get_nbi");
    store_release<Reach::kGpu>(job.at<uint64_t>(0, kFlags, pair), uint64_t{round});
    must(detail::spin(
             ctx,
             [&] { return load_acquire<Reach::kGpu>(job.at<uint64_t>(0, kTold, pair)) == round; }),
         "the one that drains");
    pause(random);
  }
}

/// What the other lane of the pair posted is here behind quiet, whoever drained it.
void drain_for(Job& job, uint32_t pair, simt::Random& random) {
  const Context ctx = job.context<Reach::kGpu>(0);
  const auto* const back = job.at<uint64_t>(0, kBack, pair * kSlotWords);
  for (uint32_t round = 1; round <= kMarkRounds; ++round) {
    must(detail::spin(
             ctx,
             [&] { return load_acquire<Reach::kGpu>(job.at<uint64_t>(0, kFlags, pair)) == round; }),
         "the one that posts");
    pause(random);
    must(quiet(ctx), "quiet");
    check_words(back, kSlotWords, 0, pair, round);
    store_release<Reach::kGpu>(job.at<uint64_t>(0, kTold, pair), uint64_t{round});
  }
}

}  // namespace

/// Pairs of lanes, of which one posts and the other drains, while others drain all the time: queues
/// are marked and unmarked again and again.
void quiet_marks(simt::Simulation& sim) {
  JobOptions options = any_options(sim.random());
  options.n_pes = 3;
  options.queues_per_peer = 1 + sim.random().below(2);
  options.settle = sim.random().one_in(4);
  const bool share = sim.random().one_in(2);  // one queue
  if (share) options.queues_per_peer = 1;
  Job job(sim, options);
  const uint32_t pairs = share ? 2 + sim.random().below(2) : 1 + sim.random().below(2);
  const uint32_t sweepers = 2 + sim.random().below(3);
  // Block 0 keeps the marks: its lanes sweep. Of the others one lane each posts or drains.
  job.launch(0, {1 + 2 * pairs, sweepers}, [&job, &sim, pairs, share] {
    const Context ctx = job.context<Reach::kGpu>(0);
    if (block_in_grid() == 0) {
      for (int turn = 0; turn < 30; ++turn) must(quiet(ctx), "quiet of a sweeper");
      return;
    }
    if (thread_in_block() != 0) return;
    const uint32_t me = block_in_grid() - 1;
    const int to = share ? 1 : 1 + static_cast<int>(me % 2);
    if (me < pairs) return post_and_tell(job, me, to, sim.random());
    drain_for(job, me - pairs, sim.random());
  });
  run_clean(sim, job);
}

}  // namespace peal::sim
