// SPDX-License-Identifier: Apache-2.0
//
// Fetched bytes that come to memory behind their completion (fault=late_data), as over a bus that
// keeps no order between what a NIC writes to two places, or to a GPU that shows no order.
//
//   answer of a READ -> hold -> CQE ... -> land: N ms later, or as soon as the NIC reads memory for
//   a DUMP, a WRITE, a SEND or a peer's READ or atomic: a read passes no write before it
#pragma once

#include <cstdint>

#include "softnic/engine/objects.h"
#include "softnic/engine/word.h"

namespace peal::softnic {

/// What one NIC has fetched and not yet stored. Used under the engine's lock.
class LateData {
 public:
  /// Takes bytes for `address` of a key; false if there is no room for them.
  PEAL_HD bool hold(uint32_t lkey, uint64_t address, const std::byte* from, uint64_t bytes,
                    uint64_t due) {
    if (count_ == kMost || bytes > sizeof bytes_ - used_) return false;
    held_[count_++] = {lkey, used_, address, bytes, due};
    copy_bytes(bytes_ + used_, from, bytes);
    used_ += static_cast<uint32_t>(bytes);
    return true;
  }

  /// Stores what is due at `now`, in the order in which it came. What is for a key that has gone is
  /// dropped: its memory may have gone too.
  PEAL_HD void land(const Port& port, uint64_t now) {
    uint32_t kept = 0;
    for (uint32_t i = 0; i < count_; ++i) {
      const Held one = held_[i];
      if (one.due > now) {
        held_[kept++] = one;
        continue;
      }
      const Key* const key = find_key(port, one.lkey);
      std::byte* const to = key == nullptr ? nullptr : locate(*key, one.address, one.bytes);
      if (to != nullptr) place(to, bytes_ + one.at, one.bytes);
    }
    count_ = kept;
    if (count_ == 0) used_ = 0;
  }

  /// All of it is due.
  PEAL_HD void hurry() {
    for (uint32_t i = 0; i < count_; ++i) held_[i].due = 0;
  }

 private:
  static constexpr uint32_t kMost = 64;

  struct Held {
    uint32_t lkey;
    uint32_t at;  // in bytes_
    uint64_t address;
    uint64_t bytes;
    uint64_t due;
  };

  uint32_t count_ = 0;
  uint32_t used_ = 0;
  Held held_[kMost] = {};
  alignas(64) std::byte bytes_[16 << 10] = {};
};

}  // namespace peal::softnic
