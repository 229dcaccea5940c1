// SPDX-License-Identifier: Apache-2.0
//
// Who the device is: attributes, port, GID, pkey. One InfiniBand port, LID from the NIC, one GID.
#include <fcntl.h>
#include <infiniband/mlx5dv.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <string>

#include "device/mlx5/layout.h"
#include "softnic/abi/context.h"

#undef ibv_query_port

namespace peal::softnic::abi {
namespace {

constexpr uint16_t kFullMemberPkey = 0xffff;
constexpr uint64_t kLinkLocalPrefix = 0xfe80000000000000;

void require_port(uint32_t port) {
  if (port != kPort) refuse(EINVAL);
}

ibv_device_attr describe_device(Nic& nic) {
  ibv_device_attr attr = {};
  std::strcpy(attr.fw_ver, nic.on_gpu() ? "0.1.0 softnic-gpu" : "0.1.0 softnic-cpu");
  attr.node_guid = attr.sys_image_guid = Be64(nic.guid()).raw;
  attr.max_mr_size = ~uint64_t{0};
  attr.page_size_cap = ~uint64_t{0xfff};
  attr.vendor_id = 0x02c9;
  attr.vendor_part_id = 4129;
  attr.max_qp = 1 << 17;
  attr.max_qp_wr = 1 << kMaxLogSendBlocks;
  attr.device_cap_flags = IBV_DEVICE_SYS_IMAGE_GUID | IBV_DEVICE_RC_RNR_NAK_GEN;
  attr.max_sge = attr.max_sge_rd = 30;
  attr.max_cq = 1 << 17;
  attr.max_cqe = (1 << kMaxLogCqEntries) - 1;
  attr.max_mr = 1 << 24;
  attr.max_pd = 1 << 16;
  attr.max_qp_rd_atom = attr.max_qp_init_rd_atom = 1 << kMaxLogReadDepth;
  attr.max_res_rd_atom = attr.max_qp * attr.max_qp_rd_atom;
  attr.atomic_cap = IBV_ATOMIC_HCA;
  attr.max_ah = 1 << 20;
  attr.max_srq = 1 << 17;
  attr.max_srq_wr = 1 << kMaxLogReceiveEntries;
  attr.max_srq_sge = 31;
  attr.max_pkeys = 1;
  attr.local_ca_ack_delay = 16;
  attr.phys_port_cnt = 1;
  return attr;
}

ibv_port_attr describe_port(Nic& nic) {
  constexpr uint8_t kFourLanes = 2;
  constexpr uint8_t kSpeedNdr = 128;
  constexpr uint8_t kLinkUp = 5;
  constexpr uint8_t kPolling = 2;
  ibv_port_attr attr = {};
  attr.state = nic.port_up() ? IBV_PORT_ACTIVE : IBV_PORT_DOWN;
  attr.max_mtu = attr.active_mtu = IBV_MTU_4096;
  attr.gid_tbl_len = 1;
  attr.max_msg_sz = static_cast<uint32_t>(mlx5::kMaxMessageBytes);
  attr.pkey_tbl_len = 1;
  attr.lid = attr.sm_lid = nic.lid();  // this NIC is its own subnet manager
  attr.max_vl_num = 1;
  attr.active_width = kFourLanes;
  attr.active_speed = kSpeedNdr;
  attr.phys_state = nic.port_up() ? kLinkUp : kPolling;
  attr.link_layer = IBV_LINK_LAYER_INFINIBAND;
  return attr;
}

ibv_gid gid_of(Nic& nic) {
  ibv_gid gid = {};
  gid.global.subnet_prefix = Be64(kLinkLocalPrefix).raw;
  gid.global.interface_id = Be64(nic.guid()).raw;
  return gid;
}

ibv_gid_entry gid_entry_of(Nic& nic) {
  ibv_gid_entry entry = {};
  entry.gid = gid_of(nic);
  entry.gid_index = 0;
  entry.port_num = kPort;
  entry.gid_type = IBV_GID_TYPE_IB;
  return entry;
}

/// Copies a description to a caller that knows `bytes` of it; what is newer than ours reads 0.
template <class T>
void answer(const T& description, void* to, size_t bytes) {
  std::memset(to, 0, bytes);
  std::memcpy(to, &description, std::min(bytes, sizeof description));
}

}  // namespace

int query_port_slot(ibv_context* handle, uint8_t port, ibv_port_attr* attr, size_t attr_bytes) {
  return answer_error([&] {
    Context& context = Context::of(handle);
    require_port(port);
    answer(describe_port(context.nic()), attr, attr_bytes);
  });
}

int query_device_ex_slot(ibv_context* handle, const ibv_query_device_ex_input* input,
                         ibv_device_attr_ex* attr, size_t attr_bytes) {
  return answer_error([&] {
    Context& context = Context::of(handle);
    if (input != nullptr && input->comp_mask != 0) refuse(EINVAL);
    if (attr_bytes < sizeof(ibv_device_attr)) refuse(EINVAL);
    ibv_device_attr_ex description = {};
    description.orig_attr = describe_device(context.nic());
    description.device_cap_flags_ex = description.orig_attr.device_cap_flags;
    description.phys_port_cnt_ex = 1;
    answer(description, attr, attr_bytes);
  });
}

}  // namespace peal::softnic::abi

using namespace peal::softnic;
using namespace peal::softnic::abi;

