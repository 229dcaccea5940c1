// SPDX-License-Identifier: Apache-2.0
//
// CREATE_QP, the state transitions, QUERY_QP.
//
//   wq umem at wq_umem_offset:  receive queue (when there is one) | send queue
#include "softnic/abi/core/devx.h"

namespace peal::softnic::abi::devx {
namespace {

using prm::CommandOpcode;
using prm::CommandSyndrome;
namespace qpc = prm::qpc;

/// A queue pair may ask for the default of any clock, and for the format of one that there is; a
/// NIC that has ticks only does not know the field.
bool has_timestamps(TimestampSupport clock, uint32_t format) {
  switch (format) {
    case qpc::kFreeRunning:
      return clock != TimestampSupport::kRealTime;
    case qpc::kDefaultFormat:
    case qpc::kRealTime:
      return clock != TimestampSupport::kFree;
    default:
      return false;
  }
}

void check_modes(const DevxCommand& command, const prm::Reader& context) {
  if (command.in.test(prm::kNumber)) fail(CommandSyndrome::kInputNumber);  // no reserved numbers
  auto service = static_cast<Service>(context.get(qpc::kService));
  if (service != Service::kReliable && service != Service::kDcInitiator)
    fail(CommandSyndrome::kService);
  if (context.test(qpc::kSignature) || context.test(qpc::kDoorbellMode) ||
      context.test(qpc::kPageOffset))
    fail(CommandSyndrome::kUnsupportedMode);
  if (!has_timestamps(command.context.nic().device().clock, context.get(qpc::kTimestampFormat)))
    fail(CommandSyndrome::kUnsupportedMode);
}

/// Places both queues in their umem and answers it.
Umem& place_queues(const DevxCommand& command, const prm::Reader& context,
                   QueuePairConfig* config) {
  bool has_sq = !context.test(qpc::kNoSendQueue);
  uint32_t rq_type = context.get(qpc::kRqType);
  // A DC initiator receives nothing, whatever its context says.
  const bool initiator = static_cast<Service>(context.get(qpc::kService)) == Service::kDcInitiator;
  bool has_rq = rq_type == qpc::kRegularRq && !initiator;
  if (rq_type != qpc::kRegularRq && rq_type != qpc::kSharedRq && rq_type != qpc::kZeroSizeRq)
    fail(CommandSyndrome::kUnsupportedMode);
  if (has_rq) {
    config->log_receive_entries = context.get(qpc::kLogRqSize);
    config->log_receive_stride = context.get(qpc::kLogRqStride);
  }
  config->log_send_blocks = has_sq ? context.get(qpc::kLogSqSize) : 0;
  if (config->log_send_blocks > command.context.nic().device().log_max_qp_wr)
    fail(CommandSyndrome::kQueueSize);
  uint64_t rq_bytes = has_rq ? uint64_t{mlx5::kSegmentBytes}
                                   << (config->log_receive_stride + config->log_receive_entries)
                             : 0;
  rq_bytes = (rq_bytes + mlx5::kWqebbBytes - 1) / mlx5::kWqebbBytes * mlx5::kWqebbBytes;
  uint64_t sq_bytes = has_sq ? uint64_t{mlx5::kWqebbBytes} << config->log_send_blocks : 0;
  Umem& umem = umem_of(command, command.in.get(prm::create_qp::kUmemId));
  std::byte* start = queue_slice(umem, command.in.wide(prm::create_qp::kUmemOffset),
                                 rq_bytes + sq_bytes, mlx5::kWqebbBytes);
  config->receive_buffer = has_rq ? start : nullptr;
  config->send_buffer = has_sq ? start + rq_bytes : nullptr;
  return umem;
}

/// Rewrites the access bits that `mask` names.
uint32_t merged_access(const prm::Reader& context, uint32_t mask, uint32_t access) {
  auto merge = [&](uint32_t optional_bit, prm::Field field, uint32_t bit) {
    if ((mask & optional_bit) != 0) access = (access & ~bit) | (context.test(field) ? bit : 0);
  };
  merge(prm::optional::kRemoteRead, qpc::kRemoteRead, kRemoteRead);
  merge(prm::optional::kRemoteWrite, qpc::kRemoteWrite, kRemoteWrite);
  merge(prm::optional::kRemoteAtomic, qpc::kRemoteAtomic, kRemoteAtomic);
  return access;
}

void read_init(const SoftwareNic& nic, const prm::Reader& context, QueuePairAttributes* to) {
  const uint32_t port = context.get(qpc::kPort);
  if (port < 1 || port > nic.device().ports) fail(CommandSyndrome::kPort);
  to->path.pkey_index = static_cast<uint16_t>(context.get(qpc::kPkeyIndex));
  to->pkey = nic.device().pkey(to->path.pkey_index);
  if (to->pkey == 0) fail(CommandSyndrome::kPath);
  to->path.port = static_cast<uint8_t>(port);
  to->lag_port = 0;
  to->access = merged_access(context, ~0u, 0);
  to->atomic_mode = static_cast<uint8_t>(context.get(qpc::kAtomicMode));
  to->dc_access_key = context.wide(qpc::kDcAccessKey);
}

void read_path(const SoftwareNic& nic, const prm::Reader& context, QueuePairAttributes* to) {
  const bool ethernet = nic.device().ethernet;
  AddressPath& path = to->path;
  path.lid = static_cast<uint16_t>(context.get(qpc::kRemoteLid));
  path.global = context.test(qpc::kGrh);
  path.source_gid = static_cast<uint8_t>(context.get(qpc::kSourceGidIndex));
  path.hop_limit = static_cast<uint8_t>(context.get(qpc::kHopLimit));
  path.traffic_class = static_cast<uint8_t>(ethernet ? context.get(qpc::kDscp) << 2
                                                     : context.get(qpc::kTrafficClass));
  path.service_level =
      static_cast<uint8_t>(context.get(ethernet ? qpc::kEthernetPriority : qpc::kServiceLevel));
  path.flow_label = context.get(qpc::kFlowLabel);
  path.udp_port = static_cast<uint16_t>(context.get(qpc::kUdpPort));
  const Be64 mac(uint64_t{context.get(qpc::kRemoteMacHigh)} << 32 |
                 context.get(qpc::kRemoteMacLow));
  std::memcpy(path.mac, reinterpret_cast<const std::byte*>(&mac) + 2, sizeof path.mac);
  for (uint32_t i = 0; i < 4; ++i) {
    Be32 word(context.word(qpc::kRemoteGid + i));
    std::memcpy(path.gid + i * sizeof word, &word, sizeof word);
  }
  if (nic.router().fault_of(path) != nullptr) fail(CommandSyndrome::kPath);
  nic.router().refuse_stranger(path);
  const PacketPath route = nic.router().route(path);
  to->remote_lid = route.lid;
  to->network = route.network;
}

/// How WRITEs to the queue pair are placed: as it asks for, else as its service level has it.
void read_ordering(const PresentedDevice& device, const prm::Reader& context,
                   QueuePairAttributes* to) {
  const bool forced = context.test(qpc::kOrderForce);
  const bool all = context.test(qpc::kOrderAll);  // also SENDs and receive entries: not offered
  to->any_order = context.test(qpc::kOrderAny);
  const bool none = (forced && !device.forces_order) || (to->any_order && !device.any_order);
  if (all || none) fail(CommandSyndrome::kUnsupportedMode);
  to->in_order = forced ? !to->any_order : device.orders(to->path.service_level);
}

void read_rtr(const QpObject& qp, const prm::Reader& context, QueuePairAttributes* to) {
  const PresentedDevice& device = qp.nic().device();
  to->mtu = static_cast<uint8_t>(context.get(qpc::kMtu));
  if (to->mtu < 1 || to->mtu > device.mtu) fail(CommandSyndrome::kMtu);
  to->log_max_message = static_cast<uint8_t>(context.get(qpc::kLogMaxMessage));
  if (to->log_max_message > 30) fail(CommandSyndrome::kQueueSize);
  if (qp.config.service == Service::kDcInitiator) {  // its peers are named in each WQE
    to->network = qp.nic().router().network_of(0);   // says that it is Ethernet
    return;
  }
  to->remote_qpn = context.get(qpc::kRemoteQpn);
  read_path(qp.nic(), context, to);
  to->log_responder_depth = static_cast<uint8_t>(context.get(qpc::kLogResponderDepth));
  if (to->log_responder_depth > device.log_responder_depth) fail(CommandSyndrome::kQueueSize);
  to->min_rnr_timer = static_cast<uint8_t>(context.get(qpc::kMinRnrTimer));
  to->receive_psn = context.get(qpc::kReceivePsn);
  read_ordering(device, context, to);
}

void read_rts(const SoftwareNic& nic, const prm::Reader& context, QueuePairAttributes* to) {
  to->log_initiator_depth = static_cast<uint8_t>(context.get(qpc::kLogInitiatorDepth));
  if (to->log_initiator_depth > nic.device().log_initiator_depth) fail(CommandSyndrome::kQueueSize);
  to->ack_timeout = static_cast<uint8_t>(context.get(qpc::kAckTimeout));
  to->retry_count = static_cast<uint8_t>(context.get(qpc::kRetryCount));
  to->rnr_retry = static_cast<uint8_t>(context.get(qpc::kRnrRetry));
  to->send_psn = context.get(qpc::kSendPsn);
}

/// The port of a bond that packets leave by. Without the option bit the field is not looked at;
/// where no ports are bonded it is taken and means nothing.
void read_lag_port(const SoftwareNic& nic, const prm::Reader& context, QueuePairAttributes* to) {
  const uint32_t port = context.get(qpc::kLagPort);
  if (port > nic.device().lag_ports()) fail(CommandSyndrome::kPort);
  to->lag_port = nic.device().bonded > 1 ? static_cast<uint8_t>(port) : uint8_t{0};
}

/// Optional fields of transitions that carry little else.
void read_optional(const prm::Reader& context, uint32_t mask, QueuePairAttributes* to) {
  to->access = merged_access(context, mask, to->access);
  if ((mask & prm::optional::kRemoteAtomic) != 0)
    to->atomic_mode = static_cast<uint8_t>(context.get(qpc::kAtomicMode));
  if ((mask & prm::optional::kRnrTimer) != 0)
    to->min_rnr_timer = static_cast<uint8_t>(context.get(qpc::kMinRnrTimer));
}

struct Transition {
  QpState from;
  QpState to;
  bool operator==(const Transition&) const = default;
};
constexpr QpState kAnyState = QpState::kSqDrained;  // no queue pair here is in it
constexpr Transition kNone = {kAnyState, kAnyState};
constexpr Row<CommandOpcode, Transition> kTransitions[] = {
    {CommandOpcode::kRstToInit, {QpState::kReset, QpState::kInit}},
    {CommandOpcode::kInitToInit, {QpState::kInit, QpState::kInit}},
    {CommandOpcode::kInitToRtr, {QpState::kInit, QpState::kReadyToReceive}},
    {CommandOpcode::kRtrToRts, {QpState::kReadyToReceive, QpState::kReadyToSend}},
    {CommandOpcode::kRtsToRts, {QpState::kReadyToSend, QpState::kReadyToSend}},
    {CommandOpcode::kToError, {kAnyState, QpState::kError}},
    {CommandOpcode::kToReset, {kAnyState, QpState::kReset}},
};

void write_attributes(const QueuePairAttributes& now, const prm::Writer& context) {
  context.set(qpc::kState, static_cast<uint32_t>(now.state));
  context.set(qpc::kLagPort, now.lag_port);
  // Clients refuse a queue pair whose mtu is not a code, even before it has one.
  context.set(qpc::kMtu, now.mtu == 0 ? 1 : now.mtu);
  context.set(qpc::kLogMaxMessage, now.log_max_message);
  context.set(qpc::kRemoteQpn, now.remote_qpn);
  context.set(qpc::kOrderAny, now.any_order);
  context.set(qpc::kAckTimeout, now.ack_timeout);
  context.set(qpc::kLogInitiatorDepth, now.log_initiator_depth);
  context.set(qpc::kRetryCount, now.retry_count);
  context.set(qpc::kRnrRetry, now.rnr_retry);
  context.set(qpc::kSendPsn, now.send_psn);
  context.set(qpc::kLogResponderDepth, now.log_responder_depth);
  context.set(qpc::kAtomicMode, now.atomic_mode);
  context.set(qpc::kRemoteRead, (now.access & kRemoteRead) != 0);
  context.set(qpc::kRemoteWrite, (now.access & kRemoteWrite) != 0);
  context.set(qpc::kRemoteAtomic, (now.access & kRemoteAtomic) != 0);
  context.set(qpc::kMinRnrTimer, now.min_rnr_timer);
  context.set(qpc::kReceivePsn, now.receive_psn);
  context.set(qpc::kHardwareSendCounter, now.hardware_send_counter);
  context.set(qpc::kSoftwareSendCounter, now.software_send_counter);
  context.set_wide(qpc::kDcAccessKey, now.dc_access_key);
}

void write_path(const AddressPath& path, bool ethernet, const prm::Writer& context) {
  context.set(qpc::kPort, path.port);
  context.set(qpc::kPkeyIndex, path.pkey_index);
  context.set(qpc::kRemoteLid, path.lid);
  context.set(qpc::kGrh, path.global);
  context.set(qpc::kSourceGidIndex, path.source_gid);
  context.set(qpc::kHopLimit, path.hop_limit);
  context.set(qpc::kFlowLabel, path.flow_label);
  context.set_gid(qpc::kRemoteGid, path.gid);
  if (!ethernet) {
    context.set(qpc::kTrafficClass, path.traffic_class);
    context.set(qpc::kServiceLevel, path.service_level);
    return;
  }
  context.set(qpc::kDscp, path.traffic_class >> 2);
  context.set(qpc::kEthernetPriority, path.service_level);
  context.set(qpc::kUdpPort, path.udp_port);
  context.set_mac(qpc::kRemoteMacHigh, qpc::kRemoteMacLow, path.mac);
}

void write_config(const QueuePairConfig& config, const prm::Writer& context) {
  context.set(qpc::kService, static_cast<uint32_t>(config.service));
  context.set(qpc::kPd, config.pd);
  context.set(qpc::kLogRqSize, config.log_receive_entries);
  context.set(qpc::kLogRqStride, config.log_receive_stride);
  context.set(qpc::kNoSendQueue, config.send_buffer == nullptr);
  context.set(qpc::kLogSqSize, config.log_send_blocks);
  context.set(qpc::kUarPage, config.uar_page);
  context.set(qpc::kUserIndex, config.user_index);
  context.set(qpc::kSendCq, config.send_cq);
  context.set(qpc::kReceiveCq, config.receive_cq);
  context.set(qpc::kSrqn, config.shared_receive_queue);
  uint32_t rq_type = config.receive_buffer != nullptr   ? qpc::kRegularRq
                     : config.shared_receive_queue != 0 ? qpc::kSharedRq
                                                        : qpc::kZeroSizeRq;
  context.set(qpc::kRqType, rq_type);
}

}  // namespace

mlx5dv_devx_obj* create_qp(const DevxCommand& command) {
  require_lengths(command, prm::kQueueCommandBytes, prm::kHeaderBytes);
  prm::Reader context = command.in.at(prm::create_qp::kContext);
  check_modes(command, context);
  auto qp = std::make_unique<DevxQp>(command.context);
  QueuePairConfig& config = qp->config;
  config.service = static_cast<Service>(context.get(qpc::kService));
  config.pd = context.get(qpc::kPd);
  config.uar_page = context.get(qpc::kUarPage);
  config.user_index = context.get(qpc::kUserIndex);
  Umem& buffer = place_queues(command, context, &config);
  Umem& doorbell = umem_of(command, context.get(qpc::kDoorbellUmemId));
  config.doorbell = doorbell_record(doorbell, context.wide(qpc::kDoorbellOffset));

  qp->use(required(command, ObjectKind::kUar, config.uar_page));
  qp->use(required(command, ObjectKind::kPd, config.pd));
  if (config.send_buffer != nullptr) {
    config.send_cq = context.get(qpc::kSendCq);
    qp->use(required(command, ObjectKind::kCq, config.send_cq));
  }
  if (context.get(qpc::kRqType) != qpc::kZeroSizeRq) {
    config.receive_cq = context.get(qpc::kReceiveCq);
    qp->use(required(command, ObjectKind::kCq, config.receive_cq));
  }
  if (context.get(qpc::kRqType) == qpc::kSharedRq) {
    config.shared_receive_queue = context.get(qpc::kSrqn);
    qp->use(required(command, ObjectKind::kSrq, config.shared_receive_queue));
  }
  qp->use(buffer);
  qp->use(doorbell);
  qp->number = require_ok(command.context.nic().create_qp(config));
  return command.context.adopt(std::move(qp));
}

void modify_qp(const DevxCommand& command, QpObject& qp) {
  auto opcode = static_cast<CommandOpcode>(command.in.get(prm::kOpcode));
  const Transition step = right_of(kTransitions, opcode, kNone);
  if (step == kNone) refuse(EINVAL);
  const bool bare = step.from == kAnyState;
  require_lengths(command, bare ? prm::kHeaderBytes : prm::kQueueCommandBytes, prm::kHeaderBytes);
  QueuePairAttributes to;
  require_ok(qp.nic().query_qp(qp.number, &to));
  const QpState from = to.state;
  // Before any field is judged: a command for another state says so whatever it carries.
  if (!bare && step.from != from) fail(CommandSyndrome::kNic, CommandStatus::kBadQpState);
  prm::Reader context = command.in.at(prm::create_qp::kContext);
  uint32_t mask = command.in.get(prm::create_qp::kOptionalMask);
  if (opcode == CommandOpcode::kRstToInit) read_init(qp.nic(), context, &to);
  if (opcode == CommandOpcode::kInitToRtr) read_rtr(qp, context, &to);
  if (opcode == CommandOpcode::kRtrToRts) read_rts(qp.nic(), context, &to);
  if (!bare && opcode != CommandOpcode::kRstToInit) read_optional(context, mask, &to);
  const bool steers = opcode == CommandOpcode::kInitToRtr || opcode == CommandOpcode::kRtsToRts;
  if (steers && (mask & prm::optional::kLagPort) != 0) read_lag_port(qp.nic(), context, &to);
  const bool atomics = (to.access & kRemoteAtomic) != 0 || to.atomic_mode != 0;
  if (!bare && atomics && qp.nic().device().refuses_any(kRefuseAtomics))
    fail(CommandSyndrome::kUnsupportedMode);
  to.state = step.to;
  require_ok(qp.nic().modify_qp(qp.number, from, to));
}

void query_qp(const DevxCommand& command, QpObject& qp) {
  require_lengths(command, prm::kHeaderBytes, prm::kQueueCommandBytes);
  QueuePairAttributes now;
  require_ok(qp.nic().query_qp(qp.number, &now));
  prm::Writer context = command.out.at(prm::create_qp::kContext);
  write_config(qp.config, context);
  write_attributes(now, context);
  write_path(now.path, qp.nic().device().ethernet, context);
}

}  // namespace peal::softnic::abi::devx
