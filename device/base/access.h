// SPDX-License-Identifier: Apache-2.0
//
// What an access to shared memory is: how far away the other side may be, what it orders, what it
// makes of a word.
#pragma once

#include <cstdint>

#include "device/base/target.h"

namespace peal {

enum class Reach {
  kLane,    // nobody else: plain accesses
  kBlock,   // lanes of this block
  kGpu,     // any lane of this GPU
  kSystem,  // the NIC, the CPU, other GPUs
};

enum class Order : uint8_t { kRelaxed, kAcquire, kRelease, kBoth };

PEAL_HD constexpr bool acquires(Order order) {
  return order == Order::kAcquire || order == Order::kBoth;
}
PEAL_HD constexpr bool releases(Order order) {
  return order == Order::kRelease || order == Order::kBoth;
}

/// kRaise: the larger of the two.
enum class Update : uint8_t { kAdd, kAnd, kOr, kXor, kSwap, kRaise };

/// The word after the update.
template <Update U, class T>
PEAL_HD constexpr T updated(T old, T value) {
  if constexpr (U == Update::kAdd) return static_cast<T>(old + value);
  if constexpr (U == Update::kAnd) return static_cast<T>(old & value);
  if constexpr (U == Update::kOr) return static_cast<T>(old | value);
  if constexpr (U == Update::kXor) return static_cast<T>(old ^ value);
  if constexpr (U == Update::kSwap) return value;
  if constexpr (U == Update::kRaise) return old < value ? value : old;
}

/// One 16-byte line of a work queue entry.
struct alignas(16) Line {
  uint64_t word[2];
};

}  // namespace peal
