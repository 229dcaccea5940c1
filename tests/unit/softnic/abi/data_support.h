// SPDX-License-Identifier: Apache-2.0
//
// What the tests of ibv_post_send, ibv_post_recv and ibv_poll_cq share: memory, two completion
// queues, connected queue pairs, work requests in one line.
//
//   a (sends) -- RC --> b (receives), both of this process; the parameter says by which way
#pragma once

#include <chrono>
#include <initializer_list>
#include <thread>

#include "tests/unit/softnic/abi/support.h"

extern "C" {
int peal_softnic_inject(const char* plan, char* error, size_t bytes);
}

namespace peal::softnic::abi_test {

/// How requests reach the peer: straight to its tables, or as packets of a wire to oneself.
enum class Way { kDirect, kWire };

class SoftnicAbiData : public SoftnicAbi, public ::testing::WithParamInterface<Way> {
 protected:
  static constexpr size_t kBytes = 4 << 20;
  static constexpr int kRights = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE |
                                 IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC;

  void SetUp() override {
    SoftnicAbi::SetUp();
    // Where faults are possible nothing takes the short way; this one is an hour away.
    if (GetParam() == Way::kWire) {
      ASSERT_EQ(peal_softnic_inject("after_ms=3600000 fault=port_down", nullptr, 0), 0);
    }
    buffer = make_pages(kBytes);
    mr = ibv_reg_mr(pd, buffer.get(), kBytes, kRights);
    ASSERT_NE(mr, nullptr);
    cq = ibv_create_cq(context, 100, nullptr, nullptr, 0);
    receive_cq = ibv_create_cq(context, 100, nullptr, nullptr, 0);
    ASSERT_NE(cq, nullptr);
    ASSERT_NE(receive_cq, nullptr);
    a = make_qp();
    b = make_qp();
    ASSERT_NE(a, nullptr);
    ASSERT_NE(b, nullptr);
  }

  static constexpr ibv_qp_cap kCap = {.max_send_wr = 8,
                                      .max_recv_wr = 8,
                                      .max_send_sge = 4,
                                      .max_recv_sge = 4,
                                      .max_inline_data = 100};
  ibv_qp* make_qp(int signal_all = 0) {
    ibv_qp_init_attr init = {};
    init.send_cq = cq;
    init.recv_cq = receive_cq;
    init.cap = kCap;
    init.qp_type = IBV_QPT_RC;
    init.sq_sig_all = signal_all;
    ibv_qp* qp = ibv_create_qp(pd, &init);
    cap = init.cap;
    return qp;
  }
  int to_init(ibv_qp* qp) {
    ibv_qp_attr attr = {};
    attr.qp_state = IBV_QPS_INIT;
    attr.port_num = 1;
    attr.qp_access_flags =
        IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC;
    return ibv_modify_qp(qp, &attr,
                         IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS);
  }
  int to_rtr(ibv_qp* qp, uint32_t peer) {
    ibv_qp_attr attr = {};
    attr.qp_state = IBV_QPS_RTR;
    attr.path_mtu = IBV_MTU_1024;
    attr.dest_qp_num = peer;
    attr.ah_attr.dlid = lid();
    attr.ah_attr.port_num = 1;
    attr.max_dest_rd_atomic = 16;
    attr.min_rnr_timer = 1;
    return ibv_modify_qp(qp, &attr,
                         IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
                             IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER);
  }
  int to_rts(ibv_qp* qp, uint8_t rnr_retry = 7) {
    ibv_qp_attr attr = {};
    attr.qp_state = IBV_QPS_RTS;
    attr.timeout = 14;
    attr.retry_cnt = 7;
    attr.rnr_retry = rnr_retry;
    attr.max_rd_atomic = 16;
    return ibv_modify_qp(qp, &attr,
                         IBV_QP_STATE | IBV_QP_SQ_PSN | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT |
                             IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC);
  }
  void connect(uint8_t rnr_retry = 7) {
    for (auto [qp, peer] : {std::pair(a, b), std::pair(b, a)}) {
      ASSERT_EQ(to_init(qp), 0);
      ASSERT_EQ(to_rtr(qp, peer->qp_num), 0);
      ASSERT_EQ(to_rts(qp, rnr_retry), 0);
    }
  }
  void connect_to_itself(ibv_qp* qp) {
    ASSERT_NE(qp, nullptr);
    ASSERT_EQ(to_init(qp), 0);
    ASSERT_EQ(to_rtr(qp, qp->qp_num), 0);
    ASSERT_EQ(to_rts(qp), 0);
  }
  int to_state(ibv_qp* qp, ibv_qp_state state) {
    ibv_qp_attr attr = {};
    attr.qp_state = state;
    return ibv_modify_qp(qp, &attr, IBV_QP_STATE);
  }

