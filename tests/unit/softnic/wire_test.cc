// SPDX-License-Identifier: Apache-2.0
//
// Two processes, one wire: every operation crosses it, large payloads in both directions at once.
#include <sys/resource.h>

#include <optional>

#include "softnic/wire/shortage.h"
#include "tests/unit/softnic/processes.h"

namespace peal::softnic::testing {

/// Connects, then serves until the tester says it is done.
void serve_quietly(Line& line) {
  Station station;
  station.connect(line);
  line.meet();
}

TEST(SoftnicWire, InlineWriteReachesTheOtherProcess) {
  Process other([](Line& line) {
    Station station;
    station.connect(line);
    EXPECT_TRUE(eventually([&] { return station.memory.load<uint64_t>(128) == 0xabcdef; }));
    line.meet();
  });
  Station station;
  station.connect(other.line());
  const SeenCqe cqe = station.run(write_inline<uint64_t>(128, station.peer.key, 0xabcdef));
  EXPECT_EQ(cqe.kind, CqeOpcode::kRequester);
  other.line().meet();
}

TEST(SoftnicWire, ReadFetchesAcrossTheWire) {
  Process other([](Line& line) {
    Station station;
    station.memory.store<uint64_t>(64, 0x5566);
    station.connect(line);
    line.meet();
  });
  Station station;
  station.connect(other.line());
  const SeenCqe cqe = station.run(read_into(64, station.peer.key, 8, station.memory.key, 256));
  EXPECT_EQ(cqe.kind, CqeOpcode::kRequester);
  EXPECT_EQ(cqe.bytes, 8u);
  EXPECT_EQ(station.memory.load<uint64_t>(256), 0x5566u);
  other.line().meet();
}

TEST(SoftnicWire, FetchAddReturnsTheOldValueAcrossTheWire) {
  Process other(serve_quietly);
  Station station;
  station.connect(other.line());
  for (uint64_t i = 0; i < 5; ++i) {
    station.run(fetch_add(0, station.peer.key, 3, station.memory.key, 8));
    EXPECT_EQ(station.memory.load<uint64_t>(8), 3 * i);
  }
  other.line().meet();
}

TEST(SoftnicWire, BothDirectionsMoveLargePayloadsAtOnce) {
  static constexpr size_t kBytes = 80 << 20;
  const auto side = [](Line& line, uint8_t mine, uint8_t theirs) {
    Station station(2 * kBytes);
    std::memset(station.memory.pages.data(), mine, kBytes);
    station.connect(line);
    const SeenCqe cqe =
        station.run(write_from(kBytes, station.peer.key, kBytes, station.memory.key, 0));
    EXPECT_EQ(cqe.kind, CqeOpcode::kRequester);
    line.meet();
    station.stop_nic();
    const auto* got = reinterpret_cast<const uint8_t*>(station.memory.pages.data() + kBytes);
    EXPECT_EQ(std::count(got, got + kBytes, theirs), static_cast<long>(kBytes));
    // What the other side received from us, read back into where it came from.
    std::memset(station.memory.pages.data(), 0, kBytes);
    const SeenCqe read =
        station.run(read_into(kBytes, station.peer.key, kBytes, station.memory.key, 0));
    EXPECT_EQ(read.kind, CqeOpcode::kRequester);
    EXPECT_EQ(read.bytes, kBytes);
    const auto* back = reinterpret_cast<const uint8_t*>(station.memory.pages.data());
    EXPECT_EQ(std::count(back, back + kBytes, mine), static_cast<long>(kBytes));
    line.meet();
  };
  Process other([&](Line& line) { side(line, 0x11, 0x22); });
  side(other.line(), 0x22, 0x11);
}

TEST(SoftnicWire, KilledPeerIsTransportRetryExceeded) {
  Process other([](Line& line) {
    Station station;
    station.connect(line);
    line.meet();  // never
  });
  Station station;
  station.connect(other.line());
  station.run(write_inline<uint64_t>(0, station.peer.key, 1));
  other.kill();
  const SeenCqe cqe = station.run(write_inline<uint64_t>(0, station.peer.key, 2));
  EXPECT_EQ(cqe.kind, CqeOpcode::kRequesterError);
  EXPECT_EQ(cqe.syndrome, Syndrome::kTransportRetryExceeded);
  EXPECT_EQ(station.qp.query().state, QpState::kError);
}

TEST(SoftnicWire, EveryOperationCrossesIt) {
  Process other([](Line& line) {
    Station station(1 << 16, {.receives = true});
    station.memory.store<uint64_t>(0, 10);
    station.memory.store<uint32_t>(512, 0x01020304);
    station.qp.post_receives(1);
    station.connect(line);
    const SeenCqe received = station.receive_cq.await();
    EXPECT_EQ(received.kind, CqeOpcode::kResponderWriteImm);
    EXPECT_EQ(received.immediate, 0xfeedu);
    EXPECT_EQ(received.bytes, 4u);
    line.meet();
    EXPECT_EQ(station.memory.load<uint64_t>(0), 0x55u);
    EXPECT_EQ(station.memory.load<uint32_t>(512), 0x01020309u);
  });
  Station station;
  station.connect(other.line());
  const uint32_t theirs = station.peer.key;
  const uint32_t mine = station.memory.key;
  EXPECT_EQ(station.run(fetch_add(0, theirs, 5, mine, 64)).bytes, 8u);
  EXPECT_EQ(station.memory.load<uint64_t>(64), 10u);
  Wqe swap{.opcode = Opcode::kAtomicCompareSwap};
  swap.remote(0, theirs).add(mlx5::AtomicSegment{Be64(0x44), Be64(15)}).data(8, mine, 64);
  station.run(swap);
  EXPECT_EQ(station.memory.load<uint64_t>(64), 15u);
  Wqe masked{.opcode = Opcode::kAtomicMaskedCompareSwap, .opmod = mlx5::kOpmodAtomic8};
  masked.remote(0, theirs)
      .add(mlx5::MaskedCompareSwap8Segment{Be64(0x55), Be64(0)})
      .add(mlx5::MaskedCompareSwap8Segment{Be64(~0ull), Be64(0)})
      .data(8, mine, 64);
  station.run(masked);
  EXPECT_EQ(station.memory.load<uint64_t>(64), 0x44u);
  Wqe small{.opcode = Opcode::kAtomicMaskedFetchAdd, .opmod = mlx5::kOpmodAtomic4};
  small.remote(512, theirs)
      .add(mlx5::MaskedFetchAdd4Segment{Be32(5), Be32(0), Be64(0)})
      .data(4, mine, 72);
  EXPECT_EQ(station.run(small).bytes, 4u);
  EXPECT_EQ(station.memory.load<uint32_t>(72), Be32(0x01020304).raw);
  Wqe immediate{.opcode = Opcode::kRdmaWriteImm, .immediate = 0xfeed};
  EXPECT_EQ(station.run(immediate.remote(1024, theirs).inline_data("abcd", 4)).kind,
            CqeOpcode::kRequester);
  Wqe dump{.opcode = Opcode::kDump};
  station.run(dump.data(1, mine, 0).with(Fence::kFence));
  Wqe empty{.opcode = Opcode::kRdmaRead};
  EXPECT_EQ(station.run(empty.remote(0, 0)).kind, CqeOpcode::kRequester);
  other.line().meet();
}

TEST(SoftnicWire, ManySmallWritesArriveInOrder) {
  constexpr uint64_t kCount = 20'000;
  Process other([](Line& line) {
    Station station;
    station.qp.attributes.in_order = true;
    station.connect(line);
    uint64_t last = 0;
    EXPECT_TRUE(eventually([&] {
      const auto now = station.memory.load<uint64_t>(0);
      EXPECT_GE(now, last);
      last = now;
      return now == kCount;
    }));
    line.meet();
  });
  Station station;
  station.qp.attributes.in_order = true;
  station.connect(other.line());
  for (uint64_t i = 1; i <= kCount; i += 32) {
    for (uint64_t k = i; k < i + 32 && k <= kCount; ++k) {
      const bool last = k == i + 31 || k == kCount;
      station.qp.post(write_inline<uint64_t>(0, station.peer.key, k)
                          .with(last ? Completion::kAlways : Completion::kOnError));
    }
    station.qp.ring();
    ASSERT_EQ(station.cq.await().kind, CqeOpcode::kRequester);
  }
  other.line().meet();
}

TEST(SoftnicWire, RefusalsTravelBack) {
  Process other([](Line& line) {
    Station station;
    station.connect(line);
    line.meet();
    EXPECT_EQ(station.qp.query().state, QpState::kError);
    AsyncEvent event;
    EXPECT_TRUE(station.nic->next_event(&event));
    EXPECT_EQ(event.kind, AsyncEvent::Kind::kQpAccessError);
  });
  Station station;
  station.connect(other.line());
  station.qp.post(write_inline<uint64_t>(0, station.peer.key, 1));
  station.qp.post(write_inline<uint64_t>(0, station.peer.key ^ 1, 2));
  station.qp.post(write_inline<uint64_t>(0, station.peer.key, 3));
  station.qp.ring();
  EXPECT_EQ(station.cq.await().kind, CqeOpcode::kRequester);
  EXPECT_EQ(station.cq.await().syndrome, Syndrome::kRemoteAccess);
  EXPECT_EQ(station.cq.await().syndrome, Syndrome::kFlushed);
  other.line().meet();
}

TEST(SoftnicWire, PeerThatBecomesReadyLateIsReached) {
  Process other([](Line& line) {
    Station station;
    line.say(station.card());
    const Card peer = line.hear<Card>();
    line.hear<char>();  // the request is on its way
    station.qp.connect(peer.lid, peer.qpn);
    EXPECT_TRUE(eventually([&] { return station.memory.load<uint64_t>(0) == 9; }));
    line.hear<char>();
  });
  Station station;
  const Card peer = other.line().hear<Card>();
  other.line().say(station.card());
  station.qp.attributes.ack_timeout = 20;
  station.qp.attributes.retry_count = 7;
  station.qp.connect(peer.lid, peer.qpn);
  station.qp.post(write_inline<uint64_t>(0, peer.key, 9));
  station.qp.ring();
  ASSERT_TRUE(eventually([&] { return station.qp.query().hardware_send_counter == 1; }));
  other.line().say('g');
  EXPECT_EQ(station.cq.await().kind, CqeOpcode::kRequester);
  other.line().say('d');
}

TEST(SoftnicWire, PeerThatNeverBecomesReadyIsRetryExceeded) {
  Process other([](Line& line) {
    Station station;
    line.say(station.card());
    line.hear<char>();
  });
  Station station;
  const Card peer = other.line().hear<Card>();
  station.qp.attributes.ack_timeout = 10;
  station.qp.attributes.retry_count = 2;
  station.qp.connect(peer.lid, peer.qpn);
  EXPECT_EQ(station.run(write_inline<uint64_t>(0, peer.key, 9)).syndrome,
            Syndrome::kTransportRetryExceeded);
  other.line().say('d');
}

TEST(SoftnicWire, PeerThatLeftIsRetryExceeded) {
  Card peer;
  auto other = std::make_unique<Process>([](Line& line) {
    Station station;
    station.connect(line);
    line.meet();
  });
  Station station;
  station.connect(other->line());
  peer = station.peer;
  station.run(write_inline<uint64_t>(0, peer.key, 1));
  other->line().meet();
  other.reset();
  EXPECT_EQ(station.run(write_inline<uint64_t>(0, peer.key, 2)).syndrome,
            Syndrome::kTransportRetryExceeded);
}

TEST(SoftnicWire, RequestInFlightFailsWhenThePeerIsKilled) {
  Process other([](Line& line) {
    Station station(128 << 20);
    station.connect(line);
    line.meet();  // never
  });
  Station station(128 << 20);
  station.connect(other.line());
  for (int i = 0; i < 50; ++i) {
    station.qp.post(write_from(0, station.peer.key, 100 << 20, station.memory.key, 0));
  }
  station.qp.ring();
  station.cq.await();
  other.kill();
  SeenCqe cqe;
  do {
    cqe = station.cq.await();
  } while (cqe.kind == CqeOpcode::kRequester);
  EXPECT_EQ(cqe.syndrome, Syndrome::kTransportRetryExceeded);
  EXPECT_EQ(station.cq.await().syndrome, Syndrome::kFlushed);
}

TEST(SoftnicWire, FourProcessesAddToOneWord) {
  constexpr uint64_t kEach = 300;
  std::vector<std::unique_ptr<Process>> others;
  for (int i = 0; i < 3; ++i) {
    others.push_back(std::make_unique<Process>([](Line& line) {
      Station station;
      station.connect(line);
      for (uint64_t k = 0; k < kEach; ++k) {
        EXPECT_EQ(station.run(fetch_add(0, station.peer.key, 1, station.memory.key, 8)).kind,
                  CqeOpcode::kRequester);
      }
      line.meet();
    }));
  }
  Station station;
  std::vector<std::unique_ptr<Qp>> qps;
  for (auto& other : others) {
    qps.push_back(std::make_unique<Qp>(*station.nic, station.pd, station.cq, station.receive_cq,
                                       Qp::Options{}));
    Line& line = other->line();
    line.say(Card{station.nic->lid(), qps.back()->qpn, station.memory.key});
    const Card peer = line.hear<Card>();
    qps.back()->connect(peer.lid, peer.qpn);
    line.meet();
  }
  for (auto& other : others) other->line().meet();
  EXPECT_EQ(station.memory.load<uint64_t>(0), 3 * kEach);
}

// 12 NICs in 64 MiB, a container's default: the first links took 516 KiB each, and the last ones
// found nothing left.
TEST(SoftnicWire, LinksTakeNoMoreThanLeavesRoomForTheOthers) {
  for (const uint64_t nics : {1, 2, 8, 12, 32, 50}) {
    Room room{.total_bytes = 64 << 20, .free_bytes = 64 << 20, .nics = nics};
    for (uint64_t links = nics * (nics - 1); links > 0; --links) {
      const uint64_t ring = room.ring_bytes();
      EXPECT_GE(ring, kSmallestRing);
      EXPECT_EQ(ring & (ring - 1), 0u);
      ASSERT_LE(link_bytes(ring), room.free_bytes) << nics << " NICs, " << links << " links to go";
      room.free_bytes -= link_bytes(ring);
    }
  }
  EXPECT_EQ((Room{.free_bytes = 1ull << 32, .nics = 64}.ring_bytes()), kLargestRing);
  EXPECT_EQ((Room{.free_bytes = 0, .nics = 2}.ring_bytes()), kSmallestRing);
}

/// No descriptor can be opened while it lives.
class NoDescriptorLeft {
 public:
  NoDescriptorLeft() {
    getrlimit(RLIMIT_NOFILE, &before_);
    const int next = dup(0);
    close(next);
    const rlimit none = {static_cast<rlim_t>(next), before_.rlim_max};
    EXPECT_EQ(setrlimit(RLIMIT_NOFILE, &none), 0);
  }
  ~NoDescriptorLeft() { setrlimit(RLIMIT_NOFILE, &before_); }
  NoDescriptorLeft(const NoDescriptorLeft&) = delete;
  NoDescriptorLeft& operator=(const NoDescriptorLeft&) = delete;

