// SPDX-License-Identifier: Apache-2.0
//
// What becomes of a wrong call: the record that kernels leave of the first one, and what checked
// mode keeps of a context to find more of them.
#pragma once

#include <cstdint>

#include "device/shared/call_list.h"
#include "device/shared/call_note.h"
#include "device/shared/call_record.h"
#include "device/status.h"

namespace peal {

/// The first call that could not be carried out because of its arguments. `claimed`, the same as
/// `status`, is written first, for calls of the same context; `status` last, for the host.
struct UsageError {
  uint32_t status;
  uint32_t claimed;
  int32_t pe;
  Call call;
  CallSide side;  // that is wrong
  uint16_t unused;
  uint64_t address;
  uint64_t bytes;
  uint64_t time_ns;  // device clock
  LaneName lane;
  uint64_t place;  // in the program's text: simt/lanes/place.h; 0: nobody knows
  // Written in checked mode:
  uint32_t mistake;   // a Mistake
  uint32_t argument;  // of kLanesDiffer: which, by its offset in a CallNote
  LaneName other;
  uint64_t detail;        // see Mistake
  uint64_t other_detail;  // of kLanesDiffer: the other lane's
};

struct ContextState;

/// What checked mode calls on a CPU, where the host looks at calls too. `end` has the note of
/// `begin`, with what was learned meanwhile: its ticket.
struct CallHooks {
  void* self;
  void (*begin)(void* self, ContextState* state, const CallNote& note);
  void (*end)(void* self, ContextState* state, const CallNote& note, Status status);
  void (*found)(void* self, const ContextState* state, const UsageError& error);
};

/// What checked mode keeps of one context. The owner of a thing is a lane's number + 1, or 0.
struct CheckTable {
  static constexpr uint32_t kUnit = 128;      // bytes of heap that an extent is about
  static constexpr uint8_t kFreed = 0xfd;     // extents that are none
  static constexpr uint8_t kInternal = 0xfe;  // memory of the runtime itself
  static constexpr uint32_t kTeams = 64;      // by id modulo this
  static constexpr uint32_t kQueues = 64;     // queues of a peer, likewise

  const uint8_t* extents;  // [heap bytes / kUnit]: how many bytes of the unit are allocated, from
                           // its first on
  const CallHooks* hooks;  // null: kernels run on a GPU
  uint32_t ran;            // 1: a kernel that was compiled with checks has run
  uint32_t reserved;
  uint64_t barrier;             // who is in a barrier
  uint64_t team[kTeams];        // who is in a collective call
  uint64_t queue[kQueues];      // whose call uses the block's queues now
  uint64_t undrained[kQueues];  // the block that has posted since it drained them, + 1
};

}  // namespace peal
