// SPDX-License-Identifier: Apache-2.0
//
// The PE's end of the GPU engine: finds or starts its process, shows it memory, forwards calls.
//
// When the process has gone, every queue pair counts as failed: queries say so, creating anything
// is refused, destroying succeeds.
#pragma once

#include <sys/types.h>

#include <map>
#include <mutex>
#include <set>
#include <string>

#include "softnic/commands.h"
#include "softnic/gpu/channel.h"
#include "softnic/gpu/exporter.h"
#include "softnic/gpu/message.h"

namespace peal::softnic::gpu {

class Client : public Commands {
 public:
  struct Place {
    std::string directory;  // of the fabric
    std::string program;    // that runs the engine
  };

  /// Joins the engine of the fabric, starting it if need be. `exporter` must outlive the client.
  /// Throws std::runtime_error naming what failed and what to do.
  Client(const Place& place, const Hello& hello, const Exporter& exporter);

  Created allocate_pd() override;
  Refusal free_pd(uint32_t pd) override;
  Created register_memory(const MemoryKeyConfig& config) override;
  Refusal deregister_memory(uint32_t key) override;
  Created create_cq(const CompletionQueueConfig& config) override;
  Refusal destroy_cq(uint32_t cqn) override;
  uint64_t cq_produced(uint32_t cqn) override;
  Created create_srq(const SharedReceiveConfig& config) override;
  Refusal destroy_srq(uint32_t srqn) override;
  Created create_qp(const QueuePairConfig& config) override;
  Refusal modify_qp(uint32_t qpn, QpState from, const QueuePairAttributes& to) override;
  Refusal query_qp(uint32_t qpn, QueuePairAttributes* answer) override;
  Refusal destroy_qp(uint32_t qpn) override;
  Created create_dc_target(const DcTargetConfig& config) override;
  Refusal destroy_dc_target(uint32_t dctn) override;
  Created attach_uar(std::byte* page) override;
  Refusal detach_uar(uint32_t page_id) override;
  bool next_event(AsyncEvent* event) override;
  int event_fd() const override { return events_.fd(); }
  Violations violations() override;
  Refusal set_faults(const FaultPlan& plan) override;

  /// That the engine runs on: what the PE asked for, or what the first one of the fabric did.
  const GpuId& gpu() const { return gpu_; }
  /// Of the engine's process.
  pid_t engine_pid() const;

 private:
  struct Span {
    const void* address;
    uint64_t bytes;
  };
  using Spans = std::initializer_list<Span>;

  bool join(const Place& place, const Hello& hello);
  bool exchange(const Call& call, Reply* reply, int descriptor = -1);
  Refusal show(Spans spans);
  Refusal unreachable(CommandStatus status, const char* reason);
  Refusal refusal_of(const Reply& reply);
  Refusal ask(const Call& call, Spans spans, Reply* reply);
  Created create(const Call& call, Spans spans = {});
  Refusal destroy(CallKind kind, uint32_t number);

  const Exporter& exporter_;
  mutable std::mutex mutex_;
  Channel calls_;
  Channel events_;
  GpuId gpu_;
  std::map<uint32_t, QueuePairAttributes> known_qps_;  // what is still said of them afterwards
  std::set<std::string> reasons_;                      // Refusal::reason points here
};

}  // namespace peal::softnic::gpu
