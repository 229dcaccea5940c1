// SPDX-License-Identifier: Apache-2.0
//
// The way to a peer: what a queue pair takes as its address path, and where packets then go.
//
// Two devices of one process, each a NIC of its own: what they say to each other goes over the wire
// of processes. Hazard: a NIC that finds its peer by queue pair number alone hides every wrong
// address until the first run on hardware.
#include <chrono>
#include <functional>
#include <thread>

#include "tests/unit/softnic/abi/present_support.h"

namespace peal::softnic::abi_test {
namespace {

using Gid = std::array<uint8_t, 16>;

/// What one end says of the way to the other.
struct Way {
  ibv_mtu mtu = IBV_MTU_1024;
  bool global = false;
  uint16_t lid = 0;
  uint8_t source = 0;
  uint8_t hops = 64;
  uint8_t port = 1;
  Gid gid = {};
  uint16_t key = 0;  // index of the P_Key of this end
};

/// Memory, CQ and queue pair of one device. Everything goes with its context.
class End {
 public:
  void open(ibv_context* of) {
    context = of;
    pd = ibv_alloc_pd(context);
    cq = ibv_create_cq(context, 16, nullptr, nullptr, 0);
    mr = ibv_reg_mr(pd, memory.get(), kBytes,
                    IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ);
    ASSERT_NE(mr, nullptr);
    make_qp();
  }
  void make_qp() {
    ibv_qp_init_attr init = {};
    init.send_cq = init.recv_cq = cq;
    init.cap = {.max_send_wr = 4,
                .max_recv_wr = 1,
                .max_send_sge = 1,
                .max_recv_sge = 1,
                .max_inline_data = 0};
    init.qp_type = IBV_QPT_RC;
    qp = ibv_create_qp(pd, &init);
    ASSERT_NE(qp, nullptr);
  }
  int to_init(uint8_t port, uint16_t key = 0) const {
    ibv_qp_attr attr = {};
    attr.qp_state = IBV_QPS_INIT;
    attr.pkey_index = key;
    attr.port_num = port;
    attr.qp_access_flags = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ;
    return ibv_modify_qp(qp, &attr,
                         IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS);
  }
  int to_rtr(uint32_t peer, const Way& way) const {
    ibv_qp_attr attr = {};
    attr.qp_state = IBV_QPS_RTR;
    attr.path_mtu = way.mtu;
    attr.dest_qp_num = peer;
    attr.ah_attr.port_num = way.port;
    attr.ah_attr.dlid = way.lid;
    attr.ah_attr.is_global = way.global ? 1 : 0;
    attr.ah_attr.grh.sgid_index = way.source;
    attr.ah_attr.grh.hop_limit = way.hops;
    std::memcpy(attr.ah_attr.grh.dgid.raw, way.gid.data(), way.gid.size());
    attr.max_dest_rd_atomic = 1;
    attr.min_rnr_timer = 1;
    return ibv_modify_qp(qp, &attr,
                         IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
                             IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER);
  }
  int to_rts() const {
    ibv_qp_attr attr = {};
    attr.qp_state = IBV_QPS_RTS;
    attr.timeout = 1;
    attr.retry_cnt = 1;
    attr.max_rd_atomic = 1;
    return ibv_modify_qp(qp, &attr,
                         IBV_QP_STATE | IBV_QP_SQ_PSN | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT |
                             IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC);
  }
  /// How a WRITE or READ of `bytes` at the peer ends.
  ibv_wc_status transfer(const End& peer, uint32_t bytes, ibv_wr_opcode opcode) const {
    ibv_sge list = {reinterpret_cast<uintptr_t>(memory.get()), bytes, mr->lkey};
    ibv_send_wr wr = {};
    wr.sg_list = &list;
    wr.num_sge = 1;
    wr.opcode = opcode;
    wr.send_flags = IBV_SEND_SIGNALED;
    wr.wr.rdma.remote_addr = reinterpret_cast<uintptr_t>(peer.memory.get());
    wr.wr.rdma.rkey = peer.mr->rkey;
    ibv_send_wr* bad = nullptr;
    EXPECT_EQ(ibv_post_send(qp, &wr, &bad), 0);
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(60);
    ibv_wc wc = {};
    while (ibv_poll_cq(cq, 1, &wc) == 0) {
      if (std::chrono::steady_clock::now() > deadline) return IBV_WC_GENERAL_ERR;
      std::this_thread::yield();
    }
    return wc.status;
  }
  uint16_t lid() const {
    ibv_port_attr port = {};
    EXPECT_EQ(ibv_query_port(context, 1, &port), 0);
    return port.lid;
  }
  Gid gid(int index) const {
    ibv_gid raw = {};
    EXPECT_EQ(ibv_query_gid(context, 1, index, &raw), 0);
    Gid gid;
    std::memcpy(gid.data(), raw.raw, gid.size());
    return gid;
  }

