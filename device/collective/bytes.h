// SPDX-License-Identifier: Apache-2.0
//
// Units of 8 bytes, the last of a message shorter, of memory at home that need not be aligned.
#pragma once

#include <cstddef>
#include <cstdint>

#include "device/base/order.h"

namespace peal::collective {

inline constexpr uint32_t kUnit = 8;

PEAL_HD uint32_t units_of(uint64_t bytes) {
  return static_cast<uint32_t>((bytes + kUnit - 1) / kUnit);
}

PEAL_DEVICE uint32_t unit_length(uint64_t bytes, uint32_t unit) {
  const uint64_t left = bytes - uint64_t{unit} * kUnit;
  return left < kUnit ? static_cast<uint32_t>(left) : kUnit;
}

/// Unit `unit` of `bytes` bytes, zeros behind its end.
PEAL_DEVICE uint64_t load_unit(const void* from, uint64_t bytes, uint32_t unit) {
  const std::byte* const at = static_cast<const std::byte*>(from) + uint64_t{unit} * kUnit;
  const uint32_t length = unit_length(bytes, unit);
  if (length == kUnit && reinterpret_cast<uint64_t>(at) % kUnit == 0) {
    return load_payload(reinterpret_cast<const uint64_t*>(at));
  }
  uint64_t value = 0;
  for (uint32_t i = 0; i < length; ++i) {
    value |= static_cast<uint64_t>(load_payload(at + i)) << (8 * i);
  }
  return value;
}

PEAL_DEVICE void store_unit(void* to, uint64_t bytes, uint32_t unit, uint64_t value) {
  std::byte* const at = static_cast<std::byte*>(to) + uint64_t{unit} * kUnit;
  const uint32_t length = unit_length(bytes, unit);
  if (length == kUnit && reinterpret_cast<uint64_t>(at) % kUnit == 0) {
    return store_payload(reinterpret_cast<uint64_t*>(at), value);
  }
  for (uint32_t i = 0; i < length; ++i) {
    store_payload(at + i, static_cast<std::byte>(value >> (8 * i)));
  }
}

}  // namespace peal::collective
