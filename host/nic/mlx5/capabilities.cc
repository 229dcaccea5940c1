// SPDX-License-Identifier: Apache-2.0
//
// QUERY_HCA_CAP by type, QUERY_LAG, and the list of what must be in their answers.
#include "host/nic/capabilities.h"

#include <cerrno>
#include <memory>

#include "device/mlx5/wqe.h"
#include "host/base/error.h"
#include "host/nic/mlx5/calls.h"
#include "host/nic/mlx5/prm.h"

namespace peal::nic {
namespace {

using CapabilityPage = prm::Mailbox<prm::kQueryHcaCapOut>;

using Question = prm::Mailbox<prm::kShortIn>;

/// True when the firmware has answered.
template <class Answer>
bool ask(const VerbsLibrary& library, ibv_context* context, const Question& in, Answer& out) {
  return library.model->devx_general_cmd(context, in.data(), in.bytes(), out.data(), out.bytes()) ==
         0;
}

CapabilityPage query(const VerbsLibrary& library, ibv_context* context, uint32_t type) {
  Question in(prm::FirmwareCommand::kQueryHcaCap);
  in.set(prm::kOpMod, type << 1 | 1);  // 1: values in force, not the largest possible
  CapabilityPage out;
  if (!ask(library, context, in, out)) refuse_command(in.data(), out.data(), errno);
  return out;
}

/// A card of two ports says how many it could bond, not that it does. Of a function that sees only
/// the bond (kLagPortAlways) nobody asks; a firmware that does not know the question has none.
bool bonded(const VerbsLibrary& library, ibv_context* context, const CapabilityPage& page) {
  if (page.value(prm::cap::kLagPorts) < 2) return false;
  if (page.value(prm::cap::kLagPortAlways) != 0) return true;
  prm::Mailbox<prm::kShortOut> out;
  return ask(library, context, Question(prm::FirmwareCommand::kQueryLag), out) &&
         out.value(prm::kLagState) != 0;
}

}  // namespace

Capabilities query_capabilities(const VerbsLibrary& library, ibv_context* context) {
  namespace cap = prm::cap;
  namespace atomic = prm::atomic_cap;
  const CapabilityPage page = query(library, context, prm::kGeneralCapabilities);
  Capabilities capabilities;
  capabilities.cqe_version = page.value(cap::kCqeVersion);
  capabilities.reliable_connection = page.value(cap::kReliableConnection) != 0;
  capabilities.atomics = page.value(cap::kAtomic) != 0;
  capabilities.cq_overrun_ignore = page.value(cap::kCqOverrunIgnore) != 0;
  capabilities.log_max_queue_blocks = page.value(cap::kLogMaxQpSize);
  capabilities.log_max_qp = page.value(cap::kLogMaxQp);
  capabilities.log_max_cq = page.value(cap::kLogMaxCq);
  capabilities.log_max_message = page.value(cap::kLogMaxMessage);
  capabilities.log_max_responder_depth = page.value(cap::kLogMaxResponderDepth);
  capabilities.log_max_initiator_depth = page.value(cap::kLogMaxInitiatorDepth);
  capabilities.max_wqe_bytes = page.value(cap::kMaxWqeBytes);
  capabilities.ticks_only = page.value(cap::kTimestampFormats) == prm::kTicksOnly;
  if (page.value(cap::kLagPortInRtr) != 0 && bonded(library, context, page)) {
    capabilities.bonded_ports = page.value(cap::kLagPorts);
    capabilities.lag_port_in_rts = page.value(cap::kLagPortInRts) != 0;
  }
  capabilities.relaxed_only = page.value(cap::kRelaxedOnly) != 0;
  capabilities.takes_any_order = page.value(cap::kOooWrites) != 0;
  capabilities.places_all_out_of_order = page.value(cap::kOooAll) != 0;
  capabilities.tells_ooo_sls = page.value(cap::kOooSlMask) != 0;
  if (page.value(cap::kGeneral2) != 0) {
    const CapabilityPage page_2 = query(library, context, prm::kGeneralCapabilities2);
    capabilities.forces_order = page_2.value(prm::cap_2::kOrderForce) != 0;
  }
  if (capabilities.atomics) {  // else the NIC may refuse the second question
    const CapabilityPage atomics = query(library, context, prm::kAtomicCapabilities);
    capabilities.atomic_host_endian = atomics.value(atomic::kEndiannessMode) == 1;
    capabilities.atomic_operations = atomics.value(atomic::kOperations);
    capabilities.atomic_sizes = atomics.value(atomic::kSizes);
    capabilities.pci_atomics =
        ((atomics.value(atomic::kPciFetchAdd) | atomics.value(atomic::kPciCompareSwap)) & 3) != 0;
  }
  if (page.value(cap::kRoce) != 0) {
    const CapabilityPage roce = query(library, context, prm::kRoceCapabilities);
    capabilities.ticks_only = roce.value(prm::roce_cap::kTimestampFormats) == prm::kTicksOnly;
    const uint32_t low = roce.value(prm::roce_cap::kMinUdpPort);
    const uint32_t high = roce.value(prm::roce_cap::kMaxUdpPort);
    if (low != 0 && low <= high) {
      capabilities.min_udp_port = static_cast<uint16_t>(low);
      capabilities.max_udp_port = static_cast<uint16_t>(high);
    }
  }
  return capabilities;
}

std::optional<uint16_t> query_ooo_sl_mask(const VerbsLibrary& library, ibv_context* context,
                                          uint8_t port) {
  Question in(prm::FirmwareCommand::kQueryHcaVportContext);
  in.set(prm::kVportPort, port);
  prm::Mailbox<prm::kQueryHcaVportContextOut> out;
  if (!ask(library, context, in, out)) return std::nullopt;
  return static_cast<uint16_t>(out.value(prm::kVportOooSlMask));
}

uint8_t counter_set_of(const VerbsLibrary& library, ibv_context* context, uint8_t port) {
  constexpr uint8_t kNone = 0;
  const auto& ibv = library.ibv;
  if (library.model->devx_qp_query == nullptr) return kNone;
  const std::unique_ptr<ibv_pd, decltype(ibv.dealloc_pd)> pd(ibv.alloc_pd(context), ibv.dealloc_pd);
  if (!pd) return kNone;
  const std::unique_ptr<ibv_cq, decltype(ibv.destroy_cq)> cq(
      ibv.create_cq(context, 1, nullptr, nullptr, 0), ibv.destroy_cq);
  if (!cq) return kNone;
  ibv_qp_init_attr init{};
  init.send_cq = init.recv_cq = cq.get();
  init.qp_type = IBV_QPT_RC;
  init.cap = {.max_send_wr = 1,
              .max_recv_wr = 1,
              .max_send_sge = 1,
              .max_recv_sge = 1,
              .max_inline_data = 0};
  const std::unique_ptr<ibv_qp, decltype(ibv.destroy_qp)> qp(ibv.create_qp(pd.get(), &init),
                                                             ibv.destroy_qp);
  if (!qp) return kNone;
  // Linux names the set on the way to init.
  ibv_qp_attr attributes{};
  attributes.qp_state = IBV_QPS_INIT;
  attributes.port_num = port;
  constexpr int kMask = IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS;
  if (ibv.modify_qp(qp.get(), &attributes, kMask) != 0) return kNone;
  const prm::Mailbox<prm::kShortIn> in(prm::FirmwareCommand::kQueryQp, qp->qp_num);
  prm::Mailbox<prm::kQueryQpOut> out;
  if (library.model->devx_qp_query(qp.get(), in.data(), in.bytes(), out.data(), out.bytes()) != 0) {
    return kNone;
  }
  return static_cast<uint8_t>(out.value(prm::qpc::kCounterSet));
}

void require(const Capabilities& capabilities, const std::string& device) {
  constexpr uint32_t kAllFourOperations = 0xf;
  constexpr uint32_t kFourAndEightBytes = 1u << 2 | 1u << 3;
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
  need(capabilities.max_wqe_bytes >= mlx5::kLongestWqeBytes,
       "work queue entries of 432 bytes (max_wqe_sz_sq)");
  if (!lacks.empty()) {
    fail(ErrorCode::kUnsupported,
         "{} cannot be driven from a kernel, it lacks: {}; choose another NIC by PEAL_HCA, or the "
         "software NIC by PEAL_IBVERBS and PEAL_MLX5",
         device, lacks);
  }
}

}  // namespace peal::nic
