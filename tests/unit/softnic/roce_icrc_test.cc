// SPDX-License-Identifier: Apache-2.0
//
// The ICRC of datagrams that others have made: one captured from a ConnectX-4 Lx and one of Scapy's
// (both in its test/contrib/roce.uts), and CRC32 of the string that everybody uses.
#include <cstring>
#include <vector>

#include "gtest/gtest.h"
#include "softnic/wire/roce/headers.h"
#include "softnic/wire/roce/icrc.h"

namespace peal::softnic::roce {
namespace {

std::vector<std::byte> bytes_of(std::initializer_list<int> list) {
  std::vector<std::byte> bytes;
  for (const int value : list) bytes.push_back(static_cast<std::byte>(value));
  return bytes;
}

TEST(Icrc, IsEthernetsCrc32) {
  const char text[] = "123456789";
  EXPECT_EQ(~crc32(~0u, reinterpret_cast<const std::byte*>(text), 9), 0xcbf43926u);
}

TEST(Icrc, TakesPiecesOfAnyLength) {
  std::vector<std::byte> bytes(1500);  // lanes, steps and single ones
  for (size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<std::byte>(i * i * 37);
  const uint32_t whole = crc32(~0u, bytes.data(), bytes.size());
  for (size_t cut = 0; cut <= bytes.size(); ++cut) {
    const uint32_t first = crc32(~0u, bytes.data(), cut);
    EXPECT_EQ(crc32(first, bytes.data() + cut, bytes.size() - cut), whole) << cut;
  }
}

TEST(Icrc, BeginsWithEightBytesOfOnes) {
  const auto ones = bytes_of({255, 255, 255, 255, 255, 255, 255, 255});
  EXPECT_EQ(crc32(~0u, ones.data(), ones.size()), 0xdebb20e3u);  // rxe_icrc.c starts with it
}

// 45c2 003c 718c 4000 4011 ... 10.0.17.1 > 10.0.18.1, UDP 0 > 4791, a congestion notification: BECN
// is set and does not count.
TEST(Icrc, IsThatOfAConnectX4Lx) {
  auto datagram = bytes_of({0x81, 0x00, 0xff, 0xff, 0x40, 0x00, 0x01, 0x18, 0x00, 0x00, 0x00,
                            0x00, 0,    0,    0,    0,    0,    0,    0,    0,    0,    0,
                            0,    0,    0,    0,    0,    0,    0x82, 0xfd, 0x00, 0x2a});
  const Ends ends{{10, 0, 17, 1}, {10, 0, 18, 1}, 0, kUdpPort, 0x718c};
  EXPECT_TRUE(sealed(ends, datagram.data(), datagram.size()));
  for (size_t i = 0; i < datagram.size(); ++i) {
    auto broken = datagram;
    broken[i] ^= std::byte{1};
    EXPECT_EQ(sealed(ends, broken.data(), broken.size()), i == 4) << i;
  }
}

// The same, of which a UDP socket does not tell the identification: no other bit may differ.
TEST(Icrc, HoldsForAnIdentificationThatIsNotKnown) {
  auto datagram = bytes_of({0x81, 0x00, 0xff, 0xff, 0x40, 0x00, 0x01, 0x18, 0x00, 0x00, 0x00,
                            0x00, 0,    0,    0,    0,    0,    0,    0,    0,    0,    0,
                            0,    0,    0,    0,    0,    0,    0x82, 0xfd, 0x00, 0x2a});
  Ends ends{{10, 0, 17, 1}, {10, 0, 18, 1}, 0, kUdpPort};
  EXPECT_FALSE(sealed(ends, datagram.data(), datagram.size()));
  EXPECT_EQ(identification_of(ends, datagram.data(), datagram.size()), 0x718c);
  for (size_t bit = 0; bit < 8 * datagram.size(); ++bit) {
    auto broken = datagram;
    broken[bit / 8] ^= std::byte{1} << bit % 8;
    EXPECT_EQ(identification_of(ends, broken.data(), broken.size()).has_value(), bit / 8 == 4)
        << bit;
  }
  ends.source_port = 1;
  EXPECT_FALSE(identification_of(ends, datagram.data(), datagram.size()));
}

TEST(Icrc, AnyIdentificationIsFoundBehindAnyLength) {
  Ends ends{{10, 0, 0, 1}, {10, 0, 0, 2}, 0xc000, kUdpPort};
  std::vector<std::byte> datagram(kMostDatagram, std::byte{0x3c});
  for (size_t covered = sizeof(Bth); covered <= kMostDatagram - kIcrcBytes; ++covered) {
    ends.identification = static_cast<uint16_t>(covered * 40503);
    seal(ends, datagram.data(), covered);
    EXPECT_EQ(identification_of(ends, datagram.data(), covered + kIcrcBytes), ends.identification);
    datagram[covered / 2] ^= std::byte{0x10};
    EXPECT_FALSE(identification_of(ends, datagram.data(), covered + kIcrcBytes)) << covered;
    datagram[covered / 2] ^= std::byte{0x10};
  }
}

TEST(Icrc, IsThatOfScapysExample) {
  auto datagram = bytes_of({0x24, 0x60, 0xff, 0xff, 0x00, 0x00, 0x00, 0xd3, 0x00, 0xcf, 0x17, 0x10,
                            'F',  '0',  0x81, 0x8b, 0xe2, 0x89, '5',  0xd9, 0x0e, 0x9a, 0x95, 'P',
                            'T',  0x01, 0xbe, 0x88, '^',  'P',  0x00, 0x00, 0,    0,    0,    0});
  const Ends ends{{192, 168, 0, 7}, {192, 168, 0, 7}, 49152, kUdpPort, 1144};
  seal(ends, datagram.data(), datagram.size() - 4);
  const auto crc = bytes_of({0x78, 0xf3, 0x53, 0xf3});
  EXPECT_EQ(std::memcmp(datagram.data() + datagram.size() - 4, crc.data(), 4), 0);
}

// Python's zlib.crc32 over ones, the headers as rxe_icrc.c masks them (6fffffff, 17, hop limit ff),
// and the packet: fd00::1 > fd00::2, a WRITE.
TEST(Icrc, IsThatOfLinuxForIpv6) {
  auto datagram =
      bytes_of({0x0a, 0x00, 0xff, 0xff, 0x00, 0x00, 0x00, 0xd3, 0x80, 0xcf, 0x17, 0x10,
                0,    1,    2,    3,    4,    5,    6,    7,    8,    9,    10,   11,
                12,   13,   14,   15,   16,   17,   18,   19,   0x40, 0xa4, 0xf9, 0x85});
  Address source;
  Address destination;
  source.byte = {0xfd, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1};
  destination.byte = {0xfd, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2};
  const Ends ends{source, destination, kUdpPort, kUdpPort};
  EXPECT_TRUE(sealed(ends, datagram.data(), datagram.size()));
  for (size_t i = 0; i < datagram.size(); ++i) {
    auto broken = datagram;
    broken[i] ^= std::byte{1};
    EXPECT_EQ(sealed(ends, broken.data(), broken.size()), i == 4) << i;
  }
  for (const size_t i : {0u, 11u, 15u}) {
    Ends other = ends;
    other.destination.byte[i] ^= 1;
    EXPECT_FALSE(sealed(other, datagram.data(), datagram.size())) << i;
  }
}

TEST(Icrc, NamesTheEnds) {
  std::vector<std::byte> datagram(40);
  const Ends ends{{10, 0, 0, 1}, {10, 0, 0, 2}, 4791, kUdpPort};
  seal(ends, datagram.data(), 36);
  EXPECT_TRUE(sealed(ends, datagram.data(), 40));
  Ends other = ends;
  other.source.byte[15] = 3;
  EXPECT_FALSE(sealed(other, datagram.data(), 40));
  other = ends;
  other.source_port = 4790;
  EXPECT_FALSE(sealed(other, datagram.data(), 40));
}

TEST(Icrc, NothingShortIsSealed) {
  const std::vector<std::byte> datagram(16);
  const Ends ends{{10, 0, 0, 1}, {10, 0, 0, 2}, 4791, kUdpPort};
  for (size_t bytes = 0; bytes <= datagram.size(); ++bytes) {
    EXPECT_FALSE(sealed(ends, datagram.data(), bytes)) << bytes;
    EXPECT_FALSE(identification_of(ends, datagram.data(), bytes)) << bytes;
  }
}

}  // namespace
}  // namespace peal::softnic::roce
