// SPDX-License-Identifier: Apache-2.0
//
// What does not fit the row of packets that a connection is in becomes a request whose lengths
// cannot be right: the engine refuses those, in their turn.
#include "softnic/wire/roce/translate.h"

#include <algorithm>
#include <cstring>

#include "softnic/engine/datagram.h"
#include "softnic/engine/responder.h"

namespace peal::softnic::roce {

namespace {

using Wqe = mlx5::Opcode;

/// An acknowledgement is asked for the last packet of a message, and for one packet in so many.
constexpr uint32_t kAskEvery = 16;

enum class Place : uint8_t { kFirst, kMiddle, kLast, kOnly };

Place place_of(bool begins, bool ends) {
  if (begins) return ends ? Place::kOnly : Place::kFirst;
  return ends ? Place::kLast : Place::kMiddle;
}

/// The opcodes follow one another in the order of Place; behind kSendLast, and behind kSendOnly,
/// comes the same with an immediate.
BthOpcode send_opcode(Place place, bool immediate) {
  switch (place) {
    case Place::kFirst:
      return BthOpcode::kSendFirst;
    case Place::kMiddle:
      return BthOpcode::kSendMiddle;
    case Place::kLast:
      return immediate ? BthOpcode::kSendLastImmediate : BthOpcode::kSendLast;
    case Place::kOnly:
      break;
  }
  return immediate ? BthOpcode::kSendOnlyImmediate : BthOpcode::kSendOnly;
}

BthOpcode write_opcode(Place place, bool immediate) {
  const BthOpcode like_send = send_opcode(place, immediate);
  constexpr auto kApart = static_cast<uint8_t>(BthOpcode::kWriteFirst);
  return static_cast<BthOpcode>(static_cast<uint8_t>(like_send) + kApart);
}
static_assert(static_cast<uint8_t>(BthOpcode::kSendFirst) == 0 &&
              static_cast<uint8_t>(BthOpcode::kWriteOnlyImmediate) ==
                  static_cast<uint8_t>(BthOpcode::kWriteFirst) +
                      static_cast<uint8_t>(BthOpcode::kSendOnlyImmediate));

BthOpcode atomic_opcode(const Packet& packet) {
  const bool small = packet.bytes == 4;
  switch (packet.opcode) {
    case Wqe::kAtomicCompareSwap:
      return BthOpcode::kCompareSwap;
    case Wqe::kAtomicFetchAdd:
      return BthOpcode::kFetchAdd;
    case Wqe::kAtomicMaskedCompareSwap:
      return small ? BthOpcode::kMaskedCompareSwap4 : BthOpcode::kMaskedCompareSwap8;
    default:
      return small ? BthOpcode::kMaskedFetchAdd4 : BthOpcode::kMaskedFetchAdd8;
  }
}

bool is_atomic(Wqe opcode) {
  return opcode >= Wqe::kAtomicCompareSwap && opcode <= Wqe::kAtomicMaskedFetchAdd;
}

bool begins_message(BthOpcode opcode) {
  switch (opcode) {
    case BthOpcode::kSendMiddle:
    case BthOpcode::kSendLast:
    case BthOpcode::kSendLastImmediate:
    case BthOpcode::kWriteMiddle:
    case BthOpcode::kWriteLast:
    case BthOpcode::kWriteLastImmediate:
      return false;
    default:
      return true;
  }
}

bool ends_message(BthOpcode opcode) {
  return opcode != BthOpcode::kSendFirst && opcode != BthOpcode::kSendMiddle &&
         opcode != BthOpcode::kWriteFirst && opcode != BthOpcode::kWriteMiddle;
}

/// The engine refuses it as an invalid request, if it is its turn.
void spoil(Packet& packet) {
  packet.total = 0;
  packet.offset = 1;
}

/// The WQE's opcode for one of an atomic, and whether it is on 4 bytes.
Wqe atomic_of(BthOpcode opcode, bool* small) {
  *small = opcode == BthOpcode::kMaskedCompareSwap4 || opcode == BthOpcode::kMaskedFetchAdd4;
  switch (opcode) {
    case BthOpcode::kCompareSwap:
      return Wqe::kAtomicCompareSwap;
    case BthOpcode::kFetchAdd:
      return Wqe::kAtomicFetchAdd;
    case BthOpcode::kMaskedCompareSwap4:
    case BthOpcode::kMaskedCompareSwap8:
      return Wqe::kAtomicMaskedCompareSwap;
    default:
      return Wqe::kAtomicMaskedFetchAdd;
  }
}

uint8_t nak_for(mlx5::Syndrome syndrome) {
  Nak nak = Nak::kInvalidRequest;
  if (syndrome == mlx5::Syndrome::kRemoteAccess) nak = Nak::kRemoteAccess;
  if (syndrome == mlx5::Syndrome::kRemoteOperation) nak = Nak::kRemoteOperation;
  return static_cast<uint8_t>(kNakKind | static_cast<uint8_t>(nak));
}

/// False for a NAK that is not known.
bool read_nak(uint8_t number, Packet& packet) {
  packet.kind = PacketKind::kRefuse;
  const auto because = [&packet](mlx5::Syndrome syndrome) {
    packet.detail = static_cast<uint8_t>(syndrome);
    return true;
  };
  switch (static_cast<Nak>(number)) {
    case Nak::kSequence:
      packet.kind = PacketKind::kResend;
      return true;
    case Nak::kInvalidRequest:
    case Nak::kInvalidReadDatagram:
      return because(mlx5::Syndrome::kRemoteInvalidRequest);
    case Nak::kRemoteAccess:
      return because(mlx5::Syndrome::kRemoteAccess);
    case Nak::kRemoteOperation:
      return because(mlx5::Syndrome::kRemoteOperation);
  }
  return false;
}

}  // namespace

bool Inbound::meet(const QueuePair& qp) {
  const uint32_t peer = qp.attributes.remote_qpn;
  if (peer_qpn == peer && next_psn == qp.receive.expected_psn) return true;
  *this = {};
  peer_qpn = peer;
  next_psn = qp.receive.expected_psn;
  return false;
}

void Inbound::executed(const Packet& packet) {
  next_psn = (packet.psn + 1) & kPsnMask;
  if ((packet.flags & kLastOfMessage) != 0) {
    ++messages;
    in_message = false;
    return;
  }
  if (!brings_data(packet.opcode)) return;
  in_message = true;
  sends = is_send(packet.opcode);
  address = packet.address;
  rkey = packet.rkey;
  total = packet.total;
  offset = packet.offset + packet.bytes;
}

RoceFrame request_frame(const Packet& packet, const Payload& payload) {
  RoceFrame frame;
  const bool datagram = (packet.flags & kDatagram) != 0;
  const bool ends = (packet.flags & kLastOfMessage) != 0;
  const Place place = place_of(packet.offset == 0, ends);
  const bool immediate = packet.opcode == Wqe::kSendImm || packet.opcode == Wqe::kRdmaWriteImm;
  frame.qpn = packet.destination;
  frame.psn = packet.psn;
  frame.pkey = packet.detail;
  // Volume 1, chapter 9, and Linux' rxe: only what ends in a completion of the receiver's has the
  // bit.
  frame.solicited =
      ends && (is_send(packet.opcode) || immediate) && (packet.flags & kSolicited) != 0;
  frame.asks_ack = !datagram && (ends || packet.psn % kAskEvery == 0);
  frame.immediate = packet.immediate;
  frame.address = packet.address;
  frame.rkey = packet.rkey;
  frame.length = packet.total;
  frame.bytes = payload.bytes - bytes_ahead(packet, payload);
  if (datagram) {
    frame.opcode = immediate ? BthOpcode::kDatagramOnlyImmediate : BthOpcode::kDatagramOnly;
    frame.qkey = packet.rkey;
    frame.source = packet.source;
  } else if (is_send(packet.opcode)) {
    frame.opcode = send_opcode(place, immediate);
  } else if (packet.opcode == Wqe::kRdmaRead) {
    frame.opcode = BthOpcode::kReadRequest;
    frame.address += packet.offset;
    frame.length = packet.bytes;
    frame.asks_ack = false;  // its data is that
  } else if (is_atomic(packet.opcode)) {
    frame.opcode = atomic_opcode(packet);
    if (payload.count == 1 && payload.bytes == sizeof frame.operands)
      std::memcpy(&frame.operands, payload.chunk[0].memory, sizeof frame.operands);
  } else {
    frame.opcode = write_opcode(place, immediate);
  }
  return frame;
}

uint32_t bytes_ahead(const Packet& packet, const Payload& payload) {
  if (is_atomic(packet.opcode)) return payload.bytes;
  return (packet.flags & kDatagram) == 0 ? 0 : uint32_t{sizeof(GlobalHeader)};
}

void copy_payload(const Payload& payload, uint32_t ahead, std::byte* to) {
  for (uint32_t i = 0; i < payload.count; ++i) {
    const Payload::Chunk& chunk = payload.chunk[i];
    const uint32_t cut = std::min(ahead, chunk.bytes);
    ahead -= cut;
    copy_bytes(to, chunk.memory + cut, chunk.bytes - cut);
    to += chunk.bytes - cut;
  }
}

Requests::Requests(const QueuePair& qp, const Inbound& inbound, const RoceFrame& from)
    : qp_(qp), inbound_(inbound), from_(from), mtu_(mtu_bytes(qp.attributes.mtu)) {
  if (from.opcode == BthOpcode::kReadRequest) {
    const uint32_t packets = from.length / mtu_ + (from.length % mtu_ != 0 ? 1 : 0);
    count_ = std::max(packets, 1u);
  }
  operands_ = from.operands;
  const bool adds = from.opcode == BthOpcode::kFetchAdd;
  if (adds || from.opcode == BthOpcode::kCompareSwap) {
    operands_.swap_mask = ~0ull;
    operands_.compare_mask = adds ? 0 : ~0ull;
  }
}

/// What all requests of the connection have.
Packet Requests::common() const {
  Packet packet = {};
  packet.kind = PacketKind::kRequest;
  packet.destination = qp_.qpn;
  packet.source = qp_.attributes.remote_qpn;
  packet.psn = from_.psn;
  packet.detail = from_.pkey;
  packet.network = Network::kRoceV2;
  packet.mtu = qp_.attributes.mtu;  // the peer's is not told
  packet.immediate = from_.immediate;
  packet.address = from_.address;
  packet.rkey = from_.rkey;
  if (ends_message(from_.opcode)) packet.flags |= kLastOfMessage;
  if (from_.solicited) packet.flags |= kSolicited;
  if (qp_.attributes.any_order) packet.flags |= kAnyOrder;
  return packet;
}

Packet Requests::at(uint32_t i, Payload& payload) const {
  payload.clear();
  if (from_.opcode == BthOpcode::kReadRequest) return read(i);
  Packet packet = common();
  switch (from_.opcode) {
    case BthOpcode::kCompareSwap:
    case BthOpcode::kFetchAdd:
    case BthOpcode::kMaskedCompareSwap8:
    case BthOpcode::kMaskedFetchAdd8:
    case BthOpcode::kMaskedCompareSwap4:
    case BthOpcode::kMaskedFetchAdd4: {
      bool small = false;
      packet.opcode = atomic_of(from_.opcode, &small);
      packet.total = packet.bytes = small ? 4 : 8;
      payload.append(reinterpret_cast<const std::byte*>(&operands_), sizeof operands_);
      if (interrupts(packet)) spoil(packet);
      break;
    }
    default:
      if (from_.bytes > 0) payload.append(from_.data, from_.bytes);
      transfer(packet);
  }
  packet.payload = payload.bytes;
  return packet;
}

Packet Requests::read(uint32_t i) const {
  Packet packet = common();
  packet.opcode = Wqe::kRdmaRead;
  packet.psn = (from_.psn + i) & kPsnMask;
  packet.total = from_.length;
  packet.offset = i * mtu_;
  packet.bytes = std::min(from_.length - packet.offset, mtu_);
  if (packet.offset + packet.bytes < packet.total)
    packet.flags = static_cast<uint8_t>(packet.flags & ~kLastOfMessage);
  if (interrupts(packet)) spoil(packet);
  return packet;
}

/// A READ or an atomic whose turn it is, in the middle of a WRITE or a SEND.
bool Requests::interrupts(const Packet& packet) const {
  return inbound_.in_message && packet.psn == qp_.receive.expected_psn;
}

/// WRITE and SEND.
void Requests::transfer(Packet& packet) const {
  const bool sends = from_.opcode <= BthOpcode::kSendOnlyImmediate;
  const bool begins = begins_message(from_.opcode);
  const bool ends = ends_message(from_.opcode);
  const bool immediate = layout_of(from_.opcode)->immediate;
  packet.opcode = sends ? (immediate ? Wqe::kSendImm : Wqe::kSend)
                        : (immediate ? Wqe::kRdmaWriteImm : Wqe::kRdmaWrite);
  packet.bytes = from_.bytes;
  packet.total = from_.length;
  if (packet.psn != qp_.receive.expected_psn) return;  // its place is not looked at
  if (begins == inbound_.in_message || (!begins && sends != inbound_.sends)) return spoil(packet);
  if (!begins) go_on(packet);
  // How long a SEND is its last packet tells.
  if (sends) packet.total = packet.offset + packet.bytes + (ends ? 0 : 1);
  const bool last = packet.offset + packet.bytes == packet.total;
  if (last != ends || from_.bytes > mtu_ || (!ends && from_.bytes != mtu_)) spoil(packet);
}

void Requests::go_on(Packet& packet) const {
  packet.address = inbound_.address;
  packet.rkey = inbound_.rkey;
  packet.total = inbound_.total;
  packet.offset = inbound_.offset;
}

BthOpcode Requests::answer_opcode(uint32_t i) const {
  switch (from_.opcode) {
    case BthOpcode::kMaskedCompareSwap4:
    case BthOpcode::kMaskedFetchAdd4:
      return BthOpcode::kAtomicAcknowledge4;
    case BthOpcode::kReadRequest:
      break;
    default:
      return BthOpcode::kAtomicAcknowledge;
  }
  const bool ends = uint64_t{i + 1} * mtu_ >= from_.length;
  switch (place_of(i == 0, ends)) {
    case Place::kFirst:
      return BthOpcode::kReadResponseFirst;
    case Place::kMiddle:
      return BthOpcode::kReadResponseMiddle;
    case Place::kLast:
      return BthOpcode::kReadResponseLast;
    case Place::kOnly:
      break;
  }
  return BthOpcode::kReadResponseOnly;
}

std::optional<RoceFrame> answer_frame(const Packet& packet, const Payload& payload, BthOpcode data,
                                      uint32_t messages) {
  RoceFrame frame;
  frame.opcode = BthOpcode::kAcknowledge;
  frame.qpn = packet.destination;
  frame.psn = packet.psn;
  frame.msn = messages;
  frame.syndrome = kAckKind | kNoCredits;
  switch (packet.kind) {
    case PacketKind::kAck:
      return frame;
    case PacketKind::kData:
      frame.opcode = data;
      break;
    case PacketKind::kRefuse:
      frame.syndrome = nak_for(static_cast<mlx5::Syndrome>(packet.detail));
      return frame;
    case PacketKind::kNotReady:
      frame.syndrome = static_cast<uint8_t>(kNotReadyKind | (packet.detail & kNumberMask));
      return frame;
    case PacketKind::kResend:
      frame.syndrome = kNakKind | static_cast<uint8_t>(Nak::kSequence);
      return frame;
    default:
      return std::nullopt;
  }
  if (!layout_of(data)->original) {
    frame.bytes = payload.bytes;
  } else if (payload.count == 1 && payload.bytes == sizeof frame.original) {
    std::memcpy(&frame.original, payload.chunk[0].memory, sizeof frame.original);
  } else if (payload.count == 1 && payload.bytes == sizeof(Be32)) {
    Be32 small;
    std::memcpy(&small, payload.chunk[0].memory, sizeof small);
    frame.original = small.host();
  }
  return frame;
}

bool answer_packet(const RoceFrame& frame, uint64_t& value, Packet& packet, Payload& payload) {
  packet = {};
  payload.clear();
  packet.destination = frame.qpn;
  packet.psn = frame.psn;
  packet.kind = PacketKind::kData;
  switch (frame.opcode) {
    case BthOpcode::kReadResponseFirst:
    case BthOpcode::kReadResponseMiddle:
    case BthOpcode::kReadResponseLast:
    case BthOpcode::kReadResponseOnly:
      if (frame.bytes > 0) payload.append(frame.data, frame.bytes);
      break;
    case BthOpcode::kAtomicAcknowledge:
      value = frame.original;
      payload.append(reinterpret_cast<const std::byte*>(&value), sizeof value);
      break;
    case BthOpcode::kAtomicAcknowledge4: {
      // As it is stored: big-endian.
      const Be32 small(static_cast<uint32_t>(frame.original));
      std::memcpy(&value, &small, sizeof small);
      payload.append(reinterpret_cast<const std::byte*>(&value), sizeof small);
      break;
    }
    case BthOpcode::kAcknowledge:
      switch (frame.syndrome & kKindMask) {
        case kAckKind:
          packet.kind = PacketKind::kAck;
          break;
        case kNotReadyKind:
          packet.kind = PacketKind::kNotReady;
          packet.detail = frame.syndrome & kNumberMask;
          break;
        case kNakKind:
          return read_nak(frame.syndrome & kNumberMask, packet);
        default:
          return false;
      }
      break;
    default:
      return false;
  }
  packet.payload = payload.bytes;
  return true;
}

bool is_answer(BthOpcode opcode) {
  const auto layout = layout_of(opcode);
  return layout && (layout->aeth || opcode == BthOpcode::kReadResponseMiddle);
}

bool is_datagram(BthOpcode opcode) {
  const auto layout = layout_of(opcode);
  return layout && layout->deth;
}

}  // namespace peal::softnic::roce
