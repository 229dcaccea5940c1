// SPDX-License-Identifier: Apache-2.0
//
// What a block of a PE does in one round, decided by the seed alone: the sender follows its stream
// of steps, and whoever receives follows the same stream again to know what must have arrived.
//
//   step:  operation, scope, peer, context, size, and a place of its own in the peer's region for
//          this sender, so that nothing of a round overwrites anything else of it
#pragma once

#include <cstdint>

#include "device/base/target.h"

namespace peal::soak {

inline constexpr uint32_t kBlocks = 4;
inline constexpr uint32_t kThreads = 64;
inline constexpr uint32_t kWarps = kThreads / 32;
inline constexpr uint32_t kSteps = 64;             // of a block in a round
inline constexpr uint32_t kMaxPes = 16;            //
inline constexpr uint32_t kRegion = 1536u << 10;   // bytes for one sending block at each PE
inline constexpr uint32_t kLibrary = 1280u << 10;  // bytes that others read, never written
inline constexpr uint32_t kLargest = 1u << 20;
inline constexpr uint32_t kSums = 8;      // words that all add to, of each size
inline constexpr uint32_t kContexts = 3;  // default, another, one whose queues belong to block 0
inline constexpr uint8_t kFill = 0xa5;    // what a region holds where nothing was put

enum class Op : uint32_t {
  kPut,
  kPutNbi,
  kPutSignal,
  kPutSignalNbi,
  kIput,
  kP,
  kSignal,
  kGet,
  kGetNbi,
  kIget,
  kG,
  kAdd,      // to words that everybody adds to
  kOwnWord,  // all atomics, on a word that nobody else uses
  kFence,
  kQuiet,
  kCount
};

enum class Scope : uint32_t { kThread, kWarp, kBlock };

PEAL_HD uint64_t mix(uint64_t x) {
  x ^= x >> 32;
  x *= 0xd6e8feb86659fd93ull;
  x ^= x >> 32;
  x *= 0xd6e8feb86659fd93ull;
  return x ^ x >> 32;
}

struct Random {
  uint64_t state;
  PEAL_HD uint64_t next() { return mix(state += 0x9e3779b97f4a7c15ull); }
  PEAL_HD uint32_t below(uint32_t limit) {
    return static_cast<uint32_t>((next() >> 32) * limit >> 32);
  }
};

struct Step {
  Op op;
  Scope scope;
  int pe;
  uint32_t context;
  uint32_t bytes;   // of one piece; a multiple of 4 where elements are strided
  uint32_t offset;  // of the first piece
  uint32_t stride;  // from piece to piece
  uint64_t tag;     // of the first piece; the next ones count on
  uint64_t value;   // of a signal that is set
  bool sets;

  /// How many calls the block makes of it: each lane, each warp, or the block.
  PEAL_HD uint32_t pieces() const {
    return scope == Scope::kThread ? kThreads : scope == Scope::kWarp ? kWarps : 1;
  }
  PEAL_HD bool puts() const { return op <= Op::kP; }
  PEAL_HD bool signals() const {
    return op == Op::kPutSignal || op == Op::kPutSignalNbi || op == Op::kSignal;
  }
};

/// Byte `i` of the piece with that tag.
PEAL_HD uint8_t content(uint64_t tag, uint32_t i) {
  const uint32_t x = (static_cast<uint32_t>(tag) ^ i) * 2654435761u;
  return static_cast<uint8_t>((x ^ x >> 15) * 2246822519u >> 24);
}
/// Byte `i` of PE `pe`'s library.
PEAL_HD uint8_t library(int pe, uint32_t i) {
  return content(mix(static_cast<uint64_t>(pe) + 1), i);
}

class Stream {
 public:
  PEAL_HD Stream(uint64_t seed, uint64_t round, int pe, uint32_t block, int pes)
      : random_{mix(seed) ^ mix(round << 20 | static_cast<uint64_t>(pe) << 8 | block)},
        pes_(static_cast<uint32_t>(pes)),
        // The last context's queues belong to one block.
        contexts_(block == 0 ? kContexts : kContexts - 1),
        round_(round) {}

  PEAL_HD Step next() {
    Step step{};
    step.op = static_cast<Op>(random_.below(static_cast<uint32_t>(Op::kCount)));
    step.scope = static_cast<Scope>(random_.below(3));
    step.pe = static_cast<int>(random_.below(pes_));
    step.context = random_.below(contexts_);
    step.tag = random_.next();
    step.value = round_ * kSteps + ++taken_;
    const bool alone = step.op == Op::kP || step.op == Op::kG || step.op == Op::kAdd ||
                       step.op == Op::kOwnWord || step.op == Op::kSignal;
    if (alone) step.scope = Scope::kThread;
    // Contexts are not ordered among each other: what is known of a word is known on one of them.
    if (step.op == Op::kOwnWord) step.context = static_cast<uint32_t>(round_ % contexts_);
    // Set by one caller only, so that the last one in the queue is the largest.
    step.sets = step.signals() && step.op != Op::kSignal && step.scope == Scope::kBlock &&
                random_.below(2) == 0;
    size(&step);
    return step;
  }
  PEAL_HD uint32_t used() const { return used_; }

 private:
  PEAL_HD uint32_t random_size(Scope scope) {
    const uint32_t kind = random_.below(100);
    if (kind < 45) return random_.below(9);
    if (kind < 75 || scope == Scope::kThread) return random_.below(97);
    if (kind < 94) return random_.below(4097);
    if (kind < 99) return random_.below(64u << 10);
    return random_.below(kLargest + 1);
  }
  PEAL_HD void size(Step* step) {
    uint32_t bytes = random_size(step->scope);
    const bool strided = step->op == Op::kIput || step->op == Op::kIget;
    if (step->op == Op::kP || step->op == Op::kG) bytes = 1u << random_.below(4);
    if (strided) bytes = bytes % 1025 / 4 * 4;
    if (step->op == Op::kSignal || step->op > Op::kG) bytes = 0;
    const uint32_t aligned = (used_ + 7) / 8 * 8;
    const bool shifted = !strided && step->op != Op::kP && step->op != Op::kG;
    step->offset = aligned + (shifted ? random_.below(8) : 0);
    // A strided put leaves a hole behind each element; every piece keeps a gap to the next.
    // The last offsets of a full region lie beyond what may be used.
    const uint32_t left = step->offset < kRegion - 64 ? kRegion - 64 - step->offset : 0;
    const uint32_t room = left / step->pieces();
    const uint32_t taken = strided ? 2 * bytes : bytes;
    if (taken + 16 > room) bytes = 0;
    step->bytes = bytes;
    step->stride = (bytes == 0 ? 0 : taken + 15) / 8 * 8;
    if (bytes > 0) used_ = step->offset + step->stride * step->pieces();
  }

  Random random_;
  uint32_t pes_;
  uint32_t contexts_;
  uint64_t round_;
  uint64_t taken_ = 0;
  uint32_t used_ = 0;
};

}  // namespace peal::soak
