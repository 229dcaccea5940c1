// SPDX-License-Identifier: Apache-2.0
//
// The small parts under the wire: the ring and how it breaks, time codes, ordered copies.
#include "softnic/wire/ring.h"

#include "softnic/engine/recovery.h"
#include "tests/unit/softnic/support.h"

namespace peal::softnic::testing {

TEST(Ring, CarriesRecordsAcrossItsEnd) {
  Pages memory(8192);
  RingCounters counters = {};
  RingWriter writer(&counters, {memory.data(), 4096});
  RingReader reader(&counters, {memory.data(), 4096});
  std::vector<std::byte> bytes(700);
  for (uint32_t round = 0; round < 100; ++round) {
    const uint32_t length = round * 7 % 700;
    std::fill(bytes.begin(), bytes.end(), static_cast<std::byte>(round));
    Payload payload{0, 0, {}};
    if (length > 0) payload.append(bytes.data(), length);
    Packet packet = {};
    packet.psn = round;
    packet.payload = length;
    ASSERT_TRUE(writer.room(record_bytes(length)));
    writer.append(packet, payload);
    Packet got;
    Payload view;
    EXPECT_FALSE(reader.peek(got, view)) << "not published";
    writer.publish();
    ASSERT_TRUE(reader.peek(got, view));
    EXPECT_EQ(got.psn, round);
    ASSERT_EQ(view.bytes, length);
    for (uint32_t i = 0; i < view.count; ++i) {
      EXPECT_EQ(std::memcmp(view.chunk[i].memory, bytes.data(), view.chunk[i].bytes), 0);
    }
    reader.take();
    reader.publish();
  }
}

TEST(Ring, FullRingHasNoRoomUntilTheReaderTakes) {
  Pages memory(4096);
  RingCounters counters = {};
  RingWriter writer(&counters, {memory.data(), 4096});
  RingReader reader(&counters, {memory.data(), 4096});
  for (int i = 0; i < 64; ++i) {
    ASSERT_TRUE(writer.room(64));
    writer.append({}, Payload{0, 0, {}});
  }
  EXPECT_FALSE(writer.room(64));
  writer.publish();
  Packet packet;
  Payload payload;
  ASSERT_TRUE(reader.peek(packet, payload));
  reader.take();
  reader.publish();
  EXPECT_TRUE(writer.room(64));
  EXPECT_FALSE(writer.room(128));
}

TEST(Ring, CountersThatCannotBeRightBreakIt) {
  Pages memory(4096);
  for (const uint64_t bad :
       {uint64_t{4097}, uint64_t{8192}, uint64_t{65}, ~uint64_t{0}, ~uint64_t{63}}) {
    RingCounters counters = {.tail = bad, .head = 0};
    RingReader reader(&counters, {memory.data(), 4096});
    Packet packet;
    Payload payload;
    EXPECT_FALSE(reader.peek(packet, payload));
    EXPECT_TRUE(reader.broken()) << bad;
  }
  RingCounters counters = {.tail = 0, .head = 64};
  RingWriter writer(&counters, {memory.data(), 4096});
  EXPECT_FALSE(writer.room(5000));
  EXPECT_TRUE(writer.broken()) << "read more than was written";
}

TEST(Ring, RecordLongerThanWhatIsThereBreaksIt) {
  Pages memory(4096);
  RingCounters counters = {.tail = 128, .head = 0};
  memory.as<Packet>()->payload = 65;
  RingReader reader(&counters, {memory.data(), 4096});
  Packet packet;
  Payload payload;
  EXPECT_FALSE(reader.peek(packet, payload));
  EXPECT_TRUE(reader.broken());
}

TEST(Timing, RnrCodesMeanWhatTheManualSays) {
  EXPECT_EQ(rnr_ns(0), 655'360'000u);
  EXPECT_EQ(rnr_ns(1), 10'000u);
  EXPECT_EQ(rnr_ns(3), 30'000u);
  EXPECT_EQ(rnr_ns(5), 60'000u);
  EXPECT_EQ(rnr_ns(12), 640'000u);
  EXPECT_EQ(rnr_ns(31), 491'520'000u);
}

TEST(Timing, TriesStayWithinTheirBounds) {
  const Timing timing;
  EXPECT_EQ(try_ns(timing, 1), timing.shortest_try);
  EXPECT_EQ(try_ns(timing, 14), 4096ull << 14);
  EXPECT_EQ(try_ns(timing, 31), timing.longest_try);
  EXPECT_EQ(try_ns(timing, 0), timing.longest_try);
  Timing scaled;
  scaled.scale = 2;
  EXPECT_EQ(try_ns(scaled, 14), 8192ull << 14);
}

TEST(Words, PlaceStoresEveryLengthAtEveryAlignment) {
  Pages from(4096);
  Pages to(4096);
  for (uint32_t i = 0; i < 256; ++i) from.as<uint8_t>()[i] = static_cast<uint8_t>(i + 1);
  for (size_t source = 0; source < 9; ++source) {
    for (size_t target = 8; target < 17; ++target) {
      for (size_t bytes = 0; bytes < 40; ++bytes) {
        std::memset(to.data(), 0, 128);
        place(to.data() + target, from.data() + source, bytes);
        ASSERT_EQ(std::memcmp(to.data() + target, from.data() + source, bytes), 0);
        ASSERT_EQ(to.as<uint8_t>()[target - 1], 0);
        ASSERT_EQ(to.as<uint8_t>()[target + bytes], 0);
      }
    }
  }
}

}  // namespace peal::softnic::testing
