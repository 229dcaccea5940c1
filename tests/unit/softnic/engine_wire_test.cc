// SPDX-License-Identifier: Apache-2.0
//
// What the engine makes of a wire that is full, and of WRITEs that overtake each other, step by
// step and without a thread.
#include "softnic/engine/placement.h"
#include "tests/unit/softnic/engine_pair.h"

namespace peal::softnic::testing {
namespace {

// A receiver that looks at its memory between two packets sees the second WRITE and not the first,
// under some seeds, and under every seed neither late once an atomic has come.
TEST(PlacementBySeed, AWriteOvertakesTheOneBeforeIt) {
  uint32_t overtaken = 0;
  for (uint32_t seed = 1; seed <= 16; ++seed) {
    Pair pair(0);
    WritePlacement placement(seed);
    pair.b.port->placement = &placement;
    pair.a.post(write_inline<uint64_t>(0, Side::kKey, 1));
    pair.a.post(write_inline<uint64_t>(64, Side::kKey, 1));
    pair.step();
    const auto* words = pair.b.memory.as<uint64_t>();
    overtaken += words[0] == 0 && words[8] == 1;
    pair.a.post(fetch_add(128, Side::kKey, 1, Side::kKey, 1024));
    ASSERT_TRUE(pair.run_until(3));
    EXPECT_EQ(words[0] + words[8] + words[16], 3u) << seed;
  }
  EXPECT_GT(overtaken, 0u);
}

/// A wire to a NIC whose ring is full, of which it takes what a test says.
struct FullWire {
  uint64_t taken = 0;
  uint32_t tries = 0;
  Port* direct(uint16_t) { return nullptr; }
  SendStatus open(uint16_t, uint64_t&) { return SendStatus::kSent; }
  uint32_t segment_bytes(uint16_t) { return 4096; }
  SendStatus send(uint16_t, const Packet&, const Payload&) {
    ++tries;
    return SendStatus::kFull;
  }
  uint64_t position(uint16_t) { return 0; }
  uint64_t consumed(uint16_t) { return taken; }
  bool lost(uint16_t, uint64_t) { return false; }
  PacketPath find(const AddressVector&, uint8_t) const { return {.lid = 2}; }
};

// A peer that is stopped (SIGSTOP) never drains its ring. At cb896d5 a sender of datagrams waited
// for it for ever; a card drops them.
TEST(FullRing, LosesADatagramOnceItIsNotDrained) {
  Side side(1, 2);
  side.qp().service = Service::kDatagram;
  Wqe wqe{.opcode = Opcode::kSend};
  wqe.add(mlx5::CompactAddressVector{Be64(0), Be32(9), Be32(2)}).data(8, Side::kKey, 0);
  side.post(wqe);
  FullWire wire;
  for (uint64_t now = 1; now < 10'000; ++now) {
    wire.taken = now;
    advance(*side.port, wire, side.qp(), now, 16);
  }
  EXPECT_EQ(side.completions(), 0u) << "it is drained: worth waiting for";
  const uint64_t grace = side.port->timing.stall_grace;
  advance(*side.port, wire, side.qp(), 9'998 + grace, 16);
  EXPECT_EQ(side.completions(), 0u) << "it may be a busy machine";
  advance(*side.port, wire, side.qp(), 10'000 + grace, 16);
  EXPECT_EQ(side.completions(), 1u);
  EXPECT_EQ(side.cqe(0).kind, CqeOpcode::kRequester) << "a datagram has gone out, or is lost";
  EXPECT_GT(wire.tries, 9'999u);
}

}  // namespace
}  // namespace peal::softnic::testing
