// SPDX-License-Identifier: Apache-2.0
//
// Keys as WQEs of an mlx5 carry them: big-endian.
#pragma once

#include <cstdint>

#include "device/base/endian.h"
#include "device/shared/nic_key.h"

namespace peal::mlx5 {

/// The key that verbs calls `number`.
PEAL_HD constexpr NicKey key(uint32_t number) { return {Be32{number}.raw}; }

/// As a segment has it.
PEAL_HD constexpr Be32 wire(NicKey key) { return Be32::from_raw(key.bits); }

}  // namespace peal::mlx5
