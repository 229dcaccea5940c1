// SPDX-License-Identifier: Apache-2.0
//
// A NIC's limits are for all PEs that share it, the memory's are each PE's own.
#include "host/contexts/queue_plan.h"

#include <algorithm>
#include <string_view>

#include "host/base/config.h"
#include "host/base/error.h"
#include "host/nic/queue_layout.h"

namespace peal {
namespace {

constexpr uint64_t kPerContext = 2;  // one umem, one memory key

using Nic = QueuePlan::Nic;

std::span<const Nic> nics_of(const QueuePlan& plan) { return std::span(plan.nic).first(plan.nics); }

bool can_share(const QueuePlan& a, const Place& at_a, const Place& at_b) {
  return a.nic_of_process != 0 ? same_process(at_a, at_b) : same_host(at_a, at_b);
}

// What the PEs that share one NIC of `pe` have of it together.
struct Load {
  uint64_t pes = 0;
  uint64_t queues = 0;
};
Load load_of(const Nic& nic, size_t pe, std::span<const QueuePlan> plans,
             std::span<const Place> places) {
  Load load;
  for (size_t other = 0; other < plans.size(); ++other) {
    if (!can_share(plans[pe], places[pe], places[other])) continue;
    for (const Nic& theirs : nics_of(plans[other])) {
      if (theirs.name != nic.name) continue;
      ++load.pes;
      load.queues += theirs.queues;
    }
  }
  return load;
}

void check_nic(size_t pe, const QueuePlan& plan, const Nic& nic, const Load& load) {
  const uint32_t log_most = std::min(nic.log_max_qp, nic.log_max_cq);
  if (load.queues <= uint64_t{1} << log_most) return;
  fail(ErrorCode::kInvalidArgument,
       "context: {} queue pairs and as many completion queues are needed on {} of PE {}, of {} PEs "
       "there together ({} contexts of this one); it has {} ({}): lower PEAL_QUEUES (or "
       "ContextOptions::queues_per_peer), drop contexts, or spread the PEs over more NICs "
       "(PEAL_HCA)",
       load.queues, nic.name.data(), pe, load.pes, plan.contexts, uint64_t{1} << log_most,
       nic.log_max_qp <= nic.log_max_cq ? "log_max_qp" : "log_max_cq");
}

}  // namespace

void QueuePlan::add(const QueueShape& shape, int n_pes) {
  const uint64_t more = uint64_t{shape.queues_per_peer} * static_cast<uint64_t>(n_pes);
  ++contexts;
  queues += more;
  bytes += more * nic::QueueMemoryLayout{shape.depth}.bytes();
  registrations += kPerContext * nics;
  // Queue q goes by rail q % rails. Computed, not looped over: the number that was asked for may be
  // huge.
  for (uint32_t rail = 0; nics != 0 && rail < shape.rails; ++rail) {
    if (rail >= shape.queues_per_peer) break;
    const uint64_t by_rail = (shape.queues_per_peer - rail - 1) / shape.rails + uint64_t{1};
    nic[rail % nics].queues += by_rail * static_cast<uint64_t>(n_pes);
  }
}

void QueuePlan::set_nics(const Rails& rails) {
  nics = rails.nics().size();
  nic_of_process = rails.nics()[0].device.software() ? 1 : 0;
  for (size_t i = 0; i < nics; ++i) {
    const nic::Device& device = rails.nics()[i].device;
    nic[i].log_max_qp = device.capabilities().log_max_qp;
    nic[i].log_max_cq = device.capabilities().log_max_cq;
    std::string_view(device.name()).copy(nic[i].name.data(), nic[i].name.size() - 1);
  }
}

std::string describe(const QueuePlan& plan, const QueueShape& shape, int n_pes) {
  std::string nics;
  for (const Nic& nic : nics_of(plan)) {
    nics += fmt::format("; {} has {} QPs and {} CQs", nic.name.data(),
                        uint64_t{1} << nic.log_max_qp, uint64_t{1} << nic.log_max_cq);
  }
  return fmt::format(
      "plan: {} queues of {} WQEBBs ({} PEs x {}) and as many CQs; with {} context{} in all {} "
      "queues, {} of kernels' memory (at most {}), {} registrations{}",
      uint64_t{shape.queues_per_peer} * static_cast<uint64_t>(n_pes), shape.depth, n_pes,
      shape.queues_per_peer, plan.contexts, plan.contexts == 1 ? "" : "s", plan.queues,
      format_size(plan.bytes), format_size(plan.allowed_bytes), plan.registrations, nics);
}

void check_plans(std::span<const QueuePlan> plans, std::span<const Place> places) {
  for (size_t pe = 0; pe < plans.size(); ++pe) {
    const QueuePlan& plan = plans[pe];
    if (plan.nics == 0) continue;
    if (plan.bytes > plan.allowed_bytes) {
      fail(ErrorCode::kInvalidArgument,
           "context: {} queues ({} contexts) of PE {} need {} of memory, PEAL_QUEUE_MEMORY allows "
           "{}: lower PEAL_QUEUES or PEAL_QUEUE_DEPTH (or ContextOptions), drop contexts, or raise "
           "PEAL_QUEUE_MEMORY",
           plan.queues, plan.contexts, pe, format_size(plan.bytes),
           format_size(plan.allowed_bytes));
    }
    for (const Nic& nic : nics_of(plan)) {
      check_nic(pe, plan, nic, load_of(nic, pe, plans, places));
    }
  }
}

}  // namespace peal
