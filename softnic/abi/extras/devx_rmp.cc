// SPDX-License-Identifier: Apache-2.0
//
// CREATE_RMP: a receive memory pool, which is a shared receive queue in umems. Its entries are
// linked like those of a verbs SRQ, also where their order is to be cyclic: whoever fills them
// writes links that go round.
#include "softnic/abi/extras/extras.h"
#include "softnic/engine/shared_receive.h"

namespace peal::softnic::abi::devx {
namespace {

using prm::Syndrome;
namespace rmpc = prm::rmpc;
constexpr uint32_t kLogSegment = 4;
static_assert(mlx5::kSegmentBytes == 1 << kLogSegment);

struct DevxRmp : NicObject<ObjectKind::kSrq, &Nic::destroy_srq>, mlx5dv_devx_obj {
  using NicObject::NicObject;
};

void check_context(const prm::Reader& context) {
  // Entries of several strides (types 2 and 3) are for tag matching.
  if (context.get(rmpc::kState) != rmpc::kReady || context.get(rmpc::kType) > rmpc::kCyclic)
    fail(Syndrome::kUnsupportedMode);
  if (context.get(rmpc::kLogSize) > kMaxLogReceiveEntries ||
      context.get(rmpc::kLogStride) <= kLogSegment)
    fail(Syndrome::kQueueSize);
}

}  // namespace

mlx5dv_devx_obj* create_rmp(const Command& command) {
  require_lengths(command, prm::kQueueCommandBytes, prm::kHeaderBytes);
  prm::Reader context = command.in.at(rmpc::kContext);
  check_context(context);
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
