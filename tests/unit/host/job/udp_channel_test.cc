// SPDX-License-Identifier: Apache-2.0
//
// Messages over UDP between PEs of one machine that take one another for PEs of other hosts: those
// of the job come, a stranger's do not, and a closed port is noticed.
#include "host/job/udp_channel.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>

#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "tests/support/ipv6.h"

namespace peal {
namespace {

using Bytes = std::vector<std::byte>;

Bytes bytes_of(const std::string& text) {
  const auto bytes = std::as_bytes(std::span(text));
  return {bytes.begin(), bytes.end()};
}

struct Pair {
  std::vector<std::unique_ptr<UdpChannel>> pe;
  JobSecret secret{std::byte{1}, std::byte{2}};

  /// At the address of `interface`.
  explicit Pair(const std::string& interface = "lo") {
    std::vector<UdpChannel::Address> addresses;
    for (int rank = 0; rank < 2; ++rank) {
      pe.push_back(std::make_unique<UdpChannel>(rank, interface));
      addresses.push_back(pe.back()->address());
    }
    for (const auto& one : pe) one->connect(secret, addresses);
  }

  /// What `rank` receives next, while the other one answers; nothing after ten seconds.
  std::optional<Bytes> next(size_t rank) {
    for (int turn = 0; turn < 1000; ++turn) {
      if (auto came = pe[rank]->receive()) return came->second;
      pe[1 - rank]->receive();
      for (const auto& one : pe) one->look();
      pollfd readable{pe[rank]->fd(), POLLIN, 0};
      ::poll(&readable, 1, 10);
    }
    return std::nullopt;
  }
  /// Until `holds`, while `rank` receives and asks the other one.
  template <class Condition>
  bool until(size_t rank, const Condition& holds) {
    for (int turn = 0; turn < 1000 && !holds(); ++turn) {
      pe[rank]->ask(static_cast<int>(1 - rank));
      if (pe[1 - rank]) pe[1 - rank]->receive();
      pollfd readable{pe[rank]->fd(), POLLIN, 0};
      ::poll(&readable, 1, 10);
      pe[rank]->receive();
    }
    return holds();
  }
};

TEST(UdpChannel, CarriesMessagesWholeAndInOrder) {
  Pair two;
  const Bytes large(32u << 10, std::byte{7});
  EXPECT_EQ(two.pe[0]->send(1, bytes_of("head "), bytes_of("one")), UdpChannel::Sent::kDone);
  EXPECT_EQ(two.pe[0]->send(1, {}, large), UdpChannel::Sent::kDone);
  EXPECT_EQ(two.pe[0]->send(1, {}, bytes_of("two")), UdpChannel::Sent::kDone);
  EXPECT_EQ(two.next(1), bytes_of("head one"));
  EXPECT_EQ(two.next(1), large);
  EXPECT_EQ(two.next(1), bytes_of("two"));
  EXPECT_TRUE(two.until(0, [&] { return two.pe[0]->idle({1}); }));
}

TEST(UdpChannel, HearsWhoAnswers) {
  Pair two;
  EXPECT_FALSE(two.pe[0]->heard(1).ever);
  EXPECT_TRUE(two.until(0, [&] { return two.pe[0]->heard(1).ever; }));
  EXPECT_FALSE(two.pe[0]->heard(1).refused);
}

TEST(UdpChannel, TellsOnceWhoWasNeverHeard) {
  Pair two;
  EXPECT_TRUE(two.pe[0]->unheard(UdpChannel::Time(0)).empty()) << "nobody was spoken to";
  two.pe[0]->ask(1);
  const UdpChannel::Time before = UdpChannel::now();
  while (UdpChannel::now() == before) continue;
  EXPECT_TRUE(two.pe[0]->unheard(std::chrono::hours(1)).empty());
  EXPECT_EQ(two.pe[0]->unheard(UdpChannel::Time(0)), std::vector<int>{1});
  EXPECT_TRUE(two.pe[0]->unheard(UdpChannel::Time(0)).empty());
  ASSERT_TRUE(two.until(1, [&] { return two.pe[1]->heard(0).ever; }));
  EXPECT_TRUE(two.pe[1]->unheard(UdpChannel::Time(0)).empty()) << "PE 0 was heard";
}

// Hazard: ten seconds behind the loss of a PE that was never heard came a warning of its network.
TEST(UdpChannel, TellsOfNobodyThatIsForgottenThatItIsUnheard) {
  Pair two;
  two.pe[0]->ask(1);
  two.pe[0]->forget(1);
  two.pe[1]->forget(0);
  const UdpChannel::Time before = UdpChannel::now();
  while (UdpChannel::now() == before) continue;
  EXPECT_TRUE(two.pe[0]->unheard(UdpChannel::Time(0)).empty());
  EXPECT_TRUE(two.pe[1]->unheard(UdpChannel::Time(0)).empty());
}

TEST(UdpChannel, NoticesThatAPortIsClosed) {
  Pair two;
  ASSERT_TRUE(two.until(0, [&] { return two.pe[0]->heard(1).ever; }));
  two.pe[1].reset();
  EXPECT_TRUE(two.until(0, [&] { return two.pe[0]->heard(1).refused; }));
  EXPECT_EQ(two.pe[0]->send(1, {}, bytes_of("late")), UdpChannel::Sent::kGone);
  EXPECT_TRUE(two.pe[0]->idle({1}));
}

TEST(UdpChannel, TakesNoClosedPortOfOneThatWasNeverHeardForAnEnd) {
  Pair two;
  two.pe[1].reset();
  for (int turn = 0; turn < 20; ++turn) {
    two.pe[0]->ask(1);
    two.pe[0]->receive();
  }
  EXPECT_FALSE(two.pe[0]->heard(1).refused);
}

TEST(UdpChannel, SendsNothingToOneThatIsForgotten) {
  Pair two;
  ASSERT_EQ(two.pe[0]->send(1, {}, bytes_of("before")), UdpChannel::Sent::kDone);
  two.pe[0]->forget(1);
  EXPECT_TRUE(two.pe[0]->idle({1}));
  EXPECT_EQ(two.pe[0]->send(1, {}, bytes_of("behind")), UdpChannel::Sent::kGone);
}

// Hazard: of three hosts two were cut off from each other, and the third, which took one of them
// for lost, went on answering it: its waits had no end.
TEST(UdpChannel, AnswersNobodyThatIsForgotten) {
  Pair two;
  ASSERT_TRUE(two.until(1, [&] { return two.pe[1]->heard(0).ever; }));
  two.pe[0]->forget(1);
  two.pe[1]->receive();
  const UdpChannel::Time before = two.pe[1]->heard(0).at;
  while (UdpChannel::now() == before) continue;
  for (int turn = 0; turn < 5; ++turn) {
    two.pe[1]->ask(0);
    pollfd asked{two.pe[0]->fd(), POLLIN, 0};
    ASSERT_EQ(::poll(&asked, 1, 10'000), 1);
    two.pe[0]->receive();
    two.pe[1]->receive();
  }
  EXPECT_EQ(two.pe[1]->heard(0).at, before);
}

TEST(UdpChannel, BringsALastWordAtOnce) {
  Pair two;
  two.pe[0]->send_once(1, bytes_of("I "), bytes_of("leave"));
  EXPECT_EQ(two.next(1), bytes_of("I leave"));
}

TEST(UdpChannel, DropsWhatNobodyOfTheJobSent) {
  Pair two;
  const PacketHeader header{.from = 0, .to = 1, .sequence = 1, .total = 3, .flags = 1};
  JobSecret guessed = two.secret;
  guessed[15] = std::byte{1};
  SealedPacket changed = seal(two.secret, header, bytes_of("abc"));
  changed.bytes[changed.length - 1] ^= std::byte{1};
  PacketHeader of_another = header;
  of_another.to = 0;
  PacketHeader of_nobody = header;
  of_nobody.from = 7;
  const UdpChannel::Address& to = two.pe[1]->address();
  const SocketAddress at(to.internet, to.port);
  const Fd stranger(::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  for (const SealedPacket& packet :
       {seal(guessed, header, bytes_of("abc")), changed, seal(two.secret, of_another, {}),
        seal(two.secret, of_nobody, {}), SealedPacket{{}, 3}, SealedPacket{{}, kPacketBytes}}) {
    ASSERT_EQ(
        ::sendto(stranger.get(), packet.bytes.data(), packet.length, 0, at.get(), at.length()),
        static_cast<ssize_t>(packet.length));
  }
  ASSERT_EQ(two.pe[0]->send(1, {}, bytes_of("ours")), UdpChannel::Sent::kDone);
  EXPECT_EQ(two.next(1), bytes_of("ours"));
}

// What Linux tells of a closed port of IPv6 has another level and another address than of IPv4.
TEST(UdpChannel, DoesAllThatByIpv6) {
  if (!has_ipv6()) GTEST_SKIP() << "no IPv6 here";
  Pair two("::1");
  EXPECT_NE(two.pe[0]->describe(1).find("UDP [::1]:"), std::string::npos);
  ASSERT_EQ(two.pe[0]->send(1, {}, bytes_of("one")), UdpChannel::Sent::kDone);
  EXPECT_EQ(two.next(1), bytes_of("one"));
  ASSERT_TRUE(two.until(0, [&] { return two.pe[0]->heard(1).ever; }));
  two.pe[1].reset();
  EXPECT_TRUE(two.until(0, [&] { return two.pe[0]->heard(1).refused; }));
}

TEST(UdpChannel, NamesWhereAPeIs) {
  Pair two;
  EXPECT_NE(two.pe[0]->describe(1).find("UDP 127.0.0.1:"), std::string::npos);
}

}  // namespace
}  // namespace peal
