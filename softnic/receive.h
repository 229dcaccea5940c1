// SPDX-License-Identifier: Apache-2.0
//
// Receive entries: posted by the client, taken in order by SEND and WRITE with immediate.
//
//   entry = scatter list of `receive_stride` bytes, ended early by (0 bytes, invalid key)
//
// A SEND of several packets fills the oldest entry and takes it with its last packet. The entries
// belong to the client and may change under the reader, so each packet checks what it uses.
#pragma once

#include <cstdint>

#include "device/mlx5/layout.h"
#include "softnic/completion.h"
#include "softnic/decode.h"
#include "softnic/objects.h"
#include "softnic/packet.h"
#include "softnic/word.h"

namespace peal::softnic {

/// SEND, with immediate or without: it names no memory, the receive entry does.
PEAL_HD bool is_send(mlx5::Opcode opcode) {
  return opcode == mlx5::Opcode::kSend || opcode == mlx5::Opcode::kSendImm;
}

/// Receive entries posted and not taken.
PEAL_HD uint64_t receives_waiting(QueuePair& qp) {
  if (qp.receive_buffer == nullptr || qp.doorbell == nullptr) return 0;
  Receiver& receive = qp.receive;
  const uint32_t record = Be32::from_raw(load<uint32_t>(&qp.doorbell->receive)).host();
  const auto fresh = static_cast<uint16_t>(record - static_cast<uint32_t>(receive.posted));
  if (receive.posted + fresh - receive.consumed <= qp.receive_entries) receive.posted += fresh;
  return receive.posted - receive.consumed;
}

/// Takes the oldest receive entry and reports it: `kind` and, for an error, why.
PEAL_HD void complete_receive(Port& port, QueuePair& qp, const Packet& packet, mlx5::CqeOpcode kind,
                              mlx5::Syndrome syndrome, uint64_t now) {
  const bool failed = syndrome != mlx5::Syndrome::kNone;
  complete(port, qp, qp.receive_cq,
           {.kind = kind,
            .syndrome = syndrome,
            .opcode = mlx5::Opcode::kNop,
            .counter = static_cast<uint16_t>(qp.receive.consumed++),
            .bytes = failed ? 0 : packet.total,
            .immediate = failed ? 0 : packet.immediate,
            .solicited = (packet.flags & kSolicited) != 0},
           now);
}

/// Reports every posted receive entry of a failed queue pair as flushed. True when there was one.
PEAL_HD bool flush_receives(Port& port, QueuePair& qp, uint64_t now) {
  bool any = false;
  const Turn turn(qp.receive.turn, true);
  while (receives_waiting(qp) > 0) {
    any = true;
    complete_receive(port, qp, Packet{}, mlx5::CqeOpcode::kResponderError, mlx5::Syndrome::kFlushed,
                     now);
  }
  return any;
}

/// Segment `unit` of the oldest receive entry, or one of no bytes where the list ends.
PEAL_HD DataItem read_receive(const QueuePair& qp, uint32_t unit) {
  DataItem item = {.is_inline = false, .units = 1, .bytes = 0, .lkey = 0, .address = 0};
  if (unit >= qp.receive_stride / mlx5::kSegmentBytes) return item;
  const uint64_t slot = qp.receive.consumed & (qp.receive_entries - 1);
  mlx5::DataSegment segment;
  copy_bytes(&segment, qp.receive_buffer + slot * qp.receive_stride + unit * mlx5::kSegmentBytes,
             sizeof(segment));
  item.lkey = segment.lkey.host();
  item.address = segment.address.host();
  const uint32_t count = segment.byte_count.host();
  if (count == 0 && item.lkey == mlx5::kInvalidLkey) return item;
  item.is_inline = (count & mlx5::kInlineFlag) != 0;
  item.bytes = count == 0 ? kWholeSegment : count;
  return item;
}

/// Checks the oldest receive entry for a message of `total` bytes: room first, then the keys of
/// what it will fill.
PEAL_HD mlx5::Syndrome check_receive(const Port& port, const QueuePair& qp, uint64_t total) {
  bool reachable = true;
  uint64_t room = 0;
  for (uint32_t unit = 0; room < total; ++unit) {
    const DataItem item = read_receive(qp, unit);
    if (item.bytes == 0) return mlx5::Syndrome::kLocalLength;
    if (item.is_inline) return mlx5::Syndrome::kLocalQpOperation;
    reachable = reachable && local_memory(port, qp, item, kLocalWrite) != nullptr;
    room += item.bytes;
  }
  return reachable ? mlx5::Syndrome::kNone : mlx5::Syndrome::kLocalProtection;
}

/// Spreads a packet over the oldest receive entry, `offset` bytes into its list. False when the
/// list does not allow it any more.
PEAL_HD bool fill_receive(const Port& port, const QueuePair& qp, uint64_t offset,
                          const Payload& payload) {
  uint32_t unit = 0;
  DataItem item = read_receive(qp, unit);
  for (uint32_t i = 0; i < payload.count; ++i) {
    Payload::Chunk chunk = payload.chunk[i];
    while (chunk.bytes > 0) {
      if (item.bytes == 0 || item.is_inline) return false;
      if (offset >= item.bytes) {
        offset -= item.bytes;
        item = read_receive(qp, ++unit);
        continue;
      }
      std::byte* memory = local_memory(port, qp, item, kLocalWrite);
      if (memory == nullptr) return false;
      const uint64_t left = item.bytes - offset;
      const auto take = static_cast<uint32_t>(left < chunk.bytes ? left : chunk.bytes);
      place(memory + offset, chunk.memory, take);
      chunk.memory += take;
      chunk.bytes -= take;
      offset += take;
    }
  }
  return true;
}

}  // namespace peal::softnic
