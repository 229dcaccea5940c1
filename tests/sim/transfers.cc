// SPDX-License-Identifier: Apache-2.0
//
// Puts and gets of many lanes on one queue: crowded, full, at the wrap of the index, and fetches
// that share landing cells.
#include "tests/sim/kernels.h"

namespace peal::sim {
namespace {

constexpr size_t kWords = 2048;
constexpr uint32_t kSlotWords = 8;

/// Every lane puts to its slot at the next PE, round after round, and reuses its source at once.
template <Reach R>
void put_rounds(Job& job, int pe, uint32_t rounds) {
  const BasicContext<R> ctx = job.context<R>(pe);
  const uint32_t lane = block_in_grid() * threads_in_block() + thread_in_block();
  const int next = (pe + 1) % n_pes(ctx);
  const int before = (pe + n_pes(ctx) - 1) % n_pes(ctx);
  auto* const source = job.at<uint64_t>(pe, kSource, lane * kSlotWords);
  auto* const target = job.at<uint64_t>(pe, kTarget, lane * kSlotWords);
  auto* const word = job.at<uint64_t>(pe, kWords, lane);
  const uint32_t count = lane % 2 == 0 ? 5 : 3;  // 40 bytes from memory, 24 in the request
  for (uint32_t round = 1; round <= rounds; ++round) {
    write_words(source, count, pe, lane, round);
    must(put(ctx, target, source, count, next), "put");
    must(p(ctx, word, tagged(pe, lane, round), next), "p");
  }
  must(quiet(ctx), "quiet");
  if (blocks_in_grid() == 1) {
    must(barrier_all(ctx, block), "barrier_all");
    check_words(target, count, before, lane, rounds);
    expect_equal(read(word), tagged(before, lane, rounds), "word of p");
  }
}

template <Reach R = Reach::kGpu>
void run_puts(simt::Simulation& sim, const JobOptions& options, const simt::LaneGrid& grid,
              uint32_t rounds) {
  Job job(sim, options);
  for (int pe = 0; pe < options.n_pes; ++pe) {
    job.launch(pe, grid, [&job, pe, rounds] { put_rounds<R>(job, pe, rounds); });
  }
  run_clean(sim, job);
  // What quiet covered is there for everybody once the run is over.
  const auto lanes = static_cast<uint32_t>(grid.blocks.count() * grid.threads.count());
  for (int pe = 0; pe < options.n_pes; ++pe) {
    const int before = (pe + options.n_pes - 1) % options.n_pes;
    for (uint32_t lane = 0; lane < lanes; ++lane) {
      check_words(job.at<uint64_t>(pe, kTarget, lane * kSlotWords), lane % 2 == 0 ? 5 : 3, before,
                  lane, rounds);
    }
  }
}

}  // namespace

void many_lanes(simt::Simulation& sim) {
  JobOptions options = any_options(sim.random());
  const simt::LaneGrid grid{1, 2 + sim.random().below(7)};
  run_puts(sim, options, grid, 2);
}

/// Queues that one block owns, or one lane: what orders there reaches no further.
void owned_queues(simt::Simulation& sim) {
  JobOptions options = any_options(sim.random());
  options.depth = 8;
  if (sim.random().one_in(2)) {
    run_puts<Reach::kLane>(sim, options, {1, 1}, 4);
  } else {
    run_puts<Reach::kBlock>(sim, options, {1, 2 + sim.random().below(4)}, 2);
  }
}

void full_queue(simt::Simulation& sim) {
  JobOptions options = any_options(sim.random());
  options.depth = 4;
  // Blocks do not wait for each other's lanes: the queue is as full as it can be.
  const simt::LaneGrid grid{2 + sim.random().below(3), 2};
  run_puts(sim, options, grid, 3);
}

void index_wrap(simt::Simulation& sim) {
  JobOptions options = any_options(sim.random());
  options.depth = 8;
  options.start = (uint64_t{1 + sim.random().below(3)} << 16) - 1 - sim.random().below(6);
  run_puts(sim, options, {1, 3}, 2);
}

/// Sources in memory that a fence of the queue does not reach: whoever posts sees to them.
void off_gpu_source(simt::Simulation& sim) {
  constexpr uint32_t kBytes = 512;
  constexpr uint32_t kLanes = 4;
  JobOptions options = any_options(sim.random());
  options.fence = NicFence::kGpu;
  Job job(sim, options);
  std::byte* memory[2];
  for (int pe = 0; pe < 2; ++pe) {
    memory[pe] = job.add_host_window(pe, kBytes);
    job.launch(pe, {1, kLanes}, [&, pe] {
      const Context ctx = job.context<Reach::kGpu>(pe);
      const uint32_t lane = thread_in_block();
      auto* const source = reinterpret_cast<uint64_t*>(memory[pe]) + lane * kSlotWords;
      auto* const target = job.at<uint64_t>(pe, kTarget, lane * kSlotWords);
      for (uint32_t round = 1; round <= 2; ++round) {
        write_words(source, 5, pe, lane, round);
        must(put(ctx, target, source, 5, 1 - pe), "put");
      }
      must(barrier_all(ctx, block), "barrier_all");
      check_words(target, 5, 1 - pe, lane, 2);
    });
  }
  run_clean(sim, job);
}

/// What a get brings is what the lane put there before, on the same queue.
void fetches(simt::Simulation& sim) {
  JobOptions options = any_options(sim.random());
  Job job(sim, options);
  const uint32_t lanes = 1 + sim.random().below(4);
  for (int pe = 0; pe < options.n_pes; ++pe) {
    job.launch(pe, {1, lanes}, [&job, pe, lanes] {
      const Context ctx = job.context<Reach::kGpu>(pe);
      const uint32_t lane = thread_in_block();
      const int peer = 1 - pe;
      auto* const word = job.at<uint64_t>(pe, kWords, lane);
      auto* const all = job.at<uint64_t>(pe, kWords);
      auto* const copy = job.at<uint64_t>(pe, kTarget);
      for (uint32_t round = 1; round <= 2; ++round) {
        must(p(ctx, word, tagged(pe, lane, round), peer), "p");
        const Fetched<uint64_t> back = g(ctx, word, peer);
        must(back.status, "g");
        expect_equal(back.value, tagged(pe, lane, round), "value of g");
        warp.sync();  // kLanesBeforeLeader: all words are put before the leader asks for them
        must(get(ctx, warp, copy, all, lanes, peer), "get");
        for (uint32_t i = 0; i < lanes; ++i) {
          expect_equal(read(copy + i), tagged(pe, i, round), "value of get");
        }
        warp.sync();  // nobody asks again before all have looked
      }
    });
  }
  run_clean(sim, job);
}

/// What fetches bring lies on another bus than their completions: in memory of the host, or all of
/// it in a GPU that shows a NIC's writes in no order. A kernel that was told looks at once.
void host_fetches(simt::Simulation& sim) {
  constexpr uint32_t kBytes = 512;
  JobOptions options = any_options(sim.random());
  const bool whole_gpu = sim.random().one_in(2);
  // To the model host memory is also what a fence of the GPU does not reach.
  if (whole_gpu) options.fence = NicFence::kSystem;
  Job job(sim, options);
  std::byte* memory = job.heap(0) + kTarget;
  if (whole_gpu) {
    job.put_on_host(0);
  } else {
    memory = job.add_host_window(0, kBytes, Job::kWordKey);
  }
  const uint32_t lanes = 1 + sim.random().below(3);
  job.launch(0, {1, lanes}, [&job, memory, whole_gpu] {
    const Context ctx = job.context<Reach::kGpu>(0);
    const uint32_t lane = thread_in_block();
    auto* const source = job.at<uint64_t>(0, kSource, lane * kSlotWords);
    auto* const words = job.at<uint64_t>(0, kWords, lane * kSlotWords);
    auto* const back = reinterpret_cast<uint64_t*>(memory) + lane * kSlotWords;
    for (uint32_t round = 1; round <= 2; ++round) {
      write_words(source, kSlotWords, 0, lane, round);
      must(put(ctx, words, source, kSlotWords, 1), "put");
      must(get(ctx, back, words, kSlotWords, 1), "get");
      check_words(back, kSlotWords, 0, lane, round);
      if (!whole_gpu) continue;
      const Fetched<uint64_t> one = g(ctx, words, 1);
      must(one.status, "g");
      expect_equal(one.value, tagged(0, lane, round), "value of g");
      const Fetched<uint64_t> old = atomic_swap(ctx, words, uint64_t{0}, 1);
      must(old.status, "atomic_swap");
      expect_equal(old.value, tagged(0, lane, round), "value of atomic_swap");
    }
  });
  run_clean(sim, job);
}

/// Two lanes whose fetches are 128 tickets apart have the same landing cell. The second is one that
/// another lane posts for, whose reservation acquires nothing for it.
void landing_cells(simt::Simulation& sim) {
  JobOptions options = any_options(sim.random());
  Job job(sim, options);
  bool first_has_ticket = false;
  for (uint32_t i = 0; i < 3; ++i) *job.at<uint64_t>(1, kWords, i) = tagged(1, i, 0);
  SendQueue& q = job.queue(0, 1);
  job.launch(0, {2, 2}, [&] {
    const Context ctx = job.context<Reach::kGpu>(0);
    const uint32_t mine = block_in_grid() + thread_in_block();
    if (block_in_grid() == 0 && mine == 1) return;
    if (block_in_grid() == 1 && mine == 1) {
      // As if 126 others had come and gone.
      while (!first_has_ticket) {
        first_has_ticket = load_relaxed<Reach::kGpu>(&q.landing_ticket) != 0;
        relax();
      }
      fetch_add_relaxed<Reach::kGpu>(&q.landing_ticket, uint64_t{kLandingCells - 2});
    }
    if (block_in_grid() == 1) warp.sync();
    const auto old = atomic_fetch_add(ctx, job.at<uint64_t>(0, kWords, mine), 1, 1);
    must(old.status, "atomic_fetch_add");
    expect_equal(old.value, tagged(1, mine, 0), "value of atomic_fetch_add");
  });
  run_clean(sim, job);
}

}  // namespace peal::sim
