// SPDX-License-Identifier: Apache-2.0
//
// Names for the ends of the ordering edges of docs/edges.md, so that code can say which edge
// an operation is part of: load_acquire<R, Edge::kDoneBeforeReuse>(...). It costs nothing and
// changes nothing, but in a simulation (order_sim.h), which can take the ordering from one of them
// and must then see its workloads fail.
#pragma once

#include <cstdint>

#include "device/base/target.h"

#if PEAL_SIM
#include "simt/simulation/simulation.h"
#endif

namespace peal {

/// An edge's main end has the edge's name; another part that a simulation can take away has its
/// own. The numbers are those of docs/edges.md.
enum class Edge : uint8_t {
  kNone,
  kPostedBeforeRing,      // M1
  kGroupBeforePublish,    // M1 group: lanes of a warp that post together, to the one that publishes
  kRingAfterPosted,       // M1 ring: the acquiring end
  kPostedBeforeDoorbell,  // M2
  kOffGpuSourceBeforeDoorbell,  // M2 off-GPU: a source outside of this GPU's memory
  kRecordBeforeSecondDoorbell,  // M3
  kDoneBeforeReuse,             // M4
  kReuseAfterDone,              // M4 raise: the releasing end
  kResultBeforePoll,            // M5
  kResultBeforeWait,            // M5 wait: from the lane that polled to another that waits
  kDataBeforeWord,              // M6
  kDataBeforeSwap,     // M6 swap: words that are atomics where WRITEs are placed in any order
  kDataBeforeAtomic,   // M6 atomic: no edge, but an order that NICs have: their atomics behind what
                       // is ahead of them
  kWordBeforeWait,     // M7
  kLanesBeforeLeader,  // M8
  kBlockBeforeLeader,  // M8 block: lanes of a block
  kLeaderBeforeLanes,  // M8 back: from the leader back to the lanes
  kPublishedBeforeTaken,    // M10
  kReadyBeforeWanted,       // M10 wanted: a word left for who rings
  kCellReadBeforeReuse,     // M11
  kReuseAfterCellRead,      // M11 take: the acquiring end
  kErrorBeforeStatus,       // M12
  kWindowBeforeVersion,     // M13
  kDoneBeforeQuiet,         // M14
  kDrainedBeforeQuiet,      // M14 batch: queues that were found drained
  kQuietBeforeBarrier,      // M15
  kStoresBeforeFlag,        // M16
  kOffGpuStoresBeforeFlag,  // M16 off-GPU: stores to the host's memory, where others' is not mapped
  kStoresBeforeSignal,      // M16 signal: a signal by a store
  kStoresBeforeMeeting,  // M16 meet: what a member's kernel stored before it meets the others for a
                         // collective call
  kNicDataBeforeFlag,    // M17
  kNicDataBeforeSignal,  // M17 signal: data by a NIC, its signal by a store
  kAnswerBeforeDump,     // M18
  kReadBeforeDump,       // M18 fence: the DUMP waits for the READ before it
  kBlockBeforeGrid,      // M19
  kGridBeforeBlock,      // M19 done: from the block that ends a grid's call back to the others
  kBatchBeforeRing,      // M20: a batch's end rings
  kBatchBeforeQuiet,     // M20 drain: quiet rings what a batch holds back
  kBatchBeforeWait,      // M20 wait: and so does a wait for its ticket
  kTakenBeforeReuse,     // M21: a member has taken what a short call brought; its place is written
                         // again
  kDrainedBeforeUnmark,  // M22
  kMarkBeforePublish,    // M22 post: the first post of a queue marks it
  kMarkBeforeReserve,    // M22 reserve: before later ones find it marked
  kUnmarkBeforeMark,     // M22 mark: a mark waits for a quiet that is taking it off
  kPublishedBeforeUnmark,   // M22 unmark: only a queue that nobody has reserved since is unmarked
  kSettledBeforeUnmark,     // M22 settle: and only one that is settled, where queues are
  kStoresBeforeRelease,     // M23: a user's release, and the releasing half of one that does both
  kStoresBeforeNicRelease,  // M23 nic: what the lane stored, before a release that its NIC carries
  kDataBeforeNicRelease,  // M23 key: a release through the NIC goes behind the payload ahead of it
  kNicDataBeforeRelease,  // M23 settle: which is where all ways show it, if there are several
  kAcquireBeforeLoads,    // M24: a user's acquire, and the acquiring half of one that does both
  kCount,
};

/// True where a simulation has taken this edge away; for edges that are no single operation.
#if PEAL_SIM
inline bool weakened(Edge edge) { return simt::weakened(static_cast<unsigned>(edge)); }
#else
PEAL_HD constexpr bool weakened(Edge) { return false; }
#endif

}  // namespace peal
