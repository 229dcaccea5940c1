// SPDX-License-Identifier: Apache-2.0
//
// The calls of nic.h that an engine answers, by whoever answers them: control.h in this process, or
// gpu/client.h, which asks the process of the GPU engine.
#pragma once

#include "softnic/nic.h"

namespace peal::softnic {

/// See nic.h for what each call means. Any thread may call.
class Commands {
 public:
  virtual ~Commands() = default;

  virtual Created allocate_pd() = 0;
  virtual Refusal free_pd(uint32_t pd) = 0;
  virtual Created register_memory(const MemoryKeyConfig& config) = 0;
  virtual Refusal change_memory(uint32_t, const MemoryKeyConfig&) {
    return {CommandStatus::kBadOperation, "this engine changes no memory keys"};
  }
  virtual Refusal deregister_memory(uint32_t key) = 0;
  virtual Created create_cq(const CompletionQueueConfig& config) = 0;
  virtual Refusal destroy_cq(uint32_t cqn) = 0;
  virtual uint64_t cq_produced(uint32_t cqn) = 0;
  virtual Refusal arm_cq(uint32_t, uint32_t, bool, CompletionListener&) {
    return {CommandStatus::kBadOperation, "this engine raises no completion events"};
  }
  virtual Created create_srq(const SharedReceiveConfig& config) = 0;
  virtual Refusal destroy_srq(uint32_t srqn) = 0;
  virtual Refusal arm_srq(uint32_t, uint32_t) {
    return {CommandStatus::kBadOperation, "this engine takes nothing from shared receive queues"};
  }
  virtual uint32_t srq_limit(uint32_t) { return 0; }
  virtual Created create_qp(const QueuePairConfig& config) = 0;
  virtual Refusal modify_qp(uint32_t qpn, QpState from, const QueuePairAttributes& to) = 0;
  virtual Refusal query_qp(uint32_t qpn, QueuePairAttributes* answer) = 0;
  virtual Refusal destroy_qp(uint32_t qpn) = 0;
  virtual Created create_dc_target(const DcTargetConfig& config) = 0;
  virtual Refusal destroy_dc_target(uint32_t dctn) = 0;
  virtual Created attach_uar(std::byte* page) = 0;
  virtual Refusal detach_uar(uint32_t page_id) = 0;
  virtual bool next_event(AsyncEvent* event) = 0;
  virtual int event_fd() const = 0;
  virtual Violations violations() = 0;
  virtual Refusal set_faults(const FaultPlan& plan) = 0;
  virtual bool port_up() { return true; }
};

}  // namespace peal::softnic
