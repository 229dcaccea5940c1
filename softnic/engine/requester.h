// SPDX-License-Identifier: Apache-2.0
//
// The asking half of a queue pair: which WQE may start now, and what it sends.
//
//   doorbell record -> decode -> fences, credits -> packets -> (answers.h) -> completion, in order
//
// A peer in reach is asked directly and answers at once; any other over the wire, with up to
// Sender::kWindow WQEs waiting for answers.
#pragma once

#include <cstdint>

#include "device/mlx5/layout.h"
#include "softnic/engine/datagram.h"
#include "softnic/engine/deliver.h"
#include "softnic/engine/objects.h"
#include "softnic/engine/packet.h"
#include "softnic/engine/recovery.h"
#include "softnic/engine/wire.h"

namespace peal::softnic {

/// A view of one queue pair's NIC at one moment; holds no state.
template <PacketWire W>
class Requester : private Recovery {
 public:
  PEAL_HD Requester(Port& port, W& wire, uint64_t now) : Recovery(port, now), wire_(wire) {}

  /// Does up to `budget` WQEs' worth of work. True when anything happened.
  PEAL_HD bool advance(QueuePair& qp, uint32_t budget) {
    if (port_.faults != nullptr && port_.faults->stopped) return false;
    if (qp.state == QpState::kError) return flush(qp, budget);
    if (qp.state != QpState::kReadyToSend || qp.send_buffer == nullptr) return false;
    bool worked = observe_doorbell(qp);
    Sender& send = qp.send;
    if (send.paused_until > now_) return worked;
    send.paused_until = 0;
    if (watch_deadlines(qp)) worked = true;  // what starts again starts now
    while (budget-- > 0 && qp.state == QpState::kReadyToSend && step(qp)) worked = true;
    return worked;
  }

 private:
  static constexpr uint32_t kDirectSegment = 256 << 10;  // bytes moved before others get a turn
  static constexpr uint32_t kPacketsPerTurn = 8;
  static constexpr uint32_t kReadPacketsInFlight = 8;

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
    if (port_.faults != nullptr && send.phase == Sender::Phase::kDecoded) {
      const Met met = meet_fault(qp);
      if (met != Met::kNothing) return met == Met::kActed;
    }
    if (send.phase == Sender::Phase::kDecoded && !may_start(qp)) return false;
    if (!send.request.travels()) return run_local(qp);
    if constexpr (FindsWays<W>) {
      if (qp.service == Service::kDatagram) return send_datagram(qp);
    }
    const uint16_t lid = destination_lid(qp);
    if (qp.service == Service::kDcInitiator && cuts_by_mtu(lid)) {
      return fail_local(qp, {mlx5::Syndrome::kLocalQpOperation, nullptr});
    }
    Port* peer = wire_.direct(lid);
    return peer != nullptr && !keeps_to_wire(qp) ? run_direct(qp, *peer) : run_wire(qp, lid);
  }

  /// Where faults are possible nothing takes the short way: there is nothing on it to lose. Nor
  /// where WRITEs overtake each other, but for a queue pair that is its own other end.
  PEAL_HD bool keeps_to_wire(const QueuePair& qp) const {
    const bool held = port_.placement != nullptr && qp.attributes.remote_qpn != qp.qpn;
    return (port_.faults != nullptr || held) &&
           !(qp.send.phase == Sender::Phase::kRunning && qp.send.direct);
  }

  PEAL_HD bool cuts_by_mtu(uint16_t lid) const {
    if constexpr (CutsByMtu<W>) return wire_.cuts_by_mtu(lid);
    return false;
  }
  /// Bytes that a packet of the queue pair carries at most.
  PEAL_HD uint32_t segment_of(const QueuePair& qp, uint16_t lid) const {
    const uint32_t most = wire_.segment_bytes(lid);
    const uint32_t mtu = mtu_bytes(qp.attributes.mtu);
    return cuts_by_mtu(lid) && mtu < most ? mtu : most;
  }

  PEAL_HD static uint16_t destination_lid(const QueuePair& qp) {
    return qp.service == Service::kDcInitiator ? qp.send.way.lid : qp.attributes.remote_lid;
  }

