// SPDX-License-Identifier: Apache-2.0
//
// QUERY_HCA_CAP: what this device says it can do, as a table. Everything not listed is 0.
//
// Zeros that matter: no hca_cap_2, no CQE compression, no RoCE, no doorbells without a record (a
// doorbell here is plain memory, so only the record can be trusted).
#include "softnic/abi/devx.h"

namespace peal::softnic::abi::devx {
namespace {

struct Capability {
  prm::Field field;
  uint32_t value;
};

constexpr uint32_t kReadDepth = kMaxLogReadDepth;

constexpr Capability kGeneralCaps[] = {
    {{4, 23, 16}, kMaxLogSendBlocks},  // log_max_qp_sz
    {{4, 4, 0}, 17},                   // log_max_qp
    {{6, 23, 16}, kMaxLogCqEntries},   // log_max_cq_sz
    {{6, 4, 0}, 17},                   // log_max_cq
    {{7, 23, 23}, 1},                  // relaxed_ordering_write
    {{7, 21, 16}, 24},                 // log_max_mkey
    {{9, 21, 16}, kReadDepth},         // log_max_ra_req_dc
    {{9, 5, 0}, kReadDepth},           // log_max_ra_res_dc
    {{10, 21, 16}, kReadDepth},        // log_max_ra_req_qp
    {{10, 5, 0}, kReadDepth},          // log_max_ra_res_qp
    {{13, 9, 8}, 0},                   // port_type: InfiniBand
    {{13, 7, 0}, 1},                   // num_ports
    {{14, 28, 24}, 30},                // log_max_msg
    {{15, 3, 0}, 1},                   // cqe_version
    {{16, 31, 31}, 1},                 // compact_address_vector
    {{16, 5, 5}, 1},                   // dct
    {{16, 1, 1}, 1},                   // atomic
    {{17, 31, 31}, 1},                 // cq_oi
    {{17, 19, 19}, 1},                 // cd: WAIT
    {{17, 0, 0}, 1},                   // rc
    {{18, 31, 31}, 1},                 // uar_4k
    {{19, 31, 31}, 1},                 // bf
    {{19, 20, 16}, 9},                 // log_bf_reg_size
    {{20, 15, 0}, 1024},               // max_wqe_sz_sq
    {{21, 15, 0}, 512},                // max_wqe_sz_rq
    {{22, 15, 0}, 1024},               // max_wqe_sz_sq_dc
    {{25, 20, 16}, 16},                // log_max_pd
    {{41, 31, 0}, 1},                  // num_of_uars_per_page
};
constexpr prm::Field kVhcaId{1, 15, 0};

constexpr Capability kAtomicCaps[] = {
    {{2, 31, 30}, 1},   // atomic_req_8B_endianness_mode: host order
    {{2, 25, 25}, 1},   // supported_atomic_req_8B_endianness_mode_1
    {{4, 15, 0}, 0xf},  // atomic_operations: swap, add, and both masked
    {{5, 15, 0}, 0xc},  // atomic_size_qp: 4 and 8 bytes
    {{6, 15, 0}, 0xc},  // atomic_size_dc
};

}  // namespace

void query_hca_cap(const Command& command) {
  require_lengths(command, prm::kHeaderBytes, prm::kQueryHcaCapOutBytes);
  prm::Writer capability = command.out.at(prm::cap::kCapability);
  // Current and maximum values (bit 0) are the same: nothing here can be enabled or disabled.
  uint32_t type = command.in.get(prm::kOpMod) >> 1;
  if (type > prm::cap::kRoce) fail(CommandStatus::kBadParameter, prm::Syndrome::kCapabilityType);
  if (type == prm::cap::kGeneral) {
    for (const Capability& cap : kGeneralCaps) capability.set(cap.field, cap.value);
    capability.set(kVhcaId, command.context.nic().lid());
  }
  if (type == prm::cap::kAtomic)
    for (const Capability& cap : kAtomicCaps) capability.set(cap.field, cap.value);
}

}  // namespace peal::softnic::abi::devx
