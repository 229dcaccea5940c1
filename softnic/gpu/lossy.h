// SPDX-License-Identifier: Apache-2.0
//
// The engine of a fabric where a NIC has a fault plan: one thread takes every queue pair step by
// step, as the engine of a CPU does, and what NICs say to each other goes as packets, which can be
// lost.
//
//   lossy_round: attend_faults of all ports -> advance of each queue pair -> LossyWire
//   LossyWire:   request -> serve.h at the peer's port -> answers, kept -> take_answer
//
// Answers are taken when the queue pair has been advanced: a requester does not expect one while it
// sends. One thread, because a plan counts and orders what all queue pairs of its NIC do.
#pragma once

#include <cstdint>

#include "softnic/engine/engine.h"
#include "softnic/engine/serve.h"
#include "softnic/gpu/kernel.h"

namespace peal::softnic::gpu {

/// See requester.h for what a wire promises, serve.h for replies. It finds ports as DirectWire
/// does.
class LossyWire : public DirectWire {
 public:
  /// Requests of `mine` from here on, at time `now`.
  PEAL_HD void begin(const DirectWire& lookup, Port& mine, uint64_t now) {
    static_cast<DirectWire&>(*this) = lookup;
    mine_ = &mine;
    now_ = now;
    count_ = 0;
  }

  PEAL_HD SendStatus open(uint16_t lid, uint64_t& generation) {
    if (direct(lid) == nullptr) return generation == 0 ? SendStatus::kAbsent : SendStatus::kLost;
    generation = 1;
    return SendStatus::kSent;
  }
  PEAL_HD uint32_t segment_bytes(uint16_t) { return kSegment; }
  /// A packet that meets a port which is down, or a NIC that has stopped or whose process is to
  /// end, counts as sent.
  PEAL_HD SendStatus send(uint16_t lid, const Packet& packet, const Payload& payload) {
    if (count_ == kMostAnswers) return SendStatus::kFull;
    Port* const peer = direct(lid);
    if (peer == nullptr || silent(*peer) || port_down(*mine_, now_)) return SendStatus::kSent;
    softnic::RequestServer<LossyWire>(*peer, mine_->lid, *this, now_).serve(packet, payload);
    return SendStatus::kSent;
  }
  PEAL_HD uint64_t position(uint16_t) { return 1; }
  /// A NIC that has stopped looks at nothing: its peers grant it their time.
  PEAL_HD uint64_t consumed(uint16_t lid) {
    const Port* const peer = direct(lid);
    const bool stopped = peer != nullptr && peer->faults != nullptr && peer->faults->stopped;
    return stopped ? 0 : ~0ull;
  }
  PEAL_HD bool lost(uint16_t lid, uint64_t) { return direct(lid) == nullptr; }

  PEAL_HD void acknowledge(const Packet& packet) { answer(packet, Payload{}); }
  PEAL_HD void answer(const Packet& packet, const Payload& payload) {
    if (count_ == kMostAnswers) return;  // send() has seen to it that there is room
    Kept& kept = answers_[count_++];
    kept.packet = packet;
    kept.memory = payload.bytes == 0 ? nullptr : payload.chunk[0].memory;
    kept.bytes = payload.bytes;
    // An atomic's old value is the server's own.
    if (kept.bytes != 0 && kept.bytes <= sizeof(kept.value)) {
      copy_bytes(&kept.value, kept.memory, kept.bytes);
      kept.memory = reinterpret_cast<const std::byte*>(&kept.value);
    }
  }

  /// Hands the answers to the queue pairs they are for; false when there were none.
  PEAL_HD bool take_answers() {
    const uint32_t count = count_;
    for (uint32_t i = 0; i < count; ++i) {
      Payload payload;
      if (answers_[i].bytes != 0) payload.append(answers_[i].memory, answers_[i].bytes);
      take_answer(*mine_, answers_[i].packet, payload, now_);
    }
    count_ = 0;
    return count != 0;
  }

 private:
  static constexpr uint32_t kSegment = 32 << 10;
  static constexpr uint32_t kMostAnswers = 16;  // to what a queue pair sends in one turn: half

  struct Kept {
    Packet packet;
    const std::byte* memory;  // of READs the peer's, or `value`
    uint32_t bytes;
    uint64_t value;
  };

  PEAL_HD bool silent(const Port& peer) const {
    const Faults* const plan = peer.faults;
    return plan != nullptr && (plan->stopped || plan->killed || port_down(peer, now_));
  }

  Port* mine_;
  uint64_t now_;
  uint32_t count_;
  Kept answers_[kMostAnswers];
};

/// Every queue pair once, at time `now`; `work` has those of a port side by side. True when
/// anything happened. `tells` becomes true when a port has something for whoever drives it: an
/// event, or that its process is to be killed.
PEAL_HD bool lossy_round(const DirectWire& lookup, const Assignment* work, uint32_t count,
                         LossyWire& wire, uint64_t now, bool* tells) {
  // All ports first: what a plan does at this moment precedes what any queue pair does.
  const Port* attended = nullptr;
  for (uint32_t i = 0; i < count; ++i) {
    if (work[i].port != attended) attend_faults(*work[i].port, now);
    attended = work[i].port;
  }
  bool worked = false;
  for (uint32_t i = 0; i < count; ++i) {
    Port& port = *work[i].port;
    wire.begin(lookup, port, now);
    if (!port.faults->killed) worked |= advance(port, wire, *work[i].qp, now, 1);
    worked |= wire.take_answers();
    if (port.events.count != 0 || port.faults->killed) *tells = true;
  }
  return worked;
}

}  // namespace peal::softnic::gpu
