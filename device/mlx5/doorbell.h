// SPDX-License-Identifier: Apache-2.0
//
// How the NIC hears of work: WQE bytes, a fence, doorbell record, doorbell.
//
// A ConnectX takes the index from the doorbell's value, so everything it may read for that must be
// visible before the first of the two stores. The record is what it looks at when it has lost a
// doorbell.
#pragma once

#include <cstdint>

#include "device/base/order.h"
#include "device/mlx5/layout.h"
#include "device/mlx5/work_queue.h"

namespace peal::mlx5 {

/// Says how many WQEBBs have been posted, as a 16-bit count. Orders nothing: a fence precedes it.
PEAL_HD void write_doorbell_record(DoorbellRecord* record, Be32 posted) {
  store_relaxed<Reach::kSystem>(&record->send.raw, posted.raw);
}

/// Tells the NIC the same: an 8-byte store of {posted << 8, qpn << 8} to the UAR register. It may
/// arrive before the record does.
PEAL_HD void ring_doorbell(uint64_t* reg, Be32 posted, Be32 qpn_shifted) {
  const uint32_t index = shifted_up(posted).raw;
  store_mmio(reg, static_cast<uint64_t>(index) | (static_cast<uint64_t>(qpn_shifted.raw) << 32));
}

/// The 16-bit count of a free-running index.
PEAL_HD Be32 posted_count(uint64_t index) { return Be32{static_cast<uint32_t>(index & 0xffff)}; }

/// Tells the NIC that `posted` WQEBBs are there, with fences of reach R. kPostedBeforeDoorbell: the
/// first makes what was posted visible before either store.
template <Reach R>
PEAL_HD void tell_nic(const WorkQueue& q, Be32 posted) {
  // Read ahead of the fence: behind it nobody waits for memory.
  DoorbellRecord* const record = q.doorbell_record;
  uint64_t* const reg = q.doorbell;
  const Be32 qpn_shifted = q.qpn_shifted;
  const bool twice = kMmioMayOvertake && q.ring_twice != 0;
  fence_posted<R, Edge::kPostedBeforeDoorbell>();
  write_doorbell_record(record, posted);
  ring_doorbell(reg, posted, qpn_shifted);
  if (twice) {
    // kRecordBeforeSecondDoorbell: a NIC that lost the first doorbell finds the record when it
    // hears the second.
    fence_posted<R, Edge::kRecordBeforeSecondDoorbell>();
    ring_doorbell(reg, posted, qpn_shifted);
  }
}

}  // namespace peal::mlx5
