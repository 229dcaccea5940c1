// SPDX-License-Identifier: Apache-2.0
//
// Every device operation in every scope, between neighbours in a ring of PEs, checked by the
// receivers' kernels. The same source runs on CPUs (tests/mp) and on GPUs, over whatever transport
// the job uses.
//
//   mpirun -np 2 suite [--quick] [--only TEXT]
#include <algorithm>
#include <stdexcept>

#include "tests/gpu/suite.h"

namespace {

using namespace peal;
using namespace peal::suite;

/// Bytes, and how far source and destination are from a 256-byte line.
struct Shape {
  uint32_t bytes;
  uint32_t from;
  uint32_t to;
};

PEAL_DEVICE void check_range(const Memory& m, uint32_t sender, uint32_t seed, Shape s) {
  const uint32_t first = 256 + s.to;
  for (uint32_t i = thread_in_block(); i < s.bytes + 512; i += threads_in_block()) {
    const uint32_t at = 256 - 256 + s.to + i;  // from 256 bytes before the range to 256 behind it
    const bool inside = at >= first && at < first + s.bytes;
    const unsigned char expected = inside ? pattern(sender, seed, 256 + s.from + (at - first))
                                          : static_cast<unsigned char>(0xa5);
    count_error(m, m.to[at] != expected);
  }
}

/// put, then a barrier, then each PE looks at what its neighbour put.
template <class C, class S>
PEAL_KERNEL put_case(C ctx, S scope, Memory m, Shape s, uint32_t seed) {
  if (block_in_grid() == 0 && thread_in_block() < scope.size()) {
    count_error(m,
                put(ctx, scope, m.to + 256 + s.to, m.from + 256 + s.from, s.bytes, next_pe(ctx)));
  }
  count_error(m, barrier_all(ctx, block));
  check_range(m, previous_pe(ctx), seed, s);
}

template <class C, class S>
PEAL_KERNEL put_nbi_case(C ctx, S scope, Memory m, Shape s, uint32_t seed) {
  if (thread_in_block() < scope.size()) {
    const Ticket ticket =
        put_nbi(ctx, scope, m.to + 256 + s.to, m.from + 256 + s.from, s.bytes, next_pe(ctx));
    count_error(m, wait(ctx, ticket));
    count_error(m, quiet(ctx, scope));
  }
  count_error(m, barrier_all(ctx, block));
  check_range(m, previous_pe(ctx), seed, s);
}

template <class C, class S>
PEAL_KERNEL get_case(C ctx, S scope, Memory m, Shape s, uint32_t seed) {
  if (thread_in_block() < scope.size()) {
    count_error(m,
                get(ctx, scope, m.to + 256 + s.to, m.from + 256 + s.from, s.bytes, next_pe(ctx)));
  }
  block.sync();
  check_range(m, static_cast<uint32_t>(next_pe(ctx)), seed, s);
  count_error(m, barrier_all(ctx, block));
}

template <class C, class S>
PEAL_KERNEL get_nbi_case(C ctx, S scope, Memory m, Shape s, uint32_t seed) {
  if (thread_in_block() < scope.size()) {
    const Ticket ticket =
        get_nbi(ctx, scope, m.to + 256 + s.to, m.from + 256 + s.from, s.bytes, next_pe(ctx));
    count_error(m, wait(ctx, ticket));
  }
  block.sync();
  check_range(m, static_cast<uint32_t>(next_pe(ctx)), seed, s);
  count_error(m, barrier_all(ctx, block));
}

/// Whoever sees the signal sees the data: no barrier in between.
template <class C, class S>
PEAL_KERNEL put_signal_case(C ctx, S scope, Memory m, Shape s, uint32_t seed) {
  if (thread_in_block() < scope.size()) {
    count_error(m, put_signal(ctx, scope, m.to + 256 + s.to, m.from + 256 + s.from, s.bytes,
                              Signal::set(&m.signals[0], 7, next_pe(ctx))));
    count_error(m,
                put_signal(ctx, scope, m.to, m.to, 0, Signal::add(&m.signals[1], 3, next_pe(ctx))));
  }
  count_error(m, wait_until(ctx, block, &m.signals[0], Compare::kEq, 7));
  check_range(m, previous_pe(ctx), seed, s);
  count_error(m, wait_until(ctx, block, &m.signals[1], Compare::kGe, 3));
  count_error(m, barrier_all(ctx, block));
}

/// Many blocks send at once, each its own part.
template <class S>
PEAL_KERNEL all_blocks_put(Context ctx, S scope, Memory m, uint32_t seed, bool sending) {
  const uint32_t scopes = blocks_in_grid() * (threads_in_block() / scope.size());
  const uint32_t mine =
      block_in_grid() * (threads_in_block() / scope.size()) + thread_in_block() / scope.size();
  const uint32_t share = kBytes / scopes;
  if (sending) {
    count_error(m,
                put(ctx, scope, m.to + mine * share, m.from + mine * share, share, next_pe(ctx)));
    count_error(m, quiet(ctx, scope));
    return;
  }
  for (uint32_t i = mine * share + scope.rank(); i < (mine + 1) * share; i += scope.size()) {
    count_error(m, m.to[i] != pattern(previous_pe(ctx), seed, i));
  }
}

template <class T>
PEAL_DEVICE void scalar(Context ctx, const Memory& m, uint32_t slot) {
  auto* word = reinterpret_cast<T*>(&m.words[slot]);
  const auto mine = static_cast<T>(0x0102030405060708ull + static_cast<uint64_t>(ctx.pe));
  count_error(m, p(ctx, word, mine, next_pe(ctx)));
  count_error(m, barrier_all(ctx));
  count_error(m, *word != static_cast<T>(0x0102030405060708ull + previous_pe(ctx)));
  const Fetched<T> theirs = g(ctx, word, next_pe(ctx));
  count_error(m, theirs.status);
  count_error(m, theirs.value != mine);
  count_error(m, barrier_all(ctx));
}

PEAL_KERNEL scalars(Context ctx, Memory m) {
  scalar<uint8_t>(ctx, m, 0);
  scalar<uint16_t>(ctx, m, 1);
  scalar<uint32_t>(ctx, m, 2);
  scalar<uint64_t>(ctx, m, 3);
}

template <class S>
PEAL_KERNEL strided(Context ctx, S scope, Memory m) {
  constexpr uint32_t kCount = 50;
  auto* source = reinterpret_cast<uint32_t*>(m.from);
  for (uint32_t i = thread_in_block(); i < 3 * kCount; i += threads_in_block()) {
    source[i] = 1000u * static_cast<uint32_t>(ctx.pe) + i;
  }
  block.sync();
  auto* target = reinterpret_cast<uint32_t*>(m.words);
  if (thread_in_block() < scope.size()) {
    count_error(m, iput(ctx, scope, target, source, Strides{2, 3}, kCount, next_pe(ctx)));
  }
  count_error(m, barrier_all(ctx, block));
  for (uint32_t i = thread_in_block(); i < kCount; i += threads_in_block()) {
    count_error(m, target[2 * i] != 1000u * previous_pe(ctx) + 3 * i);
    count_error(m, target[2 * i + 1] != 0);
  }
  auto* back = reinterpret_cast<uint32_t*>(m.signals);
  if (thread_in_block() < scope.size()) {
    count_error(m, iget(ctx, scope, back, target, Strides{1, 2}, kCount, next_pe(ctx)));
  }
  block.sync();
  for (uint32_t i = thread_in_block(); i < kCount; i += threads_in_block()) {
    count_error(m, back[i] != 1000u * static_cast<uint32_t>(ctx.pe) + 3 * i);
  }
  count_error(m, barrier_all(ctx, block));
}

/// All atomics on one word of the neighbour, each old value checked; nobody else touches the word.
template <class T>
PEAL_KERNEL atomics_alone(Context ctx, Memory m) {
  auto* word = reinterpret_cast<T*>(&m.words[0]);
  const int pe = next_pe(ctx);
  const auto expect = [&](const Fetched<T>& old, T value) {
    count_error(m, old.status);
    count_error(m, old.value != value);
  };
  count_error(m, atomic_set(ctx, word, 10, pe));
  expect(atomic_fetch_add(ctx, word, 5, pe), 10);
  count_error(m, atomic_add(ctx, word, 1, pe));
  count_error(m, atomic_inc(ctx, word, pe));
  expect(atomic_fetch_inc(ctx, word, pe), 17);
  expect(atomic_swap(ctx, word, 0xf0, pe), 18);
  expect(atomic_compare_swap(ctx, word, 1, 2, pe), 0xf0);
  expect(atomic_compare_swap(ctx, word, 0xf0, 0xff, pe), 0xf0);
  expect(atomic_fetch_and(ctx, word, 0x3c, pe), 0xff);
  expect(atomic_fetch_or(ctx, word, 0x41, pe), 0x3c);
  expect(atomic_fetch_xor(ctx, word, 0x7f, pe), 0x7d);
  count_error(m, atomic_and(ctx, word, 0x03, pe));
  count_error(m, atomic_or(ctx, word, 0x10, pe));
  count_error(m, atomic_xor(ctx, word, 0x01, pe));
  expect(atomic_fetch(ctx, word, pe), 0x13);
  count_error(m, barrier_all(ctx));
  count_error(m, *word != 0x13);
}

/// Every lane of every PE adds to one word of PE 0 and collects tickets from another.
template <class T>
PEAL_KERNEL atomics_together(Context ctx, Memory m, uint32_t rounds) {
  auto* sum = reinterpret_cast<T*>(&m.words[0]);
  auto* ticket = reinterpret_cast<T*>(&m.words[1]);
  for (uint32_t i = 0; i < rounds; ++i) {
    count_error(m, atomic_add(ctx, sum, 2, 0));
    const Fetched<T> mine = atomic_fetch_inc(ctx, ticket, 0);
    count_error(m, mine.status);
    // Each ticket is handed out once: mark it, and count a second mark.
    const Fetched<uint64_t> mark =
        atomic_fetch_inc(ctx, &m.signals[static_cast<uint64_t>(mine.value) % kWords], 0);
    count_error(m, mark.value != 0);
  }
  count_error(m, quiet(ctx));
}

PEAL_KERNEL check_sum(Context ctx, Memory m, uint64_t expected, bool wide) {
  if (ctx.pe != 0) return;
  const uint64_t sum = wide ? m.words[0] : *reinterpret_cast<uint32_t*>(&m.words[0]);
  count_error(m, sum != expected);
}

PEAL_KERNEL waits(Context ctx, Memory m) {
  const int pe = next_pe(ctx);
  for (uint32_t i = 0; i < 8; ++i)
    count_error(m, signal(ctx, Signal::set(&m.signals[i], i + 1, pe)));
  count_error(m, wait_until(ctx, &m.signals[0], Compare::kEq, 1));
  count_error(m, wait_until(ctx, &m.signals[1], Compare::kNe, 0));
  count_error(m, wait_until(ctx, &m.signals[2], Compare::kGt, 2));
  count_error(m, wait_until(ctx, &m.signals[3], Compare::kLe, 4));
  const WaitSet<uint64_t> all{m.signals, 8};
  count_error(m, wait_until_all(ctx, all, Compare::kGe, 1));
  const WaitAny any = wait_until_any(ctx, all, Compare::kEq, 5);
  count_error(m, any.status);
  count_error(m, any.index != 4);
  size_t found[8];
  const WaitSome some = wait_until_some(ctx, all, found, Compare::kGt, 6);
  count_error(m, some.count != 2 || found[0] != 6 || found[1] != 7);
  count_error(m, !test(ctx, &m.signals[7], Compare::kEq, 8));
  count_error(m, test_any(ctx, all, Compare::kGt, 8) != kNone);
  count_error(m, barrier_all(ctx));
}

/// Data, fence, flag by plain puts: the flag never overtakes.
template <class S>
PEAL_KERNEL fenced(Context ctx, S scope, Memory m, uint32_t rounds) {
  const int pe = next_pe(ctx);
  for (uint64_t round = 1; round <= rounds; ++round) {
    for (uint32_t i = thread_in_block(); i < 64; i += threads_in_block()) {
      reinterpret_cast<uint64_t*>(m.from)[i] = round;
    }
    block.sync();
    if (thread_in_block() < scope.size()) {
      count_error(m, put(ctx, scope, m.words, reinterpret_cast<uint64_t*>(m.from), 64, pe));
      count_error(m, fence(ctx, scope));
      if (scope.leader()) count_error(m, p(ctx, &m.signals[0], round, pe));
    }
    count_error(m, wait_until(ctx, block, &m.signals[0], Compare::kGe, round));
    for (uint32_t i = thread_in_block(); i < 64; i += threads_in_block()) {
      count_error(m, m.words[i] < round);
    }
    count_error(m, barrier_all(ctx, block));
  }
}

template <class S>
PEAL_KERNEL barriers(Context ctx, S scope, Memory m, uint32_t rounds) {
  if (thread_in_block() >= scope.size()) return;
  for (uint64_t round = 1; round <= rounds; ++round) {
    if (scope.leader()) {
      for (int pe = 0; pe < ctx.n_pes; ++pe) count_error(m, p(ctx, &m.words[ctx.pe], round, pe));
    }
    count_error(m, barrier_all(ctx, scope));
    for (int pe = static_cast<int>(scope.rank()); pe < ctx.n_pes;
         pe += static_cast<int>(scope.size())) {
      const uint64_t seen = load_relaxed<Reach::kSystem>(&m.words[pe]);
      count_error(m, seen != round && seen != round + 1);
    }
    count_error(m, sync_all(ctx, scope));
  }
}

PEAL_KERNEL mapped(Context ctx, Memory m, uint64_t* mapped_peers) {
  for (int pe = 0; pe < ctx.n_pes; ++pe) {
    uint64_t* theirs = ptr(ctx, &m.words[16 + ctx.pe], pe);
    if (theirs == nullptr) continue;
    *mapped_peers += 1;
    store_release<Reach::kSystem>(theirs, uint64_t{77} + static_cast<uint64_t>(ctx.pe));
  }
  count_error(m, ptr(ctx, m.words, ctx.n_pes) != nullptr);
  count_error(m, ptr(ctx, m.words, ctx.pe) != m.words);
  count_error(m, barrier_all(ctx));
}

PEAL_KERNEL refused(Context ctx, Memory m) {
  int local = 0;
  count_error(m, p(ctx, &m.words[0], 1, ctx.n_pes) != Status::kBadPe);
  count_error(m, p(ctx, &m.words[0], 1, -1) != Status::kBadPe);
  count_error(m, p(ctx, &local, 1, 0) != Status::kNotSymmetric);
  auto* odd = reinterpret_cast<uint64_t*>(reinterpret_cast<char*>(m.words) + 4);
  count_error(m, atomic_add(ctx, odd, 1, 0) != Status::kMisaligned);
  count_error(m, quiet(ctx) != Status::kBadPe);  // the first one stays
}

constexpr Shape kShapes[] = {
    {0, 0, 0},    {1, 0, 0},      {3, 1, 2},      {8, 0, 0},      {8, 4, 4},
    {12, 0, 0},   {13, 0, 1},     {28, 0, 0},     {29, 0, 0},     {64, 0, 0},
    {64, 8, 8},   {100, 4, 8},    {1000, 3, 3},   {4095, 1, 9},   {4096, 0, 0},
    {4099, 2, 0}, {65536, 0, 16}, {65537, 16, 0}, {262147, 0, 0}, {1000000, 48, 8},
};

constexpr uint32_t kQuickSizes[] = {0, 3, 12, 28, 64, 4099};

template <class C, class S>
void transfers(Suite& suite, const C& ctx, S scope, const std::string& name) {
  const Grid grid{.blocks = 1, .threads = 128};
  for (const Shape& s : kShapes) {
    if (suite.quick() && std::ranges::find(kQuickSizes, s.bytes) == std::end(kQuickSizes)) continue;
    if (std::is_same_v<S, Thread> && s.bytes > 70000) continue;
    const std::string label = " " + name + " " + std::to_string(s.bytes) + " bytes, " +
                              std::to_string(s.from) + "/" + std::to_string(s.to) + " off";
    const Memory& m = suite.memory();
    suite.run("put" + label,
              [&](uint32_t seed) { launch(grid, put_case<C, S>, ctx, scope, m, s, seed).wait(); });
    suite.run("put_nbi" + label, [&](uint32_t seed) {
      launch(grid, put_nbi_case<C, S>, ctx, scope, m, s, seed).wait();
    });
    suite.run("get" + label,
              [&](uint32_t seed) { launch(grid, get_case<C, S>, ctx, scope, m, s, seed).wait(); });
    suite.run("get_nbi" + label, [&](uint32_t seed) {
      launch(grid, get_nbi_case<C, S>, ctx, scope, m, s, seed).wait();
    });
    suite.run("put_signal" + label, [&](uint32_t seed) {
      launch(grid, put_signal_case<C, S>, ctx, scope, m, s, seed).wait();
    });
  }
}

template <class S>
void scoped(Suite& suite, S scope, const std::string& name) {
  const Context ctx = suite.pe().context();
  const Memory& m = suite.memory();
  transfers(suite, ctx, scope, name);
  suite.run("iput and iget " + name, [&](uint32_t) {
    launch({.blocks = 1, .threads = 64}, strided<S>, ctx, scope, m).wait();
  });
  suite.run("fence " + name, [&](uint32_t) {
    launch({.blocks = 1, .threads = 64}, fenced<S>, ctx, scope, m, suite.quick() ? 5u : 50u).wait();
  });
  suite.run("barrier_all and sync_all " + name, [&](uint32_t) {
    launch({.blocks = 1, .threads = 64}, barriers<S>, ctx, scope, m, suite.quick() ? 10u : 100u)
        .wait();
  });
  if constexpr (!std::is_same_v<S, Thread>) {
    suite.run("put by many blocks " + name, [&](uint32_t seed) {
      launch({.blocks = 8, .threads = 64}, all_blocks_put<S>, ctx, scope, m, seed, true).wait();
      suite.pe().barrier();
      launch({.blocks = 8, .threads = 64}, all_blocks_put<S>, ctx, scope, m, seed, false).wait();
    });
  }
}

template <class T>
void atomics(Suite& suite, const std::string& name) {
  const Context ctx = suite.pe().context();
  const Memory& m = suite.memory();
  suite.run("atomics alone " + name,
            [&](uint32_t) { launch({}, atomics_alone<T>, ctx, m).wait(); });
  suite.run("atomics together " + name, [&](uint32_t) {
    const auto pes = static_cast<uint64_t>(suite.pe().n_pes());
    const auto rounds = static_cast<uint32_t>(kWords / (pes * 128));
    launch({.blocks = 2, .threads = 64}, atomics_together<T>, ctx, m, rounds).wait();
    suite.pe().barrier();
    launch({}, check_sum, ctx, m, pes * 128 * rounds * 2, sizeof(T) == 8).wait();
  });
}

int run_all(const Selection& selection) {
  Runtime pe = start();
  Suite suite(pe, selection);
  if (pe.my_pe() == 0) {
    std::printf("%d PEs, transport %s, nic %s\n", pe.n_pes(), pe.transport(), pe.nic().c_str());
  }
  scoped(suite, thread, "thread");
  scoped(suite, warp, "warp");
  scoped(suite, block, "block");
  const auto exclusive = pe.make_context<Reach::kLane>();
  transfers(suite, exclusive.value(), block, "block exclusive");
  const auto shared = pe.make_context<Reach::kBlock>({.queues_per_peer = 1});
  transfers(suite, shared.value(), warp, "warp block-shared");
  const Memory& m = suite.memory();
  const Context ctx = pe.context();
  suite.run("p and g", [&](uint32_t) { launch({}, scalars, ctx, m).wait(); });
  suite.run("waits", [&](uint32_t) { launch({}, waits, ctx, m).wait(); });
  atomics<uint32_t>(suite, "uint32_t");
  atomics<int32_t>(suite, "int32_t");
  atomics<uint64_t>(suite, "uint64_t");
  atomics<int64_t>(suite, "int64_t");
  auto* mapped_peers = pe.allocate<uint64_t>(1);
  suite.run("ptr", [&](uint32_t) { launch({}, mapped, ctx, m, mapped_peers).wait(); });
  const auto last = pe.make_context();
  suite.run("refused arguments", [&](uint32_t) {
    launch({}, refused, last.value(), m).wait();
    if (pe.status() == Status::kOk) throw std::runtime_error("the host hears of no refusal");
  });
  return suite.finish();
}

}  // namespace

int main(int argc, char** argv) {
  return peal::run_main([&] { return run_all(parse(argc, argv)); });
}
