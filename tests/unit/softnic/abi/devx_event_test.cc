// SPDX-License-Identifier: Apache-2.0
//
// Event channels of DEVX, as UCX uses them: who made a queue pair by DEVX hears of its last receive
// entry by a cookie of its own. Then what else UCX makes: receive
// memory pools, and completion entries of 128 bytes, whose last 64 are the entry.
#include <fcntl.h>
#include <poll.h>

#include "tests/unit/softnic/abi/support.h"

namespace peal::softnic::abi_test {
namespace {

constexpr uint16_t kLastWqe = 0x13;
constexpr uint64_t kCookie = 0x1234'5678'9abc;

class SoftnicAbiDevxEvent : public SoftnicAbi {
 protected:
  void SetUp() override {
    SoftnicAbi::SetUp();
    channel = mlx5dv_devx_create_event_channel(context,
                                               MLX5DV_DEVX_CREATE_EVENT_CHANNEL_FLAGS_OMIT_EV_DATA);
    ASSERT_NE(channel, nullptr);
    ASSERT_EQ(fcntl(channel->fd, F_SETFL, fcntl(channel->fd, F_GETFL) | O_NONBLOCK), 0);
    ibv_srq_init_attr init = {};
    init.attr.max_wr = init.attr.max_sge = 1;
    srq = ibv_create_srq(pd, &init);
    ASSERT_NE(srq, nullptr);
    Mailbox in = cq_command();
    cq = create(in);
    ASSERT_NE(cq, nullptr);
    cqn = out.get(2, 23, 0);
  }
  /// A queue pair that takes its receives from the shared queue.
  mlx5dv_devx_obj* make_qp() {
    mlx5dv_srq view = {};
    view.comp_mask = MLX5DV_SRQ_MASK_SRQN;
    mlx5dv_obj obj = {};
    obj.srq.in = srq;
    obj.srq.out = &view;
    EXPECT_EQ(mlx5dv_init_obj(&obj, MLX5DV_OBJ_SRQ), 0);
    Mailbox in = qp_command(cqn);
    in.set(kQpc + 43, 26, 24, 1).set(kQpc + 43, 23, 0, view.srqn).set(kQpc + 39, 23, 0, cqn);
    mlx5dv_devx_obj* qp = create(in);
    qpn = out.get(2, 23, 0);
    return qp;
  }
  void fail(mlx5dv_devx_obj* qp) {
    ASSERT_EQ(modify(qp, to_init(qpn)), 0);
    ASSERT_EQ(modify(qp, Mailbox(16, 0x507).set(2, 23, 0, qpn)), 0);
  }
  int subscribe(mlx5dv_devx_obj* object, uint16_t event) {
    return mlx5dv_devx_subscribe_devx_event(channel, object, sizeof event, &event, kCookie);
  }
  bool readable(int patience_ms) {
    pollfd wait = {.fd = channel->fd, .events = POLLIN, .revents = 0};
    return poll(&wait, 1, patience_ms) == 1;
  }

