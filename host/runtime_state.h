// SPDX-License-Identifier: Apache-2.0
//
// What a Runtime consists of, in the order in which it is needed; destroyed in reverse. Private to
// host/: its functions are in runtime.cc (coming and going), contexts.cc, and the files that the
// comments below name.
#pragma once

#include <array>
#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "host/base/log.h"
#include "host/context_owner.h"
#include "host/device_tables.h"
#include "host/linker.h"
#include "host/live_group.h"
#include "host/memory/gpu.h"
#include "host/memory/symmetric_heap.h"
#include "host/queue_plan.h"
#include "host/routes.h"
#include "host/runtime.h"
#include "host/transport/p2p.h"
#include "host/transport/proxy.h"
#include "host/watcher.h"
#include "host/windows.h"

namespace peal {

/// Now, by the clock of kernels on a CPU.
uint64_t host_ns();

struct Runtime::State {
  Config config;
  Target target;
  std::unique_ptr<LiveGroup> bootstrap;
  Log log;
  std::shared_ptr<Gpu> gpu;  // null: kernels run on the CPU
  SymmetricHeap heap;
  uint64_t* sync_flags;   // kMaxContexts x flag_words() in the heap
  std::byte* test_cells;  // Queues::ProvingGround's, in the heap
  Backing word_memory;
  ContextWords* words;  // by slot; behind them requests()
  std::optional<P2p> p2p;
  PeerMemory mapped_heap;  // on its way to the windows
  Reachable reachable;
  std::optional<Rails> rails;  // none: every peer is reached directly
  Routes routes;
  DeviceTables tables;
  Windows windows;
  Doorbells doorbells;               // by NIC, or
  Proxies proxies;                   // these; neither where there is no NIC
  std::atomic<uint64_t> lost_ns{0};  // when the first PE was lost that is not masked
  std::atomic<bool> closing{false};
  std::atomic<uint32_t> generation{0};  // recoveries so far; alike on all PEs
  uint64_t contexts_made = 0;           // alike on all PEs
  mutable std::mutex contexts_mutex;
  std::array<std::weak_ptr<ContextOwner>, kMaxContexts> contexts;  // by slot, alike on all PEs
  std::shared_ptr<ContextOwner> default_context;
  std::mutex proving_mutex;
  uint32_t proofs = 0;  // self-tests so far
  mutable std::mutex callback_mutex;
  std::function<void(const Failure&)> callback;
  bool callback_due = false;       // not called since it was installed, or since recover()
  std::unique_ptr<Linker> linker;  // none where there is no NIC
  std::unique_ptr<Watcher> watcher;

  State(std::unique_ptr<Bootstrap> b, const Config& c, Target t);

  uint32_t rounds() const { return sync_rounds(bootstrap->size()); }
  size_t flag_words() const { return size_t{rounds()} * (kSyncFan - 1); }
  size_t flag_bytes() const { return flag_words() * sizeof(uint64_t); }
  // By PE: kernels of the slot's context want a link to it.
  uint32_t* requests(uint32_t slot) const {
    return reinterpret_cast<uint32_t*>(words + kMaxContexts) +
           size_t{slot} * static_cast<size_t>(bootstrap->size());
  }
  RouteOptions route_options(const std::string& why_proxy = "") const {
    return {.asked = config.transport,
            .target = target,
            .why_proxy = why_proxy,
            .orders_writes = !gpu || gpu->orders_writes()};
  }
  bool on_one_host() const;
  std::shared_ptr<Gpu> open_gpu() const;
  void warn_of_nics();
  std::string warning_of_writes() const;
  std::string nic_name() const;
  std::string describe_rails() const;

  DeviceTables::Extent extent() const { return {bootstrap->size(), rails ? rails->count() : 1}; }

  // host/contexts.cc
  struct Slot {
    uint32_t number;
    uint64_t serial;  // of the context that will have it
  };
  QueuePlan plan_with(const QueueOptions& queues) const;
  bool fences_too_near() const;
  Slot agree_on_context(const QueueOptions& queues, Reach reach);
  QueueOptions queue_options(const ContextOptions& options, Reach reach) const;
  std::unique_ptr<Queues> make_queues(const QueueOptions& options, Reach reach);
  ContextFields context_fields(uint32_t slot, const QueueOptions& queues);
  std::shared_ptr<ContextOwner> create_context(const ContextOptions& options, Reach reach);

  // host/prove.cc
  // `chosen` as Queues::prove() has it. Together with the other PEs: throws on all if one failed.
  void prove(Queues& queues, const std::vector<uint8_t>& chosen);
  std::vector<SelfTestResult> prove_here(Queues& queues, const std::vector<uint8_t>& chosen,
                                         std::chrono::nanoseconds deadline,
                                         const std::function<bool()>& give_up = {});
  std::chrono::nanoseconds time_to_prove() const;
  std::string describe_failed(const Queues& queues,
                              const std::vector<SelfTestResult>& failed) const;
  Queues::ProvingGround proving_ground() const;

  // host/failure.cc
  Failure failure() const;
  bool well() const;
  void tell_callback();
  void arm_callback();

  // host/abort.cc
  void peer_lost(int pe, int pid);
  void stop_for_loss();
  void take_messages();
  void abort(const ContextFields* context, std::string_view reason);
  void stop(const Failure& why, uint32_t slot, uint64_t serial);

  // host/recovery.cc
  size_t recover();

  // host/mask.cc
  void mask(const std::vector<int>& pes);
  void leave_masked_out(ContextOwner& context) const;
};

}  // namespace peal
