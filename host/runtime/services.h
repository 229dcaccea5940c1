// SPDX-License-Identifier: Apache-2.0
//
// What stands upon the memory of a job: what makes contexts and teams, and what serves the program
// of a PE: calls of the host, files, and what looks at kernels and peers from outside to tell what
// went wrong.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "host/calls/call_engine.h"
#include "host/calls/files.h"
#include "host/contexts/contexts.h"
#include "host/contexts/link_plan.h"
#include "host/contexts/link_tester.h"
#include "host/contexts/linker.h"
#include "host/failures/failure_log.h"
#include "host/failures/flight_log.h"
#include "host/failures/inquiry.h"
#include "host/job/host_watch.h"
#include "host/job/watcher.h"
#include "host/runtime/fabric.h"
#include "host/runtime/job.h"
#include "host/teams/teams.h"
#include "host/transport/doorbell.h"
#include "host/transport/proxy.h"

namespace peal {

/// What serves the queues that go by NICs. It is made after the heap's window, by which the
/// software NIC may have moved to a GPU.
struct NicServices {
  NicServices(JobMembership& job, MemoryFabric& fabric);

  Doorbells doorbells;  // by NIC, or
  Proxies proxies;      // these
  LinkTester link_tester;
  Linker linker;
  const ContextNics nics;
};

/// What makes contexts and teams upon the memory of a job.
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

struct Services {
  /// Collective. What is given outlives the services.
  static std::unique_ptr<Services> start(JobMembership& job, MemoryFabric& fabric,
                                         ContextParts& parts);

  /// This PE's step of start(). Grids of calls have `most_blocks` at most.
  Services(JobMembership& job, MemoryFabric& fabric, ContextParts& parts, uint32_t most_blocks);
  ~Services();
  Services(const Services&) = delete;
  Services& operator=(const Services&) = delete;

  /// Until the PEs of other hosts that this one asks have answered, or a second has passed: one
  /// that was never heard is not taken for lost (host_watch.h).
  void hear_hosts();

 private:
  JobMembership& job_;
  MemoryFabric& fabric_;
  ContextParts& parts_;
  std::vector<int> found_lost_;   // PEs of other hosts; of the watcher's thread
  std::vector<int> connections_;  // by PE: to those of other hosts, where there is one

 public:
  FlightLog flight;
  Files files;
  FailureLog failures;  // whose callback may use all of these and contexts
  Inquiry inquiry;
  CallEngine calls;
  HostWatch host_watch;
  Watcher watcher;  // the last member: its thread uses all others, until its destructor has run

 private:
  Watcher::Callbacks watcher_calls();
  void look(bool simulated);
  void look_at_hosts();
  /// Reports losses to PEs of other hosts: those this PE found there, and, if it `speaks` for its
  /// host, those of its own host.
  void pass_on_losses(bool speaks);
  bool ended_behind_the_job(int pe) const;
  void take_messages();
};

}  // namespace peal
