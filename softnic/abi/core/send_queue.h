// SPDX-License-Identifier: Apache-2.0
//
// The rings of a verbs queue pair as those who post see them, and what each entry was called.
//
//   begin() -> segments, in place -> finish() -> ... -> ring()     posting, under the queue's lock
//   complete()                                                     polling, under the CQ's lock
//
// The two meet in `done` only: an entry is written again after its completion has been polled.
// The NIC reads no block before the doorbell record says it is there.
#pragma once

#include <infiniband/verbs.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <mutex>
#include <vector>

#include "device/mlx5/layout.h"
#include "softnic/engine/word.h"

namespace peal::softnic::abi {

/// One WQE, put together in the ring from its first block on, around the ring's end. What it may
/// hold was bounded when the queue was created.
class WqeWriter {
 public:
  WqeWriter(std::byte* ring, size_t ring_bytes, uint64_t block)
      : ring_(ring), mask_(ring_bytes - 1), start_(block * mlx5::kWqebbBytes) {}

  /// A whole segment, which never straddles the ring's end.
  template <class Segment>
  void add(const Segment& segment) {
    static_assert(sizeof segment == mlx5::kSegmentBytes);
    std::memcpy(at(bytes_), &segment, sizeof segment);
    bytes_ += sizeof segment;
  }
  /// Bytes, anywhere; pad() before the next segment.
  void append(const void* from, size_t bytes) {
    const size_t first = std::min(bytes, mask_ + 1 - ((start_ + bytes_) & mask_));
    std::memcpy(at(bytes_), from, first);
    if (first < bytes)
      std::memcpy(ring_, static_cast<const std::byte*>(from) + first, bytes - first);
    bytes_ += bytes;
  }
  /// Bytes in the place of some that were there.
  void replace(size_t offset, const void* from, size_t bytes) {
    WqeWriter there = *this;
    there.bytes_ = offset;
    there.append(from, bytes);
  }
  void pad() { bytes_ = (bytes_ + mlx5::kSegmentBytes - 1) & ~size_t{mlx5::kSegmentBytes - 1}; }
  /// Fills in the first segment, which was skipped.
  void begin_with(const mlx5::ControlSegment& control) {
    std::memcpy(at(0), &control, sizeof control);
  }

  uint32_t units() const { return static_cast<uint32_t>(bytes_ / mlx5::kSegmentBytes); }
  uint32_t blocks() const {
    return static_cast<uint32_t>((bytes_ + mlx5::kWqebbBytes - 1) / mlx5::kWqebbBytes);
  }

 private:
  std::byte* at(size_t offset) const { return ring_ + ((start_ + offset) & mask_); }

  std::byte* ring_;
  size_t mask_;
  size_t start_;
  size_t bytes_ = mlx5::kSegmentBytes;
};

/// What the control segment says besides lengths.
struct SendHead {
  mlx5::Opcode opcode;
  uint32_t modes;      // fence | completion | solicited
  uint32_t immediate;  // big-endian
};

/// What both rings of a queue pair have: counts of requests, and a lock for those who post.
class VerbsRing {
 public:
  std::mutex& lock() { return lock_; }
  bool used() const { return posted() != 0; }

 protected:
  uint64_t posted() const { return posted_.load(std::memory_order_relaxed); }
  uint64_t waiting() const { return posted() - done_.load(std::memory_order_acquire); }
  void place(std::byte* ring, mlx5::DoorbellRecord* doorbell) {
    ring_ = ring;
    doorbell_ = doorbell;
  }
  void clear_counts() {
    posted_.store(0, std::memory_order_relaxed);
    done_.store(0, std::memory_order_relaxed);
  }

  std::mutex lock_;
  std::byte* ring_ = nullptr;
  mlx5::DoorbellRecord* doorbell_ = nullptr;
  std::atomic<uint64_t> posted_{0};
  std::atomic<uint64_t> done_{0};  // with a request complete are all before it
};

class VerbsSendQueue : public VerbsRing {
 public:
  void open(std::byte* ring, uint32_t blocks, mlx5::DoorbellRecord* doorbell) {
    place(ring, doorbell);
    entry_.resize(blocks);
  }
  /// After creation: the number its WQEs carry, how many requests it takes, and where it rings.
  void name(uint32_t qpn, uint32_t limit, void* reg) {
    qpn_ = qpn;
    limit_ = limit;
    register_ = reg;
  }

