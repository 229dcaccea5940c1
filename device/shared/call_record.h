// SPDX-License-Identifier: Apache-2.0
//
// The flight recorder of a context (PEAL_RECORD): a ring of its last calls, and counters of all of
// them. Plain data that kernels write (detail/recorded.h) and the host reads while they run.
//
//   turn:   0 -> being written -> begun -> being written -> ended -> being written (next lap) ...
//
// `turn` changes with every step and never repeats, so a reader that finds it the same before and
// after its copy has a whole record; a lane that finds a record being written by another gives its
// own call up, and `missed` counts it.
#pragma once

#include <cstdint>

#include "device/base/target.h"
#include "device/shared/call_list.h"
#include "device/shared/call_note.h"
#include "device/shared/post_times.h"
#include "device/shared/wait_record.h"

namespace peal {

enum class CallPhase : uint64_t { kEmpty, kWritten, kBegun, kEnded };

/// One call. What it does not have is as in its CallNote.
struct CallRecord {
  uint64_t turn;  // 4 * (calls before this one + 1) + CallPhase
  struct Body {
    uint64_t begun_ns;  // device clock
    uint64_t ended_ns;  // 0: it lasts
    LaneName lane;      // the leader of the scope
    uint64_t place;     // as UsageError::place
    const void* there;
    uint64_t bytes;  // of all rows
    const void* here;
    const void* word;
    uint64_t value;     // of a signal; of a wait what it wanted, or saw
    uint64_t number;    // a team's id; of sync_all and barrier_all which one it was; of a wait 1 if
                        // `value` is what it saw
    const void* queue;  // of a ticket
    uint64_t index;     // of a ticket
    int32_t pe;
    Call call;
    CallScope scope;
    uint8_t starts;
    uint8_t adds;
    uint32_t status;  // of one that ended: a Status
    uint32_t unused;
  } body;

  PEAL_HD static CallPhase phase(uint64_t turn) { return static_cast<CallPhase>(turn % 4); }
  PEAL_HD static uint64_t turn_of(uint64_t number, CallPhase phase) {
    return 4 * (number + 1) + static_cast<uint64_t>(phase);
  }
};
static_assert(sizeof(CallRecord) == 128);

/// What the calls of one name that have ended add up to.
struct CallCount {
  uint64_t calls;
  uint64_t bytes;     // of all rows
  uint64_t time_ns;   // from begin to end, added up over lanes
  uint64_t timeouts;  // ended with kTimeout
  uint64_t failed;    // ended with any other Status than kOk
};

/// The records of one context. `ring` has mask + 1 of them.
struct RecordTable {
  CallRecord* ring;
  uint64_t mask;
  uint64_t ran;     // 1: a kernel that was compiled with the recorder has run
  uint64_t next;    // calls that have begun
  uint64_t missed;  // calls whose record was being written by another lane
  uint64_t looks;   // test, signal_fetch: that answered no
  CallCount count[static_cast<uint32_t>(Call::kCount)];
  PostTimes posts;
};

}  // namespace peal
