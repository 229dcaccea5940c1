// SPDX-License-Identifier: Apache-2.0
//
// The fields of a context and the tables that it points at: plain data that the host fills in and
// kernels read. ContextState is what kernels write and the host reads.
//
//   put(ctx, dst, src, n, pe):   dst -> window, offset, rkey of pe      block -> queue of pe
#pragma once

#include <cstddef>
#include <cstdint>

#include "device/base/endian.h"
#include "device/base/wait_record.h"
#include "device/mlx5/queue.h"
#include "device/status.h"

namespace peal {

inline constexpr uint32_t kContextVersion = 6;
inline constexpr uint32_t kMaxWindows = 64;
/// ContextFields::settle where some GPU shows what NICs write in no order.
inline constexpr uint32_t kSettleAlways = 2;
/// PEs whose mapped heaps a context holds itself: the GPUs of one machine.
inline constexpr uint32_t kNearPes = 8;

/// A barrier tells up to kSyncFan - 1 PEs a round: one round for the PEs of a machine.
inline constexpr uint32_t kSyncFan = 8;

/// Memory the NICs know: registered with each, with `base` as address 0, so an address on the wire
/// is an offset from `base`.
struct Window {
  std::byte* base;
  uint64_t bytes;
  Be32 lkeys[mlx5::kMaxRails];  // by rail; in the context itself for the heap
  const Be32* rkeys;  // [rails][n_pes], for payload: may be registered with relaxed ordering. Null:
                      // this PE alone registered it, good as a source or destination at home
  const Be32* word_rkeys;    // the same memory with strict ordering: signals, atomics, p
  std::byte* const* direct;  // [n_pes]: where the peer's copy is mapped here, or null
  uint32_t far = 0;          // 1: not in the memory of the GPU that runs the kernels
  uint32_t dumped = 0;       // 1: a completion does not say that what the NIC brought is here; a
                             // DUMP behind it does. Edge M18
};

/// Window 0 is the symmetric heap. Grows while contexts exist; `count` is published last.
struct WindowTable {
  uint32_t count;
  uint32_t reserved;
  Window window[kMaxWindows];
};

/// What a call does with a range: for whom it refuses.
enum class Doing : uint8_t {
  kOther,
  kPut,
  kGet,
  kP,
  kG,
  kSignal,
  kAtomic,
  kQuiet,
  kCollective,
  // At home.
  kPutSource,
  kGetDestination,
  kAtomicResult,
  kCount,
};

/// The first call that could not be carried out because of its arguments. `status` is written last.
struct UsageError {
  uint32_t status;
  uint32_t claimed;
  int32_t pe;
  uint32_t doing;  // a Doing
  uint64_t address;
  uint64_t bytes;
  uint64_t time_ns;  // device clock
  LaneName lane;
};

struct ContextState;

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
  uint32_t sync_rounds;   // of the barrier: see detail/barrier.h; 0: it is ContextState::survivors'
  uint32_t relaxed;       // 1: payload may be placed in any order: only a drained queue orders puts
  int32_t near_first;     // the PE of near[0]
  uint32_t rails;         // queue q of every peer goes by rail q % rails; without NICs 1
  uint32_t settle;        // not 0: only a settled queue says that a peer's memory shows what it
                          // carried, for flags may come there by another way (detail/drain.h). Edge
                          // M17. kSettleAlways: not even flags that come behind it do
  uint32_t sets_by_swap;  // 1: Signal::set and barrier flags are atomics, else RDMA WRITEs
  uint32_t slot;          // of the job's contexts this one's number, alike on all PEs
  Window heap;            // window 0 again: the usual case costs no look into the table
  const WindowTable* windows;
  std::byte* queues;  // [queues_per_peer][n_pes] mlx5::SendQueue, queue_stride bytes apart
  uint64_t queue_stride;
  uint64_t* marks;  // of the queues that were posted to: mlx5/mark.h
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
  WaitTable* waits;     // null: nobody asks
  alignas(64) uint64_t sync_epoch;  // barriers entered by this PE
  /// The context again: where code out of line finds it. An address of a kernel's argument would
  /// make the kernel copy the argument to its stack.
  alignas(64) ContextFields fields;
};

}  // namespace peal
