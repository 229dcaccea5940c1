// SPDX-License-Identifier: Apache-2.0
//
// What a queue has of an mlx5: its ring, the two words by which the NIC hears of work, and the one
// entry of its collapsed completion queue. The first part of a SendQueue.
#pragma once

#include <cstdint>

#include "device/base/endian.h"
#include "device/base/target.h"
#include "device/mlx5/layout.h"

namespace peal::mlx5 {

/// Keeps the 16-bit completion counter unambiguous.
inline constexpr uint32_t kMaxDepth = 16384;

struct WorkQueue {
  Wqebb* blocks;
  DoorbellRecord* doorbell_record;
  uint64_t* doorbell;   // UAR register
  Cqe* cqe;             // the one entry of a collapsed CQ
  Be32 qpn_shifted;     // qpn << 8: as control segments and doorbells carry it
  uint32_t ring_twice;  // 1: hardware, which may lose a doorbell

  PEAL_HD uint32_t qpn() const { return qpn_shifted.host() >> 8; }
  PEAL_HD Wqebb* block(uint64_t index, uint32_t mask) const { return &blocks[index & mask]; }
};
static_assert(sizeof(WorkQueue) == 40);

}  // namespace peal::mlx5
