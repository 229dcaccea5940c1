// SPDX-License-Identifier: Apache-2.0
//
// Completion events by DEVX, as UCX has them: a CQ made by DEVX, armed through its doorbell record
// and a register, tells the event channel that subscribed to it.
#include <fcntl.h>
#include <poll.h>

#include "tests/unit/softnic/abi/support.h"

namespace peal::softnic::abi_test {
namespace {

constexpr uint16_t kCompletion = 0;
constexpr uint16_t kLastWqe = 0x13;

/// A CQ and a queue pair, connected to itself, that completes there; number `place` in the umem.
struct Queues {
  uint64_t place = 0;
  mlx5dv_devx_obj* cq = nullptr;
  uint32_t cqn = 0;
  mlx5dv_devx_obj* qp = nullptr;
  uint32_t qpn = 0;
  uint16_t posted = 0;

  uint64_t cq_at() const { return kCqOffset + place * 2048; }
  uint64_t qp_at() const { return kQpOffset + place * 2048; }
  uint64_t cq_record() const { return kRecordOffset + place * 128; }
  uint64_t qp_record() const { return cq_record() + 64; }
};

class DevxCompletion : public SoftnicAbi {
 protected:
  void SetUp() override {
    SoftnicAbi::SetUp();
    channel = make_channel(context);
    ASSERT_NE(channel, nullptr);
    first = make_queues(0);
  }
  static mlx5dv_devx_event_channel* make_channel(ibv_context* of) {
    auto* const made =
        mlx5dv_devx_create_event_channel(of, MLX5DV_DEVX_CREATE_EVENT_CHANNEL_FLAGS_OMIT_EV_DATA);
    if (made != nullptr) fcntl(made->fd, F_SETFL, fcntl(made->fd, F_GETFL) | O_NONBLOCK);
    return made;
  }
  Queues make_queues(uint64_t place) {
    Queues made = {.place = place};
    Mailbox in = cq_command();
    in.set(kCqc + 15, 31, 0, static_cast<uint32_t>(made.cq_record()));
    in.set(0x54 / 4, 31, 0, static_cast<uint32_t>(made.cq_at()));
    std::memset(memory.get() + made.cq_at(), 0xf1, 16 * 64);  // invalid, of no lap that comes soon
    made.cq = create(in);
    EXPECT_NE(made.cq, nullptr) << std::hex << out.syndrome();
    made.cqn = out.number();
    in = qp_command(made.cqn);
    in.set(kQpc + 41, 31, 0, static_cast<uint32_t>(made.qp_record()));
    in.set(0x104 / 4, 31, 0, static_cast<uint32_t>(made.qp_at()));
    made.qp = create(in);
    EXPECT_NE(made.qp, nullptr) << std::hex << out.syndrome();
    made.qpn = out.number();
    EXPECT_EQ(modify(made.qp, to_init(made.qpn)), 0);
    EXPECT_EQ(modify(made.qp, to_rtr(made.qpn, made.qpn)), 0);
    EXPECT_EQ(modify(made.qp, to_rts(made.qpn)), 0);
    return made;
  }
  static int subscribe(mlx5dv_devx_event_channel* to, mlx5dv_devx_obj* object, uint64_t cookie,
                       uint16_t event = kCompletion) {
    return mlx5dv_devx_subscribe_devx_event(to, object, sizeof event, &event, cookie);
  }

  /// A NOP, which completes; of another queue pair's number it fails.
  void post(Queues& to, uint32_t as) {
    auto* const wqe = reinterpret_cast<mlx5_wqe_ctrl_seg*>(memory.get() + to.qp_at() +
                                                           size_t{to.posted} % 16 * 64);
    mlx5dv_set_ctrl_seg(wqe, to.posted, MLX5_OPCODE_NOP, 0, as, MLX5_WQE_CTRL_CQ_UPDATE, 1, 0, 0);
    ++to.posted;
    auto* const record = reinterpret_cast<uint32_t*>(memory.get() + to.qp_record());
    __atomic_store_n(record + 1, htobe32(to.posted), __ATOMIC_RELEASE);
    ring(uar->reg_addr, wqe);
  }
  /// Returns when its completion is there, and the NIC has told whoever it tells of it.
  void complete(Queues& by, uint32_t as) {
    post(by, as);
    const uint8_t* cqe = memory.get() + by.cq_at() + (by.posted - 1u) % 16 * 64;
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(60);
    while (__atomic_load_n(cqe + 63, __ATOMIC_ACQUIRE) == 0xf1) {
      ASSERT_LT(std::chrono::steady_clock::now(), deadline);
      std::this_thread::yield();
    }
    settle(by);
  }
  void complete(Queues& by) { complete(by, by.qpn); }
  /// A command finds the NIC at the end of a round.
  void settle(Queues& of) { query(of.cq, 0x402, of.cqn, 272); }

