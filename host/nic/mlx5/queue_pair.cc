// SPDX-License-Identifier: Apache-2.0
//
// The commands that create and connect queues. Each function fills in one mailbox.
#include "host/nic/mlx5/queue_pair.h"

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstring>

#include "device/mlx5/work_queue.h"
#include "host/base/error.h"
#include "host/nic/mlx5/next_hop.h"

namespace peal::nic {
namespace {

using prm::FirmwareCommand;

prm::Mailbox<prm::kCreateCqIn> create_cq(uint32_t eqn, uint32_t uar_page, const QueuePlace& place) {
  prm::Mailbox<prm::kCreateCqIn> in(FirmwareCommand::kCreateCq);
  in.set(prm::cqc::kCollapsed, 1);
  in.set(prm::cqc::kOverrunIgnore, 1);
  in.set(prm::cqc::kLogEntries, 0);
  in.set(prm::cqc::kUarPage, uar_page);
  in.set(prm::cqc::kEventQueue, eqn);
  in.set(prm::cqc::kDoorbellUmemValid, 1);
  in.set(prm::cqc::kDoorbellUmemNumber, place.umem);
  in.set(prm::cqc::kDoorbellOffset, place.cq_doorbell);
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
  uint32_t timestamps;
};

prm::Mailbox<prm::kCreateQpIn> create_qp(const CreateQp& create, const QueuePlace& place) {
  prm::Mailbox<prm::kCreateQpIn> in(FirmwareCommand::kCreateQp);
  in.set(prm::qpc::kService, prm::kServiceReliable);
  in.set(prm::qpc::kPathMigration, prm::kPathMigrated);
  in.set(prm::qpc::kProtectionDomain, create.domain);
  in.set(prm::qpc::kUarPage, create.uar_page);
  in.set(prm::qpc::kLogSendBlocks, static_cast<uint32_t>(std::countr_zero(create.depth)));
  in.set(prm::qpc::kTimestampFormat, create.timestamps);
  in.set(prm::qpc::kReceiveQueueType, prm::kNoReceiveQueue);
  in.set(prm::qpc::kSendCq, create.cqn);
  in.set(prm::qpc::kReceiveCq, create.cqn);
  in.set(prm::qpc::kDoorbellUmemValid, 1);
  in.set(prm::qpc::kDoorbellUmemNumber, place.umem);
  in.set(prm::qpc::kDoorbellOffset, place.doorbell);
  in.set(prm::kWqUmemValid, 1);
  in.set(prm::kWqUmemNumber, place.umem);
  in.set(prm::kWqUmemOffset, place.send_queue);
  return in;
}

// As Linux's mlx5 driver fills it in for queue pairs of its own (mlx5_set_path): the GRH bit means
// InfiniBand's header, and on Ethernet DSCP and priority have fields of their own.
void set_address_path(prm::Mailbox<prm::kModifyQpIn>& in, const Path& path) {
  in.set(prm::qpc::kPort, path.port);
  if (path.link_layer == LinkLayer::kEthernet) {
    in.set(prm::qpc::kUdpSourcePort, path.udp_source_port);
    in.set(prm::qpc::kEthernetPriority, path.service_level);
    in.set(prm::qpc::kDscp, path.traffic_class >> 2);
  } else {
    in.set(prm::qpc::kRemoteLid, path.dlid);
    in.set(prm::qpc::kServiceLevel, path.service_level);
    in.set(prm::qpc::kGlobalRoute, path.global);
  }
  if (!path.global) return;
  in.set(prm::qpc::kSourceGid, path.source_gid);
  in.set(prm::qpc::kHopLimit, path.hop_limit);
  in.set(prm::qpc::kTrafficClass, path.traffic_class);
  Be64 halves[2];
  static_assert(sizeof halves == sizeof path.remote_gid.bytes);
  std::memcpy(halves, path.remote_gid.bytes.data(), sizeof halves);
  in.set(prm::qpc::kRemoteGidHigh, halves[0].host());
  in.set(prm::qpc::kRemoteGidLow, halves[1].host());
}

void set_mac(prm::Mailbox<prm::kModifyQpIn>& in, const MacAddress& mac) {
  uint64_t number = 0;
  for (const uint8_t byte : mac) number = number << 8 | byte;
  in.set(prm::qpc::kRemoteMacHigh, static_cast<uint32_t>(number >> 32));
  in.set(prm::qpc::kRemoteMacLow, static_cast<uint32_t>(number));
}

/// The port of a bond; the NIC looks at the field only where the mask names it.
void set_lag_port(prm::Mailbox<prm::kModifyQpIn>& in, uint8_t port) {
  if (port == 0) return;
  in.set(prm::qpc::kLagPort, port);
  in.set(prm::kOptionalFields, prm::kOptionalLagPort);
}

uint32_t checked_depth(const Device& device, uint32_t depth) {
  const uint32_t most = std::min(mlx5::kMaxDepth, 1u << device.capabilities().log_max_queue_blocks);
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

FirmwareObject::FirmwareObject(const Device& device, const void* in, size_t in_bytes)
    : library_(device.shared_library()), object_(nullptr, {library_->model->devx_obj_destroy}) {
  prm::Mailbox<prm::kShortOut> out;
  object_.reset(
      library_->model->devx_obj_create(device.context(), in, in_bytes, out.data(), out.bytes()));
  if (!object_) refuse_command(in, out.data(), errno);
  number_ = out.value(prm::kObjectNumber);
}

void FirmwareObject::modify(const void* in, size_t in_bytes) const {
  prm::Mailbox<prm::kShortOut> out;
  errno = 0;
  const int error =
      library_->model->devx_obj_modify(object_.get(), in, in_bytes, out.data(), out.bytes());
  if (error != 0) refuse_command(in, out.data(), error > 0 ? error : errno);
}

void FirmwareObject::query(const void* in, size_t in_bytes, void* out, size_t out_bytes) const {
  errno = 0;
  const int error = library_->model->devx_obj_query(object_.get(), in, in_bytes, out, out_bytes);
  if (error != 0) refuse_command(in, out, error > 0 ? error : errno);
}

QueuePlace QueuePlace::of(const QueueMemoryLayout& layout, const QueueRegion& umem,
                          uint64_t offset) {
  return {.umem = umem.number(),
          .send_queue = offset + layout.send_queue(),
          .cqe = offset + layout.cqe(),
          .doorbell = offset + layout.doorbell(),
          .cq_doorbell = offset + layout.cq_doorbell()};
}

DrivenCompletionQueue::DrivenCompletionQueue(const Device& device, const RegisterPage& uar,
                                             const QueuePlace& place)
    : object_(device, create_cq(device.event_queue(), uar.number(), place)) {}

DrivenQueuePair::DrivenQueuePair(const Device& device, const ProtectionDomain& domain,
                                 const RegisterPage& uar, const DrivenCompletionQueue& cq,
                                 const QueuePlace& place, const DrivenQueuePairConfig& config)
    : object_(device, create_qp({.domain = domain.number(),
                                 .uar_page = uar.number(),
                                 .cqn = cq.number(),
                                 .depth = checked_depth(device, config.depth),
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

void DrivenQueuePair::to_init() {
  prm::Mailbox<prm::kModifyQpIn> in(FirmwareCommand::kReset2Init, number());
  in.set(prm::qpc::kPathMigration, prm::kPathMigrated);
  in.set(prm::qpc::kPkeyIndex, partition_);
  in.set(prm::qpc::kPort, port_);
  in.set(prm::qpc::kCounterSet, counter_set_);
  in.set(prm::qpc::kRemoteWrite, 1);
  in.set(prm::qpc::kRemoteRead, 1);
  in.set(prm::qpc::kRemoteAtomic, settings_.atomic_mode != 0);
  in.set(prm::qpc::kAtomicMode, settings_.atomic_mode);
  object_.modify(in.data(), in.bytes());
}

void DrivenQueuePair::to_rtr(const RemoteQueue& remote) {
  prm::Mailbox<prm::kModifyQpIn> in(FirmwareCommand::kInit2Rtr, number());
  in.set(prm::qpc::kMtu, remote.path.mtu);
  in.set(prm::qpc::kLogMaxMessage, settings_.log_max_message);
  in.set(prm::qpc::kRemoteQpn, remote.qpn);
  set_address_path(in, remote.path);
  if (remote.path.link_layer == LinkLayer::kEthernet) {
    set_mac(in, next_hop(*library_, domain_, nic_, remote.path));
  }
  in.set(prm::qpc::kLogResponderDepth, remote.path.log_responder_depth);
  in.set(prm::qpc::kMinRnrTimer, settings_.min_rnr_timer);
  in.set(prm::qpc::kNextReceivePsn, remote.psn);
  set_lag_port(in, remote.path.lag_port);
  in.set(prm::qpc::kOrderForce, settings_.order == QueueOrder::kForced);
  in.set(prm::qpc::kOrderAny, settings_.order == QueueOrder::kAny && remote.path.any_order);
  object_.modify(in.data(), in.bytes());
}

void DrivenQueuePair::to_rts(const Path& path, uint32_t psn) {
  prm::Mailbox<prm::kModifyQpIn> in(FirmwareCommand::kRtr2Rts, number());
  in.set(prm::qpc::kAckTimeout, path.ack_timeout);
  in.set(prm::qpc::kLogInitiatorDepth, path.log_initiator_depth);
  in.set(prm::qpc::kRetryCount, path.retry_count);
  in.set(prm::qpc::kRnrRetry, settings_.rnr_retry);
  in.set(prm::qpc::kNextSendPsn, psn);
  in.set(prm::qpc::kLogAckFrequency, settings_.log_ack_period);
  object_.modify(in.data(), in.bytes());
  if (path.lag_port == 0 || !lag_port_in_rts_) return;
  // Some firmware keeps to the port only if it is told again.
  prm::Mailbox<prm::kModifyQpIn> again(FirmwareCommand::kRts2Rts, number());
  set_lag_port(again, path.lag_port);
  object_.modify(again.data(), again.bytes());
}

void DrivenQueuePair::to_reset() {
  const prm::Mailbox<prm::kShortIn> in(FirmwareCommand::k2Reset, number());
  object_.modify(in.data(), in.bytes());
}

QueueState DrivenQueuePair::query_state() const {
  const prm::Mailbox<prm::kShortIn> in(FirmwareCommand::kQueryQp, number());
  prm::Mailbox<prm::kQueryQpOut> out;
  object_.query(in.data(), in.bytes(), out.data(), out.bytes());
  return static_cast<QueueState>(out.value(prm::qpc::kState));
}

}  // namespace peal::nic
