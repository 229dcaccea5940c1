// SPDX-License-Identifier: Apache-2.0
//
// Packets into datagrams and back, and who asks again when nothing comes.
#include "softnic/wire/roce/udp_wire.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <iterator>

#include "softnic/engine/datagram.h"

namespace peal::softnic::roce {

namespace {

// All this is under the engine's lock.
constexpr int kRounds = 4;              // of receiving, before queue pairs get their turn
constexpr size_t kMostTaken = 512;      // datagrams, after which no further round begins
constexpr uint32_t kMostAnswers = 512;  // that READs share in one poll

constexpr uint64_t kLookEvery = 500'000;  // ns

constexpr uint8_t kHopLimit = 64;

/// What an engine finds in front of a datagram's data: the IPv6 header, or 20 bytes of zeros and
/// the IPv4 header.
GlobalHeader header_of(const Arrived& datagram, const Address& to) {
  constexpr size_t kUdpHeader = 8;
  constexpr uint8_t kUdp = 17;
  GlobalHeader header = {};
  if (!to.ipv4()) {
    const size_t follows = kUdpHeader + datagram.bytes;
    header.byte[0] = 0x60;
    header.byte[4] = static_cast<uint8_t>(follows >> 8);
    header.byte[5] = static_cast<uint8_t>(follows);
    header.byte[6] = kUdp;
    header.byte[7] = kHopLimit;
    std::copy(datagram.from.byte.begin(), datagram.from.byte.end(), header.byte + 8);
    std::copy(to.byte.begin(), to.byte.end(), header.byte + 24);
    return header;
  }
  uint8_t* const at = header.byte + 20;
  const size_t total = 20 + kUdpHeader + datagram.bytes;
  at[0] = 0x45;
  at[2] = static_cast<uint8_t>(total >> 8);
  at[3] = static_cast<uint8_t>(total);
  at[6] = 0x40;  // don't fragment
  at[8] = kHopLimit;
  at[9] = kUdp;
  std::copy(datagram.from.byte.begin() + 12, datagram.from.byte.end(), at + 12);
  std::copy(to.byte.begin() + 12, to.byte.end(), at + 16);
  return header;
}

}  // namespace

SendStatus UdpWire::open(uint16_t lid, uint64_t& generation) {
  if (!remotes_.address_of(lid)) return SendStatus::kAbsent;
  generation = 1;  // whoever has the address is the peer
  return SendStatus::kSent;
}

/// Null for what nobody answers.
Flow* UdpWire::flow_of(const Packet& packet) {
  if ((packet.flags & kDatagram) != 0) return nullptr;
  const QueuePair* const qp = find_qp(port_, packet.source);
  if (qp == nullptr) return nullptr;
  return &flows_.try_emplace(packet.source, qp->send.acked_psn, now_).first->second;
}

SendStatus UdpWire::send(uint16_t lid, const Packet& packet, const Payload& payload) {
  if (port_down(port_, now_)) return SendStatus::kSent;
  Flow* const flow = flow_of(packet);
  if (flow != nullptr && flow->holds(packet.psn)) return SendStatus::kFull;
  const std::optional<Address> to = remotes_.address_of(lid);
  if (!to) return SendStatus::kAbsent;
  const RoceFrame frame = request_frame(packet, payload);
  if (!emit(*to, frame, payload, bytes_ahead(packet, payload))) return SendStatus::kFull;
  if (flow != nullptr) flow->sent(packet.psn, now_);
  return SendStatus::kSent;
}

/// Sends a frame with the payload from `ahead` bytes on. False if it cannot leave now, or what it
/// names has gone: nobody sees it then.
bool UdpWire::emit(const Address& to, const RoceFrame& frame, const Payload& payload,
                   uint32_t ahead) {
  std::byte* const place = network_.reserve();
  if (place == nullptr) return false;
  if (frame.bytes > kMostPayload) return false;
  const uint64_t before = port_.lost_pages;
  std::atomic_signal_fence(std::memory_order_seq_cst);
  const uint32_t headers = encode(frame, place);
  copy_payload(payload, ahead, place + headers);
  std::atomic_signal_fence(std::memory_order_seq_cst);  // a handler counts
  if (port_.lost_pages != before) return false;
  const uint32_t pad = padding(frame.bytes);
  std::memset(place + headers + frame.bytes, 0, pad);
  const size_t covered = headers + frame.bytes + pad;
  const uint16_t number = network_.identification(to, covered + kIcrcBytes);
  seal({network_.address(), to, kUdpPort, kUdpPort, number}, place, covered);
  network_.commit(to, covered + kIcrcBytes);
  ++counts_.sent;
  return true;
}

// ---- what arrives

bool UdpWire::poll(uint64_t now) {
  now_ = now;
  rest_ = kMostAnswers;
  bool worked = !reading_.empty() && !port_down(port_, now_);
  if (worked) {
    resume();
    acknowledge_all();
  }
  size_t taken = 0;
  for (int round = 0; round < kRounds && taken < kMostTaken; ++round) {
    const std::vector<Arrived>& datagrams = network_.receive();
    if (datagrams.empty()) break;
    worked = true;
    taken += datagrams.size();
    const bool down = port_down(port_, now_);
    for (const Arrived& datagram : datagrams) {
      if (!down) take(datagram);
    }
    acknowledge_all();
  }
  if (now_ >= next_look_) hurry();
  return worked;
}

/// Its ICRC is right. That of a peer whose datagrams have no numbers but their places in a train
/// (this NIC's kind) is held to 26 of its 32 bits; that it has become another kind of NIC is
/// believed when two in a row say so.
bool UdpWire::is_whole(const Arrived& datagram) {
  if (datagram.bytes > kMostDatagram) return false;
  const Ends ends{datagram.from, network_.address(), datagram.from_port, kUdpPort};
  const auto number = identification_of(ends, datagram.memory, datagram.bytes);
  const uint16_t lid = remotes_.known_lid(datagram.from);
  if (!number || lid == 0) return number.has_value();
  const auto [peer, fresh] = numbers_.try_emplace(lid);
  Numbers& numbers = peer->second;
  if (*number < kMostOfTrain) {
    numbers.doubt = false;
    return true;
  }
  if (fresh || numbers.doubt) numbers.numbered = true;
  numbers.doubt = true;
  return numbers.numbered;
}

void UdpWire::take(const Arrived& datagram) {
  if (!is_whole(datagram)) {
    ++counts_.wrong_icrc;
    return;
  }
  const std::optional<RoceFrame> frame = decode(datagram.memory, datagram.bytes);
  if (!frame) {
    ++counts_.malformed;
    return;
  }
  if (is_datagram(frame->opcode)) return take_datagram(datagram, *frame);
  const QueuePair* const qp = find_qp(port_, frame->qpn);
  const uint16_t lid = remotes_.known_lid(datagram.from);
  if (qp == nullptr || qp->service != Service::kReliable || lid == 0 ||
      qp->attributes.remote_lid != lid) {
    ++counts_.strange;
    return;
  }
  ++counts_.taken;
  if (is_answer(frame->opcode)) {
    take_answer(*frame);
  } else {
    take_request(datagram, *frame, *qp);
  }
}

/// A datagram may come from any sender: only its Q_Key is checked.
void UdpWire::take_datagram(const Arrived& datagram, const RoceFrame& frame) {
  const GlobalHeader header = header_of(datagram, network_.address());
  const bool immediate = frame.opcode == BthOpcode::kDatagramOnlyImmediate;
  Payload payload;
  payload.clear();
  payload.append(reinterpret_cast<const std::byte*>(header.byte), sizeof header);
  if (frame.bytes > 0) payload.append(frame.data, frame.bytes);
  Packet packet = {};
  packet.kind = PacketKind::kRequest;
  packet.opcode = immediate ? mlx5::Opcode::kSendImm : mlx5::Opcode::kSend;
  packet.opmod = network_.address().ipv4() ? kHeadersIpv4 : kHeadersIpv6;
  packet.flags = static_cast<uint8_t>(kDatagram | kGlobal | kLastOfMessage |
                                      (frame.solicited ? kSolicited : 0));
  packet.destination = frame.qpn;
  packet.source = frame.source;
  packet.psn = frame.psn;
  packet.rkey = frame.qkey;
  packet.total = packet.bytes = packet.payload = payload.bytes;
  packet.immediate = frame.immediate;
  packet.detail = frame.pkey;
  packet.network = Network::kRoceV2;
  ++counts_.taken;
  land_fetched(port_);
  accept_datagram(port_, packet, payload, remotes_.known_lid(datagram.from), now_);
}

void UdpWire::take_answer(const RoceFrame& frame) {
  uint64_t value = 0;
  Packet packet;
  Payload payload;
  if (!answer_packet(frame, value, packet, payload)) return;
  const Sender& send = port_.qps[frame.qpn].send;
  const uint32_t before = send.psn;
  softnic::take_answer(port_, packet, payload, now_);
  const auto flow = flows_.find(frame.qpn);
  if (flow == flows_.end()) return;
  flow->second.acknowledged(send.acked_psn, now_);
  const bool goes_back = psn_distance(send.psn, before) < 0;  // not so for one that comes twice
  if (packet.kind == PacketKind::kResend && goes_back) flow->second.lost();
}

// ---- what does not arrive

/// Queue pairs that wait for an answer too long send what is not acknowledged once more. That is no
/// try of the engine's: those are counted, and end.
void UdpWire::hurry() {
  next_look_ = now_ + kLookEvery;
  for (auto flow = flows_.begin(); flow != flows_.end();) {
    flow = goes_on(flow->first, flow->second) ? std::next(flow) : flows_.erase(flow);
  }
}

bool UdpWire::goes_on(uint32_t qpn, Flow& flow) const {
  QueuePair* const qp = find_qp(port_, qpn);
  if (qp == nullptr || qp->state != QpState::kReadyToSend) return false;
  const Sender& send = qp->send;
  flow.acknowledged(send.acked_psn, now_);
  if (send.drained() || send.paused_until > now_) {
    flow.quiet(now_);
  } else if (flow.tired(now_)) {
    Recovery(port_, now_).rewind(*qp);
  }
  return true;
}

}  // namespace peal::softnic::roce
