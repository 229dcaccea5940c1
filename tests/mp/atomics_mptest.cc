// SPDX-License-Identifier: Apache-2.0
//
// Atomics between PEs: each operation's result and old value, then many lanes of all PEs on one
// word.
#include <limits>
#include <vector>

#include "device/atomics.h"
#include "tests/support/job.h"

namespace peal::api_test {
namespace {

template <class T>
struct Word {
  T before;
  T value;
  T after;
};

template <class T>
PEAL_DEVICE void expect_word(Verdict* verdict, const Fetched<T>& seen, std::type_identity_t<T> old,
                             unsigned line = __builtin_LINE()) {
  expect_ok(verdict, seen.status, line);
  expect(verdict, seen.value == old, line);
}

template <class T>
PEAL_DEVICE T all_ones() {
  return static_cast<T>(~T{0});
}

template <Reach R, class T>
PEAL_KERNEL every_operation(Verdict* verdict, BasicContext<R> ctx, Word<T>* words, int pe) {
  T* const word = &words[my_pe(ctx)].value;
  const auto now = [&](T wanted, unsigned line = __builtin_LINE()) {
    expect_word(verdict, atomic_fetch(ctx, word, pe), wanted, line);
  };
  now(0);
  expect_ok(verdict, atomic_set(ctx, word, 10, pe));
  now(10);
  expect_word(verdict, atomic_swap(ctx, word, 20, pe), 10);
  expect_word(verdict, atomic_compare_swap(ctx, word, 20, 30, pe), 20);
  expect_word(verdict, atomic_compare_swap(ctx, word, 20, 40, pe), 30);
  now(30);
  expect_ok(verdict, atomic_add(ctx, word, 12, pe));
  now(42);
  expect_word(verdict, atomic_fetch_add(ctx, word, static_cast<T>(T{0} - T{50}), pe), 42);
  now(static_cast<T>(T{42} - T{50}));
  expect_ok(verdict, atomic_set(ctx, word, all_ones<T>(), pe));
  expect_ok(verdict, atomic_inc(ctx, word, pe));  // wraps
  now(0);
  expect_word(verdict, atomic_fetch_inc(ctx, word, pe), 0);
  now(1);
  expect_ok(verdict, atomic_or(ctx, word, 0x70, pe));
  now(0x71);
  expect_word(verdict, atomic_fetch_or(ctx, word, 0x0c, pe), 0x71);
  now(0x7d);
  expect_ok(verdict, atomic_and(ctx, word, 0x6c, pe));
  now(0x6c);
  expect_word(verdict, atomic_fetch_and(ctx, word, 0x3f, pe), 0x6c);
  now(0x2c);
  expect_ok(verdict, atomic_xor(ctx, word, 0xff, pe));
  now(0xd3);
  expect_word(verdict, atomic_fetch_xor(ctx, word, all_ones<T>(), pe), 0xd3);
  now(static_cast<T>(~T{0xd3}));
  expect_ok(verdict, quiet(ctx));
}

template <class T>
class AtomicsOn : public testing::Test {
 protected:
  template <Reach R>
  static void every_operation_leaves_neighbours_alone() {
    on_every_pe([](Runtime& pe) {
      const auto n = static_cast<size_t>(pe.n_pes());
      const auto context = pe.make_context<R>();
      Symmetric<Word<T>> words(pe, 2 * n);  // at home, and at the next PE
      for (size_t i = 0; i < 2 * n; ++i) words[i] = {all_ones<T>(), 0, 77};
      pe.barrier();
      const int next = (pe.my_pe() + 1) % pe.n_pes();
      run_clean(pe, {}, every_operation<R, T>, context.value(), words.data(), pe.my_pe());
      run_clean(pe, {}, every_operation<R, T>, context.value(), words.data() + n, next);
      pe.barrier();
      for (size_t i = 0; i < 2 * n; ++i) {
        EXPECT_EQ(words[i].before, all_ones<T>());
        EXPECT_EQ(words[i].after, T{77});
      }
      pe.barrier();
    });
  }
};
using Integers = testing::Types<uint32_t, int32_t, uint64_t, int64_t>;
TYPED_TEST_SUITE(AtomicsOn, Integers);

TYPED_TEST(AtomicsOn, EveryOperationByTheDefaultKindOfContext) {
  this->template every_operation_leaves_neighbours_alone<Reach::kGpu>();
}
TYPED_TEST(AtomicsOn, EveryOperationByABlockContext) {
  this->template every_operation_leaves_neighbours_alone<Reach::kBlock>();
}
TYPED_TEST(AtomicsOn, EveryOperationByAnExclusiveContext) {
  this->template every_operation_leaves_neighbours_alone<Reach::kLane>();
}

// Every lane of every PE adds to the word at PE 0; whatever it saw before, nobody else saw.
template <class T>
PEAL_KERNEL take_numbers(Verdict* verdict, Context ctx, T* counter, uint32_t* taken, int rounds) {
  for (int i = 0; i < rounds; ++i) {
    const Fetched<T> mine =
        i % 2 == 0 ? atomic_fetch_add(ctx, counter, T{1}, 0) : atomic_fetch_inc(ctx, counter, 0);
    expect_ok(verdict, mine.status);
    expect_ok(verdict, atomic_inc(ctx, taken + mine.value, 0));
  }
  expect_ok(verdict, quiet(ctx));
}

TYPED_TEST(AtomicsOn, NumbersTakenByAllLanesOfAllPesAreUnique) {
  on_every_pe([](Runtime& pe) {
    constexpr unsigned kBlocks = 4;
    constexpr unsigned kThreads = 70;
    constexpr int kRounds = 6;
    const size_t total = static_cast<size_t>(pe.n_pes()) * kBlocks * kThreads * kRounds;
    Symmetric<TypeParam> counter(pe, 1);
    Symmetric<uint32_t> taken(pe, total);
    run_clean(pe, {.blocks = kBlocks, .threads = kThreads}, take_numbers<TypeParam>, pe.context(),
              counter.data(), taken.data(), kRounds);
    pe.barrier();
    if (pe.my_pe() == 0) {
      EXPECT_EQ(static_cast<size_t>(counter[0]), total);
      for (size_t i = 0; i < total; ++i) ASSERT_EQ(taken[i], 1u) << "number " << i;
    }
    pe.barrier();
  });
}

template <class T>
PEAL_KERNEL add_everywhere(Verdict* verdict, Context ctx, T* sum, int rounds) {
  for (int i = 0; i < rounds; ++i) {
    for (int pe = 0; pe < n_pes(ctx); ++pe) {
      expect_ok(verdict, atomic_inc(ctx, sum, pe));
      expect_ok(verdict, atomic_add(ctx, sum, 3, pe));
    }
  }
  expect_ok(verdict, quiet(ctx));
}

TYPED_TEST(AtomicsOn, SumsOfAllLanesAreExact) {
  on_every_pe([](Runtime& pe) {
    Symmetric<TypeParam> sum(pe, 1);
    run_clean(pe, {.blocks = 3, .threads = 100}, add_everywhere<TypeParam>, pe.context(),
              sum.data(), 5);
    pe.barrier();
    EXPECT_EQ(sum[0], static_cast<TypeParam>(4 * 5 * 300 * pe.n_pes()));
    pe.barrier();
  });
}

template <class T>
PEAL_KERNEL add_by_compare_swap(Verdict* verdict, Context ctx, T* sum, int times) {
  T guess = 0;
  for (int done = 0; done < times;) {
    const Fetched<T> seen =
        atomic_compare_swap(ctx, sum, guess, static_cast<T>(guess + T{5}), n_pes(ctx) - 1);
    expect_ok(verdict, seen.status);
    if (seen.status != Status::kOk) return;
    if (seen.value == guess) ++done;
    guess = seen.value == guess ? static_cast<T>(guess + T{5}) : seen.value;
  }
}

TYPED_TEST(AtomicsOn, CompareSwapLoopsLoseNothing) {
  on_every_pe([](Runtime& pe) {
    Symmetric<TypeParam> sum(pe, 1);
    run_clean(pe, {.blocks = 2, .threads = 6}, add_by_compare_swap<TypeParam>, pe.context(),
              sum.data(), 8);
    pe.barrier();
    if (pe.my_pe() == pe.n_pes() - 1) {
      EXPECT_EQ(sum[0], static_cast<TypeParam>(5 * 8 * 12 * pe.n_pes()));
    }
    pe.barrier();
  });
}

// Each PE owns the bits of its number in every mask; lanes own the words.
template <class T>
PEAL_KERNEL turn_bits(Verdict* verdict, Context ctx, T* masks, int pe) {
  T* const word = masks + thread_in_block();
  const T mine = static_cast<T>(T{0x11} << (my_pe(ctx) % 4));
  expect_ok(verdict, atomic_or(ctx, word, mine, pe));
  expect_ok(verdict, atomic_xor(ctx, word, static_cast<T>(T{0x1100} << (my_pe(ctx) % 4)), pe));
  const T cleared = static_cast<T>(~(T{0x01} << (my_pe(ctx) % 4)));
  expect_ok(verdict, atomic_and(ctx, word, cleared, pe));
  expect_ok(verdict, quiet(ctx));
}

TYPED_TEST(AtomicsOn, BitsOfDifferentPesDoNotDisturbEachOther) {
  on_every_pe([](Runtime& pe) {
    if (pe.n_pes() > 4) GTEST_SKIP() << "a mask has room for 4 PEs";
    Symmetric<TypeParam> masks(pe, 64);
    run_clean(pe, {.blocks = 1, .threads = 64}, turn_bits<TypeParam>, pe.context(), masks.data(),
              0);
    pe.barrier();
    TypeParam wanted = 0;
    for (int i = 0; i < pe.n_pes() && pe.my_pe() == 0; ++i) {
      wanted = static_cast<TypeParam>(wanted | TypeParam{0x1110} << i);
    }
    for (size_t i = 0; i < 64; ++i) ASSERT_EQ(masks[i], wanted) << "word " << i;
    pe.barrier();
  });
}

template <class T>
PEAL_KERNEL exchange_values(Verdict* verdict, Context ctx, T* word, int pe) {
  expect_word(verdict, atomic_fetch(ctx, word, pe), T{1.5});
  expect_word(verdict, atomic_swap(ctx, word, T{-2.25}, pe), T{1.5});
  expect_word(verdict, atomic_compare_swap(ctx, word, T{-2.25}, T{1e30f}, pe), T{-2.25});
  expect_word(verdict, atomic_compare_swap(ctx, word, T{0}, T{7}, pe), T{1e30f});
  expect_ok(verdict, atomic_set(ctx, word, T{0.125}, pe));
  expect_word(verdict, atomic_fetch(ctx, word, pe), T{0.125});
}

template <class T>
class AtomicsOnReals : public testing::Test {};
using Reals = testing::Types<float, double>;
TYPED_TEST_SUITE(AtomicsOnReals, Reals);

TYPED_TEST(AtomicsOnReals, SetSwapAndFetch) {
  on_every_pe([](Runtime& pe) {
    Symmetric<TypeParam> word(pe, 1);
    word[0] = TypeParam{1.5};
    pe.barrier();
    run_clean(pe, {}, exchange_values<TypeParam>, pe.context(), word.data(),
              (pe.my_pe() + 1) % pe.n_pes());
    pe.barrier();
    EXPECT_EQ(word[0], TypeParam{0.125});
    pe.barrier();
  });
}

// More lanes fetch at once than a queue has landing cells.
PEAL_KERNEL fetch_by_all_lanes(Verdict* verdict, Context ctx, uint64_t* words, int pe) {
  const uint32_t lane = block_in_grid() * threads_in_block() + thread_in_block();
  for (uint64_t round = 0; round < 4; ++round) {
    expect_word(verdict, atomic_fetch_add(ctx, words + lane, uint64_t{1} << 32, pe),
                lane + (round << 32));
    expect_word(verdict, g(ctx, words + lane, pe), lane + ((round + 1) << 32));
  }
}

TEST(Atomics, MoreFetchesAtOnceThanLandingCells) {
  on_every_pe([](Runtime& pe) {
    constexpr unsigned kBlocks = 5;
    constexpr unsigned kThreads = 128;
    const auto context = pe.make_context({.queues_per_peer = 1, .depth = 256});
    Symmetric<uint64_t> words(pe, kBlocks * kThreads);
    for (size_t i = 0; i < kBlocks * kThreads; ++i) words[i] = i;
    pe.barrier();
    run_clean(pe, {.blocks = kBlocks, .threads = kThreads}, fetch_by_all_lanes, context.value(),
              words.data(), (pe.my_pe() + 1) % pe.n_pes());
    pe.barrier();
  });
}

// Lanes of one warp go to different PEs and do different things.
PEAL_KERNEL mix_in_a_warp(Verdict* verdict, Context ctx, uint32_t* narrow, uint64_t* wide) {
  const uint32_t lane = thread_in_block();
  const int pe = static_cast<int>(lane) % n_pes(ctx);
  if (lane % 3 == 0) {
    expect_ok(verdict, atomic_add(ctx, narrow, 1, pe));
  } else if (lane % 3 == 1) {
    expect_ok(verdict, atomic_fetch_add(ctx, wide, 1, pe).status);
  } else {
    expect_ok(verdict, p(ctx, wide + 1 + lane, uint64_t{lane}, pe));
  }
  expect_ok(verdict, quiet(ctx));
}

TEST(Atomics, LanesOfAWarpMayDiverge) {
  on_every_pe([](Runtime& pe) {
    Symmetric<uint32_t> narrow(pe, 1);
    Symmetric<uint64_t> wide(pe, 100);
    run_clean(pe, {.blocks = 1, .threads = 96}, mix_in_a_warp, pe.context(), narrow.data(),
              wide.data());
    pe.barrier();
    const auto n = static_cast<uint32_t>(pe.n_pes());
    uint32_t adds = 0;
    uint64_t fetches = 0;
    for (uint32_t lane = static_cast<uint32_t>(pe.my_pe()); lane < 96; lane += n) {
      adds += lane % 3 == 0 ? n : 0;
      fetches += lane % 3 == 1 ? n : 0;
      EXPECT_EQ(wide[1 + lane], lane % 3 == 2 ? lane : 0);
    }
    EXPECT_EQ(narrow[0], adds);
    EXPECT_EQ(wide[0], fetches);
    pe.barrier();
  });
}

}  // namespace
}  // namespace peal::api_test
