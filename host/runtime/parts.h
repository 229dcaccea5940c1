// SPDX-License-Identifier: Apache-2.0
//
// What a Runtime owns: four owners, each made of those in front of it and whole then. runtime.cc
// has the calls.
#pragma once

#include <atomic>
#include <cstddef>
#include <memory>
#include <optional>
#include <string_view>

#include "base/forks.h"
#include "host/job/process_end.h"
#include "host/nvtx/range.h"
#include "host/runtime.h"
#include "host/runtime/fabric.h"
#include "host/runtime/job.h"
#include "host/runtime/services.h"

namespace peal {

// Destroyed in reverse.
struct Runtime::Parts {
  /// Collective.
  Parts(std::unique_ptr<Bootstrap> bootstrap, const Beginning& beginning);
  ~Parts();
  Parts(const Parts&) = delete;
  Parts& operator=(const Parts&) = delete;

  JobMembership job;
  MemoryFabric fabric;
  const std::unique_ptr<ContextParts> context_parts;
  std::shared_ptr<ContextOwner> default_context;  // made behind the services, and outlives them
  const std::unique_ptr<Services> services;
  const Maker maker;
  std::atomic<bool> ended{false};
  std::optional<ProcessEnd> process_end;  // as crash_notice: none in a simulation
  std::optional<CrashNotice> crash_notice;

  /// A collective call of the host while it lasts: a range by its name for profilers, a meeting for
  /// checked mode, its name in errors (Bootstrap::name_calls).
  struct CollectiveCall {
    CollectiveCall(Parts& parts, const char* name, std::string_view in_group)
        : range(name), named(parts.job.group, in_group), meeting(parts.fabric.checks.get()) {}
    CollectiveCall(Parts& parts, const char* name)
        : CollectiveCall(parts, name, std::string_view(name).substr(sizeof("peal: ") - 1)) {}
    nvtx::Range range;
    NamedCalls named;
    CheckMode::Meeting meeting;
  };

  /// Ends this PE's part in the job, once: tells the others how, and where it leaves in order waits
  /// for what kernels and streams still do, and for the others' end. Throws kPeerLost, kTimeout;
  /// kSystem for a failure that nobody has been told of.
  void end(const Departure& how);
  /// Ends this PE's part in a job that has lost a PE, for rejoin(): waits for what streams still
  /// do, and tells the others, whose waits for this PE would not end.
  void let_go();
  /// The same as end(); says what it would throw, and answers false then.
  bool end_and_say(const Departure& how) noexcept;
  /// Prints what PEAL_INFO asks for.
  void report() const;
  /// Memory beside the heap: of queues, tables and these parts.
  size_t overhead_bytes() const;

 private:
  void report_nics() const;
  void say_who_is_missing() const;
  void hear_of_process_end();
  void end_flight() const;
  void finish_queues() const;
};

}  // namespace peal
