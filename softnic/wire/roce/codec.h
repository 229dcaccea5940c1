// SPDX-License-Identifier: Apache-2.0
//
// Bytes of a datagram <-> RoceFrame: what the headers say, in host order. No more than the bytes is
// known here; translate.h makes packets of the engine from it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include "softnic/engine/packet.h"
#include "softnic/wire/roce/headers.h"

namespace peal::softnic::roce {

/// What follows the BTH of an opcode.
struct HeaderLayout {
  bool deth = false;
  bool reth = false;
  bool aeth = false;
  bool atomic = false;
  bool masks = false;
  bool original = false;
  bool immediate = false;
  bool payload = false;

  uint32_t bytes() const;  // of the headers, BTH included
};

/// Nothing for an opcode that this NIC does not know.
std::optional<HeaderLayout> layout_of(BthOpcode opcode);

/// Fields of headers that the opcode does not have are not looked at.
struct RoceFrame {
  BthOpcode opcode = BthOpcode::kSendOnly;
  bool solicited = false;
  bool asks_ack = false;
  uint16_t pkey = 0;
  uint32_t qpn = 0;  // destination
  uint32_t psn = 0;
  uint64_t address = 0;  // RETH, AtomicETH
  uint32_t rkey = 0;
  uint32_t length = 0;              // RETH
  uint8_t syndrome = 0;             // AETH
  uint32_t msn = 0;                 //
  AtomicOperands operands = {};     // AtomicETH, masks
  uint64_t original = 0;            // AtomicAckETH
  uint32_t qkey = 0;                // DETH
  uint32_t source = 0;              //
  uint32_t immediate = 0;           // big-endian, as in a WQE
  const std::byte* data = nullptr;  // decoded: the payload, in the datagram
  uint32_t bytes = 0;               // of the payload
};

/// Writes the headers of a datagram that carries frame.bytes of payload; answers how many bytes
/// they are. The payload goes behind them, then zeros up to a multiple of 4, then the ICRC.
uint32_t encode(const RoceFrame& frame, std::byte* to);

/// Bytes of padding behind that much payload.
constexpr uint32_t padding(uint32_t payload) { return (0u - payload) & 3; }

/// Reads a datagram of `bytes` bytes, ICRC included and not checked. Nothing for one that is no
/// packet: too short for its headers, another version, an opcode not known, more padding than
/// payload, payload where there can be none.
std::optional<RoceFrame> decode(const std::byte* datagram, size_t bytes);

}  // namespace peal::softnic::roce
