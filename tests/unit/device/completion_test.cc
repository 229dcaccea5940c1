// SPDX-License-Identifier: Apache-2.0
//
// Polling one collapsed CQE: which counters are news, and what an error leaves behind.
#include "device/nic/completion.h"

#include <sys/mman.h>

#include <csignal>
#include <thread>
#include <vector>

#include "gtest/gtest.h"
#include "tests/support/device_rig.h"

namespace peal::nic {
namespace {

using mlx5::Cqe;
using mlx5::CqeOpcode;
using mlx5::kMaxDepth;
using testing::QueueRig;
using testing::RigOptions;

constexpr auto kReach = Reach::kGpu;

class CompletionQueue {
 public:
  explicit CompletionQueue(const RigOptions& options = {}) : rig(options, 1, 7, &stop) {}

  /// The NIC completes the WQE at `counter` (16 bits).
  void complete(uint64_t counter, CqeOpcode opcode = CqeOpcode::kRequester, uint8_t syndrome = 0,
                uint8_t vendor = 0) {
    testing::SeenWqe wqe{counter, std::vector<uint8_t>(16)};
    wqe.bytes = {0,
                 static_cast<uint8_t>(counter >> 8),
                 static_cast<uint8_t>(counter),
                 0x10,
                 0xab,
                 0xc0,
                 0x07,
                 3,
                 0,
                 0,
                 0,
                 8,
                 0,
                 0,
                 0,
                 0};
    rig.nic().write_cqe(wqe, opcode, syndrome, vendor);
  }
  void post_up_to(uint64_t index) {
    q.reserved = q.rung = index;
    q.posted = posted_word(index, 1);
  }