  /// The responder keeps 16 answers for repeated atomics.
  PEAL_HD static uint32_t initiator_depth(const QueuePair& qp) {
    const uint32_t log_depth = qp.attributes.log_initiator_depth;
    return 1u << (log_depth < 4 ? log_depth : 4);
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
    if (request.fetches() && send.reads >= initiator_depth(qp)) return false;
    if (!request.travels() || qp.service != Service::kDcInitiator) return true;
    return connect_dc(qp);
  }

  /// A DC initiator talks to one target at a time: the old connection is drained first.
  PEAL_HD bool connect_dc(QueuePair& qp) {
    Sender& send = qp.send;
    const Request& request = send.request;
    const bool same_target = send.dc_epoch != 0 && send.dc_target == request.dc_target;
    if (same_target && goes_as_before(qp)) return true;
    if (!send.drained()) return false;
    find_way(qp);
    send.dc_target = request.dc_target;
    send.dc_epoch = (Word<uint32_t>(port_.dc_epochs).fetch_add(1, kRelaxed) + 1) | 1u << 31;
    send.dc_first_psn = send.psn;
    send.peer_generation = 0;
    return true;
  }

  /// The request goes where the one before it went.
  PEAL_HD static bool goes_as_before(const QueuePair& qp) {
    const Sender& send = qp.send;
    if (send.dc_asked != send.request.dc_lid) return false;
    if (!send.request.routed) return send.dc_route.grh_gid_flow.raw == 0;
    return same_route(send.dc_route, read_address(qp, send.next).route);
  }

  PEAL_HD void find_way(QueuePair& qp) {
    Sender& send = qp.send;
    send.dc_asked = send.request.dc_lid;
    send.dc_route = {};
    send.way = {.lid = send.request.dc_lid, .network = Network::kInfiniBand};
    if (!send.request.routed) return;
    const AddressVector vector = read_address(qp, send.next);
    send.dc_route = vector.route;
    if constexpr (FindsWays<W>) {
      send.way = wire_.find(vector, qp.attributes.path.port);
    } else if (qp.attributes.network != Network::kInfiniBand) {
      send.way.network = Network::kRoce;
    }
  }

  /// True when a deadline has passed and something was done about it.
  PEAL_HD bool watch_deadlines(QueuePair& qp) {
    Sender& send = qp.send;
    if (send.drained() && send.phase != Sender::Phase::kRunning && send.give_up_at == 0) {
      return false;
    }
    const uint16_t lid = destination_lid(qp);
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
    // An engine that was kept from its CPU has not tried as often as time has passed.
    if (give_up && send.retries >= qp.attributes.retry_count) {
      return fail_oldest(qp, mlx5::Syndrome::kTransportRetryExceeded);
    }
    ++send.retries;
    send.resend_at = now_ + one_try;
    if (give_up) send.give_up_at = send.resend_at;
    if (send.drained()) return false;
    QueueFaults& faults = qp.faults;
    if (faults.lost_tries > 0 && --faults.lost_tries == 0) faults.loses = FaultKind::kNone;
    rewind(qp);
    return true;
  }

  // ---- execution

  /// NOP, WAIT, DUMP.
  PEAL_HD bool run_local(QueuePair& qp) {
    const Request& request = qp.send.request;
    if (request.opcode == mlx5::Opcode::kWait) {
      const CompletionQueue* cq = find_cq(port_, request.wait_cqn);
      if (cq == nullptr) return fail_local(qp, malformed());
      const auto ahead = static_cast<uint32_t>(load<uint64_t>(&cq->produced)) - request.wait_index;
      if (static_cast<int32_t>(ahead) <= 0) return false;
    }
    if (request.opcode == mlx5::Opcode::kDump) read_dumped(qp);
    finish(qp);
    return true;
  }

  /// DUMP reads memory and forgets it, behind all earlier stores of the NIC. Where stores take
  /// their time on a bus (tests/sim) the read pushes them; elsewhere they precede the CQE, whose
  /// last word is a release.
  PEAL_HD void read_dumped(const QueuePair& qp) const {
    land_fetched(port_);
    uint64_t forgotten = 0;
    Cursor cursor = {qp.send.request.data_unit, 0};
    Payload payload;
    if (!gather(port_, qp, qp.send.request, qp.send.next, sizeof(forgotten), cursor, payload))
      return;
    if (payload.count != 0) copy_bytes(&forgotten, payload.chunk[0].memory, payload.chunk[0].bytes);
  }

