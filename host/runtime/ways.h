// SPDX-License-Identifier: Apache-2.0
//
// How a PE reaches the others: by loads and stores of memory that is mapped, by NICs, and why so.
#pragma once

#include <memory>

#include "host/memory/gpu.h"
#include "host/memory/symmetric_heap.h"
#include "host/runtime/job.h"
#include "host/transport/p2p.h"
#include "host/transport/rails.h"
#include "host/transport/routes.h"

namespace peal {

struct Ways {
  /// Collective. Maps the peers' heaps where that is asked for, and opens the NICs where some PE
  /// has a peer that is not mapped.
  Ways(JobMembership& job, const std::shared_ptr<Gpu>& gpu, const SymmetricHeap& heap);

  const std::unique_ptr<P2p> p2p;  // null: nothing is mapped (RouteOptions::try_p2p)
  PeerMemory mapped_heaps;         // until Windows takes them
  const Reachable reachable;
  const std::unique_ptr<const Rails> rails;  // null: every peer is reached directly
  const Routes routes;

  uint32_t rail_count() const { return rails ? rails->count() : 1; }

 private:
  Ways(JobMembership& job, const std::shared_ptr<Gpu>& gpu, const SymmetricHeap& heap,
       const RouteOptions& options);
};

}  // namespace peal
