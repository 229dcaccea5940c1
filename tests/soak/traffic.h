// SPDX-License-Identifier: Apache-2.0
//
// The sending half of a round: a block follows its stream. Gets and fetched values are verified on
// the spot; what was put is verified by its receiver (verify.h).
#pragma once

#include "tests/soak/memory.h"

namespace peal::soak {

template <class S>
PEAL_DEVICE constexpr Scope scope_of() {
  return std::is_same_v<S, Thread> ? Scope::kThread
         : std::is_same_v<S, Warp> ? Scope::kWarp
                                   : Scope::kBlock;
}

/// One piece of a step, as its scope's lanes see it.
struct Piece {
  uint32_t offset;
  uint64_t tag;
};
template <class S>
PEAL_DEVICE Piece piece_of(const Step& step) {
  const uint32_t i = std::is_same_v<S, Thread> ? thread_in_block()
                     : std::is_same_v<S, Warp> ? thread_in_block() / 32
                                               : 0;
  return {step.offset + i * step.stride, step.tag + i};
}

/// A block's place in the round.
struct Agent {
  Memory memory;
  int pe;
  uint32_t block_number;
  Tally tally;

  PEAL_DEVICE uint8_t* outbox() const { return memory.outbox + uint64_t{block_number} * kRegion; }
  PEAL_DEVICE uint8_t* fetched() const { return memory.fetched + uint64_t{block_number} * kRegion; }
};

/// Counts a call, and its bytes, once for its scope.
template <class S>
PEAL_DEVICE void count(Agent& agent, S scope, Status status, uint64_t bytes) {
  if (scope.leader()) agent.tally.did(status, bytes);
}

template <class S>
PEAL_DEVICE void write_source(Agent& agent, S scope, const Piece& piece, uint32_t bytes) {
  uint8_t* from = agent.outbox() + piece.offset;
  for (uint32_t i = scope.rank(); i < bytes; i += scope.size()) from[i] = content(piece.tag, i);
}

template <class C, class S>
PEAL_DEVICE void put_step(const C& ctx, S scope, Agent& agent, const Step& step) {
  const Piece piece = piece_of<S>(step);
  uint8_t* to = agent.memory.region(agent.pe, agent.block_number) + piece.offset;
  const uint8_t* from = agent.outbox() + piece.offset;
  uint64_t* word = agent.memory.signal(agent.pe, agent.block_number);
  const Signal flag = step.sets ? Signal::set(word + 1 + step.context, step.value, step.pe)
                                : Signal::add(word, 1, step.pe);
  write_source(agent, scope, piece, step.bytes);
  Status status = Status::kOk;
  if (step.op == Op::kPut) {
    status = put(ctx, scope, to, from, step.bytes, step.pe);
  } else if (step.op == Op::kPutSignal) {
    status = put_signal(ctx, scope, to, from, step.bytes, flag);
  } else {
    const Ticket ticket = step.op == Op::kPutNbi
                              ? put_nbi(ctx, scope, to, from, step.bytes, step.pe)
                              : put_signal_nbi(ctx, scope, to, from, step.bytes, flag);
    // Half of them are left for the quiet at the end of the round.
    if ((step.tag & 1) != 0) status = wait(ctx, scope, ticket);
  }
  count(agent, scope, status, step.bytes);
}

template <class C, class S>
PEAL_DEVICE void iput_step(const C& ctx, S scope, Agent& agent, const Step& step) {
  const Piece piece = piece_of<S>(step);
  auto* to =
      reinterpret_cast<uint32_t*>(agent.memory.region(agent.pe, agent.block_number) + piece.offset);
  const auto* from = reinterpret_cast<const uint32_t*>(agent.outbox() + piece.offset);
  write_source(agent, scope, piece, step.bytes);
  scope.sync();
  count(agent, scope, iput(ctx, scope, to, from, Strides{2, 1}, step.bytes / 4, step.pe),
        step.bytes);
}

template <class S>
PEAL_DEVICE void check_fetched(Agent& agent, S scope, const Piece& piece, const Step& step,
                               uint32_t first, uint32_t stride) {
  const uint8_t* got = agent.fetched() + piece.offset;
  bool wrong = false;
  for (uint32_t i = scope.rank(); i < step.bytes; i += scope.size()) {
    // Elements of four bytes, `stride` elements apart at the source.
    wrong |= got[i] != library(step.pe, first + i / 4 * 4 * stride + i % 4);
  }
  if (wrong) ++agent.tally.mine.corrupted;
  scope.sync();
}

template <class C, class S>
PEAL_DEVICE void get_step(const C& ctx, S scope, Agent& agent, const Step& step) {
  const Piece piece = piece_of<S>(step);
  const uint32_t first = static_cast<uint32_t>(piece.tag % (kLibrary - 2 * 1024 - step.bytes)) &
                         (step.op == Op::kIget ? ~3u : ~0u);
  uint8_t* to = agent.fetched() + piece.offset;
  const uint8_t* from = agent.memory.library + first;
  Status status = Status::kOk;
  if (step.op == Op::kIget) {
    status = iget(ctx, scope, reinterpret_cast<uint32_t*>(to),
                  reinterpret_cast<const uint32_t*>(from), Strides{1, 2}, step.bytes / 4, step.pe);
  } else if (step.op == Op::kGet) {
    status = get(ctx, scope, to, from, step.bytes, step.pe);
  } else {
    status = wait(ctx, scope, get_nbi(ctx, scope, to, from, step.bytes, step.pe));
  }
  scope.sync();
  count(agent, scope, status, step.bytes);
  if (status == Status::kOk) {
    check_fetched(agent, scope, piece, step, first, step.op == Op::kIget ? 2 : 1);
  }
}

template <class T, class C>
PEAL_DEVICE void value_step(const C& ctx, Agent& agent, const Step& step) {
  const Piece piece = piece_of<Thread>(step);
  T value;
  uint8_t bytes[sizeof(T)];
  if (step.op == Op::kP) {
    for (uint32_t i = 0; i < sizeof(T); ++i) bytes[i] = content(piece.tag, i);
    memcpy(&value, bytes, sizeof(T));
    auto* to =
        reinterpret_cast<T*>(agent.memory.region(agent.pe, agent.block_number) + piece.offset);
    return agent.tally.did(p(ctx, to, value, step.pe), sizeof(T));
  }
  const uint32_t first =
      static_cast<uint32_t>(piece.tag % (kLibrary / sizeof(T))) * uint32_t{sizeof(T)};
  const Fetched<T> got = g(ctx, reinterpret_cast<const T*>(agent.memory.library + first), step.pe);
  agent.tally.did(got.status, sizeof(T));
  memcpy(bytes, &got.value, sizeof(T));
  bool wrong = false;
  for (uint32_t i = 0; i < sizeof(T); ++i) wrong |= bytes[i] != library(step.pe, first + i);
  if (wrong && got.status == Status::kOk) ++agent.tally.mine.corrupted;
}

/// What a lane adds to which shared word. The even ones are of 8 bytes.
struct Addend {
  uint32_t word;
  uint32_t value;
  bool wide;
};
PEAL_HD Addend addend_of(const Step& step, uint32_t lane) {
  const uint64_t bits = mix(step.tag + lane);
  const uint32_t how = static_cast<uint32_t>(bits) & 3;
  const uint32_t value = how >= 2 ? 1 : static_cast<uint32_t>(bits >> 40);
  return {static_cast<uint32_t>(bits >> 8) % kSums, value, (bits >> 4 & 1) == 0};
}

template <class T, class C>
PEAL_DEVICE Status add_word(const C& ctx, T* word, uint32_t value, uint32_t how, int pe) {
  switch (how) {
    case 0:
      return atomic_add(ctx, word, static_cast<T>(value), pe);
    case 1:
      return atomic_fetch_add(ctx, word, static_cast<T>(value), pe).status;
    case 2:
      return atomic_inc(ctx, word, pe);
    default:
      return atomic_fetch_inc(ctx, word, pe).status;
  }
}

template <class C>
PEAL_DEVICE void add_step(const C& ctx, Agent& agent, const Step& step) {
  const uint32_t lane = thread_in_block();
  const Addend addend = addend_of(step, lane);
  const uint32_t how = static_cast<uint32_t>(mix(step.tag + lane)) & 3;
  uint64_t* words = agent.memory.sums + addend.word;
  if (addend.wide) {
    return agent.tally.did(add_word(ctx, words, addend.value, how, step.pe), 8);
  }
  auto* small = reinterpret_cast<uint32_t*>(words + kSums);
  agent.tally.did(add_word(ctx, small, addend.value, how, step.pe), 4);
}

/// All other atomics, on a word of this lane's own: what it holds is known at every moment.
template <class C>
PEAL_DEVICE void own_word_step(const C& ctx, Agent& agent, const Step& step) {
  const uint32_t lane = thread_in_block();
  uint64_t* word = agent.memory.owned_word(agent.pe, agent.block_number, lane);
  uint64_t& known = agent.memory.shadow[(agent.block_number * kThreads + lane) * kMaxPes +
                                        static_cast<uint32_t>(step.pe)];
  const uint64_t operand = mix(step.tag ^ lane);
  Fetched<uint64_t> old{known, Status::kOk};
  const uint64_t before = known;
  switch (operand % 11) {
    case 0:
      old.status = atomic_set(ctx, word, operand, step.pe);
      known = operand;
      break;
    case 1:
      old = atomic_swap(ctx, word, operand, step.pe);
      known = operand;
      break;
    case 2:
      old = atomic_compare_swap(ctx, word, known, operand, step.pe);
      known = operand;
      break;
    case 3:
      old = atomic_compare_swap(ctx, word, known + 1, operand, step.pe);
      break;
    case 4:
      old.status = atomic_and(ctx, word, operand, step.pe);
      known &= operand;
      break;
    case 5:
      old.status = atomic_or(ctx, word, operand, step.pe);
      known |= operand;
      break;
    case 6:
      old.status = atomic_xor(ctx, word, operand, step.pe);
      known ^= operand;
      break;
    case 7:
      old = atomic_fetch_and(ctx, word, operand, step.pe);
      known &= operand;
      break;
    case 8:
      old = atomic_fetch_or(ctx, word, operand, step.pe);
      known |= operand;
      break;
    case 9:
      old = atomic_fetch_xor(ctx, word, operand, step.pe);
      known ^= operand;
      break;
    default:
      old = atomic_fetch(ctx, word, step.pe);
      break;
  }
  agent.tally.did(old.status, 8);
  if (old.status == Status::kOk && old.value != before) ++agent.tally.mine.corrupted;
}

template <class C, class S>
PEAL_DEVICE void scoped_step(const C& ctx, S scope, Agent& agent, const Step& step) {
  switch (step.op) {
    case Op::kIput:
      return iput_step(ctx, scope, agent, step);
    case Op::kGet:
    case Op::kGetNbi:
    case Op::kIget:
      return get_step(ctx, scope, agent, step);
    case Op::kFence:
      return count(agent, scope, fence(ctx, scope), 0);
    case Op::kQuiet:
      return count(agent, scope, quiet(ctx, scope), 0);
    default:
      return put_step(ctx, scope, agent, step);
  }
}

template <class C>
PEAL_DEVICE void lane_step(const C& ctx, Agent& agent, const Step& step) {
  switch (step.op) {
    case Op::kSignal: {
      uint64_t* word = agent.memory.signal(agent.pe, agent.block_number);
      return agent.tally.did(signal(ctx, Signal::add(word, 1, step.pe)), 8);
    }
    case Op::kAdd:
      return add_step(ctx, agent, step);
    case Op::kOwnWord:
      return own_word_step(ctx, agent, step);
    case Op::kP:
    case Op::kG:
      switch (step.bytes) {
        case 1:
          return value_step<uint8_t>(ctx, agent, step);
        case 2:
          return value_step<uint16_t>(ctx, agent, step);
        case 4:
          return value_step<uint32_t>(ctx, agent, step);
        case 8:
          return value_step<uint64_t>(ctx, agent, step);
        default:
          return;  // no room was left for it
      }
    default:
      return scoped_step(ctx, thread, agent, step);
  }
}

template <class C>
PEAL_DEVICE void take_step(const C& ctx, Agent& agent, const Step& step) {
  if (step.scope == Scope::kWarp) return scoped_step(ctx, warp, agent, step);
  if (step.scope == Scope::kBlock) return scoped_step(ctx, block, agent, step);
  lane_step(ctx, agent, step);
}

}  // namespace peal::soak
