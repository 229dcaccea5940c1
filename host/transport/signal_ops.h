// SPDX-License-Identifier: Apache-2.0
//
// How words that vouch for data travel: Signal::set and the flags of barriers. As an RDMA WRITE
// such a word may overtake its data where WRITEs are placed out of order; as an atomic it never
// does, as long as a NIC executes it behind what is ahead of it; else it may start only when that
// is done.
//
// PEAL_SIGNAL_OPS=auto takes WRITEs where every NIC of the job places them in order, else atomics,
// that wait where some NIC does not execute them in order; =write takes WRITEs, with queue pairs
// that force order where they must, and is an error where they cannot; =atomic takes atomics that
// do not wait, =strong atomics that do.
#pragma once

#include <string>
#include <vector>

#include "host/base/config.h"
#include "host/nic/placement.h"

namespace peal {

/// What a PE tells of that one of its NICs which orders WRITEs least.
struct PlacementOffer {
  nic::PlacementFacts facts;
  char nic[32] = {};
};

/// The decision, the same on all PEs.
struct SignalOps {
  bool atomic = true;
  bool waits = false;     // atomics start when all ahead of them is done (strong order)
  bool forced = false;    // queue pairs that can are to force order
  bool in_order = false;  // of payload too: a queue keeps the order of its puts
  /// Nothing relies on the order of WRITEs: queue pairs ask for adaptive routing.
  bool any_order() const { return atomic && !in_order; }
  std::string why;  // for people, begins with what was chosen
};

/// The one of `nics` that orders WRITEs least, with the atomics of that which orders those least.
PlacementOffer least_ordered(const std::vector<PlacementOffer>& nics);

/// Decides for a job whose PEs made these offers. Throws kConfiguration that names the PE and its
/// NIC for kWrite where that cannot be.
SignalOps choose_signal_ops(SignalOpsSetting asked, const std::vector<PlacementOffer>& offers);

}  // namespace peal
