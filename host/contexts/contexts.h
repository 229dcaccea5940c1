// SPDX-License-Identifier: Apache-2.0
//
// What all PEs do together with their contexts: make one, recover them all, leave out PEs that are
// masked. Each step that may fail on one PE is followed by an exchange of outcomes, so that all
// PEs come through or all throw one error (host/job/together.h).
#pragma once

#include <cstdint>
#include <functional>
#include <memory>

#include "base/run_clock.h"
#include "host/base/config.h"
#include "host/base/log.h"
#include "host/contexts/context_owner.h"
#include "host/contexts/link_tester.h"
#include "host/contexts/linker.h"
#include "host/contexts/queue_plan.h"
#include "host/contexts/recorder.h"
#include "host/job/live_group.h"
#include "host/memory/symmetric_heap.h"
#include "host/options.h"

namespace peal {

/// The NICs that contexts have queues by, and all that goes with them.
struct ContextNics {
  const Rails& rails;
  Carrier carrier;
  LinkTester& link_tester;
  Linker& linker;
  bool must_settle;  // what a NIC wrote may be missing where a flag is seen,
  bool unordered;    // even where that NIC wrote the flag
};

class Contexts {
 public:
  /// The parts of a runtime that contexts are made of; `nics` is null where every peer is reached
  /// directly, `gpu` where kernels run on the CPU.
  struct Dependencies {
    const Config& config;
    const Log& log;
    LiveGroup& group;
    SymmetricHeap& heap;
    DeviceTables& tables;
    ContextTable& table;
    Recorder& recorder;
    const ContextNics* nics;
    const Gpu* gpu;
  };

  /// Takes its flags out of the heap, which is not in use yet.
  explicit Contexts(const Dependencies& dependencies);

  /// Waits until the NIC has executed what kernels have posted on any context, or given it up, but
  /// for peers that are lost. Ends with the waits of kernels, and after PEAL_BOOTSTRAP_TIMEOUT for
  /// all together. For a time without kernels.
  void finish_all() const;
  /// Calls `look` with each context that is about to be destroyed; must not use the table.
  void before_drop(std::function<void(const ContextOwner&)> look) {
    before_drop_ = std::move(look);
  }

  /// Collective. Connected and proven as far as links are to be from the start.
  std::shared_ptr<ContextOwner> create(const ContextOptions& options, Reach reach);

  /// Collective. Makes all contexts usable again; answers how many queues of this PE were reset.
  /// Both ends of a queue go the whole way together. No kernel may be running.
  size_t recover();

  /// Collective among the PEs that are left. Those that are masked are shown nowhere any more.
  void leave_masked_out();

 private:
  struct ContextShape;
  using Name = ContextOwner::Name;
  uint32_t rounds() const { return sync_rounds(dependencies_.group.size()); }
  size_t flag_words() const { return size_t{rounds()} * (kSyncFan - 1); }
  QueuePlan plan_with(const QueueShape& shape) const;
  ConnectKind connect_kind(Reach reach) const;
  bool fences_too_near() const;
  QueueShape shape_of(const ContextOptions& options, Reach reach) const;
  Name agree(const QueueShape& shape, Reach reach);
  QueueWiring wiring(const Name& name, const ContextOptions& options) const;
  ContextFields fields(const Name& name, const QueueShape& shape, const QueueWiring& wiring) const;
  std::shared_ptr<ContextOwner> make(const Name& name, const QueueShape& shape,
                                     const ContextOptions& options);
  void leave_masked_out(ContextOwner& context) const;
  void finish(const ContextOwner& context, RunClock::time_point until) const;
  void connect_first(LinkMachine& links, const FirstLinks& first);
  void expect_links(const ContextOwner& context);

  Dependencies dependencies_;
  uint64_t* sync_flags_;  // kMaxContexts x flag_words() in the heap
  uint64_t made_ = 0;     // contexts so far; alike on all PEs
  std::function<void(const ContextOwner&)> before_drop_;
};

}  // namespace peal
