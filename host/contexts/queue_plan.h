// SPDX-License-Identifier: Apache-2.0
//
// What a context's queues take, reckoned before anything is allocated, and whether it is within
// what the NIC has and the user allows. All PEs compare the same plans, so all refuse or none.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>

#include "host/base/place.h"
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

}  // namespace peal
