// SPDX-License-Identifier: Apache-2.0
//
// Waiting for descriptors.
#include "base/poll.h"

#include <gtest/gtest.h>
#include <pthread.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <thread>
#include <vector>

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

TEST(HungUp, TellsOnceWhoseOtherEndIsGone) {
  int ends[2];
  ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
  const Fd here(ends[0]);
  Fd there(ends[1]);
  std::vector<int> sockets{-1, here.get(), 1'000'000};
  ASSERT_EQ(::write(there.get(), "x", 1), 1);
  EXPECT_EQ(hung_up(sockets), std::vector<int>{}) << "what waits to be read is no end";
  there = Fd();
  EXPECT_EQ(hung_up(sockets), std::vector<int>{1});
  EXPECT_EQ(sockets, (std::vector<int>{-1, -1, -1}));
  EXPECT_EQ(hung_up(sockets), std::vector<int>{});
}

// Hazard: in a job of more PEs than a process may have descriptors (RLIMIT_NOFILE) poll() refused
// the list, and no end was ever told.
TEST(HungUp, TellsOfOneAmongMorePlacesThanDescriptors) {
  int ends[2];
  ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
  const Fd here(ends[0]);
  ::close(ends[1]);
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &before), 0);
  const rlimit few{.rlim_cur = 16, .rlim_max = before.rlim_max};
  std::vector<int> sockets(100, -1);
  sockets[50] = here.get();
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &few), 0);
  const std::vector<int> ended = hung_up(sockets);
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &before), 0);
  EXPECT_EQ(ended, std::vector<int>{50});
}

}  // namespace
}  // namespace peal
