// SPDX-License-Identifier: Apache-2.0
#include "host/job/packet.h"

#include <nettle/hmac.h>
#include <nettle/memops.h>

#include <algorithm>
#include <cstring>

namespace peal {
namespace {

const uint8_t* octets(const void* data) { return static_cast<const uint8_t*>(data); }

PacketProof prove(const JobSecret& secret, std::span<const std::byte> sealed) noexcept {
  hmac_sha256_ctx hash;
  ::hmac_sha256_set_key(&hash, secret.size(), octets(secret.data()));
  ::hmac_sha256_update(&hash, sealed.size(), octets(sealed.data()));
  PacketProof proof;
  ::hmac_sha256_digest(&hash, proof.size(), reinterpret_cast<uint8_t*>(proof.data()));
  return proof;
}

}  // namespace

SealedPacket seal(const JobSecret& secret, const PacketHeader& header,
                  std::span<const std::byte> part) noexcept {
  SealedPacket packet;
  const size_t bytes = std::min(part.size(), kPartBytes);
  std::byte* const behind = packet.bytes.data() + sizeof(PacketProof);
  std::memcpy(behind, &header, sizeof(header));
  std::copy_n(part.begin(), bytes, behind + sizeof(header));
  packet.length = sizeof(PacketProof) + sizeof(header) + bytes;
  const PacketProof proof = prove(secret, packet.view().subspan(sizeof(PacketProof)));
  std::ranges::copy(proof, packet.bytes.begin());
  return packet;
}

std::optional<OpenedPacket> open_packet(const JobSecret& secret,
                                        std::span<const std::byte> datagram) {
  OpenedPacket opened;
  if (datagram.size() < sizeof(PacketProof) + sizeof(PacketHeader) ||
      datagram.size() > kPacketBytes) {
    return std::nullopt;
  }
  const std::span<const std::byte> sealed = datagram.subspan(sizeof(PacketProof));
  const PacketProof proof = prove(secret, sealed);
  if (::memeql_sec(proof.data(), datagram.data(), proof.size()) == 0) return std::nullopt;
  std::memcpy(&opened.header, sealed.data(), sizeof(opened.header));
  if (opened.header.magic != PacketHeader::kMagic) return std::nullopt;
  opened.part = sealed.subspan(sizeof(opened.header));
  return opened;
}

}  // namespace peal
