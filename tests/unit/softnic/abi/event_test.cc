// SPDX-License-Identifier: Apache-2.0
//
// Completion channels: when an armed queue raises its event, what the descriptor does, and who
// waits for acknowledgements.
#include <fcntl.h>
#include <poll.h>
#include <signal.h>

#include <atomic>
#include <fstream>
#include <string>
#include <thread>

#include "tests/unit/softnic/abi/data_support.h"

namespace peal::softnic::abi_test {
namespace {

class SoftnicAbiEvent : public SoftnicAbiData {
 protected:
  void SetUp() override {
    SoftnicAbiData::SetUp();
    channel = ibv_create_comp_channel(context);
    ASSERT_NE(channel, nullptr);
    int name = 0;
    EXPECT_EQ(ibv_destroy_qp(a), 0);
    EXPECT_EQ(ibv_destroy_qp(b), 0);
    EXPECT_EQ(ibv_destroy_cq(cq), 0);
    EXPECT_EQ(ibv_destroy_cq(receive_cq), 0);
    cq = ibv_create_cq(context, 100, &names[name++], channel, 0);
    receive_cq = ibv_create_cq(context, 100, &names[name], channel, 0);
    a = make_qp();
    b = make_qp();
    connect();
  }

  bool readable(int patience_ms) {
    pollfd wait = {.fd = channel->fd, .events = POLLIN, .revents = 0};
    return poll(&wait, 1, patience_ms) == 1;
  }
  /// The queue of the next event, which must come.
  ibv_cq* event() {
    EXPECT_TRUE(readable(30000)) << "no event";
    ibv_cq* from = nullptr;
    void* name = nullptr;
    EXPECT_EQ(ibv_get_cq_event(channel, &from, &name), 0);
    if (from != nullptr) {
      EXPECT_EQ(name, from->cq_context);
    }
    return from;
  }
  void write_word(unsigned flags = IBV_SEND_SIGNALED) {
    std::vector<ibv_sge> list = {piece(0, 8)};
    ibv_send_wr wr = request(IBV_WR_RDMA_WRITE, 1, list, 4096);
    wr.send_flags = flags;
    ASSERT_EQ(post(a, wr), 0);
  }
  void send_word(unsigned flags) {
    ASSERT_EQ(post_receive(b, 2, {piece(4096, 64)}), 0);
    std::vector<ibv_sge> list = {piece(0, 8)};
    ibv_send_wr wr = request(IBV_WR_SEND, 1, list);
    wr.send_flags = IBV_SEND_SIGNALED | flags;
    ASSERT_EQ(post(a, wr), 0);
    EXPECT_EQ(next(cq).status, IBV_WC_SUCCESS);  // hence the receive has completed too
  }

  /// By record and register, which mlx5dv_init_obj hands out; returns when the NIC has heard.
  void arm_directly(ibv_cq* of, uint32_t consumed, uint32_t number, bool solicited_only = false) {
    mlx5dv_cq described = {};
    mlx5dv_obj object = {};
    object.cq.in = of;
    object.cq.out = &described;
    ASSERT_EQ(mlx5dv_init_obj(&object, MLX5DV_OBJ_CQ), 0);
    const uint32_t command = number << 28 | (solicited_only ? 1u << 24 : 0) | consumed;
    __atomic_store_n(described.dbrec + 1, htobe32(command), __ATOMIC_RELEASE);
    auto* const reg = reinterpret_cast<uint64_t*>(static_cast<uint8_t*>(described.cq_uar) + 0x20);
    __atomic_store_n(reg, htobe64(uint64_t{command} << 32 | described.cqn), __ATOMIC_RELEASE);
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(30);
    while (__atomic_load_n(reg, __ATOMIC_ACQUIRE) != 0) {
      ASSERT_LT(std::chrono::steady_clock::now(), deadline) << "nobody hears the register";
      std::this_thread::yield();
    }
  }

