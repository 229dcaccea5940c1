// SPDX-License-Identifier: Apache-2.0
//
// The asking half of a queue pair: which WQE may start now, what it sends, what an answer
// completes, what happens when none comes.
//
//   doorbell record -> decode -> fences, credits -> packets -> answers -> completion, in order
//
// WQEs stay in the send queue until they complete, so "send again" means: forget what was started
// and decode once more from the oldest.
#pragma once

#include <concepts>
#include <cstdint>

#include "device/mlx5/layout.h"
#include "softnic/completion.h"
#include "softnic/decode.h"
#include "softnic/deliver.h"
#include "softnic/objects.h"
#include "softnic/packet.h"
#include "softnic/timing.h"

namespace peal::softnic {

enum class SendStatus : uint8_t {
  kSent,
  kFull,    // no room now
  kAbsent,  // no such NIC (yet)
  kLost,    // the NIC this queue pair talked to has gone
};

/// What carries packets. `generation` names the peer NIC's life: 0 on first use, filled by the
/// wire, and from then on a NIC that took over the same LID is somebody else (kLost).
template <class W>
concept Wire = requires(W& wire, uint16_t lid, uint64_t& generation, const Packet& packet,
                        const Payload& payload) {
  { wire.direct(lid) } -> std::same_as<Port*>;  // a peer in reach, or null
  { wire.open(lid, generation) } -> std::same_as<SendStatus>;
  { wire.segment_bytes(lid) } -> std::same_as<uint32_t>;  // after open
  { wire.send(lid, packet, payload) } -> std::same_as<SendStatus>;
  { wire.position(lid) } -> std::same_as<uint64_t>;  // sent so far
  { wire.consumed(lid) } -> std::same_as<uint64_t>;  // of that, taken by the peer
  { wire.lost(lid, generation) } -> std::same_as<bool>;
};

/// A view of one queue pair's NIC at one moment; holds no state.
template <Wire W>
class Requester {
 public:
  PEAL_HD Requester(Port& port, W& wire, uint64_t now) : port_(port), wire_(wire), now_(now) {}

  /// Does up to `budget` WQEs' worth of work. True when anything happened.
  PEAL_HD bool advance(QueuePair& qp, uint32_t budget) {
    if (qp.state == QpState::kError) return flush(qp, budget);
    if (qp.state != QpState::kReadyToSend || qp.send_buffer == nullptr) return false;
    bool worked = observe_doorbell(qp);
    Sender& send = qp.send;
    if (send.paused_until > now_) return worked;
    send.paused_until = 0;
    if (watch_deadlines(qp)) return true;
    while (budget-- > 0 && qp.state == QpState::kReadyToSend && step(qp)) worked = true;
    return worked;
  }

  /// Takes an answer from the wire. Anything that does not belong to a request in flight is
  /// ignored.
  PEAL_HD void take_answer(QueuePair& qp, const Packet& packet, const Payload& payload) {
    Sender& send = qp.send;
    if (qp.state != QpState::kReadyToSend || send.drained()) return;
    if (packet.kind == PacketKind::kAbsent) {
      const uint64_t soon = now_ + port_.timing.ask_again;
      if (send.resend_at > soon) send.resend_at = soon;
      return;
    }
    if (psn_distance(packet.psn, send.psn) >= 0) return;  // never sent
    switch (packet.kind) {
      case PacketKind::kAck:
        return acknowledge(qp, packet.psn);
      case PacketKind::kData:
        return take_data(qp, packet, payload);
      case PacketKind::kRefuse:
        if (blames_oldest(qp, packet.psn)) fail_oldest(qp, packet.syndrome);
        return;
      case PacketKind::kNotReady:
        if (!blames_oldest(qp, packet.psn)) return;
        pause(qp, packet.timer);
        if (qp.state == QpState::kReadyToSend) rewind(qp);
        return;
      case PacketKind::kResend:
        if (blames_oldest(qp, packet.psn)) rewind(qp);
        return;
      default:
        return;
    }
  }