extern "C" {

int ibv_query_device(ibv_context* handle, ibv_device_attr* attr) {
  return answer_error([&] { *attr = describe_device(Context::of(handle).nic()); });
}

// Callers of the exported function know only the first 48 bytes.
int ibv_query_port(ibv_context* handle, uint8_t port, _compat_ibv_port_attr* attr) {
  constexpr size_t kCompatBytes = 48;
  return query_port_slot(handle, port, reinterpret_cast<ibv_port_attr*>(attr), kCompatBytes);
}

int ibv_query_gid(ibv_context* handle, uint8_t port, int index, ibv_gid* gid) {
  int error = answer_error([&] {
    Context& context = Context::of(handle);
    require_port(port);
    if (index != 0) refuse(EINVAL);
    *gid = gid_of(context.nic());
  });
  return error == 0 ? 0 : -1;
}

int _ibv_query_gid_ex(ibv_context* handle, uint32_t port, uint32_t index, ibv_gid_entry* entry,
                      uint32_t flags, size_t entry_bytes) {
  return answer_error([&] {
    Context& context = Context::of(handle);
    require_port(port);
    if (index != 0 || flags != 0) refuse(EINVAL);
    answer(gid_entry_of(context.nic()), entry, entry_bytes);
  });
}

ssize_t _ibv_query_gid_table(ibv_context* handle, ibv_gid_entry* entries, size_t max_entries,
                             uint32_t flags, size_t entry_bytes) {
  int error = answer_error([&] {
    Context& context = Context::of(handle);
    if (flags != 0 || max_entries == 0) refuse(EINVAL);
    answer(gid_entry_of(context.nic()), entries, entry_bytes);
  });
  return error == 0 ? 1 : -error;
}

int ibv_query_gid_type(ibv_context* handle, uint8_t port, unsigned index, ibv_gid_type* type) {
  int error = answer_error([&] {
    Context::of(handle);
    require_port(port);
    if (index != 0) refuse(EINVAL);
    *type = IBV_GID_TYPE_IB;
  });
  return error == 0 ? 0 : -1;
}

int ibv_query_pkey(ibv_context* handle, uint8_t port, int index, __be16* pkey) {
  int error = answer_error([&] {
    Context::of(handle);
    require_port(port);
    if (index != 0) refuse(EINVAL);
    *pkey = kFullMemberPkey;
  });
  return error == 0 ? 0 : -1;
}

int ibv_get_pkey_index(ibv_context* handle, uint8_t port, __be16 pkey) {
  int error = answer_error([&] {
    Context::of(handle);
    require_port(port);
    if (pkey != kFullMemberPkey) refuse(EINVAL);
  });
  return error == 0 ? 0 : -1;
}

const char* ibv_get_sysfs_path() { return "/sys"; }

int ibv_read_sysfs_file(const char* directory, const char* file, char* text, size_t bytes) {
  std::string path = std::string(directory) + "/" + file;
  FileDescriptor descriptor(open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (descriptor.get() < 0) return -1;
  ssize_t length = read(descriptor.get(), text, bytes);
  if (length <= 0) return -1;
  auto last = static_cast<size_t>(length) - 1;
  if (text[last] == '\n') {
    text[last] = '\0';
    return static_cast<int>(last);
  }
  if (static_cast<size_t>(length) < bytes) text[length] = '\0';
  return static_cast<int>(length);
}

// Registered memory is reached through the process's own mappings: a child's copies do no harm.
int ibv_fork_init() { return 0; }
ibv_fork_status ibv_is_fork_initialized() { return IBV_FORK_UNNEEDED; }
int ibv_dontfork_range(void*, size_t) { return 0; }
int ibv_dofork_range(void*, size_t) { return 0; }

bool mlx5dv_is_supported(ibv_device* device) { return device == &process().device; }

ibv_context* mlx5dv_open_device(ibv_device* device, mlx5dv_context_attr* attr) {
  constexpr uint32_t kKnown = MLX5DV_CONTEXT_FLAGS_DEVX;
  if (attr != nullptr && ((attr->flags & ~kKnown) != 0 || attr->comp_mask != 0)) {
    errno = EINVAL;
    return nullptr;
  }
  return ibv_open_device(device);  // every context can do DEVX
}

int mlx5dv_query_device(ibv_context* handle, mlx5dv_context* attr) {
  return answer_error([&] {
    Context::of(handle);
    uint64_t asked = attr->comp_mask;
    std::memset(attr, 0, offsetof(mlx5dv_context, cqe_comp_caps));
    attr->flags = MLX5DV_CONTEXT_FLAGS_CQE_V1;
    if ((asked & MLX5DV_CONTEXT_MASK_DYN_BFREGS) != 0) {
      attr->max_dynamic_bfregs = 1024;
      attr->comp_mask |= MLX5DV_CONTEXT_MASK_DYN_BFREGS;
    }
    if ((asked & MLX5DV_CONTEXT_MASK_NUM_LAG_PORTS) != 0) {
      attr->num_lag_ports = 1;
      attr->comp_mask |= MLX5DV_CONTEXT_MASK_NUM_LAG_PORTS;
    }
  });
}

// Newer than the headers we compile with. No second PCIe function, so no path.
int mlx5dv_get_data_direct_sysfs_path(ibv_context* handle, char*, size_t) {
  return answer_error([&] {
    Context::of(handle);
    refuse(ENODEV);
  });
}

}  // extern "C"
