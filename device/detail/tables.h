// SPDX-License-Identifier: Apache-2.0
//
// The fields of a context and the tables that it points at: plain data that the host fills in and
// kernels read. ContextState is what kernels write and the host reads.
//
//   put(ctx, dst, src, n, pe):   dst -> window, offset, rkey of pe      block -> queue of pe
#pragma once

#include <cstddef>
#include <cstdint>

#include "device/base/call_list.h"
#include "device/base/call_note.h"
#include "device/base/call_record.h"
#include "device/base/endian.h"
#include "device/base/wait_record.h"
#include "device/detail/link_faults.h"
#include "device/mlx5/queue.h"
#include "device/status.h"

namespace peal {

inline constexpr uint32_t kContextVersion = 12;
inline constexpr uint32_t kMaxWindows = 8192;
/// ContextFields::settle where some GPU shows what NICs write in no order.
inline constexpr uint32_t kSettleAlways = 2;
/// ContextFields::signals: Signal::set and barrier flags are atomics, else RDMA WRITEs; and words
/// that are atomics start when everything ahead of them on their queue is done.
inline constexpr uint32_t kSignalsSwap = 1, kSignalsWait = 2;
/// PEs whose mapped heaps a context holds itself: the GPUs of one machine.
inline constexpr uint32_t kNearPes = 8;

/// A barrier tells up to kSyncFan - 1 PEs a round: one round for the PEs of a machine.
inline constexpr uint32_t kSyncFan = 8;

/// The part of a window that a PE has, for others.
struct alignas(16) WindowPart {
  uint64_t iova;  // where it begins for NICs
  uint64_t bytes;
};

/// Memory of one PE, or one part of it at each PE, that operations transfer from and to. To a NIC
/// the part of a PE begins at an address of its own, `iova`, which is where in its page it begins:
/// verbs registers memory under no other address that suits all.
struct alignas(16) Window {
  std::byte* base;              // the part of this PE
  uint64_t bytes;               // of the same
  Be32 lkeys[mlx5::kMaxRails];  // by rail; in the context itself for the heap
  const Be32* rkeys;  // [rails][n_pes], for payload: may be registered with relaxed ordering. Null:
                      // this PE alone registered it, good as a source or destination at home
  const Be32* word_rkeys;    // the same memory with strict ordering: signals, atomics, p
  std::byte* const* direct;  // [n_pes]: where the peer's part is mapped here, or null
  uint16_t far = 0;          // 1: not in the memory of the GPU that runs the kernels
  uint16_t dumped = 0;       // 1: a completion does not say that what the NIC brought is here; a
                             // DUMP behind it does. Edge kAnswerBeforeDump
  uint32_t iova = 0;         // of the part of this PE
  const WindowPart* parts = nullptr;  // [n_pes]; null: all are as this PE's
};
static_assert(offsetof(Window, bytes) == 8, "base and bytes are read as one line");

/// Which windows an address is of: of those that hold it the one that ends last, and of several
/// that end there the one with the highest number. A range that any window holds that one holds,
/// too. It is good up to where the next span begins. Window 0 stands for none.
struct WindowSpan {
  uint64_t begin;
  uint32_t home;  // of all windows
  uint32_t peer;  // of those that all PEs registered
};

/// One entry of a hash table: the spans that a granule of addresses has bytes of.
struct WindowSlot {
  uint64_t granule;  // address >> shift
  uint32_t first;    // span
  uint32_t count;    // 0: an empty slot, at which a search ends
};

/// A lane may read a line while the host writes another one there. The upper 16 bits of each word
/// are the serial number of its window, not 0: a lane that finds two numbers takes the line for
/// none. A line of zeros sends it to the window's entry.
inline constexpr uint32_t kMarkShift = 48;

/// Where the part that a near PE (ContextFields::near) has of a window is mapped here.
struct alignas(16) WindowNear {
  uint64_t limit;  // bytes of the part + 1; marked, as all of it
  uint64_t there;
};

/// The same for all near PEs, by addresses of this PE's part: of its first bytes, as many as the
/// smallest part has.
struct alignas(16) WindowNearAt {
  uint64_t begin;            // marked, as all of it
  uint64_t limit;            // the end + 1
  uint64_t apart[kNearPes];  // how far behind `begin` the PE's part is, modulo 2^48; 0: not mapped
};

/// Finds windows by address. Only a hint: a lane may read one that the host is replacing, so
/// whoever is told of a window looks whether it holds the range.
struct WindowIndex {
  static constexpr uint32_t kSlots = 4 * kMaxWindows;
  static constexpr uint32_t kSpans = 2 * kMaxWindows;
  static constexpr uint32_t kProbes = 64;     // after which a search ends
  static constexpr uint32_t kNearProbes = 2;  // the same, of WindowNear: most are at the first

  /// Where the search for a granule begins, among 2 to the power of 32 - `drop` slots.
  PEAL_HD static uint32_t first_slot(uint64_t granule, uint32_t drop) {
    return static_cast<uint32_t>(granule) * 0x9e3779b9u >> drop;
  }

  WindowSlot slot[kSlots];
  WindowSpan span[kSpans];
  WindowNearAt near[kSlots];  // by slot: one of the windows that the granule has bytes of
};

/// The index that is in use, read as one line.
struct alignas(16) ShownIndex {
  const WindowIndex* index;  // null: there is none
  uint32_t shift;            // of addresses
  uint32_t drop;             // WindowIndex::first_slot; the others' number follows from it
};

/// Window 0 is the symmetric heap. Windows come and go while contexts exist; entries that are not
/// in use are empty.
struct WindowTable {
  uint32_t version;  // goes up with every change, after it. Edge kWindowBeforeVersion
  uint32_t count;    // no entry from here on is in use
  ShownIndex shown;
  Window window[kMaxWindows];
  WindowNear near[kNearPes][kMaxWindows];
};

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
  uint32_t relaxed;      // 1: payload may be placed in any order: only a drained queue orders puts
  int32_t near_first;    // the PE of near[0]
  uint32_t rails;        // queue q of every peer goes by rail q % rails; without NICs 1
  uint32_t settle;       // not 0: only a settled queue says that a peer's memory shows what it
                         // carried, for flags may come there by another way (detail/drain.h). Edge
                         // kNicDataBeforeFlag. kSettleAlways: not even flags that come behind it do
  uint32_t signals;      // kSignalsSwap | kSignalsWait
  uint32_t slot;         // of the job's contexts this one's number, alike on all PEs
  Window heap;           // window 0 again: the usual case costs no look into the table
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
  uint32_t ended;       // ContextFields::stop again, in the kernels' memory: at hand for calls that
                        // need no answer, and so never wait
  uint32_t own_memory;  // 1: to this PE itself operations take any of its memory, as NVSHMEM's do
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
