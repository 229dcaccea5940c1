// SPDX-License-Identifier: Apache-2.0
//
// The wires of one NIC: shared memory to the NICs of its fabric, UDP to those of other hosts, if it
// has an address there. Which of the two leads to a peer its LID says (roce/remote_nics.h).
#pragma once

#include <cerrno>
#include <chrono>
#include <cstdint>
#include <thread>

#include "softnic/wire/roce/udp_wire.h"
#include "softnic/wire/wire.h"

namespace peal::softnic {

/// A wire (see engine/wire.h). A view: both must outlive it.
class Wires {
 public:
  Wires(ShmWire& shm, roce::UdpWire* udp = nullptr, const Fabric* fabric = nullptr)  // NOLINT
      : shm_(shm), udp_(udp), fabric_(fabric) {}

  PacketPath find(const AddressVector& vector, uint8_t port) const {
    return shm_.find(vector, port);
  }
  Port* direct(uint16_t lid) { return shm_.direct(lid); }
  /// Packets there have the size of the path MTU: others expect it.
  bool cuts_by_mtu(uint16_t lid) const { return is_remote(lid); }

  SendStatus open(uint16_t lid, uint64_t& generation) {
    return is_remote(lid) ? udp_->open(lid, generation) : shm_.open(lid, generation);
  }
  uint32_t segment_bytes(uint16_t lid) const {
    return is_remote(lid) ? roce::UdpWire::segment_bytes() : shm_.segment_bytes(lid);
  }
  SendStatus send(uint16_t lid, const Packet& packet, const Payload& payload) {
    return is_remote(lid) ? udp_->send(lid, packet, payload) : shm_.send(lid, packet, payload);
  }
  uint64_t position(uint16_t lid) const {
    return is_remote(lid) ? roce::UdpWire::position() : shm_.position(lid);
  }
  uint64_t consumed(uint16_t lid) {
    return is_remote(lid) ? roce::UdpWire::consumed() : shm_.consumed(lid);
  }
  bool lost(uint16_t lid, uint64_t generation) const {
    return !is_remote(lid) && shm_.lost(lid, generation);
  }

  bool poll(uint64_t now) {
    bool worked = shm_.poll(now);
    if (udp_ != nullptr) worked |= udp_->poll(now);
    return worked;
  }
  /// For so long, or until a datagram comes.
  void rest(std::chrono::microseconds time) const {
    if (udp_ != nullptr) return udp_->rest(time);
    std::this_thread::sleep_for(time);
  }
  void flush() {
    shm_.flush();
    if (udp_ == nullptr) return;
    udp_->flush();
    if (const int error = udp_->take_trouble()) report(error);
  }

 private:
  bool is_remote(uint16_t lid) const { return udp_ != nullptr && roce::is_remote(lid); }

  void report(int error) const {
    if (fabric_ == nullptr) return;
    const char* const why =
        "the path MTU is larger than the network's: mtu= in "
        "PEAL_SOFTNIC_PRESENT (docs/roce.md)";
    fabric_->report("a datagram to another host", error, error == EMSGSIZE ? why : "");
  }

  ShmWire& shm_;
  roce::UdpWire* udp_;
  const Fabric* fabric_;  // tells what goes wrong
};

}  // namespace peal::softnic
