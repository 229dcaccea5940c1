// SPDX-License-Identifier: Apache-2.0
//
// What is run under every seed. A workload builds a job in the simulation it is given, runs it, and
// throws Failure when something came out wrong.
#pragma once

#include <cstdint>
#include <span>
#include <stdexcept>
#include <string>

#include "device/status.h"
#include "simt/simulation/simulation.h"

namespace peal::sim {

class Failure : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

inline void expect(bool good, const std::string& what) {
  if (!good) throw Failure(what);
}
template <class T>
void expect_equal(T seen, T wanted, const std::string& what) {
  if (seen == wanted) return;
  throw Failure(what + " is " + std::to_string(seen) + ", not " + std::to_string(wanted));
}
inline void expect_equal(const char* seen, const char* wanted, const std::string& what) {
  if (std::string(seen) != wanted) throw Failure(what + ": " + seen + ", not " + wanted);
}
inline void expect_ok(Status status, const std::string& what) {
  if (status != Status::kOk) throw Failure(what + ": " + to_string(status));
}

struct Workload {
  const char* name;
  void (*run)(simt::Simulation& sim);
};

/// All of them, in the order of docs/simulation.md.
std::span<const Workload> workloads();

// transfers.cc
void many_lanes(simt::Simulation& sim);
void owned_queues(simt::Simulation& sim);
void full_queue(simt::Simulation& sim);
void index_wrap(simt::Simulation& sim);
void off_gpu_source(simt::Simulation& sim);
void fetches(simt::Simulation& sim);
void landing_cells(simt::Simulation& sim);
void host_fetches(simt::Simulation& sim);
// direct_stores.cc
void off_gpu_stores(simt::Simulation& sim);
void home_stores(simt::Simulation& sim);
void own_memory_stores(simt::Simulation& sim);
// signals.cc
void put_signal_thread(simt::Simulation& sim);
void put_signal_scope(simt::Simulation& sim);
void put_signal_direct(simt::Simulation& sim);
void atomics_to_one(simt::Simulation& sim);
void relay_mixed(simt::Simulation& sim);
void put_signal_two_ways(simt::Simulation& sim);
// ordered_atomics.cc
void lock_mapped(simt::Simulation& sim);
void lock_by_nic(simt::Simulation& sim);
void deque_mapped(simt::Simulation& sim);
void deque_by_nic(simt::Simulation& sim);
void release_by_nic(simt::Simulation& sim);
void release_chain(simt::Simulation& sim);
void release_mixed(simt::Simulation& sim);
// batches.cc
void batches(simt::Simulation& sim);
void batch_left_open(simt::Simulation& sim);
void batch_ticket(simt::Simulation& sim);
void fetches_later(simt::Simulation& sim);
// barriers.cc
void barrier_storm(simt::Simulation& sim);
void owner_blocks(simt::Simulation& sim);
void barrier_direct(simt::Simulation& sim);
void barrier_mixed(simt::Simulation& sim);
void quiet_of_many(simt::Simulation& sim);
void quiet_marks(simt::Simulation& sim);
// collectives.cc
void team_mapped(simt::Simulation& sim);
void team_of_ten(simt::Simulation& sim);
void team_by_nic(simt::Simulation& sim);
void team_mixed(simt::Simulation& sim);
void team_carried(simt::Simulation& sim);
void team_of_owners(simt::Simulation& sim);
void team_of_grids(simt::Simulation& sim);
void team_of_launches(simt::Simulation& sim);
void team_disagrees(simt::Simulation& sim);
// lifecycle.cc
void start_up(simt::Simulation& sim);
void new_window(simt::Simulation& sim);
void lossy_wire(simt::Simulation& sim);
void fault_plan(simt::Simulation& sim);
void refused_write(simt::Simulation& sim);
void stopped(simt::Simulation& sim);

}  // namespace peal::sim
