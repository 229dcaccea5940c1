// SPDX-License-Identifier: Apache-2.0
//
// How the NIC hears of work: WQE bytes, then doorbell record, then doorbell. One fence: the NIC
// reads a WQE only when a record covers it.
#pragma once

#include <cstdint>

#include "device/base/order.h"
#include "device/mlx5/layout.h"

namespace peal::mlx5 {

/// Says how many WQEBBs have been posted. This is what the NIC trusts. Edge M2: releases the WQEs
/// to the NIC. `posted` is the 16-bit count as the record holds it.
PEAL_HD void write_doorbell_record(DoorbellRecord* record, Be32 posted) {
  store_release<Reach::kSystem, Edge::kM2>(&record->send.raw, posted.raw);
}

/// Wakes the NIC: an 8-byte store of {posted << 8, qpn << 8} to the UAR register. Edge M3: the
/// record is stored first, but a GPU orders the two in program order only. That is enough for a NIC
/// that watches the records, as the software NIC does; ring() rings a NIC that sleeps until its
/// register is written once more behind a fence.
PEAL_HD void ring_doorbell(uint64_t* reg, Be32 posted, Be32 qpn_shifted) {
  // Big-endian and shifted up by a byte is shifted down by a byte as it lies in memory.
  const uint32_t index = posted.raw >> 8;
  store_mmio(reg, static_cast<uint64_t>(index) | (static_cast<uint64_t>(qpn_shifted.raw) << 32));
}

/// The 16-bit count of a free-running index.
PEAL_HD Be32 posted_count(uint64_t index) { return Be32{static_cast<uint32_t>(index & 0xffff)}; }

}  // namespace peal::mlx5
