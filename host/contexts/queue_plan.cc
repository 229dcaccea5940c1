// SPDX-License-Identifier: Apache-2.0
//
// A NIC's limits are for all PEs that share it, the memory's are each PE's own.
#include "host/contexts/queue_plan.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <string>
#include <string_view>

#include "base/host_name.h"
#include "host/base/config.h"
#include "host/base/error.h"
#include "host/nic/queue_layout.h"
#include "host/transport/connection.h"

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

// "host n17, process 4711: software NIC mlx5_0 of /dev/shm/peal-softnic-0/default".
std::array<char, 512> describe_fabric(const Rails& rails) {
  std::string text = fmt::format("host {}, process {}", host_name(), ::getpid());
  for (const IbgdaNic& nic : rails.nics()) {
    const nic::VerbsLibrary::SoftwareFabric& fabric = nic.device.fabric();
    text += fabric.number == 0
                ? fmt::format(", NIC {}", nic.device.name())
                : fmt::format(", software NIC {} of {}", nic.device.name(), fabric.folder);
  }
  std::array<char, 512> told{};
  text.copy(told.data(), told.size() - 1);
  return told;
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

bool FirstLinks::between(uint32_t a, uint32_t b) const {
  const auto gone = [&](uint32_t pe) {
    return std::ranges::find(masked_, static_cast<int>(pe)) != masked_.end();
  };
  if (gone(a) || gone(b)) return false;
  const auto n = static_cast<uint32_t>(places_.size());
  if (kind_ == ConnectKind::kEager) return true;
  const bool elsewhere = is_elsewhere(places_[a], places_[b]);
  if (elsewhere ? kind_ == ConnectKind::kAuto : !same_sockets(places_[a], places_[b])) return true;
  return (a + 1) % n == b || (b + 1) % n == a;
}

std::vector<uint32_t> FirstLinks::of(uint32_t pe) const {
  std::vector<uint32_t> linked;
  for (uint32_t other = 0; other < places_.size(); ++other) {
    if (between(pe, other)) linked.push_back(other);
  }
  return linked;
}

size_t FirstLinks::most() const {
  size_t most = 0;
  for (uint32_t pe = 0; pe < places_.size(); ++pe) most = std::max(most, of(pe).size());
  return most;
}

RailEnds rail_ends(const Rails& rails, const QueueShape& shape) {
  RailEnds ends{};
  for (uint32_t rail = 0; rail < shape.rails; ++rail) {
    ends[rail] = endpoint_of(rails.nics()[rails.nic_of(rail)].device, 0);
  }
  return ends;
}

void check_fabrics(Bootstrap& group, const Rails& rails, std::span<const RailEnds> ends) {
  const auto fabrics = [](const RailEnds& of_pe) {
    std::array<uint64_t, kMaxRails> numbers{};
    std::ranges::transform(of_pe, numbers.begin(), &Endpoint::fabric);
    return numbers;
  };
  const auto other = std::ranges::find_if(
      ends, [&](const RailEnds& of_pe) { return fabrics(of_pe) != fabrics(ends[0]); });
  if (other == ends.end()) return;
  const auto told = gather(group, describe_fabric(rails));
  const bool all_software = (*other)[0].fabric != 0 && ends[0][0].fabric != 0;
  const auto pe = static_cast<size_t>(other - ends.begin());
  fail(
      ErrorCode::kUnsupported, "PE 0 ({}) and PE {} ({}) do not reach each other: {}",
      told[0].data(), pe, told[pe].data(),
      all_software
          ? "their software NICs do not share a fabric. On one host start all PEs as one user, "
            "with "
            "the same PEAL_SOFTNIC_DIR and PEAL_SOFTNIC_FABRIC; containers must share that folder, "
            "not only its name: docker run --ipc=host for /dev/shm, a volume for any other "
            "(docs/running.md). Between hosts give each NIC an address (PEAL_SOFTNIC_UDP, "
            "docs/cluster.md)"
          : "a software NIC without an address reaches software NICs of its host only. Give it one "
            "(PEAL_SOFTNIC_UDP, docs/roce.md), or choose NICs of one kind on all PEs (PEAL_HCA, "
            "PEAL_IBVERBS and PEAL_MLX5)");
}

void check_rail_ends(std::span<const RailEnds> ends, const QueueShape& shape, bool with_itself) {
  for (uint32_t rail = 0; rail < std::min(shape.rails, shape.queues_per_peer); ++rail) {
    std::vector<Endpoint> by_pe;
    for (const RailEnds& of_pe : ends) by_pe.push_back(of_pe[rail]);
    check_ends(by_pe, with_itself);
  }
}

}  // namespace peal
