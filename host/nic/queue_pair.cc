// SPDX-License-Identifier: Apache-2.0
//
// The commands that create and connect queues. Each function fills in one mailbox.
#include "host/nic/queue_pair.h"

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstring>
#include <utility>

#include "host/base/error.h"
#include "host/nic/address.h"
#include "host/nic/command.h"

namespace peal::nic {
namespace {

using prm::Command;

template <size_t kBytes>
prm::Mailbox<kBytes> command(Command opcode) {
  prm::Mailbox<kBytes> in;
  in.set(prm::kOpcode, static_cast<uint32_t>(opcode));
  return in;
}

/// A command on queue pair `qpn`.
template <size_t kBytes>
prm::Mailbox<kBytes> command(Command opcode, uint32_t qpn) {
  prm::Mailbox<kBytes> in = command<kBytes>(opcode);
  in.set(prm::kObjectNumber, qpn);
  return in;
}

template <size_t kBytes>
void set_context(prm::Mailbox<kBytes>& in, prm::Field field, uint32_t value) {
  in.set(prm::at(field, prm::kQpContext), value);
}

prm::Mailbox<prm::kCreateCqIn> create_cq(uint32_t eqn, uint32_t uar_page, const QueuePlace& place) {
  auto in = command<prm::kCreateCqIn>(Command::kCreateCq);
  const auto set = [&in](prm::Field field, uint32_t value) {
    in.set(prm::at(field, prm::kCqContext), value);
  };
  set(prm::cqc::kCollapsed, 1);
  set(prm::cqc::kOverrunIgnore, 1);
  set(prm::cqc::kLogEntries, 0);
  set(prm::cqc::kUarPage, uar_page);
  set(prm::cqc::kEventQueue, eqn);
  set(prm::cqc::kDoorbellUmemValid, 1);
  set(prm::cqc::kDoorbellUmemNumber, place.umem);
  in.set(prm::at(prm::cqc::kDoorbellOffset, prm::kCqContext), place.cq_doorbell);
  in.set(prm::kCqUmemValid, 1);
  in.set(prm::kCqUmemNumber, place.umem);
  in.set(prm::kCqUmemOffset, place.cqe);
  return in;
}

struct CreateQp {
  uint32_t domain;
  uint32_t uar_page;
  uint32_t cqn;
  uint32_t depth;
  uint32_t user_index;
  uint32_t timestamps;
};

prm::Mailbox<prm::kCreateQpIn> create_qp(const CreateQp& create, const QueuePlace& place) {
  auto in = command<prm::kCreateQpIn>(Command::kCreateQp);
  set_context(in, prm::qpc::kService, prm::kServiceReliable);
  set_context(in, prm::qpc::kPathMigration, prm::kPathMigrated);
  set_context(in, prm::qpc::kProtectionDomain, create.domain);
  set_context(in, prm::qpc::kUarPage, create.uar_page);
  set_context(in, prm::qpc::kUserIndex, create.user_index);
  set_context(in, prm::qpc::kLogSendBlocks, static_cast<uint32_t>(std::countr_zero(create.depth)));
  set_context(in, prm::qpc::kTimestampFormat, create.timestamps);
  set_context(in, prm::qpc::kReceiveQueueType, prm::kNoReceiveQueue);
  set_context(in, prm::qpc::kSendCq, create.cqn);
  set_context(in, prm::qpc::kReceiveCq, create.cqn);
  set_context(in, prm::qpc::kDoorbellUmemValid, 1);
  set_context(in, prm::qpc::kDoorbellUmemNumber, place.umem);
  in.set(prm::at(prm::qpc::kDoorbellOffset, prm::kQpContext), place.doorbell);
  in.set(prm::kWqUmemValid, 1);
  in.set(prm::kWqUmemNumber, place.umem);
  in.set(prm::kWqUmemOffset, place.send_queue);
  return in;
}

// As Linux's mlx5 driver fills it in for queue pairs of its own (mlx5_set_path): the GRH bit means
// InfiniBand's header, and on Ethernet DSCP and priority have fields of their own.
void set_address_path(prm::Mailbox<prm::kModifyQpIn>& in, const Path& path) {
  set_context(in, prm::qpc::kPort, path.port);
  if (path.link_layer == LinkLayer::kEthernet) {
    set_context(in, prm::qpc::kUdpSourcePort, path.udp_source_port);
    set_context(in, prm::qpc::kEthernetPriority, path.service_level);
    set_context(in, prm::qpc::kDscp, path.traffic_class >> 2);
  } else {
    set_context(in, prm::qpc::kRemoteLid, path.dlid);
    set_context(in, prm::qpc::kServiceLevel, path.service_level);
    set_context(in, prm::qpc::kGlobalRoute, path.global);
  }
  if (!path.global) return;
  set_context(in, prm::qpc::kSourceGid, path.source_gid);
  set_context(in, prm::qpc::kHopLimit, path.hop_limit);
  set_context(in, prm::qpc::kTrafficClass, path.traffic_class);
  Be64 halves[2];
  static_assert(sizeof halves == sizeof path.remote_gid.bytes);
  std::memcpy(halves, path.remote_gid.bytes.data(), sizeof halves);
  in.set(prm::at(prm::qpc::kRemoteGidHigh, prm::kQpContext), halves[0].host());
  in.set(prm::at(prm::qpc::kRemoteGidLow, prm::kQpContext), halves[1].host());
}

void set_mac(prm::Mailbox<prm::kModifyQpIn>& in, const Mac& mac) {
  uint64_t number = 0;
  for (const uint8_t byte : mac) number = number << 8 | byte;
  set_context(in, prm::qpc::kRemoteMacHigh, static_cast<uint32_t>(number >> 32));
  set_context(in, prm::qpc::kRemoteMacLow, static_cast<uint32_t>(number));
}

/// Of a bond; the NIC looks at the field only where the mask names it.
void set_lag_port(prm::Mailbox<prm::kModifyQpIn>& in, uint8_t port) {
  if (port == 0) return;
  set_context(in, prm::qpc::kLagPort, port);
  in.set(prm::kOptionalFields, prm::kOptionalLagPort);
}

uint32_t checked_depth(const Device& device, uint32_t depth) {
  const uint32_t most =
      std::min(QueueMemoryLayout::kMaxDepth, 1u << device.capabilities().log_max_queue_blocks);
  if (!std::has_single_bit(depth) || depth > most) {
    fail(ErrorCode::kInvalidArgument,
         "queue depth {} of {} is not a power of two up to {} (PEAL_QUEUE_DEPTH)", depth,
         device.name(), most);
  }
  return depth;
}

/// Nobody reads the time of a completion, but a NIC whose clock is the time of day refuses queue
/// pairs that want ticks, and one that has only ticks need not know the field.
uint32_t timestamps(const Device& device) {
  return device.capabilities().ticks_only ? prm::kTicks : prm::kDefaultTimestamps;
}

/// The wanted settings, as far as the NIC goes.
QueuePairSettings limit(const Device& device, QueuePairSettings settings) {
  const uint32_t most = device.capabilities().log_max_message;
  settings.log_max_message =
      static_cast<uint8_t>(std::min<uint32_t>(settings.log_max_message, most));
  return settings;
}

}  // namespace

const char* to_string(QueueState state) {
  constexpr const char* kNames[] = {
      "reset", "init", "ready to receive", "ready to send", "send error", "send drained", "error"};
  const size_t index = static_cast<size_t>(state);
  return index < std::size(kNames) ? kNames[index] : "unknown state";
}

FirmwareObject::FirmwareObject(const Device& device, const void* in, size_t in_bytes)
    : library_(device.shared_library()), object_(nullptr, {library_->mlx5dv.devx_obj_destroy}) {
  prm::Mailbox<prm::kShortOut> out;
  object_.reset(
      library_->mlx5dv.devx_obj_create(device.context(), in, in_bytes, out.data(), out.bytes()));
  if (!object_) refuse_command(in, out.data(), errno);
  number_ = out.value(prm::kObjectNumber);
}

void FirmwareObject::modify(const void* in, size_t in_bytes) const {
  prm::Mailbox<prm::kShortOut> out;
  errno = 0;
  const int error =
      library_->mlx5dv.devx_obj_modify(object_.get(), in, in_bytes, out.data(), out.bytes());
  if (error != 0) refuse_command(in, out.data(), error > 0 ? error : errno);
}

void FirmwareObject::query(const void* in, size_t in_bytes, void* out, size_t out_bytes) const {
  errno = 0;
  const int error = library_->mlx5dv.devx_obj_query(object_.get(), in, in_bytes, out, out_bytes);
  if (error != 0) refuse_command(in, out, error > 0 ? error : errno);
}

QueuePlace QueuePlace::of(const QueueMemoryLayout& layout, const Umem& umem, uint64_t offset) {
  return {.umem = umem.number(),
          .send_queue = offset + layout.send_queue(),
          .cqe = offset + layout.cqe(),
          .doorbell = offset + layout.doorbell(),
          .cq_doorbell = offset + layout.cq_doorbell()};
}

CompletionQueue::CompletionQueue(const Device& device, const Uar& uar, const QueuePlace& place)
    : object_(device, create_cq(device.eqn(), uar.page(), place)) {}

QueuePair::QueuePair(const Device& device, const ProtectionDomain& domain, const Uar& uar,
                     const CompletionQueue& cq, const QueuePlace& place,
                     const QueuePairConfig& config)
    : object_(device, create_qp({.domain = domain.number(),
                                 .uar_page = uar.page(),
                                 .cqn = cq.number(),
                                 .depth = checked_depth(device, config.depth),
                                 .user_index = config.user_index,
                                 .timestamps = timestamps(device)},
                                place)),
      library_(device.shared_library()),
      domain_(domain.handle()),
      nic_(device.name()),
      port_(device.port().number),
      partition_(device.partition().index),
      counter_set_(device.counter_set()),
      lag_port_in_rts_(device.capabilities().lag_port_in_rts),
      settings_(limit(device, config.settings)) {}

void QueuePair::to_init() {
  auto in = command<prm::kModifyQpIn>(Command::kReset2Init, number());
  set_context(in, prm::qpc::kPathMigration, prm::kPathMigrated);
  set_context(in, prm::qpc::kPkeyIndex, partition_);
  set_context(in, prm::qpc::kPort, port_);
  set_context(in, prm::qpc::kCounterSet, counter_set_);
  set_context(in, prm::qpc::kRemoteWrite, 1);
  set_context(in, prm::qpc::kRemoteRead, 1);
  set_context(in, prm::qpc::kRemoteAtomic, settings_.atomic_mode != 0);
  set_context(in, prm::qpc::kAtomicMode, settings_.atomic_mode);
  object_.modify(in.data(), in.bytes());
}

void QueuePair::to_rtr(const RemoteQueue& remote) {
  auto in = command<prm::kModifyQpIn>(Command::kInit2Rtr, number());
  set_context(in, prm::qpc::kMtu, remote.path.mtu);
  set_context(in, prm::qpc::kLogMaxMessage, settings_.log_max_message);
  set_context(in, prm::qpc::kRemoteQpn, remote.qpn);
  set_address_path(in, remote.path);
  if (remote.path.link_layer == LinkLayer::kEthernet) {
    set_mac(in, next_hop(*library_, domain_, nic_, remote.path));
  }
  set_context(in, prm::qpc::kLogResponderDepth, remote.path.log_responder_depth);
  set_context(in, prm::qpc::kMinRnrTimer, settings_.min_rnr_timer);
  set_context(in, prm::qpc::kNextReceivePsn, remote.psn);
  set_lag_port(in, remote.path.lag_port);
  set_context(in, prm::qpc::kOrderForce, settings_.force_order);
  object_.modify(in.data(), in.bytes());
}

void QueuePair::to_rts(const Path& path, uint32_t psn) {
  auto in = command<prm::kModifyQpIn>(Command::kRtr2Rts, number());
  set_context(in, prm::qpc::kAckTimeout, path.ack_timeout);
  set_context(in, prm::qpc::kLogInitiatorDepth, path.log_initiator_depth);
  set_context(in, prm::qpc::kRetryCount, path.retry_count);
  set_context(in, prm::qpc::kRnrRetry, settings_.rnr_retry);
  set_context(in, prm::qpc::kNextSendPsn, psn);
  set_context(in, prm::qpc::kLogAckFrequency, settings_.log_ack_period);
  object_.modify(in.data(), in.bytes());
  if (path.lag_port == 0 || !lag_port_in_rts_) return;
  // Some firmware keeps to the port only if it is told again.
  auto again = command<prm::kModifyQpIn>(Command::kRts2Rts, number());
  set_lag_port(again, path.lag_port);
  object_.modify(again.data(), again.bytes());
}

void QueuePair::to_error() {
  const auto in = command<prm::kShortIn>(Command::k2Error, number());
  object_.modify(in.data(), in.bytes());
}

void QueuePair::to_reset() {
  const auto in = command<prm::kShortIn>(Command::k2Reset, number());
  object_.modify(in.data(), in.bytes());
}

QueueState QueuePair::query_state() const {
  const auto in = command<prm::kShortIn>(Command::kQueryQp, number());
  prm::Mailbox<prm::kQueryQpOut> out;
  object_.query(in.data(), in.bytes(), out.data(), out.bytes());
  return static_cast<QueueState>(out.value(prm::at(prm::qpc::kState, prm::kQpContext)));
}

}  // namespace peal::nic
