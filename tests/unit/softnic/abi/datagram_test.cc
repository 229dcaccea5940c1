// SPDX-License-Identifier: Apache-2.0
//
// Requests that carry their address: datagrams by verbs, and a DC initiator's, between two devices
// of this process.
//
// Hazard: a NIC that finds the receiver by number alone, or delivers every datagram, hides wrong
// addresses and keys, and that a datagram may be lost, until the first run on hardware.
#include "tests/unit/softnic/abi/present_support.h"

namespace peal::softnic::abi_test {
namespace {

constexpr uint32_t kQkey = 0x11223344;
constexpr uint64_t kDcKey = 77;
constexpr uint32_t kGrhBytes = 40;
constexpr uint32_t kRoom = 4096 + kGrhBytes;

/// A device with two CQs.
struct End : OneDevice {
  void open(ibv_context* of) {
    OneDevice::open(of, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
    receive_cq = ibv_create_cq(context, 16, nullptr, nullptr, 0);
  }
  ibv_qp_init_attr_ex wanted(ibv_qp_type type) const {
    ibv_qp_init_attr_ex init = {};
    init.qp_type = type;
    init.send_cq = cq;
    init.recv_cq = receive_cq;
    init.cap = {.max_send_wr = 4,
                .max_recv_wr = 4,
                .max_send_sge = 1,
                .max_recv_sge = 1,
                .max_inline_data = 64};
    init.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
    init.pd = pd;
    return init;
  }
  void make_datagram_qp() {
    ibv_qp_init_attr_ex init = wanted(IBV_QPT_UD);
    init.send_ops_flags = IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_SEND_WITH_IMM;
    qp = ibv_create_qp_ex(context, &init);
    ASSERT_NE(qp, nullptr) << std::strerror(errno);
    ibv_qp_attr attr = {};
    attr.qp_state = IBV_QPS_INIT;
    attr.port_num = 1;
    attr.qkey = kQkey;
    const int to_init = IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT;
    EXPECT_EQ(ibv_modify_qp(qp, &attr, to_init), EINVAL) << "without a Q_Key";
    ASSERT_EQ(ibv_modify_qp(qp, &attr, to_init | IBV_QP_QKEY), 0);
    attr.qp_state = IBV_QPS_RTR;
    ASSERT_EQ(ibv_modify_qp(qp, &attr, IBV_QP_STATE), 0);
    attr.qp_state = IBV_QPS_RTS;
    ASSERT_EQ(ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_SQ_PSN), 0);
  }
  void post_receive(uint64_t name, uint32_t bytes = kRoom) const {
    ibv_sge list = {reinterpret_cast<uintptr_t>(memory.get()), bytes, mr->lkey};
    ibv_recv_wr wr = {};
    wr.wr_id = name;
    wr.sg_list = &list;
    wr.num_sge = 1;
    ibv_recv_wr* bad = nullptr;
    EXPECT_EQ(ibv_post_recv(qp, &wr, &bad), 0);
  }
  /// The way to `to`, with a GRH from GID `index` here to that there.
  ibv_ah* address(const End& to, int index, uint16_t lid = 0) const {
    ibv_ah_attr attr = {};
    attr.port_num = 1;
    attr.dlid = lid;
    attr.is_global = 1;
    attr.grh.sgid_index = static_cast<uint8_t>(index);
    attr.grh.hop_limit = 64;
    const Gid there = to.gid(index);
    std::memcpy(attr.grh.dgid.raw, there.data(), there.size());
    ibv_ah* ah = ibv_create_ah(pd, &attr);
    EXPECT_NE(ah, nullptr) << std::strerror(errno);
    return ah;
  }

