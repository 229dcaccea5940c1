// SPDX-License-Identifier: Apache-2.0
//
// Big-endian words as types. What a NIC reads is Be32/Be64; what code computes with is
// uint32_t/uint64_t; the only way between the two is an explicit conversion, so a missing swap does
// not compile.
#pragma once

#include <cstdint>
#include <type_traits>

#include "device/base/target.h"

namespace peal {

PEAL_HD constexpr uint16_t swap_bytes(uint16_t v) {
  return static_cast<uint16_t>((v >> 8) | (v << 8));
}

PEAL_HD constexpr uint32_t swap_bytes(uint32_t v) {
#if PEAL_ON_GPU
  return __byte_perm(v, 0, 0x0123);
#else
  return __builtin_bswap32(v);
#endif
}

PEAL_HD constexpr uint64_t swap_bytes(uint64_t v) {
#if PEAL_ON_GPU
  return (static_cast<uint64_t>(swap_bytes(static_cast<uint32_t>(v))) << 32) |
         swap_bytes(static_cast<uint32_t>(v >> 32));
#else
  return __builtin_bswap64(v);
#endif
}

/// An unsigned integer held in big-endian byte order. `raw` is what lies in memory.
template <class T>
struct BigEndian {
  static_assert(std::is_unsigned_v<T>);
  T raw;

  BigEndian() = default;
  PEAL_HD constexpr explicit BigEndian(T host) : raw(swap_bytes(host)) {}
  PEAL_HD constexpr T host() const { return swap_bytes(raw); }

  /// Wraps bytes that are big-endian already (a key swapped once on the host, say).
  PEAL_HD static constexpr BigEndian from_raw(T raw) {
    BigEndian value;
    value.raw = raw;
    return value;
  }
  friend PEAL_HD constexpr bool operator==(BigEndian a, BigEndian b) { return a.raw == b.raw; }
};

using Be16 = BigEndian<uint16_t>;
using Be32 = BigEndian<uint32_t>;
using Be64 = BigEndian<uint64_t>;

static_assert(sizeof(Be32) == 4 && std::is_trivially_copyable_v<Be32>);

/// `value` << 8, where nothing is shifted out: as it lies in memory that is a shift down.
PEAL_HD constexpr Be32 shifted_up(Be32 value) { return Be32::from_raw(value.raw >> 8); }

}  // namespace peal