  enum class Which : uint32_t { kAny = 0, kSolicited = 1u << 24 };
  void arm(const Queues& of, uint32_t consumed, uint32_t number, Which which = Which::kAny) {
    const uint32_t command = (number & 3) << 28 | static_cast<uint32_t>(which) | consumed;
    auto* const record = reinterpret_cast<uint32_t*>(memory.get() + of.cq_record());
    __atomic_store_n(record + 1, htobe32(command), __ATOMIC_RELEASE);
    auto* const reg = reinterpret_cast<uint64_t*>(static_cast<uint8_t*>(uar->base_addr) + 0x20);
    __atomic_store_n(reg, htobe64(uint64_t{command} << 32 | of.cqn), __ATOMIC_RELEASE);
  }
  /// The NIC has heard.
  void arm_and_wait(Queues& of, uint32_t consumed, uint32_t number, Which which = Which::kAny) {
    arm(of, consumed, number, which);
    const auto* reg = reinterpret_cast<uint64_t*>(static_cast<uint8_t*>(uar->base_addr) + 0x20);
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(60);
    while (__atomic_load_n(reg, __ATOMIC_ACQUIRE) != 0) {
      ASSERT_LT(std::chrono::steady_clock::now(), deadline);
      std::this_thread::yield();
    }
    settle(of);
  }

  /// The cookie of the event that waits; 0 for none.
  uint64_t taken() {
    mlx5dv_devx_async_event_hdr event = {};
    const ssize_t got = mlx5dv_devx_get_event(channel, &event, sizeof event);
    if (got < 0) {
      EXPECT_EQ(errno, EAGAIN);
      return 0;
    }
    EXPECT_EQ(got, ssize_t{sizeof event});
    return event.cookie;
  }
  bool readable(int patience_ms) {
    pollfd wait = {.fd = channel->fd, .events = POLLIN, .revents = 0};
    return poll(&wait, 1, patience_ms) == 1;
  }

