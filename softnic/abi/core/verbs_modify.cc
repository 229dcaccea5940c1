// SPDX-License-Identifier: Apache-2.0
//
// ibv_modify_qp and ibv_query_qp: attribute masks, their rules, and the NIC's attributes.
//
// For each transition a set of attributes is required; the call names what it sets by mask bits,
// and a missing bit is EINVAL before the NIC is asked.
#include <bit>

#include "softnic/abi/core/verbs_queues.h"

namespace peal::softnic::abi {

uint8_t source_gid_of(const SoftwareNic& nic, const ibv_ah_attr& address) {
  const size_t index = address.is_global != 0 ? address.grh.sgid_index : 0;
  const bool used = index < nic.gids().size() && nic.gids()[index].used;
  if (nic.device().ethernet && (address.is_global == 0 || !used)) refuse(EINVAL);
  return static_cast<uint8_t>(index);
}

void check_identity(const PresentedDevice& device, const ibv_qp_attr& attr, int mask) {
  if ((mask & IBV_QP_PORT) != 0 && (attr.port_num < 1 || attr.port_num > device.ports))
    refuse(EINVAL);
  if ((mask & IBV_QP_PKEY_INDEX) != 0 && device.pkey(attr.pkey_index) == 0) refuse(EINVAL);
  if ((mask & IBV_QP_PATH_MTU) != 0 &&
      (attr.path_mtu < IBV_MTU_256 || attr.path_mtu > static_cast<int>(device.mtu)))
    refuse(EINVAL);
  constexpr int kNotOffered = IBV_QP_QKEY | IBV_QP_ALT_PATH | IBV_QP_CAP | IBV_QP_RATE_LIMIT;
  if ((mask & kNotOffered) != 0) refuse(EINVAL);
}

uint8_t limited(uint8_t value, uint8_t limit) {
  if (value > limit) refuse(EINVAL);
  return value;
}

namespace {

constexpr int kReadyToReceiveRequired = IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
                                        IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC |
                                        IBV_QP_MIN_RNR_TIMER;
constexpr int kReadyToSendRequired =
    IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC;

int required_mask(Service service, QpState to) {
  bool rc = service == Service::kReliable;
  if (service == Service::kDatagram) {
    if (to == QpState::kInit) return kInitRequired | IBV_QP_QKEY;
    return to == QpState::kReadyToSend ? int{IBV_QP_SQ_PSN} : 0;
  }
  switch (to) {
    case QpState::kInit:
      return kInitRequired | (rc ? int{IBV_QP_ACCESS_FLAGS} : 0);
    case QpState::kReadyToReceive:
      return rc ? kReadyToReceiveRequired : int{IBV_QP_PATH_MTU};
    case QpState::kReadyToSend:
      return kReadyToSendRequired | (rc ? int{IBV_QP_SQ_PSN} : 0);
    default:
      return 0;
  }
}

constexpr Row<ibv_qp_state, QpState> kStates[] = {
    {IBV_QPS_RESET, QpState::kReset},        {IBV_QPS_INIT, QpState::kInit},
    {IBV_QPS_RTR, QpState::kReadyToReceive}, {IBV_QPS_RTS, QpState::kReadyToSend},
    {IBV_QPS_ERR, QpState::kError},          {IBV_QPS_SQE, QpState::kSqError},
    {IBV_QPS_SQD, QpState::kSqDrained},
};

ibv_qp_state verbs_state(QpState state) { return left_of(kStates, state, IBV_QPS_UNKNOWN); }

QpState nic_state(ibv_qp_state state) {
  const QpState found = right_of(kStates, state, QpState::kSqDrained);
  // The send queue cannot be drained on request.
  if (found == QpState::kSqDrained || found == QpState::kSqError) refuse(EINVAL);
  return found;
}

/// Smallest n with 1 << n at least `depth`.
uint8_t log_depth(uint8_t depth, uint32_t log_most) {
  if (depth > (1u << log_most)) refuse(EINVAL);
  return static_cast<uint8_t>(std::countr_zero(std::bit_ceil(depth == 0 ? 1u : depth)));
}

void set_address(const SoftwareNic& nic, const ibv_ah_attr& address, QueuePairAttributes* to) {
  const AddressPath before = to->path;
  to->path = path_of(nic, address);
  to->path.port = before.port;
  to->path.pkey_index = before.pkey_index;
  const PacketPath route = nic.router().route(to->path);
  to->remote_lid = route.lid;
  to->network = route.network;
  to->in_order = nic.device().orders(to->path.service_level);
}

void set_attributes(const VerbsQueuePair& qp, const ibv_qp_attr& attr, int mask,
                    QueuePairAttributes* to) {
  const SoftwareNic& nic = qp.nic();
  const PresentedDevice& device = nic.device();
  const bool datagrams = qp.config.service == Service::kDatagram;
  if (datagrams && (mask & IBV_QP_AV) != 0) refuse(EINVAL);
  check_identity(device, attr, datagrams ? mask & ~IBV_QP_QKEY : mask);
  if ((mask & IBV_QP_QKEY) != 0) to->qkey = attr.qkey;
  if ((mask & IBV_QP_PORT) != 0) to->path.port = attr.port_num;
  if ((mask & IBV_QP_PKEY_INDEX) != 0) {
    to->path.pkey_index = attr.pkey_index;
    to->pkey = device.pkey(attr.pkey_index);
  }
  if ((mask & IBV_QP_ACCESS_FLAGS) != 0) {
    to->access = attr.qp_access_flags & (kRemoteWrite | kRemoteRead | kRemoteAtomic);
    to->atomic_mode = (to->access & kRemoteAtomic) != 0 ? 1 : 0;
    if (to->atomic_mode != 0 && device.refuses_any(kRefuseAtomics)) refuse(EOPNOTSUPP);
  }
  if ((mask & IBV_QP_AV) != 0 && qp.config.service == Service::kReliable) {
    set_address(nic, attr.ah_attr, to);
  } else if ((mask & IBV_QP_AV) != 0) {
    to->path.source_gid = source_gid_of(nic, attr.ah_attr);
  }
  if ((mask & IBV_QP_PATH_MTU) != 0) to->mtu = static_cast<uint8_t>(attr.path_mtu);
  if ((mask & IBV_QP_DEST_QPN) != 0) to->remote_qpn = attr.dest_qp_num & 0xffffff;
  if ((mask & IBV_QP_RQ_PSN) != 0) to->receive_psn = attr.rq_psn & 0xffffff;
  if ((mask & IBV_QP_SQ_PSN) != 0) to->send_psn = attr.sq_psn & 0xffffff;
  if ((mask & IBV_QP_MAX_DEST_RD_ATOMIC) != 0) {
    to->log_responder_depth = log_depth(attr.max_dest_rd_atomic, device.log_responder_depth);
    to->responder_depth_valid = attr.max_dest_rd_atomic != 0;
  }
  if ((mask & IBV_QP_MAX_QP_RD_ATOMIC) != 0)
    to->log_initiator_depth = log_depth(attr.max_rd_atomic, device.log_initiator_depth);
  if ((mask & IBV_QP_MIN_RNR_TIMER) != 0) to->min_rnr_timer = limited(attr.min_rnr_timer, 31);
  if ((mask & IBV_QP_TIMEOUT) != 0) to->ack_timeout = limited(attr.timeout, 31);
  if ((mask & IBV_QP_RETRY_CNT) != 0) to->retry_count = limited(attr.retry_cnt, 7);
  if ((mask & IBV_QP_RNR_RETRY) != 0) to->rnr_retry = limited(attr.rnr_retry, 7);
}

}  // namespace

void VerbsQueuePair::modify(const ibv_qp_attr& attr, int mask) {
  QueuePairAttributes to;
  require(nic().query_qp(number, &to));
  QpState from = to.state;
  if ((mask & IBV_QP_CUR_STATE) != 0 && nic_state(attr.cur_qp_state) != from) refuse(EINVAL);
  QpState target = (mask & IBV_QP_STATE) != 0 ? nic_state(attr.qp_state) : from;
  int required = target == from ? 0 : required_mask(config.service, target);
  if ((mask & required) != required) refuse(EINVAL);
  set_attributes(*this, attr, mask, &to);
  to.state = target;
  to.log_max_message = 30;
  if (config.service != Service::kReliable)
    to.network = nic().router().network_of(to.path.source_gid);
  if (config.service == Service::kDatagram) {
    to.mtu = nic().device().mtu;
    to.log_max_message = static_cast<uint8_t>(7 + to.mtu);  // one packet
  }
  require(nic().modify_qp(number, from, to));
  set_state(verbs_state(target));
  if (target == QpState::kReset) forget_requests();
}

ibv_qp_attr VerbsQueuePair::query() {
  QueuePairAttributes now;
  require(nic().query_qp(number, &now));
  ibv_qp_attr attr = {};
  attr.qp_state = attr.cur_qp_state = verbs_state(now.state);
  attr.path_mtu = static_cast<ibv_mtu>(now.mtu == 0 ? 1 : now.mtu);
  attr.path_mig_state = IBV_MIG_MIGRATED;
  attr.rq_psn = now.receive_psn;
  attr.sq_psn = now.send_psn;
  attr.qkey = now.qkey;
  attr.dest_qp_num = now.remote_qpn;
  attr.qp_access_flags = now.access;
  attr.ah_attr = address_of(now.path, nic().device().ethernet);
  attr.port_num = now.path.port;
  attr.pkey_index = now.path.pkey_index;
  attr.max_rd_atomic = static_cast<uint8_t>(1u << now.log_initiator_depth);
  attr.max_dest_rd_atomic = static_cast<uint8_t>(1u << now.log_responder_depth);
  attr.min_rnr_timer = now.min_rnr_timer;
  attr.timeout = now.ack_timeout;
  attr.retry_cnt = now.retry_count;
  attr.rnr_retry = now.rnr_retry;
  return attr;
}

}  // namespace peal::softnic::abi
