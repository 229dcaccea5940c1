// SPDX-License-Identifier: Apache-2.0
//
// What is ordered before a moment: a stamp for each owner of memory and each writer.
//
//   at(owner, writer)    transfers by `writer` to memory of `owner` with a stamp up to this
//   at(writer, writer)   besides, everything `writer` did that is complete when it returns: reads,
//                        and accesses to its own memory
//
// Lies in memory that the PEs of a host share. Stamps only grow, each by itself, so nobody holds a
// lock: a PE that dies holds up nobody. Whoever sees the value of a word finds what was released
// on it, for that is joined before the value is sent.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

namespace peal::checking {

using Stamp = std::atomic<uint32_t>;
static_assert(Stamp::is_always_lock_free && sizeof(Stamp) == 4);

inline void raise(Stamp& stamp, uint32_t to) {
  uint32_t seen = stamp.load(std::memory_order_relaxed);
  while (seen < to && !stamp.compare_exchange_weak(seen, to, std::memory_order_acq_rel)) {
  }
}

class Knowledge {
 public:
  Knowledge(Stamp* stamps, int pes) : stamps_(stamps), pes_(pes) {}

  Stamp& at(int owner, int writer) const { return stamps_[owner * pes_ + writer]; }

  void join(const Knowledge& other) const {
    for (int i = 0; i < pes_ * pes_; ++i) {
      raise(stamps_[i], other.stamps_[i].load(std::memory_order_acquire));
    }
  }
  /// Everything that `writer` did up to `stamp`, its transfers included.
  void join_all_of(int writer, uint32_t stamp) const {
    for (int owner = 0; owner < pes_; ++owner) raise(at(owner, writer), stamp);
  }

 private:
  Stamp* stamps_;
  int pes_;
};

}  // namespace peal::checking
