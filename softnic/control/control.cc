// SPDX-License-Identifier: Apache-2.0
//
// The checks of firmware and what a command changes; see control.h.
#include "softnic/control/control.h"

#include <algorithm>
#include <new>

#include "softnic/engine/doorbell.h"
#include "softnic/engine/placement.h"

namespace peal::softnic {

Tables::Tables(uint16_t lid, uint32_t epoch, const Timing& timing) {
  port.lid = lid;
  port.keys = keys.data();
  port.cqs = cqs.data();
  port.srqs = srqs.data();
  port.qps = qps.data();
  port.pages = pages.data();
  port.dc_connections = dc_connections.data();
  port.dc_connection_count = dc_connections.capacity();
  port.dc_epochs = epoch;
  port.timing = timing;
}

Outcome Control::run(const Command& command) {
  const Runner::Pause pause(runner_);
  return std::visit([this](const auto& each) { return apply(each); }, command);
}

void Control::collect() {
  EventLog& log = tables_.port.events;
  if (log.fired != 0) {
    log.fired = 0;
    tell_listeners();
  }
  const uint32_t fresh = std::min(log.count, EventLog::kCapacity);
  for (uint32_t i = 0; i < fresh; ++i) events_.push(log.event[i]);
  log.count = 0;
}

bool Control::has_queues() const {
  for (uint32_t qpn = Tables::kFirstQpn; qpn < tables_.qps.used(); ++qpn) {
    if (tables_.qps[qpn].exists) return true;
  }
  for (uint32_t srqn = 1; srqn < tables_.srqs.used(); ++srqn) {
    if (tables_.srqs[srqn].exists) return true;
  }
  return false;
}

// ---- protection domains, UAR pages

Outcome Control::apply(const AllocatePd&) {
  const uint32_t pd = domains_.take();
  if (pd == 0) return no_resources("no protection domain left");
  domains_[pd] = {true, 0};
  return pd;
}

Outcome Control::apply(const FreePd& pd) {
  Counted* domain = domains_.find(pd.number);
  if (domain == nullptr) return bad_resource("unknown pd");
  if (domain->users > 0) return busy("keys or queues use this pd");
  domain->exists = false;
  domains_.release(pd.number);
  return {};
}

Outcome Control::apply(const AttachUar& from) {
  if (from.page == nullptr) return bad_parameter("UAR page without memory");
  const uint32_t id = tables_.pages.take();
  if (id == 0) return no_resources("no UAR page left");
  tables_.pages[id] = {.exists = true, .memory = from.page};
  tables_.port.page_count = tables_.pages.used();
  return id;
}

Outcome Control::apply(const DetachUar& from) {
  DoorbellPage* page = tables_.pages.find(from.number);
  if (page == nullptr) return bad_resource("unknown UAR page");
  if (page->users > 0) return busy("queues use this UAR page");
  *page = {};
  tables_.pages.release(from.number);
  return {};
}

// ---- queue pairs

/// True for a CQ that queues may complete at.
bool Control::completes_at(uint32_t cqn) {
  const CompletionQueue* cq = find_cq(tables_.port, cqn);
  return cq != nullptr && cq->buffer != nullptr;
}

Refusal Control::check(const QueuePairConfig& config) {
  if (domains_.find(config.pd) == nullptr) return bad_resource("unknown pd");
  if (config.service != Service::kReliable && config.service != Service::kDcInitiator &&
      config.service != Service::kDatagram) {
    return bad_parameter("service type is neither RC, UD nor DCI");
  }
  const bool sends = config.send_buffer != nullptr;
  const bool receives = config.receive_buffer != nullptr;
  if (sends && (config.log_send_blocks > kMaxLogSendBlocks || !aligned(config.send_buffer, 64))) {
    return bad_parameter("send queue beyond 2^15 blocks or not aligned to 64");
  }
  if (receives &&
      (config.log_receive_entries > kMaxLogReceiveEntries ||
       config.log_receive_stride > kMaxLogReceiveStride || !aligned(config.receive_buffer, 16))) {
    return bad_parameter("receive queue too large or not aligned to 16");
  }
  if ((sends || receives) && (config.doorbell == nullptr || !aligned(config.doorbell, 8))) {
    return bad_parameter("doorbell record missing or not aligned to 8");
  }
  if (sends && !completes_at(config.send_cq)) {
    return bad_resource("unknown send cqn, or that CQ has no memory");
  }
  const bool names_receive_cq = receives || config.receive_cq != 0;
  if (names_receive_cq && find_cq(tables_.port, config.receive_cq) == nullptr) {
    return bad_resource("unknown receive cqn");
  }
  if (receives && !completes_at(config.receive_cq)) {
    return bad_resource("the receive CQ has no memory");
  }
  if (config.uar_page != 0 && tables_.pages.find(config.uar_page) == nullptr) {
    return bad_resource("unknown UAR page");
  }
  if (config.shared_receive_queue == 0) return {};
  if (receives) return bad_parameter("a receive queue and a shared one");
  return check_shared(config.shared_receive_queue, config.receive_cq);
}

/// Checks the SRQ that a queue pair or DC target takes its receives from.
Refusal Control::check_shared(uint32_t srqn, uint32_t receive_cq) {
  const SharedReceiveQueue* srq = find_srq(tables_.port, srqn);
  if (srq == nullptr) return bad_resource("unknown srqn");
  if (find_cq(tables_.port, receive_cq) == nullptr) return bad_resource("unknown receive cqn");
  if (srq->buffer != nullptr && !completes_at(receive_cq)) {
    return bad_resource("the receive CQ has no memory");
  }
  return {};
}

void Control::count_users(const QueuePair& qp, int32_t by) {
  const auto add = [by](uint32_t& users) { users += static_cast<uint32_t>(by); };
  add(domains_[qp.pd].users);
  if (qp.uar_page != 0) add(tables_.pages[qp.uar_page].users);
  if (CompletionQueue* cq = find_cq(tables_.port, qp.send_cq)) {
    add(cq->users);
    if (qp.send_buffer != nullptr) add(cq->writers);
  }
  if (CompletionQueue* cq = find_cq(tables_.port, qp.receive_cq)) {
    add(cq->users);
    if (qp.receive_buffer != nullptr || shares_receives(qp)) add(cq->writers);
  }
  if (SharedReceiveQueue* srq = find_srq(tables_.port, qp.shared_receive_queue)) add(srq->users);
}

/// A queue pair in the table; 0 when that is full.
uint32_t Control::add(const QueuePairConfig& config) {
  const uint32_t blocks = config.send_buffer == nullptr ? 0 : 1u << config.log_send_blocks;
  std::vector<std::byte> fetched;  // before the number is taken, which a throw would leave taken
  if (in_gpu(config.send_buffer)) fetched.resize(size_t{blocks} * mlx5::kWqebbBytes);
  const uint32_t qpn = tables_.qps.take();
  if (qpn == 0) return 0;
  QueuePair& qp = *new (&tables_.qps[qpn]) QueuePair();
  static_cast<QueuePairConfig&>(qp) = config;
  qp.exists = true;
  qp.qpn = qpn;
  skip_looks(tables_.port, qp);
  qp.send_blocks = blocks;
  qp.receive_entries = config.receive_buffer == nullptr ? 0 : 1u << config.log_receive_entries;
  qp.receive_stride = mlx5::kSegmentBytes << config.log_receive_stride;
  if (in_gpu(config.send_buffer)) {
    qp.fetched = fetched.data();
    fetched_.insert_or_assign(qpn, std::move(fetched));
  }
  count_users(qp, 1);
  tables_.port.qp_count = tables_.qps.used();
  return qpn;
}

Outcome Control::apply(const CreateQp& config) {
  const Refusal refusal = check(config);
  if (refusal.refused()) return refusal;
  const uint32_t qpn = add(config);
  if (qpn == 0) return no_resources("no queue pair left");
  return qpn;
}

Outcome Control::apply(const QueryQp& call) {
  const QueuePair* qp = find_qp(call.number);
  if (qp == nullptr) return bad_resource("unknown qpn");
  Outcome answer;
  answer.attributes = qp->attributes;
  answer.attributes.state = qp->state;
  answer.attributes.hardware_send_counter = static_cast<uint16_t>(qp->send.next);
  answer.attributes.software_send_counter = static_cast<uint16_t>(qp->send.posted);
  return answer;
}

/// The queue pair or DC target of that number.
QueuePair* Control::find_qp(uint32_t qpn, bool target) {
  QueuePair* qp = softnic::find_qp(tables_.port, qpn);
  return qp != nullptr && (qp->service == Service::kDcTarget) == target ? qp : nullptr;
}

// What was rung so far is not for the queue pair that has the number next.
void Control::hear_out() {
  if (tables_.port.by_value) hear_registers(tables_.port);
}

void Control::release_qp(uint32_t qpn) {
  QueuePair& qp = tables_.qps[qpn];
  hear_out();
  place_held(tables_.port, qpn);
  runner_.forget(qpn);
  if (faults_ != nullptr) faults_->forget(qpn);
  count_users(qp, -1);
  qp.exists = false;
  qp.fetched = nullptr;
  fetched_.erase(qpn);
  tables_.qps.release(qpn);
}

Outcome Control::apply(const DestroyQp& call) {
  if (find_qp(call.number) == nullptr) return bad_resource("unknown qpn");
  release_qp(call.number);
  return {};
}

namespace {

/// Back to a fresh queue pair: all indexes and sequence numbers at their start.
void reset(QueuePair& qp) {
  qp.state = QpState::kReset;
  qp.attributes = {};
  qp.faults = {};
  qp.send = {};
  qp.receive = {};
}

bool legal(QpState from, QpState to) {
  switch (to) {
    case QpState::kInit:
      return from == QpState::kReset || from == QpState::kInit;
    case QpState::kReadyToReceive:
      return from == QpState::kInit;
    case QpState::kReadyToSend:
      return from == QpState::kReadyToReceive || from == QpState::kReadyToSend;
    default:
      return false;
  }
}

}  // namespace

Outcome Control::apply(const ModifyQp& call) {
  const auto& [qpn, from, to] = call;
  QueuePair* qp = find_qp(qpn);
  if (qp == nullptr) return bad_resource("unknown qpn");
  if (to.state == QpState::kReset) {
    runner_.forget(qpn);
    if (faults_ != nullptr) faults_->forget(qpn);
    hear_out();
    place_held(tables_.port, qpn);  // an acknowledgement may be on its way
    reset(*qp);
    skip_looks(tables_.port, *qp);
    return {};
  }
  if (to.state == QpState::kError) {
    qp->state = QpState::kError;
    runner_.watch(qpn);
    return {};
  }
  if (qp->state != from || !legal(from, to.state)) {
    return Refusal{CommandStatus::kBadQpState, "no such transition from the present state"};
  }
  if (to.state == QpState::kReadyToReceive) {
    if (to.mtu < 1 || to.mtu > 5) return bad_parameter("mtu not 1..5");
    if (to.log_max_message > 30) return bad_parameter("log_msg_max beyond 30");
    qp->receive.expected_psn = to.receive_psn & kPsnMask;
  }
  if (to.state == QpState::kReadyToSend && from == QpState::kReadyToReceive) {
    qp->send.psn = to.send_psn & kPsnMask;
    qp->send.acked_psn = (to.send_psn - 1) & kPsnMask;
  }
  qp->attributes = to;
  qp->state = to.state;
  // One that only receives has work too: when it fails, its entries are flushed.
  if (to.state >= QpState::kReadyToReceive) runner_.watch(qpn);
  return {};
}

// ---- DC targets

Outcome Control::apply(const CreateDcTarget& config) {
  if (domains_.find(config.pd) == nullptr) return bad_resource("unknown pd");
  if (config.receive_cq != 0 && find_cq(tables_.port, config.receive_cq) == nullptr) {
    return bad_resource("unknown receive cqn");
  }
  if (config.shared_receive_queue != 0) {
    const Refusal wrong = check_shared(config.shared_receive_queue, config.receive_cq);
    if (wrong.refused()) return wrong;
  }
  const uint32_t dctn = add({.service = Service::kDcTarget,
                             .pd = config.pd,
                             .user_index = config.user_index,
                             .receive_cq = config.receive_cq,
                             .shared_receive_queue = config.shared_receive_queue});
  if (dctn == 0) return no_resources("no DC target left");
  QueuePair& target = tables_.qps[dctn];
  target.state = QpState::kReadyToReceive;
  target.attributes.access = config.access;
  target.attributes.atomic_mode = config.atomic_mode;
  target.attributes.pkey = config.pkey;
  target.attributes.network = config.network;
  target.attributes.min_rnr_timer = config.min_rnr_timer;
  target.attributes.dc_access_key = config.dc_access_key;
  return dctn;
}

/// What messages to the target held goes with it; who has its number next does not answer for it.
void Control::forget_streams(uint32_t dctn) {
  for (uint32_t i = 0; i < tables_.port.dc_connection_count; ++i) {
    DcConnection& entry = tables_.dc_connections[i];
    if (entry.exists && entry.target == dctn) entry.receive.held = Receiver::kNoEntry;
  }
}

Outcome Control::apply(const DestroyDcTarget& call) {
  const QueuePair* target = find_qp(call.number, true);
  if (target == nullptr) return bad_resource("unknown DC target");
  if (shares_receives(*target)) forget_streams(call.number);
  release_qp(call.number);
  return {};
}

// ---- faults

void Control::begin_faults(const FaultPlan& plan) {
  if (faults_ == nullptr) faults_ = std::make_unique<Faults>();
  faults_->begin(plan);
  tables_.port.faults = faults_.get();
}

void Control::set_faults(const FaultPlan& plan) {
  const Runner::Pause pause(runner_);
  begin_faults(plan);
}

Outcome Control::apply(const FaultRules& part) {
  if (part.first == 0) coming_ = FaultPlan{};
  const bool last = part.total <= part.first + FaultRules::kMost;
  if (part.total > FaultPlan::kMaxRules || part.first != coming_.count) {
    return bad_parameter("a part of a fault plan that does not follow the one before it");
  }
  coming_.seed = part.seed;
  for (uint32_t i = 0; coming_.count < part.total && i < FaultRules::kMost; ++i) {
    coming_.rule[coming_.count++] = part.rule[i];
  }
  if (last) begin_faults(coming_);
  return {};
}

Outcome Control::apply(const QueryPort&) {
  return uint32_t{faults_ == nullptr || !faults_->down ? 1u : 0u};
}

Outcome Control::apply(const QueryViolations&) {
  Outcome answer;
  answer.violations = tables_.port.violations;
  return answer;
}

}  // namespace peal::softnic
