// SPDX-License-Identifier: Apache-2.0
//
// Two processes, one wire: every operation crosses it, large payloads in both directions at once.
#include "tests/unit/softnic_processes.h"

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
    const auto* got = reinterpret_cast<const uint8_t*>(station.memory.pages.data() + kBytes);
    EXPECT_EQ(std::count(got, got + kBytes, theirs), static_cast<long>(kBytes));
    const SeenCqe read =
        station.run(read_into(kBytes, station.peer.key, kBytes, station.memory.key, kBytes));
    EXPECT_EQ(read.kind, CqeOpcode::kRequester);
    EXPECT_EQ(read.bytes, kBytes);
    line.meet();
    EXPECT_EQ(std::count(got, got + kBytes, mine), static_cast<long>(kBytes));
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

}  // namespace peal::softnic::testing
