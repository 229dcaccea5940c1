// SPDX-License-Identifier: Apache-2.0
//
// Requests that come, each served in its turn: what a poll has no time for, or the network no room,
// waits with all behind it.
//
//   request --> engine, packet by packet --> answers, after the acknowledgement that was held back
//      '--> behind a READ that goes on: kept --> resume() of the next polls
#include <algorithm>

#include "softnic/wire/roce/udp_wire.h"

namespace peal::softnic::roce {

namespace {

constexpr size_t kMostWaiting = 64;  // requests of a connection behind a READ

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
    answered_ = goes_on_ = lacks_room_ = false;
  }
  /// Anything was.
  bool answered() const { return answered_; }
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
    answered_ = true;
    goes_on_ = sent == Sent::kWhole && brings;
    lacks_room_ = sent == Sent::kNothing && brings;
  }

 private:
  UdpWire& wire_;
  Connection& connection_;
  uint32_t qpn_;
  BthOpcode data_ = BthOpcode::kReadResponseOnly;
  bool finishes_ = false;
  bool answered_ = false;
  bool goes_on_ = false;
  bool lacks_room_ = false;
};

void UdpWire::take_request(const Arrived& datagram, const RoceFrame& frame, const QueuePair& qp) {
  const bool reads = frame.opcode == BthOpcode::kReadRequest;  // whose answer may be as long
  if (!reads && psn_distance(frame.psn, qp.receive.expected_psn) < -kOldestRepeat) {
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
    // There was no room for it before, and now its memory has gone: the peer waits for it.
    const bool was_new = !progress->repeats && psn_distance(packet.psn, before) < 0;
    if (reads && was_new && !answers.answered()) {
      server.refuse_to(packet, mlx5::Syndrome::kRemoteAccess);
    }
    if (!answers.goes_on()) break;
  }
  progress.reset();
  return true;
}

/// What waits already need not twice: a peer whose patience ends asks again.
void UdpWire::keep(const Arrived& datagram, Connection& connection, uint32_t qpn) {
  const auto same = [&](const std::vector<std::byte>& waiting) {
    constexpr size_t kPsn = 9;  // of a BTH, whose opcode is its first byte
    return waiting[0] == datagram.memory[0] &&
           std::equal(&waiting[kPsn], &waiting[kPsn] + 3, datagram.memory + kPsn);
  };
  if (std::ranges::any_of(connection.waiting, same)) return;
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

void UdpWire::acknowledge_all() {
  while (!holding_.empty()) {
    const uint32_t qpn = holding_.back();
    holding_.pop_back();
    acknowledge(qpn);
  }
  network_.flush();  // the peer goes on meanwhile
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

}  // namespace peal::softnic::roce