  mlx5dv_devx_event_channel* channel = nullptr;
  Queues first;
};

TEST_F(DevxCompletion, TellsOnceOfAQueueThatWasArmed) {
  ASSERT_EQ(subscribe(channel, first.cq, 7), 0);
  complete(first);
  EXPECT_EQ(taken(), 0u) << "nobody has armed it";
  arm_and_wait(first, 1, 0);
  EXPECT_FALSE(readable(0));
  complete(first);
  EXPECT_TRUE(readable(0));
  complete(first);
  EXPECT_EQ(taken(), 7u);
  EXPECT_FALSE(readable(0));
  EXPECT_EQ(taken(), 0u);
}

TEST_F(DevxCompletion, TellsAtOnceOfWhatWaits) {
  ASSERT_EQ(subscribe(channel, first.cq, 7), 0);
  complete(first);
  arm(first, 0, 0);
  EXPECT_TRUE(readable(60'000));
  EXPECT_EQ(taken(), 7u);
  arm_and_wait(first, 1, 1);
  EXPECT_EQ(taken(), 0u);
  complete(first);
  EXPECT_EQ(taken(), 7u);
}

TEST_F(DevxCompletion, OfASequenceNumberThereIsOneEvent) {
  ASSERT_EQ(subscribe(channel, first.cq, 7), 0);
  arm_and_wait(first, 0, 3);
  complete(first);
  EXPECT_EQ(taken(), 7u);
  arm_and_wait(first, 1, 3);
  complete(first);
  EXPECT_EQ(taken(), 0u);
  arm_and_wait(first, 1, 0);
  EXPECT_EQ(taken(), 7u);
}

TEST_F(DevxCompletion, MayBeOfErrorsAndSolicitedEntriesOnly) {
  ASSERT_EQ(subscribe(channel, first.cq, 7), 0);
  arm_and_wait(first, 0, 0, Which::kSolicited);
  complete(first);
  EXPECT_EQ(taken(), 0u);
  complete(first, first.qpn + 1);
  EXPECT_EQ(taken(), 7u);
}

// The register keeps the last value that was stored only.
TEST_F(DevxCompletion, QueuesOfOnePageThatAreArmedTogetherAllHear) {
  Queues second = make_queues(1);
  ASSERT_EQ(subscribe(channel, first.cq, 7), 0);
  ASSERT_EQ(subscribe(channel, second.cq, 8), 0);
  arm(first, 0, 0);
  arm_and_wait(second, 0, 0);
  complete(first);
  EXPECT_EQ(taken(), 7u);
  complete(second);
  EXPECT_EQ(taken(), 8u);
}

TEST_F(DevxCompletion, GoToEveryChannelThatSubscribed) {
  auto* const other = make_channel(context);
  ASSERT_EQ(subscribe(channel, first.cq, 7), 0);
  ASSERT_EQ(subscribe(other, first.cq, 8), 0);
  arm_and_wait(first, 0, 0);
  complete(first);
  EXPECT_EQ(taken(), 7u);
  mlx5dv_devx_destroy_event_channel(channel);
  channel = other;
  EXPECT_EQ(taken(), 8u);
  arm_and_wait(first, 1, 1);
  complete(first);
  EXPECT_EQ(taken(), 8u);
}

TEST_F(DevxCompletion, ABlockingCallWaitsForOne) {
  ASSERT_EQ(subscribe(channel, first.cq, 7), 0);
  fcntl(channel->fd, F_SETFL, fcntl(channel->fd, F_GETFL) & ~O_NONBLOCK);
  arm_and_wait(first, 0, 0);
  uint64_t cookie = 0;
  std::thread waiter([&] { cookie = taken(); });
  complete(first);
  waiter.join();
  EXPECT_EQ(cookie, 7u);
}

TEST_F(DevxCompletion, AnArmedQueueMayGo) {
  ASSERT_EQ(subscribe(channel, first.cq, 7), 0);
  arm_and_wait(first, 0, 0);
  EXPECT_EQ(mlx5dv_devx_obj_destroy(first.qp), 0);
  EXPECT_EQ(mlx5dv_devx_obj_destroy(first.cq), 0);
  Queues second = make_queues(1);  // the same number
  EXPECT_EQ(second.cqn, first.cqn);
  complete(second);
  EXPECT_EQ(taken(), 0u);
}

TEST_F(DevxCompletion, RefusesWhatHasNone) {
  EXPECT_EQ(subscribe(channel, first.qp, 7), EINVAL);
  ibv_context* const elsewhere = ibv_open_device(first_device());
  ASSERT_NE(elsewhere, nullptr);
  EXPECT_EQ(subscribe(make_channel(elsewhere), first.cq, 7), EINVAL);
  EXPECT_EQ(ibv_close_device(elsewhere), 0);
  Mailbox in = cq_command();
  in.set(kCqc + 0, 20, 20, 1).set(0x54 / 4, 31, 0, 2048);  // collapsed
  mlx5dv_devx_obj* const collapsed = create(in);
  ASSERT_NE(collapsed, nullptr);
  EXPECT_EQ(subscribe(channel, collapsed, 7), EINVAL);
  // What stands beside a refused event is not subscribed to.
  uint16_t events[] = {kCompletion, kLastWqe};
  EXPECT_EQ(mlx5dv_devx_subscribe_devx_event(channel, first.cq, sizeof events, events, 7), EINVAL);
  arm_and_wait(first, 0, 0);
  complete(first);
  EXPECT_EQ(taken(), 0u);
}

}  // namespace
}  // namespace peal::softnic::abi_test
