// SPDX-License-Identifier: Apache-2.0
#include "host/runtime/context_parts.h"

#include "host/base/error.h"
#include "host/job/together.h"

namespace peal {
namespace {

// Doorbells for NICs that kernels ring, else nothing.
Doorbells doorbells_for(const JobMembership& job, const MemoryFabric& fabric) {
  Doorbells doorbells;
  if (fabric.ways.routes.by_nic() == Route::kProxy) return doorbells;
  for (const IbgdaNic& nic : fabric.ways.rails->nics()) {
    doorbells.emplace_back(nic.device, fabric.gpu, job.config.doorbell);
  }
  return doorbells;
}

size_t proxies_for(const Ways& ways) {
  return ways.routes.by_nic() == Route::kProxy ? ways.rails->nics().size() : 0;
}

// A plan of faults that the software NIC has would do nothing where no peer is reached by a NIC,
// and tests of faults would pass.
void check_nic_faults(const Config& config, const Reachable& reachable) {
  if (reachable.needs_nic() || !config.softnic.contains("PEAL_SOFTNIC_FAULTS")) return;
  fail(ErrorCode::kConfiguration,
       "PEAL_SOFTNIC_FAULTS is a plan for the software NIC, and this job uses none: set "
       "PEAL_TRANSPORT=ibgda, or PEAL_P2P_FAULTS for faults towards mapped peers");
}

}  // namespace

NicServices::NicServices(JobMembership& job, MemoryFabric& fabric)
    : doorbells(doorbells_for(job, fabric)),
      proxies(proxies_for(fabric.ways)),
      link_tester(job.group, *fabric.ways.rails, fabric.tables->windows.heap_keys(),
                  fabric.heap.backing(),
                  fabric.heap.offset_of(
                      fabric.heap.reserve_internal(LinkTester::cell_bytes(job.group.size()))),
                  job.config.bootstrap_timeout),
      linker(job.group, fabric.slots, link_tester, fabric.gpu, job.config, job.log),
      nics{.rails = *fabric.ways.rails,
           .carrier = {proxies.empty() ? &doorbells : nullptr, &proxies},
           .link_tester = link_tester,
           .linker = linker,
           .must_settle = fabric.ways.reachable.must_settle(),
           .unordered = fabric.ways.reachable.unordered()} {}

ContextParts::ContextParts(JobMembership& job, MemoryFabric& fabric)
    : link_plan(fabric.tables->contexts,
                LinkEnds{job.group.rank(), fabric.ways.reachable.directly()}),
      nic_services(fabric.ways.rails ? std::make_unique<NicServices>(job, fabric) : nullptr),
      contexts(Contexts::Dependencies{.config = job.config,
                                      .log = job.log,
                                      .group = job.group,
                                      .heap = fabric.heap,
                                      .tables = fabric.tables->contexts,
                                      .table = fabric.slots,
                                      .recorder = fabric.tables->recorder,
                                      .nics = nic_services ? &nic_services->nics : nullptr,
                                      .gpu = fabric.gpu.get()}),
      teams(job.group, fabric.heap, team_memory(job),
            Teams::Ways{fabric.ways.reachable.directly(), !fabric.ways.reachable.needs_nic(),
                        job.config.algorithm},
            kernel_memory(fabric.gpu, Teams::shown_bytes(), "peal-teams")) {
  if (job.config.p2p_faults.empty()) return;
  link_plan.set(job.config.p2p_faults, ErrorCode::kConfiguration);
}

std::unique_ptr<ContextParts> ContextParts::make(JobMembership& job, MemoryFabric& fabric) {
  return together(job.group, [&] {
    check_nic_faults(job.config, fabric.ways.reachable);
    return std::make_unique<ContextParts>(job, fabric);
  });
}

}  // namespace peal