  // ---- posting

  bool full() const { return waiting() >= limit_; }
  WqeWriter begin() const { return {ring_, entry_.size() * mlx5::kWqebbBytes, block_}; }
  void finish(WqeWriter& wqe, const SendHead& head, uint64_t wr_id) {
    const uint32_t index = static_cast<uint32_t>(block_) & 0xffff;
    wqe.begin_with({.opmod_idx_opcode = Be32(index << 8 | static_cast<uint32_t>(head.opcode)),
                    .qpn_ds = Be32(qpn_ << 8 | wqe.units()),
                    .signature_fm_ce_se = Be32(head.modes),
                    .imm = Be32::from_raw(head.immediate)});
    const uint64_t number = posted();
    entry_[block_ & (entry_.size() - 1)] = {wr_id, number};
    posted_.store(number + 1, std::memory_order_relaxed);
    last_ = block_;
    block_ += wqe.blocks();
  }
  /// Tells the NIC of all that is finished, as libmlx5 does: the record, then the first words of
  /// the last WQE.
  void ring() {
    store<uint32_t>(&doorbell_->send, Be32(static_cast<uint32_t>(block_) & 0xffff).raw);
    uint64_t value;
    std::memcpy(&value, ring_ + (last_ & (entry_.size() - 1)) * mlx5::kWqebbBytes, sizeof value);
    store<uint64_t>(register_, value);
  }

  /// Where posting stands; take_back() forgets what was finished after it and not rung for.
  struct Mark {
    uint64_t block;
    uint64_t posted;
  };
  Mark mark() const { return {block_, posted()}; }
  void take_back(const Mark& mark) {
    block_ = mark.block;
    posted_.store(mark.posted, std::memory_order_relaxed);
  }

  // ---- polling

  /// The name of the request whose first block is `counter`, 0 if it was not posted here. Its room
  /// and that of all before it is free from now on.
  uint64_t complete(uint16_t counter) {
    const Entry entry = entry_[counter & (entry_.size() - 1)];
    if (entry.number < done_.load(std::memory_order_relaxed) || entry.number >= posted()) return 0;
    done_.store(entry.number + 1, std::memory_order_release);
    return entry.wr_id;
  }

  /// Nobody posts or polls: the queue starts at the beginning of its ring.
  void clear() {
    block_ = 0;
    clear_counts();
    store<uint32_t>(&doorbell_->send, 0);
  }

 private:
  struct Entry {
    uint64_t wr_id;
    uint64_t number;  // of the request
  };

  uint32_t qpn_ = 0;
  uint32_t limit_ = 0;
  std::vector<Entry> entry_;  // by slot of the first block
  uint64_t block_ = 0;        // the next to write
  uint64_t last_ = 0;         // first of the last WQE
  void* register_ = nullptr;
};

class VerbsReceiveQueue : public VerbsRing {
 public:
  /// Without entries there is no queue, and it is always full.
  void open(std::byte* ring, uint32_t entries, uint32_t segments, mlx5::DoorbellRecord* doorbell) {
    place(ring, doorbell);
    segments_ = segments;
    wr_id_.resize(entries);
  }

  bool exists() const { return !wr_id_.empty(); }
  uint32_t segments() const { return segments_; }

  bool full() const { return waiting() >= wr_id_.size(); }
  std::byte* slot() const {
    return ring_ + (posted() & (wr_id_.size() - 1)) * segments_ * mlx5::kSegmentBytes;
  }
  void finish(uint64_t wr_id) {
    const uint64_t number = posted();
    wr_id_[number & (wr_id_.size() - 1)] = wr_id;
    posted_.store(number + 1, std::memory_order_relaxed);
  }
  void ring() {
    store<uint32_t>(&doorbell_->receive, Be32(static_cast<uint32_t>(posted()) & 0xffff).raw);
  }

  uint64_t complete(uint16_t counter) {
    const uint64_t done = done_.load(std::memory_order_relaxed);
    if (done == posted()) return 0;
    const uint64_t wr_id = wr_id_[counter & (wr_id_.size() - 1)];
    done_.store(done + 1, std::memory_order_release);
    return wr_id;
  }

  void clear() {
    clear_counts();
    store<uint32_t>(&doorbell_->receive, 0);
  }

 private:
  uint32_t segments_ = 0;
  std::vector<uint64_t> wr_id_;  // by slot
};

}  // namespace peal::softnic::abi