  static constexpr size_t kBytes = 2 * kPage;
  Pages memory = make_pages(kBytes);
  ibv_context* context = nullptr;
  ibv_pd* pd = nullptr;
  ibv_cq* cq = nullptr;
  ibv_mr* mr = nullptr;
  ibv_qp* qp = nullptr;
};

class Paths : public Presented {
 protected:
  /// Opens the two devices of `text`; `there` and `back` are ways that work.
  void open_both(const std::string& text) {
    present(text);
    a.open(open_device(0));
    b.open(open_device(1));
  }
  Way roce(const End& to, int index) const {
    return {.global = true, .source = static_cast<uint8_t>(index), .gid = to.gid(index)};
  }
  /// Connects fresh queue pairs and answers how a transfer of `bytes` from a ends.
  ibv_wc_status run(const Way& there, const Way& back, uint32_t bytes = 64,
                    ibv_wr_opcode opcode = IBV_WR_RDMA_WRITE) {
    a.make_qp();
    b.make_qp();
    EXPECT_EQ(a.to_init(there.port, there.key), 0);
    EXPECT_EQ(b.to_init(back.port, back.key), 0);
    EXPECT_EQ(a.to_rtr(b.qp->qp_num, there), 0);
    EXPECT_EQ(b.to_rtr(a.qp->qp_num, back), 0);
    EXPECT_EQ(a.to_rts(), 0);
    EXPECT_EQ(b.to_rts(), 0);
    a.memory.get()[0] = ++written;
    const ibv_wc_status status = a.transfer(b, bytes, opcode);
    if (opcode == IBV_WR_RDMA_WRITE) {
      EXPECT_EQ(b.memory.get()[0] == written, status == IBV_WC_SUCCESS);
    }
    return status;
  }
  /// What ready-to-receive answers to `way`.
  int rtr(const Way& way) {
    a.make_qp();
    EXPECT_EQ(a.to_init(1), 0);
    return a.to_rtr(b.qp->qp_num, way);
  }

