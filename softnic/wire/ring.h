// SPDX-License-Identifier: Apache-2.0
//
// A byte ring between two NICs that do not trust each other: one writes records, one reads them.
//
//   record = Packet (one cache line) + payload, padded to cache lines; the payload may wrap
//   writer: bytes -> tail (release)      reader: tail (acquire) -> bytes -> head (release)
//
// Both sides keep their own counter privately and publish a copy; what the other side publishes is
// checked before it is used. A counter or length that cannot be right marks the ring broken.
#pragma once

#include <cstddef>
#include <cstdint>

#include "softnic/engine/packet.h"
#include "softnic/engine/word.h"

namespace peal::softnic {

/// The published counters of one ring, in shared memory: bytes ever written and ever read.
struct RingCounters {
  alignas(64) uint64_t tail;
  alignas(64) uint64_t head;
};

inline constexpr uint32_t kRecordAlign = sizeof(Packet);

PEAL_HD uint64_t record_bytes(uint64_t payload) {
  return sizeof(Packet) + (payload + kRecordAlign - 1) / kRecordAlign * kRecordAlign;
}

/// Bytes of a ring that wraps: `capacity` is a power of two.
struct RingMemory {
  std::byte* data = nullptr;
  uint64_t capacity = 0;

  PEAL_HD std::byte* at(uint64_t position) const { return data + (position & (capacity - 1)); }
  PEAL_HD uint64_t contiguous(uint64_t position) const {
    return capacity - (position & (capacity - 1));
  }
};

class RingWriter {
 public:
  RingWriter() = default;
  PEAL_HD RingWriter(RingCounters* counters, RingMemory memory)
      : counters_(counters), memory_(memory) {}

  PEAL_HD bool broken() const { return broken_; }
  PEAL_HD uint64_t position() const { return tail_; }
  PEAL_HD uint64_t unpublished() const { return tail_ - published_; }

  /// Bytes the reader has taken.
  PEAL_HD uint64_t consumed() {
    const uint64_t head = load<uint64_t>(&counters_->head);
    if (head - head_ > tail_ - head_) {
      broken_ = true;
    } else {
      head_ = head;
    }
    return head_;
  }

  /// True when `bytes` more fit.
  PEAL_HD bool room(uint64_t bytes) {
    if (tail_ + bytes - head_ <= memory_.capacity) return !broken_;
    consumed();
    return !broken_ && tail_ + bytes - head_ <= memory_.capacity;
  }

  /// Appends a record that fits (room). The reader sees it after publish().
  PEAL_HD void append(const Packet& packet, const Payload& payload) {
    write(packet, payload);
    commit(payload);
  }
  /// The two halves of that: what was written and not committed is written over.
  PEAL_HD void write(const Packet& packet, const Payload& payload) {
    *reinterpret_cast<Packet*>(memory_.at(tail_)) = packet;
    uint64_t at = tail_ + sizeof(Packet);
    for (uint32_t i = 0; i < payload.count; ++i) {
      copy_in(at, payload.chunk[i].memory, payload.chunk[i].bytes);
      at += payload.chunk[i].bytes;
    }
  }
  PEAL_HD void commit(const Payload& payload) { tail_ += record_bytes(payload.bytes); }

  PEAL_HD void publish() {
    if (unpublished() == 0) return;
    store<uint64_t>(&counters_->tail, tail_);
    published_ = tail_;
  }

 private:
  PEAL_HD void copy_in(uint64_t at, const std::byte* from, uint64_t bytes) {
    while (bytes > 0) {
      const uint64_t piece = bytes < memory_.contiguous(at) ? bytes : memory_.contiguous(at);
      if (in_gpu(from)) {
        copy_bytes(memory_.at(at), from, piece);  // at once: nobody looks before publish()
      } else {
        place(memory_.at(at), from, piece);
      }
      at += piece;
      from += piece;
      bytes -= piece;
    }
  }

  RingCounters* counters_ = nullptr;
  RingMemory memory_;
  uint64_t tail_ = 0;
  uint64_t published_ = 0;
  uint64_t head_ = 0;  // as last seen
  bool broken_ = false;
};

class RingReader {
 public:
  RingReader() = default;
  PEAL_HD RingReader(RingCounters* counters, RingMemory memory)
      : counters_(counters), memory_(memory) {}

  PEAL_HD bool broken() const { return broken_; }

  /// Copies the next record's header out and points `payload` at its bytes in the ring. False when
  /// there is none, or the ring is broken. The record stays until take().
  PEAL_HD bool peek(Packet& packet, Payload& payload) {
    if (head_ == tail_ && !look()) return false;
    packet = *reinterpret_cast<const Packet*>(memory_.at(head_));
    record_ = record_bytes(packet.payload);
    if (record_ > tail_ - head_) {
      broken_ = true;
      return false;
    }
    payload.clear();
    const uint64_t at = head_ + sizeof(Packet);
    const uint64_t first = memory_.contiguous(at);
    if (packet.payload > 0) {
      const auto bytes = packet.payload < first ? packet.payload : static_cast<uint32_t>(first);
      payload.append(memory_.at(at), bytes);
      if (bytes < packet.payload) payload.append(memory_.data, packet.payload - bytes);
    }
    return true;
  }

  /// Done with the record last peeked at.
  PEAL_HD void take() { head_ += record_; }

  PEAL_HD void publish() {
    if (head_ == published_) return;
    store<uint64_t>(&counters_->head, head_);
    published_ = head_;
  }

 private:
  PEAL_HD bool look() {
    const uint64_t tail = load<uint64_t>(&counters_->tail);
    if (tail - head_ > memory_.capacity || tail % kRecordAlign != 0) {
      broken_ = true;
      return false;
    }
    tail_ = tail;
    return tail_ != head_;
  }

  RingCounters* counters_ = nullptr;
  RingMemory memory_;
  uint64_t head_ = 0;
  uint64_t published_ = 0;
  uint64_t tail_ = 0;  // as last seen
  uint64_t record_ = 0;
  bool broken_ = false;
};

}  // namespace peal::softnic
