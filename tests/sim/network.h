// SPDX-License-Identifier: Apache-2.0
//
// The wires between the NICs of a simulated job: in order between two NICs, as late as the seed
// says, and as lossy as the workload says. What a packet's sender had done, its receiver
// knows: of one that answers, as far as its writes have been pushed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <vector>

#include "simt/simulation/simulation.h"
#include "softnic/engine/packet.h"
#include "softnic/engine/requester.h"
#include "softnic/engine/word.h"

namespace peal::sim {

/// A packet under way, with its bytes.
struct Parcel {
  softnic::Packet packet;
  std::vector<std::byte> bytes;
  simt::Released released;
  uint64_t due_ns;

  softnic::Payload payload() const {
    softnic::Payload payload;
    payload.clear();
    if (!bytes.empty()) payload.append(bytes.data(), static_cast<uint32_t>(bytes.size()));
    return payload;
  }
};

struct WireFaults {
  uint32_t delay_ns = 2000;  ///< at most
  uint32_t lost_in_256 = 0;
  uint32_t twice_in_256 = 0;
  uint32_t segment_bytes = 64;  ///< payload of a packet
  bool prompt = false;          ///< memory shows what a NIC wrote when the NIC says so
};

class Network {
 public:
  static constexpr size_t kRoom = 16;

  Network(simt::Simulation& sim, int nics, const WireFaults& wire_faults)
      : sim_(sim),
        nics_(static_cast<size_t>(nics)),
        wire_faults_(wire_faults),
        links_(nics_ * nics_),
        sent_(nics_ * nics_),
        taken_(nics_ * nics_) {}

  const WireFaults& wire_faults() const { return wire_faults_; }
  std::deque<Parcel>& link(size_t from, size_t to) { return links_[from * nics_ + to]; }
  uint64_t sent(size_t from, size_t to) const { return sent_[from * nics_ + to]; }
  uint64_t taken(size_t from, size_t to) const { return taken_[from * nics_ + to]; }

  /// From the NIC that calls.
  void send(size_t from, size_t to, const softnic::Packet& packet,
            const softnic::Payload& payload) {
    ++sent_[from * nics_ + to];
    Parcel parcel{packet, std::vector<std::byte>(payload.bytes), nullptr, 0};
    parcel.packet.payload = payload.bytes;
    size_t at = 0;
    for (uint32_t i = 0; i < payload.count; ++i) {
      softnic::copy_bytes(parcel.bytes.data() + at, payload.chunk[i].memory,
                          payload.chunk[i].bytes);
      at += payload.chunk[i].bytes;
    }
    // An answer says that the NIC took what came before, not that memory shows it.
    parcel.released = packet.kind == softnic::PacketKind::kRequest || wire_faults_.prompt
                          ? sim_.memory().release(simt::agent())
                          : sim_.memory().release_pushed(simt::agent());
    parcel.due_ns = sim_.now_ns() + sim_.random().below(wire_faults_.delay_ns);
    std::deque<Parcel>& wire = link(from, to);
    if (sim_.random().below(256) < wire_faults_.lost_in_256) {
      ++taken_[from * nics_ + to];
      return;
    }
    if (sim_.random().below(256) < wire_faults_.twice_in_256) {
      ++sent_[from * nics_ + to];
      wire.push_back(parcel);
    }
    wire.push_back(std::move(parcel));
  }

  /// The next packet of a link that has arrived; false if none has.
  bool receive(size_t from, size_t to, Parcel* parcel) {
    std::deque<Parcel>& wire = link(from, to);
    if (wire.empty() || wire.front().due_ns > sim_.now_ns()) return false;
    *parcel = std::move(wire.front());
    wire.pop_front();
    ++taken_[from * nics_ + to];
    sim_.memory().acquire(simt::agent(), parcel->released);
    return true;
  }

 private:
  simt::Simulation& sim_;
  size_t nics_;
  WireFaults wire_faults_;
  std::vector<std::deque<Parcel>> links_;
  std::vector<uint64_t> sent_;
  std::vector<uint64_t> taken_;
};

/// One NIC's end of all its wires, as the engine wants it.
struct WireEnd {
  Network& network;
  size_t me;

  static size_t nic_of(uint16_t lid) { return lid - 1u; }

  softnic::Port* direct(uint16_t) { return nullptr; }
  softnic::SendStatus open(uint16_t, uint64_t& generation) {
    generation = 1;
    return softnic::SendStatus::kSent;
  }
  uint32_t segment_bytes(uint16_t) { return network.wire_faults().segment_bytes; }
  softnic::SendStatus send(uint16_t lid, const softnic::Packet& packet,
                           const softnic::Payload& payload) {
    if (network.link(me, nic_of(lid)).size() >= Network::kRoom) return softnic::SendStatus::kFull;
    network.send(me, nic_of(lid), packet, payload);
    return softnic::SendStatus::kSent;
  }
  uint64_t position(uint16_t lid) { return network.sent(me, nic_of(lid)); }
  uint64_t consumed(uint16_t lid) { return network.taken(me, nic_of(lid)); }
  bool lost(uint16_t, uint64_t) { return false; }
};
static_assert(softnic::PacketWire<WireEnd>);

/// Answers to one peer.
struct AnswersTo {
  Network& network;
  size_t me;
  size_t peer;

  void acknowledge(const softnic::Packet& packet) {
    network.send(me, peer, packet, softnic::Payload{0, 0, {}});
  }
  void answer(const softnic::Packet& packet, const softnic::Payload& payload) {
    network.send(me, peer, packet, payload);
  }
};

}  // namespace peal::sim