 private:
  static constexpr uint32_t kDirectSegment = 256 << 10;  // bytes moved before others get a turn
  static constexpr uint32_t kPacketsPerTurn = 8;
  static constexpr uint32_t kReadPacketsInFlight = 8;

  // ---- posted work

  PEAL_HD bool observe_doorbell(QueuePair& qp) {
    Sender& send = qp.send;
    if (send.doorbell_fault) return false;
    const uint32_t record = Be32::from_raw(load<uint32_t>(&qp.doorbell->send)).host();
    const auto fresh = static_cast<uint16_t>(record - static_cast<uint32_t>(send.posted));
    if (fresh == 0) return false;
    if (send.posted + fresh - send.retired > qp.send_blocks) {
      ++port_.violations.doorbell;
      send.doorbell_fault = true;
    } else {
      send.posted += fresh;
    }
    return true;
  }

  PEAL_HD bool step(QueuePair& qp) {
    Sender& send = qp.send;
    if (send.phase == Sender::Phase::kIdle) {
      if (send.next == send.posted) {
        if (!send.doorbell_fault || !send.drained()) return false;
        return fail(qp, send.next, 0, mlx5::Opcode::kNop, mlx5::Syndrome::kLocalQpOperation);
      }
      const Fault fault = decode(port_, qp, send.next, send.posted, send.request);
      if (!fault.ok()) return fail_local(qp, fault);
      send.phase = Sender::Phase::kDecoded;
    }
    if (send.phase == Sender::Phase::kDecoded && !may_start(qp)) return false;
    if (!send.request.travels()) return run_local(qp);
    const uint16_t lid = destination_lid(qp);
    Port* peer = wire_.direct(lid);
    return peer != nullptr ? run_direct(qp, *peer) : run_wire(qp, lid);
  }

  /// The error belongs to the WQE at `next`, but earlier ones complete first.
  PEAL_HD bool fail_local(QueuePair& qp, const Fault& fault) {
    Sender& send = qp.send;
    if (!send.drained()) return false;
    if (fault.count != nullptr) ++(port_.violations.*fault.count);
    return fail(qp, send.next, send.request.blocks, send.request.opcode, fault.syndrome);
  }

  PEAL_HD static uint16_t destination_lid(const QueuePair& qp) {
    return qp.service == Service::kDcInitiator ? qp.send.request.dc_lid : qp.attributes.remote_lid;
  }

  PEAL_HD bool may_start(QueuePair& qp) {
    Sender& send = qp.send;
    const Request& request = send.request;
    if (send.full()) return false;
    switch (request.fence) {
      case mlx5::Fence::kFence:
      case mlx5::Fence::kFenceAndSmall:
        if (send.reads > 0) return false;
        break;
      case mlx5::Fence::kStrong:
        if (!send.drained()) return false;
        break;
      default:
        break;
    }
    if (request.fetches() && send.reads >= 1u << depth_log(qp)) return false;
    if (!request.travels() || qp.service != Service::kDcInitiator) return true;
    return connect_dc(qp);
  }

  PEAL_HD static uint32_t depth_log(const QueuePair& qp) {
    const uint32_t log = qp.attributes.log_initiator_depth;
    return log < 4 ? log : 4;  // the responder keeps 16 answers for repeated atomics
  }

  /// A DC initiator talks to one target at a time: the old connection is drained first.
  PEAL_HD bool connect_dc(QueuePair& qp) {
    Sender& send = qp.send;
    const Request& request = send.request;
    if (send.dc_epoch != 0 && send.dc_lid == request.dc_lid &&
        send.dc_target == request.dc_target) {
      return true;
    }
    if (!send.drained()) return false;
    send.dc_lid = request.dc_lid;
    send.dc_target = request.dc_target;
    send.dc_epoch = ++port_.dc_epochs | 1u << 31;
    send.dc_first_psn = send.psn;
    send.peer_generation = 0;
    return true;
  }

