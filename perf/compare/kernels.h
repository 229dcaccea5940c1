// SPDX-License-Identifier: Apache-2.0
//
// The kernels that are timed, written once. A side supplies an Api, a small value whose functions
// make the calls that are compared:
//
//   put, get (scope, dst, src, bytes, pe)   p(word, value, pe)   quiet()   put_signal   wait
//   add, fetch_add (word, value, pe)        barrier(scope)
//
// Timed kernels leave begin and end of every block by the GPU's own clock. All loops end when a
// call fails. Errors of any kind are added to one word.
#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "device/base/launch.h"
#include "device/base/order.h"
#include "device/base/scope.h"
#include "device/base/spin.h"
#include "perf/compare/cases.h"

namespace peal::versus {

/// Handed to timed kernels by value. Addresses are symmetric.
struct Plan {
  std::byte* dst;
  std::byte* src;
  uint64_t* flag;    // of the ping-pong
  uint64_t* errors;  // of this PE
  uint64_t bytes;
  uint64_t stride;  // from one message of a stream to the next
  uint64_t span;    // after which they begin again
  uint64_t iterations;
  uint64_t first;       // iterations of earlier launches on the same memory
  uint64_t seed;        // of this PE's pattern
  uint64_t peers_seed;  // and of its partner's
  int pe;
  int n_pes;
  int peer;  // whom this PE's operations concern
};

struct BlockTime {
  uint64_t begin_ns;
  uint64_t end_ns;
};

// Data that tells where it came from.

PEAL_HD uint64_t pattern_word(uint64_t seed, uint64_t index) {
  uint64_t x = seed + index * 0x9e3779b97f4a7c15;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
  return x ^ (x >> 31);
}

PEAL_DEVICE uint64_t thread_in_grid() {
  return uint64_t{block_in_grid()} * threads_in_block() + thread_in_block();
}
PEAL_DEVICE uint64_t threads_in_grid() { return uint64_t{blocks_in_grid()} * threads_in_block(); }

PEAL_DEVICE void count_errors(uint64_t* errors, uint64_t count) {
  if (count != 0) fetch_add_relaxed<Reach::kGpu>(errors, count);
}

/// Poison is the pattern with all bits turned: no byte of it looks as if it had arrived.
enum class Bytes { kPattern, kPoison };

PEAL_KERNEL fill(uint64_t* memory, uint64_t words, uint64_t seed, Bytes what) {
  for (uint64_t i = thread_in_grid(); i < words; i += threads_in_grid()) {
    const uint64_t word = pattern_word(seed, i);
    memory[i] = what == Bytes::kPoison ? ~word : word;
  }
}

/// In every `stride` bytes of `extent`, up to `slots` of them, the first `bytes` hold the pattern;
/// all others are still poison. Stride and extent are whole words.
struct Expected {
  uint64_t seed;
  uint64_t bytes;
  uint64_t stride;
  uint64_t slots;
  uint64_t extent;

  /// Those bits of the word at `at` that arrive.
  PEAL_DEVICE uint64_t arriving(uint64_t at) const {
    const uint64_t begin = at % stride;
    if (at / stride >= slots || begin >= bytes) return 0;
    const uint64_t count = bytes - begin;
    return count >= 8 ? ~uint64_t{0} : (uint64_t{1} << (8 * count)) - 1;
  }
};

/// Counts words with a wrong byte.
PEAL_KERNEL check(const uint64_t* memory, Expected e, uint64_t* errors) {
  uint64_t wrong = 0;
  for (uint64_t i = thread_in_grid(); i < e.extent / 8; i += threads_in_grid()) {
    if (memory[i] != (pattern_word(e.seed, i) ^ ~e.arriving(8 * i))) ++wrong;
  }
  count_errors(errors, wrong);
}

PEAL_KERNEL set_words(uint64_t* words, uint64_t count, uint64_t value) {
  for (uint64_t i = thread_in_grid(); i < count; i += threads_in_grid()) words[i] = value;
}

PEAL_KERNEL check_words(const uint64_t* words, uint64_t count, uint64_t value, uint64_t* errors) {
  uint64_t wrong = 0;
  for (uint64_t i = thread_in_grid(); i < count; i += threads_in_grid()) {
    if (words[i] != value) ++wrong;
  }
  count_errors(errors, wrong);
}

/// The sum of all PEs' `errors`, in *sum. One thread.
template <class Api>
PEAL_KERNEL collect(Api api, uint64_t* errors, uint64_t* landing, uint64_t* sum, int n_pes) {
  *sum = 0;
  for (int pe = 0; pe < n_pes; ++pe) {
    const bool ok = api.get(thread, reinterpret_cast<std::byte*>(landing),
                            reinterpret_cast<std::byte*>(errors), sizeof *errors, pe) &&
                    api.quiet();
    *sum += ok ? load_relaxed<Reach::kSystem>(landing) : 1;
  }
}

/// The smallest step of the clock that everything is timed with. One thread.
PEAL_KERNEL clock_step(uint64_t* step_ns) {
  uint64_t least = ~uint64_t{0};
  uint64_t last = now_ns();
  for (int turn = 0; turn < 4096; ++turn) {
    const uint64_t now = now_ns();
    if (now != last && now - last < least) least = now - last;
    last = now;
  }
  *step_ns = least;
}

// Bandwidth.

/// All lanes of the grid as if they were one block: for copies that deal a message out line by
/// line.
struct WholeGrid {
  PEAL_DEVICE static uint64_t rank() { return thread_in_grid(); }
  PEAL_DEVICE static uint64_t size() { return threads_in_grid(); }
};

struct Share {
  uint64_t begin;
  uint64_t bytes;

