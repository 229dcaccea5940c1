// SPDX-License-Identifier: Apache-2.0
//
// The engine's thread by itself: which queue pairs it advances, when it lets control calls in, what
// it does when it ends. Queue pairs are filled in by hand; what is posted are NOPs.
#include "softnic/driver.h"

#include <unistd.h>

#include <chrono>
#include <optional>
#include <thread>

#include "tests/unit/softnic/support.h"

namespace peal::softnic::testing {

class DriverThread : public ::testing::Test {
 protected:
  static constexpr uint32_t kQps = 4;  // numbers from 1
  static constexpr uint32_t kBlocks = 64;

  DriverThread() : port_(std::make_unique<Port>()) {
    cqs_[1].exists = cqs_[1].ignore_overrun = true;
    cqs_[1].cqn = 1;
    cqs_[1].buffer = cqe_.data();
    for (uint32_t qpn = 1; qpn < kQps; ++qpn) {
      QueuePair& qp = qps_[qpn];
      qp.exists = true;
      qp.state = QpState::kReadyToSend;
      qp.qpn = qpn;
      qp.send_cq = qp.receive_cq = 1;
      qp.send_buffer = queues_.data() + qpn * kBlocks * 64;
      qp.send_blocks = kBlocks;
      qp.doorbell = records_.as<mlx5::DoorbellRecord>(qpn * 64);
    }
    port_->lid = fabric_.lid();
    port_->cqs = cqs_.data();
    port_->qps = qps_.get();
    port_->cq_count = 2;
    port_->qp_count = kQps;
    wire_.emplace(*port_, fabric_, router_);
    driver_.emplace(*port_, *wire_);
  }
  ~DriverThread() override { driver_.reset(); }

  void start() {
    driver_->start([this] {
      ++collected_;
      port_->events.count = port_->events.fired = 0;
    });
  }
  static Settings settings() {
    Settings settings;
    settings.fabric = "driver-" + std::to_string(::getpid());
    return settings;
  }

  void post(uint32_t qpn) {
    uint64_t& posted = posted_[qpn];
    mlx5::ControlSegment nop{};
    nop.opmod_idx_opcode = Be32(static_cast<uint32_t>(posted & 0xffff) << 8);
    nop.qpn_ds = Be32(qpn << 8 | 1);
    nop.signature_fm_ce_se = Be32(static_cast<uint32_t>(Completion::kAlways));
    std::memcpy(qps_[qpn].send_buffer + posted % kBlocks * 64, &nop, sizeof nop);
    ++posted;
    const Be32 count(static_cast<uint32_t>(posted & 0xffff));
    __atomic_store_n(&qps_[qpn].doorbell->send.raw, count.raw, __ATOMIC_RELEASE);
  }
  void watch(uint32_t qpn) {
    const Runner::Pause pause(*driver_);
    driver_->watch(qpn);
  }
  uint64_t retired(uint32_t qpn) {
    const Runner::Pause pause(*driver_);
    return qps_[qpn].send.retired;
  }
  bool completes(uint32_t qpn) {
    return eventually([&] { return retired(qpn) == posted_[qpn]; });
  }
  bool goes_idle(uint32_t qpn) {
    return eventually(
        [&] {
          // The thread stays out while control calls come; it must get thousands of rounds done.
          std::this_thread::sleep_for(std::chrono::milliseconds(5));
          const Runner::Pause pause(*driver_);
          return !driver_->busy(qpn);
        },
        4 * kPatience);
  }

  const Settings settings_ = settings();
  Fabric fabric_{settings_};
  const PresentedDevice device_;
  const std::vector<GidTableEntry> gids_;
  Router router_{fabric_, device_, gids_};
  Pages queues_{kQps * kBlocks * 64};
  Pages records_{4096};
  Pages cqe_{4096};
  std::vector<CompletionQueue> cqs_ = std::vector<CompletionQueue>(2);
  std::unique_ptr<QueuePair[]> qps_ = std::make_unique<QueuePair[]>(kQps);
  std::unique_ptr<Port> port_;
  uint64_t posted_[kQps] = {};
  std::atomic<uint32_t> collected_{0};
  std::optional<ShmWire> wire_;
  std::optional<EngineThread> driver_;
};

TEST_F(DriverThread, AdvancesWhatItWatchesAndNothingElse) {
  start();
  post(1);
  post(2);
  watch(2);
  EXPECT_TRUE(completes(2));
  EXPECT_EQ(retired(1), 0u) << "nobody said that it may have work";
  watch(1);
  EXPECT_TRUE(completes(1));
}

TEST_F(DriverThread, FindsWorkOnAQueuePairThatWentIdle) {
  start();
  watch(1);
  watch(2);
  ASSERT_TRUE(goes_idle(1));
  ASSERT_TRUE(goes_idle(2));
  for (int round = 0; round < 10; ++round) post(2);
  EXPECT_TRUE(completes(2));
  EXPECT_EQ(retired(1), 0u);
  ASSERT_TRUE(goes_idle(2));
  watch(2);  // as a control call does: once on each list is enough
  post(2);
  EXPECT_TRUE(completes(2));
}

TEST_F(DriverThread, ForgetsAQueuePairBusyOrIdle) {
  start();
  watch(1);
  watch(2);
  ASSERT_TRUE(goes_idle(2));
  {
    const Runner::Pause pause(*driver_);
    driver_->watch(1);
    driver_->forget(1);
    driver_->forget(2);
  }
  post(1);
  post(2);
  post(3);
  watch(3);
  EXPECT_TRUE(completes(3));
  EXPECT_EQ(retired(1), 0u);
  EXPECT_EQ(retired(2), 0u);
}

TEST_F(DriverThread, StandsStillWhileAControlCallLooks) {
  start();
  watch(1);
  for (int call = 0; call < 200; ++call) {  // the thread is busy: each call gets in all the same
    const Runner::Pause pause(*driver_);
    const uint64_t before = qps_[1].send.retired;
    if (posted_[1] - before < kBlocks / 2) post(1);
    EXPECT_EQ(qps_[1].send.retired, before);
  }
  EXPECT_TRUE(completes(1));
}

TEST_F(DriverThread, HandsOverEventsThatTheEngineRaised) {
  start();
  {
    const Runner::Pause pause(*driver_);
    port_->events.raise(AsyncEvent::Kind::kQpFatal, 1);
  }
  EXPECT_TRUE(eventually([&] { return collected_ == 1; }));
  watch(1);
  post(1);
  EXPECT_TRUE(completes(1));
  EXPECT_EQ(collected_, 1u) << "only when there are some";
}

TEST_F(DriverThread, LooksOnceMoreWhenItEnds) {
  start();
  {
    const Runner::Pause pause(*driver_);
    driver_->watch(1);
    post(1);
  }
  driver_.reset();
  EXPECT_EQ(qps_[1].send.retired, 1u);
}

TEST_F(DriverThread, EndsWithoutEverHavingBegun) {
  post(1);
  driver_.reset();
  EXPECT_EQ(qps_[1].send.retired, 0u);
}

}  // namespace peal::softnic::testing
