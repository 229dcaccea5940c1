// SPDX-License-Identifier: Apache-2.0
//
// The receiving half of a round: follows the streams of all senders again and compares. What was
// compared is filled anew, for the next round.
#pragma once

#include "tests/soak/traffic.h"

namespace peal::soak {

/// Compares one piece that was put here; by the lanes of the block.
PEAL_DEVICE void check_piece(uint8_t* at, uint64_t tag, const Step& step, Tally& tally) {
  const bool strided = step.op == Op::kIput;
  const uint32_t extent = strided ? 2 * step.bytes : step.bytes;
  uint32_t absent = 0;
  uint32_t wrong = 0;
  for (uint32_t i = thread_in_block(); i < extent; i += threads_in_block()) {
    const bool hole = strided && i / 4 % 2 == 1;
    const uint32_t from = strided ? i / 8 * 4 + i % 4 : i;
    const uint8_t expected = hole ? kFill : content(tag, from);
    const uint8_t got = at[i];
    at[i] = kFill;
    if (got == expected) continue;
    ++(got == kFill ? absent : wrong);
  }
  // Each lane that saw a difference counts it: how many is of no interest, that there is one is.
  if (wrong > 0) {
    ++tally.mine.corrupted;
  } else if (absent > 0) {
    ++tally.mine.lost;
  }
}

/// Everything that one block of a sender has put here, and the gaps between.
PEAL_DEVICE void check_region(const Memory& m, const Round& round, int me, int sender,
                              uint32_t block_number, bool signalled, Tally& tally) {
  Stream stream(round.seed, round.number, sender, block_number, round.pes);
  uint8_t* region = m.region(sender, block_number);
  for (uint32_t i = 0; i < kSteps; ++i) {
    const Step step = stream.next();
    if (step.pe != me || !step.puts() || step.bytes == 0 || step.signals() != signalled) continue;
    for (uint32_t piece = 0; piece < step.pieces(); ++piece) {
      check_piece(region + step.offset + piece * step.stride, step.tag + piece, step, tally);
    }
  }
  block.sync();  // the lanes divide a piece and a region differently
  if (signalled) return;
  // What is left must be untouched: nobody put beside his place.
  uint32_t strayed = 0;
  for (uint32_t i = thread_in_block(); i < stream.used() + 64; i += threads_in_block()) {
    if (region[i] != kFill) ++strayed;
    region[i] = kFill;
  }
  if (strayed > 0) ++tally.mine.corrupted;
}

/// Signals that one block of a sender has raised here.
struct Raised {
  uint64_t added;
  uint64_t set[kContexts];
};
PEAL_DEVICE Raised raised_by(const Round& round, int me, int sender, uint32_t block_number) {
  Stream stream(round.seed, round.number, sender, block_number, round.pes);
  Raised raised{};
  for (uint32_t i = 0; i < kSteps; ++i) {
    const Step step = stream.next();
    if (step.pe != me || !step.signals()) continue;
    if (step.sets) {
      raised.set[step.context] = step.value;
    } else {
      raised.added += step.pieces();
    }
  }
  return raised;
}

/// Waits for the signals of one block of a sender. Whoever sees them sees the data.
PEAL_DEVICE void await_signals(const Context& ctx, const Memory& m, const Round& round, int sender,
                               uint32_t block_number, Tally& tally) {
  const Raised raised = raised_by(round, ctx.pe, sender, block_number);
  uint64_t* words = m.signal(sender, block_number);
  uint64_t& expected = m.added[static_cast<uint32_t>(sender) * kBlocks + block_number];
  const uint64_t all = expected + raised.added;
  block.sync();
  if (block.leader()) expected = all;
  Status status = wait_until(ctx, block, words, Compare::kGe, all);
  for (uint32_t i = 0; i < kContexts && status == Status::kOk; ++i) {
    if (raised.set[i] == 0) continue;
    status = wait_until(ctx, block, words + 1 + i, Compare::kGe, raised.set[i]);
  }
  if (!block.leader()) return;
  if (status != Status::kOk) ++tally.mine.lost;
  // More than was sent: something acted twice.
  if (status == Status::kOk && !test(ctx, words, Compare::kEq, all)) ++tally.mine.corrupted;
}

/// The words that everybody adds to: exact sums, over all rounds.
PEAL_DEVICE void check_sums(const Memory& m, const Round& round, int me, Tally& tally) {
  for (int sender = 0; sender < round.pes; ++sender) {
    for (uint32_t b = 0; b < kBlocks; ++b) {
      Stream stream(round.seed, round.number, sender, b, round.pes);
      for (uint32_t i = 0; i < kSteps; ++i) {
        const Step step = stream.next();
        if (step.pe != me || step.op != Op::kAdd) continue;
        for (uint32_t lane = 0; lane < kThreads; ++lane) {
          const Addend addend = addend_of(step, lane);
          m.sum_shadow[addend.word + (addend.wide ? 0 : kSums)] += addend.value;
        }
      }
    }
  }
  for (uint32_t i = 0; i < 2 * kSums; ++i) {
    const uint64_t expected = i < kSums ? m.sum_shadow[i] : m.sum_shadow[i] & 0xffffffff;
    const uint64_t got = load_relaxed<Reach::kSystem>(&m.sums[i]);
    if (got < expected) ++tally.mine.lost;
    if (got > expected) ++tally.mine.corrupted;
  }
}

}  // namespace peal::soak