  // ---- execution

  /// NOP, WAIT, DUMP.
  PEAL_HD bool run_local(QueuePair& qp) {
    const Request& request = qp.send.request;
    if (request.opcode == mlx5::Opcode::kWait) {
      const CompletionQueue* cq = find_cq(port_, request.wait_cqn);
      if (cq == nullptr) return fail_local(qp, malformed());
      const auto ahead = static_cast<uint32_t>(cq->produced) - request.wait_index;
      if (static_cast<int32_t>(ahead) <= 0) return false;
    }
    // DUMP: all earlier stores of the NIC precede the CQE, whose last word is a release.
    finish(qp);
    return true;
  }

  /// The WQE at `next` has done all it does. In a drained queue it completes at once.
  PEAL_HD void finish(QueuePair& qp) {
    Sender& send = qp.send;
    const Pending done = pending_of(qp, 0);
    send.next += done.blocks;
    send.phase = Sender::Phase::kIdle;
    if (send.drained()) {
      send.retired = send.next;
      complete_send(port_, qp, done, now_);
    } else {
      send.window[send.tail++ % Sender::kWindow] = done;
    }
  }

  PEAL_HD static Pending pending_of(const QueuePair& qp, uint32_t packets) {
    const Request& request = qp.send.request;
    return {.index = qp.send.next,
            .first_psn = qp.send.psn,
            .packets = packets,
            .answered = 0,
            .bytes = request.fetches() ? static_cast<uint32_t>(request.bytes) : 0,
            .opcode = request.opcode,
            .completion = request.completion,
            .blocks = request.blocks,
            .units = request.units,
            .data_unit = request.data_unit};
  }

  /// The packet that carries bytes [offset, offset + bytes) of the current request.
  PEAL_HD Packet packet_of(const QueuePair& qp, uint32_t bytes) const {
    const Sender& send = qp.send;
    const Request& request = send.request;
    Packet packet = {};
    packet.kind = PacketKind::kRequest;
    packet.opcode = request.opcode;
    packet.opmod = request.opmod;
    packet.source = qp.qpn;
    packet.psn = send.psn;
    packet.address = request.address;
    packet.rkey = request.rkey;
    packet.total = static_cast<uint32_t>(request.bytes);
    packet.offset = send.offset;
    packet.bytes = bytes;
    packet.immediate = request.immediate;
    if (send.offset + bytes == request.bytes) packet.flags |= kLastOfMessage;
    if (qp.service == Service::kDcInitiator) {
      packet.flags |= kDcRequest;
      if (send.psn == send.dc_first_psn) packet.flags |= kFirstOfConnection;
      packet.destination = request.dc_target;
      packet.dc_key = request.dc_key;
      packet.epoch = send.dc_epoch;
    } else {
      packet.destination = qp.attributes.remote_qpn;
    }
    return packet;
  }

  /// What the next packet carries, from `cursor` on. False when local memory has gone.
  PEAL_HD bool load_payload(const QueuePair& qp, uint32_t bytes, Cursor& cursor,
                            Payload& payload) const {
    const Request& request = qp.send.request;
    payload.clear();
    if (request.is_atomic()) {
      payload.append(reinterpret_cast<const std::byte*>(&request.operands), sizeof(AtomicOperands));
      return true;
    }
    if (request.fetches()) return true;
    return gather(port_, qp, request, qp.send.next, bytes, cursor, payload) &&
           payload.bytes == bytes;
  }

  PEAL_HD static uint32_t next_bytes(const QueuePair& qp, uint32_t segment) {
    const uint64_t left = qp.send.request.bytes - qp.send.offset;
    return static_cast<uint32_t>(left < segment ? left : segment);
  }

