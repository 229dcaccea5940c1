// SPDX-License-Identifier: Apache-2.0
//
// Peers whose memory this PE can load and store: over NVLink or PCIe on GPUs, shared pages on CPUs.
// No queue, no NIC.
//
//   copy(scope, ...)    all lanes of the scope move 16-byte lines, several in flight per lane
//
// Bytes that are not a multiple of 16 apart at source and destination are moved in the largest unit
// that fits both.
#pragma once

#include <cstddef>
#include <cstdint>

#include "device/base/order.h"
#include "device/base/scope.h"

namespace peal::p2p {

/// Which side of a copy is the peer's.
enum class Direction { kPut, kGet };

namespace detail {

template <class Unit, Direction kDirection>
PEAL_DEVICE Unit load_unit(const Unit* from) {
  if constexpr (sizeof(Unit) == 16) {
    return kDirection == Direction::kGet ? load_line_direct(from) : load_line(from);
  } else {
    return kDirection == Direction::kGet ? *const_cast<const volatile Unit*>(from) : *from;
  }
}

template <class Unit>
PEAL_DEVICE void store_unit(Unit* to, const Unit& unit) {
  if constexpr (sizeof(Unit) == 16) {
    store_line(to, unit);
  } else {
    *to = unit;
  }
}

/// Moves `count` units, dealt over the scope's lanes so that neighbours move neighbours. kInFlight
/// loads are under way before the first store: what hides the distance.
template <uint32_t kInFlight, class Unit, Direction kDirection, class Scope>
PEAL_DEVICE void copy_units(Scope scope, Unit* to, const Unit* from, uint64_t count) {
  const uint64_t stride = scope.size();
  uint64_t i = scope.rank();
  for (; i + (kInFlight - 1) * stride < count; i += kInFlight * stride) {
    Unit unit[kInFlight];
    PEAL_UNROLL
    for (uint32_t k = 0; k < kInFlight; ++k) {
      unit[k] = load_unit<Unit, kDirection>(from + i + k * stride);
    }
    PEAL_UNROLL
    for (uint32_t k = 0; k < kInFlight; ++k) store_unit(to + i + k * stride, unit[k]);
  }
  for (; i < count; i += stride) store_unit(to + i, load_unit<Unit, kDirection>(from + i));
}

/// The part that can move in Units, and the odd bytes before and behind it.
template <class Unit, uint32_t kInFlight, Direction kDirection, class Scope>
PEAL_DEVICE void copy_by(Scope scope, std::byte* to, const std::byte* from, uint64_t bytes) {
  const uint64_t misfit = reinterpret_cast<uint64_t>(to) % sizeof(Unit);
  uint64_t head = misfit == 0 ? 0 : sizeof(Unit) - misfit;
  if (head > bytes) head = bytes;
  const uint64_t units = (bytes - head) / sizeof(Unit);
  const uint64_t body = head + units * sizeof(Unit);
  copy_units<1, std::byte, kDirection>(scope, to, from, head);
  copy_units<kInFlight, Unit, kDirection>(scope, reinterpret_cast<Unit*>(to + head),
                                          reinterpret_cast<const Unit*>(from + head), units);
  copy_units<1, std::byte, kDirection>(scope, to + body, from + body, bytes - body);
}

}  // namespace detail

/// Copies `bytes`; each lane of the scope moves its share. Returns when this lane's share is under
/// way (kPut) or has arrived (kGet). Orders nothing: the caller syncs the scope before and after.
template <Direction kDirection, class Scope>
PEAL_DEVICE void copy(Scope scope, void* dst, const void* src, uint64_t bytes) {
  auto* to = static_cast<std::byte*>(dst);
  const auto* from = static_cast<const std::byte*>(src);
  const uint64_t apart = reinterpret_cast<uint64_t>(to) ^ reinterpret_cast<uint64_t>(from);
  if (apart % 16 == 0) {
    detail::copy_by<Line, 8, kDirection>(scope, to, from, bytes);
  } else if (apart % 8 == 0) {
    detail::copy_by<uint64_t, 8, kDirection>(scope, to, from, bytes);
  } else if (apart % 4 == 0) {
    detail::copy_by<uint32_t, 8, kDirection>(scope, to, from, bytes);
  } else {
    detail::copy_units<8, std::byte, kDirection>(scope, to, from, bytes);
  }
}

/// Stores one value of 1, 2, 4 or 8 bytes, never torn.
template <class T>
PEAL_DEVICE void store_value(void* where, const T& value) {
  if constexpr (sizeof(T) == 8 || sizeof(T) == 4) {
    using Word = std::conditional_t<sizeof(T) == 8, uint64_t, uint32_t>;
    if (reinterpret_cast<uint64_t>(where) % sizeof(T) == 0) {
      Word word;
      memcpy(&word, &value, sizeof(T));
      store_relaxed<Reach::kSystem>(static_cast<Word*>(where), word);
      return;
    }
  }
  copy<Direction::kPut>(thread, where, &value, sizeof(T));
}

/// Loads one value of 1, 2, 4 or 8 bytes, never torn if aligned, never from a stale cache line.
template <class T>
PEAL_DEVICE T load_value(const void* where) {
  T value;
  if constexpr (sizeof(T) == 8 || sizeof(T) == 4) {
    using Word = std::conditional_t<sizeof(T) == 8, uint64_t, uint32_t>;
    if (reinterpret_cast<uint64_t>(where) % sizeof(T) == 0) {
      const Word word = load_relaxed<Reach::kSystem>(static_cast<const Word*>(where));
      memcpy(&value, &word, sizeof(T));
      return value;
    }
  }
  copy<Direction::kGet>(thread, &value, where, sizeof(T));
  return value;
}

}  // namespace peal::p2p
