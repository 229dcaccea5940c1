// SPDX-License-Identifier: Apache-2.0
//
// What serves the program of a PE: calls of the host, files, and what looks at kernels and peers
// from outside to tell what went wrong.
#pragma once

#include <cstdint>
#include <memory>

#include "host/calls/call_engine.h"
#include "host/calls/files.h"
#include "host/failures/failure_log.h"
#include "host/failures/flight_log.h"
#include "host/failures/inquiry.h"
#include "host/job/watcher.h"
#include "host/runtime/context_parts.h"
#include "host/runtime/fabric.h"
#include "host/runtime/job.h"

namespace peal {

struct Services {
  /// Collective. What is given outlives the services.
  static std::unique_ptr<Services> start(JobMembership& job, MemoryFabric& fabric,
                                         ContextParts& parts);

  /// This PE's step of start(). Grids of calls have `most_blocks` at most.
  Services(JobMembership& job, MemoryFabric& fabric, ContextParts& parts, uint32_t most_blocks);
  ~Services();
  Services(const Services&) = delete;
  Services& operator=(const Services&) = delete;

 private:
  JobMembership& job_;
  MemoryFabric& fabric_;
  ContextParts& parts_;

 public:
  FlightLog flight;
  Files files;
  FailureLog failures;  // whose callback may use all of these and contexts
  Inquiry inquiry;
  CallEngine calls;
  Watcher watcher;  // last: its thread uses what is above

 private:
  Watcher::Calls watcher_calls();
  void look(bool simulated);
  void take_messages();
};

}  // namespace peal
