// SPDX-License-Identifier: Apache-2.0
//
// QUERY_HCA_CAP: what this device says it can do, as a table: what is always so, then what it
// presents itself as. Everything not listed is 0. QUERY_ROCE_ADDRESS: its GIDs as firmware has
// them. QUERY_LAG: whether its ports are bonded. QUERY_HCA_VPORT_CONTEXT: the service levels on
// which packets may arrive out of order.
//
// Zeros that matter: no CQE compression, no doorbells without a record (a doorbell
// here is plain memory, so only the record can be trusted).
#include <algorithm>
#include <bit>

#include "softnic/abi/core/devx.h"

namespace peal::softnic::abi::devx {
namespace {

constexpr size_t kAnswer = 0x10;  // where what was asked for begins

struct Capability {
  prm::Field field;
  uint32_t value;
};

constexpr Capability kGeneralCaps[] = {
    {{6, 23, 16}, kMaxLogCqEntries},  // log_max_cq_sz
    {{6, 4, 0}, 17},                  // log_max_cq
    {{7, 21, 16}, 24},                // log_max_mkey
    {{8, 5, 0}, kLogMostEntries},     // log_max_klm_list_size
    {{14, 28, 24}, 30},               // log_max_msg
    {{15, 3, 0}, 1},                  // cqe_version
    {{16, 31, 31}, 1},                // compact_address_vector
    {{16, 5, 5}, 1},                  // dct
    {{17, 31, 31}, 1},                // cq_oi
    {{17, 19, 19}, 1},                // cd: WAIT
    {{17, 0, 0}, 1},                  // rc
    {{18, 31, 31}, 1},                // uar_4k
    {{19, 31, 31}, 1},                // bf
    {{19, 20, 16}, 9},                // log_bf_reg_size
    {{20, 15, 0}, 1024},              // max_wqe_sz_sq
    {{21, 15, 0}, 512},               // max_wqe_sz_rq
    {{22, 15, 0}, 1024},              // max_wqe_sz_sq_dc
    {{25, 20, 16}, 16},               // log_max_pd
    {{28, 28, 24}, 16},               // log_max_rmp
    {{41, 31, 0}, 1},                 // num_of_uars_per_page
};

constexpr Capability kAtomicCaps[] = {
    {{2, 31, 30}, 1},   // atomic_req_8B_endianness_mode: host order
    {{2, 25, 25}, 1},   // supported_atomic_req_8B_endianness_mode_1
    {{4, 15, 0}, 0xf},  // atomic_operations: swap, add, and both masked
    {{5, 15, 0}, 0xc},  // atomic_size_qp: 4 and 8 bytes
    {{6, 15, 0}, 0xc},  // atomic_size_dc
};

constexpr Capability kPciAtomicCaps[] = {
    {{20, 31, 16}, 3},  // fetch_add_pci_atomic: 4 and 8 bytes
    {{21, 31, 16}, 3},  // compare_swap_pci_atomic
};

/// Code of a table of at least `entries`: least << code.
uint32_t table_code(size_t entries, size_t least) {
  return static_cast<uint32_t>(std::countr_zero(std::bit_ceil(std::max(entries, least)) / least));
}

void present_general(const SoftwareNic& nic, const prm::Writer& capability) {
  const PresentedDevice& device = nic.device();
  const Capability caps[] = {
      {{1, 15, 0}, nic.lid()},                                                // vhca_id
      {{1, 31, 31}, device.forces_order},                                     // hca_cap_2
      {{4, 23, 16}, device.log_max_qp_wr},                                    // log_max_qp_sz
      {{4, 4, 0}, static_cast<uint32_t>(std::bit_width(device.max_qp)) - 1},  // log_max_qp
      {{7, 23, 23}, !device.refuses_any(kRefuseRelaxedOrdering)},  // relaxed_ordering_write
      {{8, 31, 24}, !nic.on_gpu()},                                // max_indirection
      {{8, 23, 23}, !nic.on_gpu()},                                // fixed_buffer_size: KSM keys
      // Requests that a queue pair takes at a time, and answers that it waits for: "req" is the
      // responder's depth.
      {{9, 21, 16}, device.log_responder_depth},            // log_max_ra_req_dc
      {{9, 7, 7}, device.unordered_levels.has_value()},     // ooo_sl_mask
      {{9, 5, 0}, device.log_initiator_depth},              // log_max_ra_res_dc
      {{10, 21, 16}, device.log_responder_depth},           // log_max_ra_req_qp
      {{10, 13, 13}, 1},                                    // rts2rts_lag_tx_port_affinity
      {{10, 5, 0}, device.log_initiator_depth},             // log_max_ra_res_qp
      {{11, 15, 0}, table_code(nic.gids().size(), 8)},      // gid_table_size
      {{13, 9, 8}, device.ethernet},                        // port_type
      {{12, 15, 0}, table_code(device.pkeys.size(), 128)},  // pkey_table_size
      {{14, 21, 21}, device.any_order},                     // dp_ordering_ooo_rw_rc
      {{13, 7, 0}, device.ports},                           // num_ports
      {{15, 7, 7}, 1},                                      // init2_lag_tx_port_affinity
      {{16, 2, 2}, device.ethernet},                        // roce
      {{16, 1, 1}, !device.refuses_any(kRefuseAtomics)},    // atomic
      {{19, 3, 0}, device.lag_ports()},                     // num_lag_ports
      {{29, 22, 22}, device.relaxed_only},                  // mkc_order_write_after_write_ro_only
      {{34, 31, 30}, static_cast<uint32_t>(device.clock)},  // sq_ts_format
  };
  for (const Capability& cap : caps) capability.set(cap.field, cap.value);
}

void present_roce(const SoftwareNic& nic, const prm::Writer& capability) {
  constexpr uint32_t kIpv4AndIpv6 = 1u << 1 | 1u << 2;
  constexpr uint32_t kVersions1And2 = 1u << 0 | 1u << 2;
  constexpr uint32_t kDestinationPort = 4791;  // of RoCE v2, assigned by IANA
  const PresentedDevice& device = nic.device();
  const Capability caps[] = {
      {{0, 27, 27}, 1},                                        // sw_r_roce_src_udp_port
      {{0, 1, 0}, static_cast<uint32_t>(device.clock)},        // qp_ts_format
      {{4, 19, 16}, kIpv4AndIpv6},                             // l3_type
      {{4, 7, 0}, kVersions1And2},                             // roce_version
      {{5, 15, 0}, kDestinationPort},                          // r_roce_dest_udp_port
      {{6, 31, 16}, device.max_udp_port},                      // r_roce_max_src_udp_port
      {{6, 15, 0}, device.min_udp_port},                       // r_roce_min_src_udp_port
      {{7, 15, 0}, static_cast<uint32_t>(nic.gids().size())},  // roce_address_table_size
  };
  for (const Capability& cap : caps) capability.set(cap.field, cap.value);
}

}  // namespace

void query_hca_cap(const DevxCommand& command) {
  require_lengths(command, prm::kHeaderBytes, prm::kQueryHcaCapOutBytes);
  const SoftwareNic& nic = command.context.nic();
  prm::Writer capability = command.out.at(kAnswer);
  // Current and maximum values (bit 0) are the same: nothing here can be enabled or disabled.
  uint32_t type = command.in.get(prm::kOpMod) >> 1;
  const bool more = type == prm::cap::kGeneral2 && nic.device().forces_order;
  // Every ConnectX knows these two; here each answers that it can do nothing.
  const bool nothing = type == prm::cap::kFlowTable || type == prm::cap::kDeviceMemory;
  if (type > prm::cap::kRoce && !nothing && !more) fail(prm::CommandSyndrome::kCapabilityType);
  if (type == prm::cap::kGeneral) {
    for (const Capability& cap : kGeneralCaps) capability.set(cap.field, cap.value);
    present_general(nic, capability);
  }
  if (type == prm::cap::kAtomic && !nic.device().refuses_any(kRefuseAtomics)) {
    for (const Capability& cap : kAtomicCaps) capability.set(cap.field, cap.value);
    if (nic.device().pci_atomics) {
      for (const Capability& cap : kPciAtomicCaps) capability.set(cap.field, cap.value);
    }
  }
  if (type == prm::cap::kRoce && nic.device().ethernet) present_roce(nic, capability);
  if (more) capability.set({4, 23, 23}, 1);  // dp_ordering_force
}

void query_hca_vport_context(const DevxCommand& command) {
  require_lengths(command, prm::kHeaderBytes, prm::kQueryHcaVportContextOutBytes);
  const PresentedDevice& device = command.context.nic().device();
  // Where there is one port its number is left out.
  const uint32_t named = command.in.get({2, 19, 16});  // port_num
  const uint32_t port = named == 0 && device.ports == 1 ? 1 : named;
  // An Ethernet port has no such context, and a client sees no virtual port but its own.
  const bool others = command.in.test({2, 31, 31});  // other_vport
  if (device.ethernet || port < 1 || port > device.ports || others)
    fail(prm::CommandSyndrome::kPort);
  const prm::Writer context = command.out.at(kAnswer);
  context.set({20, 15, 0}, device.unordered_levels.value_or(0));                    // ooo_sl_mask
  if (port == device.port) context.set({24, 31, 16}, command.context.nic().lid());  // lid
}

void query_lag(const DevxCommand& command) {
  require_lengths(command, prm::kHeaderBytes, prm::kHeaderBytes);
  command.out.set({2, 2, 0}, command.context.nic().device().bonded > 1);  // lag_state
}

void query_roce_address(const DevxCommand& command) {
  const SoftwareNic& nic = command.context.nic();
  // An InfiniBand port has no RoCE addresses.
  const uint32_t port = command.in.get({2, 3, 0});
  if (!nic.device().ethernet || port > nic.device().ports) fail(prm::CommandSyndrome::kPort);
  const uint32_t index = command.in.get({2, 31, 16});
  if (index >= nic.gids().size()) fail(prm::CommandSyndrome::kPath);
  const GidTableEntry& gid = nic.gids()[index];
  if (!gid.used) return;
  const prm::Writer layout = command.out.at(kAnswer);
  layout.set_gid(0, gid.raw.data());
  layout.set_mac({4, 15, 0}, {5, 31, 0}, mac_of(nic.lid()).data());
  layout.set({6, 11, 8}, is_ipv4(gid.raw) ? 0 : 1);                // l3_type
  layout.set({6, 7, 0}, gid.network == Network::kRoceV2 ? 2 : 0);  // version
}

}  // namespace peal::softnic::abi::devx