  ibv_cq* receive_cq = nullptr;
};

class Datagrams : public Presented {
 protected:
  void open_both(const std::string& text) {
    present(text);
    a.open(open_device(0));
    b.open(open_device(1));
    a.make_datagram_qp();
    b.make_datagram_qp();
  }
  /// Sends `bytes` bytes of a's, from 2 pages on, to b.
  ibv_wc send(ibv_ah* ah, uint32_t bytes, uint32_t qkey = kQkey) {
    return send_to(b, ah, bytes, qkey);
  }
  ibv_wc send_to(const End& target, ibv_ah* ah, uint32_t bytes, uint32_t qkey = kQkey) {
    return send_to_number(target.qp->qp_num, ah, bytes, qkey);
  }
  ibv_wc send_to_number(uint32_t qpn, ibv_ah* ah, uint32_t bytes, uint32_t qkey = kQkey) {
    std::memset(a.memory.get() + 2 * kPage, ++written, bytes);
    ibv_sge list = {reinterpret_cast<uintptr_t>(a.memory.get() + 2 * kPage), bytes, a.mr->lkey};
    ibv_send_wr wr = {};
    wr.sg_list = &list;
    wr.num_sge = 1;
    wr.opcode = IBV_WR_SEND_WITH_IMM;
    wr.imm_data = htobe32(written);
    wr.send_flags = IBV_SEND_SIGNALED;
    wr.wr.ud.ah = ah;
    wr.wr.ud.remote_qpn = qpn;
    wr.wr.ud.remote_qkey = qkey;
    ibv_send_wr* bad = nullptr;
    EXPECT_EQ(ibv_post_send(a.qp, &wr, &bad), 0);
    return next_of(a.cq);
  }
  /// b got the last message, of `bytes` bytes.
  void expect_arrived(uint64_t name, uint32_t bytes) {
    const ibv_wc wc = next_of(b.receive_cq);
    EXPECT_EQ(wc.status, IBV_WC_SUCCESS);
    EXPECT_EQ(wc.wr_id, name);
    EXPECT_EQ(wc.byte_len, bytes + kGrhBytes);
    EXPECT_EQ(wc.src_qp, a.qp->qp_num);
    EXPECT_EQ(be32toh(wc.imm_data), written);
    for (uint32_t i = 0; i < bytes; ++i) {
      ASSERT_EQ(b.memory.get()[kGrhBytes + i], written) << i;
    }
    last = wc;
  }
  bool nothing_came() {
    ibv_wc wc = {};
    return ibv_poll_cq(b.receive_cq, 1, &wc) == 0;
  }

