// SPDX-License-Identifier: Apache-2.0
//
// CREATE_DCT and QUERY_DCT: a target that any DC initiator knowing its key may reach. CREATE_RMP: a
// receive memory pool, which is a shared receive queue in umems. Its entries are linked like those
// of a verbs SRQ, also where their order is to be cyclic: whoever fills them writes links that go
// round.
#include "softnic/abi/extras/extras.h"
#include "softnic/engine/shared_receive.h"

namespace peal::softnic::abi::devx {
namespace {

using prm::CommandSyndrome;
namespace dctc = prm::dctc;
namespace rmpc = prm::rmpc;

constexpr uint32_t kActive = 0;

struct DevxDct : NicObject<ObjectKind::kDct, &SoftwareNic::destroy_dc_target>, mlx5dv_devx_obj {
  using NicObject::NicObject;
  DcTargetConfig config;
  uint32_t mtu = 0;
  uint32_t port = 1;
};

void check_context(const PresentedDevice& device, const prm::Reader& context) {
  const uint32_t port = context.get(dctc::kPort);
  if (port < 1 || port > device.ports) fail(CommandSyndrome::kPort);
  if (device.pkey(context.get(dctc::kPkeyIndex)) == 0) fail(CommandSyndrome::kPath);
  uint32_t mtu = context.get(dctc::kMtu);
  if (mtu < 1 || mtu > device.mtu) fail(CommandSyndrome::kMtu);
}

/// The network of the GID by which the target answers.
Network source_network(const SoftwareNic& nic, uint32_t index) {
  const bool used = index < nic.gids().size() && nic.gids()[index].used;
  if (nic.device().ethernet && !used) fail(CommandSyndrome::kPath);
  return nic.router().network_of(static_cast<uint8_t>(index));
}

constexpr uint32_t kLogSegment = 4;
static_assert(mlx5::kSegmentBytes == 1 << kLogSegment);

struct DevxRmp : NicObject<ObjectKind::kSrq, &SoftwareNic::destroy_srq>, mlx5dv_devx_obj {
  using NicObject::NicObject;
};

}  // namespace

mlx5dv_devx_obj* create_dct(const DevxCommand& command) {
  const bool longer = command.in.size() == prm::kCreateLongDctBytes;
  require_lengths(command, longer ? prm::kCreateLongDctBytes : prm::kCreateDctBytes,
                  prm::kHeaderBytes);
  prm::Reader context = command.in.at(dctc::kContext);
  check_context(command.context.nic().device(), context);
  auto dct = std::make_unique<DevxDct>(command.context);
  DcTargetConfig& config = dct->config;
  config.pd = context.get(dctc::kPd);
  config.shared_receive_queue = context.get(dctc::kSrqn);
  config.receive_cq = context.get(dctc::kCq);
  config.access = (context.test(dctc::kRemoteRead) ? kRemoteRead : 0u) |
                  (context.test(dctc::kRemoteWrite) ? kRemoteWrite : 0u) |
                  (context.test(dctc::kRemoteAtomic) ? kRemoteAtomic : 0u);
  config.atomic_mode = static_cast<uint8_t>(context.get(dctc::kAtomicMode));
  config.min_rnr_timer = static_cast<uint8_t>(context.get(dctc::kMinRnrTimer));
  config.dc_access_key = context.wide(dctc::kAccessKey);
  config.pkey = command.context.nic().device().pkey(context.get(dctc::kPkeyIndex));
  config.network = source_network(command.context.nic(), context.get(dctc::kMyGidIndex));
  config.user_index = context.get(dctc::kUserIndex);
  dct->mtu = context.get(dctc::kMtu);
  dct->port = context.get(dctc::kPort);
  dct->use(required(command, ObjectKind::kPd, config.pd));
  dct->use(required(command, ObjectKind::kCq, config.receive_cq));
  dct->use(required(command, ObjectKind::kSrq, config.shared_receive_queue));
  dct->number = require_ok(command.context.nic().create_dc_target(config));
  return command.context.adopt(std::move(dct));
}

void query_dct(const DevxCommand& command, const Object& object) {
  const auto& dct = static_cast<const DevxDct&>(object);
  require_lengths(command, prm::kHeaderBytes, prm::kQueryDctOutBytes);
  prm::Writer context = command.out.at(dctc::kContext);
  context.set(dctc::kState, kActive);
  context.set(dctc::kCq, dct.config.receive_cq);
  context.set(dctc::kAtomicMode, dct.config.atomic_mode);
  context.set(dctc::kRemoteRead, (dct.config.access & kRemoteRead) != 0);
  context.set(dctc::kRemoteWrite, (dct.config.access & kRemoteWrite) != 0);
  context.set(dctc::kRemoteAtomic, (dct.config.access & kRemoteAtomic) != 0);
  context.set(dctc::kMinRnrTimer, dct.config.min_rnr_timer);
  context.set(dctc::kSrqn, dct.config.shared_receive_queue);
  context.set(dctc::kPd, dct.config.pd);
  context.set_wide(dctc::kAccessKey, dct.config.dc_access_key);
  context.set(dctc::kMtu, dct.mtu);
  context.set(dctc::kPort, dct.port);
}

mlx5dv_devx_obj* create_rmp(const DevxCommand& command) {
  require_lengths(command, prm::kQueueCommandBytes, prm::kHeaderBytes);
  prm::Reader context = command.in.at(rmpc::kContext);
  // Entries of several strides (types 2 and 3) are for tag matching.
  if (context.get(rmpc::kState) != rmpc::kReady || context.get(rmpc::kType) > rmpc::kCyclic)
    fail(CommandSyndrome::kUnsupportedMode);
  if (context.get(rmpc::kLogSize) > kMaxLogReceiveEntries ||
      context.get(rmpc::kLogStride) <= kLogSegment)
    fail(CommandSyndrome::kQueueSize);
  auto rmp = std::make_unique<DevxRmp>(command.context);
  SharedReceiveConfig config;
  config.pd = context.get(rmpc::kPd);
  config.log_entries = context.get(rmpc::kLogSize);
  config.log_stride = context.get(rmpc::kLogStride) - kLogSegment;
  Umem& buffer = umem_of(command, context.get(rmpc::kUmemId));
  Umem& doorbell = umem_of(command, context.get(rmpc::kDoorbellUmemId));
  config.buffer = queue_slice(
      buffer, context.wide(rmpc::kUmemOffset),
      uint64_t{mlx5::kSegmentBytes} << (config.log_stride + config.log_entries), mlx5::kWqebbBytes);
  config.doorbell = doorbell_record(doorbell, context.wide(rmpc::kDoorbellOffset));
  rmp->use(required(command, ObjectKind::kPd, config.pd));
  rmp->use(buffer);
  rmp->use(doorbell);
  rmp->number = require_ok(command.context.nic().create_srq(config));
  return command.context.adopt(std::move(rmp));
}

}  // namespace peal::softnic::abi::devx
