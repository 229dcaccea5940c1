// SPDX-License-Identifier: Apache-2.0
//
// Messages between PEs: those of the job arrive whole and in order, a stranger's not at all, and
// sending never waits.
#include "host/job/channel.h"

#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstring>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "bootstrap/bootstraps.h"

namespace peal {
namespace {

using Sent = Channel::Sent;
using Words = std::array<uint64_t, 4>;

/// Runs `body` with the channels of two PEs, by one thread.
void with_two(const std::function<void(std::unique_ptr<Channel>*)>& body) {
  std::unique_ptr<Channel> channels[2];
  bootstrap::run_threads(
      2, [&](Bootstrap& group) { channels[group.rank()] = std::make_unique<Channel>(group); });
  body(channels);
}

std::vector<std::byte> bytes_of(const std::string& text) {
  const auto bytes = std::as_bytes(std::span(text));
  return {bytes.begin(), bytes.end()};
}

TEST(Channel, CarriesMessagesWholeAndInOrder) {
  with_two([](auto* pe) {
    EXPECT_FALSE(pe[1]->receive());
    EXPECT_EQ(pe[0]->send(1, Message::Kind::kAbort, Words{1, 2, 3, 4}, bytes_of("why")),
              Sent::kDone);
    const std::vector<std::byte> large(Channel::kMaxPayload, std::byte{7});
    EXPECT_EQ(pe[0]->send(1, Message::Kind::kExchange, Words{}, large), Sent::kDone);
    pollfd readable{pe[1]->fd(), POLLIN, 0};
    EXPECT_EQ(poll(&readable, 1, 0), 1);
    const auto first = pe[1]->receive();
    ASSERT_TRUE(first);
    EXPECT_EQ(first->kind, Message::Kind::kAbort);
    EXPECT_EQ(first->from, 0);
    EXPECT_EQ(first->word, (Words{1, 2, 3, 4}));
    EXPECT_EQ(first->payload, bytes_of("why"));
    const auto second = pe[1]->receive();
    ASSERT_TRUE(second);
    EXPECT_EQ(second->payload, large);
    EXPECT_FALSE(pe[1]->receive());
  });
}

TEST(Channel, ToSelfWorks) {
  with_two([](auto* pe) {
    EXPECT_EQ(pe[1]->send(1, Message::Kind::kAbort, Words{}, {}), Sent::kDone);
    const auto message = pe[1]->receive();
    ASSERT_TRUE(message);
    EXPECT_EQ(message->from, 1);
    EXPECT_TRUE(message->payload.empty());
  });
}

TEST(Channel, NeverWaitsForAPeerThatDoesNotRead) {
  with_two([](auto* pe) {
    Sent sent = Sent::kDone;
    int count = 0;
    for (; sent == Sent::kDone && count < 100'000; ++count) {
      sent = pe[0]->send(1, Message::Kind::kAbort, Words{}, bytes_of("more"));
    }
    EXPECT_EQ(sent, Sent::kFull);
    int received = 0;
    while (pe[1]->receive()) ++received;
    EXPECT_EQ(received, count - 1);
    EXPECT_EQ(pe[0]->send(1, Message::Kind::kAbort, Words{}, {}), Sent::kDone);
  });
}

TEST(Channel, SaysThatAPeerIsGone) {
  with_two([](auto* pe) {
    pe[1].reset();
    EXPECT_EQ(pe[0]->send(1, Message::Kind::kAbort, Words{}, {}), Sent::kGone);
  });
}

/// Where `fd` is bound, as /proc/net/unix tells everybody.
sockaddr_un address_of(int fd, socklen_t* bytes) {
  sockaddr_un address{};
  *bytes = sizeof(address);
  EXPECT_EQ(getsockname(fd, reinterpret_cast<sockaddr*>(&address), bytes), 0);
  return address;
}

TEST(Channel, DropsWhatStrangersSay) {
  with_two([](auto* pe) {
    const int stranger = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    ASSERT_GE(stranger, 0);
    socklen_t bytes = 0;
    const sockaddr_un to = address_of(pe[1]->fd(), &bytes);
    const auto say = [&](const std::vector<char>& what) {
      EXPECT_EQ(sendto(stranger, what.data(), what.size(), 0,
                       reinterpret_cast<const sockaddr*>(&to), bytes),
                static_cast<ssize_t>(what.size()));
    };
    say({});
    say({'x'});
    say(std::vector<char>(56, '\0'));
    say(std::vector<char>(57, '\1'));
    say(std::vector<char>(40'000, '\0'));
    // Behind them the job's own still arrives.
    EXPECT_EQ(pe[0]->send(1, Message::Kind::kAbort, Words{}, bytes_of("real")), Sent::kDone);
    const auto message = pe[1]->receive();
    ASSERT_TRUE(message);
    EXPECT_EQ(message->payload, bytes_of("real"));
    EXPECT_FALSE(pe[1]->receive());
    close(stranger);
  });
}

TEST(Channel, OfAnotherJobIsAStranger) {
  with_two([](auto* job) {
    with_two([&](auto* other) {
      // The other job's PE 0 sends, with its own secret, to where this job's PE 1 listens.
      socklen_t bytes = 0;
      const sockaddr_un to = address_of(job[1]->fd(), &bytes);
      ASSERT_EQ(other[0]->send(1, Message::Kind::kAbort, Words{}, bytes_of("stop")), Sent::kDone);
      std::vector<char> datagram(200);
      const ssize_t got = recv(other[1]->fd(), datagram.data(), datagram.size(), MSG_DONTWAIT);
      ASSERT_GT(got, 0);
      EXPECT_EQ(sendto(other[0]->fd(), datagram.data(), static_cast<size_t>(got), 0,
                       reinterpret_cast<const sockaddr*>(&to), bytes),
                got);
      EXPECT_FALSE(job[1]->receive());
    });
  });
}

}  // namespace
}  // namespace peal
