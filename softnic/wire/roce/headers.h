// SPDX-License-Identifier: Apache-2.0
//
// The transport headers of RoCE v2 as they lie in a UDP datagram, big-endian:
//
//   BTH | RETH, AETH, AtomicETH, DETH ... | immediate | payload | 0 to 3 bytes of padding | ICRC
//
// Sources: InfiniBand Architecture Specification, volume 1, chapter 9 (headers, opcodes, syndromes)
// and annex A17 (RoCE v2). Opcodes from 0xc0 on are left to manufacturers: ours are marked so, and
// only this NIC knows them.
#pragma once

#include <cstdint>

#include "device/base/endian.h"

namespace peal::softnic::roce {

/// Destination port of every datagram.
inline constexpr uint16_t kUdpPort = 4791;

/// BTH: the transport service in [7:5], the operation below.
enum class BthOpcode : uint8_t {
  kSendFirst = 0x00,
  kSendMiddle = 0x01,
  kSendLast = 0x02,
  kSendLastImmediate = 0x03,
  kSendOnly = 0x04,
  kSendOnlyImmediate = 0x05,
  kWriteFirst = 0x06,
  kWriteMiddle = 0x07,
  kWriteLast = 0x08,
  kWriteLastImmediate = 0x09,
  kWriteOnly = 0x0a,
  kWriteOnlyImmediate = 0x0b,
  kReadRequest = 0x0c,
  kReadResponseFirst = 0x0d,
  kReadResponseMiddle = 0x0e,
  kReadResponseLast = 0x0f,
  kReadResponseOnly = 0x10,
  kAcknowledge = 0x11,
  kAtomicAcknowledge = 0x12,
  kCompareSwap = 0x13,
  kFetchAdd = 0x14,
  kDatagramOnly = 0x64,
  kDatagramOnlyImmediate = 0x65,
  // Ours: atomics with masks, on 8 and on 4 bytes, and the answer of 4.
  kMaskedCompareSwap8 = 0xc0,
  kMaskedFetchAdd8 = 0xc1,
  kMaskedCompareSwap4 = 0xc2,
  kMaskedFetchAdd4 = 0xc3,
  kAtomicAcknowledge4 = 0xc4,
};

/// A 64-bit word where 4 bytes are all the alignment there is.
struct Be64Halves {
  Be32 high;
  Be32 low;

  Be64Halves() = default;
  explicit Be64Halves(uint64_t value)
      : high(static_cast<uint32_t>(value >> 32)), low(static_cast<uint32_t>(value)) {}
  uint64_t host() const { return uint64_t{high.host()} << 32 | low.host(); }
};

/// Base transport header.
struct Bth {
  uint8_t opcode;
  uint8_t flags;  // [7] solicited event, [6] migrated, [5:4] bytes of padding, [3:0] version: 0
  Be16 pkey;
  Be32 destination;  // [31] FECN, [30] BECN, [23:0] queue pair
  Be32 psn;          // [31] an acknowledgement is asked for, [23:0] the number
};
static_assert(sizeof(Bth) == 12 && alignof(Bth) == 4);

inline constexpr uint8_t kSolicitedEvent = 0x80;
inline constexpr uint8_t kMigrated = 0x40;
inline constexpr uint8_t kVersionMask = 0x0f;
inline constexpr uint32_t kAskForAck = 1u << 31;

/// RDMA extended transport header: a WRITE's first packet, a READ's request.
struct Reth {
  Be64Halves address;
  Be32 rkey;
  Be32 length;
};
static_assert(sizeof(Reth) == 16 && alignof(Reth) == 4);

/// Acknowledgement extended transport header: [31:24] syndrome, [23:0] messages done.
struct Aeth {
  Be32 syndrome_msn;
};
static_assert(sizeof(Aeth) == 4);

/// Aeth, the syndrome: its kind in [6:5], the number below.
inline constexpr uint8_t kAckKind = 0x00;       // with credits
inline constexpr uint8_t kNotReadyKind = 0x20;  // with the RNR timer
inline constexpr uint8_t kNakKind = 0x60;
inline constexpr uint8_t kKindMask = 0x60;
inline constexpr uint8_t kNumberMask = 0x1f;
inline constexpr uint8_t kNoCredits = 0x1f;  // credits are not counted

enum class Nak : uint8_t {
  kSequence = 0,
  kInvalidRequest = 1,
  kRemoteAccess = 2,
  kRemoteOperation = 3,
  kInvalidReadDatagram = 4,
};

/// Atomic extended transport header.
struct AtomicEth {
  Be64Halves address;
  Be32 rkey;
  Be64Halves swap_or_add;
  Be64Halves compare;
};
static_assert(sizeof(AtomicEth) == 28 && alignof(AtomicEth) == 4);

/// Behind it in the opcodes of ours.
struct AtomicMasks {
  Be64Halves swap;
  Be64Halves compare;  // or the boundary of fields
};
static_assert(sizeof(AtomicMasks) == 16 && alignof(AtomicMasks) == 4);

/// Atomic acknowledgement extended transport header: what was there before.
struct AtomicAckEth {
  Be64Halves original;
};
static_assert(sizeof(AtomicAckEth) == 8 && alignof(AtomicAckEth) == 4);

/// Datagram extended transport header.
struct Deth {
  Be32 qkey;
  Be32 source;  // [23:0]
};
static_assert(sizeof(Deth) == 8);

inline constexpr uint32_t kImmediateBytes = 4;
inline constexpr uint32_t kIcrcBytes = 4;
inline constexpr uint32_t kMostPayload = 4096;  // the largest path MTU
/// No datagram of ours is longer; the longest headers carry no payload.
inline constexpr uint32_t kMostDatagram =
    sizeof(Bth) + sizeof(Reth) + kImmediateBytes + kMostPayload + kIcrcBytes;
static_assert(sizeof(Bth) + sizeof(AtomicEth) + sizeof(AtomicMasks) + kIcrcBytes < kMostDatagram);

}  // namespace peal::softnic::roce
