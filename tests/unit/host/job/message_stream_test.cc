// SPDX-License-Identifier: Apache-2.0
//
// Messages over packets that get lost, come twice and out of order: all of them come whole, once
// and in order, both ways at once.
#include "host/job/message_stream.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <vector>

namespace peal {
namespace {

using Bytes = std::vector<std::byte>;
using Time = MessageStream::Time;

Bytes message(size_t bytes, unsigned first) {
  Bytes made(bytes);
  for (size_t i = 0; i < bytes; ++i) made[i] = static_cast<std::byte>(first + i);
  return made;
}

struct Sent {
  MessageStream::Part part;  // sequence 0: an acknowledgement
  uint64_t acknowledged;
};

/// One end, and what is on its way to it.
struct End {
  MessageStream stream;
  std::vector<Sent> coming;
  std::vector<Bytes> to_send;
  std::vector<Bytes> come;
};

/// A network by a seed: of ten packets some are lost, some come twice, and any may come first.
class Network {
 public:
  explicit Network(unsigned seed) : random_(seed) {}

  void carry(const Sent& sent, End& to) {
    const unsigned fate = roll(10);
    if (fate < 3) return;
    to.coming.push_back(sent);
    if (fate == 9) to.coming.push_back(sent);
  }
  unsigned roll(unsigned sides) { return static_cast<unsigned>(random_() % sides); }

 private:
  std::mt19937 random_;
};

void step(End& end, End& other, Network& network, Time now) {
  if (!end.to_send.empty() && end.stream.push({}, end.to_send.front())) {
    end.to_send.erase(end.to_send.begin());
  }
  const auto send = [&](const MessageStream::Part& part) {
    network.carry({part, end.stream.taken()}, other);
  };
  end.stream.due(now, send);
  if (end.coming.empty()) return;
  const auto at = end.coming.begin() +
                  static_cast<ptrdiff_t>(network.roll(static_cast<unsigned>(end.coming.size())));
  const Sent came = *at;
  end.coming.erase(at);
  end.stream.acknowledged(came.acknowledged, now);
  if (came.part.sequence == 0) return;
  if (auto whole =
          end.stream.take(came.part.sequence, came.part.first, came.part.total, came.part.bytes)) {
    end.come.push_back(*std::move(whole));
  }
  network.carry({{0, false, 0, {}}, end.stream.taken()}, other);
}

TEST(MessageStream, BringsAllInOrderOverABadNetwork) {
  for (unsigned seed = 1; seed <= 100; ++seed) {
    Network network(seed);
    End a, b;
    for (unsigned i = 0; i < 12; ++i) {
      const size_t bytes = i % 3 == 0 ? 0 : i % 3 == 1 ? 40 : 5000 + 997 * i;
      a.to_send.push_back(message(bytes, i));
      b.to_send.push_back(message(bytes / 2, i + 100));
    }
    const auto to_b = a.to_send, to_a = b.to_send;
    Time now{0};
    const auto done = [&] { return b.come.size() == 12 && a.come.size() == 12; };
    for (int turn = 0; turn < 400'000 && !done(); ++turn) {
      step(a, b, network, now);
      step(b, a, network, now);
      now += std::chrono::milliseconds(5);
    }
    ASSERT_EQ(b.come, to_b) << "seed " << seed;
    ASSERT_EQ(a.come, to_a) << "seed " << seed;
  }
}

TEST(MessageStream, TakesNoMoreThanASocketHolds) {
  MessageStream stream;
  const Bytes large(32u << 10);
  EXPECT_TRUE(stream.push({}, large));
  EXPECT_TRUE(stream.push({}, large));
  EXPECT_FALSE(stream.push({}, large));
  EXPECT_FALSE(stream.idle());
  stream.acknowledged(29, Time(0));
  EXPECT_TRUE(stream.push({}, large)) << "the first has come";
}

TEST(MessageStream, SendsAgainWhatWasNotAcknowledgedInTime) {
  MessageStream stream;
  ASSERT_TRUE(stream.push({}, message(3, 1)));
  std::vector<uint64_t> sent;
  const auto send = [&](const MessageStream::Part& part) { sent.push_back(part.sequence); };
  stream.due(Time(0), send);
  stream.due(MessageStream::kFirstPatience, send);
  EXPECT_EQ(sent, (std::vector<uint64_t>{1}));
  ASSERT_TRUE(stream.push({}, message(3, 1)));
  stream.due(MessageStream::kFirstPatience + Time(1), send);
  EXPECT_EQ(sent, (std::vector<uint64_t>{1, 1, 2}));
  stream.acknowledged(2, Time(0));
  EXPECT_TRUE(stream.idle());
}

TEST(MessageStream, DropsAMessageThatIsTooLarge) {
  MessageStream stream;
  EXPECT_FALSE(stream.take(1, true, MessageStream::kMostBytes + 1, message(1, 1)));
  EXPECT_EQ(stream.taken(), 0u);
}

}  // namespace
}  // namespace peal
