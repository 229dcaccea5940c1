// SPDX-License-Identifier: Apache-2.0
//
// Datagrams between two sockets of the loopback, alone and in trains.
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <vector>

#include "softnic/wire/roce/socket.h"
#include "tests/unit/softnic/loopback.h"
#include "tests/unit/softnic/support.h"

namespace peal::softnic::testing {

constexpr unsigned kWhateverComes = ~0u;
/// Messages that the kernel has room for from now on, beyond which it says EAGAIN.
static std::atomic<unsigned> kernel_takes{kWhateverComes};

/// Stands before the C library's: the loopback always has room.
extern "C" int sendmmsg(int fd, mmsghdr* messages, unsigned count, int flags) {
  const unsigned room = kernel_takes;
  const unsigned most = std::min(count, room);
  if (most == 0) {
    errno = EAGAIN;
    return -1;
  }
  const auto sent = static_cast<int>(syscall(SYS_sendmmsg, fd, messages, most, flags));
  if (sent > 0 && room != kWhateverComes) kernel_takes = room - static_cast<unsigned>(sent);
  return sent;
}

namespace {

using roce::Address;
using roce::Socket;

/// What was sent, in order; the first bytes are its number.
struct Sent {
  size_t bytes;
  uint16_t identification;
};

class RoceSocket : public ::testing::Test {
 protected:
  void TearDown() override { kernel_takes = kWhateverComes; }
  /// False where there is no room.
  bool send(size_t bytes) {
    std::byte* const at = from.reserve();
    if (at == nullptr) return false;
    std::memset(at, static_cast<int>(sent.size()), bytes);
    sent.push_back({bytes, from.identification(to.address(), bytes)});
    from.commit(to.address(), bytes);
    return true;
  }
  void expect_all() {
    from.flush();
    size_t n = 0;
    ASSERT_TRUE(eventually([&] {
      for (const roce::Arrived& one : to.receive()) expect(one, n++);
      return n >= sent.size();
    }));
    EXPECT_EQ(n, sent.size());
    EXPECT_EQ(from.take_trouble(), 0);
  }
  void expect(const roce::Arrived& one, size_t n) {
    ASSERT_LT(n, sent.size());
    EXPECT_EQ(one.from, from.address());
    EXPECT_EQ(one.from_port, roce::kUdpPort);
    ASSERT_EQ(one.bytes, sent[n].bytes) << n;
    const std::vector<std::byte> wanted(one.bytes, static_cast<std::byte>(n));
    EXPECT_EQ(std::memcmp(one.memory, wanted.data(), one.bytes), 0) << n;
  }

  Socket from{loopback_addresses()};
  Socket to{loopback_addresses()};
  std::vector<Sent> sent;
};

TEST_F(RoceSocket, DatagramsOfAllSizesArriveInOrder) {
  for (const size_t bytes : {20, 40, 40, 40, 20, 40, 4096, 4096, 4096, 1000, 4096, 1, 1, 2, 2, 1}) {
    ASSERT_TRUE(send(bytes));
  }
  expect_all();
}

TEST_F(RoceSocket, ManyMoreThanATrainArrive) {
  for (int i = 0; i < 130; ++i) ASSERT_TRUE(send(i < 100 ? 40 : 4112));
  expect_all();
}

TEST_F(RoceSocket, WhatHasLeftMakesRoomBeforeTheRestHas) {
  for (int i = 0; i < 32; ++i) ASSERT_TRUE(send(i % 2 == 0 ? 40 : 400));
  for (int i = 0; i < 32; ++i) ASSERT_TRUE(send(40));
  kernel_takes = 3;
  for (int i = 0; i < 3; ++i) ASSERT_TRUE(send(20));
  EXPECT_EQ(kernel_takes, 0u);
  kernel_takes = kWhateverComes;
  expect_all();
}

// The identification is that of the IPv4 header: a kernel that cuts a train counts from 0.
TEST_F(RoceSocket, ATrainIsCountedAndEndsWithAShorterOne) {
  for (const size_t bytes : {40, 40, 40, 24, 24, 24, 40}) ASSERT_TRUE(send(bytes));
  std::vector<uint16_t> numbers;
  for (const Sent& one : sent) numbers.push_back(one.identification);
  EXPECT_EQ(numbers, (std::vector<uint16_t>{0, 1, 2, 3, 0, 1, 0}));
  expect_all();
}

TEST_F(RoceSocket, ATrainFitsAnIpPacket) {
  for (int i = 0; i < 32; ++i) ASSERT_TRUE(send(4112));
  EXPECT_EQ(sent[14].identification, 14);
  EXPECT_EQ(sent[15].identification, 0);
  expect_all();
}

}  // namespace
}  // namespace peal::softnic::testing
