// SPDX-License-Identifier: Apache-2.0
//
// The parts of a Runtime: owns everything, in the order it is needed. runtime.cc has the calls,
// parts.cc puts the parts together.
#pragma once

#include <atomic>
#include <cstddef>
#include <memory>
#include <optional>
#include <string_view>

#include "base/forks.h"
#include "host/base/log.h"
#include "host/calls/call_engine.h"
#include "host/calls/files.h"
#include "host/contexts/contexts.h"
#include "host/contexts/link_plan.h"
#include "host/contexts/recorder.h"
#include "host/failures/failure_log.h"
#include "host/failures/flight_log.h"
#include "host/failures/inquiry.h"
#include "host/job/live_group.h"
#include "host/job/process_end.h"
#include "host/job/watcher.h"
#include "host/nvtx/range.h"
#include "host/runtime.h"
#include "host/runtime/check_mode.h"
#include "host/teams/teams.h"
#include "host/transport/proxy.h"
#include "host/windows/windows.h"

namespace peal {

template <class T>
T* if_any(std::optional<T>& one) {
  return one ? &*one : nullptr;
}

// Destroyed in reverse.
struct Runtime::Parts {
  const Config config;
  const Target target;
  LiveGroup group;
  const Log log;
  std::shared_ptr<Gpu> gpu;  // null: kernels run on the CPU
  std::optional<SymmetricHeap> heap;
  std::optional<ContextTable> table;
  std::optional<P2p> p2p;
  std::optional<Rails> rails;  // none: every peer is reached directly
  std::optional<Routes> routes;
  std::optional<DeviceTables> tables;
  std::optional<CheckMode> checks;  // none: PEAL_CHECK is off
  std::optional<LinkPlan> link_plan;
  std::optional<Recorder> recorder;
  std::optional<Windows> windows;
  Doorbells doorbells;  // by NIC, or
  Proxies proxies;      // these; neither where there is no NIC
  std::optional<LinkTester> link_tester;
  std::optional<Linker> linker;  // as rails
  std::optional<ContextNics> nics;
  std::optional<Contexts> contexts;
  std::optional<Teams> teams;
  std::shared_ptr<ContextOwner> default_context;
  std::optional<FlightLog> flight;
  std::optional<Files> files;
  std::optional<FailureLog> failures;  // whose callback may use the context
  std::optional<Inquiry> inquiry;
  std::optional<CallEngine> calls;
  std::optional<Watcher> watcher;
  const Maker maker;
  std::atomic<bool> ended{false};
  std::optional<ProcessEnd> process_end;
  std::optional<CrashNotice> crash_notice;

  Parts(std::unique_ptr<Bootstrap> bootstrap, const Config& c, Target t);
  ~Parts();
  Parts(const Parts&) = delete;
  Parts& operator=(const Parts&) = delete;

  /// The collective calls of the group have a name while it lasts.
  struct Named {
    Named(LiveGroup& of, std::string_view name) : group(of) { group.name_calls(name); }
    ~Named() { group.name_calls(""); }
    Named(const Named&) = delete;
    Named& operator=(const Named&) = delete;
    LiveGroup& group;
  };

  /// A collective call of the host while it lasts: a range by its name for profilers, a meeting for
  /// checked mode, its name in errors (Bootstrap::name_calls).
  struct CollectiveCall {
    CollectiveCall(Parts& parts, const char* name, std::string_view in_group)
        : range(name), named(parts.group, in_group), meeting(if_any(parts.checks)) {}
    CollectiveCall(Parts& parts, const char* name)
        : CollectiveCall(parts, name, std::string_view(name).substr(sizeof("peal: ") - 1)) {}
    nvtx::Range range;
    Named named;
    CheckMode::Meeting meeting;
  };

  DeviceTables::Extent extent() const {
    return {group.size(), rails ? rails->count() : 1, config.check, config.own_memory};
  }
  OwnMemory own_memory() const { return {*heap, *windows}; }
  size_t team_memory() const {
    return Teams::arena_bytes(config.team_memory, group.size(), gpu != nullptr);
  }
  /// Ends this PE's part in the job, once: tells the others how, and where it leaves in order waits
  /// for what kernels and streams still do, and for the others' end. Throws kPeerLost, kTimeout;
  /// kSystem for a failure that nobody has been told of.
  void end(const Departure& how);
  /// The same; says what it would throw, and answers false then.
  bool end_and_say(const Departure& how) noexcept;
  void say_who_is_missing() const;
  void open_memory();
  void let_heap_grow();
  uint32_t publish_segment(const Backing& memory);
  void open_transports();
  void publish_memory(PeerMemory mapped);
  void open_nics(const Reachable& reachable);
  void make_contexts(const Reachable& reachable);
  void make_services(uint32_t most_blocks);
  void watch();
  void hear_of_process_end();
  void look(bool simulated);
  void take_messages();
  void end_flight() const;
  void report() const;
};

}  // namespace peal
