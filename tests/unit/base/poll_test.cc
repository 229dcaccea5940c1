// SPDX-License-Identifier: Apache-2.0
//
// Waiting for descriptors.
#include "base/poll.h"

#include <gtest/gtest.h>
#include <pthread.h>
#include <signal.h>
#include <sys/eventfd.h>

#include <atomic>
#include <thread>

#include "base/fd.h"

namespace peal {
namespace {

using Clock = std::chrono::steady_clock;

TEST(PollUntil, AnswersWhatIsReadyAndWhenTimeIsUp) {
  const Fd event(::eventfd(0, EFD_CLOEXEC));
  EXPECT_EQ(poll_until(event.get(), POLLIN, Clock::now()), 0);
  EXPECT_EQ(poll_until(event.get(), POLLOUT, Clock::now()), 1);
  EXPECT_EQ(poll_timeout(Clock::now() - std::chrono::hours(1)), 0);
  EXPECT_EQ(poll_timeout(Clock::now() + std::chrono::years(10)), INT_MAX);
}

// A signal without SA_RESTART, or any at all, ends a poll() with EINTR: a wait that took that for
// its end gave up early, one that began again with the whole time never ended.
TEST(PollUntil, SignalsNeitherEndNorProlongIt) {
  struct sigaction quiet {};
  quiet.sa_handler = [](int) {};
  struct sigaction before {};
  ASSERT_EQ(::sigaction(SIGUSR1, &quiet, &before), 0);
  const Fd event(::eventfd(0, EFD_CLOEXEC));
  std::atomic<bool> over{false};
  std::thread nagger([&, waiter = ::pthread_self()] {
    while (!over) ::pthread_kill(waiter, SIGUSR1);
  });
  const auto until = Clock::now() + std::chrono::milliseconds(50);
  EXPECT_EQ(poll_until(event.get(), POLLIN, until), 0);
  EXPECT_GE(Clock::now(), until);
  over = true;
  nagger.join();
  ::sigaction(SIGUSR1, &before, nullptr);
}

}  // namespace
}  // namespace peal
