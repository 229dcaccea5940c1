// SPDX-License-Identifier: Apache-2.0
//
// What makes contexts and teams upon the memory of a job, and what queues that go by NICs need.
#pragma once

#include <memory>

#include "host/contexts/contexts.h"
#include "host/contexts/link_plan.h"
#include "host/contexts/link_tester.h"
#include "host/contexts/linker.h"
#include "host/runtime/fabric.h"
#include "host/runtime/job.h"
#include "host/teams/teams.h"
#include "host/transport/doorbell.h"
#include "host/transport/proxy.h"

namespace peal {

/// Who serves the queues that go by NICs. Made behind the heap's window: the software NIC may have
/// gone to a GPU with it.
struct NicServices {
  NicServices(JobMembership& job, MemoryFabric& fabric);

  Doorbells doorbells;  // by NIC, or
  Proxies proxies;      // these
  LinkTester link_tester;
  Linker linker;
  const ContextNics nics;
};

struct ContextParts {
  /// Collective, before the heap is used: it takes its part of that.
  static std::unique_ptr<ContextParts> make(JobMembership& job, MemoryFabric& fabric);

  /// This PE's step of make().
  ContextParts(JobMembership& job, MemoryFabric& fabric);

  LinkPlan link_plan;
  const std::unique_ptr<NicServices> nic_services;  // null where there is no NIC
  Contexts contexts;
  Teams teams;
};

}  // namespace peal
