// SPDX-License-Identifier: Apache-2.0
//
// What one NIC says to another. A message (one WQE) is one or more packets with consecutive packet
// sequence numbers; a WRITE carries its bytes, a READ asks for them one packet's worth at a time,
// an atomic carries its operands. Answers name the sequence number they belong to.
//
//   requester  -- kRequest psn 5 -->  responder        kAck is cumulative; kRefuse, kNotReady and
//              <-- kAck psn 5 ------                   kResend acknowledge everything before psn
#pragma once

#include <cstddef>
#include <cstdint>

#include "device/base/target.h"
#include "device/mlx5/layout.h"
#include "softnic/engine/attributes.h"

namespace peal::softnic {

enum class PacketKind : uint8_t {
  kRequest = 1,
  kAck,       // everything up to psn is done
  kData,      // answer to a READ packet or an atomic; payload follows
  kRefuse,    // psn failed with `syndrome`
  kNotReady,  // psn found no receive entry; try again after `timer`
  kResend,    // psn was expected and something later came
  kAbsent,    // no queue pair listens at that number now; a hint to ask again soon
  kOffer,     // of the wire itself, see shared_region.h
  kBorrowed,  // `address` is the offer's id
  kTakeBack,  // likewise
};

inline constexpr uint8_t kFirstOfConnection = 1;  // DC: opens (or resynchronises) the connection
inline constexpr uint8_t kDcRequest = 2;
inline constexpr uint8_t kLastOfMessage = 4;
inline constexpr uint8_t kSolicited = 8;   // the receiver's completion raises a solicited event
inline constexpr uint8_t kInRegion = 16;   // RegionBytes follow the request (shared_region.h)
inline constexpr uint8_t kGlobal = 32;     // DC, datagram: came with a GRH
inline constexpr uint8_t kDatagram = 64;   // rkey is the Q_Key, nobody answers (datagram.h)
inline constexpr uint8_t kAnyOrder = 128;  // by adaptive routing

inline constexpr uint32_t kPsnMask = 0xffffff;

/// Signed distance a - b of 24-bit sequence numbers.
PEAL_HD int32_t psn_distance(uint32_t a, uint32_t b) {
  return static_cast<int32_t>((a - b) << 8) >> 8;
}

/// Header of a packet, one cache line. Host byte order: it never leaves the machine.
struct alignas(64) Packet {
  PacketKind kind;
  mlx5::Opcode opcode;
  uint8_t opmod;  // SEND: the service level, or Way::headers
  uint8_t flags;
  uint32_t destination;  // queue pair or DC target
  uint32_t source;       // queue pair
  uint32_t psn;          // 24 bits
  uint64_t address;      // of the message at the responder
  uint32_t rkey;         //
  uint32_t total;        // bytes of the message
  uint32_t offset;       // of this packet's bytes in the message
  uint32_t bytes;        // moved by this packet
  uint32_t payload;      // bytes that follow the header
  uint32_t immediate;    // big-endian, as in the WQE
  uint64_t dc_key;       //
  uint32_t epoch;        // DC: names one connection of one initiator
  uint16_t detail;       // kRequest: the P_Key; kRefuse: the syndrome; kNotReady: the timer
  Network network;       // of the requester's queue pair
  uint8_t mtu;           // likewise, QPC code
};
static_assert(sizeof(Packet) == 64);

/// Payload of an atomic request.
struct AtomicOperands {
  uint64_t swap_or_add;
  uint64_t compare;
  uint64_t swap_mask;
  uint64_t compare_mask;  // field boundary of a masked fetch-add
};

// An engine on a GPU has no indirect keys, and no room for what they take.
#if PEAL_CUDA
inline constexpr bool kIndirectKeys = false;
#else
inline constexpr bool kIndirectKeys = true;
#endif

/// The bytes of one packet, where they lie now.
struct Payload {
  // 61 data segments, one split by the ring's end; of an indirect key each may lie in two entries,
  // and a packet of at most 256 KiB passes from one of at least 4 KiB to the next.
  static constexpr uint32_t kMaxChunks = kIndirectKeys ? 192 : 64;
  struct Chunk {
    const std::byte* memory;
    uint32_t bytes;
  };
  uint32_t count = 0;
  uint32_t bytes = 0;
  Chunk chunk[kMaxChunks];

  PEAL_HD void clear() { count = bytes = 0; }
  PEAL_HD bool full() const { return count == kMaxChunks; }
  PEAL_HD void append(const std::byte* memory, uint32_t length) {
    chunk[count++] = {memory, length};
    bytes += length;
  }
};

}  // namespace peal::softnic