  uint32_t stop = 0;
  QueueRig rig;
  SendQueue& q = rig.queue;
};

TEST(Completion, NothingIsCompleteBeforeTheNicWrote) {
  CompletionQueue cq;
  cq.post_up_to(3);
  for (const int fill : {0xff, 0xf0, 0xf1}) {
    std::memset(static_cast<void*>(&cq.rig.cqe()), fill, sizeof(Cqe));
    poll<kReach>(cq.q);
    EXPECT_EQ(cq.q.completed, 0u) << fill;
    EXPECT_EQ(queue_status<kReach>(cq.q), Status::kOk);
  }
}

TEST(Completion, NamesTheFirstBlockOfTheLastCompletedWqe) {
  CompletionQueue cq;
  cq.post_up_to(5);
  cq.complete(2);
  poll<kReach>(cq.q);
  EXPECT_EQ(cq.q.completed, 3u);
  cq.complete(4);
  poll<kReach>(cq.q);
  EXPECT_EQ(cq.q.completed, 5u);
}

TEST(Completion, OldCountersMoveNothingBack) {
  CompletionQueue cq;
  cq.post_up_to(50);
  cq.complete(40);
  poll<kReach>(cq.q);
  cq.complete(30);
  poll<kReach>(cq.q);
  EXPECT_EQ(cq.q.completed, 41u);
}

TEST(Completion, TheSameCounterTwiceIsNoNews) {
  CompletionQueue cq;
  cq.post_up_to(1);
  cq.complete(0);
  poll<kReach>(cq.q);
  cq.post_up_to(100);  // the queue moves on, the CQE stays
  poll<kReach>(cq.q);
  EXPECT_EQ(cq.q.completed, 1u);
}

// Nothing orders `rung` before what the NIC says.
TEST(Completion, CountsWhatRungDoesNotSayYet) {
  CompletionQueue cq;
  cq.post_up_to(10);
  cq.q.rung = 0;
  cq.complete(9);
  poll<kReach>(cq.q);
  EXPECT_EQ(cq.q.completed, 10u);
}

TEST(Completion, CountsRunOnReservedButUnrungWork) {
  CompletionQueue cq;
  cq.post_up_to(10);
  cq.q.reserved = 120;
  cq.q.posted = posted_word(90, 1);
  cq.complete(9);
  poll<kReach>(cq.q);
  EXPECT_EQ(cq.q.completed, 10u);
}

TEST(Completion, ReachesAcrossTheWholeDepthOfTheDeepestQueue) {
  CompletionQueue cq({.depth = kMaxDepth, .start = 3});
  cq.post_up_to(3 + kMaxDepth);
  cq.complete(3);
  poll<kReach>(cq.q);
  EXPECT_EQ(cq.q.completed, 4u);
  cq.complete(3 + kMaxDepth - 1);
  poll<kReach>(cq.q);
  EXPECT_EQ(cq.q.completed, 3u + kMaxDepth);
}

class CompletionWrap : public ::testing::TestWithParam<uint64_t> {};

TEST_P(CompletionWrap, IsRebuiltFrom16BitsAtEveryStep) {
  const uint64_t start = GetParam();
  CompletionQueue cq({.start = start});
  for (uint64_t index = start; index < start + 300; ++index) {
    cq.post_up_to(index + 1 + index % 7);
    cq.complete(index);
    poll<kReach>(cq.q);
    ASSERT_EQ(cq.q.completed, index + 1);
  }
}

INSTANTIATE_TEST_SUITE_P(Starts, CompletionWrap,
                         ::testing::Values(0, 0xff80, 0xffff, 0x1ff90, 0xffffff80, 0xffffffff,
                                           0x7fffffffffff8000));

TEST(Completion, AnErrorIsKeptWithAllThatIsKnown) {
  CompletionQueue cq({.start = 0x1fffe});
  cq.post_up_to(0x20005);
  const uint64_t before = now_ns();
  cq.complete(0x20003, CqeOpcode::kRequesterError, 0x13, 0x88);
  poll<kReach>(cq.q);
  EXPECT_EQ(queue_status<kReach>(cq.q), Status::kQueueError);
  EXPECT_EQ(cq.q.error.wqe_index, 0x20003u);
  EXPECT_EQ(cq.q.error.syndrome, 0x13);
  EXPECT_EQ(cq.q.error.vendor_syndrome, 0x88);
  EXPECT_EQ(cq.q.error.opcode, 0x10);
  EXPECT_GE(cq.q.error.time_ns, before);
  EXPECT_LE(cq.q.error.time_ns, now_ns());
}

TEST(Completion, AnErrorCompletesNothing) {
  CompletionQueue cq;
  cq.post_up_to(5);
  cq.complete(3, CqeOpcode::kRequesterError, 0x04);
  poll<kReach>(cq.q);
  EXPECT_EQ(cq.q.completed, 0u);
}

TEST(Completion, AResponderErrorIsAnErrorToo) {
  CompletionQueue cq;
  cq.post_up_to(1);
  cq.complete(0, CqeOpcode::kResponderError, 0x11);
  poll<kReach>(cq.q);
  EXPECT_EQ(queue_status<kReach>(cq.q), Status::kQueueError);
  EXPECT_EQ(cq.q.error.syndrome, 0x11);
}

TEST(Completion, FlushesBehindAnErrorDoNotOverwriteIt) {
  CompletionQueue cq;
  cq.post_up_to(9);
  cq.complete(2, CqeOpcode::kRequesterError, 0x15, 0x81);
  poll<kReach>(cq.q);
  for (uint64_t flushed = 3; flushed < 9; ++flushed) {
    cq.complete(flushed, CqeOpcode::kRequesterError, 0x05);
    poll<kReach>(cq.q);
  }
  EXPECT_EQ(cq.q.error.wqe_index, 2u);
  EXPECT_EQ(cq.q.error.syndrome, 0x15);
  EXPECT_EQ(cq.q.error.vendor_syndrome, 0x81);
}

class CompletionSyndrome : public ::testing::TestWithParam<int> {};

TEST_P(CompletionSyndrome, ReachesTheErrorRecord) {
  CompletionQueue cq;
  cq.post_up_to(1);
  cq.complete(0, CqeOpcode::kRequesterError, static_cast<uint8_t>(GetParam()), 0xfe);
  poll<kReach>(cq.q);
  EXPECT_EQ(cq.q.error.syndrome, GetParam());
  EXPECT_EQ(cq.q.error.vendor_syndrome, 0xfe);
}

INSTANTIATE_TEST_SUITE_P(Every, CompletionSyndrome,
                         ::testing::Values(0x01, 0x02, 0x04, 0x05, 0x06, 0x10, 0x11, 0x12, 0x13,
                                           0x14, 0x15, 0x16, 0x22));

TEST(Completion, TheFirstErrorWins) {
  CompletionQueue cq;
  QueueError first{};
  first.wqe_index = 4;
  latch_error<kReach>(cq.q, Status::kTimeout, first);
  QueueError second{};
  second.wqe_index = 9;
  latch_error<kReach>(cq.q, Status::kQueueError, second);
  EXPECT_EQ(queue_status<kReach>(cq.q), Status::kTimeout);
  EXPECT_EQ(cq.q.error.wqe_index, 4u);
}

TEST(Completion, OneOfManyObserversWritesTheWholeRecord) {
  CompletionQueue cq;
  std::vector<std::thread> observers;
  for (uint8_t i = 1; i <= 4; ++i) {
    observers.emplace_back([&cq, i] {
      QueueError mine{};
      mine.wqe_index = i;
      mine.syndrome = i;
      mine.opcode = i;
      latch_error<kReach>(cq.q, Status::kQueueError, mine);
    });
  }
  for (std::thread& observer : observers) observer.join();
  EXPECT_NE(cq.q.error.wqe_index, 0u);
  EXPECT_EQ(cq.q.error.syndrome, cq.q.error.wqe_index);
  EXPECT_EQ(cq.q.error.opcode, cq.q.error.wqe_index);
}

TEST(Completion, ClosingAQueueKeepsWhyAndWhere) {
  CompletionQueue cq;
  cq.q.completed = 17;
  EXPECT_EQ((close_queue<kReach, WaitKind::kRoom>(cq.q, Status::kTimeout)), Status::kTimeout);
  EXPECT_EQ(queue_status<kReach>(cq.q), Status::kTimeout);
  EXPECT_EQ(cq.q.error.wqe_index, 17u);
}

TEST(Completion, ClosingForTheStopWordKeepsTheStopWord) {
  CompletionQueue cq;
  cq.stop = static_cast<uint32_t>(Status::kPeerLost);
  const Status ended = end_status<kReach>(cq.q, SpinEnd::kStopped);
  EXPECT_EQ((close_queue<kReach, WaitKind::kRoom>(cq.q, ended)), Status::kPeerLost);
  EXPECT_EQ(queue_status<kReach>(cq.q), Status::kPeerLost);
}

TEST(Completion, ClosingABrokenQueueReportsWhatBrokeIt) {
  CompletionQueue cq;
  cq.post_up_to(1);
  cq.complete(0, CqeOpcode::kRequesterError, 0x14);
  poll<kReach>(cq.q);
  EXPECT_EQ((close_queue<kReach, WaitKind::kRoom>(cq.q, Status::kTimeout)), Status::kQueueError);
}

// A lane reads the CQE, is held up, and goes on after 65536 other WQEs came and went: the counter
// it holds then names a WQE that is under way. The CQE lies in a page that faults on its first
// read; the fault's handler is the time that passes.
class CompletionLate : public ::testing::Test {
 protected:
  void SetUp() override {
    page_ = ::mmap(nullptr, kPage, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    ASSERT_NE(page_, MAP_FAILED);
    struct sigaction action {};
    action.sa_handler = [](int) {
      ::mprotect(page_, kPage, PROT_READ | PROT_WRITE);
      queue_->rung += 0x10000;
      queue_->completed += 0x10000;
    };
    ASSERT_EQ(::sigaction(SIGSEGV, &action, &before_), 0);
  }
  void TearDown() override {
    ::sigaction(SIGSEGV, &before_, nullptr);
    ::munmap(page_, kPage);
  }

  /// Polls a queue whose WQE 5 was the last that completed.
  static void late_look(CompletionQueue& cq, CqeOpcode opcode) {
    queue_ = &cq.q;
    cq.post_up_to(10);
    cq.q.completed = 5;
    cq.complete(5, opcode, 0x13);
    std::memcpy(page_, &cq.rig.cqe(), sizeof(Cqe));
    cq.q.nic.cqe = static_cast<Cqe*>(page_);
    ASSERT_EQ(::mprotect(page_, kPage, PROT_NONE), 0);
    poll<kReach>(cq.q);
  }

  static constexpr size_t kPage = 4096;
  static inline void* page_ = nullptr;
  static inline SendQueue* queue_ = nullptr;
  struct sigaction before_ {};
};

TEST_F(CompletionLate, ACounterFromALapAgoCompletesNothing) {
  CompletionQueue cq;
  late_look(cq, CqeOpcode::kRequester);
  EXPECT_EQ(cq.q.rung, 0x1000au) << "the handler ran";
  EXPECT_EQ(cq.q.completed, 0x10005u);
}

TEST_F(CompletionLate, AnErrorHasTheIndexThatTheQueueHasReached) {
  CompletionQueue cq;
  late_look(cq, CqeOpcode::kRequesterError);
  EXPECT_EQ(cq.q.error.wqe_index, 0x10005u);
}

TEST(Completion, AQueueWithOneOwnerPollsTheSame) {
  CompletionQueue cq({.start = 0xfffe});
  cq.post_up_to(0x10003);
  cq.complete(0x10001);
  poll<Reach::kLane>(cq.q);
  EXPECT_EQ(cq.q.completed, 0x10002u);
  cq.complete(0x10002, CqeOpcode::kRequesterError, 0x13);
  poll<Reach::kLane>(cq.q);
  EXPECT_EQ(queue_status<Reach::kLane>(cq.q), Status::kQueueError);
  EXPECT_EQ(cq.q.error.wqe_index, 0x10002u);
}

}  // namespace
}  // namespace peal::nic
