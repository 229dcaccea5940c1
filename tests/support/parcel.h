// SPDX-License-Identifier: Apache-2.0
//
// A packet on its way between two engines of one thread, for tests that bring the wire.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "softnic/engine/packet.h"
#include "softnic/engine/word.h"

namespace peal::softnic::testing {

/// A packet with its bytes, in an allocation of exactly their size: ASan sees one too many.
struct Parcel {
  Packet packet;
  std::vector<std::byte> bytes;

  Parcel(const Packet& header, const Payload& payload) : packet(header) {
    packet.payload = payload.bytes;
    for (uint32_t i = 0; i < payload.count; ++i) {
      const Payload::Chunk& chunk = payload.chunk[i];
      if (chunk.bytes == 0) continue;  // then there may be no memory at either end
      bytes.resize(bytes.size() + chunk.bytes);
      copy_bytes(bytes.data() + bytes.size() - chunk.bytes, chunk.memory, chunk.bytes);
    }
    bytes.shrink_to_fit();
  }
  Payload payload() const {
    Payload payload;
    payload.clear();
    if (!bytes.empty()) payload.append(bytes.data(), static_cast<uint32_t>(bytes.size()));
    return payload;
  }
};

}  // namespace peal::softnic::testing
