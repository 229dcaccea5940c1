// SPDX-License-Identifier: Apache-2.0
//
// The P2P transport's host half: every PE's part of a window, mapped into this process, so that
// kernels load and store it. What drives it is device/transport/p2p.h.
//
//   same process           the pointer itself
//   same host, CPU kernels the peer's memfd, through /proc/PID/fd
//
// Whether a peer can be reached is an answer with a reason, never an error: the routes decide.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "host/base/place.h"
#include "host/bootstrap.h"

namespace peal {

/// One window as it lies at every PE. Entries are by PE; the mappings end with it.
struct PeerMemory {
  using Mapping = std::unique_ptr<std::byte, std::function<void(std::byte*)>>;

  std::vector<std::byte*> direct;  // where the PE's part begins here; null = not reachable
  std::vector<std::string> how;    // in which way it is reached, or why it is not
  std::vector<Mapping> mappings;
};

/// What one PE knows of the others, and maps.
class P2p {
 public:
  /// `places` by PE.
  P2p(Bootstrap& bootstrap, std::vector<Place> places);

  /// Collective. Maps every PE's [address, address + bytes); all call with the same size. `fd`
  /// holds this PE's part from its first byte on, or is -1: then only this process can reach it.
  PeerMemory map(std::byte* address, size_t bytes, int fd);

 private:
  Bootstrap& bootstrap_;
  std::vector<Place> places_;
};

}  // namespace peal
