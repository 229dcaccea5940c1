// SPDX-License-Identifier: Apache-2.0
//
// Two ports in one thread, RoCE between them, and a network that loses, doubles and overtakes as a
// seed says; the test sets the time.
//
//   Far pair({.loss = 0.1});  pair.a.post(...);  pair.run_until(completions)
#pragma once

#include <algorithm>
#include <array>
#include <deque>
#include <random>
#include <vector>

#include "softnic/wire/roce/udp_wire.h"
#include "tests/unit/softnic/engine_pair.h"

namespace peal::softnic::testing {

struct Badness {
  double loss = 0;
  double doubled = 0;
  double overtaken = 0;
  uint32_t seed = 1;
};

/// The datagrams that go to one end, each in an allocation of exactly its size.
struct Mailbox {
  struct Letter {
    roce::Address from;
    std::vector<std::byte> bytes;
  };
  std::deque<Letter> letters;
};

/// One end. What goes out is also kept, for tests that look.
class End : public roce::Datagrams {
 public:
  End(roce::Address address, Mailbox& mine, Mailbox& theirs, Badness badness)
      : address_(address), mine_(mine), theirs_(theirs), badness_(badness), random_(badness.seed) {}

  const roce::Address& address() const override { return address_; }
  std::byte* reserve() override { return room > 0 ? next_.data() : nullptr; }
  uint16_t identification(const roce::Address&, size_t) const override { return 0; }
  void commit(const roce::Address&, size_t bytes) override {
    const std::vector<std::byte> datagram(next_.begin(), next_.begin() + static_cast<long>(bytes));
    sent.push_back(datagram);
    --room;
    if (happens(badness_.loss)) return;
    const bool twice = happens(badness_.doubled);
    for (int i = 0; i < (twice ? 2 : 1); ++i) {
      auto& to = theirs_.letters;
      const auto behind =
          happens(badness_.overtaken) ? std::min<size_t>(to.size(), random_() % 4) : size_t{0};
      to.insert(to.end() - static_cast<long>(behind), {address_, datagram});
    }
  }
  void flush() override {}
  const std::vector<roce::Arrived>& receive() override {
    taken_.clear();
    arrived_.clear();
    std::swap(taken_, mine_.letters);
    for (const Mailbox::Letter& letter : taken_) {
      arrived_.push_back({letter.from, roce::kUdpPort, letter.bytes.data(), letter.bytes.size()});
    }
    return arrived_;
  }
  void rest(std::chrono::microseconds) override {}
  int take_trouble() override { return 0; }

  std::vector<std::vector<std::byte>> sent;
  size_t room = SIZE_MAX;  // for so many more datagrams

 private:
  bool happens(double chance) { return std::uniform_real_distribution<>(0, 1)(random_) < chance; }

  roce::Address address_;
  Mailbox& mine_;
  Mailbox& theirs_;
  Badness badness_;
  std::mt19937 random_;
  std::array<std::byte, roce::kMostDatagram> next_ = {};
  std::deque<Mailbox::Letter> taken_;
  std::vector<roce::Arrived> arrived_;
};

/// A port behind an end; the engine's wire.
struct Host {
  static constexpr uint16_t kPeer = 0x4000;  // the first that RemoteNics gives

  Host(uint16_t lid, End& network, const roce::Address& peer, uint32_t psn)
      : side(lid, kPeer, psn), end(network), udp(*side.port, end, remotes) {
    EXPECT_EQ(remotes.lid_for(peer), kPeer);
    side.qp().attributes.network = Network::kRoceV2;
    side.qp().attributes.log_max_message = 30;
    side.qp().attributes.receive_psn = psn;
    side.qp().attributes.log_initiator_depth = 4;
  }

  Port* direct(uint16_t) { return nullptr; }
  SendStatus open(uint16_t lid, uint64_t& generation) { return udp.open(lid, generation); }
  uint32_t segment_bytes(uint16_t) { return roce::UdpWire::segment_bytes(); }
  bool cuts_by_mtu(uint16_t) const { return true; }
  SendStatus send(uint16_t lid, const Packet& packet, const Payload& payload) {
    return udp.send(lid, packet, payload);
  }
  uint64_t position(uint16_t) { return roce::UdpWire::position(); }
  uint64_t consumed(uint16_t) { return roce::UdpWire::consumed(); }
  bool lost(uint16_t, uint64_t) { return false; }

  /// Makes `count` receive entries of `bytes` each, one behind the other from `at` on.
  void receive_into(uint64_t at, uint32_t bytes, uint32_t count) {
    QueuePair& qp = side.qp();
    qp.receive_buffer = as_queue(entries.data());
    qp.receive_entries = 64;
    for (uint32_t i = 0; i < count; ++i) {
      const mlx5::DataSegment segment{Be32(bytes), Be32(Side::kKey),
                                      Be64(at + uint64_t{i} * bytes)};
      std::memcpy(entries.data() + (received + i) % 64 * 16, &segment, sizeof segment);
    }
    received += count;
    store<uint32_t>(&side.record().receive, Be32(received & 0xffff).raw);
  }

  Side side;
  End& end;
  roce::RemoteNics remotes{{192, 0, 2, 1}};
  roce::UdpWire udp;
  Pages entries{4096};
  uint32_t received = 0;
};
static_assert(PacketWire<Host> && CutsByMtu<Host>);

struct Far {
  static constexpr roce::Address kHere = {192, 0, 2, 1};
  static constexpr roce::Address kThere = {192, 0, 2, 2};

  explicit Far(Badness badness = {}, uint32_t psn = 0)
      : here(kHere, to_here, to_there, badness),
        there(kThere, to_there, to_here,
              {badness.loss, badness.doubled, badness.overtaken, badness.seed + 1000}),
        local(1, here, kThere, psn),
        remote(2, there, kHere, psn),
        a(local.side),
        b(remote.side) {}

  void step() {
    for (Host* host : {&remote, &local}) {
      host->udp.poll(now);
      advance(*host->side.port, *host, host->side.qp(), now, 16);
      host->udp.flush();
    }
    now += 200'000;
  }
  /// Steps until `a` has `n` completions; false after too many steps.
  bool run_until(uint64_t n) {
    for (int i = 0; i < 200'000 && a.completions() < n; ++i) step();
    return a.completions() >= n;
  }
  void settle() {
    for (int i = 0; i < 20; ++i) step();
  }

  Mailbox to_here;
  Mailbox to_there;
  End here;
  End there;
  Host local;
  Host remote;
  Side& a;
  Side& b;
  uint64_t now = 1;
};

inline void fill(std::byte* at, size_t bytes, uint32_t seed) {
  std::mt19937 random(seed);
  for (size_t i = 0; i < bytes; ++i) at[i] = static_cast<std::byte>(random());
}

inline uint32_t below(std::mt19937& random, uint32_t most) {
  return std::uniform_int_distribution<uint32_t>(0, most - 1)(random);
}

inline std::vector<int> opcodes_of(const End& end) {
  std::vector<int> opcodes;
  for (const auto& datagram : end.sent) opcodes.push_back(static_cast<int>(datagram[0]));
  return opcodes;
}

}  // namespace peal::softnic::testing
