// SPDX-License-Identifier: Apache-2.0
//
// Shared receive queues: creation, destruction, the limit.
#include "softnic/control/control.h"
#include "softnic/engine/shared_receive.h"

namespace peal::softnic {

Outcome Control::apply(const CreateSrq& config) {
  Counted* domain = domains_.find(config.pd);
  if (domain == nullptr) return bad_resource("unknown pd");
  const bool sized = config.log_entries >= 1 && config.log_entries <= 16 &&
                     config.log_stride >= 1 && config.log_stride <= 7;
  if (!sized || !aligned(config.buffer, mlx5::kSegmentBytes)) {
    return bad_parameter("SRQ too small, too large or not aligned to 16");
  }
  if (config.buffer != nullptr && (config.doorbell == nullptr || !aligned(config.doorbell, 8))) {
    return bad_parameter("doorbell record missing or not aligned to 8");
  }
  const uint32_t srqn = tables_.srqs.take();
  if (srqn == 0) return no_resources("no SRQ left");
  SharedReceiveQueue& srq = tables_.srqs[srqn] = {config};
  srq.exists = true;
  srq.srqn = srqn;
  srq.entries = 1u << config.log_entries;
  srq.stride = mlx5::kSegmentBytes << config.log_stride;
  ++domain->users;
  tables_.port.srq_count = tables_.srqs.used();
  return srqn;
}

Outcome Control::apply(const DestroySrq& call) {
  SharedReceiveQueue* srq = find_srq(tables_.port, call.number);
  if (srq == nullptr) return bad_resource("unknown srqn");
  if (srq->users > 0) return busy("queue pairs use this SRQ");
  srq->exists = false;
  --domains_[srq->pd].users;
  tables_.srqs.release(call.number);
  return {};
}

Refusal Control::arm_srq(uint32_t srqn, uint32_t limit) {
  const Runner::Pause pause(runner_);
  SharedReceiveQueue* srq = find_srq(tables_.port, srqn);
  if (srq == nullptr) return bad_resource("unknown srqn");
  if (limit >= srq->entries) return bad_parameter("a limit that the SRQ is always below");
  srq->limit = limit;
  if (observe_shared(tables_.port, *srq) != Claim::kFailed) check_limit(tables_.port, *srq);
  collect();
  return {};
}

uint32_t Control::srq_limit(uint32_t srqn) {
  const Runner::Pause pause(runner_);
  const SharedReceiveQueue* srq = find_srq(tables_.port, srqn);
  return srq == nullptr ? 0 : srq->limit;
}

}  // namespace peal::softnic
