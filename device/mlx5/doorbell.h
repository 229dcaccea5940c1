// SPDX-License-Identifier: Apache-2.0
//
// How the NIC hears of work: WQE bytes, then doorbell record, then doorbell, each visible before
// the next.
#pragma once

#include <cstdint>

#include "device/base/order.h"
#include "device/mlx5/layout.h"

namespace peal::mlx5 {

/// Says how many WQEBBs have been posted. This is what the NIC trusts. Edge M2: releases the WQEs
/// to the NIC.
PEAL_HD void write_doorbell_record(DoorbellRecord* record, uint64_t posted) {
  store_release<Reach::kSystem>(&record->send.raw,
                                Be32{static_cast<uint32_t>(posted & 0xffff)}.raw);
}

/// Wakes the NIC: an 8-byte store of {index, qpn} to the UAR register. Edge M3: after the doorbell
/// record.
PEAL_HD void ring_doorbell(uint64_t* reg, uint64_t posted, uint32_t qpn) {
  const Be32 index{static_cast<uint32_t>(posted & 0xffff) << 8};
  const Be32 queue{qpn << 8};
  store_mmio(reg, static_cast<uint64_t>(index.raw) | (static_cast<uint64_t>(queue.raw) << 32));
}

}  // namespace peal::mlx5