  End a, b;
  uint8_t written = 0;
};

TEST_F(Paths, RoceOfEachTypeAndFamilyArrives) {
  open_both("devices=2 link=roce gids=v1:link,v2:link,v1:ipv4,v2:ipv4,v2:ipv6");
  for (int index = 0; index < 5; ++index) {
    EXPECT_EQ(run(roce(b, index), roce(a, index)), IBV_WC_SUCCESS) << index;
    EXPECT_EQ(run(roce(b, index), roce(a, index), 4096, IBV_WR_RDMA_READ), IBV_WC_SUCCESS);
  }
  ibv_qp_attr attr = {};
  ibv_qp_init_attr init = {};
  ASSERT_EQ(ibv_query_qp(a.qp, &attr, IBV_QP_AV, &init), 0);
  EXPECT_EQ(attr.ah_attr.is_global, 1);
  EXPECT_EQ(attr.ah_attr.grh.sgid_index, 4);
  EXPECT_EQ(attr.ah_attr.grh.hop_limit, 64);
  EXPECT_EQ(std::memcmp(attr.ah_attr.grh.dgid.raw, b.gid(4).data(), 16), 0);
}

TEST_F(Paths, RoceThatDoesNotFitTheOtherEndIsDropped) {
  open_both("devices=2 link=roce gids=v1:link,v2:link,v2:ipv4,v1:ipv4");
  const Way v1 = roce(b, 0);
  const Way v2 = roce(b, 1);
  ASSERT_EQ(run(v2, roce(a, 1)), IBV_WC_SUCCESS);
  EXPECT_EQ(run(v1, roce(a, 1)), IBV_WC_RETRY_EXC_ERR) << "v1 to v2";
  EXPECT_EQ(run(v2, roce(a, 0)), IBV_WC_RETRY_EXC_ERR) << "v2 to v1";
  Way from_ipv4 = v2;
  from_ipv4.source = 2;
  EXPECT_EQ(run(from_ipv4, roce(a, 1)), IBV_WC_RETRY_EXC_ERR) << "from IPv4 to IPv6";
  Way no_hops = v2;
  no_hops.hops = 0;
  EXPECT_EQ(run(no_hops, roce(a, 1)), IBV_WC_RETRY_EXC_ERR) << "no hops";
  Way frame = v1;
  frame.hops = 0;
  EXPECT_EQ(run(frame, roce(a, 0)), IBV_WC_SUCCESS) << "a frame has no hops to count";
  // The other end goes to itself: its answers do not come here.
  EXPECT_EQ(run(v2, roce(b, 1)), IBV_WC_RETRY_EXC_ERR);
}

TEST_F(Paths, RoceNeedsAGidThatThereIs) {
  open_both("devices=2 link=roce gids=v1:link,none,v2:link");
  const Way good = roce(b, 2);
  EXPECT_EQ(rtr(good), 0);
  Way way = good;
  way.global = false;
  EXPECT_EQ(rtr(way), EINVAL) << "no GRH";
  for (const uint8_t source : {uint8_t{1}, uint8_t{3}, uint8_t{255}}) {
    way = good;
    way.source = source;
    EXPECT_EQ(rtr(way), EINVAL) << int{source};
  }
  way = good;
  way.gid[15] ^= 0x80;
  EXPECT_EQ(rtr(way), ETIMEDOUT) << "nobody's GID";
  way = good;
  way.gid = {};
  EXPECT_EQ(rtr(way), ETIMEDOUT) << "no GID";
  ibv_ah_attr address = {};
  address.port_num = 1;
  EXPECT_EQ(ibv_create_ah(a.pd, &address), nullptr);
  EXPECT_EQ(errno, EINVAL);
}

using Mac = std::array<uint8_t, 6>;

/// From the link-local GID at index 0, which has it as EUI-64 spreads it.
Mac mac_of(const End& end) {
  const Gid link = end.gid(0);
  return {static_cast<uint8_t>(link[8] ^ 2), link[9], link[10], link[13], link[14], link[15]};
}

TEST_F(Paths, AddressHandleHasTheHardwareAddress) {
  open_both("devices=2 link=roce");
  ibv_ah_attr address = {};
  address.port_num = 1;
  address.is_global = 1;
  address.grh.sgid_index = 3;
  address.grh.hop_limit = 9;
  std::memcpy(address.grh.dgid.raw, b.gid(3).data(), 16);
  ibv_ah* ah = ibv_create_ah(a.pd, &address);
  ASSERT_NE(ah, nullptr);
  mlx5dv_ah view = {};
  mlx5dv_obj obj = {};
  obj.ah.in = ah;
  obj.ah.out = &view;
  ASSERT_EQ(mlx5dv_init_obj(&obj, MLX5DV_OBJ_AH), 0);
  const Mac mac = mac_of(b);
  EXPECT_EQ(std::memcmp(view.av->rmac, mac.data(), mac.size()), 0);
  EXPECT_EQ(std::memcmp(view.av->rgid, address.grh.dgid.raw, 16), 0);
  EXPECT_GE(be16toh(view.av->rlid), 0xc000) << "UDP source port";
  EXPECT_EQ(view.av->hop_limit, 9);
}

/// INIT2RTR as firmware has it: the hardware address is the client's to know.
Mailbox init_to_rtr(const End& to, uint32_t qpn, const Mac& mac, uint16_t udp_port) {
  Mailbox in(272, 0x503);
  in.set(2, 23, 0, qpn).set(kQpc + 2, 31, 29, 3).set(kQpc + 2, 28, 24, 30);
  in.set(kQpc + 5, 23, 0, to.qp->qp_num);
  in.set(kQpc + 8, 23, 16, 3).set(kQpc + 8, 7, 0, 77);  // source GID, hop limit
  const Gid gid = to.gid(3);
  for (size_t i = 0; i < gid.size(); ++i) {
    const auto low = static_cast<unsigned>(24 - 8 * (i % 4));
    in.set(kQpc + 10 + i / 4, low + 7, low, gid[i]);
  }
  in.set(kQpc + 14, 21, 16, 26).set(kQpc + 14, 15, 0, udp_port);
  in.set(kQpc + 15, 30, 28, 5).set(kQpc + 15, 15, 0, uint32_t{mac[0]} << 8 | mac[1]);
  for (size_t i = 0; i < 4; ++i) {
    const auto low = static_cast<unsigned>(24 - 8 * i);
    in.set(kQpc + 16, low + 7, low, mac[2 + i]);
  }
  return in.set(kQpc + 37, 28, 24, 1);
}

/// Status of the command, its errno in `error`.
uint32_t modify(const End& end, Mailbox in, int* error) {
  Mailbox out(16);
  *error = mlx5dv_devx_qp_modify(end.qp, in.data(), in.size(), out.data(), out.size());
  return out.status();
}

TEST_F(Paths, FirmwareSendsToTheHardwareAddressItIsGiven) {
  open_both("devices=2 link=roce udp=50000-50010");
  const auto ends_with = [&](const Mac& mac, const std::function<void(Mailbox&)>& change) {
    a.make_qp();
    b.make_qp();
    EXPECT_EQ(a.to_init(1), 0);
    EXPECT_EQ(b.to_init(1), 0);
    Mailbox there = init_to_rtr(b, a.qp->qp_num, mac, 50003);
    change(there);
    int error = 0;
    EXPECT_EQ(modify(a, there, &error), 0u);
    EXPECT_EQ(b.to_rtr(a.qp->qp_num, roce(a, 3)), 0);
    EXPECT_EQ(a.to_rts(), 0);
    EXPECT_EQ(b.to_rts(), 0);
    return a.transfer(b, 64, IBV_WR_RDMA_WRITE);
  };
  const auto as_it_is = [](Mailbox&) {};
  EXPECT_EQ(ends_with(mac_of(b), as_it_is), IBV_WC_SUCCESS);

  Mailbox in(16, 0x50b);
  in.set(2, 23, 0, a.qp->qp_num);
  Mailbox out(272);
  ASSERT_EQ(mlx5dv_devx_qp_query(a.qp, in.data(), in.size(), out.data(), out.size()), 0);
  const Mac mac = mac_of(b);
  EXPECT_EQ(out.get(kQpc + 15, 15, 0), uint32_t{mac[0]} << 8 | mac[1]);
  EXPECT_EQ(out.get(kQpc + 16, 7, 0), mac[5]);
  EXPECT_EQ(out.get(kQpc + 14, 15, 0), 50003u);
  EXPECT_EQ(out.get(kQpc + 14, 21, 16), 26u);
  EXPECT_EQ(out.get(kQpc + 15, 30, 28), 5u);
  EXPECT_EQ(out.get(kQpc + 8, 23, 16), 3u);
  EXPECT_EQ(out.get(kQpc + 8, 7, 0), 77u);
  EXPECT_EQ(out.get(kQpc + 13, 7, 0), b.gid(3)[15]);
  EXPECT_EQ(out.get(kQpc + 15, 23, 16), 1u);  // port

  Mac wrong = mac_of(b);
  wrong[5] ^= 0x40;
  EXPECT_EQ(ends_with(wrong, as_it_is), IBV_WC_RETRY_EXC_ERR);
  wrong = mac_of(b);
  wrong[0] = 0x0c;
  EXPECT_EQ(ends_with(wrong, as_it_is), IBV_WC_RETRY_EXC_ERR);
  EXPECT_EQ(ends_with({}, as_it_is), IBV_WC_RETRY_EXC_ERR);
  const auto other_gid = [](Mailbox& box) {
    box.set(kQpc + 13, 7, 0, box.get(kQpc + 13, 7, 0) ^ 0x40);
  };
  EXPECT_EQ(ends_with(mac_of(b), other_gid), IBV_WC_RETRY_EXC_ERR) << "the frame comes, the IP not";
  const auto without_gid = [](Mailbox& box) {
    for (size_t i = 10; i < 14; ++i) box.set(kQpc + i, 31, 0, 0);
  };
  EXPECT_EQ(ends_with(mac_of(b), without_gid), IBV_WC_RETRY_EXC_ERR);
}

TEST_F(Paths, FirmwareRefusesWhatItsTablesDoNotHave) {
  open_both("devices=2 link=roce udp=50000-50010");
  constexpr uint32_t kBadParameter = 3;
  const auto status = [&](const std::function<void(Mailbox&)>& change) {
    a.make_qp();
    EXPECT_EQ(a.to_init(1), 0);
    Mailbox in = init_to_rtr(b, a.qp->qp_num, mac_of(b), 50010);
    change(in);
    int error = 0;
    const uint32_t answer = modify(a, in, &error);
    EXPECT_EQ(error, answer == 0 ? 0 : EINVAL);
    return answer;
  };
  EXPECT_EQ(status([](Mailbox&) {}), 0u);
  EXPECT_EQ(status([](Mailbox& in) { in.set(kQpc + 14, 15, 0, 49999); }), kBadParameter);
  EXPECT_EQ(status([](Mailbox& in) { in.set(kQpc + 14, 15, 0, 50011); }), kBadParameter);
  EXPECT_EQ(status([](Mailbox& in) { in.set(kQpc + 8, 23, 16, 4); }), kBadParameter);
  EXPECT_EQ(status([](Mailbox& in) { in.set(kQpc + 2, 31, 29, 4); }), kBadParameter) << "MTU";
}

TEST_F(Paths, InfinibandGoesByItsLid) {
  open_both("devices=2");
  const Way there = {.lid = b.lid()};
  const Way back = {.lid = a.lid()};
  EXPECT_EQ(run(there, back), IBV_WC_SUCCESS);
  EXPECT_EQ(run({.lid = 1023}, back), IBV_WC_RETRY_EXC_ERR) << "nobody's LID";
  EXPECT_NE(run(back, back), IBV_WC_SUCCESS) << "its own LID: whatever is there, it is not b";
  EXPECT_EQ(run(there, {.lid = b.lid()}), IBV_WC_RETRY_EXC_ERR);
  EXPECT_EQ(rtr({.lid = 0}), EINVAL);
  EXPECT_EQ(rtr({.lid = 0xc001}), EINVAL) << "multicast";
}

TEST_F(Paths, InfinibandWithAGidGoesByBoth) {
  open_both("devices=2");
  const Way there = {.global = true, .lid = b.lid(), .gid = b.gid(0)};
  const Way back = {.global = true, .lid = a.lid(), .gid = a.gid(0)};
  EXPECT_EQ(run(there, back), IBV_WC_SUCCESS);
  Way wrong = there;
  wrong.gid[15] ^= 1;
  EXPECT_EQ(run(wrong, back), IBV_WC_RETRY_EXC_ERR);
  wrong = there;
  wrong.source = 1;
  EXPECT_EQ(rtr(wrong), EINVAL);
}

TEST_F(Paths, PartitionIsOneThatOneEndIsAFullMemberOf) {
  open_both("devices=2 pkeys=0xffff,0x8001,0x0001,0");
  const auto ends_with = [&](uint16_t here, uint16_t there) {
    return run({.lid = b.lid(), .key = here}, {.lid = a.lid(), .key = there});
  };
  EXPECT_EQ(ends_with(1, 1), IBV_WC_SUCCESS);
  EXPECT_EQ(ends_with(2, 1), IBV_WC_SUCCESS);
  EXPECT_EQ(ends_with(1, 2), IBV_WC_SUCCESS);
  EXPECT_EQ(ends_with(2, 2), IBV_WC_RETRY_EXC_ERR) << "limited members";
  EXPECT_EQ(ends_with(0, 1), IBV_WC_RETRY_EXC_ERR) << "different partitions";
  EXPECT_EQ(a.to_init(1, 3), EINVAL) << "no key";
  EXPECT_EQ(a.to_init(1, 4), EINVAL) << "no entry";
  ibv_qp_attr attr = {};
  ibv_qp_init_attr init = {};
  ASSERT_EQ(ibv_query_qp(b.qp, &attr, IBV_QP_PKEY_INDEX, &init), 0);
  EXPECT_EQ(attr.pkey_index, 1);
}

TEST_F(Paths, AnotherSubnetIsReachedThroughARouterOnly) {
  open_both("subnet=0xfec0000000000001; subnet=0xfec0000000000002");
  const Way bare = {.lid = b.lid()};
  const Way back = {.global = true, .lid = a.lid(), .gid = a.gid(0)};
  Way there = {.global = true, .lid = b.lid(), .gid = b.gid(0)};
  EXPECT_EQ(run(there, back), IBV_WC_SUCCESS);
  EXPECT_EQ(run(bare, back), IBV_WC_RETRY_EXC_ERR);
  there.hops = 1;
  EXPECT_EQ(run(there, back), IBV_WC_RETRY_EXC_ERR);
}

TEST_F(Paths, LinkLayersDoNotMeet) {
  open_both("link=ib; link=roce");
  const uint16_t lid = a.lid();
  // The RoCE port has no LID; its NIC's is the next one or so. None of them answers.
  for (uint16_t guess = 1; guess < 8; ++guess) {
    if (guess == lid) continue;
    EXPECT_EQ(run({.lid = guess}, roce(b, 1)), IBV_WC_RETRY_EXC_ERR) << guess;
  }
}

TEST_F(Paths, PathMtuIsThatOfBothEnds) {
  open_both("mtu=4096; mtu=1024");
  const Way there = {.lid = b.lid()};
  const Way back = {.lid = a.lid()};
  EXPECT_EQ(run(there, back, 8000), IBV_WC_SUCCESS) << "1024 at both";
  Way larger = there;
  larger.mtu = IBV_MTU_4096;
  EXPECT_EQ(run(larger, back, 1024), IBV_WC_SUCCESS) << "one packet either way";
  EXPECT_EQ(run(larger, back, 1025), IBV_WC_REM_INV_REQ_ERR);
  EXPECT_EQ(run(larger, back, 1025, IBV_WR_RDMA_READ), IBV_WC_REM_INV_REQ_ERR);
  b.make_qp();
  ASSERT_EQ(b.to_init(1), 0);
  Way beyond = back;
  beyond.mtu = IBV_MTU_2048;
  EXPECT_EQ(b.to_rtr(a.qp->qp_num, beyond), EINVAL) << "more than its port's";
}

TEST_F(Paths, PortsWithoutALinkCarryNothing) {
  open_both("ports=2; state=init");
  EXPECT_EQ(run({.lid = 2}, {.lid = a.lid()}), IBV_WC_RETRY_EXC_ERR) << "the peer is not active";
  present("devices=2 ports=2");
  End c, d;
  c.open(open_device(0));
  d.open(open_device(1));
  std::swap(a, c);
  std::swap(b, d);
  EXPECT_EQ(run({.lid = b.lid()}, {.lid = a.lid()}), IBV_WC_SUCCESS);
  EXPECT_EQ(run({.lid = b.lid(), .port = 2}, {.lid = a.lid()}), IBV_WC_RETRY_EXC_ERR);
  a.make_qp();
  EXPECT_EQ(a.to_init(3), EINVAL);
  EXPECT_EQ(a.to_init(0), EINVAL);
}

}  // namespace
}  // namespace peal::softnic::abi_test
