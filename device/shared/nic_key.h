// SPDX-License-Identifier: Apache-2.0
//
// What a NIC knows registered memory by. Windows and queues carry keys as the NIC's model writes
// them into requests, so that no kernel converts one; in which byte order that is only the model
// knows (device/mlx5/key.h).
#pragma once

#include <cstdint>

#include "device/base/target.h"

namespace peal {

/// NICs of one PE. Rail r of a job is a connection of this PE's NIC r to a peer's NIC r, or, where
/// a PE has fewer, to NIC r modulo their number.
inline constexpr uint32_t kMaxRails = 4;

struct NicKey {
  uint32_t bits;

  friend PEAL_HD constexpr bool operator==(NicKey a, NicKey b) { return a.bits == b.bits; }
};
static_assert(sizeof(NicKey) == 4);

}  // namespace peal
