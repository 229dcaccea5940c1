// SPDX-License-Identifier: Apache-2.0
//
// Control calls: what is created, what is refused, and with which status; queue pair states; DC.
#include <poll.h>

#include <fstream>

#include "tests/unit/softnic/support.h"

namespace peal::softnic::testing {

using Control = SoftNic;

CommandStatus status(const Refusal& refusal) { return refusal.status; }
CommandStatus status(const Created& created) { return created.refusal.status; }

TEST_F(Control, DomainInUseIsBusy) {
  const uint32_t domain = nic->allocate_pd().number;
  {
    Region memory(*nic, domain, 64);
    EXPECT_EQ(status(nic->free_pd(domain)), CommandStatus::kBusy);
  }
  EXPECT_EQ(status(nic->free_pd(domain)), CommandStatus::kOk);
  EXPECT_EQ(status(nic->free_pd(domain)), CommandStatus::kBadResource);
}

TEST_F(Control, CompletionQueueInUseIsBusy) {
  auto qp = make_qp();
  EXPECT_EQ(status(nic->destroy_cq(cq->cqn)), CommandStatus::kBusy);
  EXPECT_EQ(status(nic->destroy_cq(0x5555)), CommandStatus::kBadResource);
}

TEST_F(Control, UarPageInUseIsBusy) {
  Pages page(4096);
  const uint32_t uar = nic->attach_uar(page.data()).number;
  Pages cqes(4096);
  const Created queue = nic->create_cq(
      {.buffer = cqes.data(), .log_entries = 2, .uar_page = uar, .ignore_overrun = true});
  EXPECT_EQ(status(queue), CommandStatus::kOk);
  EXPECT_EQ(status(nic->detach_uar(uar)), CommandStatus::kBusy);
  EXPECT_EQ(status(nic->destroy_cq(queue.number)), CommandStatus::kOk);
  EXPECT_EQ(status(nic->detach_uar(uar)), CommandStatus::kOk);
}

TEST_F(Control, RegistrationsAreChecked) {
  Pages memory(4096);
  Key good{.pd = pd, .access = 0, .iova = 0, .bytes = 4096, .memory = memory.data()};
  Key bad = good;
  bad.pd = 0x4444;
  EXPECT_EQ(status(nic->register_memory(bad)), CommandStatus::kBadResource);
  bad = good;
  bad.access = kRemoteWrite;
  EXPECT_EQ(status(nic->register_memory(bad)), CommandStatus::kBadParameter);
  bad.access = kRemoteAtomic;
  EXPECT_EQ(status(nic->register_memory(bad)), CommandStatus::kBadParameter);
  bad = good;
  bad.iova = ~0ull - 100;
  EXPECT_EQ(status(nic->register_memory(bad)), CommandStatus::kBadParameter);
  bad = good;
  bad.memory = nullptr;
  EXPECT_EQ(status(nic->register_memory(bad)), CommandStatus::kBadParameter);
  const Created key = nic->register_memory(good);
  EXPECT_EQ(status(key), CommandStatus::kOk);
  EXPECT_GE(key.number >> 8, 16u);
  EXPECT_EQ(status(nic->deregister_memory(key.number ^ 1)), CommandStatus::kBadResource);
  EXPECT_EQ(status(nic->deregister_memory(key.number)), CommandStatus::kOk);
}

TEST_F(Control, CompletionQueuesAreChecked) {
  Pages memory(8192);
  const CompletionQueueConfig good{
      .buffer = memory.data(), .doorbell = memory.data() + 4096, .log_entries = 2};
  CompletionQueueConfig bad = good;
  bad.buffer = memory.data() + 8;
  EXPECT_EQ(status(nic->create_cq(bad)), CommandStatus::kBadParameter);
  bad = good;
  bad.cqe_bytes = 96;
  EXPECT_EQ(status(nic->create_cq(bad)), CommandStatus::kBadSize);
  bad = good;
  bad.log_entries = 23;
  EXPECT_EQ(status(nic->create_cq(bad)), CommandStatus::kBadSize);
  bad = good;
  bad.doorbell = nullptr;
  EXPECT_EQ(status(nic->create_cq(bad)), CommandStatus::kBadParameter);
  bad = good;
  bad.uar_page = 0x777;
  EXPECT_EQ(status(nic->create_cq(bad)), CommandStatus::kBadResource);
}

TEST_F(Control, QueuePairsAreChecked) {
  Pages memory(1 << 16);
  QueuePairConfig good;
  good.pd = pd;
  good.send_cq = cq->cqn;
  good.send_buffer = memory.data();
  good.log_send_blocks = 4;
  good.doorbell = memory.as<mlx5::DoorbellRecord>(4096);
  const auto outcome = [&](auto change) {
    QueuePairConfig config = good;
    change(config);
    const Created qp = nic->create_qp(config);
    if (!qp.refusal.refused()) nic->destroy_qp(qp.number);
    return status(qp);
  };
  using C = QueuePairConfig;
  EXPECT_EQ(outcome([](C&) {}), CommandStatus::kOk);
  EXPECT_EQ(outcome([](C& c) { c.pd = 999; }), CommandStatus::kBadResource);
  EXPECT_EQ(outcome([](C& c) { c.send_cq = 999; }), CommandStatus::kBadResource);
  EXPECT_EQ(outcome([](C& c) { c.receive_cq = 999; }), CommandStatus::kBadResource);
  EXPECT_EQ(outcome([](C& c) { c.uar_page = 999; }), CommandStatus::kBadResource);
  EXPECT_EQ(outcome([](C& c) { c.log_send_blocks = 16; }), CommandStatus::kBadParameter);
  EXPECT_EQ(outcome([](C& c) { c.send_buffer += 16; }), CommandStatus::kBadParameter);
  EXPECT_EQ(outcome([](C& c) { c.doorbell = nullptr; }), CommandStatus::kBadParameter);
  EXPECT_EQ(outcome([](C& c) { c.service = Service::kUnreliable; }), CommandStatus::kBadParameter);
}

TEST_F(Control, StatesFollowTheMachine) {
  using S = QpState;
  for (const S from : {S::kReset, S::kInit, S::kReadyToReceive, S::kReadyToSend, S::kError}) {
    for (const S to : {S::kReset, S::kInit, S::kReadyToReceive, S::kReadyToSend, S::kError}) {
      auto qp = make_qp();
      qp->attributes.remote_qpn = qp->qpn;
      qp->attributes.remote_lid = nic->lid();
      for (S now = S::kReset; now < from && from != S::kError;) {
        const S next = static_cast<S>(static_cast<int>(now) + 1);
        ASSERT_FALSE(qp->to(next, now).refused());
        now = next;
      }
      if (from == S::kError) {
        ASSERT_FALSE(qp->to(S::kError, S::kReset).refused());
      }
      const bool legal = to == S::kReset || to == S::kError ||
                         (to == S::kInit && (from == S::kReset || from == S::kInit)) ||
                         (to == S::kReadyToReceive && from == S::kInit) ||
                         (to == S::kReadyToSend && (from == S::kReadyToReceive || from == to));
      EXPECT_EQ(status(qp->to(to, from)), legal ? CommandStatus::kOk : CommandStatus::kBadQpState)
          << static_cast<int>(from) << " to " << static_cast<int>(to);
      EXPECT_EQ(qp->query().state, legal ? to : from);
    }
  }
}

TEST_F(Control, TransitionFromAnotherStateThanClaimedIsRefused) {
  auto qp = make_qp();
  EXPECT_EQ(status(qp->to(QpState::kReadyToReceive, QpState::kInit)), CommandStatus::kBadQpState);
  EXPECT_EQ(qp->query().state, QpState::kReset);
}

TEST_F(Control, ReadyToReceiveChecksMtuAndMessageSize) {
  auto qp = make_qp();
  qp->to_init();
  qp->attributes.mtu = 0;
  EXPECT_EQ(status(qp->to(QpState::kReadyToReceive, QpState::kInit)), CommandStatus::kBadParameter);
  qp->attributes.mtu = 5;
  qp->attributes.log_max_message = 31;
  EXPECT_EQ(status(qp->to(QpState::kReadyToReceive, QpState::kInit)), CommandStatus::kBadParameter);
}

TEST_F(Control, QueryInResetAnswersAPlausibleMtu) {
  auto qp = make_qp();
  EXPECT_EQ(qp->query().mtu, 1);
  EXPECT_EQ(qp->query().state, QpState::kReset);
}

TEST_F(Control, QueryAnswersWhatWasSet) {
  auto qp = make_loop();
  const QueuePairAttributes answer = qp->query();
  EXPECT_EQ(answer.remote_qpn, qp->qpn);
  EXPECT_EQ(answer.remote_lid, nic->lid());
  EXPECT_EQ(answer.mtu, 5);
  EXPECT_EQ(answer.retry_count, 3);
  EXPECT_EQ(answer.atomic_mode, 3);
}

TEST_F(Control, UnknownNumbersAreBadResources) {
  QueuePairAttributes attributes;
  EXPECT_EQ(status(nic->query_qp(0x6666, &attributes)), CommandStatus::kBadResource);
  EXPECT_EQ(status(nic->modify_qp(0x6666, QpState::kReset, attributes)),
            CommandStatus::kBadResource);
  EXPECT_EQ(status(nic->destroy_qp(0x6666)), CommandStatus::kBadResource);
  EXPECT_EQ(status(nic->destroy_dc_target(0x6666)), CommandStatus::kBadResource);
  EXPECT_EQ(status(nic->detach_uar(0x6666)), CommandStatus::kBadResource);
  EXPECT_EQ(nic->cq_produced(0x6666), 0u);
}

TEST_F(Control, AThousandQueuePairsFitInAHundredMegabytes) {
  const auto resident = [] {
    std::ifstream statm("/proc/self/statm");
    long pages = 0;
    statm >> pages >> pages;
    return pages * 4096;
  };
  Pages memory(64 << 10);
  const long before = resident();
  std::vector<uint32_t> qpns;
  for (int i = 0; i < 1000; ++i) {
    QueuePairConfig config;
    config.pd = pd;
    config.send_cq = cq->cqn;
    config.send_buffer = memory.data();
    config.log_send_blocks = 4;
    config.doorbell = memory.as<mlx5::DoorbellRecord>(4096 + static_cast<size_t>(i) * 8);
    qpns.push_back(nic->create_qp(config).number);
    QueuePairAttributes to;
    to.remote_lid = nic->lid();
    to.remote_qpn = qpns.back();
    for (const QpState state : {QpState::kInit, QpState::kReadyToReceive, QpState::kReadyToSend}) {
      to.state = state;
      const auto from = static_cast<QpState>(static_cast<int>(state) - 1);
      ASSERT_FALSE(nic->modify_qp(qpns.back(), from, to).refused());
    }
  }
  EXPECT_LT(resident() - before, 100 << 20);
  for (const uint32_t qpn : qpns) EXPECT_EQ(status(nic->destroy_qp(qpn)), CommandStatus::kOk);
}

TEST_F(Control, CallsGetThroughWhileTheEngineIsBusy) {
  auto qp = make_loop({.log_blocks = 10});
  Region memory(*nic, pd, 64 << 20);
  for (uint32_t i = 0; i < 20; ++i) {
    qp->post(write_from(0, memory.key, 32 << 20, memory.key, 32 << 20));
  }
  qp->ring();
  for (int i = 0; i < 50; ++i)
    EXPECT_EQ(status(nic->free_pd(nic->allocate_pd().number)), CommandStatus::kOk);
  for (int i = 0; i < 20; ++i) EXPECT_EQ(cq->await().kind, CqeOpcode::kRequester);
}

TEST_F(Control, QueuePairMayBeDestroyedInTheMiddleOfAWrite) {
  auto qp = make_loop();
  Region memory(*nic, pd, 64 << 20);
  qp->post(write_from(0, memory.key, 32 << 20, memory.key, 32 << 20));
  qp->ring();
  ASSERT_TRUE(eventually([&] { return qp->query().software_send_counter == 1; }));
  qp.reset();
  EXPECT_LE(nic->cq_produced(cq->cqn), 1u);
}

TEST_F(Control, EventDescriptorTellsWhetherAnEventWaits) {
  const auto readable = [&] {
    pollfd entry = {nic->event_fd(), POLLIN, 0};
    return poll(&entry, 1, 0) == 1;
  };
  EXPECT_FALSE(readable());
  auto qp = make_loop();
  run(*qp, write_inline<uint64_t>(0, 0x1100, 1));
  EXPECT_TRUE(eventually(readable));
  AsyncEvent event;
  EXPECT_TRUE(nic->next_event(&event));
  EXPECT_FALSE(readable());
  EXPECT_FALSE(nic->next_event(&event));
}

TEST_F(Control, LidAndGuidAreUniqueOnTheHost) {
  const auto other = SoftwareNic::open();
  EXPECT_NE(other->lid(), nic->lid());
  EXPECT_NE(other->guid(), nic->guid());
  EXPECT_GE(nic->lid(), 1);
  EXPECT_LE(nic->lid(), 0xbfff);
}

}  // namespace peal::softnic::testing
