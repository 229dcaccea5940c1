// SPDX-License-Identifier: Apache-2.0
//
// The list.
#include "tests/sim/workload.h"

namespace peal::sim {
namespace {

constexpr Workload kWorkloads[] = {
    {"many_lanes", many_lanes},
    {"owned_queues", owned_queues},
    {"full_queue", full_queue},
    {"index_wrap", index_wrap},
    {"off_gpu_source", off_gpu_source},
    {"fetches", fetches},
    {"landing_cells", landing_cells},
    {"host_fetches", host_fetches},
    {"off_gpu_stores", off_gpu_stores},
    {"home_stores", home_stores},
    {"own_memory_stores", own_memory_stores},
    {"put_signal_thread", put_signal_thread},
    {"put_signal_scope", put_signal_scope},
    {"put_signal_direct", put_signal_direct},
    {"atomics_to_one", atomics_to_one},
    {"relay_mixed", relay_mixed},
    {"put_signal_two_ways", put_signal_two_ways},
    {"lock_mapped", lock_mapped},
    {"lock_by_nic", lock_by_nic},
    {"deque_mapped", deque_mapped},
    {"deque_by_nic", deque_by_nic},
    {"release_by_nic", release_by_nic},
    {"release_chain", release_chain},
    {"release_mixed", release_mixed},
    {"batches", batches},
    {"batch_left_open", batch_left_open},
    {"batch_ticket", batch_ticket},
    {"fetches_later", fetches_later},
    {"barrier_storm", barrier_storm},
    {"barrier_direct", barrier_direct},
    {"owner_blocks", owner_blocks},
    {"barrier_mixed", barrier_mixed},
    {"quiet_of_many", quiet_of_many},
    {"quiet_marks", quiet_marks},
    {"team_mapped", team_mapped},
    {"team_of_ten", team_of_ten},
    {"team_by_nic", team_by_nic},
    {"team_mixed", team_mixed},
    {"team_carried", team_carried},
    {"team_of_owners", team_of_owners},
    {"team_of_grids", team_of_grids},
    {"team_of_launches", team_of_launches},
    {"team_disagrees", team_disagrees},
    {"start_up", start_up},
    {"new_window", new_window},
    {"lossy_wire", lossy_wire},
    {"fault_plan", fault_plan},
    {"refused_write", refused_write},
    {"stopped", stopped},
};

}  // namespace

std::span<const Workload> workloads() { return kWorkloads; }

}  // namespace peal::sim
