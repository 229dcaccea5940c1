// SPDX-License-Identifier: Apache-2.0
//
// A datagram between PEs of two hosts, as it travels over UDP:
//
//   proof, 16 bytes | PacketHeader | a part of a message, at most kPartBytes
//
// The proof is a keyed hash (HMAC-SHA256, its first half; libnettle) of all behind it: who does not
// know the job's secret can neither make a packet nor turn one into another. Nothing is encrypted.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

namespace peal {

using JobSecret = std::array<std::byte, 16>;

struct PacketHeader {
  static constexpr uint64_t kMagic = 0x31726166'6c616570;  // the bytes "pealfar1"
  enum Flag : uint32_t {
    kFirst = 1,   // of its message
    kAnswer = 2,  // the sender wants to hear from the receiver
    kOnce = 4,    // a whole message out of order, which is not sent again
  };

  uint64_t magic = kMagic;
  int32_t from = 0;
  int32_t to = 0;
  uint64_t sequence = 0;      // of this part, from 1 on; 0: there is none
  uint64_t acknowledged = 0;  // the sender has all parts up to this one
  uint32_t total = 0;         // bytes of the whole message
  uint32_t flags = 0;
};
static_assert(sizeof(PacketHeader) == 40);

/// A packet fits the smallest path that IPv6 allows (1,280 bytes), so nothing on the way cuts it.
inline constexpr size_t kPartBytes = 1152;
using PacketProof = std::array<std::byte, 16>;
inline constexpr size_t kPacketBytes = sizeof(PacketProof) + sizeof(PacketHeader) + kPartBytes;

/// A packet in memory of its own: handlers of signals make some.
struct SealedPacket {
  std::array<std::byte, kPacketBytes> bytes;
  size_t length = 0;

  std::span<const std::byte> view() const { return std::span(bytes).first(length); }
};

/// At most kPartBytes of `part`.
SealedPacket seal(const JobSecret& secret, const PacketHeader& header,
                  std::span<const std::byte> part) noexcept;

struct OpenedPacket {
  PacketHeader header;
  std::span<const std::byte> part;  // of the datagram
};

/// Nothing where the datagram is no packet of this job.
std::optional<OpenedPacket> open_packet(const JobSecret& secret,
                                        std::span<const std::byte> datagram);

}  // namespace peal
