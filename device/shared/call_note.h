// SPDX-License-Identifier: Apache-2.0
//
// A call of a kernel as checked mode sees it (detail/checked.h), and the mistakes that it finds.
// Plain data.
#pragma once

#include <cstdint>

#include "device/base/target.h"
#include "device/shared/call_list.h"

namespace peal {

/// Who makes a call.
enum class CallScope : uint8_t { kThread, kWarp, kBlock, kGrid };

/// What a call does to memory. What a call does not have is left as it is here.
///
///   put, get, p, g, atomics   `there` at `pe`, `here` or a register at home
///   signal, put_signal        `word` is the signal's; of signal `there` is the same
///   waits and looks           `there` is the words at home
///   of a team                 `number` is its id, `there` is dst, `here` is src
///   quiet, fence              `pe` -1: for all PEs
struct CallNote {
  Call call = Call::kNone;
  CallScope scope = CallScope::kThread;
  uint8_t starts = 0;     // 1: returns before it is done
  uint8_t adds = 0;       // 1: the signal adds `value`
  int32_t pe = -1;        // whose memory `there` is in
  uint32_t releases = 0;  // 1: an atomic or signal that vouches for what is ahead of it to that PE
  const void* there = nullptr;  // symmetric: this PE's address of it
  uint64_t there_bytes = 0;     // of a row
  const void* here = nullptr;   // at home; null: a register
  uint64_t here_bytes = 0;      // of a row
  uint64_t rows = 1;
  int64_t there_pitch = 0;  // bytes between the beginnings of rows
  int64_t here_pitch = 0;
  const void* word = nullptr;
  uint64_t value = 0;  // of a signal, or what a wait wants
  uint64_t number = 0;
  const void* queue = nullptr;  // of a ticket
  uint64_t index = 0;           // of a ticket
};
static_assert(sizeof(CallNote) % 4 == 0);

/// What a call turned out to be wrong in.
enum class Mistake : uint32_t {
  kNone,
  kNotAllocated,  // the range lies in no block of the heap
  kPastEnd,       // it begins in a block and ends behind it
  kFreed,         // it lies in a block that was given back
  kInternal,      // it lies in memory of the runtime itself
  kLanesDiffer,   // lanes of a scope gave different arguments; `other` is the lane, with its value
  kLanesMissing,  // lanes of the block have ended; `detail` is how many are left
  kBarrierInUse,  // another scope is in a barrier, or a call of the team; `other` is its lane
  kQueueShared,   // the queue belongs to another block or lane; `other` is its lane
  kTicketOther,   // the ticket is of no queue of the context
  kTicketStale,   // the ticket is of before recover()
  kCount,
};

}  // namespace peal
