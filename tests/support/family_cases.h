// SPDX-License-Identifier: Apache-2.0
//
// Batches, tiles, atomics that do not wait, atomics of reals, comparisons with many values: kernels
// that act and check, for programs whose host cannot touch their memory (tests/gpu) and for those
// whose host can (tests/mp).
//
// Every PE runs every case in the same order. A case answers what went wrong on its PE, or nothing.
#pragma once

#include <cstring>
#include <string>

#include "peal/peal.h"

namespace peal::api_test {

/// What kernels found wrong: [0] how often, [1] where first.
using Faults = uint64_t*;

PEAL_DEVICE void check(Faults faults, bool good, unsigned line = __builtin_LINE()) {
  if (good) return;
  if (fetch_add_relaxed<Reach::kSystem>(&faults[0], uint64_t{1}) != 0) return;
  store_relaxed<Reach::kSystem>(&faults[1], uint64_t{line});
}
PEAL_DEVICE void check(Faults faults, Status status, unsigned line = __builtin_LINE()) {
  check(faults, status == Status::kOk, line);
}

template <class T>
class Cells {  // symmetric, zeroed
 public:
  Cells(Runtime& pe, size_t count) : pe_(pe), data_(pe.allocate<T>(count)) {}
  ~Cells() { pe_.free(data_); }
  Cells(const Cells&) = delete;
  Cells& operator=(const Cells&) = delete;
  T* data() const { return data_; }

