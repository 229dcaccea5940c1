// SPDX-License-Identifier: Apache-2.0
//
// The packet socket between a PE and the GPU engine's process: whole structs, descriptors, and no
// call that waits past its deadline.
#include "softnic/gpu/message_socket.h"

#include <gtest/gtest.h>
#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <thread>

namespace peal::softnic::gpu {
namespace {

TEST(MessageSocket, RefusesAMessageOfAnotherSize) {
  auto [a, b] = channel_pair();
  EXPECT_TRUE(a.send(uint64_t{1}));
  uint32_t small = 0;
  EXPECT_FALSE(b.receive(&small, MessageSocket::Milliseconds(1000)));
  EXPECT_FALSE(b.open());
}

TEST(MessageSocket, CarriesADescriptor) {
  auto [a, b] = channel_pair();
  const Fd file(memfd_create("peal-test", MFD_CLOEXEC));
  ASSERT_EQ(ftruncate(file.get(), 12345), 0);
  EXPECT_TRUE(a.send(uint64_t{7}, file.get()));
  uint64_t value = 0;
  Fd came;
  ASSERT_TRUE(b.receive(&value, MessageSocket::Milliseconds(1000), &came));
  EXPECT_EQ(value, 7u);
  struct stat info;
  ASSERT_EQ(fstat(came.get(), &info), 0);
  EXPECT_EQ(info.st_size, 12345);
}

TEST(MessageSocket, GivesUpWhenNobodySpeaks) {
  auto [a, b] = channel_pair();
  uint64_t value = 0;
  EXPECT_FALSE(b.receive(&value, MessageSocket::Milliseconds(10)));
}

TEST(MessageSocket, FailsToSendWhenNobodyReads) {
  auto [a, b] = channel_pair();
  uint32_t sent = 0;
  while (a.writable() && a.send(uint64_t{7})) ++sent;
  EXPECT_TRUE(a.open());
  while (a.send(uint64_t{7})) ++sent;
  EXPECT_FALSE(a.open());
  uint64_t value = 0;
  for (uint32_t i = 0; i < sent; ++i) {
    ASSERT_TRUE(b.receive(&value, MessageSocket::Milliseconds(0)))
        << "what was sent before is there";
  }
}

// Each signal began the wait anew: under a profiler that interrupts every millisecond a receiver
// waited for ever. Signals here come without a pause until the wait has ended.
TEST(MessageSocket, KeepsItsDeadlineUnderSignals) {
  struct sigaction action = {};
  action.sa_handler = [](int) {};
  ASSERT_EQ(sigaction(SIGPROF, &action, nullptr), 0);
  auto [a, b] = channel_pair();
  std::atomic<bool> ended{false};
  bool outlasted = false;
  const pthread_t receiver = pthread_self();
  std::thread profiler([&] {
    const auto patience = std::chrono::steady_clock::now() + std::chrono::seconds(20);
    while (!ended.load() && !outlasted) {
      pthread_kill(receiver, SIGPROF);
      std::this_thread::yield();
      outlasted = std::chrono::steady_clock::now() > patience;
    }
  });
  uint64_t value = 0;
  EXPECT_FALSE(b.receive(&value, MessageSocket::Milliseconds(50)));
  ended.store(true);
  profiler.join();
  EXPECT_FALSE(outlasted) << "the wait ended with the signals, not at its deadline";
}

}  // namespace
}  // namespace peal::softnic::gpu
