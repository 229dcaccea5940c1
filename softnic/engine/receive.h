// SPDX-License-Identifier: Apache-2.0
//
// Receive entries: posted by the client, taken in order by SEND and WRITE with immediate.
//
//   entry = scatter list, ended early by (0 bytes, invalid key)
//   own ring:      a SEND of several packets fills the oldest entry and takes it with its last
//   shared queue:  the first packet takes an entry, which the sender's stream holds until the last:
//                  that of a queue pair, or one of those that a DC target has
//
// The entries belong to the client and may change under the reader, so each packet checks what it
// uses.
#pragma once

#include <cstdint>

#include "device/mlx5/layout.h"
#include "softnic/engine/completion.h"
#include "softnic/engine/decode.h"
#include "softnic/engine/objects.h"
#include "softnic/engine/packet.h"
#include "softnic/engine/shared_receive.h"
#include "softnic/engine/word.h"

namespace peal::softnic {

/// SEND, with immediate or without: it names no memory, the receive entry does.
PEAL_HD bool is_send(mlx5::Opcode opcode) {
  return opcode == mlx5::Opcode::kSend || opcode == mlx5::Opcode::kSendImm;
}

/// Receive entries of the queue pair's own ring, posted and not taken.
PEAL_HD uint64_t receives_waiting(QueuePair& qp) {
  if (qp.receive_buffer == nullptr || qp.doorbell == nullptr) return 0;
  Receiver& receive = qp.receive;
  const uint32_t record = client_word(&qp.doorbell->receive);
  const auto fresh = static_cast<uint16_t>(record - static_cast<uint32_t>(receive.posted));
  if (receive.posted + fresh - receive.consumed <= qp.receive_entries) receive.posted += fresh;
  return receive.posted - receive.consumed;
}

/// A packet of a message that takes a receive entry, and where from.
struct Arrival {
  const Packet& packet;
  Receiver& stream;  // of the sender: holds the shared entry that its message fills
  uint16_t lid;
  uint64_t now;
};

/// Makes sure that the message which arrives has an entry. Entries are claimed, used and completed
/// under one turn of the queue pair's.
PEAL_HD Claim claim_receive(Port& port, QueuePair& qp, Receiver& stream) {
  if (!shares_receives(qp)) return receives_waiting(qp) == 0 ? Claim::kEmpty : Claim::kReady;
  if (stream.held != Receiver::kNoEntry) return Claim::kReady;
  SharedReceiveQueue* srq = find_srq(port, qp.shared_receive_queue);
  return srq == nullptr ? Claim::kEmpty : take_shared(port, *srq, stream.held);
}

/// The claimed entry: its scatter list, and the domain of the list's keys.
struct ReceiveEntry {
  const std::byte* list;
  uint32_t units;
  uint32_t pd;
};
PEAL_HD ReceiveEntry claimed_entry(const Port& port, const QueuePair& qp, const Receiver& stream) {
  if (!shares_receives(qp)) {
    const uint64_t slot = qp.receive.consumed & (qp.receive_entries - 1);
    return {.list = qp.receive_buffer + slot * qp.receive_stride,
            .units = qp.receive_stride / mlx5::kSegmentBytes,
            .pd = qp.pd};
  }
  const SharedReceiveQueue& srq = port.srqs[qp.shared_receive_queue];
  return {.list = shared_entry(srq, stream.held) + sizeof(LinkSegment),
          .units = srq.stride / mlx5::kSegmentBytes - 1,
          .pd = srq.pd};
}

/// Lets go of the claimed entry; answers what its completion calls it.
PEAL_HD uint16_t give_up_entry(QueuePair& qp, Receiver& stream) {
  if (!shares_receives(qp)) return static_cast<uint16_t>(qp.receive.consumed++);
  const auto counter = static_cast<uint16_t>(stream.held);
  stream.held = Receiver::kNoEntry;
  return counter;
}

/// Reports the claimed entry as done: `kind` and, for an error, why. Of a reliable connection it is
/// known who the sender is.
PEAL_HD void complete_receive(Port& port, QueuePair& qp, const Arrival& arrival,
                              mlx5::CqeOpcode kind, mlx5::Syndrome syndrome) {
  const Packet& packet = arrival.packet;
  const bool failed = syndrome != mlx5::Syndrome::kNone;
  const bool names_sender = !failed && qp.service != Service::kReliable;
  const bool lid_counts = names_sender && packet.network == Network::kInfiniBand;
  const uint32_t source = (packet.flags & kGlobal) != 0 ? 1u << 28 : 0;
  complete(port, qp, qp.receive_cq,
           {.kind = kind,
            .syndrome = syndrome,
            .counter = give_up_entry(qp, arrival.stream),
            .bytes = failed ? 0 : packet.total,
            .immediate = failed ? 0 : packet.immediate,
            .solicited = (packet.flags & kSolicited) != 0,
            .source_lid = lid_counts ? arrival.lid : uint16_t{0},
            .source = names_sender ? source | uint32_t{packet.opmod} << 24 | packet.source : 0},
           arrival.now);
}

/// Reports the entry that a message of `stream` has, or would take next, as flushed.
PEAL_HD void flush_receive(Port& port, QueuePair& qp, Receiver& stream, uint64_t now) {
  const Packet none = {};
  complete_receive(port, qp, {none, stream, 0, now}, mlx5::CqeOpcode::kResponderError,
                   mlx5::Syndrome::kFlushed);
}

/// A failed queue pair has entries to flush, or has not told that it takes no more shared ones.
PEAL_HD bool owes_last_entry(const QueuePair& qp) {
  return shares_receives(qp) && !qp.receive.told_last;
}

/// Reports every posted receive entry of a failed queue pair as flushed. Of a shared queue that is
/// the one it holds; then it tells that this was the last. True when anything happened.
PEAL_HD bool flush_receives(Port& port, QueuePair& qp, uint64_t now) {
  bool any = false;
  const ShortLock turn(qp.receive.turn, true);
  while (!shares_receives(qp) && receives_waiting(qp) > 0) {
    any = true;
    flush_receive(port, qp, qp.receive, now);
  }
  if (!owes_last_entry(qp)) return any;
  if (qp.receive.held != Receiver::kNoEntry) {
    any = true;
    flush_receive(port, qp, qp.receive, now);
  }
  // Programs wait for this one: when there is no room for it, it is told later.
  qp.receive.told_last = port.events.raise(AsyncEvent::Kind::kQpLastEntry, qp.qpn);
  return any || qp.receive.told_last;
}

/// Segment `unit` of the entry, or one of no bytes where the list ends.
PEAL_HD DataItem read_receive(const ReceiveEntry& entry, uint32_t unit) {
  DataItem item = {.is_inline = false, .units = 1, .bytes = 0, .lkey = 0, .address = 0};
  if (unit >= entry.units) return item;
  mlx5::DataSegment segment = {};  // what a copy that fails leaves: key 0, which nothing has
  copy_bytes(&segment, entry.list + unit * mlx5::kSegmentBytes, sizeof(segment));
  item.lkey = segment.lkey.host();
  item.address = segment.address.host();
  const uint32_t count = segment.byte_count.host();
  if (count == 0 && item.lkey == mlx5::kInvalidLkey) return item;
  item.is_inline = (count & mlx5::kInlineFlag) != 0;
  item.bytes = count == 0 ? kWholeSegment : count;
  return item;
}

/// Checks the claimed entry for the whole message: room first, then the keys of what it will fill.
PEAL_HD mlx5::Syndrome check_receive(const Port& port, const QueuePair& qp,
                                     const Arrival& arrival) {
  const ReceiveEntry entry = claimed_entry(port, qp, arrival.stream);
  const uint64_t total = arrival.packet.total;
  bool reachable = true;
  uint64_t room = 0;
  for (uint32_t unit = 0; room < total; ++unit) {
    const DataItem item = read_receive(entry, unit);
    if (item.bytes == 0) return mlx5::Syndrome::kLocalLength;
    if (item.is_inline) return mlx5::Syndrome::kLocalQpOperation;
    reachable = reachable && is_reachable(port, entry.pd, item, kLocalWrite);
    room += item.bytes;
  }
  return reachable ? mlx5::Syndrome::kNone : mlx5::Syndrome::kLocalProtection;
}

/// Spreads a packet over the claimed entry. False when the list does not allow it any more.
PEAL_HD bool fill_receive(const Port& port, const QueuePair& qp, const Arrival& arrival,
                          const Payload& payload) {
  const ReceiveEntry entry = claimed_entry(port, qp, arrival.stream);
  const auto item_at = [&entry](uint32_t unit) { return read_receive(entry, unit); };
  uint64_t offset = arrival.packet.offset;
  for (uint32_t i = 0; i < payload.count; ++i) {
    const Payload::Chunk& chunk = payload.chunk[i];
    if (!scatter(port, entry.pd, item_at, offset, chunk.memory, chunk.bytes)) return false;
    offset += chunk.bytes;
  }
  return true;
}

}  // namespace peal::softnic
