// SPDX-License-Identifier: Apache-2.0
//
// A link: all queues of one context between two PEs. Made, connected and opened as one, either when
// the context is made or when a kernel first wants one of the queues (host/linker.h).
//
//   none -> made -> connected -> proven -> open        at both ends
//
//   made       queue pairs exist and have numbers, which the other end may know
//   connected  can receive, and send
//   proven     the other end is connected, too, and this end's queues have passed their test
//   open       and so have the other's: kernels may use them
#pragma once

#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "host/base/config.h"
#include "host/base/place.h"

namespace peal {

enum class Link : uint8_t {
  kNone,
  kMade,
  kConnected,
  kProven,
  kOpen,
  kFailed,  // until recovery
};

/// The links that a context has from the start: to the next PE and the one before, so that every
/// NIC has sent and received before any kernel runs, and to the PEs of other hosts (or network
/// namespaces), which cannot be told of a wish later. With ConnectKind::kEager all. None to PEs
/// that are masked.
class FirstLinks {
 public:
  /// `places` by PE; they outlive this.
  FirstLinks(ConnectKind kind, std::span<const Place> places, std::vector<int> masked)
      : kind_(kind), places_(places), masked_(std::move(masked)) {}

  /// The same from either end.
  bool between(uint32_t a, uint32_t b) const;
  /// The PEs that `pe` is linked to, ascending.
  std::vector<uint32_t> of(uint32_t pe) const;

 private:
  ConnectKind kind_;
  std::span<const Place> places_;
  std::vector<int> masked_;
};

}  // namespace peal