  PEAL_HD void start(QueuePair& qp) {
    Sender& send = qp.send;
    send.phase = Sender::Phase::kRunning;
    send.offset = 0;
    send.cursor = {send.request.data_unit, 0};
    if (send.give_up_at == 0 && send.resend_at == 0) arm(qp, now_);
  }

  PEAL_HD bool run_direct(QueuePair& qp, Port& peer) {
    Sender& send = qp.send;
    if (send.phase == Sender::Phase::kDecoded) {
      send.phase = Sender::Phase::kRunning;
      send.offset = 0;
      send.cursor = {send.request.data_unit, 0};
    }
    const uint32_t bytes = next_bytes(qp, kDirectSegment);
    const Packet packet = packet_of(qp, bytes);
    Cursor cursor = send.cursor;
    Payload payload;
    if (!load_payload(qp, bytes, cursor, payload)) {
      return fail_oldest(qp, mlx5::Syndrome::kLocalProtection);
    }
    const Answer answer = deliver(peer, packet, payload, port_.lid, now_);
    switch (answer.verdict) {
      case Verdict::kDropped:
        if (send.give_up_at == 0 && send.resend_at == 0) arm(qp, now_);
        return false;
      case Verdict::kNotReady:
        return pause(qp, static_cast<uint8_t>(answer.value));
      case Verdict::kRefused:
        return fail_oldest(qp, answer.syndrome);
      case Verdict::kDone:
        break;
    }
    if (send.request.fetches() && !keep_direct(qp, answer, bytes)) {
      return fail_oldest(qp, mlx5::Syndrome::kLocalProtection);
    }
    send.cursor = cursor;
    send.offset += bytes;
    send.psn = (send.psn + 1) & kPsnMask;
    send.give_up_at = send.resend_at = 0;
    send.not_ready = 0;
    if (send.offset == send.request.bytes) finish(qp);
    return true;
  }

  PEAL_HD bool keep_direct(const QueuePair& qp, const Answer& answer, uint32_t bytes) const {
    const Sender& send = qp.send;
    const ScatterList list = {send.next, send.request.data_unit, send.request.units};
    const std::byte* from = send.request.is_atomic()
                                ? reinterpret_cast<const std::byte*>(&answer.value)
                                : answer.memory;
    return scatter(port_, qp, list, send.offset, from, bytes);
  }

  PEAL_HD bool run_wire(QueuePair& qp, uint16_t lid) {
    Sender& send = qp.send;
    switch (wire_.open(lid, send.peer_generation)) {
      case SendStatus::kLost:
        return fail_oldest(qp, mlx5::Syndrome::kTransportRetryExceeded);
      case SendStatus::kSent:
        break;
      default:
        if (send.give_up_at == 0 && send.resend_at == 0) arm(qp, now_);
        return false;
    }
    if (send.phase == Sender::Phase::kDecoded) {
      start(qp);
      send.segment = wire_.segment_bytes(lid);
      const uint64_t packets = (send.request.bytes + send.segment - 1) / send.segment;
      const auto count = static_cast<uint32_t>(packets == 0 ? 1 : packets);
      send.window[send.tail++ % Sender::kWindow] = pending_of(qp, count);
      if (send.request.fetches()) ++send.reads;
    }
    bool sent = false;
    for (uint32_t i = 0; i < kPacketsPerTurn; ++i) {
      if (!send_packet(qp, lid)) return sent;
      sent = true;
      if (send.phase != Sender::Phase::kRunning || send.offset == send.request.bytes) break;
    }
    if (send.phase == Sender::Phase::kRunning && send.offset == send.request.bytes) {
      send.next += send.request.blocks;
      send.phase = Sender::Phase::kIdle;
    }
    return true;
  }

