// SPDX-License-Identifier: Apache-2.0
//
// The links that a context has from the start, before any kernel wants one.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "host/base/config.h"
#include "host/base/place.h"
#include "host/bootstrap.h"
#include "host/transport/queues.h"

namespace peal {

/// The links that a context has from the start: to the next PE and the one before, so that every
/// NIC has sent and received before any kernel runs, and to the PEs of other hosts (or network
/// namespaces), which cannot be asked for a link later. With ConnectKind::kEager all. None to PEs
/// that are masked.
class FirstLinks {
 public:
  /// `places` by PE; they outlive this.
  FirstLinks(ConnectKind kind, std::span<const Place> places, std::vector<int> masked)
      : kind_(kind), places_(places), masked_(std::move(masked)) {}

  /// The same from either end.
  bool between(uint32_t a, uint32_t b) const;
  /// The PEs that `pe` is linked to, ascending.
  std::vector<uint32_t> of(uint32_t pe) const;
  /// How many that is at most.
  size_t most() const;

 private:
  ConnectKind kind_;
  std::span<const Place> places_;
  std::vector<int> masked_;
};

/// What each end of a PE's queues is like, by rail.
using RailEnds = std::array<Endpoint, kMaxRails>;
RailEnds rail_ends(const Rails& rails, const QueueShape& shape);

/// Collective. Throws, the same on all PEs, where a rail of `ends` (by PE) has software NICs that
/// do not share a fabric, or has them on some PEs only: addresses that two fabrics both know lead
/// each PE to somebody else, or to itself.
void check_fabrics(Bootstrap& group, const Rails& rails, std::span<const RailEnds> ends);

/// Throws unless any two PEs could be connected by each rail that queues of `shape` go by, and
/// `with_itself` each with itself: the same on all PEs. `ends` by PE.
void check_rail_ends(std::span<const RailEnds> ends, const QueueShape& shape, bool with_itself);

}  // namespace peal
