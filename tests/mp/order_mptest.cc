// SPDX-License-Identifier: Apache-2.0
//
// Words that vouch for data, on a NIC that places WRITEs out of order (PEAL_SOFTNIC_PLACEMENT). All
// of it fails at 438a779, where such words were WRITEs themselves: a signal is seen before its
// data, a word that was set twice keeps the first value, a fence of one queue orders nothing. The
// flag of a barrier may then be overwritten by that of the barrier before, and its PE wait until
// its deadline; that is rare.
#include "device/signal.h"
#include "device/sync.h"
#include "device/wait.h"
#include "tests/support/job.h"

namespace peal::api_test {
namespace {

constexpr uint32_t kWords = 512;
constexpr uint64_t kRounds = 400;

struct Post {
  uint64_t* from;
  uint64_t* to;     // kWords, written by the PE before
  uint64_t* flag;   // by the PE before
  uint64_t* taken;  // by the PE behind
};

/// Fills the source with the round.
PEAL_DEVICE void fill(const Post& post, uint32_t words, uint64_t round) {
  for (uint32_t i = thread_in_block(); i < words; i += threads_in_block()) post.from[i] = round;
  block.sync();
}

/// All words are of the round, and the sender may go on.
PEAL_DEVICE void take(Verdict* verdict, const Context& ctx, const Post& post, uint32_t words,
                      uint64_t round) {
  for (uint32_t i = thread_in_block(); i < words; i += threads_in_block()) {
    expect_eq(verdict, post.to[i], round);
  }
  block.sync();
  if (!block.leader()) return;
  const int before = (my_pe(ctx) + n_pes(ctx) - 1) % n_pes(ctx);
  expect_ok(verdict, signal(ctx, Signal::set(post.taken, round, before)));
  expect_ok(verdict, wait_until(ctx, post.taken, Compare::kGe, round));
}

/// Three puts of different lengths, then a signal behind them.
PEAL_KERNEL signals(Verdict* verdict, Context ctx, Post post) {
  const int next = (my_pe(ctx) + 1) % n_pes(ctx);
  for (uint64_t round = 1; round <= kRounds; ++round) {
    fill(post, kWords, round);
    if (block.leader()) {
      expect_ok(verdict, put_nbi(ctx, post.to, post.from, 200, next).status);
      expect_ok(verdict, put_nbi(ctx, post.to + 200, post.from + 200, 2, next).status);
      expect_ok(verdict, put_signal_nbi(ctx, post.to + 202, post.from + 202, kWords - 202,
                                        Signal::set(post.flag, round, next))
                             .status);
    }
    expect_ok(verdict, wait_until(ctx, block, post.flag, Compare::kGe, round));
    take(verdict, ctx, post, kWords, round);
    expect_ok(verdict, quiet(ctx, block));
  }
}

/// The same by fence and p: a put like any other, but nothing is under way that it could overtake.
PEAL_KERNEL fenced(Verdict* verdict, Context ctx, Post post) {
  const int next = (my_pe(ctx) + 1) % n_pes(ctx);
  for (uint64_t round = 1; round <= kRounds; ++round) {
    fill(post, kWords, round);
    if (block.leader()) {
      expect_ok(verdict, put_nbi(ctx, post.to, post.from, kWords, next).status);
      expect_ok(verdict, fence(ctx));
      expect_ok(verdict, p(ctx, post.flag, round, next));
    }
    expect_ok(verdict, wait_until(ctx, block, post.flag, Compare::kGe, round));
    take(verdict, ctx, post, kWords, round);
    expect_ok(verdict, quiet(ctx, block));
  }
}

/// Sets a word over and over: it never goes back, and the last value stays.
PEAL_KERNEL counts(Verdict* verdict, Context ctx, Post post) {
  constexpr uint64_t kSets = 20;
  const int next = (my_pe(ctx) + 1) % n_pes(ctx);
  if (!block.leader()) return;
  for (uint64_t round = 1; round <= kRounds; ++round) {
    for (uint64_t i = 1; i <= kSets; ++i) {
      expect_ok(verdict, signal(ctx, Signal::set(post.flag, round * kSets + i, next)));
    }
    expect_ok(verdict, barrier_all(ctx));
    expect_eq(verdict, *post.flag, round * kSets + kSets);
    expect_ok(verdict, barrier_all(ctx));
  }
}

/// Barriers so close that a PE announces the next while its last announcement is under way.
PEAL_KERNEL storm(Verdict* verdict, Context ctx) {
  for (uint64_t round = 1; round <= 20 * kRounds; ++round) {
    const Status status = sync_all(ctx);
    expect_ok(verdict, status);
    if (status != Status::kOk) return;
  }
}

template <class Kernel>
void run(Runtime& pe, const Context& ctx, const Kernel& kernel) {
  Symmetric<uint64_t> from(pe, kWords);
  Symmetric<uint64_t> to(pe, kWords);
  Symmetric<uint64_t> words(pe, 16);
  pe.barrier();
  run_clean(pe, {.blocks = 1, .threads = 32}, kernel, ctx,
            Post{from.data(), to.data(), words.data(), words.data() + 8});
  pe.barrier();
}

TEST(Order, ASignalIsSeenBehindItsData) {
  on_every_pe([](Runtime& pe) { run(pe, pe.context(), signals); });
}

TEST(Order, AFenceOrdersPutsWhereWritesOvertake) {
  on_every_pe([](Runtime& pe) {
    const auto one_queue = pe.make_context({.queues_per_peer = 1, .depth = 128});
    EXPECT_EQ(one_queue.value().relaxed, 1u);
    run(pe, Context{one_queue.value()}, fenced);
  });
}

TEST(Order, AWordThatIsSetOverAndOverNeverGoesBack) {
  on_every_pe([](Runtime& pe) { run(pe, pe.context(), counts); });
}

TEST(Order, BarriersFollowEachOther) {
  on_every_pe([](Runtime& pe) { run_clean(pe, {}, storm, pe.context()); });
}

}  // namespace
}  // namespace peal::api_test
