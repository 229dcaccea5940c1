// SPDX-License-Identifier: Apache-2.0
//
// Who the device is, what it can, and its clock. Its ports are in port.cc.
#include <infiniband/mlx5dv.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <string>

#include "base/clock.h"
#include "base/files.h"
#include "device/mlx5/layout.h"
#include "softnic/abi/core/context.h"

namespace peal::softnic::abi {
namespace {

ibv_device_attr describe_device(SoftwareNic& nic) {
  ibv_device_attr attr = {};
  std::strcpy(attr.fw_ver, nic.on_gpu() ? "0.1.0 softnic-gpu" : "0.1.0 softnic-cpu");
  attr.node_guid = attr.sys_image_guid = Be64(nic.guid()).raw;
  attr.max_mr_size = ~uint64_t{0};
  attr.page_size_cap = ~uint64_t{0xfff};
  attr.vendor_id = 0x02c9;
  attr.vendor_part_id = 4129;
  const PresentedDevice& device = nic.device();
  attr.max_qp = static_cast<int>(device.max_qp);
  attr.max_qp_wr = 1 << device.log_max_qp_wr;
  attr.device_cap_flags = IBV_DEVICE_SYS_IMAGE_GUID | IBV_DEVICE_RC_RNR_NAK_GEN;
  attr.max_sge = attr.max_sge_rd = 30;
  attr.max_cq = 1 << 17;
  attr.max_cqe = (1 << kMaxLogCqEntries) - 1;
  attr.max_mr = 1 << 24;
  attr.max_pd = 1 << 16;
  attr.max_qp_rd_atom = 1 << device.log_responder_depth;
  attr.max_qp_init_rd_atom = 1 << device.log_initiator_depth;
  attr.max_res_rd_atom = attr.max_qp * attr.max_qp_rd_atom;
  attr.atomic_cap = device.refuses_any(kRefuseAtomics) ? IBV_ATOMIC_NONE : IBV_ATOMIC_HCA;
  attr.max_ah = 1 << 20;
  attr.max_srq = 1 << 17;
  attr.max_srq_wr = 1 << kMaxLogReceiveEntries;
  attr.max_srq_sge = 31;
  attr.max_pkeys = static_cast<uint16_t>(device.pkeys.size());
  attr.local_ca_ack_delay = 16;
  attr.phys_port_cnt = device.ports;
  return attr;
}

}  // namespace

int query_device_ex_slot(ibv_context* handle, const ibv_query_device_ex_input* input,
                         ibv_device_attr_ex* attr, size_t attr_bytes) {
  return answer_error([&] {
    VerbsContext& context = VerbsContext::of(handle);
    if (input != nullptr && input->comp_mask != 0) refuse(EINVAL);
    if (attr_bytes < sizeof(ibv_device_attr)) refuse(EINVAL);
    ibv_device_attr_ex description = {};
    description.orig_attr = describe_device(context.nic());
    description.device_cap_flags_ex = description.orig_attr.device_cap_flags;
    description.phys_port_cnt_ex = description.orig_attr.phys_port_cnt;
    description.completion_timestamp_mask = ~uint64_t{0};
    description.hca_core_clock = 1'000'000;  // kHz: ticks are nanoseconds
    description.max_dm_size = context.nic().on_gpu() ? 0 : kDeviceMemoryBytes;
    answer(description, attr, attr_bytes);
  });
}

uint64_t wall_clock_of(uint64_t tick) {
  using namespace std::chrono;
  const auto now = duration_cast<nanoseconds>(system_clock::now().time_since_epoch());
  return static_cast<uint64_t>(now.count()) - monotonic_ns() + tick;
}

int query_rt_values_slot(ibv_context* handle, ibv_values_ex* values) {
  return answer_error([&] {
    VerbsContext::of(handle);
    if ((values->comp_mask & ~uint32_t{IBV_VALUES_MASK_RAW_CLOCK}) != 0) refuse(EINVAL);
    if (values->comp_mask == 0) return;
    // Ticks, whatever the field is called: a client multiplies by hca_core_clock.
    values->raw_clock.tv_sec = 0;
    values->raw_clock.tv_nsec = static_cast<long>(monotonic_ns());
  });
}

extern "C" {

int ibv_query_device(ibv_context* handle, ibv_device_attr* attr) {
  return answer_error([&] { *attr = describe_device(VerbsContext::of(handle).nic()); });
}

const char* ibv_get_sysfs_path() { return "/sys"; }

int ibv_read_sysfs_file(const char* directory, const char* file, char* text, size_t bytes) {
  std::string found = peal::bytes_of(std::string(directory) + "/" + file).substr(0, bytes);
  if (found.empty()) return -1;
  if (found.back() == '\n') found.pop_back();
  // Copies the final 0 as well, where there is room.
  std::memcpy(text, found.c_str(), std::min(found.size() + 1, bytes));
  return static_cast<int>(found.size());
}

// Registered memory is reached through the process's own mappings: a child's copies do no harm.
int ibv_fork_init() { return 0; }
ibv_fork_status ibv_is_fork_initialized() { return IBV_FORK_UNNEEDED; }
int ibv_dontfork_range(void*, size_t) { return 0; }
int ibv_dofork_range(void*, size_t) { return 0; }

bool mlx5dv_is_supported(ibv_device* device) { return process().find(device) != nullptr; }

int mlx5dv_query_device(ibv_context* handle, mlx5dv_context* attr) {
  return answer_error([&] {
    VerbsContext::of(handle);
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

int mlx5dv_get_clock_info(ibv_context* handle, mlx5dv_clock_info* info) {
  return answer_error([&] {
    VerbsContext::of(handle);
    const uint64_t tick = monotonic_ns();
    *info = {.nsec = wall_clock_of(tick),
             .last_cycles = tick,
             .frac = 0,
             .mult = 1,
             .shift = 0,
             .mask = ~uint64_t{0}};
  });
}

// Newer than the headers we compile with. No second PCIe function, so no path.
int mlx5dv_get_data_direct_sysfs_path(ibv_context* handle, char*, size_t) {
  return answer_error([&] {
    VerbsContext::of(handle);
    refuse(ENODEV);
  });
}

}  // extern "C"
}  // namespace peal::softnic::abi