  /// One packet of the current request onto the wire; false when it has to wait.
  PEAL_HD bool send_packet(QueuePair& qp, uint16_t lid) {
    Sender& send = qp.send;
    const uint32_t bytes = next_bytes(qp, send.segment);
    const bool reads = send.request.opcode == mlx5::Opcode::kRdmaRead;
    if (reads && send.read_bytes + bytes > kReadPacketsInFlight * send.segment) return false;
    Packet packet = packet_of(qp, bytes);
    Cursor cursor = send.cursor;
    Payload payload;
    if (!load_payload(qp, bytes, cursor, payload)) {
      rewind(qp);  // decoding it again finds the fault, in its turn
      return true;
    }
    packet.payload = payload.bytes;
    if (wire_.send(lid, packet, payload) != SendStatus::kSent) return false;
    if (reads) send.read_bytes += bytes;
    send.cursor = cursor;
    send.offset += bytes;
    send.psn = (send.psn + 1) & kPsnMask;
    send.sent_position = wire_.position(lid);
    return true;
  }

  // ---- answers

  /// Everything up to `psn` has been done at the peer.
  PEAL_HD void acknowledge(QueuePair& qp, uint32_t psn) {
    Sender& send = qp.send;
    if (psn_distance(psn, send.acked_psn) > 0) {
      send.acked_psn = psn;
      send.not_ready = 0;
      send.stalled = 0;
      arm(qp, now_);
    }
    while (!send.drained()) {
      const Pending& oldest = send.oldest();
      if (oldest.packets > 0 && psn_distance(psn, oldest.first_psn) < 0) break;
      if (fetching(oldest)) {
        if (oldest.answered < oldest.packets) {
          const uint32_t due = (oldest.first_psn + oldest.answered) & kPsnMask;
          if (psn_distance(psn, due) >= 0) rewind(qp);  // its data was lost on the way
          break;
        }
      } else if (oldest.packets > 0 &&
                 psn_distance(psn, (oldest.first_psn + oldest.packets - 1) & kPsnMask) < 0) {
        break;
      }
      retire_oldest(qp);
    }
    if (send.drained() && send.phase != Sender::Phase::kRunning) {
      send.give_up_at = send.resend_at = 0;
    }
  }

  PEAL_HD static bool fetching(const Pending& pending) {
    return right_for(pending.opcode) == kRemoteRead || right_for(pending.opcode) == kRemoteAtomic;
  }

  PEAL_HD void retire_oldest(QueuePair& qp) {
    Sender& send = qp.send;
    const Pending done = send.oldest();
    ++send.head;
    send.retired = done.index + done.blocks;
    if (fetching(done)) --send.reads;
    complete_send(port_, qp, done, now_);
  }

  PEAL_HD void take_data(QueuePair& qp, const Packet& packet, const Payload& payload) {
    Sender& send = qp.send;
    for (uint32_t i = send.head; i != send.tail; ++i) {
      Pending& pending = send.window[i % Sender::kWindow];
      const int32_t place_in = psn_distance(packet.psn, pending.first_psn);
      if (place_in < 0 || place_in >= static_cast<int64_t>(pending.packets)) continue;
      if (!fetching(pending) || place_in < static_cast<int64_t>(pending.answered)) return;
      if (place_in > static_cast<int64_t>(pending.answered)) return rewind(qp);
      const uint64_t offset = uint64_t{pending.answered} * send.segment;
      const uint64_t left = pending.bytes - offset;
      if (payload.bytes != (left < send.segment ? left : send.segment)) return;
      if (!scatter_payload(qp, pending, offset, payload)) {
        if (i == send.head) {
          fail_oldest(qp, mlx5::Syndrome::kLocalProtection);
        } else {
          rewind(qp);
        }
        return;
      }
      ++pending.answered;
      if (pending.opcode == mlx5::Opcode::kRdmaRead) send.read_bytes -= payload.bytes;
      return acknowledge(qp, packet.psn);
    }
  }

