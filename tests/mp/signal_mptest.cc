// SPDX-License-Identifier: Apache-2.0
//
// Whoever sees a signal sees the data: put_signal by every scope on every kind of context, fences
// between queues, and the waits on flags that several PEs set.
#include "device/signal.h"
#include "device/sync.h"
#include "device/wait.h"
#include "tests/support/job.h"

namespace peal::api_test {
namespace {

constexpr size_t kSizes[] = {0, 1, 7, 8, 12, 13, 28, 29, 64, 4095, 65'537, (1u << 20) + 3};
constexpr size_t kMostBytes = (1u << 20) + 3;

/// A ring of PEs: data to the next, an acknowledgement back to the one before.
struct Ring {
  std::byte* from;
  std::byte* to;
  uint64_t* arrived;
  uint64_t* taken;
  int next;
  int before;
};

PEAL_DEVICE std::byte stamp(int sender, uint64_t round, size_t i) {
  return static_cast<std::byte>(static_cast<uint64_t>(sender) * 101 + round * 7 + i * 13 +
                                (i >> 8));
}

/// All bytes up to 4 KiB, beyond that one in 97 and the last ones.
PEAL_DEVICE void expect_message(Verdict* verdict, const std::byte* data, size_t bytes, int sender,
                                uint64_t round) {
  const size_t step = bytes > 4096 ? 97 : 1;
  for (size_t i = 0; i<bytes; i += i + 64> bytes ? 1 : step) {
    expect_eq(verdict, static_cast<unsigned>(data[i]),
              static_cast<unsigned>(stamp(sender, round, i)));
  }
}

template <Reach R, class S, Signal::Kind kKind, bool kNbi>
PEAL_KERNEL pass_on(Verdict* verdict, BasicContext<R> ctx, S scope, Ring ring, size_t bytes,
                    uint64_t first, uint64_t rounds) {
  const int me = my_pe(ctx);
  const size_t lanes = scope.size();
  for (uint64_t round = first; round < first + rounds; ++round) {
    for (size_t i = scope.rank(); i < bytes; i += lanes) ring.from[i] = stamp(me, round, i);
    const Signal signal = kKind == Signal::Kind::kSet ? Signal::set(ring.arrived, round, ring.next)
                                                      : Signal::add(ring.arrived, 1, ring.next);
    Ticket ticket{};
    if constexpr (kNbi) {
      ticket = put_signal_nbi(ctx, scope, ring.to, ring.from, bytes, signal);
      expect_ok(verdict, ticket.status);
    } else {
      expect_ok(verdict, put_signal(ctx, scope, ring.to, ring.from, bytes, signal));
    }
    expect_ok(verdict, wait_until(ctx, scope, ring.arrived, Compare::kGe, round));
    if (scope.leader()) expect_message(verdict, ring.to, bytes, ring.before, round);
    scope.sync();
    // The one before may overwrite what was read; the next one has read ours.
    if (scope.leader()) {
      if constexpr (kNbi) expect_ok(verdict, wait(ctx, ticket));
      expect_ok(verdict, peal::signal(ctx, Signal::set(ring.taken, round, ring.before)));
    }
    expect_ok(verdict, wait_until(ctx, scope, ring.taken, Compare::kGe, round));
  }
  expect_ok(verdict, quiet(ctx, scope));
}

template <class C>
class PutSignalBy : public testing::Test {
 protected:
  template <Signal::Kind kKind, bool kNbi>
  static void pass_all_sizes() {
    on_every_pe([](Runtime& pe) {
      const auto context = pe.make_context<C::kReach>();
      Symmetric<std::byte> from(pe, kMostBytes);
      Symmetric<std::byte> to(pe, kMostBytes);
      Symmetric<uint64_t> flags(pe, 2);
      const int n = pe.n_pes();
      const Ring ring{from.data(),          to.data(),
                      flags.data(),         flags.data() + 1,
                      (pe.my_pe() + 1) % n, (pe.my_pe() + n - 1) % n};
      uint64_t first = 1;
      for (const size_t bytes : kSizes) {
        const uint64_t rounds = bytes < 5000 ? 12 : 2;
        run_clean(pe, C::grid(), pass_on<C::kReach, typename C::Scope, kKind, kNbi>,
                  context.value(), typename C::Scope{}, ring, bytes, first, rounds);
        first += rounds;
      }
      pe.barrier();
    });
  }
};

using Callers = testing::Types<Caller<Thread, Reach::kGpu, 1>, Caller<Thread, Reach::kBlock, 1>,
                               Caller<Thread, Reach::kLane, 1>, Caller<Warp, Reach::kGpu, 32>,
                               Caller<Warp, Reach::kBlock, 17>, Caller<Warp, Reach::kLane, 32>,
                               Caller<Block, Reach::kGpu, 70>, Caller<Block, Reach::kBlock, 64>,
                               Caller<Block, Reach::kLane, 40>>;
TYPED_TEST_SUITE(PutSignalBy, Callers);

TYPED_TEST(PutSignalBy, SetFollowsTheData) {
  this->template pass_all_sizes<Signal::Kind::kSet, false>();
}
TYPED_TEST(PutSignalBy, AddFollowsTheData) {
  this->template pass_all_sizes<Signal::Kind::kAdd, false>();
}
TYPED_TEST(PutSignalBy, SetFollowsTheDataOfANonblockingPut) {
  this->template pass_all_sizes<Signal::Kind::kSet, true>();
}
TYPED_TEST(PutSignalBy, AddFollowsTheDataOfANonblockingPut) {
  this->template pass_all_sizes<Signal::Kind::kAdd, true>();
}

// Every lane sends its own message with its own signal to every PE.
PEAL_KERNEL signal_by_lanes(Verdict* verdict, Context ctx, uint32_t* to, const uint32_t* from,
                            uint64_t* flags, uint64_t round) {
  constexpr size_t kWords = 9;  // beyond inline
  const size_t lane = thread_in_block();
  const size_t lanes = threads_in_block();
  const auto me = static_cast<size_t>(my_pe(ctx));
  for (int pe = 0; pe < n_pes(ctx); ++pe) {
    expect_ok(verdict, put_signal(ctx, to + (me * lanes + lane) * kWords, from, kWords,
                                  Signal::set(flags + me * lanes + lane, round, pe)));
  }
  for (int pe = 0; pe < n_pes(ctx); ++pe) {
    const size_t slot = static_cast<size_t>(pe) * lanes + lane;
    expect_ok(verdict, wait_until(ctx, flags + slot, Compare::kEq, round));
    for (size_t i = 0; i < kWords; ++i) {
      expect_eq(verdict, to[slot * kWords + i], round * 100 + static_cast<size_t>(pe) * 10 + i);
    }
  }
  expect_ok(verdict, quiet(ctx));
}

TEST(PutSignal, LanesSendTheirOwnMessagesTogether) {
  on_every_pe([](Runtime& pe) {
    constexpr size_t kThreads = 40;
    const auto n = static_cast<size_t>(pe.n_pes());
    Symmetric<uint32_t> from(pe, 9);
    Symmetric<uint32_t> to(pe, n * kThreads * 9);
    Symmetric<uint64_t> flags(pe, n * kThreads);
    for (uint64_t round = 1; round < 30; ++round) {
      for (uint32_t i = 0; i < 9; ++i) {
        from[i] = static_cast<uint32_t>(round * 100 + static_cast<uint64_t>(pe.my_pe()) * 10 + i);
      }
      pe.barrier();
      run_clean(pe, {.blocks = 1, .threads = kThreads}, signal_by_lanes, pe.context(), to.data(),
                from.data(), flags.data(), round);
      pe.barrier();
    }
  });
}

// All blocks put on their own queues; the last to finish fences and tells the next PE on its queue.
struct Fenced {
  uint64_t* data;
  const uint64_t* from;
  size_t each;
  uint64_t* flag;
  uint64_t* taken;
  unsigned* finished;
};

PEAL_KERNEL put_fence_put(Verdict* verdict, Context ctx, Fenced f, uint64_t round) {
  const int n = n_pes(ctx);
  const int next = (my_pe(ctx) + 1) % n;
  const size_t at = block_in_grid() * f.each;
  const Ticket ticket = put_nbi(ctx, block, f.data + at, f.from + at, f.each, next);
  expect_ok(verdict, ticket.status);
  block.sync();
  if (!block.leader()) return;
  __threadfence();
  if (atomicAdd(f.finished, 1u) + 1 == round * blocks_in_grid()) {
    __threadfence();
    expect_ok(verdict, fence(ctx));
    expect_ok(verdict, p(ctx, f.flag, round, next));
  }
  if (block_in_grid() != 0) return;
  expect_ok(verdict, wait_until(ctx, f.flag, Compare::kGe, round));
  for (size_t i = 0; i < blocks_in_grid() * f.each; ++i) {
    expect_eq(verdict, f.data[i], round * 1'000'000 + i);
  }
  expect_ok(verdict, peal::signal(ctx, Signal::set(f.taken, round, (my_pe(ctx) + n - 1) % n)));
  expect_ok(verdict, wait_until(ctx, f.taken, Compare::kGe, round));
}

TEST(Fence, OrdersPutsOfAllQueuesAheadOfTheFlag) {
  on_every_pe([](Runtime& pe) {
    for (const uint32_t queues : {1u, 3u, 8u}) {
      constexpr unsigned kBlocks = 8;
      constexpr size_t kEach = 300;
      const auto context = pe.make_context({.queues_per_peer = queues});
      Symmetric<uint64_t> data(pe, kBlocks * kEach);
      Symmetric<uint64_t> from(pe, kBlocks * kEach);
      Symmetric<uint64_t> flags(pe, 2);
      unsigned finished = 0;
      const Fenced f{data.data(), from.data(), kEach, flags.data(), flags.data() + 1, &finished};
      for (uint64_t round = 1; round <= 40; ++round) {
        for (size_t i = 0; i < kBlocks * kEach; ++i) from[i] = round * 1'000'000 + i;
        run_clean(pe, {.blocks = kBlocks, .threads = 32}, put_fence_put, context.value(), f, round);
      }
      pe.barrier();
    }
  });
}

// After quiet on one context the data is there for whoever hears of it on another.
PEAL_KERNEL quiet_then_tell(Verdict* verdict, Context data_ctx, Context flag_ctx, uint64_t* to,
                            const uint64_t* from, size_t count, uint64_t* flag, uint64_t* taken,
                            uint64_t round) {
  const int n = n_pes(data_ctx);
  const int next = (my_pe(data_ctx) + 1) % n;
  expect_ok(verdict, put_nbi(data_ctx, warp, to, from, count, next).status);
  expect_ok(verdict, quiet(data_ctx, warp));
  if (!warp.leader()) return;
  expect_ok(verdict, peal::signal(flag_ctx, Signal::set(flag, round, next)));
  expect_ok(verdict, wait_until(flag_ctx, flag, Compare::kGe, round));
  for (size_t i = 0; i < count; ++i) expect_eq(verdict, to[i], round + i);
  const int before = (my_pe(data_ctx) + n - 1) % n;
  expect_ok(verdict, peal::signal(flag_ctx, Signal::set(taken, round, before)));
  expect_ok(verdict, wait_until(flag_ctx, taken, Compare::kGe, round));
  expect_ok(verdict, quiet(flag_ctx));
}

TEST(Quiet, CompletesAtThePeerForAllToSee) {
  on_every_pe([](Runtime& pe) {
    constexpr size_t kCount = 2000;
    const auto other = pe.make_context({.queues_per_peer = 1});
    Symmetric<uint64_t> to(pe, kCount);
    Symmetric<uint64_t> from(pe, kCount);
    Symmetric<uint64_t> flags(pe, 2);
    for (uint64_t round = 1; round <= 60; ++round) {
      for (size_t i = 0; i < kCount; ++i) from[i] = round + i;
      run_clean(pe, {.blocks = 1, .threads = 32}, quiet_then_tell, pe.context(), other.value(),
                to.data(), from.data(), kCount, flags.data(), flags.data() + 1, round);
    }
    pe.barrier();
  });
}

PEAL_KERNEL signal_after_puts(Verdict* verdict, Context ctx, uint64_t* to, uint64_t* flags,
                              uint64_t round) {
  const int n = n_pes(ctx);
  const int next = (my_pe(ctx) + 1) % n;
  for (uint64_t i = 0; i < 50; ++i) expect_ok(verdict, p(ctx, to + i, round * 1000 + i, next));
  expect_ok(verdict, peal::signal(ctx, Signal::add(flags, 1, next)));
  expect_ok(verdict, wait_until(ctx, flags, Compare::kGe, round));
  for (uint64_t i = 0; i < 50; ++i) expect_eq(verdict, to[i], round * 1000 + i);
  expect_ok(verdict, peal::signal(ctx, Signal::add(flags + 1, 1, (my_pe(ctx) + n - 1) % n)));
  expect_ok(verdict, wait_until(ctx, flags + 1, Compare::kGe, round));
}

TEST(Signals, AloneFollowEarlierPutsOfTheBlock) {
  on_every_pe([](Runtime& pe) {
    Symmetric<uint64_t> to(pe, 50);
    Symmetric<uint64_t> flags(pe, 2);
    for (uint64_t round = 1; round <= 60; ++round) {
      run_clean(pe, {}, signal_after_puts, pe.context(), to.data(), flags.data(), round);
    }
    pe.barrier();
  });
}

PEAL_KERNEL add_signals(Verdict* verdict, Context ctx, uint64_t* flag, int times) {
  for (int i = 0; i < times; ++i) {
    for (int pe = 0; pe < n_pes(ctx); ++pe) {
      expect_ok(verdict, peal::signal(ctx, Signal::add(flag, 3, pe)));
    }
  }
  const uint64_t all =
      uint64_t{3} * static_cast<uint64_t>(times * n_pes(ctx)) * threads_in_block() * 2;
  expect_ok(verdict, wait_until(ctx, flag, Compare::kGe, all));
}

TEST(Signals, OfManyWritersAddUp) {
  on_every_pe([](Runtime& pe) {
    Symmetric<uint64_t> flag(pe, 1);
    run_clean(pe, {.blocks = 2, .threads = 50}, add_signals, pe.context(), flag.data(), 8);
    pe.barrier();
    EXPECT_EQ(flag[0], 3u * 8 * 100 * static_cast<uint64_t>(pe.n_pes()));
    pe.barrier();
  });
}

// Six comparisons: PE before counts the word down and up again.
template <class T>
PEAL_KERNEL compare_six_ways(Verdict* verdict, Context ctx, T* words) {
  const int n = n_pes(ctx);
  const int next = (my_pe(ctx) + 1) % n;
  // words[i] starts at 5.
  const T values[6] = {9, 6, 6, 9, static_cast<T>(T{0} + T{4}), 5};
  for (int i = 0; i < 6; ++i) {
    expect_ok(verdict, p(ctx, words + i, values[i], next));
  }
  expect_ok(verdict, wait_until(ctx, words + 0, Compare::kEq, 9));
  expect_ok(verdict, wait_until(ctx, words + 1, Compare::kNe, 5));
  expect_ok(verdict, wait_until(ctx, words + 2, Compare::kGt, 5));
  expect_ok(verdict, wait_until(ctx, words + 3, Compare::kGe, 9));
  expect_ok(verdict, wait_until(ctx, words + 4, Compare::kLt, 5));
  expect_ok(verdict, wait_until(ctx, words + 5, Compare::kLe, 5));
  expect(verdict, peal::test(ctx, words + 0, Compare::kEq, 9));
  expect(verdict, !peal::test(ctx, words + 0, Compare::kLt, 9));
  expect_ok(verdict, quiet(ctx));
}

template <class T>
class WaitOn : public testing::Test {};
using Words = testing::Types<uint32_t, int32_t, uint64_t, int64_t>;
TYPED_TEST_SUITE(WaitOn, Words);

TYPED_TEST(WaitOn, WordsThatAPeerChangesInSixComparisons) {
  on_every_pe([](Runtime& pe) {
    Symmetric<TypeParam> words(pe, 6);
    for (size_t i = 0; i < 6; ++i) words[i] = 5;
    pe.barrier();
    run_clean(pe, {}, compare_six_ways<TypeParam>, pe.context(), words.data());
    pe.barrier();
  });
}

PEAL_KERNEL wait_for_sets(Verdict* verdict, Context ctx, uint64_t* flags, uint64_t round,
                          size_t* indices, int* skip) {
  const auto n = static_cast<size_t>(n_pes(ctx));
  for (int pe = 0; pe < n_pes(ctx); ++pe) {
    expect_ok(verdict, peal::signal(ctx, Signal::set(flags + my_pe(ctx), round, pe)));
  }
  const WaitSet<uint64_t> all{flags, n};
  // Any: one after the other, each once.
  for (size_t i = 0; i < n; ++i) skip[i] = 0;
  for (size_t i = 0; i < n; ++i) {
    const WaitAny any = wait_until_any(ctx, WaitSet<uint64_t>{flags, n, skip}, Compare::kGe, round);
    expect_ok(verdict, any.status);
    expect(verdict, any.index < n && skip[any.index] == 0);
    if (any.index >= n) return;
    skip[any.index] = 1;
  }
  const WaitAny none = wait_until_any(ctx, WaitSet<uint64_t>{flags, n, skip}, Compare::kGe, round);
  expect(verdict, none.status == Status::kOk && none.index == kNone);
  // Some: until all were named.
  const WaitSome some = wait_until_some(ctx, all, indices, Compare::kGe, round);
  expect_ok(verdict, some.status);
  expect_eq(verdict, some.count, n);
  for (size_t i = 0; i < some.count; ++i) expect_eq(verdict, indices[i], i);
  expect_ok(verdict, wait_until_all(ctx, all, Compare::kGe, round));
  expect(verdict, test_all(ctx, all, Compare::kGe, round));
  expect_eq(verdict, test_any(ctx, all, Compare::kGe, round), 0);
  expect_eq(verdict, test_some(ctx, all, indices, Compare::kLt, 1), 0);
}

TEST(WaitSets, FindThePesThatHaveSignalled) {
  on_every_pe([](Runtime& pe) {
    const auto n = static_cast<size_t>(pe.n_pes());
    Symmetric<uint64_t> flags(pe, n);
    std::vector<size_t> indices(n);
    std::vector<int> skip(n);
    for (uint64_t round = 1; round <= 20; ++round) {
      run_clean(pe, {}, wait_for_sets, pe.context(), flags.data(), round, indices.data(),
                skip.data());
    }
    pe.barrier();
  });
}

// Traffic of one context does not hold up another.
PEAL_KERNEL two_contexts(Verdict* verdict, Context first, BlockContext second, uint64_t* words,
                         size_t count) {
  const int next = (my_pe(first) + 1) % n_pes(first);
  for (uint64_t i = 0; i < count; ++i) {
    expect_ok(verdict, p(first, words + i, i + 1, next));
    expect_ok(verdict, p(second, words + count + i, i + 1, next));
  }
  expect_ok(verdict, quiet(second));
  expect_ok(verdict, g(second, words + count, next).status);
  expect_ok(verdict, quiet(first));
}

TEST(Contexts, WorkSideBySideInOneKernel) {
  on_every_pe([](Runtime& pe) {
    constexpr size_t kCount = 400;
    const auto first = pe.make_context({.queues_per_peer = 1, .depth = 128});
    const auto second = pe.make_context<Reach::kBlock>({.queues_per_peer = 2, .depth = 128});
    Symmetric<uint64_t> words(pe, 2 * kCount);
    run_clean(pe, {}, two_contexts, first.value(), second.value(), words.data(), kCount);
    pe.barrier();
    for (uint64_t i = 0; i < 2 * kCount; ++i) ASSERT_EQ(words[i], i % kCount + 1);
    pe.barrier();
  });
}

}  // namespace
}  // namespace peal::api_test
