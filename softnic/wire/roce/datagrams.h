// SPDX-License-Identifier: Apache-2.0
//
// What carries datagrams between hosts: a socket, or a test's idea of a network. Only rest()
// waits: what does not fit is told, or lost.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "softnic/wire/roce/address.h"

namespace peal::softnic::roce {

/// Datagrams that a kernel may be given in one piece. Their IPv4 headers count from 0.
inline constexpr uint16_t kMostOfTrain = 64;

/// A datagram that has come; `bytes` is beyond kMostDatagram if it was longer than any may be.
struct Arrived {
  Address from;
  uint16_t from_port;
  const std::byte* memory;
  size_t bytes;
};

class Datagrams {
 public:
  virtual ~Datagrams() = default;

  /// The address of this end, whose port is 4791.
  virtual const Address& address() const = 0;
  /// kMostDatagram bytes for the next datagram; null where there is no room now.
  virtual std::byte* reserve() = 0;
  /// The identification that the next datagram will have in its IPv4 header, if it has so many
  /// bytes and goes to that address.
  virtual uint16_t identification(const Address& to, size_t bytes) const = 0;
  /// What was written there goes to port 4791 of that address.
  virtual void commit(const Address& to, size_t bytes) = 0;
  /// Sends everything; what there is no room for stays.
  virtual void flush() = 0;
  /// Some of what has come, in order; valid until the next call.
  virtual const std::vector<Arrived>& receive() = 0;
  /// Waits for so long, or until something comes.
  virtual void rest(std::chrono::microseconds time) = 0;
  /// errno of the last datagram that could not leave, since the last call; 0: all did.
  virtual int take_trouble() = 0;
};

}  // namespace peal::softnic::roce