  /// The calling agent's part of a message: equal parts of whole 16-byte lines. Small messages are
  /// not enough for all agents.
  template <class Scope>
  PEAL_DEVICE static Share of(Scope scope, uint64_t bytes) {
    uint64_t agents = 1;
    uint64_t agent = 0;
    if constexpr (!std::is_same_v<Scope, WholeGrid>) {
      const uint32_t in_block = threads_in_block() / scope.size();
      agents = uint64_t{blocks_in_grid()} * in_block;
      agent = uint64_t{block_in_grid()} * in_block + thread_in_block() / scope.size();
    }
    const uint64_t part = ((bytes + agents - 1) / agents + 15) / 16 * 16;
    const uint64_t begin = agent * part;
    if (begin >= bytes) return {0, 0};
    return {begin, bytes - begin < part ? bytes - begin : part};
  }
};

/// Every iteration moves other memory, so that no side is paid for what its caches still hold.
template <class Api, class Scope, bool kPuts>
PEAL_KERNEL PEAL_MAX_THREADS(1024) stream(Api api, Plan plan, BlockTime* times) {
  const Scope scope;
  const Share share = Share::of(scope, plan.bytes);
  bool ok = true;
  block.sync();
  const uint64_t begin = now_ns();
  if (share.bytes != 0) {
    uint64_t at = plan.first * plan.stride % plan.span;
    for (uint64_t i = 0; i < plan.iterations && ok; ++i) {
      std::byte* dst = plan.dst + at + share.begin;
      const std::byte* src = plan.src + at + share.begin;
      at = at + plan.stride == plan.span ? 0 : at + plan.stride;
      if constexpr (kPuts) {
        ok = api.put(scope, dst, src, share.bytes, plan.peer);
      } else {
        ok = api.get(scope, dst, src, share.bytes, plan.peer);
      }
    }
  }
  block.sync();  // all have posted
  if (block.leader()) {
    ok = api.quiet() && ok;
    times[block_in_grid()] = {begin, now_ns()};
  }
  if (!ok) count_errors(plan.errors, 1);
}

// Latency: one thread, one call after another.

struct PutQuiet {
  template <class Api>
  PEAL_DEVICE static bool once(const Api& api, const Plan& plan, uint64_t i) {
    const uint64_t at = i % kSlots * kSlotBytes;
    return api.put(thread, plan.dst + at, plan.src + at, plan.bytes, plan.peer) && api.quiet();
  }
};

template <class Word>
struct PQuiet {
  template <class Api>
  PEAL_DEVICE static bool once(const Api& api, const Plan& plan, uint64_t i) {
    const uint64_t at = i % kSlots * kSlotBytes;
    const auto value = static_cast<Word>(pattern_word(plan.seed, at / 8));
    return api.p(reinterpret_cast<Word*>(plan.dst + at), value, plan.peer) && api.quiet();
  }
};

struct IncQuiet {
  template <class Api>
  PEAL_DEVICE static bool once(const Api& api, const Plan& plan, uint64_t) {
    return api.add(reinterpret_cast<uint64_t*>(plan.dst), 1, plan.peer) && api.quiet();
  }
};

/// Wrong when the old value is not the number of additions before.
struct FetchAdd {
  template <class Api>
  PEAL_DEVICE static bool once(const Api& api, const Plan& plan, uint64_t i) {
    return api.fetch_add(reinterpret_cast<uint64_t*>(plan.dst), 1, plan.peer) == plan.first + i;
  }
};

template <class Api, class Call>
PEAL_KERNEL repeat(Api api, Plan plan, BlockTime* times) {
  bool ok = true;
  const uint64_t begin = now_ns();
  for (uint64_t i = 0; i < plan.iterations && ok; ++i) ok = Call::once(api, plan, i);
  times[0] = {begin, now_ns()};
  if (!ok) count_errors(plan.errors, 1);
}

/// Whether a kernel also looks at what it received, which costs time: the warm-up does.
enum class Look { kNo, kYes };

/// PE 0 sends, PE 1 answers. Message i has slot i. The flag only grows.
template <class Api, Look kLook>
PEAL_KERNEL ping_pong(Api api, Plan plan, BlockTime* times) {
  if (plan.pe > 1) return;
  bool ok = true;
  uint64_t wrong = 0;
  const auto send = [&](uint64_t i) {
    return api.put_signal(plan.dst + i * 8, plan.src + i * 8, 8, plan.flag, plan.first + i + 1,
                          plan.peer);
  };
  const uint64_t begin = now_ns();
  for (uint64_t i = 0; i < plan.iterations && ok; ++i) {
    if (plan.pe == 0) ok = send(i);
    ok = ok && api.wait(plan.flag, plan.first + i + 1);
    if constexpr (kLook == Look::kYes && Api::kCarriesData) {
      const auto* word = reinterpret_cast<const uint64_t*>(plan.dst) + i;
      if (load_relaxed<Reach::kSystem>(word) != pattern_word(plan.peers_seed, i)) ++wrong;
    }
    if (plan.pe == 1 && ok) ok = send(i);
  }
  times[0] = {begin, now_ns()};
  count_errors(plan.errors, wrong + (ok ? 0 : 1));
}

// Atomics: as many as the threads can issue.

template <class Api, bool kSameWord>
PEAL_KERNEL PEAL_MAX_THREADS(1024) add(Api api, Plan plan, BlockTime* times) {
  uint64_t* word = reinterpret_cast<uint64_t*>(plan.dst) + (kSameWord ? 0 : thread_in_grid());
  bool ok = true;
  block.sync();
  const uint64_t begin = now_ns();
  for (uint64_t i = 0; i < plan.iterations && ok; ++i) ok = api.add(word, 1, plan.peer);
  block.sync();
  if (block.leader()) {
    ok = api.quiet() && ok;
    times[block_in_grid()] = {begin, now_ns()};
  }
  if (!ok) count_errors(plan.errors, 1);
}

/// When it looks: every PE tells all others the number of the barrier first, and finds theirs after
/// it. A fast PE may be one ahead.
template <class Api, class Scope, Look kLook>
PEAL_KERNEL PEAL_MAX_THREADS(1024) barriers(Api api, Plan plan, BlockTime* times) {
  const Scope scope;
  auto* told = reinterpret_cast<uint64_t*>(plan.dst);
  bool ok = true;
  uint64_t wrong = 0;
  scope.sync();
  const uint64_t begin = now_ns();
  for (uint64_t i = 0; i < plan.iterations && ok; ++i) {
    if constexpr (kLook == Look::kYes) {
      if (scope.leader()) {
        for (int pe = 0; pe < plan.n_pes; ++pe) {
          if (pe != plan.pe) (void)api.p(told + plan.pe, plan.first + i + 1, pe);
        }
      }
    }
    ok = api.barrier(scope);
    if constexpr (kLook == Look::kYes) {
      if (scope.leader()) {
        for (int pe = 0; pe < plan.n_pes; ++pe) {
          const uint64_t heard = load_relaxed<Reach::kSystem>(told + pe);
          if (pe != plan.pe && heard < plan.first + i + 1) ++wrong;
        }
      }
    }
  }
  if (scope.leader()) {
    times[0] = {begin, now_ns()};
    count_errors(plan.errors, wrong + (ok ? 0 : 1));
  }
}

}  // namespace peal::versus
