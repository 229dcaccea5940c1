// SPDX-License-Identifier: Apache-2.0
//
// A wire in memory for the fuzz targets: packets wait in two lists until the input says what
// becomes of them. The bytes of each lie in an allocation of their own.
#pragma once

#include <deque>

#include "softnic/engine/engine.h"
#include "softnic/engine/serve.h"
#include "tests/support/parcel.h"

namespace peal::fuzz {

using namespace peal::softnic;

using softnic::testing::Parcel;

/// From `home` to the NIC at `peer_lid`, which is asked directly where `peer` is given.
struct ParcelWire {
  static constexpr uint32_t kSegment = 128;
  static constexpr size_t kRoom = 32;
  Port* home;
  uint16_t peer_lid;
  Port* peer = nullptr;
  bool gone = false;
  uint64_t sent = 0;
  uint64_t taken = 0;
  std::deque<Parcel> requests = {};
  std::deque<Parcel> answers = {};

  Port* direct(uint16_t lid) {
    if (lid == home->lid) return home;
    return lid == peer_lid ? peer : nullptr;
  }
  SendStatus open(uint16_t lid, uint64_t& generation) {
    if (lid != peer_lid) return SendStatus::kAbsent;
    if (gone) return SendStatus::kLost;
    generation = 1;
    return SendStatus::kSent;
  }
  uint32_t segment_bytes(uint16_t) { return kSegment; }
  SendStatus send(uint16_t, const Packet& packet, const Payload& payload) {
    if (requests.size() >= kRoom) return SendStatus::kFull;
    ++sent;
    requests.emplace_back(packet, payload);
    return SendStatus::kSent;
  }
  uint64_t position(uint16_t) { return sent; }
  uint64_t consumed(uint16_t) { return taken; }
  bool lost(uint16_t, uint64_t) { return gone; }

  void acknowledge(const Packet& packet) { answer(packet, Payload{0, 0, {}}); }
  void answer(const Packet& packet, const Payload& payload) {
    answers.emplace_back(packet, payload);
  }
};
static_assert(PacketWire<ParcelWire> && Replies<ParcelWire>);

}  // namespace peal::fuzz
