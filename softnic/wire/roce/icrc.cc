// SPDX-License-Identifier: Apache-2.0
//
// CRC32 by eight tables, eight bytes at a time, and the headers that it begins with. Each step
// waits for the one before, so long pieces are cut into lanes that go on at once: four times as
// fast.
#include "softnic/wire/roce/icrc.h"

#include <cstring>

#include "softnic/wire/roce/headers.h"

namespace peal::softnic::roce {

namespace {

constexpr size_t kStep = 8;
using Tables = std::array<std::array<uint32_t, 256>, kStep>;

constexpr uint32_t kPolynomial = 0xedb88320;

constexpr Tables make_tables() {
  Tables tables = {};
  for (uint32_t byte = 0; byte < 256; ++byte) {
    uint32_t crc = byte;
    for (int bit = 0; bit < 8; ++bit) crc = (crc & 1) != 0 ? crc >> 1 ^ kPolynomial : crc >> 1;
    tables[0][byte] = crc;
  }
  for (size_t i = 1; i < kStep; ++i) {
    for (uint32_t byte = 0; byte < 256; ++byte) {
      const uint32_t before = tables[i - 1][byte];
      tables[i][byte] = before >> 8 ^ tables[0][before & 0xff];
    }
  }
  return tables;
}

constexpr Tables kTables = make_tables();

constexpr size_t kLanes = 4;
constexpr size_t kLaneBytes = 128;

/// What kLaneBytes bytes of zeros make of a checksum, by its bytes.
using Shift = std::array<std::array<uint32_t, 256>, 4>;

constexpr Shift make_shift() {
  Shift shift = {};
  for (size_t i = 0; i < shift.size(); ++i) {
    for (uint32_t bit = 1; bit < 256; bit *= 2) {
      uint32_t crc = bit << 8 * i;
      for (size_t n = 0; n < kLaneBytes; ++n) crc = crc >> 8 ^ kTables[0][crc & 0xff];
      for (uint32_t below = 0; below < bit; ++below) {
        shift[i][bit + below] = shift[i][below] ^ crc;  // it is linear
      }
    }
  }
  return shift;
}

constexpr Shift kShift = make_shift();

uint32_t shifted(uint32_t crc) {
  return kShift[0][crc & 0xff] ^ kShift[1][crc >> 8 & 0xff] ^ kShift[2][crc >> 16 & 0xff] ^
         kShift[3][crc >> 24];
}

/// Takes the next eight bytes in.
uint32_t step(uint32_t crc, const std::byte* from) {
  uint64_t word;  // little-endian, as every machine that this runs on
  std::memcpy(&word, from, sizeof word);
  word ^= crc;
  // Written out: a loop takes g++ twice the time.
  return kTables[7][word & 0xff] ^ kTables[6][word >> 8 & 0xff] ^ kTables[5][word >> 16 & 0xff] ^
         kTables[4][word >> 24 & 0xff] ^ kTables[3][word >> 32 & 0xff] ^
         kTables[2][word >> 40 & 0xff] ^ kTables[1][word >> 48 & 0xff] ^ kTables[0][word >> 56];
}

// Checksums as polynomials, x^0 in the highest bit. A bit of zero multiplies by x.
constexpr uint32_t kOne = 1u << 31;

constexpr uint32_t times_x(uint32_t a) { return (a & 1) != 0 ? a >> 1 ^ kPolynomial : a >> 1; }

constexpr uint32_t product(uint32_t a, uint32_t b) {
  uint32_t sum = 0;
  for (; a != 0; a <<= 1, b = times_x(b)) {
    if ((a & kOne) != 0) sum ^= b;
  }
  return sum;
}

constexpr uint32_t power_of_x(uint32_t exponent) {
  uint32_t power = kOne;
  for (uint32_t square = kOne >> 1; exponent != 0;
       exponent >>= 1, square = product(square, square)) {
    if ((exponent & 1) != 0) power = product(power, square);
  }
  return power;
}

/// What takes a checksum back by a byte of zeros. The powers of x come round after 2^32 - 1.
constexpr uint32_t kByteBack = power_of_x(~0u - 8);
static_assert(product(kByteBack, power_of_x(8)) == kOne);

constexpr size_t kColumns = 64;
/// Takes it back by 0, 1, 2 ... bytes; and by 0, 64, 128 ...
struct Back {
  std::array<uint32_t, kColumns> bytes;
  std::array<uint32_t, kColumns + 8> columns;
};

constexpr Back make_back() {
  Back back = {};
  uint32_t power = kOne;
  for (uint32_t& entry : back.bytes) {
    entry = power;
    power = product(power, kByteBack);
  }
  const uint32_t column = power;
  power = kOne;
  for (uint32_t& entry : back.columns) {
    entry = power;
    power = product(power, column);
  }
  return back;
}

constexpr Back kBack = make_back();

uint32_t taken_back(uint32_t crc, size_t bytes) {
  return product(kBack.columns[bytes / kColumns], product(kBack.bytes[bytes % kColumns], crc));
}

constexpr size_t kIpv4Bytes = 20;
constexpr size_t kIpv6Bytes = 40;
constexpr size_t kUdpBytes = 8;
constexpr uint32_t kUdpProtocol = 17;
constexpr size_t kOnes = 8;  // stand for an InfiniBand link's header
constexpr size_t kBthReserved = 4;
constexpr size_t kIdentification = 4;  // its place in the IPv4 header
static_assert(kIpv4Bytes + kUdpBytes + kMostDatagram < kColumns * kBack.columns.size());

struct Writer {
  std::byte* at;
  void put8(uint32_t value) { *at++ = static_cast<std::byte>(value); }
  void put16(size_t value) {
    put8(static_cast<uint32_t>(value >> 8 & 0xff));
    put8(static_cast<uint32_t>(value & 0xff));
  }
  void put(const Address& address, size_t from) {
    for (size_t i = from; i < address.byte.size(); ++i) put8(address.byte[i]);
  }
};

void put_ipv4(Writer& writer, const Ends& ends, size_t udp_bytes) {
  constexpr size_t kDontFragment = 0x4000;
  constexpr size_t kPrefix = 12;  // that says that it is IPv4
  writer.put8(0x45);
  writer.put8(0xff);  // type of service
  writer.put16(kIpv4Bytes + udp_bytes);
  writer.put16(ends.identification);
  writer.put16(kDontFragment);
  writer.put8(0xff);  // time to live
  writer.put8(kUdpProtocol);
  writer.put16(0xffff);  // checksum
  writer.put(ends.source, kPrefix);
  writer.put(ends.destination, kPrefix);
}

void put_ipv6(Writer& writer, const Ends& ends, size_t udp_bytes) {
  writer.put16(0x6fff);  // version, traffic class
  writer.put16(0xffff);  // flow label
  writer.put16(udp_bytes);
  writer.put8(kUdpProtocol);
  writer.put8(0xff);  // hop limit
  writer.put(ends.source, 0);
  writer.put(ends.destination, 0);
}

}  // namespace

uint32_t crc32(uint32_t crc, const std::byte* from, size_t bytes) {
  for (; bytes >= kLanes * kLaneBytes; bytes -= kLanes * kLaneBytes) {
    uint32_t lane[kLanes] = {crc};
    for (size_t at = 0; at < kLaneBytes; at += kStep, from += kStep) {
      lane[0] = step(lane[0], from);
      lane[1] = step(lane[1], from + kLaneBytes);
      lane[2] = step(lane[2], from + 2 * kLaneBytes);
      lane[3] = step(lane[3], from + 3 * kLaneBytes);
    }
    from += (kLanes - 1) * kLaneBytes;
    crc = lane[0];
    for (size_t i = 1; i < kLanes; ++i) crc = shifted(crc) ^ lane[i];
  }
  for (; bytes >= kStep; bytes -= kStep, from += kStep) crc = step(crc, from);
  for (; bytes > 0; --bytes, ++from) {
    crc = crc >> 8 ^ kTables[0][(crc ^ static_cast<uint32_t>(*from)) & 0xff];
  }
  return crc;
}

uint32_t icrc(const Ends& ends, const std::byte* payload, size_t bytes) {
  std::byte head[kOnes + kIpv6Bytes + kUdpBytes + sizeof(Bth)];
  std::memset(head, 0xff, kOnes);
  Writer writer{head + kOnes};
  const size_t udp_bytes = kUdpBytes + bytes + kIcrcBytes;
  if (ends.source.ipv4()) {
    put_ipv4(writer, ends, udp_bytes);
  } else {
    put_ipv6(writer, ends, udp_bytes);
  }
  writer.put16(ends.source_port);
  writer.put16(ends.destination_port);
  writer.put16(udp_bytes);
  writer.put16(0xffff);  // checksum
  std::memcpy(writer.at, payload, sizeof(Bth));
  writer.at[kBthReserved] = std::byte{0xff};
  const auto head_bytes = static_cast<size_t>(writer.at - head) + sizeof(Bth);
  const uint32_t crc = crc32(~0u, head, head_bytes);
  return ~crc32(crc, payload + sizeof(Bth), bytes - sizeof(Bth));
}

void seal(const Ends& ends, std::byte* payload, size_t bytes) {
  const uint32_t crc = icrc(ends, payload, bytes);
  for (size_t i = 0; i < kIcrcBytes; ++i) payload[bytes + i] = static_cast<std::byte>(crc >> 8 * i);
}

namespace {

/// The ICRC that is right, and the one that is there, in their difference: 0 for none.
uint32_t difference(const Ends& ends, const std::byte* payload, size_t covered) {
  uint32_t there = 0;
  for (size_t i = 0; i < kIcrcBytes; ++i) {
    there |= static_cast<uint32_t>(payload[covered + i]) << 8 * i;
  }
  return there ^ icrc(ends, payload, covered);
}

}  // namespace

bool sealed(const Ends& ends, const std::byte* payload, size_t bytes) {
  if (bytes < sizeof(Bth) + kIcrcBytes) return false;
  return difference(ends, payload, bytes - kIcrcBytes) == 0;
}

std::optional<uint16_t> identification_of(const Ends& ends, const std::byte* payload,
                                          size_t bytes) {
  if (bytes < sizeof(Bth) + kIcrcBytes) return std::nullopt;
  const size_t covered = bytes - kIcrcBytes;
  Ends unnumbered = ends;
  unnumbered.identification = 0;
  const uint32_t made = difference(unnumbered, payload, covered);
  if (made == 0) return uint16_t{0};
  if (!ends.source.ipv4()) return std::nullopt;  // IPv6 has no number
  const uint32_t number = taken_back(made, kIpv4Bytes - kIdentification + kUdpBytes + covered);
  if (number > 0xffff) return std::nullopt;
  return static_cast<uint16_t>(number << 8 | number >> 8);  // its first byte went in first
}

}  // namespace peal::softnic::roce
