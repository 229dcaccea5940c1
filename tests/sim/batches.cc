// SPDX-License-Identifier: Apache-2.0
//
// Work whose doorbell is held back: told by the batch's end, by a quiet of somebody else, by a wait
// for its ticket; and fetching atomics whose values come later.
#include "tests/sim/kernels.h"

namespace peal::sim {
namespace {

constexpr uint32_t kSlotWords = 16;

/// PE 0 sends several puts and a signal under one doorbell, PE 1 checks and answers.
template <Reach R>
void send_in_batches(Job& job, int pe, uint32_t words) {
  constexpr uint32_t kRounds = 2;
  const BasicContext<R> ctx = job.context<R>(pe);
  const uint32_t lane = thread_in_block();
  auto* const source = job.at<uint64_t>(pe, kSource, lane * kSlotWords);
  auto* const target = job.at<uint64_t>(pe, kTarget, lane * kSlotWords);
  auto* const flag = job.at<uint64_t>(pe, kFlags, lane);
  auto* const answer = job.at<uint64_t>(pe, kAnswers, lane);
  for (uint32_t round = 1; round <= kRounds; ++round) {
    if (pe == 0) {
      write_words(source, words, 0, lane, round);
      {
        Batch batch(ctx);
        for (uint32_t i = 0; i < words; i += 4) {
          const uint32_t count = words - i < 4 ? words - i : 4;
          must(batch.put_nbi(target + i, source + i, count, 1).status, "put_nbi");
        }
        must(batch.signal(Signal::set(flag, round, 1)), "signal");
        if (round % 2 == 0) batch.ring();
      }
      must(wait_until(ctx, answer, Compare::kGe, round), "wait_until of the sender");
    } else {
      must(wait_until(ctx, flag, Compare::kGe, round), "wait_until of the receiver");
      check_words(target, words, 0, lane, round);
      must(signal(ctx, Signal::set(answer, round, 0)), "signal");
    }
  }
}

/// Lane 0 posts and does not ring while it waits for lane 1, which drains for both.
void drain_for_another(Job& job, bool one_pe) {
  const Context ctx = job.context<Reach::kGpu>(0);
  auto* const source = job.at<uint64_t>(0, kSource);
  auto* const target = job.at<uint64_t>(0, kTarget);
  auto* const flag = job.at<uint64_t>(0, kFlags);
  Batch batch(ctx);
  for (uint32_t round = 1; round <= 2; ++round) {
    if (thread_in_block() == 0) {
      write_words(source, 5, 0, 0, round);
      must(batch.put_nbi(target, source, 5, 1).status, "put_nbi");
      must(batch.p(target + 5, tagged(0, 0, round, 5), 1), "p");
    }
    block.sync();
    if (thread_in_block() == 1) {
      must(one_pe ? quiet(ctx, 1) : quiet(ctx), "quiet");
      must(signal(ctx, Signal::set(flag, round, 1)), "signal");
      must(wait_until(ctx, flag, Compare::kGe, round), "wait_until of the sender");
    }
    block.sync();
  }
}

/// A lane asks for its own ticket, by wait or by test, and has not rung.
void wait_for_ticket(Job& job, bool tests) {
  const Context ctx = job.context<Reach::kGpu>(0);
  const uint32_t lane = thread_in_block();
  auto* const source = job.at<uint64_t>(0, kSource, lane * kSlotWords);
  auto* const target = job.at<uint64_t>(0, kTarget, lane * kSlotWords);
  auto* const back = job.at<uint64_t>(0, kSource, (4 + lane) * kSlotWords);
  Batch batch(ctx);
  for (uint32_t round = 1; round <= 2; ++round) {
    write_words(source, 5, 0, lane, round);
    must(batch.put_nbi(target, source, 5, 1).status, "put_nbi");
    const Ticket ticket = batch.get_nbi(back, target, 5, 1);
    const Deadline deadline = Deadline::in(job.options().timeout_ns);
    while (tests && !test(ctx, ticket)) {
      if (deadline.passed()) throw Failure("test: never true");
      relax();
    }
    must(wait(ctx, ticket), "wait");
    check_words(back, 5, 0, lane, round);
  }
}

}  // namespace

void batches(simt::Simulation& sim) {
  JobOptions options = any_options(sim.random());
  const bool owned = sim.random().one_in(3);
  if (sim.random().one_in(3)) options.depth = 8;  // a batch may be more than fits
  Job job(sim, options);
  const uint32_t lanes = owned ? 1 : 1 + sim.random().below(3);
  const uint32_t words = 1 + sim.random().below(15);
  for (int pe = 0; pe < 2; ++pe) {
    job.launch(pe, {1, lanes}, [&job, pe, words, owned] {
      if (owned) {
        send_in_batches<Reach::kLane>(job, pe, words);
      } else {
        send_in_batches<Reach::kGpu>(job, pe, words);
      }
    });
  }
  run_clean(sim, job);
}

void batch_left_open(simt::Simulation& sim) {
  JobOptions options = any_options(sim.random());
  if (sim.random().one_in(2)) options.queues_per_peer = 2;
  Job job(sim, options);
  const bool one_pe = sim.random().one_in(2);
  job.launch(0, {1, 2}, [&job, one_pe] { drain_for_another(job, one_pe); });
  job.launch(1, {1, 1}, [&job] {
    const Context ctx = job.context<Reach::kGpu>(1);
    auto* const flag = job.at<uint64_t>(1, kFlags);
    for (uint32_t round = 1; round <= 2; ++round) {
      must(wait_until(ctx, flag, Compare::kGe, round), "wait_until of the receiver");
      check_words(job.at<uint64_t>(1, kTarget), 6, 0, 0, round);
      must(signal(ctx, Signal::set(flag, round, 0)), "signal");
    }
  });
  run_clean(sim, job);
}

void batch_ticket(simt::Simulation& sim) {
  JobOptions options = any_options(sim.random());
  Job job(sim, options);
  const bool tests = sim.random().one_in(2);
  const uint32_t lanes = 1 + sim.random().below(3);
  job.launch(0, {1, lanes}, [&job, tests] { wait_for_ticket(job, tests); });
  run_clean(sim, job);
}

/// Old values that come to memory of the caller, behind what it put there before.
void fetches_later(simt::Simulation& sim) {
  JobOptions options = any_options(sim.random());
  const bool on_host = sim.random().one_in(2);
  // To the model host memory is also what a fence of the GPU does not reach.
  if (on_host) options.fence = NicFence::kSystem;
  Job job(sim, options);
  if (on_host) job.put_on_host(0);
  const uint32_t lanes = 1 + sim.random().below(4);
  job.launch(0, {1, lanes}, [&job] {
    const Context ctx = job.context<Reach::kGpu>(0);
    const uint32_t lane = thread_in_block();
    auto* const word = job.at<uint64_t>(0, kTarget, lane);
    auto* const old = job.at<uint64_t>(0, kSource, lane * kSlotWords);
    for (uint32_t round = 1; round <= 2; ++round) {
      must(p(ctx, word, tagged(0, lane, round), 1), "p");
      const Ticket first = atomic_fetch_add_nbi(ctx, old, word, 1, 1);
      const Ticket second = atomic_swap_nbi(ctx, old + 1, word, uint64_t{7}, 1);
      must(second.status, "atomic_swap_nbi");
      if (round == 1) {
        must(wait(ctx, first), "wait");
        expect_equal(read(old), tagged(0, lane, round), "value of atomic_fetch_add_nbi");
      }
      must(quiet(ctx), "quiet");
      expect_equal(read(old), tagged(0, lane, round), "value of atomic_fetch_add_nbi");
      expect_equal(read(old + 1), tagged(0, lane, round) + 1, "value of atomic_swap_nbi");
    }
  });
  run_clean(sim, job);
}

}  // namespace peal::sim