  PEAL_HD bool scatter_payload(const QueuePair& qp, const Pending& pending, uint64_t offset,
                               const Payload& payload) const {
    const ScatterList list = {pending.index, pending.data_unit, pending.units};
    for (uint32_t i = 0; i < payload.count; ++i) {
      const Payload::Chunk& chunk = payload.chunk[i];
      if (!scatter(port_, qp, list, offset, chunk.memory, chunk.bytes)) return false;
      offset += chunk.bytes;
    }
    return true;
  }

  /// Acknowledges everything before `psn`. True when the oldest WQE left is the one `psn` is of.
  PEAL_HD bool blames_oldest(QueuePair& qp, uint32_t psn) {
    Sender& send = qp.send;
    acknowledge(qp, (psn - 1) & kPsnMask);
    if (send.drained()) return false;
    const int32_t place_in = psn_distance(psn, send.oldest().first_psn);
    return place_in >= 0 && place_in < static_cast<int64_t>(send.oldest().packets);
  }

  // ---- time

  PEAL_HD void arm(QueuePair& qp, uint64_t from) {
    Sender& send = qp.send;
    const uint64_t one_try = try_ns(port_.timing, qp.attributes.ack_timeout);
    send.resend_at = from + one_try;
    send.give_up_at = qp.attributes.ack_timeout == 0
                          ? 0
                          : from + one_try * (uint64_t{qp.attributes.retry_count} + 1);
  }

  /// True when a deadline has passed and something was done about it.
  PEAL_HD bool watch_deadlines(QueuePair& qp) {
    Sender& send = qp.send;
    if (send.drained() && send.phase != Sender::Phase::kRunning && send.give_up_at == 0) {
      return false;
    }
    const uint16_t lid =
        qp.service == Service::kDcInitiator ? send.dc_lid : qp.attributes.remote_lid;
    if (send.peer_generation != 0 && wire_.lost(lid, send.peer_generation)) {
      return fail_oldest(qp, mlx5::Syndrome::kTransportRetryExceeded);
    }
    const bool give_up = send.give_up_at != 0 && now_ >= send.give_up_at;
    const bool resend = send.resend_at != 0 && now_ >= send.resend_at;
    if (!give_up && !resend) return false;
    const uint64_t one_try = try_ns(port_.timing, qp.attributes.ack_timeout);
    if (!send.drained() && wire_.consumed(lid) < send.sent_position &&
        send.stalled < port_.timing.stall_grace) {
      // The peer lives and has not looked yet: a busy machine, not a lost packet.
      send.stalled += one_try;
      send.resend_at = now_ + one_try;
      if (send.give_up_at != 0) send.give_up_at += one_try;
      return false;
    }
    if (give_up) return fail_oldest(qp, mlx5::Syndrome::kTransportRetryExceeded);
    send.resend_at = now_ + one_try;
    if (send.drained()) return false;
    rewind(qp);
    return true;
  }

  /// The receiver has no entry for us: wait its time, then try again, a limited number of times.
  PEAL_HD bool pause(QueuePair& qp, uint8_t timer) {
    Sender& send = qp.send;
    if (qp.attributes.rnr_retry != 7 && send.not_ready++ >= qp.attributes.rnr_retry) {
      return fail_oldest(qp, mlx5::Syndrome::kRnrRetryExceeded);
    }
    send.paused_until = now_ + rnr_ns(timer);
    arm(qp, send.paused_until);
    return true;
  }

  /// Forgets what was started, so that it starts again from the oldest WQE; of that one, from the
  /// first packet that is not done.
  PEAL_HD void rewind(QueuePair& qp) {
    Sender& send = qp.send;
    if (send.drained()) return;
    const Pending oldest = send.oldest();
    send.next = oldest.index;
    send.psn = oldest.first_psn;
    send.head = send.tail;
    send.reads = 0;
    send.read_bytes = 0;
    send.phase = Sender::Phase::kIdle;
    const int32_t acked = psn_distance(send.acked_psn, oldest.first_psn) + 1;
    const auto written = static_cast<uint32_t>(acked > 0 ? acked : 0);
    const uint32_t done = fetching(oldest) ? oldest.answered : written;
    if (done > 0 && done < oldest.packets) resume(qp, oldest, done);
  }

