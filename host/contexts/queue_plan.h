// SPDX-License-Identifier: Apache-2.0
//
// What a context's queues take, reckoned before anything is allocated, and whether it is within
// what the NIC has and the user allows. All PEs compare the same plans, so all refuse or none. And
// which links it has from the start, before any kernel wants one, and whether they can be made.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "host/base/config.h"
#include "host/base/place.h"
#include "host/bootstrap.h"
#include "host/transport/queues.h"

namespace peal {

/// What one PE has of queues with the context that is about to be made, and what it may have. Plain
/// data that PEs exchange.
struct QueuePlan {
  uint64_t contexts = 0;       // with queues
  uint64_t queues = 0;         // ends on this PE; each has a completion queue of its own
  uint64_t bytes = 0;          // of kernels' memory: rings, completions, states
  uint64_t registrations = 0;  // umems and memory keys of those
  uint64_t allowed_bytes = 0;  // PEAL_QUEUE_MEMORY

  /// One of the PE's NICs.
  struct Nic {
    uint64_t queues = 0;      // those of the above that go by it
    uint32_t log_max_qp = 0;  // for all that share it
    uint32_t log_max_cq = 0;
    std::array<char, 64> name = {};
  };
  uint64_t nics = 0;            // 0: it needs none
  uint64_t nic_of_process = 0;  // 1: no other process shares them
  std::array<Nic, kMaxRails> nic = {};

  /// Sets the NICs whose limits hold; to be called before add().
  void set_nics(const Rails& rails);
  /// Adds a context that has `queues_per_peer` queues to each of `n_pes` PEs, itself included.
  void add(const QueueShape& shape, int n_pes);
};

/// One line: "32 queues (8 PEs x 4) of 1024 WQEBBs, ...".
std::string describe(const QueuePlan& plan, const QueueShape& shape, int n_pes);

/// Throws kInvalidArgument that names a PE, the count, the limit it is beyond and the settings that
/// lower it. `plans` and `places` are by PE.
void check_plans(std::span<const QueuePlan> plans, std::span<const Place> places);

/// The links that a context has from the start: to the next PE and the one before, so that every
/// NIC has sent and received before any kernel runs, and to PEs with which this one cannot talk
/// (Channel), whose links are made by collective calls. With ConnectKind::kAuto those to PEs of
/// other hosts (or network namespaces), too: a network may let no UDP through. With
/// ConnectKind::kEager all. None to PEs that are masked.
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
