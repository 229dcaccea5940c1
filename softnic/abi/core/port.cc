// SPDX-License-Identifier: Apache-2.0
//
// Ports: state, GIDs, pkeys. One of them has a cable and is what the NIC drives; the others are
// there to be seen, down and without GIDs.
#include <infiniband/mlx5dv.h>
#include <infiniband/verbs.h>

#include <algorithm>
#include <cstring>

#include "device/base/endian.h"
#include "device/mlx5/layout.h"
#include "softnic/abi/core/context.h"

#undef ibv_query_port

namespace peal::softnic::abi {
namespace {

PortState state_of(const SoftwareNic& nic, uint32_t port) {
  const PresentedDevice& device = nic.device();
  return port == device.port && nic.port_up() ? device.state : PortState::kDown;
}

ibv_port_attr describe_port(const SoftwareNic& nic, uint8_t port) {
  constexpr uint8_t kFourLanes = 2;
  constexpr uint8_t kPolling = 2;
  constexpr uint8_t kDisabled = 3;
  constexpr uint8_t kLinkUp = 5;
  const PresentedDevice& device = nic.device();
  const PortState state = state_of(nic, port);
  ibv_port_attr attr = {};
  attr.state = static_cast<ibv_port_state>(state);
  attr.max_mtu = IBV_MTU_4096;
  attr.active_mtu = static_cast<ibv_mtu>(device.mtu);
  attr.gid_tbl_len = static_cast<int>(nic.gids().size());
  attr.max_msg_sz = static_cast<uint32_t>(mlx5::kMaxMessageBytes);
  attr.pkey_tbl_len = static_cast<uint16_t>(device.pkeys.size());
  attr.max_vl_num = 1;
  attr.active_width = kFourLanes;
  attr.active_speed = device.speed;
  // A cable whose link is only down is what the physical layer goes on looking for.
  const uint8_t unlinked = device.ethernet ? kDisabled : kPolling;
  attr.phys_state = state == PortState::kDown ? unlinked : kLinkUp;
  if (device.ethernet) {
    attr.link_layer = IBV_LINK_LAYER_ETHERNET;
    attr.port_cap_flags = IBV_PORT_CM_SUP | IBV_PORT_IP_BASED_GIDS;
    attr.flags = IBV_QPF_GRH_REQUIRED;
    return attr;
  }
  attr.link_layer = IBV_LINK_LAYER_INFINIBAND;
  // A subnet manager gives a LID to a port with a link; this NIC is its own.
  const bool managed = port == device.port && device.state >= PortState::kArmed;
  if (managed) attr.lid = attr.sm_lid = nic.lid();
  return attr;
}

/// Entry of a port's table. Throws EINVAL for one that it does not have.
GidTableEntry gid_at(VerbsContext& context, uint32_t port, uint32_t index) {
  require_port(context, port);
  const std::vector<GidTableEntry>& table = context.nic().gids();
  if (index >= table.size()) refuse(EINVAL);
  return port == context.nic().device().port ? table[index] : GidTableEntry{};
}

constexpr Row<Network, ibv_gid_type> kGidTypes[] = {
    {Network::kRoceV1, IBV_GID_TYPE_ROCE_V1},
    {Network::kRoceV2, IBV_GID_TYPE_ROCE_V2},
};

ibv_gid_entry entry_of(const GidTableEntry& gid, uint32_t port, uint32_t index) {
  ibv_gid_entry entry = {};
  std::memcpy(entry.gid.raw, gid.raw.data(), sizeof entry.gid.raw);
  entry.gid_index = index;
  entry.port_num = port;
  entry.gid_type = right_of(kGidTypes, gid.network, IBV_GID_TYPE_IB);
  return entry;
}

}  // namespace

int query_port_slot(ibv_context* handle, uint8_t port, ibv_port_attr* attr, size_t attr_bytes) {
  return answer_error([&] {
    VerbsContext& context = VerbsContext::of(handle);
    require_port(context, port);
    answer(describe_port(context.nic(), port), attr, attr_bytes);
  });
}

extern "C" {

// No switch with virtual ports stands behind the port: nothing to tell, as on a card without one.
int _mlx5dv_query_port(ibv_context* handle, uint32_t port, mlx5dv_port* info, size_t bytes) {
  return answer_error([&] {
    require_port(VerbsContext::of(handle), port);
    std::memset(info, 0, bytes);
  });
}

// Callers of the exported function know only the first 48 bytes.
int ibv_query_port(ibv_context* handle, uint8_t port, _compat_ibv_port_attr* attr) {
  constexpr size_t kCompatBytes = 48;
  return query_port_slot(handle, port, reinterpret_cast<ibv_port_attr*>(attr), kCompatBytes);
}

// An empty entry reads as zeros, as the file of the kernel does.
int ibv_query_gid(ibv_context* handle, uint8_t port, int index, ibv_gid* gid) {
  return answer_negative([&] {
    const GidTableEntry entry =
        gid_at(VerbsContext::of(handle), port, static_cast<uint32_t>(index));
    std::memcpy(gid->raw, entry.raw.data(), sizeof gid->raw);
  });
}

int _ibv_query_gid_ex(ibv_context* handle, uint32_t port, uint32_t index, ibv_gid_entry* entry,
                      uint32_t flags, size_t entry_bytes) {
  return answer_error([&] {
    const GidTableEntry gid = gid_at(VerbsContext::of(handle), port, index);
    if (flags != 0) refuse(EINVAL);
    if (!gid.used) refuse(ENODATA);
    answer(entry_of(gid, port, index), entry, entry_bytes);
  });
}

// Entries in use, those of all ports one after the other.
ssize_t _ibv_query_gid_table(ibv_context* handle, ibv_gid_entry* entries, size_t max_entries,
                             uint32_t flags, size_t entry_bytes) {
  ssize_t count = 0;
  int error = answer_error([&] {
    VerbsContext& context = VerbsContext::of(handle);
    if (flags != 0) refuse(EINVAL);
    const std::vector<GidTableEntry>& table = context.nic().gids();
    for (uint32_t index = 0; index < table.size(); ++index) {
      if (!table[index].used) continue;
      if (static_cast<size_t>(count) == max_entries) refuse(EINVAL);
      auto* const place =
          reinterpret_cast<std::byte*>(entries) + static_cast<size_t>(count) * entry_bytes;
      answer(entry_of(table[index], context.nic().device().port, index), place, entry_bytes);
      ++count;
    }
  });
  return error == 0 ? count : -error;
}

// What the kernel's file tells, RoCE v2 (1) or anything else (0): not the numbers of ibv_gid_type.
int ibv_query_gid_type(ibv_context* handle, uint8_t port, unsigned index, uint32_t* type) {
  return answer_negative([&] {
    const GidTableEntry gid = gid_at(VerbsContext::of(handle), port, index);
    *type = gid.network == Network::kRoceV2 ? 1 : 0;
  });
}

int ibv_query_pkey(ibv_context* handle, uint8_t port, int index, __be16* pkey) {
  return answer_negative([&] {
    VerbsContext& context = VerbsContext::of(handle);
    require_port(context, port);
    const std::vector<uint16_t>& table = context.nic().device().pkeys;
    if (index < 0 || static_cast<size_t>(index) >= table.size()) refuse(EINVAL);
    *pkey = Be16(table[static_cast<size_t>(index)]).raw;
  });
}

int ibv_get_pkey_index(ibv_context* handle, uint8_t port, __be16 pkey) {
  int index = -1;
  int error = answer_error([&] {
    VerbsContext& context = VerbsContext::of(handle);
    require_port(context, port);
    const std::vector<uint16_t>& table = context.nic().device().pkeys;
    const auto equal = [pkey](uint16_t entry) { return Be16(entry).raw == pkey; };
    const auto found = std::find_if(table.begin(), table.end(), equal);
    if (found == table.end()) refuse(EINVAL);
    index = static_cast<int>(found - table.begin());
  });
  return error == 0 ? index : -1;
}

}  // extern "C"
}  // namespace peal::softnic::abi
