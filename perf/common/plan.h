// SPDX-License-Identifier: Apache-2.0
//
// What a launch moves, and the kernels that fill its memory before and check it after.
//
//   src   pattern of its own PE     ->  dst at the partner, poison until the message is here
//
//   each agent's own    agent 0: slot 0, 1, .. | agent 1: slot 0, 1, .. |      one slot a call
//   shared              slot 0: part of agent 0, of agent 1, .. | slot 1: .. |
//
// Every word of the pattern depends on PE, preparation and place; poison is the pattern with all
// bits turned, so that no byte of it looks as if it had arrived. A lost, misplaced or torn message
// cannot go unnoticed, nor one that is too long, nor what an earlier preparation left behind.
#pragma once

#include <cstddef>
#include <cstdint>

#include "device/base/order.h"
#include "device/base/scope.h"
#include "device/status.h"

namespace peal::perf {

/// Handed to kernels by value. Addresses are symmetric.
struct Plan {
  std::byte* dst;
  std::byte* src;
  uint64_t* words;    // signals, and what atomics add to
  uint64_t* errors;   // of this PE: how many, and the Status of the first call that failed
  uint64_t* samples;  // ns of each call, where the kernel keeps them
  uint64_t bytes;     // of a message
  uint64_t stride;    // from a slot to the next
  uint64_t span;      // after which an agent's slots begin again, a multiple of stride
  uint64_t iterations;
  uint64_t first;       // iterations of earlier launches on the same memory
  uint64_t seed;        // of this PE's pattern
  uint64_t peers_seed;  // and of its partner's
  int pe;
  int n_pes;
  int peer;     // whom this PE's calls concern; negative: it looks on
  bool leads;   // of a pair, the PE that begins
  bool shared;  // the agents share a message in equal parts; else each has slots of its own
};

/// Where a kernel's blocks began and ended, by the GPU's own clock.
struct BlockTime {
  uint64_t begin_ns;
  uint64_t end_ns;
};

PEAL_HD uint64_t pattern_word(uint64_t seed, uint64_t index) {
  uint64_t x = seed + index * 0x9e3779b97f4a7c15;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
  return x ^ (x >> 31);
}

/// Different patterns for every PE and every preparation.
inline uint64_t pattern_seed(uint64_t preparation, int pe) {
  return preparation << 32 | static_cast<uint64_t>(pe + 1) << 16;
}

/// What call `number` of all calls on a target's words adds, by which a PE's seed. No two add the
/// same: a lost one and one that came twice do not cancel, nor do two in each other's word.
inline constexpr uint64_t kAddend = 0x0101'0101'0101'0101;
PEAL_HD uint64_t addend(uint64_t seed, uint64_t number) { return seed + kAddend * (number + 1); }

/// The sum of `calls` addends, of every `stride`th call from 0 on.
PEAL_HD uint64_t sum_of_addends(uint64_t seed, uint64_t calls, uint64_t stride) {
  const uint64_t numbers = calls == 0 ? 0 : stride * (calls * (calls - 1) / 2);
  return calls * seed + kAddend * (numbers + calls);
}

PEAL_DEVICE uint64_t thread_in_grid() {
  return uint64_t{block_in_grid()} * threads_in_block() + thread_in_block();
}
PEAL_DEVICE uint64_t threads_in_grid() { return uint64_t{blocks_in_grid()} * threads_in_block(); }

PEAL_DEVICE void count_errors(uint64_t* errors, uint64_t count) {
  if (count != 0) fetch_add_relaxed<Reach::kGpu>(errors, count);
}

PEAL_DEVICE void count_failure(const Plan& plan, Status status) {
  if (status == Status::kOk) return;
  count_errors(plan.errors, 1);
  (void)compare_exchange<Reach::kGpu>(plan.errors + 1, uint64_t{0}, static_cast<uint64_t>(status));
}

/// Pattern at src, poison at dst, `words` words and the errors 0. The extent is whole words.
PEAL_KERNEL prepare(Plan plan, uint64_t extent, uint64_t words) {
  auto* src = reinterpret_cast<uint64_t*>(plan.src);
  auto* dst = reinterpret_cast<uint64_t*>(plan.dst);
  for (uint64_t i = thread_in_grid(); i < extent / 8; i += threads_in_grid()) {
    src[i] = pattern_word(plan.seed, i);
    dst[i] = ~pattern_word(plan.peers_seed, i);
  }
  for (uint64_t i = thread_in_grid(); i < words; i += threads_in_grid()) plan.words[i] = 0;
  if (thread_in_grid() == 0) plan.errors[0] = plan.errors[1] = 0;
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
PEAL_KERNEL check(const std::byte* memory, Expected e, uint64_t* errors) {
  const auto* words = reinterpret_cast<const uint64_t*>(memory);
  uint64_t wrong = 0;
  for (uint64_t i = thread_in_grid(); i < e.extent / 8; i += threads_in_grid()) {
    if (words[i] != (pattern_word(e.seed, i) ^ ~e.arriving(8 * i))) ++wrong;
  }
  count_errors(errors, wrong);
}

/// What words must hold: each `step` more than the one before. Of a shorter word the low `bytes`.
struct ExpectedWords {
  uint64_t count;
  uint64_t first;
  uint64_t step;
  uint64_t bytes;
};

/// Counts words that hold something else.
PEAL_KERNEL check_words(const uint64_t* words, ExpectedWords e, uint64_t* errors) {
  const uint64_t mask = e.bytes == 4 ? 0xffffffff : ~uint64_t{0};
  uint64_t wrong = 0;
  for (uint64_t i = thread_in_grid(); i < e.count; i += threads_in_grid()) {
    if (((words[i] ^ (e.first + i * e.step)) & mask) != 0) ++wrong;
  }
  count_errors(errors, wrong);
}

}  // namespace peal::perf
