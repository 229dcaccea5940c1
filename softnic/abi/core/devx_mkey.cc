// SPDX-License-Identifier: Apache-2.0
//
// CREATE_MKEY, of KSM keys only: other keys that answer at other addresses. Keys of memory come
// from ibv_reg_mr.
//
//   [start_addr, start_addr + len) -> entry i: 1 << log_entity_size bytes of its key, from its
//   address on
//
// Addresses count from start_addr: UCX's keys for atomics, whose start is a little behind that of
// an entity, rely on it (openucx/ucx v1.13.1, src/uct/ib/mlx5/dv/ib_mlx5dv_md.c,
// uct_ib_mlx5_devx_reg_ksm_data_contig).
#include <vector>

#include "softnic/abi/core/devx.h"

namespace peal::softnic::abi::devx {
namespace {

using prm::CommandSyndrome;
namespace mkc = prm::mkc;
namespace create = prm::create_mkey;

/// A right in the key's context, and as the NIC keeps it.
constexpr Row<Access, prm::Field> kRights[] = {{kLocalWrite, mkc::kLocalWrite},
                                               {kRemoteWrite, mkc::kRemoteWrite},
                                               {kRemoteRead, mkc::kRemoteRead},
                                               {kRemoteAtomic, mkc::kAtomic},
                                               {kRelaxedOrdering, mkc::kRelaxedWrite}};

void check_context(const DevxCommand& command, const prm::Reader& context) {
  const bool ksm = context.get(mkc::kModeLow) == mkc::kKsm && !context.test(mkc::kModeHigh);
  const bool plain = context.get(mkc::kQpn) == mkc::kAnyQpn && context.test(mkc::kLocalRead);
  const bool more = context.test(mkc::kFree) || context.test(mkc::kUmr) ||
                    context.test(mkc::kLength64) || context.test(mkc::kSignatures) ||
                    command.in.test(create::kUmemValid) || command.in.test(create::kIndex);
  const PresentedDevice& device = command.context.nic().device();
  const bool relaxed = context.test(mkc::kRelaxedWrite);
  const bool orders = relaxed ? !device.refuses_any(kRefuseRelaxedOrdering) : !device.relaxed_only;
  if (!ksm || !plain || more || !orders) fail(CommandSyndrome::kUnsupportedMode);
}

std::vector<KeyEntry> read_entries(const prm::Reader& in) {
  std::vector<KeyEntry> entries(in.get(create::kActualEntries));
  prm::Reader entry = in.at(create::kEntries);
  for (KeyEntry& each : entries) {
    each = {entry.wide(create::kEntryAddress), entry.get(create::kEntryKey)};
    entry = entry.at(create::kEntryBytes);
  }
  return entries;
}

}  // namespace

mlx5dv_devx_obj* create_mkey(const DevxCommand& command) {
  const prm::Reader context = command.in.at(create::kContext);
  const uint64_t count = command.in.get(create::kActualEntries);
  if (command.in.size() != create::kEntries + count * create::kEntryBytes) {
    fail(CommandSyndrome::kLength, CommandStatus::kBadInputLength);
  }
  if (command.out.size() < prm::kHeaderBytes) {
    fail(CommandSyndrome::kLength, CommandStatus::kBadOutputLength);
  }
  check_context(command, context);
  if (context.get(mkc::kEntries) != count) fail(CommandSyndrome::kQueueSize);
  Object& domain = required(command, ObjectKind::kPd, context.get(mkc::kPd));

  Key key = {.pd = context.get(mkc::kPd),
             .iova = context.wide(mkc::kStart),
             .bytes = context.wide(mkc::kLength),
             .log_entity = static_cast<uint8_t>(context.get(mkc::kLogEntity))};
  for (const auto& [right, field] : kRights)
    if (context.test(field)) key.access |= right;
  const std::vector<KeyEntry> entries = read_entries(command.in);
  auto made = std::make_unique<DevxKey>(command.context);
  made->number = require_ok(command.context.nic().make_indirect_key(
      {key, static_cast<uint8_t>(context.get(mkc::kVariant)), entries}));
  made->use(domain);
  return command.context.adopt(std::move(made));
}

}  // namespace peal::softnic::abi::devx
