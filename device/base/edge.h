// SPDX-License-Identifier: Apache-2.0
//
// Names for the ends of the ordering edges of docs/memory_model.md, so that code can say which edge
// an operation is part of: load_acquire<R, Edge::kM4>(...). It costs nothing and changes nothing,
// but in a simulation (order_sim.h), which can take the ordering from one of them and must then see
// its workloads fail.
#pragma once

#include <cstdint>

#include "device/base/target.h"

#if PEAL_SIM
#include "simt/simulation.h"
#endif

namespace peal {

/// kM4 is the main end of edge M4; another part that a simulation can take away has its own name.
enum class Edge : uint8_t {
  kNone,
  kM1,
  kM1Group,  // lanes of a warp that post together, to the one that publishes
  kM1Ring,   // the acquiring end
  kM2,
  kM2Far,  // of a source outside of this GPU's memory
  kM3,
  kM4,
  kM4Raise,  // the releasing end
  kM5,
  kM5Wait,  // from the lane that polled to another that waits
  kM6,
  kM6Swap,    // words that are atomics where WRITEs are placed in any order
  kM6Atomic,  // no edge, but an order that NICs have: their atomics behind what is ahead of them
  kM7,
  kM8,
  kM8Block,  // lanes of a block
  kM8Back,   // from the leader back to the lanes
  kM9,
  kM10,
  kM11,
  kM11Take,  // the acquiring end
  kM12,
  kM13,
  kM14,
  kM14Group,  // lanes of a warp that post together: each finds its own work published
  kM14Batch,  // queues that were found drained
  kM15,
  kM16,
  kM16Signal,  // a signal by a store
  kM16Meet,    // what a member's kernel stored before it meets the others for a collective call
  kM17,
  kM17Signal,  // data by a NIC, its signal by a store
  kM18,
  kM18Fence,  // the DUMP waits for the READ before it
  kM19,
  kM19Done,   // from the block that ends a grid's call back to the others
  kM20,       // a batch's end rings
  kM20Drain,  // quiet rings what a batch holds back
  kM20Wait,   // and so does a wait for its ticket
  kM21,       // a member has taken what a short call brought; its place is written again
  kM22,
  kM22Post,    // the first post of a queue marks it
  kM22Mark,    // a mark waits for a quiet that is taking it off
  kM22Unmark,  // only a queue that nobody has reserved since is unmarked
  kM22Settle,  // and only one that is settled, where queues are
  kM23,        // a user's release, and the releasing half of one that does both
  kM23Nic,     // what the lane stored, before a release that its NIC carries
  kM23Key,     // a release through the NIC goes behind the payload ahead of it
  kM23Settle,  // which is where all ways show it, if there are several
  kM24,        // a user's acquire, and the acquiring half of one that does both
  kCount,
};

/// True where a simulation has taken this edge away; for edges that are no single operation.
#if PEAL_SIM
inline bool weakened(Edge edge) { return simt::weakened(static_cast<unsigned>(edge)); }
#else
PEAL_HD constexpr bool weakened(Edge) { return false; }
#endif

}  // namespace peal