  mlx5dv_devx_event_channel* channel = nullptr;
  ibv_srq* srq = nullptr;
  mlx5dv_devx_obj* cq = nullptr;
  uint32_t cqn = 0;
  uint32_t qpn = 0;
};

TEST_F(SoftnicAbiDevxEvent, TellsTheCookieOnceThroughAReadableDescriptor) {
  mlx5dv_devx_obj* const qp = make_qp();
  ASSERT_NE(qp, nullptr) << std::hex << out.syndrome();
  ASSERT_EQ(subscribe(qp, kLastWqe), 0);
  mlx5dv_devx_async_event_hdr event = {};
  EXPECT_EQ(mlx5dv_devx_get_event(channel, &event, sizeof event), -1);
  EXPECT_EQ(errno, EAGAIN);
  fail(qp);
  ASSERT_TRUE(readable(30000));
  ASSERT_EQ(mlx5dv_devx_get_event(channel, &event, sizeof event), ssize_t{sizeof event});
  EXPECT_EQ(event.cookie, kCookie);
  EXPECT_FALSE(readable(0));
  EXPECT_EQ(mlx5dv_devx_get_event(channel, &event, sizeof event), -1);
}

TEST_F(SoftnicAbiDevxEvent, AChannelMayGoBeforeItsSubscribers) {
  mlx5dv_devx_obj* const qp = make_qp();
  ASSERT_NE(qp, nullptr);
  ASSERT_EQ(subscribe(qp, kLastWqe), 0);
  mlx5dv_devx_destroy_event_channel(channel);
  fail(qp);
  EXPECT_EQ(mlx5dv_devx_obj_destroy(qp), 0);
}

TEST_F(SoftnicAbiDevxEvent, RefusesWhatItDoesNotTell) {
  EXPECT_EQ(subscribe(cq, kLastWqe), EINVAL);  // of queue pairs
  EXPECT_EQ(subscribe(cq, 0x40), EINVAL);
  EXPECT_EQ(subscribe(nullptr, 0x09), EOPNOTSUPP);  // a port's
  EXPECT_EQ(mlx5dv_devx_subscribe_devx_event(channel, cq, 1, nullptr, 0), EINVAL);
  EXPECT_EQ(subscribe(cq, 0x04), 0);
  mlx5dv_devx_async_event_hdr event = {};
  EXPECT_EQ(mlx5dv_devx_get_event(channel, &event, sizeof event - 1), -1);
  EXPECT_EQ(errno, EINVAL);
  EXPECT_EQ(mlx5dv_devx_create_event_channel(
                context, static_cast<mlx5dv_devx_create_event_channel_flags>(0)),
            nullptr);
  EXPECT_EQ(errno, EOPNOTSUPP);
}

/// CREATE_RMP: 4 entries of 32 bytes, linked or cyclic, as UCX makes its shared receive queue.
TEST_F(SoftnicAbiDevxEvent, AQueuePairReceivesFromAMemoryPool) {
  constexpr size_t kWq = 0x50 / 4;
  for (const uint32_t type : {0u, 1u, 2u}) {
    Mailbox in(272, 0x90c);
    in.set(0x20 / 4, 23, 20, 1).set(kWq, 31, 28, type).set(kWq + 2, 23, 0, pdn_of(pd));
    in.set(kWq + 5, 31, 0, kRecordOffset + 128).set(kWq + 8, 19, 16, 5).set(kWq + 8, 4, 0, 2);
    in.set(kWq + 10, 31, 0, umem->umem_id).set(kWq + 11, 31, 0, umem->umem_id);
    in.set(kWq + 13, 31, 0, 3 * kPage);
    if (type == 2) {
      expect_refused(in, 0x03, EINVAL);
      break;
    }
    mlx5dv_devx_obj* const pool = create(in);
    ASSERT_NE(pool, nullptr) << std::hex << out.syndrome();
    Mailbox with = qp_command(cqn);
    with.set(kQpc + 43, 26, 24, 1).set(kQpc + 43, 23, 0, out.number()).set(kQpc + 39, 23, 0, cqn);
    mlx5dv_devx_obj* const qp = create(with);
    ASSERT_NE(qp, nullptr) << std::hex << out.syndrome();
    EXPECT_NE(mlx5dv_devx_obj_destroy(pool), 0);  // in use
    EXPECT_EQ(mlx5dv_devx_obj_destroy(qp), 0);
    EXPECT_EQ(mlx5dv_devx_obj_destroy(pool), 0);
  }
}

TEST_F(SoftnicAbiDevxEvent, CompletionEntriesHave64Or128Bytes) {
  ibv_cq_init_attr_ex attr = {};
  attr.cqe = 15;
  mlx5dv_cq_init_attr mlx5 = {};
  mlx5.comp_mask = MLX5DV_CQ_INIT_ATTR_MASK_CQE_SIZE;
  for (const uint16_t bytes : {uint16_t{64}, uint16_t{128}}) {
    mlx5.cqe_size = bytes;
    ibv_cq_ex* const made = mlx5dv_create_cq(context, &attr, &mlx5);
    ASSERT_NE(made, nullptr);
    mlx5dv_cq view = {};
    mlx5dv_obj obj = {};
    obj.cq.in = ibv_cq_ex_to_cq(made);
    obj.cq.out = &view;
    ASSERT_EQ(mlx5dv_init_obj(&obj, MLX5DV_OBJ_CQ), 0);
    EXPECT_EQ(view.cqe_size, bytes);
    const auto* first = static_cast<const uint8_t*>(view.buf);
    EXPECT_EQ(first[bytes - 1], 0xf0);  // invalid, owned by nobody yet
    EXPECT_EQ(ibv_destroy_cq(ibv_cq_ex_to_cq(made)), 0);
  }
  mlx5.cqe_size = 96;
  EXPECT_EQ(mlx5dv_create_cq(context, &attr, &mlx5), nullptr);
  EXPECT_EQ(errno, EINVAL);
  mlx5.comp_mask = MLX5DV_CQ_INIT_ATTR_MASK_COMPRESSED_CQE;
  EXPECT_EQ(mlx5dv_create_cq(context, &attr, &mlx5), nullptr);
  EXPECT_EQ(errno, EOPNOTSUPP);
}

}  // namespace
}  // namespace peal::softnic::abi_test