  ibv_comp_channel* channel = nullptr;
  int names[2] = {};
};

TEST_P(SoftnicAbiEvent, AnArmedQueueRaisesOneEvent) {
  ASSERT_EQ(ibv_req_notify_cq(cq, 0), 0);
  EXPECT_FALSE(readable(0));
  write_word();
  EXPECT_EQ(event(), cq);
  write_word();
  EXPECT_EQ(next(cq).wr_id, 1u);
  EXPECT_EQ(next(cq).wr_id, 1u);
  EXPECT_FALSE(readable(0));  // not armed again
  ibv_ack_cq_events(cq, 1);
}

TEST_P(SoftnicAbiEvent, ArmingAfterTheCompletionRaisesItAtOnce) {
  write_word();
  await_written(cq, 0);
  EXPECT_FALSE(readable(0));
  ASSERT_EQ(ibv_req_notify_cq(cq, 0), 0);
  EXPECT_TRUE(readable(0));
  EXPECT_EQ(event(), cq);
  EXPECT_EQ(next(cq).wr_id, 1u);
  ASSERT_EQ(ibv_req_notify_cq(cq, 0), 0);  // nothing waits now
  EXPECT_FALSE(readable(0));
  write_word();
  EXPECT_EQ(event(), cq);
  ibv_ack_cq_events(cq, 2);
}

/// What perftest does: take the event, arm, then poll once.
TEST_P(SoftnicAbiEvent, AnEntryIsToldOfOnce) {
  ASSERT_EQ(ibv_req_notify_cq(cq, 0), 0);
  for (int i = 0; i < 3; ++i) {
    write_word();
    EXPECT_EQ(event(), cq);
    ASSERT_EQ(ibv_req_notify_cq(cq, 0), 0);  // its entry still waits
    EXPECT_FALSE(readable(0));
    EXPECT_EQ(next(cq).wr_id, 1u);
  }
  ibv_ack_cq_events(cq, 3);
}

TEST_P(SoftnicAbiEvent, SolicitedOnlyWaitsForASolicitedOne) {
  ASSERT_EQ(ibv_req_notify_cq(receive_cq, 1), 0);
  send_word(0);
  EXPECT_FALSE(readable(0));
  send_word(IBV_SEND_SOLICITED);
  EXPECT_EQ(event(), receive_cq);
  send_word(IBV_SEND_SOLICITED);
  send_word(0);
  ASSERT_EQ(ibv_req_notify_cq(receive_cq, 1), 0);  // one waits already
  EXPECT_EQ(event(), receive_cq);
  send_word(0);
  ASSERT_EQ(ibv_req_notify_cq(receive_cq, 1), 0);
  EXPECT_FALSE(readable(0));
  ASSERT_EQ(ibv_req_notify_cq(receive_cq, 0), 0);  // asks for more: any
  EXPECT_EQ(event(), receive_cq);
  ibv_ack_cq_events(receive_cq, 3);
}

TEST_P(SoftnicAbiEvent, AnErrorIsAlwaysSolicited) {
  ASSERT_EQ(ibv_req_notify_cq(cq, 1), 0);
  std::vector<ibv_sge> list = {piece(0, 8)};
  ibv_send_wr wr = request(IBV_WR_RDMA_WRITE, 6, list, 4096);
  wr.wr.rdma.rkey ^= 0x7700;
  ASSERT_EQ(post(a, wr), 0);
  EXPECT_EQ(event(), cq);
  EXPECT_EQ(next(cq).status, IBV_WC_REM_ACCESS_ERR);
  ibv_ack_cq_events(cq, 1);
}

TEST_P(SoftnicAbiEvent, EventsOfSeveralQueuesComeInOrder) {
  ASSERT_EQ(ibv_req_notify_cq(cq, 0), 0);
  ASSERT_EQ(ibv_req_notify_cq(receive_cq, 0), 0);
  send_word(0);
  ibv_cq* first = event();
  ibv_cq* second = event();
  EXPECT_NE(first, second);
  EXPECT_FALSE(readable(0));
  ibv_ack_cq_events(first, 1);
  ibv_ack_cq_events(second, 1);
}

TEST_P(SoftnicAbiEvent, ADescriptorThatDoesNotBlockSaysTryAgain) {
  ASSERT_EQ(fcntl(channel->fd, F_SETFL, fcntl(channel->fd, F_GETFL) | O_NONBLOCK), 0);
  ibv_cq* from = nullptr;
  void* name = nullptr;
  EXPECT_EQ(ibv_get_cq_event(channel, &from, &name), -1);
  EXPECT_EQ(errno, EAGAIN);
}

TEST_P(SoftnicAbiEvent, ADescriptorThatBlocksWaits) {
  ASSERT_EQ(ibv_req_notify_cq(cq, 0), 0);
  ibv_cq* from = nullptr;
  void* name = nullptr;
  std::thread waiter([&] { EXPECT_EQ(ibv_get_cq_event(channel, &from, &name), 0); });
  write_word();
  waiter.join();
  EXPECT_EQ(from, cq);
  EXPECT_EQ(name, &names[0]);
  ibv_ack_cq_events(cq, 1);
}

// rdma-core waits in read(), which goes on after a handler that restarts; poll() never does, and a
// profiler's signal was told to the program as the failure of its NIC.
TEST_P(SoftnicAbiEvent, ASignalDoesNotEndTheWait) {
  static std::atomic<int> heard{0};
  heard = 0;
  struct sigaction counts {};
  counts.sa_handler = [](int) { ++heard; };
  counts.sa_flags = SA_RESTART;
  struct sigaction before {};
  ASSERT_EQ(sigaction(SIGUSR1, &counts, &before), 0);
  ASSERT_EQ(ibv_req_notify_cq(cq, 0), 0);
  ibv_cq* from = nullptr;
  void* name = nullptr;
  std::atomic<pid_t> thread{0};
  std::atomic<bool> returned{false};
  std::atomic<bool> done{false};
  std::thread waiter([&] {
    thread = gettid();
    EXPECT_EQ(ibv_get_cq_event(channel, &from, &name), 0);
    returned = true;
    while (!done) std::this_thread::yield();
  });
  const auto asleep = [&] {
    std::ifstream stat("/proc/self/task/" + std::to_string(thread) + "/stat");
    std::string word[3];
    return stat >> word[0] >> word[1] >> word[2] && word[2] == "S";
  };
  for (int sent = 0; sent < 20; ++sent) {
    while (!returned && (heard != sent || !asleep())) std::this_thread::yield();
    pthread_kill(waiter.native_handle(), SIGUSR1);
  }
  EXPECT_FALSE(returned);
  done = true;
  write_word();
  waiter.join();
  sigaction(SIGUSR1, &before, nullptr);
  EXPECT_EQ(from, cq);
  if (from != nullptr) ibv_ack_cq_events(cq, 1);
}

TEST_P(SoftnicAbiEvent, DestroyingAQueueWaitsForItsAcknowledgements) {
  ASSERT_EQ(ibv_req_notify_cq(cq, 0), 0);
  write_word();
  EXPECT_EQ(event(), cq);
  EXPECT_EQ(ibv_destroy_qp(a), 0);
  EXPECT_EQ(ibv_destroy_qp(b), 0);
  EXPECT_EQ(ibv_destroy_cq(cq), EBUSY);  // never acknowledged
  std::thread acknowledges([&] { ibv_ack_cq_events(cq, 1); });
  EXPECT_EQ(ibv_destroy_cq(cq), 0);
  acknowledges.join();
}

TEST_P(SoftnicAbiEvent, AcknowledgingTooManyIsRefused) {
  errno = 0;
  ibv_ack_cq_events(cq, 1);
  EXPECT_EQ(errno, EINVAL);
  EXPECT_EQ(ibv_destroy_qp(a), 0);
  EXPECT_EQ(ibv_destroy_qp(b), 0);
  EXPECT_EQ(ibv_destroy_cq(cq), 0);  // and counted for nothing
}

TEST_P(SoftnicAbiEvent, AnEventNobodyTookGoesWithItsQueue) {
  ASSERT_EQ(ibv_req_notify_cq(cq, 0), 0);
  write_word();
  EXPECT_TRUE(readable(30000));
  EXPECT_EQ(ibv_destroy_qp(a), 0);
  EXPECT_EQ(ibv_destroy_qp(b), 0);
  EXPECT_EQ(ibv_destroy_comp_channel(channel), EBUSY);
  EXPECT_EQ(ibv_destroy_cq(cq), 0);
  EXPECT_FALSE(readable(0));
  EXPECT_EQ(ibv_destroy_cq(receive_cq), 0);
  EXPECT_EQ(ibv_destroy_comp_channel(channel), 0);
}

TEST_P(SoftnicAbiEvent, AQueueWithoutAChannelHasNobodyToTell) {
  ibv_cq* silent = ibv_create_cq(context, 1, nullptr, nullptr, 0);
  EXPECT_EQ(ibv_req_notify_cq(silent, 0), 0);
  EXPECT_EQ(ibv_destroy_cq(silent), 0);
}

/// What a program that sleeps does, a thousand times: no completion may be slept over.
TEST_P(SoftnicAbiEvent, ArmThenPollThenSleepMissesNothing) {
  for (uint32_t left = 1000; left > 0;) {
    write_word();
    ASSERT_EQ(ibv_req_notify_cq(cq, 0), 0);
    ibv_wc wc = {};
    int count = ibv_poll_cq(cq, 1, &wc);
    if (count == 0) {
      ASSERT_EQ(event(), cq);
      ibv_ack_cq_events(cq, 1);
      count = ibv_poll_cq(cq, 1, &wc);
    }
    while (count == 0) count = ibv_poll_cq(cq, 1, &wc);  // an event of an earlier arm
    ASSERT_EQ(count, 1);
    ASSERT_EQ(wc.status, IBV_WC_SUCCESS);
    --left;
  }
}

// UCX's ud_mlx5 makes its queues by verbs, and arms them itself: without the event it waits for
// ever for the completion of what it sent again.
TEST_P(SoftnicAbiEvent, AQueueArmedThroughItsRecordRaisesOneEvent) {
  arm_directly(cq, 0, 0);
  EXPECT_FALSE(readable(0));
  write_word();
  EXPECT_EQ(event(), cq);
  write_word();
  await_written(cq, 1);
  EXPECT_FALSE(readable(0));  // not armed again
  arm_directly(cq, 1, 1);     // one waits already
  EXPECT_EQ(event(), cq);
  arm_directly(cq, 2, 2);
  write_word();
  EXPECT_EQ(event(), cq);
  ibv_ack_cq_events(cq, 3);
}

TEST_P(SoftnicAbiEvent, AQueueArmedThroughItsRecordForSolicitedEntriesWaitsForOne) {
  arm_directly(receive_cq, 0, 0, true);
  send_word(0);
  EXPECT_FALSE(readable(0));
  send_word(IBV_SEND_SOLICITED);
  EXPECT_EQ(event(), receive_cq);
  ibv_ack_cq_events(receive_cq, 1);
}

TEST_P(SoftnicAbiEvent, AQueueArmedThroughItsRecordMayGo) {
  arm_directly(cq, 0, 0);
  EXPECT_EQ(ibv_destroy_qp(a), 0);
  EXPECT_EQ(ibv_destroy_qp(b), 0);
  EXPECT_EQ(ibv_destroy_cq(cq), 0);
  cq = ibv_create_cq(context, 100, &names[0], channel, 0);
  a = make_qp();
  b = make_qp();
  connect();
  write_word();
  EXPECT_EQ(next(cq).wr_id, 1u);
  EXPECT_FALSE(readable(0));
}

INSTANTIATE_TEST_SUITE_P(Ways, SoftnicAbiEvent, kBothWays, way_name);

}  // namespace
}  // namespace peal::softnic::abi_test
