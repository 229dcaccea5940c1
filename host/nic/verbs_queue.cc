// SPDX-License-Identifier: Apache-2.0
//
// ibv_post_send and ibv_poll_cq are inline functions of the header: they go through the device
// context, and so to whichever library opened it.
#include "host/nic/verbs_queue.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <iterator>

#include "host/base/error.h"
#include "host/nic/address.h"

namespace peal::nic {
namespace {

/// The number of requests that the queue gets: `depth`, or as many as the NIC can.
uint32_t granted(const Device& device, uint32_t depth) {
  return std::min({depth, device.limits().requests, device.limits().completions});
}

ibv_cq* create_cq(const Device& device, uint32_t entries) {
  errno = 0;
  ibv_cq* const cq = device.library().ibv.create_cq(device.context(), static_cast<int>(entries),
                                                    nullptr, nullptr, 0);
  if (cq == nullptr) {
    fail_errno(errno, fmt::format("ibv_create_cq({}, {} entries)", device.name(), entries));
  }
  return cq;
}

/// Lowers `requests` to what the NIC takes: its max_qp_wr is for requests without inline data, and
/// how much less is possible with it no call tells.
ibv_qp* create_qp(const Device& device, const ProtectionDomain& domain, ibv_cq* cq,
                  uint32_t& requests) {
  constexpr uint32_t kFewest = 64;
  for (;; requests /= 2) {
    ibv_qp_init_attr init{};
    init.send_cq = init.recv_cq = cq;
    init.qp_type = IBV_QPT_RC;
    init.cap.max_send_wr = requests;
    init.cap.max_send_sge = 1;
    init.cap.max_inline_data = VerbsQueue::kInlineBytes;
    errno = 0;
    ibv_qp* const qp = device.library().ibv.create_qp(domain.handle(), &init);
    if (qp != nullptr) return qp;
    if ((errno == EINVAL || errno == ENOMEM) && requests / 2 >= kFewest) continue;
    fail_errno(errno, fmt::format("ibv_create_qp({}, {} requests, {} bytes inline)", device.name(),
                                  requests, VerbsQueue::kInlineBytes));
  }
}

ibv_wr_opcode opcode_of(SendRequest::Kind kind) {
  constexpr ibv_wr_opcode kOpcodes[] = {IBV_WR_RDMA_WRITE, IBV_WR_RDMA_READ,
                                        IBV_WR_ATOMIC_CMP_AND_SWP, IBV_WR_ATOMIC_FETCH_AND_ADD};
  return kOpcodes[static_cast<size_t>(kind)];
}

bool is_atomic(SendRequest::Kind kind) {
  return kind == SendRequest::Kind::kCompareSwap || kind == SendRequest::Kind::kFetchAdd;
}

unsigned flags_of(const SendRequest& request) {
  unsigned flags = 0;
  if (request.signalled) flags |= IBV_SEND_SIGNALED;
  if (request.fence) flags |= IBV_SEND_FENCE;
  if (request.in_place) flags |= IBV_SEND_INLINE;
  return flags;
}

void fill_in(ibv_send_wr& wr, ibv_sge& sge, const SendRequest& request) {
  sge = {.addr = request.local, .length = request.bytes, .lkey = request.lkey};
  wr = {};
  wr.wr_id = request.id;
  wr.sg_list = &sge;
  wr.num_sge = request.bytes == 0 ? 0 : 1;
  wr.opcode = opcode_of(request.kind);
  wr.send_flags = flags_of(request);
  if (is_atomic(request.kind)) {
    const bool compares = request.kind == SendRequest::Kind::kCompareSwap;
    wr.wr.atomic.remote_addr = request.remote;
    wr.wr.atomic.rkey = request.rkey;
    wr.wr.atomic.compare_add = compares ? request.compare : request.swap_or_add;
    wr.wr.atomic.swap = compares ? request.swap_or_add : 0;
  } else {
    wr.wr.rdma.remote_addr = request.remote;
    wr.wr.rdma.rkey = request.rkey;
  }
}

QueueState state_of(ibv_qp_state state) {
  constexpr QueueState kStates[] = {// in the order of ibv_qp_state
                                    QueueState::kReset,          QueueState::kInit,
                                    QueueState::kReadyToReceive, QueueState::kReadyToSend,
                                    QueueState::kSendDrained,    QueueState::kSendError};
  return state < std::size(kStates) ? kStates[state] : QueueState::kError;
}

}  // namespace

VerbsQueue::VerbsQueue(const Device& device, const ProtectionDomain& domain, uint32_t depth)
    : device_(device),
      capacity_(granted(device, depth)),
      cq_(create_cq(device, capacity_), {device.library().ibv.destroy_cq}),
      qp_(create_qp(device, domain, cq_.get(), capacity_), {device.library().ibv.destroy_qp}) {}

void VerbsQueue::modify(ibv_qp_attr& attributes, int mask, const char* to) const {
  // With an address, the kernel looks for the next hop.
  const int error = asked_twice([&] {
    const int answer = device_.library().ibv.modify_qp(qp_.get(), &attributes, mask | IBV_QP_STATE);
    return answer >= 0 ? answer : errno;
  });
  if (error == 0) return;
  fail_errno(error, fmt::format("ibv_modify_qp({:#x} of {}, to {})", number(), device_.name(), to));
}

void VerbsQueue::connect(const RemoteQueue& remote, uint32_t psn) {
  const Path& path = remote.path;
  ibv_qp_attr init{};
  init.qp_state = IBV_QPS_INIT;
  init.port_num = path.port;
  init.pkey_index = device_.partition().index;
  init.qp_access_flags =
      IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC;
  modify(init, IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS, "init");

  ibv_qp_attr rtr{};
  rtr.qp_state = IBV_QPS_RTR;
  rtr.path_mtu = static_cast<ibv_mtu>(path.mtu);
  rtr.dest_qp_num = remote.qpn;
  rtr.rq_psn = remote.psn;
  rtr.max_dest_rd_atomic = static_cast<uint8_t>(1u << path.log_responder_depth);
  rtr.min_rnr_timer = settings_.min_rnr_timer;
  rtr.ah_attr = address_of(path);
  modify(rtr,
         IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC |
             IBV_QP_MIN_RNR_TIMER,
         "ready to receive");

  ibv_qp_attr rts{};
  rts.qp_state = IBV_QPS_RTS;
  rts.sq_psn = psn;
  rts.timeout = path.ack_timeout;
  // Seven is for ever in Linux' rxe: a peer that is gone would never become an error.
  rts.retry_cnt = std::min(path.retry_count, uint8_t{6});
  rts.rnr_retry = settings_.rnr_retry;
  rts.max_rd_atomic = static_cast<uint8_t>(1u << path.log_initiator_depth);
  modify(rts,
         IBV_QP_SQ_PSN | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
             IBV_QP_MAX_QP_RD_ATOMIC,
         "ready to send");
}

void VerbsQueue::to_error() {
  ibv_qp_attr attributes{};
  attributes.qp_state = IBV_QPS_ERR;
  device_.library().ibv.modify_qp(qp_.get(), &attributes, IBV_QP_STATE);
}

void VerbsQueue::to_reset() {
  ibv_qp_attr attributes{};
  attributes.qp_state = IBV_QPS_RESET;
  modify(attributes, 0, "reset");
  std::array<SendCompletion, kBatch> stale;
  while (poll(stale) != 0) {
  }
}

QueueState VerbsQueue::state() const {
  ibv_qp_attr attributes{};
  ibv_qp_init_attr init{};
  const int error = device_.library().ibv.query_qp(qp_.get(), &attributes, IBV_QP_STATE, &init);
  if (error != 0) {
    fail_errno(error, fmt::format("ibv_query_qp({:#x} of {})", number(), device_.name()));
  }
  return state_of(attributes.qp_state);
}

size_t VerbsQueue::post(std::span<const SendRequest> requests, int* error) {
  const size_t count = std::min(requests.size(), kBatch);
  if (count == 0) return 0;
  std::array<ibv_send_wr, kBatch> chain;
  std::array<ibv_sge, kBatch> list;
  for (size_t i = 0; i < count; ++i) {
    fill_in(chain[i], list[i], requests[i]);
    chain[i].next = i + 1 < count ? &chain[i + 1] : nullptr;
  }
  ibv_send_wr* bad = nullptr;
  const int result = ibv_post_send(qp_.get(), chain.data(), &bad);
  if (result == 0) return count;
  *error = result > 0 ? result : errno;
  return bad == nullptr ? 0 : static_cast<size_t>(bad - chain.data());
}

size_t VerbsQueue::poll(std::span<SendCompletion> completions) {
  std::array<ibv_wc, kBatch> taken;
  const size_t most = std::min(completions.size(), kBatch);
  const int count = ibv_poll_cq(cq_.get(), static_cast<int>(most), taken.data());
  for (int i = 0; i < count; ++i) {
    const ibv_wc& wc = taken[static_cast<size_t>(i)];
    completions[static_cast<size_t>(i)] = {.id = wc.wr_id,
                                           .syndrome = syndrome_of(wc.status),
                                           .vendor_syndrome = static_cast<uint8_t>(wc.vendor_err)};
  }
  return count > 0 ? static_cast<size_t>(count) : 0;
}

}  // namespace peal::nic
