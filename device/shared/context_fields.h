// SPDX-License-Identifier: Apache-2.0
//
// The fields of a context, which the host fills in and kernels read, and ContextState, which
// kernels write and the host reads.
//
//   put(ctx, dst, src, n, pe):   dst -> window, offset, rkey of pe      block, warp -> queue of pe
#pragma once

#include <cstddef>
#include <cstdint>

#include "device/shared/call_record.h"
#include "device/shared/check_table.h"
#include "device/shared/link_faults.h"
#include "device/shared/wait_record.h"
#include "device/shared/window_table.h"

namespace peal {

inline constexpr uint32_t kContextVersion = 15;
/// ContextFields::settle where some GPU shows what NICs write in no order.
inline constexpr uint32_t kSettleAlways = 2;
/// ContextFields::signals: Signal::set and barrier flags are atomics, else RDMA WRITEs; and words
/// that are atomics start when everything ahead of them on their queue is done.
inline constexpr uint32_t kSignalsSwap = 1, kSignalsWait = 2;

/// ContextState::own_memory once lanes may have stored to memory that is in no window.
inline constexpr uint32_t kOwnMemoryStored = 2;

/// A barrier tells up to kSyncFan - 1 PEs a round: one round for the PEs of a machine.
inline constexpr uint32_t kSyncFan = 8;

/// Rounds of the barrier of `n_pes` PEs: ceil(log_kSyncFan(n_pes)).
PEAL_HD constexpr uint32_t sync_rounds(int n_pes) {
  uint32_t rounds = 0;
  for (int64_t reached = 1; reached < n_pes; reached *= kSyncFan) ++rounds;
  return rounds;
}

/// The fields of a context; BasicContext adds the type of ownership.
struct ContextFields {
  uint32_t version;  // first, and compared by the host where a program takes a context
  uint32_t bytes;    // of this struct; a newer library may have more than the program knows
  int32_t pe;
  int32_t n_pes;
  uint32_t queues_per_peer;
  uint32_t sync_rounds;  // of the barrier: see detail/barrier.h; 0: it is ContextState::survivors'
  uint16_t relaxed;      // 1: payload may be placed in any order: only a drained queue orders puts
  uint8_t by_warp;       // 1: each warp chooses a queue, not each block: detail/queue_choice.h
  uint8_t stores_stay;   // 1: the heap is in this GPU's memory, and no other PE's is mapped: what
                         // lanes store directly stays here, but for detail::stored_elsewhere()
  int32_t near_first;    // the PE of near[0]
  uint32_t rails;        // queue q of every peer goes by rail q % rails; without NICs 1
  uint32_t settle;       // not 0: only a settled queue says that a peer's memory shows what it
                         // carried, for flags may come there by another way (detail/drain.h). Edge
                         // kNicDataBeforeFlag. kSettleAlways: not even flags that come behind it do
  uint32_t signals;      // kSignalsSwap | kSignalsWait
  uint32_t slot;         // of the job's contexts this one's number, alike on all PEs
  Window heap;           // window 0 again: the usual case costs no look into the table
  const WindowTable* windows;
  std::byte* queues;  // [queues_per_peer][n_pes] SendQueue, queue_stride bytes apart
  uint64_t queue_stride;
  uint64_t* marks;  // of the queues that were posted to: nic/mark.h
  ContextState* state;
  const uint32_t* stop;  // a Status that ends every wait, or 0; the host writes it
  uint64_t* sync_flags;  // [sync_rounds][kSyncFan - 1], symmetric; written by the peers
  uint64_t timeout_ns;   // of every wait; 0 = none
  // heap.direct[near_first + i] again: a kernel's argument is always at hand.
  std::byte* near[kNearPes];
};

/// The PEs that are left once some are masked, for barriers: this one is pe[rank] of `count`.
struct Survivors {
  const int32_t* pe;
  uint32_t count;
  uint32_t rank;
};

/// What the lanes of all kernels on one context share beside its queues.
struct ContextState {
  UsageError usage;
  uint32_t* alarm;  // the host's word that says: look for an error here; null: nobody looks
  Survivors survivors;
  uint32_t
      look_everywhere;  // 1: the host closed queues, which may have no mark; quiet looks at all
  uint32_t ended;       // ContextFields::stop again, in the kernels' memory: at hand for calls that
                        // need no answer, and so never wait
  uint32_t own_memory;  // not 0: to this PE itself operations take any of its memory, as NVSHMEM's
                        // do; kOwnMemoryStored: one of them has
  WaitTable* waits;     // null: nobody asks
  LinkFaults* faults;   // null: no plan for mapped peers
  // Whoever looks at calls; side by side, for a call asks for both at once (detail/checked.h).
  CheckTable* checks;               // null: checked mode is off
  RecordTable* records;             // null: the flight recorder is off
  alignas(64) uint64_t sync_epoch;  // barriers entered by this PE
  /// The context again: where code out of line finds it. An address of a kernel's argument would
  /// make the kernel copy the argument to its stack.
  alignas(64) ContextFields fields;
};

}  // namespace peal
