// SPDX-License-Identifier: Apache-2.0
//
// What a lane writes down of a wait that lasts, or that ended without its condition: which wait,
// whose, for what. Plain data that kernels write and the host reads, kWaitRecords for each context.
//
//   free -> being written -> waiting -> free                 the condition came true
//                                   \-> ended                it did not; until handled() or
//                                   recover()
//
// Cold on both sides: a wait of a thousand turns writes its record once (waits.h).
#pragma once

#include <cstdint>

#include "device/base/target.h"

namespace peal {

enum class WaitKind : uint32_t {
  kOther,
  kWord,        // wait_until and its sets
  kSignal,      // signal_wait_until
  kBarrier,     // sync_all, barrier_all: `pe` has not entered barrier `number`
  kTeam,        // a collective call: `pe` has not entered meeting `number` of team `team`
  kGrid,        // a collective call of a grid: the other blocks
  kMembers,     // a collective call: what other members send
  kSwap,        // an atomic made of compare and swap
  kFault,       // a fault on demand on the way to PE `pe`
  kQuiet,       // quiet, fence, barrier_all: WQE `number` of `queue`
  kCompletion,  // a ticket, or an operation that returns when it is complete: likewise
  // These close their queue, which then tells of the failure.
  kRoom,     // a slot of `queue`
  kLanding,  // a landing cell
  kLink,     // the connection of the queue
  kCount,
};

/// What is waited for. What a kind does not have is left as it is here.
struct Wait {
  WaitKind kind = WaitKind::kOther;
  int32_t pe = -1;             // whom it would come from, if that is one PE
  const void* word = nullptr;  // the first one of a set
  uint16_t word_bytes = 0;     // 4 or 8
  uint16_t word_signed = 0;
  uint32_t compare = 0;  // a Compare
  uint64_t wanted = 0;
  uint64_t team = 0;
  uint64_t number = 0;
  const void* queue = nullptr;  // a SendQueue
};

/// A lane, as messages name it.
struct LaneName {
  uint64_t kernel;  // its address, or 0 where nobody knows
  uint32_t block;
  uint32_t thread;
};

enum class WaitPhase : uint32_t { kFree, kWritten, kWaiting, kEnded };

struct WaitRecord {
  uint32_t state;   // WaitPhase + 4 * how often it was free again
  uint32_t status;  // of one that ended: a Status
  struct Body {
    Wait wait;
    uint64_t found;     // in the word, when the record was written
    uint64_t begun_ns;  // when it was written first: device clock; 0: when the wait had ended
    uint64_t ended_ns;
    LaneName lane;
    uint64_t place;  // as UsageError::place
  } body;

  PEAL_HD static WaitPhase phase(uint32_t state) { return static_cast<WaitPhase>(state % 4); }
};
static_assert(sizeof(WaitRecord) == 112 && sizeof(WaitRecord::Body) % 8 == 0);

inline constexpr uint32_t kWaitRecords = 32;

/// The waits of one context.
struct WaitTable {
  uint32_t* alarm;   // the host's word that says: look here
  uint64_t dropped;  // waits that found no record free
  WaitRecord record[kWaitRecords];
};

}  // namespace peal
