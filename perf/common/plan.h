// SPDX-License-Identifier: Apache-2.0
//
// What a round of a benchmark moves, and the kernels that fill its memory before and check it
// after.
//
//   agent 0: slot 0 .. window-1 | agent 1: slot 0 .. window-1 | ...     one slot an operation
//
// Invariant: within a round no two operations share a slot, and what a slot must hold depends on
// initiator, agent and iteration. A lost, misplaced, repeated or torn message cannot go unnoticed,
// nor can what an earlier round left behind.
#pragma once

#include <cstddef>
#include <cstdint>

#include "peal/peal.h"

namespace peal::perf {

/// Handed to kernels by value. An agent is whoever makes a call: a thread, a warp or a block.
struct Plan {
  std::byte* local;   // slots at the initiator: where puts read and gets land
  std::byte* remote;  // slots at the target
  uint64_t* words;    // at the target, one of each agent: signals, and what atomics add to
  uint64_t bytes;     // of a message
  uint64_t stride;    // from slot to slot, a multiple of 8
  uint64_t window;    // slots of an agent
  uint64_t first;     // iteration that this round begins with
  uint64_t count;     // iterations of this round, at most window
  uint32_t agents;
  int peer;  // target of this PE's operations; negative: it initiates none

  PEAL_HD uint64_t offset(uint32_t agent, uint64_t i) const {
    return (agent * window + i) * stride;
  }
};

PEAL_HD uint64_t scramble(uint64_t x) {
  x ^= x >> 32;
  x *= 0x9e3779b97f4a7c15;
  return x ^ (x >> 29);
}

/// What makes one message unlike all others.
PEAL_HD uint64_t message_seed(int initiator, uint32_t agent, uint64_t iteration) {
  const uint64_t who = (static_cast<uint64_t>(initiator) + 1) << 32 | agent;
  return scramble(scramble(who) + iteration);
}

/// Word `i` of that message; its low bytes when the message is shorter.
PEAL_HD uint64_t message_word(uint64_t seed, uint64_t i) {
  return scramble(seed + i * 0xd1342543de82ef95 + 1);
}

PEAL_HD void fill_message(std::byte* slot, uint64_t seed, uint64_t bytes) {
  auto* words = reinterpret_cast<uint64_t*>(slot);
  for (uint64_t i = 0; i * 8 < bytes; ++i) words[i] = message_word(seed, i);
}

PEAL_HD bool holds_message(const std::byte* slot, uint64_t seed, uint64_t bytes) {
  const auto* words = reinterpret_cast<const uint64_t*>(slot);
  uint64_t i = 0;
  for (; i < bytes / 8; ++i) {
    if (words[i] != message_word(seed, i)) return false;
  }
  const uint64_t tail = (uint64_t{1} << (bytes % 8 * 8)) - 1;
  return tail == 0 || ((words[i] ^ message_word(seed, i)) & tail) == 0;
}

PEAL_DEVICE uint64_t thread_in_grid() {
  return uint64_t{block_in_grid()} * threads_in_block() + thread_in_block();
}
PEAL_DEVICE uint64_t threads_in_grid() { return uint64_t{blocks_in_grid()} * threads_in_block(); }

/// Calls visit(agent, i) for this thread's share of the round's operations.
template <class Visit>
PEAL_DEVICE void for_my_share(const Plan& plan, const Visit& visit) {
  const uint64_t all = plan.agents * plan.count;
  for (uint64_t n = thread_in_grid(); n < all; n += threads_in_grid()) {
    visit(static_cast<uint32_t>(n / plan.count), n % plan.count);
  }
}

/// Writes the messages of `initiator` into `slots`, which are plan.local or plan.remote.
PEAL_KERNEL fill(Plan plan, std::byte* slots, int initiator) {
  for_my_share(plan, [&](uint32_t agent, uint64_t i) {
    const uint64_t seed = message_seed(initiator, agent, plan.first + i);
    fill_message(slots + plan.offset(agent, i), seed, plan.bytes);
  });
}

/// Counts in *errors the slots that do not hold the messages of `initiator`.
PEAL_KERNEL check(Plan plan, const std::byte* slots, int initiator, uint64_t* errors) {
  uint64_t mine = 0;
  for_my_share(plan, [&](uint32_t agent, uint64_t i) {
    const uint64_t seed = message_seed(initiator, agent, plan.first + i);
    if (!holds_message(slots + plan.offset(agent, i), seed, plan.bytes)) ++mine;
  });
  if (mine != 0) fetch_add_relaxed<Reach::kGpu>(errors, mine);
}

/// What an agent's word must hold after a round.
enum class Word {
  kCount,  // the number of its operations
  kSum,    // the sum of their messages' first words
};

PEAL_KERNEL check_words(Plan plan, Word kind, int initiator, uint64_t* errors) {
  const uint64_t mask = plan.bytes == 4 && kind == Word::kSum ? 0xffffffff : ~uint64_t{0};
  for (uint64_t agent = thread_in_grid(); agent < plan.agents; agent += threads_in_grid()) {
    uint64_t expected = kind == Word::kCount ? plan.count : 0;
    for (uint64_t i = 0; i < plan.count && kind == Word::kSum; ++i) {
      const auto a = static_cast<uint32_t>(agent);
      expected += message_word(message_seed(initiator, a, plan.first + i), 0);
    }
    if (((plan.words[agent] ^ expected) & mask) != 0)
      fetch_add_relaxed<Reach::kGpu>(errors, plan.count);
  }
}

PEAL_KERNEL clear_words(Plan plan) {
  for (uint64_t i = thread_in_grid(); i < plan.agents; i += threads_in_grid()) plan.words[i] = 0;
}

}  // namespace peal::perf
