// SPDX-License-Identifier: Apache-2.0
//
// The symmetric memory of a soaking PE and what its kernels count.
#pragma once

#include <cstdint>

#include "peal/peal.h"
#include "tests/soak/plan.h"

namespace peal::soak {

/// What one PE did, or all together.
struct Counts {
  uint64_t operations;
  uint64_t bytes;
  uint64_t lost;       // never arrived, or never acted
  uint64_t corrupted;  // something else arrived
  uint64_t errors;     // calls that did not answer kOk
};

/// What a PE tells PE 0 after a round.
struct Report {
  Counts counts;
  uint64_t rss_growth;     // bytes, after the warm-up
  uint64_t heap_growth;    // bytes allocated and not freed, likewise
  uint64_t shared_growth;  // bytes of shared mappings, likewise
  uint64_t file_growth;    // open descriptors, likewise
};

/// The symmetric objects. Regions are one for each sending block.
struct Memory {
  uint8_t* library;   // [kLibrary]
  uint8_t* inbox;     // [pes][kBlocks][kRegion]
  uint8_t* outbox;    // [kBlocks][kRegion]
  uint8_t* fetched;   // [kBlocks][kRegion]
  uint64_t* sums;     // [2][kSums] 8-byte words, then 4-byte words in the low half
  uint64_t* owned;    // [pes][kBlocks][kThreads]
  uint64_t* signals;  // [pes][kBlocks][1 + kContexts] added to, then set through each context
  // This PE's own.
  uint64_t* shadow;      // [kBlocks][kThreads][pes] what `owned` must hold at each peer
  uint64_t* added;       // [pes][kBlocks] signals expected so far
  uint64_t* sum_shadow;  // [2][kSums]
  Counts* counts;        // [1]
  Report* report;        // [1] of this PE, as of the round before
  Report* table;         // [pes], written at PE 0
  uint64_t* control;     // [2] by turns, read at PE 0: 1 = one more round
  uint64_t* go_on;       // [1] what was read there

  PEAL_HD uint8_t* region(int sender, uint32_t block) const {
    return inbox + (static_cast<uint64_t>(sender) * kBlocks + block) * kRegion;
  }
  PEAL_HD uint64_t* signal(int sender, uint32_t block) const {
    return signals + (static_cast<uint64_t>(sender) * kBlocks + block) * (1 + kContexts);
  }
  PEAL_HD uint64_t* owned_word(int sender, uint32_t block, uint32_t lane) const {
    return owned + (static_cast<uint64_t>(sender) * kBlocks + block) * kThreads + lane;
  }
};

/// A round, the same on all PEs but for `memory`'s addresses.
struct Round {
  uint64_t seed;
  uint64_t number;
  int pes;
};

/// Counts of one lane, added to the PE's when it is done.
struct Tally {
  Counts mine = {};

  PEAL_DEVICE void did(Status status, uint64_t bytes) {
    ++mine.operations;
    mine.bytes += bytes;
    if (status != Status::kOk) ++mine.errors;
  }
  PEAL_DEVICE void add_to(Counts* all) const {
    fetch_add_relaxed<Reach::kGpu>(&all->operations, mine.operations);
    fetch_add_relaxed<Reach::kGpu>(&all->bytes, mine.bytes);
    fetch_add_relaxed<Reach::kGpu>(&all->lost, mine.lost);
    fetch_add_relaxed<Reach::kGpu>(&all->corrupted, mine.corrupted);
    fetch_add_relaxed<Reach::kGpu>(&all->errors, mine.errors);
  }
};

}  // namespace peal::soak