  End a, b, other;
  uint8_t written = 0;
  ibv_wc last = {};
};

TEST_F(Datagrams, ArriveBehindFortyBytes) {
  open_both("devices=2 mtu=4096");
  ibv_ah_attr attr = {};
  attr.port_num = 1;
  attr.dlid = b.lid();
  attr.sl = 3;
  ibv_ah* by_lid = ibv_create_ah(a.pd, &attr);
  ASSERT_NE(by_lid, nullptr);
  b.post_receive(5);
  EXPECT_EQ(send(by_lid, 4096).status, IBV_WC_SUCCESS);
  expect_arrived(5, 4096);
  EXPECT_EQ(last.slid, a.lid());
  EXPECT_EQ(last.sl, 3);
  EXPECT_EQ(last.wc_flags & IBV_WC_GRH, 0u);
  b.post_receive(6);
  EXPECT_EQ(send(a.address(b, 0, b.lid()), 7).status, IBV_WC_SUCCESS);
  expect_arrived(6, 7);
  EXPECT_NE(last.wc_flags & IBV_WC_GRH, 0u);
  EXPECT_EQ(std::memcmp(b.memory.get() + 8, a.gid(0).data(), 16), 0);
  EXPECT_EQ(std::memcmp(b.memory.get() + 24, b.gid(0).data(), 16), 0);
}

TEST_F(Datagrams, OverRoceOfEachTypeAndFamily) {
  open_both("devices=2 link=roce gids=v1:link,v2:link,v2:ipv4");
  constexpr uint8_t kHeaders[] = {0, 8 | 1, 8 | 2};  // of frames, UDP over IPv6, over IPv4
  for (int index = 0; index < 3; ++index) {
    b.post_receive(9);
    EXPECT_EQ(send(a.address(b, index), 100).status, IBV_WC_SUCCESS);
    expect_arrived(9, 100);
    EXPECT_NE(last.wc_flags & IBV_WC_GRH, 0u);
    EXPECT_EQ(last.sl, kHeaders[index]);
    const uint32_t bytes = index == 2 ? 4 : 16;  // that end the header
    const Gid mine = b.gid(index);
    EXPECT_EQ(std::memcmp(b.memory.get() + 40 - bytes, mine.data() + 16 - bytes, bytes), 0);
  }
}

TEST_F(Datagrams, ThatNobodyTakesAreLost) {
  open_both("devices=2 link=roce gids=v2:link mtu=1024");
  ibv_ah* ah = a.address(b, 0);
  mlx5dv_ah view = {};
  mlx5dv_obj obj = {};
  obj.ah = {.in = ah, .out = &view};
  ASSERT_EQ(mlx5dv_init_obj(&obj, MLX5DV_OBJ_AH), 0);
  EXPECT_EQ(send(ah, 8).status, IBV_WC_SUCCESS) << "there is no receive entry";
  // A sender hears of nothing; what comes to another queue pair of that NIC comes behind it.
  other.open(open_device(1));
  other.make_datagram_qp();
  other.post_receive(7);
  EXPECT_EQ(send_to(other, ah, 8).status, IBV_WC_SUCCESS);
  EXPECT_EQ(next_of(other.receive_cq).status, IBV_WC_SUCCESS);
  b.post_receive(1);
  EXPECT_EQ(send(ah, 8, kQkey + 1).status, IBV_WC_SUCCESS) << "another Q_Key";
  view.av->rgid[15] ^= 1;
  EXPECT_EQ(send(ah, 8).status, IBV_WC_SUCCESS) << "another GID";
  view.av->rgid[15] ^= 1;
  view.av->rmac[5] ^= 1;
  EXPECT_EQ(send(ah, 8).status, IBV_WC_SUCCESS) << "another Ethernet address";
  view.av->rmac[5] ^= 1;
  EXPECT_TRUE(nothing_came());
  EXPECT_EQ(send(ah, 8).status, IBV_WC_SUCCESS);
  expect_arrived(1, 8);
  // With the highest bit the queue pair's own Q_Key counts.
  b.post_receive(2);
  EXPECT_EQ(send(ah, 8, 1u << 31).status, IBV_WC_SUCCESS);
  expect_arrived(2, 8);
}

// Hazard: a number that is given to the next queue pair at once. What a peer sends late, or again,
// is for the one before, and programs (UCX) take it for their own.
TEST_F(Datagrams, ThatComeLateAreNotForTheNextQueuePair) {
  open_both("devices=2");
  ibv_ah* ah = a.address(b, 0, b.lid());
  const uint32_t before = b.qp->qp_num;
  for (int life = 0; life < 32; ++life) {
    ASSERT_EQ(ibv_destroy_qp(b.qp), 0);
    b.make_datagram_qp();
    ASSERT_NE(b.qp->qp_num, before) << "after " << life;
  }
  b.post_receive(1);
  EXPECT_EQ(send_to_number(before, ah, 8).status, IBV_WC_SUCCESS);
  EXPECT_EQ(send(ah, 9).status, IBV_WC_SUCCESS);
  expect_arrived(1, 9);
}

TEST_F(Datagrams, TakeOnePacketAndEnoughRoom) {
  open_both("devices=2 link=roce gids=v2:link mtu=1024");
  ibv_ah* ah = a.address(b, 0);
  b.post_receive(3, 47);
  EXPECT_EQ(send(ah, 8).status, IBV_WC_SUCCESS);
  const ibv_wc wc = next_of(b.receive_cq);
  EXPECT_EQ(wc.status, IBV_WC_LOC_LEN_ERR);
  EXPECT_EQ(wc.wr_id, 3u);
  EXPECT_EQ(send(ah, 1025).status, IBV_WC_LOC_LEN_ERR);
}

TEST_F(Datagrams, ByCallsInAnyOrder) {
  open_both("devices=2");
  ibv_ah* ah = a.address(b, 0, b.lid());
  ibv_qp_ex* builder = ibv_qp_to_qp_ex(a.qp);
  written = 0x5a;
  std::memset(a.memory.get(), written, 8);
  for (const bool address_first : {true, false}) {
    b.post_receive(4);
    ibv_wr_start(builder);
    builder->wr_flags = IBV_SEND_SIGNALED;
    ibv_wr_send_imm(builder, htobe32(written));
    if (address_first) ibv_wr_set_ud_addr(builder, ah, b.qp->qp_num, kQkey);
    ibv_wr_set_sge(builder, a.mr->lkey, reinterpret_cast<uintptr_t>(a.memory.get()), 8);
    if (!address_first) ibv_wr_set_ud_addr(builder, ah, b.qp->qp_num, kQkey);
    ASSERT_EQ(ibv_wr_complete(builder), 0);
    EXPECT_EQ(next_of(a.cq).status, IBV_WC_SUCCESS);
    expect_arrived(4, 8);
  }
  ibv_wr_start(builder);
  ibv_wr_send(builder);
  ibv_wr_set_sge(builder, a.mr->lkey, reinterpret_cast<uintptr_t>(a.memory.get()), 8);
  EXPECT_EQ(ibv_wr_complete(builder), EINVAL) << "to nobody";
}

// ---- DC on RoCE

class DcOverRoce : public Presented {
 protected:
  void open_both(const std::string& text) {
    present(text);
    a.open(open_device(0));
    b.open(open_device(1));
    ibv_srq_init_attr shared = {};
    shared.attr.max_wr = 4;
    shared.attr.max_sge = 1;
    srq = ibv_create_srq(b.pd, &shared);
    ASSERT_NE(srq, nullptr);
  }
  static ibv_qp* create(const End& end, mlx5dv_dc_type type, ibv_srq* with) {
    ibv_qp_init_attr_ex init = end.wanted(IBV_QPT_DRIVER);
    init.comp_mask = IBV_QP_INIT_ATTR_PD;
    init.srq = with;
    mlx5dv_qp_init_attr mlx5 = {};
    mlx5.comp_mask = MLX5DV_QP_INIT_ATTR_MASK_DC;
    mlx5.dc_init_attr.dc_type = type;
    mlx5.dc_init_attr.dct_access_key = kDcKey;
    return mlx5dv_create_qp(end.context, &init, &mlx5);
  }
  static void raise(ibv_qp* qp, int gid_index, bool sends) {
    ibv_qp_attr attr = {};
    attr.qp_state = IBV_QPS_INIT;
    attr.port_num = 1;
    attr.qp_access_flags = IBV_ACCESS_REMOTE_WRITE;
    ASSERT_EQ(ibv_modify_qp(qp, &attr,
                            IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS),
              0);
    attr.qp_state = IBV_QPS_RTR;
    attr.path_mtu = IBV_MTU_1024;
    attr.ah_attr.port_num = 1;
    const int to_rtr = IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_MIN_RNR_TIMER;
    EXPECT_EQ(ibv_modify_qp(qp, &attr, to_rtr), EINVAL) << "no GRH";
    attr.ah_attr.is_global = 1;
    attr.ah_attr.grh.sgid_index = static_cast<uint8_t>(gid_index);
    ASSERT_EQ(ibv_modify_qp(qp, &attr, to_rtr), 0);
    if (!sends) return;
    attr.qp_state = IBV_QPS_RTS;
    attr.timeout = 1;
    attr.retry_cnt = 1;
    attr.max_rd_atomic = 1;
    ASSERT_EQ(ibv_modify_qp(qp, &attr,
                            IBV_QP_STATE | IBV_QP_SQ_PSN | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT |
                                IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC),
              0);
  }
  /// How the SEND of 8 bytes ends that a fresh initiator of a's makes with this address.
  ibv_wc send(const mlx5_wqe_av& to, int gid_index, bool compact = false) {
    ibv_qp* qp = create(a, MLX5DV_DCTYPE_DCI, nullptr);
    if (qp == nullptr) return {};
    raise(qp, gid_index, true);
    mlx5dv_qp queue = {};
    mlx5dv_obj obj = {};
    obj.qp = {.in = qp, .out = &queue};
    EXPECT_EQ(mlx5dv_init_obj(&obj, MLX5DV_OBJ_QP), 0);
    auto* at = static_cast<uint8_t*>(queue.sq.buf);
    const uint8_t units = compact ? 3 : 5;
    mlx5dv_set_ctrl_seg(reinterpret_cast<mlx5_wqe_ctrl_seg*>(at), 0, MLX5_OPCODE_SEND, 0,
                        qp->qp_num, MLX5_WQE_CTRL_CQ_UPDATE, units, 0, 0);
    mlx5_wqe_av vector = to;
    vector.key.dc_key = htobe64(kDcKey);
    vector.dqp_dct = htobe32((compact ? 0 : 1u << 31) | target->qp_num);
    std::memcpy(at + 16, &vector, compact ? 16 : 48);
    auto* data = reinterpret_cast<mlx5_wqe_data_seg*>(at + 16 * (units - 1));
    mlx5dv_set_data_seg(data, 8, a.mr->lkey, reinterpret_cast<uintptr_t>(a.memory.get()));
    __atomic_store_n(&queue.dbrec[MLX5_SND_DBR], htobe32(compact ? 1 : 2), __ATOMIC_RELEASE);
    ring(queue.bf.reg, at);
    sender = qp->qp_num;
    return next_of(a.cq);
  }
  void post_shared(uint64_t name) {
    ibv_sge list = {reinterpret_cast<uintptr_t>(b.memory.get()), 64, b.mr->lkey};
    ibv_recv_wr wr = {};
    wr.wr_id = name;
    wr.sg_list = &list;
    wr.num_sge = 1;
    ibv_recv_wr* bad = nullptr;
    ASSERT_EQ(ibv_post_srq_recv(srq, &wr, &bad), 0);
  }
  static mlx5_wqe_av vector_of(ibv_ah* ah) {
    mlx5dv_ah view = {};
    mlx5dv_obj obj = {};
    obj.ah = {.in = ah, .out = &view};
    EXPECT_EQ(mlx5dv_init_obj(&obj, MLX5DV_OBJ_AH), 0);
    return *view.av;
  }