 private:
  Runtime& pe_;
  T* data_;
};

/// Launches a kernel that takes Faults first, waits for all PEs.
template <class... Parameters, class... Arguments>
std::string run_family(Runtime& pe, const Grid& grid, void (*kernel)(Faults, Parameters...),
                       Arguments&&... arguments) {
  const Cells<uint64_t> faults(pe, 2);
  launch(grid, kernel, faults.data(), std::forward<Arguments>(arguments)...).wait();
  pe.barrier();
  uint64_t found[2] = {};
  pe.copy_out(found, faults.data(), sizeof(found));
  if (found[0] == 0) return "";
  return std::to_string(found[0]) + " faults, the first at line " + std::to_string(found[1]);
}

PEAL_DEVICE int next_pe(const ContextFields& ctx) { return (ctx.pe + 1) % ctx.n_pes; }
PEAL_DEVICE int previous_pe(const ContextFields& ctx) {
  return (ctx.pe + ctx.n_pes - 1) % ctx.n_pes;
}

// ---- tiles

/// No word, and longer than a work request may carry inline.
struct Wide {
  uint32_t word[9];
};

template <class T>
PEAL_HD T value_at(int pe, size_t i) {
  const uint32_t seed = (static_cast<uint32_t>(i) + 1) * 2654435761u + static_cast<uint32_t>(pe);
  if constexpr (std::is_same_v<T, Wide>) {
    T value{};
    for (uint32_t k = 0; k < 9; ++k) value.word[k] = seed + k;
    return value;
  } else {
    return static_cast<T>(seed);
  }
}
template <class T>
PEAL_HD bool same(const T& a, const T& b) {
  if constexpr (std::is_same_v<T, Wide>) {
    bool all = true;
    for (uint32_t k = 0; k < 9; ++k) all = all && a.word[k] == b.word[k];
    return all;
  } else {
    return a == b;
  }
}

/// Checks that each row of the tile at `at` is that of PE `pe`, and the gaps are as they were.
template <class S, class T>
PEAL_DEVICE void check_tile(Faults faults, S scope, const T* at, const Tile& tile, int pe,
                            unsigned line = __builtin_LINE()) {
  const auto pitch = static_cast<size_t>(tile.pitch.dst);
  const auto source_pitch = static_cast<size_t>(tile.pitch.src);
  for (size_t i = scope.rank(); i < tile.rows * pitch; i += scope.size()) {
    const size_t row = i / pitch;
    const size_t column = i % pitch;
    T wanted{};
    if (column < tile.columns) wanted = value_at<T>(pe, row * source_pitch + column);
    check(faults, same(load_payload(at + i), wanted), line);
  }
  scope.sync();
}

template <class T>
struct TileMemory {
  T* from;
  T* to;
  T* back;
  T* later;
};

template <Reach R, class S, class T>
PEAL_KERNEL move_tiles(Faults faults, BasicContext<R> ctx, S scope, TileMemory<T> m, Tile tile) {
  const size_t given = tile.rows * static_cast<size_t>(tile.pitch.src);
  for (size_t i = scope.rank(); i < given; i += scope.size()) {
    store_payload(m.from + i, value_at<T>(ctx.pe, i));
  }
  check(faults, barrier_all(ctx, scope));
  const int next = next_pe(ctx);
  check(faults, put(ctx, scope, m.to, m.from, tile, next));
  check(faults, quiet(ctx, scope, next));
  check(faults, get(ctx, scope, m.back, m.from, tile, next));
  check_tile(faults, scope, m.back, tile, next);
  const Ticket ticket = get_nbi(ctx, scope, m.later, m.from, tile, next);
  check(faults, wait(ctx, scope, ticket));
  check_tile(faults, scope, m.later, tile, next);
  check(faults, barrier_all(ctx, scope));
  check_tile(faults, scope, m.to, tile, previous_pe(ctx));
}

template <class T, class S, Reach R>
std::string run_tile(Runtime& pe, const BasicContext<R>& ctx, const Grid& grid, const Tile& tile) {
  const size_t given = tile.rows * static_cast<size_t>(tile.pitch.src) + 1;
  const size_t taken = tile.rows * static_cast<size_t>(tile.pitch.dst) + 1;
  const Cells<T> from(pe, given);
  const Cells<T> to(pe, taken);
  const Cells<T> back(pe, taken);
  const Cells<T> later(pe, taken);
  return run_family(pe, grid, move_tiles<R, S, T>, ctx, S{},
                    TileMemory<T>{from.data(), to.data(), back.data(), later.data()}, tile);
}

template <class T, class S, Reach R>
std::string run_tiles(Runtime& pe, const BasicContext<R>& ctx, const Grid& grid) {
  std::string wrong;
  for (const Tile& tile : {Tile{9, 5, {7, 8}}, Tile{40, 1, {3, 2}}, Tile{3, 70, {71, 96}},
                           Tile{4, 6, {6, 6}}, Tile{0, 4, {4, 4}}}) {
    const std::string one = run_tile<T, S>(pe, ctx, grid, tile);
    if (wrong.empty() && !one.empty()) wrong = std::to_string(tile.rows) + " rows: " + one;
  }
  return wrong;
}

// ---- batches

/// To each PE: data and a word behind each other, told by a signal; a counter of all.
template <Reach R, class S>
PEAL_KERNEL post_in_batches(Faults faults, BasicContext<R> ctx, S scope, uint32_t* to,
                            uint32_t* from, uint64_t* words) {
  constexpr size_t kCount = 40;
  const auto me = static_cast<size_t>(ctx.pe);
  const auto pes = static_cast<size_t>(ctx.n_pes);
  uint64_t* const flags = words;
  uint64_t* const values = words + pes;
  uint64_t* const counter = words + 2 * pes;
  for (size_t i = scope.rank(); i < kCount; i += scope.size()) {
    store_payload(from + i, value_at<uint32_t>(ctx.pe, i));
  }
  {
    Batch batch(ctx);
    for (int pe = 0; pe < ctx.n_pes; ++pe) {
      check(faults, batch.put_nbi(scope, to + me * kCount, from, kCount / 2, pe).status);
      if (scope.leader()) {
        check(faults, batch.p(values + me, uint64_t{me + 7}, pe));
        check(faults, batch.atomic_add(counter, uint64_t{me + 1}, pe));
      }
      check(faults, batch
                        .put_signal_nbi(scope, to + me * kCount + kCount / 2, from + kCount / 2,
                                        kCount / 2, Signal::set(flags + me, 3, pe))
                        .status);
    }
    scope.sync();
  }
  for (size_t pe = 0; pe < pes; ++pe) {
    const Fetched<uint64_t> seen = signal_wait_until(ctx, scope, flags + pe, Compare::kGe, 3);
    check(faults, seen.status);
    check(faults, seen.value == 3 && signal_fetch(ctx, flags + pe) == 3);
    for (size_t i = scope.rank(); i < kCount; i += scope.size()) {
      check(faults,
            load_payload(to + pe * kCount + i) == value_at<uint32_t>(static_cast<int>(pe), i));
    }
  }
  check(faults, barrier_all(ctx, scope));
  for (size_t pe = 0; pe < pes; ++pe) {
    check(faults, load_relaxed<Reach::kSystem>(values + pe) == pe + 7);
  }
  check(faults, load_relaxed<Reach::kSystem>(counter) == pes * (pes + 1) / 2);
}

/// Nobody rings: quiet for one PE, then a ticket's own wait.
template <Reach R>
PEAL_KERNEL hold_back(Faults faults, BasicContext<R> ctx, uint32_t* to, uint32_t* from,
                      uint32_t* back) {
  const int next = next_pe(ctx);
  for (uint32_t i = 0; i < 30; ++i) store_payload(from + i, value_at<uint32_t>(ctx.pe, i));
  Batch batch(ctx);
  check(faults, batch.put_nbi(to, from, 30, next).status);
  check(faults, quiet(ctx, next));
  check(faults, wait(ctx, batch.get_nbi(back, to, 30, next)));
  for (uint32_t i = 0; i < 30; ++i) {
    check(faults, load_payload(back + i) == value_at<uint32_t>(ctx.pe, i));
  }
  check(faults, fence(ctx, next));
  check(faults, batch.p(back + 35, 5u, next));
  check(faults, barrier_all(ctx));
  check(faults, load_relaxed<Reach::kSystem>(back + 35) == 5);
}

template <class S, Reach R>
std::string run_batches(Runtime& pe, const BasicContext<R>& ctx, const Grid& grid) {
  const auto pes = static_cast<size_t>(pe.n_pes());
  const Cells<uint32_t> to(pe, 40 * pes);
  const Cells<uint32_t> from(pe, 40);
  const Cells<uint32_t> back(pe, 40);
  const Cells<uint64_t> words(pe, 2 * pes + 1);
  const std::string wrong =
      run_family(pe, grid, post_in_batches<R, S>, ctx, S{}, to.data(), from.data(), words.data());
  const std::string held =
      run_family(pe, {}, hold_back<R>, ctx, to.data(), from.data(), back.data());
  return wrong.empty() ? held : wrong;
}

// ---- atomics

/// Every fetching atomic that does not wait; each line begins with what the one before left.
template <Reach R, class T>
PEAL_KERNEL fetch_later(Faults faults, BasicContext<R> ctx, T* words, T* old) {
  T* const word = words + ctx.pe;
  const int pe = next_pe(ctx);
  uint32_t n = 0;
  const auto came = [&](const Ticket& ticket, T wanted, unsigned line = __builtin_LINE()) {
    check(faults, wait(ctx, ticket), line);
    check(faults, load_payload(old + n) == wanted, line);
    ++n;
  };
  came(atomic_swap_nbi(ctx, old + n, word, T{12}, pe), T{0});
  came(atomic_fetch_add_nbi(ctx, old + n, word, T{30}, pe), T{12});
  came(atomic_fetch_inc_nbi(ctx, old + n, word, pe), T{42});
  came(atomic_fetch_and_nbi(ctx, old + n, word, T{0x3a}, pe), T{43});
  came(atomic_fetch_or_nbi(ctx, old + n, word, T{5}, pe), T{0x2a});
  came(atomic_fetch_xor_nbi(ctx, old + n, word, T{0xff}, pe), T{0x2f});
  came(atomic_compare_swap_nbi(ctx, old + n, word, T{0xd0}, T{1}, pe), T{0xd0});
  came(atomic_compare_swap_nbi(ctx, old + n, word, T{0xd0}, T{9}, pe), T{1});
  came(atomic_fetch_nbi(ctx, old + n, word, pe), T{1});
  for (uint32_t i = 0; i < 8; ++i) {  // none of them waited for
    check(faults, atomic_fetch_add_nbi(ctx, old + i, word, T{10}, pe).status);
  }
  check(faults, quiet(ctx, pe));
  for (uint32_t i = 0; i < 8; ++i) {
    check(faults, load_payload(old + i) == static_cast<T>(1 + 10 * i));
  }
}

/// All lanes of all PEs on the words of PE 0: sums of halves are exact in any order.
template <Reach R, class T>
PEAL_KERNEL combine(Faults faults, BasicContext<R> ctx, T* words) {
  const auto lanes = static_cast<int>(blocks_in_grid() * threads_in_block());
  const auto lane = static_cast<int>(block_in_grid() * threads_in_block() + thread_in_block());
  const auto mine = static_cast<T>(ctx.pe * lanes + lane + 1);
  T part = 3;
  if constexpr (std::is_floating_point_v<T>) part = T{1.5};
  for (int round = 0; round < 2; ++round) {
    check(faults, atomic_add(ctx, words, part, 0));
    const Fetched<T> sum = atomic_fetch_add(ctx, words, part, 0);
    check(faults, sum.status);
    check(faults, sum.value >= part);
  }
  check(faults, atomic_max(ctx, words + 1, mine, 0));
  const Fetched<T> high = atomic_fetch_max(ctx, words + 1, mine, 0);
  check(faults, high.status);
  check(faults, high.value >= mine);
  const auto below = static_cast<T>(T{0} - mine);
  if constexpr (std::is_signed_v<T>) {
    check(faults, atomic_min(ctx, words + 2, below, 0));
    const Fetched<T> low = atomic_fetch_min(ctx, words + 2, below, 0);
    check(faults, low.status);
    check(faults, low.value <= below);
  }
}

template <class T>
PEAL_KERNEL check_combined(Faults faults, Context ctx, const T* words, int lanes) {
  if (ctx.pe != 0) return;
  T part = 3;
  if constexpr (std::is_floating_point_v<T>) part = T{1.5};
  check(faults, words[0] == static_cast<T>(part * static_cast<T>(4 * lanes)));
  check(faults, words[1] == static_cast<T>(lanes));
  if constexpr (std::is_signed_v<T>) check(faults, words[2] == static_cast<T>(-lanes));
}

template <class T>
std::string run_combine(Runtime& pe) {
  const Cells<T> words(pe, 3);
  const std::string wrong = run_family(pe, {.blocks = 2, .threads = 6}, combine<Reach::kGpu, T>,
                                       pe.context(), words.data());
  const std::string sums = run_family(pe, {}, check_combined<T>, pe.context(),
                                      static_cast<const T*>(words.data()), 12 * pe.n_pes());
  return wrong.empty() ? sums : wrong;
}

template <class T>
std::string run_fetch_later(Runtime& pe) {
  const Cells<T> words(pe, static_cast<size_t>(pe.n_pes()));
  const Cells<T> old(pe, 16);
  return run_family(pe, {}, fetch_later<Reach::kGpu, T>, pe.context(), words.data(), old.data());
}

// ---- many values

template <class T>
PEAL_KERNEL compare_with_values(Faults faults, Context ctx, T* words) {
  constexpr size_t kCount = 6;
  const T values[kCount] = {1, 2, 3, 4, 5, 6};
  const int skip[kCount] = {0, 0, 1, 0, 0, 1};
  const WaitSet<T> all{words, kCount};
  const WaitSet<T> some{words, kCount, skip};
  size_t found[kCount];
  check(faults, test_any(ctx, all, Compare::kEq, values) == kNone);
  check(faults, barrier_all(ctx));
  const int next = next_pe(ctx);
  for (size_t i = 0; i < kCount; ++i) {
    if (skip[i] == 0) check(faults, p(ctx, words + i, values[i], next));
  }
  check(faults, wait_until_all(ctx, some, Compare::kEq, values));
  check(faults, test_all(ctx, some, Compare::kGe, values));
  check(faults, !test_all(ctx, all, Compare::kEq, values));
  check(faults, wait_until_any(ctx, some, Compare::kEq, values).index == 0);
  check(faults, wait_until_any(ctx, all, Compare::kNe, values).index == 2);
  const WaitSome which = wait_until_some(ctx, all, found, Compare::kEq, values);
  check(faults, which.status);
  check(faults, which.count == 4 && found[0] == 0 && found[1] == 1 && found[2] == 3);
  check(faults, test_some(ctx, some, found, Compare::kLt, values) == 0);
  check(faults, test_any(ctx, all, Compare::kLt, values) == 2);
  const int none[kCount] = {1, 1, 1, 1, 1, 1};
  const WaitSet<T> empty{words, kCount, none};
  check(faults, wait_until_all(ctx, empty, Compare::kEq, values));
  check(faults, wait_until_any(ctx, empty, Compare::kEq, values).index == kNone);
  check(faults, wait_until_some(ctx, empty, found, Compare::kEq, values).count == 0);
}

template <class T>
std::string run_values(Runtime& pe) {
  const Cells<T> words(pe, 6);
  return run_family(pe, {}, compare_with_values<T>, pe.context(), words.data());
}

}  // namespace peal::api_test
