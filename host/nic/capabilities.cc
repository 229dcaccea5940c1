// SPDX-License-Identifier: Apache-2.0
//
// QUERY_HCA_CAP by type, QUERY_LAG, and the list of what must be in their answers.
#include "host/nic/capabilities.h"

#include <cerrno>

#include "host/base/error.h"
#include "host/nic/command.h"
#include "host/nic/mlx5_prm.h"

namespace peal::nic {
namespace {

using CapabilityPage = prm::Mailbox<prm::kQueryHcaCapOut>;

CapabilityPage query(const VerbsLibrary& library, ibv_context* context, uint32_t type) {
  prm::Mailbox<prm::kShortIn> in;
  in.set(prm::kOpcode, static_cast<uint32_t>(prm::Command::kQueryHcaCap));
  in.set(prm::kOpMod, type << 1 | 1);  // 1: values in force, not the largest possible
  CapabilityPage out;
  if (library.mlx5dv.devx_general_cmd(context, in.data(), in.bytes(), out.data(), out.bytes())) {
    refuse_command(in.data(), out.data(), errno);
  }
  return out;
}

uint32_t general(const CapabilityPage& page, prm::Field field) {
  return page.value(prm::at(field, prm::kCapability));
}

/// A card of two ports says how many it could bond, not that it does. Of a function that sees only
/// the bond (kLagPortAlways) nobody asks; a firmware that does not know the question has none.
bool bonded(const VerbsLibrary& library, ibv_context* context, const CapabilityPage& page) {
  if (general(page, prm::cap::kLagPorts) < 2) return false;
  if (general(page, prm::cap::kLagPortAlways) != 0) return true;
  prm::Mailbox<prm::kShortIn> in;
  in.set(prm::kOpcode, static_cast<uint32_t>(prm::Command::kQueryLag));
  prm::Mailbox<prm::kShortOut> out;
  const int error =
      library.mlx5dv.devx_general_cmd(context, in.data(), in.bytes(), out.data(), out.bytes());
  return error == 0 && out.value(prm::kLagState) != 0;
}

}  // namespace

Capabilities query_capabilities(const VerbsLibrary& library, ibv_context* context) {
  namespace cap = prm::cap;
  namespace atomic = prm::atomic_cap;
  const CapabilityPage page = query(library, context, prm::kGeneralCapabilities);
  Capabilities capabilities;
  capabilities.cqe_version = general(page, cap::kCqeVersion);
  capabilities.reliable_connection = general(page, cap::kReliableConnection) != 0;
  capabilities.atomics = general(page, cap::kAtomic) != 0;
  capabilities.cq_overrun_ignore = general(page, cap::kCqOverrunIgnore) != 0;
  capabilities.log_max_queue_blocks = general(page, cap::kLogMaxQpSize);
  capabilities.log_max_qp = general(page, cap::kLogMaxQp);
  capabilities.log_max_cq = general(page, cap::kLogMaxCq);
  capabilities.log_max_message = general(page, cap::kLogMaxMessage);
  capabilities.log_max_responder_depth = general(page, cap::kLogMaxResponderDepth);
  capabilities.log_max_initiator_depth = general(page, cap::kLogMaxInitiatorDepth);
  capabilities.max_wqe_bytes = general(page, cap::kMaxWqeBytes);
  capabilities.ticks_only = general(page, cap::kTimestampFormats) == prm::kTicksOnly;
  if (general(page, cap::kLagPortInRtr) != 0 && bonded(library, context, page)) {
    capabilities.bonded_ports = general(page, cap::kLagPorts);
    capabilities.lag_port_in_rts = general(page, cap::kLagPortInRts) != 0;
  }
  capabilities.tells_ooo_sls = general(page, cap::kOooSlMask) != 0;
  if (general(page, cap::kGeneral2) != 0) {
    const CapabilityPage page_2 = query(library, context, prm::kGeneralCapabilities2);
    capabilities.forces_order = general(page_2, prm::cap_2::kOrderForce) != 0;
  }
  if (capabilities.atomics) {  // else the NIC may refuse the second question
    const CapabilityPage atomics = query(library, context, prm::kAtomicCapabilities);
    capabilities.atomic_host_endian = general(atomics, atomic::kEndiannessMode) == 1;
    capabilities.atomic_operations = general(atomics, atomic::kOperations);
    capabilities.atomic_sizes = general(atomics, atomic::kSizes);
  }
  if (general(page, cap::kRoce) != 0) {
    const CapabilityPage roce = query(library, context, prm::kRoceCapabilities);
    capabilities.ticks_only = general(roce, prm::roce_cap::kTimestampFormats) == prm::kTicksOnly;
    const uint32_t low = general(roce, prm::roce_cap::kMinUdpPort);
    const uint32_t high = general(roce, prm::roce_cap::kMaxUdpPort);
    if (low != 0 && low <= high) {
      capabilities.min_udp_port = static_cast<uint16_t>(low);
      capabilities.max_udp_port = static_cast<uint16_t>(high);
    }
  }
  return capabilities;
}

std::optional<uint16_t> query_ooo_sl_mask(const VerbsLibrary& library, ibv_context* context,
                                          uint8_t port) {
  prm::Mailbox<prm::kShortIn> in;
  in.set(prm::kOpcode, static_cast<uint32_t>(prm::Command::kQueryHcaVportContext));
  in.set(prm::kVportPort, port);
  prm::Mailbox<prm::kQueryHcaVportContextOut> out;
  if (library.mlx5dv.devx_general_cmd(context, in.data(), in.bytes(), out.data(), out.bytes())) {
    return std::nullopt;
  }
  return static_cast<uint16_t>(out.value(prm::kVportOooSlMask));
}

void require(const Capabilities& capabilities, const std::string& device) {
  constexpr uint32_t kAllFourOperations = 0xf;
  constexpr uint32_t kFourAndEightBytes = 1u << 2 | 1u << 3;
  constexpr uint32_t kWqeBytes = 128;  // the longest entry peal composes: two blocks
  std::string lacks;
  const auto need = [&lacks](bool there, const char* what) {
    if (!there) lacks += (lacks.empty() ? "" : ", ") + std::string(what);
  };
  need(capabilities.cqe_version == 1, "completion format 1 (cqe_version)");
  need(capabilities.reliable_connection, "reliable connections (rc)");
  need(capabilities.cq_overrun_ignore, "completion queues that ignore overruns (cq_oi)");
  need(capabilities.atomics, "atomics (atomic)");
  if (capabilities.atomics) {
    need((capabilities.atomic_operations & kAllFourOperations) == kAllFourOperations,
         "compare-swap and fetch-add, plain and masked (atomic_operations)");
    need((capabilities.atomic_sizes & kFourAndEightBytes) == kFourAndEightBytes,
         "atomics on 4 and 8 bytes (atomic_size_qp)");
    need(capabilities.atomic_host_endian,
         "atomic results in host byte order (atomic_req_8B_endianness_mode)");
  }
  need(capabilities.max_wqe_bytes >= kWqeBytes, "work queue entries of 128 bytes (max_wqe_sz_sq)");
  if (!lacks.empty()) {
    fail(ErrorCode::kUnsupported,
         "{} cannot be driven from a kernel, it lacks: {}; choose another NIC by PEAL_HCA, or the "
         "software NIC by PEAL_IBVERBS and PEAL_MLX5",
         device, lacks);
  }
}

}  // namespace peal::nic
