// SPDX-License-Identifier: Apache-2.0
//
// What the tests of shared receive queues share: two connections whose receiving ends take their
// entries from one queue.
//
//   a  -- RC --> b  -+
//                    +-- srq        completions: b's to receive_cq, b2's to receive_cq2
//   a2 -- RC --> b2 -+
#pragma once

#include <fcntl.h>
#include <poll.h>

#include "tests/unit/softnic/abi/data_support.h"

namespace peal::softnic::abi_test {

class SoftnicAbiSrq : public SoftnicAbiData {
 protected:
  static constexpr size_t kTarget = 2 << 20;  // offset in the buffer where receives begin
  static constexpr uint32_t kRoom = 4096;     // of receive `name`, at kTarget + name * kRoom

  void SetUp() override {
    SoftnicAbiData::SetUp();
    receive_cq2 = ibv_create_cq(context, 100, nullptr, nullptr, 0);
    ASSERT_NE(receive_cq2, nullptr);
    srq = make_srq(pd, 10, 2);
    ASSERT_NE(srq, nullptr);
    ASSERT_EQ(ibv_destroy_qp(b), 0);
    b = make_shared(receive_cq);
    a2 = make_qp();
    b2 = make_shared(receive_cq2);
    ASSERT_NE(b, nullptr);
    ASSERT_NE(b2, nullptr);
  }

  static ibv_srq* make_srq(ibv_pd* domain, uint32_t entries, uint32_t pieces) {
    ibv_srq_init_attr init = {};
    init.attr.max_wr = entries;
    init.attr.max_sge = pieces;
    return ibv_create_srq(domain, &init);
  }
  ibv_qp_init_attr shared_init(ibv_cq* completions) {
    ibv_qp_init_attr init = {};
    init.send_cq = cq;
    init.recv_cq = completions;
    init.srq = srq;
    init.cap = kCap;
    init.qp_type = IBV_QPT_RC;
    return init;
  }
  ibv_qp* make_shared(ibv_cq* completions) {
    ibv_qp_init_attr init = shared_init(completions);
    return ibv_create_qp(pd, &init);
  }
  void connect_both(uint8_t rnr_retry = 7) {
    connect(rnr_retry);
    for (auto [qp, peer] : {std::pair(a2, b2), std::pair(b2, a2)}) {
      ASSERT_EQ(to_init(qp), 0);
      ASSERT_EQ(to_rtr(qp, peer->qp_num), 0);
      ASSERT_EQ(to_rts(qp, rnr_retry), 0);
    }
  }

  int post_shared(uint64_t name, std::vector<ibv_sge> list) {
    ibv_recv_wr wr = {};
    wr.wr_id = name;
    wr.sg_list = list.data();
    wr.num_sge = static_cast<int>(list.size());
    ibv_recv_wr* bad = nullptr;
    const int error = ibv_post_srq_recv(srq, &wr, &bad);
    EXPECT_EQ(bad, error == 0 ? nullptr : &wr);
    return error;
  }
  static size_t target(uint64_t name) { return kTarget + name * kRoom; }
  /// A receive of kRoom bytes where its name says.
  int post_shared(uint64_t name) { return post_shared(name, {piece(target(name), kRoom)}); }
  /// buffer[offset, offset + bytes) to whoever `from` is connected to.
  int send(ibv_qp* from, uint64_t name, size_t offset, uint32_t bytes) {
    std::vector<ibv_sge> list = {piece(offset, bytes)};
    ibv_send_wr wr = request(IBV_WR_SEND, name, list);
    return post(from, wr);
  }

  /// The next async event; one that never comes fails the test.
  ibv_async_event event() {
    pollfd wait = {.fd = context->async_fd, .events = POLLIN, .revents = 0};
    ibv_async_event answer = {};
    EXPECT_EQ(fcntl(context->async_fd, F_SETFL, O_NONBLOCK), 0);
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(30);
    while (ibv_get_async_event(context, &answer) != 0) {
      EXPECT_EQ(errno, EAGAIN);
      if (poll(&wait, 1, 20000) != 1 || std::chrono::steady_clock::now() > deadline) {
        ADD_FAILURE() << "no event";
        break;
      }
    }
    return answer;
  }
  ibv_async_event acknowledged_event() {
    ibv_async_event answer = event();
    ibv_ack_async_event(&answer);
    return answer;
  }
  bool no_event() {
    ibv_async_event answer = {};
    EXPECT_EQ(fcntl(context->async_fd, F_SETFL, O_NONBLOCK), 0);
    return ibv_get_async_event(context, &answer) != 0;
  }
  uint32_t limit() {
    ibv_srq_attr attr = {};
    EXPECT_EQ(ibv_query_srq(srq, &attr), 0);
    return attr.srq_limit;
  }
  int arm(uint32_t at) {
    ibv_srq_attr attr = {};
    attr.srq_limit = at;
    return ibv_modify_srq(srq, &attr, IBV_SRQ_LIMIT);
  }
  mlx5dv_srq view() {
    mlx5dv_srq answer = {};
    mlx5dv_obj obj = {};
    obj.srq.in = srq;
    obj.srq.out = &answer;
    EXPECT_EQ(mlx5dv_init_obj(&obj, MLX5DV_OBJ_SRQ), 0);
    return answer;
  }

  ibv_srq* srq = nullptr;
  ibv_cq* receive_cq2 = nullptr;
  ibv_qp* a2 = nullptr;
  ibv_qp* b2 = nullptr;
};

}  // namespace peal::softnic::abi_test
