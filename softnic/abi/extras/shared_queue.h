// SPDX-License-Identifier: Apache-2.0
//
// The memory of a shared receive queue as those who post see it: a list of all entries.
//
//   [NIC's next ... head) posted     [head ... tail] free, by their links     elsewhere: taken
//
// put() takes entries at the head; settle(), called by whoever polls, links them behind the tail.
// The tail is never posted: the NIC does not read a link that is about to be written.
#pragma once

#include <infiniband/verbs.h>

#include <mutex>
#include <vector>

#include "device/mlx5/layout.h"
#include "softnic/engine/shared_receive.h"
#include "softnic/engine/word.h"

namespace peal::softnic::abi {

class VerbsSharedQueue {
 public:
  /// `ring` has room for 2 or more entries of `stride` bytes: a link and the scatter list.
  void open(std::byte* ring, uint32_t entries, uint32_t stride, mlx5::DoorbellRecord* doorbell) {
    ring_ = ring;
    stride_ = stride;
    doorbell_ = doorbell;
    entry_.resize(entries);
    tail_ = entries - 1;
    for (uint32_t i = 0; i < entries; ++i) link(i, (i + 1) & tail_);
  }

  std::mutex& lock() { return lock_; }
  uint32_t segments() const { return stride_ / mlx5::kSegmentBytes - 1; }
  /// The first free entry and the last.
  uint32_t head() const { return head_; }
  uint32_t tail() const { return tail_; }

  // ---- posting, under the lock

  bool full() const { return head_ == tail_; }
  /// Where the scatter list of the next entry goes.
  std::byte* slot() const { return at(head_) + sizeof(LinkSegment); }
  void finish(uint64_t wr_id) {
    entry_[head_] = {wr_id, true};
    head_ = following(head_);
    ++posted_;
  }
  void ring() { store<uint32_t>(&doorbell_->receive, Be32(posted_ & 0xffff).raw); }

  bool used() {
    const std::lock_guard hold(lock_);
    return posted_ != 0;
  }

  // ---- polling

  /// The name of entry `counter`, which is free from now on; 0 if it was not posted.
  uint64_t settle(uint16_t counter) {
    const std::lock_guard hold(lock_);
    if (counter >= entry_.size() || !entry_[counter].posted) return 0;
    entry_[counter].posted = false;
    link(tail_, counter);
    tail_ = counter;
    return entry_[counter].wr_id;
  }

 private:
  struct Entry {
    uint64_t wr_id = 0;
    bool posted = false;  // and not settled
  };
  std::byte* at(uint32_t index) const { return ring_ + size_t{index} * stride_; }
  void link(uint32_t index, uint32_t next) {
    auto* segment = reinterpret_cast<LinkSegment*>(at(index));
    segment->next[0] = static_cast<uint8_t>(next >> 8);
    segment->next[1] = static_cast<uint8_t>(next);
  }
  uint32_t following(uint32_t index) const {
    const auto* segment = reinterpret_cast<const LinkSegment*>(at(index));
    const uint32_t next = uint32_t{segment->next[0]} << 8 | segment->next[1];
    return next & static_cast<uint32_t>(entry_.size() - 1);  // whatever the client made of it
  }

  std::mutex lock_;
  std::byte* ring_ = nullptr;
  uint32_t stride_ = 0;
  mlx5::DoorbellRecord* doorbell_ = nullptr;
  std::vector<Entry> entry_;
  uint32_t head_ = 0;
  uint32_t tail_ = 0;
  uint32_t posted_ = 0;
};

}  // namespace peal::softnic::abi
