// SPDX-License-Identifier: Apache-2.0
//
// Headers byte by byte as the specification draws them, and back; what is no packet is refused.
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "softnic/wire/roce/codec.h"

namespace peal::softnic::roce {
namespace {

constexpr BthOpcode kAll[] = {BthOpcode::kSendFirst,
                              BthOpcode::kSendMiddle,
                              BthOpcode::kSendLast,
                              BthOpcode::kSendLastImmediate,
                              BthOpcode::kSendOnly,
                              BthOpcode::kSendOnlyImmediate,
                              BthOpcode::kWriteFirst,
                              BthOpcode::kWriteMiddle,
                              BthOpcode::kWriteLast,
                              BthOpcode::kWriteLastImmediate,
                              BthOpcode::kWriteOnly,
                              BthOpcode::kWriteOnlyImmediate,
                              BthOpcode::kReadRequest,
                              BthOpcode::kReadResponseFirst,
                              BthOpcode::kReadResponseMiddle,
                              BthOpcode::kReadResponseLast,
                              BthOpcode::kReadResponseOnly,
                              BthOpcode::kAcknowledge,
                              BthOpcode::kAtomicAcknowledge,
                              BthOpcode::kCompareSwap,
                              BthOpcode::kFetchAdd,
                              BthOpcode::kDatagramOnly,
                              BthOpcode::kDatagramOnlyImmediate,
                              BthOpcode::kMaskedCompareSwap8,
                              BthOpcode::kMaskedFetchAdd8,
                              BthOpcode::kMaskedCompareSwap4,
                              BthOpcode::kMaskedFetchAdd4,
                              BthOpcode::kAtomicAcknowledge4};

std::string hex(const std::byte* from, size_t bytes) {
  std::string text;
  for (size_t i = 0; i < bytes; ++i) {
    constexpr char kDigits[] = "0123456789abcdef";
    text += kDigits[static_cast<uint8_t>(from[i]) >> 4];
    text += kDigits[static_cast<uint8_t>(from[i]) & 15];
  }
  return text;
}

std::string encoded(const RoceFrame& frame) {
  std::byte bytes[kMostDatagram];
  return hex(bytes, encode(frame, bytes));
}

RoceFrame filled(BthOpcode opcode) {
  RoceFrame frame;
  frame.opcode = opcode;
  frame.pkey = 0xffff;
  frame.qpn = 0x123456;
  frame.psn = 0xabcdef;
  frame.address = 0x1122334455667788;
  frame.rkey = 0x99aabbcc;
  frame.length = 0x00010203;
  frame.syndrome = 0x1f;
  frame.msn = 0x000007;
  frame.operands = {0xa0a1a2a3a4a5a6a7, 0xb0b1b2b3b4b5b6b7, 0xc0c1c2c3c4c5c6c7, 0xd0d1d2d3d4d5d6d7};
  frame.original = 0xe0e1e2e3e4e5e6e7;
  frame.qkey = 0x11111111;
  frame.source = 0x000042;
  frame.immediate = Be32(0xcafebabe).raw;
  return frame;
}

TEST(RoceCodec, WritesHeadersAsTheSpecificationDrawsThem) {
  const std::string bth =
      "40ffff"
      "00123456"
      "00abcdef";
  const std::string reth =
      "1122334455667788"
      "99aabbcc"
      "00010203";
  const std::string atomic =
      "1122334455667788"
      "99aabbcc"
      "a0a1a2a3a4a5a6a7"
      "b0b1b2b3b4b5b6b7";
  const std::string masks =
      "c0c1c2c3c4c5c6c7"
      "d0d1d2d3d4d5d6d7";
  const std::pair<BthOpcode, std::string> expected[] = {
      {BthOpcode::kSendFirst, "00" + bth},
      {BthOpcode::kSendMiddle, "01" + bth},
      {BthOpcode::kSendLast, "02" + bth},
      {BthOpcode::kSendLastImmediate, "03" + bth + "cafebabe"},
      {BthOpcode::kSendOnly, "04" + bth},
      {BthOpcode::kSendOnlyImmediate, "05" + bth + "cafebabe"},
      {BthOpcode::kWriteFirst, "06" + bth + reth},
      {BthOpcode::kWriteMiddle, "07" + bth},
      {BthOpcode::kWriteLast, "08" + bth},
      {BthOpcode::kWriteLastImmediate, "09" + bth + "cafebabe"},
      {BthOpcode::kWriteOnly, "0a" + bth + reth},
      {BthOpcode::kWriteOnlyImmediate, "0b" + bth + reth + "cafebabe"},
      {BthOpcode::kReadRequest, "0c" + bth + reth},
      {BthOpcode::kReadResponseFirst, "0d" + bth + "1f000007"},
      {BthOpcode::kReadResponseMiddle, "0e" + bth},
      {BthOpcode::kReadResponseLast, "0f" + bth + "1f000007"},
      {BthOpcode::kReadResponseOnly, "10" + bth + "1f000007"},
      {BthOpcode::kAcknowledge, "11" + bth + "1f000007"},
      {BthOpcode::kAtomicAcknowledge, "12" + bth +
                                          "1f000007"
                                          "e0e1e2e3e4e5e6e7"},
      {BthOpcode::kCompareSwap, "13" + bth + atomic},
      {BthOpcode::kFetchAdd, "14" + bth + atomic},
      {BthOpcode::kDatagramOnly, "64" + bth +
                                     "11111111"
                                     "00000042"},
      {BthOpcode::kDatagramOnlyImmediate, "65" + bth +
                                              "11111111"
                                              "00000042"
                                              "cafebabe"},
      {BthOpcode::kMaskedCompareSwap8, "c0" + bth + atomic + masks},
      {BthOpcode::kMaskedFetchAdd8, "c1" + bth + atomic + masks},
      {BthOpcode::kMaskedCompareSwap4, "c2" + bth + atomic + masks},
      {BthOpcode::kMaskedFetchAdd4, "c3" + bth + atomic + masks},
      {BthOpcode::kAtomicAcknowledge4, "c4" + bth +
                                           "1f000007"
                                           "e0e1e2e3e4e5e6e7"},
  };
  EXPECT_EQ(std::size(expected), std::size(kAll));
  for (const auto& [opcode, bytes] : expected) EXPECT_EQ(encoded(filled(opcode)), bytes);
}

TEST(RoceCodec, SetsTheBitsOfTheBaseHeader) {
  RoceFrame frame = filled(BthOpcode::kSendOnly);
  frame.solicited = frame.asks_ack = true;
  frame.bytes = 5;  // three bytes of padding
  EXPECT_EQ(encoded(frame), "04f0ffff0012345680abcdef");
}

/// A datagram as it goes on the wire, but for the ICRC.
std::vector<std::byte> datagram_of(const RoceFrame& frame) {
  std::vector<std::byte> bytes(kMostDatagram);
  const uint32_t headers = encode(frame, bytes.data());
  for (uint32_t i = 0; i < frame.bytes; ++i) bytes[headers + i] = static_cast<std::byte>(i + 1);
  bytes.resize(headers + frame.bytes + padding(frame.bytes) + kIcrcBytes);
  bytes.shrink_to_fit();
  return bytes;
}

TEST(RoceCodec, ReadsBackWhatItHasWritten) {
  for (const BthOpcode opcode : kAll) {
    const HeaderLayout layout = layout_of(opcode).value();
    for (const uint32_t payload : {0u, 1u, 2u, 3u, 4u, 255u, 4096u}) {
      if (payload != 0 && !layout.payload) continue;
      RoceFrame frame = filled(opcode);
      frame.bytes = payload;
      frame.solicited = payload % 2 == 0;
      frame.asks_ack = payload % 3 == 0;
      const auto bytes = datagram_of(frame);
      const auto back = decode(bytes.data(), bytes.size());
      ASSERT_TRUE(back) << static_cast<int>(opcode) << " with " << payload;
      EXPECT_EQ(back->opcode, opcode);
      EXPECT_EQ(back->bytes, payload);
      EXPECT_EQ(back->data, bytes.data() + layout.bytes());
      RoceFrame again = *back;
      std::byte written[kMostDatagram];
      EXPECT_EQ(encode(again, written), layout.bytes());
      EXPECT_EQ(hex(written, layout.bytes()), hex(bytes.data(), layout.bytes()));
    }
  }
}

TEST(RoceCodec, RefusesWhatIsCutShort) {
  for (const BthOpcode opcode : kAll) {
    const auto bytes = datagram_of(filled(opcode));
    for (size_t keep = 0; keep < bytes.size(); ++keep) {
      const std::vector<std::byte> cut(bytes.begin(), bytes.begin() + static_cast<long>(keep));
      EXPECT_FALSE(decode(cut.data(), keep)) << static_cast<int>(opcode) << " of " << keep;
    }
  }
}

TEST(RoceCodec, RefusesWhatIsNoPacket) {
  RoceFrame frame = filled(BthOpcode::kAcknowledge);
  auto bytes = datagram_of(frame);
  bytes.resize(bytes.size() + 4);  // payload where there can be none
  EXPECT_FALSE(decode(bytes.data(), bytes.size()));

  bytes = datagram_of(filled(BthOpcode::kSendOnly));
  bytes[1] |= std::byte{0x30};  // padding without payload
  EXPECT_FALSE(decode(bytes.data(), bytes.size()));
  bytes[1] = std::byte{0x41};  // version 1
  EXPECT_FALSE(decode(bytes.data(), bytes.size()));
  bytes[1] = std::byte{0x40};
  EXPECT_TRUE(decode(bytes.data(), bytes.size()));

  for (const int unknown : {0x15, 0x16, 0x1f, 0x20, 0x24, 0x60, 0x66, 0x81, 0xc5, 0xff}) {
    bytes[0] = static_cast<std::byte>(unknown);
    EXPECT_FALSE(decode(bytes.data(), bytes.size())) << unknown;
  }
  frame = filled(BthOpcode::kSendOnly);
  bytes.assign(sizeof(Bth) + kMostPayload + 4 + kIcrcBytes, std::byte{0});  // 4100 bytes of payload
  EXPECT_FALSE(decode(bytes.data(), bytes.size()));
}

TEST(RoceCodec, TakesAnyBytes) {
  std::mt19937 random(7);
  for (int run = 0; run < 20'000; ++run) {
    std::vector<std::byte> bytes(random() % 120);
    for (auto& byte : bytes) byte = static_cast<std::byte>(random());
    const auto frame = decode(bytes.data(), bytes.size());
    if (!frame || frame->bytes == 0) continue;
    EXPECT_GE(frame->data, bytes.data());
    EXPECT_LE(frame->data + frame->bytes + kIcrcBytes, bytes.data() + bytes.size());
  }
}

}  // namespace
}  // namespace peal::softnic::roce
