// SPDX-License-Identifier: Apache-2.0
//
// A queue that the host connects while a lane posts to it or polls it.
//
// The lane is held up in the middle: the queue's error, which a post reads behind the queue's fixed
// part and before `completed`, lies in a page that faults on its first read. The fault's handler is
// the host.
#include <sys/mman.h>
#include <unistd.h>

#include <csignal>
#include <cstddef>
#include <new>
#include <vector>

#include "device/nic/completion.h"
#include "device/nic/post.h"
#include "gtest/gtest.h"
#include "tests/support/device_rig.h"

namespace peal::nic {
namespace {

using testing::QueueRig;

constexpr auto kReach = Reach::kGpu;

class Connect : public ::testing::Test {
 protected:
  void SetUp() override {
    page_bytes_ = static_cast<size_t>(::sysconf(_SC_PAGESIZE));
    void* const pages = ::mmap(nullptr, 2 * page_bytes_, PROT_READ | PROT_WRITE,
                               MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    ASSERT_NE(pages, MAP_FAILED);
    second_ = static_cast<std::byte*>(pages) + page_bytes_;
    queue_ = new (second_ - offsetof(SendQueue, error)) SendQueue(rig_.queue);
    number_ = queue_->nic.qpn_shifted;
    queue_->nic.qpn_shifted = Be32{};
    queue_->completed -= kUnconnected;
    struct sigaction action {};
    action.sa_handler = [](int) {
      ::mprotect(second_, page_bytes_, PROT_READ | PROT_WRITE);
      queue_->nic.qpn_shifted = number_;
      queue_->completed += kUnconnected;
    };
    ASSERT_EQ(::sigaction(SIGSEGV, &action, &before_), 0);
  }
  void TearDown() override {
    ::sigaction(SIGSEGV, &before_, nullptr);
    ::munmap(second_ - page_bytes_, 2 * page_bytes_);
  }
  /// From now on the host connects the queue as soon as its error is looked at.
  static void hold_up() { ASSERT_EQ(::mprotect(second_, page_bytes_, PROT_NONE), 0); }

  /// What the NIC says of the host's own request, WQE 0, which tests the link.
  void complete_test(mlx5::CqeOpcode opcode) {
    testing::SeenWqe wqe{0, std::vector<uint8_t>(16)};
    rig_.nic().write_cqe(wqe, opcode, 0x13, 0);
  }

  static inline size_t page_bytes_ = 0;
  static inline std::byte* second_ = nullptr;
  static inline SendQueue* queue_ = nullptr;
  static inline Be32 number_;
  uint32_t stop_ = 0;
  QueueRig rig_{{}, 1, 7, &stop_};
  struct sigaction before_ {};
};

TEST_F(Connect, APutThatReadTheQueueBeforeHasItsNumber) {
  hold_up();
  const auto ticket = post<kReach>(*queue_, Alone{}, Write{{0, {}}, {0, {}}, 8});
  EXPECT_EQ(ticket.status, Status::kOk);
  EXPECT_EQ(queue_->nic.qpn_shifted.raw, number_.raw) << "the handler ran";
  const auto* const wqe = reinterpret_cast<const uint8_t*>(queue_->nic.blocks);
  EXPECT_EQ(testing::big_endian(wqe + 4, 3), number_.host() >> 8);
}

// A barrier polls the queue to a PE that it may never have posted to.
TEST_F(Connect, AnErrorOfTheHostsTestIsNotThePollers) {
  complete_test(mlx5::CqeOpcode::kRequesterError);
  poll<kReach>(*queue_);
  EXPECT_EQ(queue_status<kReach>(*queue_), Status::kOk);
  EXPECT_EQ(queue_->error.claimed, 0u);
}

TEST_F(Connect, ACompletionOfTheHostsTestMovesNothing) {
  const uint64_t completed = queue_->completed;
  complete_test(mlx5::CqeOpcode::kRequester);
  poll<kReach>(*queue_);
  EXPECT_EQ(queue_->completed, completed);
}

}  // namespace
}  // namespace peal::nic
