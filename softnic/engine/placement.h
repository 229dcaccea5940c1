// SPDX-License-Identifier: Apache-2.0
//
// Out-of-order placement: what adaptive routing does to the WRITEs of a queue pair, by a seed.
//
//   WRITE a | WRITE b | WRITE c | atomic        arrive in order
//      held      stored    held                 memory shows b; a and c are still under way
//                                ^ a, c placed in any order, then the atomic executes
//
// What a responder holds it has placed before it executes a READ, an atomic, a SEND or a WRITE with
// immediate of that queue pair (serve.h), and before it acknowledges or refuses (wire.cc): a
// completion still says that the data is there. Queue pairs that are in_order are left alone. Where
// Port::pci_atomics says so, atomics do not wait, but their answers do.
#pragma once

#include <cstdint>

#include "softnic/engine/keys.h"
#include "softnic/engine/objects.h"
#include "softnic/engine/packet.h"
#include "softnic/engine/word.h"

namespace peal::softnic {

/// The WRITEs that one NIC holds as responder. Used under the engine's lock.
class WritePlacement {
 public:
  PEAL_HD explicit WritePlacement(uint64_t seed) : random_(seed * 2 + 1) {}

  /// Takes the bytes of a WRITE, to place them later; false if they are to be stored now. `packet`
  /// was checked: it may write there.
  PEAL_HD bool hold(QueuePair& qp, const Packet& packet, const Payload& payload, uint64_t now) {
    const bool fits = count_ < kMost && payload.bytes <= sizeof bytes_ - used_;
    if (!fits || payload.bytes == 0 || below(2) == 0) return false;
    if (qp.receive.placing == 0 || !holds(qp)) {
      qp.receive.placing = ++batches_;
    }
    Held& held = held_[count_++];
    held = {qp.qpn, used_, qp.receive.placing, now + below(kLongest), packet};
    for (uint32_t i = 0; i < payload.count; ++i) {
      copy_bytes(bytes_ + used_, payload.chunk[i].memory, payload.chunk[i].bytes);
      used_ += payload.chunk[i].bytes;
    }
    return true;
  }

  /// True while something of the queue pair is held and may be held on.
  PEAL_HD bool keeps(const QueuePair* qp, uint64_t now) const {
    if (qp == nullptr || !holds(*qp)) return false;
    bool due = false;
    for (uint32_t i = 0; i < count_; ++i) due |= held_[i].qpn == qp->qpn && held_[i].due <= now;
    return !due;
  }

  /// Places what is held of queue pair `qpn`, in any order. What was held before it was reset is
  /// dropped, and so is what is for a key that has gone.
  PEAL_HD void place_all(Port& port, uint32_t qpn) {
    if (count_ == 0) return;
    const QueuePair* const qp = find_qp(port, qpn);
    for (uint32_t left = count_; left > 0; --left) {
      const uint32_t pick = below(left);
      const Held one = held_[pick];
      held_[pick] = held_[left - 1];
      held_[left - 1] = one;
      if (one.qpn == qpn && qp != nullptr && qp->receive.placing == one.batch) store(port, one);
    }
    uint32_t kept = 0;
    for (uint32_t i = 0; i < count_; ++i) {
      if (held_[i].qpn != qpn) held_[kept++] = held_[i];
    }
    count_ = kept;
    if (count_ == 0) used_ = 0;
  }

 private:
  static constexpr uint32_t kMost = 32;
  static constexpr uint64_t kLongest = 40'000;  // ns that an acknowledgement is kept back

  struct Held {
    uint32_t qpn;
    uint32_t at;     // in bytes_
    uint64_t batch;  // Receiver::placing
    uint64_t due;
    Packet packet;
  };

  PEAL_HD bool holds(const QueuePair& qp) const {
    for (uint32_t i = 0; i < count_; ++i) {
      if (held_[i].qpn == qp.qpn && held_[i].batch == qp.receive.placing) return true;
    }
    return false;
  }

  PEAL_HD void store(const Port& port, const Held& held) const {
    const Packet& packet = held.packet;
    const Key* const key = find_key(port, packet.rkey);
    if (key == nullptr) return;
    const std::byte* from = bytes_ + held.at;
    each_run(port, *key, {packet.address, packet.total, 0}, packet.offset, packet.bytes,
             [&from](const MemoryRun& run) {
               place(run.memory, from, run.bytes);
               from += run.bytes;
             });
  }

  PEAL_HD uint32_t below(uint64_t limit) {
    random_ ^= random_ << 13;
    random_ ^= random_ >> 7;
    random_ ^= random_ << 17;
    return static_cast<uint32_t>((random_ >> 16) % limit);
  }

  uint64_t random_;
  uint64_t batches_ = 0;
  uint32_t count_ = 0;
  uint32_t used_ = 0;
  Held held_[kMost] = {};
  alignas(64) std::byte bytes_[64 << 10];
};

/// What the queue pair's responder holds is in memory afterwards.
PEAL_HD void place_held(Port& port, uint32_t qpn) {
  if (port.placement != nullptr) port.placement->place_all(port, qpn);
}

}  // namespace peal::softnic