  End a, b;
  ibv_srq* srq = nullptr;
  ibv_qp* target = nullptr;
  uint32_t sender = 0;
};

TEST_F(DcOverRoce, TheAddressLeadsByGid) {
  open_both("devices=2 link=roce gids=v1:link,v2:link,v2:ipv4");
  for (int index = 0; index < 3; ++index) {
    target = create(b, MLX5DV_DCTYPE_DCT, srq);
    ASSERT_NE(target, nullptr);
    raise(target, index, false);
    const mlx5_wqe_av good = vector_of(a.address(b, index));
    post_shared(8);
    EXPECT_EQ(send(good, index).status, IBV_WC_SUCCESS) << index;
    const ibv_wc wc = next_of(b.receive_cq);
    EXPECT_EQ(wc.status, IBV_WC_SUCCESS);
    EXPECT_EQ(wc.opcode, IBV_WC_RECV);
    EXPECT_EQ(wc.wr_id, 8u);
    EXPECT_EQ(wc.qp_num, target->qp_num);
    EXPECT_EQ(wc.src_qp, sender);
    mlx5_wqe_av wrong = good;
    wrong.rgid[15] ^= 1;
    EXPECT_EQ(send(wrong, index).status, IBV_WC_RETRY_EXC_ERR) << "another GID";
    wrong = good;
    wrong.rmac[5] ^= 0x40;
    EXPECT_EQ(send(wrong, index).status, IBV_WC_RETRY_EXC_ERR) << "another Ethernet address";
    const int other = index == 0 ? 1 : 0;
    EXPECT_EQ(send(vector_of(a.address(b, other)), other).status, IBV_WC_RETRY_EXC_ERR)
        << "the other version of RoCE";
    ASSERT_EQ(ibv_destroy_qp(target), 0);
  }
}

TEST_F(DcOverRoce, TheShortAddressNamesNobody) {
  open_both("devices=2 link=roce gids=v2:link");
  target = create(b, MLX5DV_DCTYPE_DCT, srq);
  ASSERT_NE(target, nullptr);
  raise(target, 0, false);
  EXPECT_EQ(send(vector_of(a.address(b, 0)), 0, true).status, IBV_WC_LOC_QP_OP_ERR);
}

}  // namespace
}  // namespace peal::softnic::abi_test
