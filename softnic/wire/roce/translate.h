// SPDX-License-Identifier: Apache-2.0
//
// Packets of the engine <-> frames of RoCE. The engine's packets stand for themselves; RoCE's stand
// in a row:
//
//   WRITE, SEND   FIRST names address, key and length, MIDDLE and LAST go on where it ended: what a
//                 connection has come to is kept here, and moves only when the engine has executed
//                 a packet, so that repeats and gaps need no care
//   READ          one request has an answer of many packets, each with a sequence number: as many
//                 requests to the engine. This NIC's own ask for one packet each
#pragma once

#include <cstdint>
#include <optional>

#include "softnic/engine/objects.h"
#include "softnic/wire/roce/codec.h"

namespace peal::softnic::roce {

/// What the requests that come to a queue pair have led to.
struct Inbound {
  uint32_t peer_qpn = 0;    // whose connection that is
  uint32_t next_psn = 0;    // as far as it has come
  uint32_t messages = 0;    // done: MSN
  bool in_message = false;  // a WRITE or a SEND is on its way
  bool sends = false;       // it is a SEND
  uint64_t address = 0;     // of the WRITE
  uint32_t rkey = 0;
  uint32_t total = 0;
  uint32_t offset = 0;

  /// Forgets what another connection of the queue pair has left; false if there was one.
  bool meet(const QueuePair& qp);
  /// The engine has executed the packet.
  void executed(const Packet& packet);
};

/// A request of this NIC as a frame.
RoceFrame request_frame(const Packet& packet, const Payload& payload);
/// What the payload begins with that is none in RoCE: operands, the header of a datagram.
uint32_t bytes_ahead(const Packet& packet, const Payload& payload);
/// Copies the payload from `ahead` bytes on.
void copy_payload(const Payload& payload, uint32_t ahead, std::byte* to);

/// Requests that came for `qp` of a reliable connection.
class Requests {
 public:
  /// `from` must live as long; `inbound` is not changed.
  Requests(const QueuePair& qp, const Inbound& inbound, const RoceFrame& from);
  /// Packets for the engine: that of a READ has several.
  uint32_t count() const { return count_; }
  /// The one at `i`, and its payload, which lies in the datagram or here.
  Packet at(uint32_t i, Payload& payload) const;
  /// The opcode of the data that answers the one at `i`.
  BthOpcode answer_opcode(uint32_t i) const;

 private:
  Packet common() const;
  void go_on(Packet& packet) const;
  void transfer(Packet& packet) const;
  Packet read(uint32_t i) const;
  bool interrupts(const Packet& packet) const;

  const QueuePair& qp_;
  const Inbound& inbound_;
  const RoceFrame& from_;
  uint32_t mtu_;
  uint32_t count_ = 1;
  AtomicOperands operands_ = {};
};

/// An answer of this NIC's engine as a frame, but for its P_Key; nothing for what RoCE has no word
/// for. `data` is the opcode for an answer that brings data.
std::optional<RoceFrame> answer_frame(const Packet& packet, const Payload& payload, BthOpcode data,
                                      uint32_t messages);

/// An answer that came; `payload` lies in the datagram, or in `value` for an atomic's. False for
/// one that means nothing.
bool answer_packet(const RoceFrame& frame, uint64_t& value, Packet& packet, Payload& payload);

/// True for what a responder sends.
bool is_answer(BthOpcode opcode);
bool is_datagram(BthOpcode opcode);

}  // namespace peal::softnic::roce