  /// The WQE at `next` has done all it does. In a drained queue it completes at once.
  PEAL_HD void finish(QueuePair& qp) {
    Sender& send = qp.send;
    const PendingWqe done = pending_of(qp, 0);
    send.next += done.blocks;
    send.phase = Sender::Phase::kIdle;
    if (send.drained()) {
      send.retired = send.next;
      complete_send(port_, qp, done, now_);
    } else {
      send.window[send.tail++ % Sender::kWindow] = done;
    }
  }

  PEAL_HD static PendingWqe pending_of(const QueuePair& qp, uint32_t packets) {
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
    // What the receiver's completion has for a service level.
    const bool infiniband = send.way.network == Network::kInfiniBand;
    const uint8_t level = infiniband ? request.service_level : send.way.headers;
    packet.opmod = is_send(request.opcode) ? level : request.opmod;
    packet.source = qp.qpn;
    packet.psn = send.psn;
    packet.address = request.address;
    packet.rkey = request.rkey;
    packet.total = static_cast<uint32_t>(request.bytes);
    packet.offset = send.offset;
    packet.bytes = bytes;
    packet.immediate = request.immediate;
    packet.detail = qp.attributes.pkey;
    packet.network = qp.attributes.network;
    packet.mtu = qp.attributes.mtu;
    if (send.offset + bytes == request.bytes) packet.flags |= kLastOfMessage;
    if (request.solicited) packet.flags |= kSolicited;
    if (qp.service == Service::kDcInitiator) {
      packet.flags |= kDcRequest;
      if (request.global) packet.flags |= kGlobal;
      packet.network = send.way.network;
      if (send.psn == send.dc_first_psn) packet.flags |= kFirstOfConnection;
      packet.destination = request.dc_target;
      packet.dc_key = request.dc_key;
      packet.epoch = send.dc_epoch;
    } else {
      packet.destination = qp.attributes.remote_qpn;
      if (qp.attributes.any_order) packet.flags |= kAnyOrder;
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
    land_fetched(port_);
    return gather(port_, qp, request, qp.send.next, bytes, cursor, payload) &&
           payload.bytes == bytes;
  }

  PEAL_HD static uint32_t next_bytes(const QueuePair& qp, uint32_t segment) {
    const uint64_t left = qp.send.request.bytes - qp.send.offset;
    return static_cast<uint32_t>(left < segment ? left : segment);
  }

  PEAL_HD static void begin(QueuePair& qp, bool direct) {
    Sender& send = qp.send;
    send.phase = Sender::Phase::kRunning;
    send.direct = direct;
    send.offset = 0;
    send.cursor = {send.request.data_unit, 0};
  }

  PEAL_HD bool run_direct(QueuePair& qp, Port& peer) {
    Sender& send = qp.send;
    if (send.phase == Sender::Phase::kDecoded) begin(qp, true);
    const uint32_t bytes = next_bytes(qp, kDirectSegment);
    const Packet packet = packet_of(qp, bytes);
    Cursor cursor = send.cursor;
    Payload payload;
    if (!load_payload(qp, bytes, cursor, payload)) {
      return fail_oldest(qp, mlx5::Syndrome::kLocalProtection);
    }
    const Response answer = deliver(peer, packet, payload, port_.lid, now_);
    switch (answer.verdict) {
      case Verdict::kDropped:
        arm_once(qp);
        return false;
      case Verdict::kNotReady:
        return pause(qp, static_cast<uint8_t>(answer.value));
      case Verdict::kRefused:
        return fail_oldest(qp, answer.syndrome);
      case Verdict::kDone:
        break;
    }
    if (send.request.fetches() && !keep_direct(qp, peer, packet, answer)) {
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

  PEAL_HD bool keep_direct(const QueuePair& qp, const Port& peer, const Packet& packet,
                           const Response& answer) const {
    const Sender& send = qp.send;
    const ScatterList list = {qp, send.next, send.request.data_unit, send.request.units};
    if (send.request.is_atomic()) {
      const auto* from = reinterpret_cast<const std::byte*>(&answer.value);
      return scatter(port_, qp.pd, list, send.offset, from, packet.bytes);
    }
    uint64_t offset = send.offset;
    bool kept = true;
    const auto keep = [&](const MemoryRun& run) {
      kept = kept && scatter(port_, qp.pd, list, offset, run.memory, run.bytes);
      offset += run.bytes;
    };
    return each_read(peer, packet, answer, keep) && kept;
  }

  /// A datagram goes out, or is lost, and has completed.
  PEAL_HD bool send_datagram(QueuePair& qp) {
    Sender& send = qp.send;
    const Request& request = send.request;
    // Who was not there may have come since: nothing else tells a sender of datagrams.
    if (!goes_as_before(qp) || send.way.lid == 0) find_way(qp);
    begin(qp, false);
    const auto bytes = static_cast<uint32_t>(request.bytes);
    GlobalHeader header = {};
    if (request.global) header = global_header(read_address(qp, send.next), send.way, bytes);
    Cursor cursor = send.cursor;
    Payload payload;
    payload.append(reinterpret_cast<const std::byte*>(header.byte), sizeof(header));
    const uint32_t total = bytes + payload.bytes;
    if (!gather(port_, qp, request, send.next, total, cursor, payload) || payload.bytes != total) {
      return fail_oldest(qp, mlx5::Syndrome::kLocalProtection);
    }
    Packet packet = packet_of(qp, total);
    packet.total = packet.payload = total;
    packet.flags = static_cast<uint8_t>(packet.flags | kDatagram | kLastOfMessage |
                                        (request.global ? kGlobal : 0));
    packet.destination = request.dc_target;
    const auto queue_key = static_cast<uint32_t>(request.dc_key >> 32);
    // With the highest bit set that of the queue pair counts.
    packet.rkey = (queue_key >> 31) != 0 ? qp.attributes.qkey : queue_key;
    packet.network = send.way.network;
    const bool carried = carry(send.way.lid, packet, payload);
    if (carried) {
      send.full_since = 0;
    } else if (peer_drains(qp)) {
      send.phase = Sender::Phase::kDecoded;
      return false;
    }
    send.psn = (send.psn + 1) & kPsnMask;
    finish(qp);
    return true;
  }

  /// A peer that takes nothing off its full wire for this long loses the datagram, as on a card.
  PEAL_HD bool peer_drains(QueuePair& qp) {
    Sender& send = qp.send;
    const uint64_t consumed = wire_.consumed(send.way.lid);
    if (send.full_since == 0 || consumed != send.full_at) send.full_since = now_;
    send.full_at = consumed;
    return now_ - send.full_since < port_.timing.stall_grace;
  }

  /// False when there is no room now. To nobody, and to whoever has no room for so much, it is
  /// lost.
  PEAL_HD bool carry(uint16_t lid, const Packet& packet, const Payload& payload) {
    if (Port* peer = wire_.direct(lid)) {
      accept_datagram(*peer, packet, payload, port_.lid, now_);
      return true;
    }
    uint64_t any_life = 0;
    if (wire_.open(lid, any_life) != SendStatus::kSent) return true;
    if (payload.bytes > wire_.segment_bytes(lid)) return true;
    return wire_.send(lid, packet, payload) != SendStatus::kFull;
  }

  PEAL_HD bool run_wire(QueuePair& qp, uint16_t lid) {
    Sender& send = qp.send;
    const SendStatus opened = wire_.open(lid, send.peer_generation);
    if (opened == SendStatus::kLost) {
      return fail_oldest(qp, mlx5::Syndrome::kTransportRetryExceeded);
    }
    if (opened != SendStatus::kSent) {
      arm_once(qp);
      return false;
    }
    if (send.phase == Sender::Phase::kDecoded) {
      begin(qp, false);
      arm_once(qp);
      send.segment = segment_of(qp, lid);
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
    // Elsewhere each packet of a READ counts as a request.
    if (cuts_by_mtu(lid) && send.request.fetches() && owed(qp) >= initiator_depth(qp)) return false;
    Packet packet = packet_of(qp, bytes);
    Cursor cursor = send.cursor;
    Payload payload;
    if (!load_payload(qp, bytes, cursor, payload)) {
      rewind(qp);  // decoding it again finds the fault, in its turn
      return true;
    }
    packet.payload = payload.bytes;
    const bool lost =
        port_.faults != nullptr && loses(*port_.faults, qp, FaultKind::kLoseRequest, packet.psn);
    if (!lost && wire_.send(lid, packet, payload) != SendStatus::kSent) return false;
    if (reads) send.read_bytes += bytes;
    send.cursor = cursor;
    send.offset += bytes;
    send.psn = (send.psn + 1) & kPsnMask;
    send.sent_position = wire_.position(lid);
    return true;
  }

  W& wire_;
};

}  // namespace peal::softnic