  /// Goes on with a message whose first `done` packets are done. If its WQE is no longer what it
  /// was, it starts as a new one would.
  PEAL_HD void resume(QueuePair& qp, const Pending& oldest, uint32_t done) {
    Sender& send = qp.send;
    if (!decode(port_, qp, send.next, send.posted, send.request).ok()) return;
    if (send.request.opcode != oldest.opcode || send.request.blocks != oldest.blocks) return;
    const uint64_t offset = uint64_t{done} * send.segment;
    if (offset >= send.request.bytes) return;
    send.window[send.tail++ % Sender::kWindow] = oldest;
    if (fetching(oldest)) ++send.reads;
    send.phase = Sender::Phase::kRunning;
    send.offset = static_cast<uint32_t>(offset);
    send.psn = (oldest.first_psn + done) & kPsnMask;
    send.cursor = seek(qp, send.request, send.next, send.offset);
  }

  // ---- failure

  PEAL_HD bool fail_oldest(QueuePair& qp, mlx5::Syndrome syndrome) {
    Sender& send = qp.send;
    if (send.drained()) {
      if (send.next == send.posted) return false;
      // After a rewind the request is not that of `next`; whatever is wrong with it now is not
      // news.
      if (send.phase == Sender::Phase::kIdle) {
        static_cast<void>(decode(port_, qp, send.next, send.posted, send.request));
      }
      return fail(qp, send.next, send.request.blocks, send.request.opcode, syndrome);
    }
    const Pending& oldest = send.window[send.head % Sender::kWindow];
    return fail(qp, oldest.index, oldest.blocks, oldest.opcode, syndrome);
  }

  /// First error of the queue: reported whatever its completion mode. What follows is flushed.
  PEAL_HD bool fail(QueuePair& qp, uint64_t index, uint32_t blocks, mlx5::Opcode opcode,
                    mlx5::Syndrome syndrome) {
    stop(qp, index + blocks);
    qp.state = QpState::kError;
    complete_send_error(port_, qp, index, opcode, syndrome, now_);
    return true;
  }

  PEAL_HD static void stop(QueuePair& qp, uint64_t at) {
    Sender& send = qp.send;
    send.next = send.retired = at < send.posted ? at : send.posted;
    send.head = send.tail;
    send.phase = Sender::Phase::kIdle;
    send.reads = send.read_bytes = 0;
    send.give_up_at = send.resend_at = send.paused_until = 0;
  }

  /// Completes what a failed queue pair still holds, and what is posted to it later, as flushed.
  PEAL_HD bool flush(QueuePair& qp, uint32_t budget) {
    bool worked = flush_receives(port_, qp, now_);
    if (qp.send_buffer == nullptr) return worked;
    Sender& send = qp.send;
    if (send.next != send.retired || !send.drained()) stop(qp, send.retired);
    worked |= observe_doorbell(qp);
    for (; budget > 0 && send.retired < send.posted; --budget) {
      Request& request = send.request;
      const Fault fault = decode(port_, qp, send.retired, send.posted, request);
      const uint64_t index = send.retired;
      // A block that starts no WQE of ours has nobody to tell.
      const bool stray = fault.count == &Violations::index || request.units == 0;
      stop(qp, index + (stray ? 1 : request.blocks));
      worked = true;
      if (!stray && request.completion != mlx5::Completion::kOnFirstError) {
        complete_send_error(port_, qp, index, request.opcode, mlx5::Syndrome::kFlushed, now_);
      }
    }
    return worked;
  }

  Port& port_;
  W& wire_;
  uint64_t now_;
};

}  // namespace peal::softnic
