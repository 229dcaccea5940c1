// SPDX-License-Identifier: Apache-2.0
//
// Completion queues and shared receive queues: creation, destruction, events of armed CQs, the
// limit of SRQs.
//
//   arm -> an entry waits already? -> tell the listener     else: armed -> engine fires -> collect
//
// By a call, whose listener is told once, or by the client itself (softnic/engine/arm.h).
#include <algorithm>
#include <utility>

#include "softnic/control/control.h"
#include "softnic/engine/arm.h"
#include "softnic/engine/shared_receive.h"

namespace peal::softnic {

Outcome Control::apply(const CreateCq& config) {
  const bool written = config.buffer != nullptr;
  if (written && !aligned(config.buffer, sizeof(mlx5::Cqe))) {
    return bad_parameter("CQ buffer not aligned to 64");
  }
  if (config.cqe_bytes != 64 && config.cqe_bytes != 128) {
    return Refusal{CommandStatus::kBadSize, "CQE of neither 64 nor 128 bytes"};
  }
  if (config.log_entries > kMaxLogCqEntries)
    return Refusal{CommandStatus::kBadSize, "CQ beyond 2^22 entries"};
  if (written && config.doorbell == nullptr && !config.ignore_overrun) {
    return bad_parameter("CQ without doorbell record checks overruns");
  }
  if (config.doorbell != nullptr && !aligned(config.doorbell, 8)) {
    return bad_parameter("CQ doorbell record not aligned to 8");
  }
  if (config.uar_page != 0 && tables_.pages.find(config.uar_page) == nullptr) {
    return bad_resource("unknown UAR page");
  }
  const uint32_t cqn = tables_.cqs.take();
  if (cqn == 0) return no_resources("no CQ left");
  CompletionQueue& cq = tables_.cqs[cqn] = {config};
  cq.exists = true;
  cq.cqn = cqn;
  if (config.uar_page != 0) ++tables_.pages[config.uar_page].users;
  tables_.port.cq_count = tables_.cqs.used();
  return cqn;
}

Outcome Control::apply(const DestroyCq& call) {
  CompletionQueue* cq = find_cq(tables_.port, call.number);
  if (cq == nullptr) return bad_resource("unknown cqn");
  if (cq->users > 0) return busy("queue pairs use this CQ");
  if (cq->uar_page != 0) --tables_.pages[cq->uar_page].users;
  cq->exists = false;
  std::erase_if(armed_, [&](const Armed& each) { return each.cqn == call.number; });
  listeners_.erase(call.number);
  tables_.cqs.release(call.number);
  return {};
}

Outcome Control::apply(const CqProduced& call) {
  const CompletionQueue* cq = find_cq(tables_.port, call.number);
  Outcome answer;
  if (cq != nullptr) answer.produced = cq->produced;
  return answer;
}

Refusal Control::arm_cq(uint32_t cqn, uint32_t consumed, bool solicited_only,
                        CompletionListener& listener) {
  const Runner::Pause pause(runner_);
  CompletionQueue* cq = find_cq(tables_.port, cqn);
  if (cq == nullptr) return bad_resource("unknown cqn");
  if (cq->collapsed) return bad_parameter("a collapsed CQ has no events");
  const Arm arm = solicited_only && cq->armed != Arm::kAny ? Arm::kSolicitedOnly : Arm::kAny;
  if (cq->armed == Arm::kNothing) armed_.push_back({cqn, &listener});
  cq->armed = entry_waits(*cq, consumed, arm) ? Arm::kNothing : arm;
  if (cq->armed != Arm::kNothing) return {};
  cq->told = cq->produced;
  tell_listeners();
  return {};
}

Refusal Control::listen_cq(uint32_t cqn, CompletionListener& listener) {
  const Runner::Pause pause(runner_);
  CompletionQueue* cq = find_cq(tables_.port, cqn);
  if (cq == nullptr) return bad_resource("unknown cqn");
  if (cq->collapsed) return bad_parameter("a collapsed CQ has no events");
  if (cq->doorbell == nullptr) return bad_parameter("a CQ without doorbell record has no events");
  listeners_[cqn] = &listener;
  cq->listened = true;
  if (arm_record(*cq) != 0) hear_arm(tables_.port, *cq);
  tell_listeners();
  return {};
}

void Control::tell_listeners() {
  for (const auto& [cqn, listener] : listeners_) {
    if (std::exchange(tables_.cqs[cqn].due, false)) listener->completed();
  }
  std::erase_if(armed_, [&](const Armed& each) {
    if (tables_.cqs[each.cqn].armed != Arm::kNothing) return false;
    each.listener->completed();
    return true;
  });
}

// ---- shared receive queues

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