 private:
  rlimit before_ = {};
};

void expect_trouble(const SoftwareNic& nic, std::initializer_list<const char*> parts) {
  for (const char* part : parts) {
    EXPECT_NE(nic.trouble().find(part), std::string::npos) << part << " in: " << nic.trouble();
  }
}

// Hazard: a link that cannot be made looked like a NIC that is not there: it was tried for as long
// as a card would try, and nobody heard why.
TEST(SoftnicWire, WithoutADescriptorForALinkSaysSo) {
  Process other(serve_quietly);
  Station station;
  station.connect(other.line());
  EXPECT_EQ(station.nic->trouble(), "");
  {
    const NoDescriptorLeft none;
    EXPECT_EQ(station.run(write_inline<uint64_t>(0, station.peer.key, 1)).syndrome,
              Syndrome::kTransportRetryExceeded);
  }
  expect_trouble(*station.nic, {"no link from LID ", "Too many open files", "ulimit -n"});
  other.line().meet();
}

TEST(SoftnicWire, APeerWithoutADescriptorForALinkSaysSo) {
  Process other([](Line& line) {
    Station station;
    station.connect(line);
    std::optional<NoDescriptorLeft> none(std::in_place);
    line.meet();
    line.meet();
    none.reset();
    expect_trouble(*station.nic, {"no link from LID ", "Too many open files", "ulimit -n"});
  });
  Station station;
  station.qp.attributes.ack_timeout = 0;  // no deadline of its own ends it
  station.connect(other.line());
  other.line().meet();
  EXPECT_EQ(station.run(write_inline<uint64_t>(0, station.peer.key, 1)).syndrome,
            Syndrome::kTransportRetryExceeded);
  expect_trouble(*station.nic, {"Too many open files", "of the other process"});
  other.line().meet();
}

}  // namespace peal::softnic::testing
