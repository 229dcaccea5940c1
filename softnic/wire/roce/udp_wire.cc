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
constexpr size_t kMostWaiting = 64;     // requests of a connection behind a READ

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

/// Where the engine's answers to one request go (see serve.h).
class UdpWire::Answers {
 public:
  Answers(UdpWire& wire, Connection& connection, uint32_t qpn)
      : wire_(wire), connection_(connection), qpn_(qpn) {}

  /// Tells of the packet that is served next: `data` is the opcode of its answers, `finishes` says
  /// that it is the last packet of a new message.
  void next(BthOpcode data, bool finishes) {
    data_ = data;
    finishes_ = finishes;
    goes_on_ = lacks_room_ = false;
  }
  /// It was answered with data.
  bool goes_on() const { return goes_on_; }
  /// There was no room for its data.
  bool lacks_room() const { return lacks_room_; }
  void acknowledge(const Packet& packet) {
    connection_.held = packet;
    if (!connection_.holds) wire_.holding_.push_back(qpn_);
    connection_.holds = true;
  }
  void answer(const Packet& packet, const Payload& payload) {
    wire_.acknowledge(qpn_);
    const bool brings = packet.kind == PacketKind::kData;
    const uint32_t messages = connection_.inbound.messages + (finishes_ && brings ? 1 : 0);
    const Sent sent = wire_.answer(connection_, packet, payload, data_, messages);
    goes_on_ = sent == Sent::kWhole && brings;
    lacks_room_ = sent == Sent::kNothing && brings;
  }

 private:
  UdpWire& wire_;
  Connection& connection_;
  uint32_t qpn_;
  BthOpcode data_ = BthOpcode::kReadResponseOnly;
  bool finishes_ = false;
  bool goes_on_ = false;
  bool lacks_room_ = false;
};

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

UdpWire::Sent UdpWire::answer(const Connection& connection, const Packet& packet,
                              const Payload& payload, BthOpcode data, uint32_t messages) {
  const Address& to = connection.peer;
  std::optional<RoceFrame> frame = answer_frame(packet, payload, data, messages);
  if (!frame) return Sent::kWhole;
  frame->pkey = connection.pkey;
  const uint32_t ahead = payload.bytes - frame->bytes;
  const uint64_t before = port_.lost_pages;
  if (emit(to, *frame, payload, ahead)) return Sent::kWhole;
  if (port_.lost_pages == before) {
    ++counts_.no_room;
    return Sent::kNothing;
  }
  Packet refusal = packet;
  refusal.kind = PacketKind::kRefuse;
  refusal.detail = static_cast<uint8_t>(mlx5::Syndrome::kRemoteAccess);
  Payload nothing;
  nothing.clear();
  frame = answer_frame(refusal, nothing, data, messages);
  frame->pkey = connection.pkey;
  emit(to, *frame, nothing, 0);
  return Sent::kRefusal;
}

void UdpWire::acknowledge(uint32_t qpn) {
  const auto found = connections_.find(qpn);
  if (found == connections_.end() || !found->second.holds) return;
  Connection& connection = found->second;
  connection.holds = false;
  std::erase(holding_, qpn);
  place_held(port_, qpn);  // what it acknowledges is in memory
  Payload nothing;
  nothing.clear();
  answer(connection, connection.held, nothing, BthOpcode::kAcknowledge,
         connection.inbound.messages);
}

// ---- what arrives

bool UdpWire::poll(uint64_t now) {
  now_ = now;
  rest_ = kMostAnswers;
  bool worked = !reading_.empty();
  if (!port_down(port_, now_)) resume();
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
    while (!holding_.empty()) {
      const uint32_t qpn = holding_.back();
      holding_.pop_back();
      acknowledge(qpn);
    }
    network_.flush();  // the peer goes on meanwhile
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

void UdpWire::take_request(const Arrived& datagram, const RoceFrame& frame, const QueuePair& qp) {
  if (psn_distance(frame.psn, qp.receive.expected_psn) < -kOldestRepeat) {
    ++counts_.strange;
    return;
  }
  Connection& connection = connections_[qp.qpn];
  connection.meet(qp);
  connection.peer = datagram.from;
  connection.pkey = qp.attributes.pkey;
  if (!connection.waiting.empty() || !serve(frame, qp, connection))
    keep(datagram, connection, qp.qpn);
}

/// Answers it from where its progress is. False if a READ has to go on in another poll: a requester
/// that heard of a gap in the middle of its answer would take that for an error (Linux' rxe_comp.c,
/// check_ack).
bool UdpWire::serve(const RoceFrame& frame, const QueuePair& qp, Connection& connection) {
  const bool reads = frame.opcode == BthOpcode::kReadRequest;
  std::optional<Progress>& progress = connection.progress;
  if (!progress) progress = {0, psn_distance(frame.psn, qp.receive.expected_psn) < 0};
  Answers answers(*this, connection, qp.qpn);
  RequestServer<Answers> server(port_, qp.attributes.remote_lid, answers, now_);
  const Requests requests(qp, connection.inbound, frame);
  Payload payload;
  for (uint32_t& i = progress->packets; i < requests.count(); ++i) {
    if (reads && rest_ == 0) return false;
    const Packet packet = requests.at(i, payload);
    const uint32_t before = qp.receive.expected_psn;
    const bool is_new = packet.psn == before;
    if (progress->repeats && is_new) break;  // a repeat begins nothing new
    if (rest_ > 0) --rest_;
    answers.next(requests.answer_opcode(i), is_new && (packet.flags & kLastOfMessage) != 0);
    server.serve(packet, payload);
    const bool executed = is_new && qp.receive.expected_psn != before;
    if (executed) connection.inbound.executed(packet);
    if (reads && answers.lacks_room()) return false;
    if (!answers.goes_on()) break;
  }
  progress.reset();
  return true;
}

void UdpWire::keep(const Arrived& datagram, Connection& connection, uint32_t qpn) {
  if (connection.waiting.size() == kMostWaiting) {
    ++counts_.no_room;
    return;
  }
  if (std::find(reading_.begin(), reading_.end(), qpn) == reading_.end()) reading_.push_back(qpn);
  connection.waiting.emplace_back(datagram.memory, datagram.memory + datagram.bytes);
}

/// Each queue pair whose requests wait has a turn, as far as this poll's answers go.
void UdpWire::resume() {
  for (size_t turns = reading_.size(); turns > 0 && rest_ > 0; --turns) {
    const uint32_t qpn = reading_.front();
    reading_.pop_front();
    if (!catch_up(qpn)) reading_.push_back(qpn);
  }
}

bool UdpWire::catch_up(uint32_t qpn) {
  Connection& connection = connections_.at(qpn);
  const QueuePair* const qp = find_qp(port_, qpn);
  if (qp == nullptr || qp->service != Service::kReliable) {
    connection.forget();
    return true;
  }
  connection.meet(*qp);
  for (auto& waiting = connection.waiting; !waiting.empty(); waiting.pop_front()) {
    const std::optional<RoceFrame> frame = decode(waiting.front().data(), waiting.front().size());
    if (!serve(*frame, *qp, connection)) return false;
  }
  return true;
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