  ibv_sge piece(size_t offset, uint32_t bytes) {
    return {reinterpret_cast<uintptr_t>(buffer.get() + offset), bytes, mr->lkey};
  }
  /// A signalled request about buffer[offset...] at the peer. `list` must outlive the post.
  ibv_send_wr request(ibv_wr_opcode opcode, uint64_t name, std::vector<ibv_sge>& list,
                      size_t remote = 0) {
    ibv_send_wr wr = {};
    wr.wr_id = name;
    wr.sg_list = list.data();
    wr.num_sge = static_cast<int>(list.size());
    wr.opcode = opcode;
    wr.send_flags = IBV_SEND_SIGNALED;
    wr.wr.rdma.remote_addr = reinterpret_cast<uintptr_t>(buffer.get() + remote);
    wr.wr.rdma.rkey = mr->rkey;
    return wr;
  }
  int post(ibv_qp* qp, ibv_send_wr& wr) {
    ibv_send_wr* bad = nullptr;
    const int error = ibv_post_send(qp, &wr, &bad);
    EXPECT_EQ(bad, error == 0 ? nullptr : &wr);
    return error;
  }
  int post_receive(ibv_qp* qp, uint64_t name, std::vector<ibv_sge> list) {
    ibv_recv_wr wr = {};
    wr.wr_id = name;
    wr.sg_list = list.data();
    wr.num_sge = static_cast<int>(list.size());
    ibv_recv_wr* bad = nullptr;
    const int error = ibv_post_recv(qp, &wr, &bad);
    EXPECT_EQ(bad, error == 0 ? nullptr : &wr);
    return error;
  }
  /// The next completion; one that never comes fails the test and has status GENERAL_ERR.
  ibv_wc next(ibv_cq* queue) {
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(30);
    ibv_wc wc = {};
    while (std::chrono::steady_clock::now() < deadline) {
      const int count = ibv_poll_cq(queue, 1, &wc);
      if (count == 1) return wc;
      EXPECT_EQ(count, 0);
      if (count < 0) break;
      std::this_thread::yield();
    }
    ADD_FAILURE() << "no completion";
    wc.status = IBV_WC_GENERAL_ERR;
    return wc;
  }
  /// Waits until CQE `slot` of the first lap is there, without polling it.
  void await_written(ibv_cq* queue, size_t slot) {
    mlx5dv_cq view = {};
    mlx5dv_obj obj = {};
    obj.cq.in = queue;
    obj.cq.out = &view;
    ASSERT_EQ(mlx5dv_init_obj(&obj, MLX5DV_OBJ_CQ), 0);
    const mlx5_cqe64* cqe = static_cast<mlx5_cqe64*>(view.buf) + slot;
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(30);
    while (__atomic_load_n(&cqe->op_own, __ATOMIC_ACQUIRE) >> 4 == MLX5_CQE_INVALID) {
      ASSERT_LT(std::chrono::steady_clock::now(), deadline);
      std::this_thread::yield();
    }
  }
  void fill(size_t offset, size_t bytes, uint8_t seed) {
    for (size_t i = 0; i < bytes; ++i) {
      buffer.get()[offset + i] = static_cast<uint8_t>(seed + 7 * i);
    }
  }
  bool same(size_t left, size_t right, size_t bytes) {
    return std::memcmp(buffer.get() + left, buffer.get() + right, bytes) == 0;
  }

  Pages buffer;
  ibv_mr* mr = nullptr;
  ibv_cq* cq = nullptr;
  ibv_cq* receive_cq = nullptr;
  ibv_qp* a = nullptr;
  ibv_qp* b = nullptr;
  ibv_qp_cap cap = {};
};

inline const auto kBothWays = ::testing::Values(Way::kDirect, Way::kWire);
inline std::string way_name(const ::testing::TestParamInfo<Way>& info) {
  return info.param == Way::kDirect ? "Direct" : "Wire";
}

}  // namespace peal::softnic::abi_test
