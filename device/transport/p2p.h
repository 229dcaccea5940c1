// SPDX-License-Identifier: Apache-2.0
//
// Peers whose memory this PE can load and store: over NVLink or PCIe on GPUs, shared pages on CPUs.
// No queue, no NIC.
//
//   copy(scope, ...)    all lanes of the scope move 16-byte lines, several in flight per lane
//
//   [ edges | body in the largest unit that fits both sides | edges ]
//
// Edges move in units as large as address and length allow: an aligned element is never torn.
#pragma once

#include <cstddef>
#include <cstdint>

#include "device/base/call.h"
#include "device/base/order.h"
#include "device/base/scope.h"

namespace peal::p2p {

/// Which side of a copy is the peer's.
enum class Direction { kPut, kGet };

namespace detail {

template <class Unit, Direction kDirection>
PEAL_DEVICE Unit load_unit(const Unit* from) {
  if constexpr (kDirection == Direction::kPut) {
    return load_payload(from);
  } else if constexpr (sizeof(Unit) == 16) {
    return load_line_direct(from);
  } else {
    return load_direct(from);
  }
}

// The side at home may lie in shared memory.
template <class Unit, Direction kDirection>
PEAL_DEVICE void store_unit(Unit* to, const Unit& unit) {
  if constexpr (kDirection == Direction::kPut && sizeof(Unit) == 16) {
    store_line(to, unit);
  } else {
    store_payload(to, unit);
  }
}

/// Moves N units, `stride` apart, from `i` on; with kGuarded only those below `count`. All loads
/// are under way before the first store: what hides the distance.
template <uint32_t N, bool kGuarded, Direction kDirection, class Unit>
PEAL_DEVICE void move(Unit* to, const Unit* from, uint32_t i, uint32_t stride, uint32_t count) {
  Unit unit[N] = {};
  PEAL_UNROLL
  for (uint32_t k = 0; k < N; ++k) {
    if (!kGuarded || i + k * stride < count) {
      unit[k] = load_unit<Unit, kDirection>(from + (i + k * stride));
    }
  }
  PEAL_UNROLL
  for (uint32_t k = 0; k < N; ++k) {
    if (!kGuarded || i + k * stride < count) {
      store_unit<Unit, kDirection>(to + (i + k * stride), unit[k]);
    }
  }
}

/// `pointer`, `bytes` further on: a sum of its own, so that few of them are in registers at once.
template <class Unit>
PEAL_DEVICE Unit* further(Unit* pointer, uint32_t bytes) {
  return as_new(reinterpret_cast<Unit*>(reinterpret_cast<uint64_t>(pointer) + bytes));
}

/// Moves N units that lie `stride` units apart, with kGuarded only those less than `left` away, and
/// moves both pointers on.
template <uint32_t N, bool kGuarded, Direction kDirection, class Unit>
PEAL_DEVICE void move_on(Unit*& to, const Unit*& from, int32_t stride, int32_t left) {
  const auto step = static_cast<uint32_t>(stride) * static_cast<uint32_t>(sizeof(Unit));
  Unit unit[N] = {};
  PEAL_UNROLL
  for (int32_t k = 0; k < static_cast<int32_t>(N); ++k) {
    if (!kGuarded || k * stride < left) unit[k] = load_unit<Unit, kDirection>(from);
    from = further(from, step);
  }
  PEAL_UNROLL
  for (int32_t k = 0; k < static_cast<int32_t>(N); ++k) {
    if (!kGuarded || k * stride < left) store_unit<Unit, kDirection>(to, unit[k]);
    to = further(to, step);
  }
}

/// Moves `count` units, dealt over the scope's lanes so that neighbours move neighbours, kBatch of
/// a lane under way at once.
template <uint32_t kBatch, Direction kDirection, class Scope, class Unit>
PEAL_DEVICE void copy_in_batches(Scope scope, Unit* to, const Unit* from, uint32_t count) {
  const uint32_t stride = scope.size();
  uint32_t i = scope.rank();
  for (; i + (kBatch - 1) * stride < count; i += kBatch * stride) {
    move<kBatch, false, kDirection>(to, from, i, stride, count);
  }
  // Fewer are left: in one go if it can be, with no more questions than there are units.
  if constexpr (std::is_same_v<Scope, Thread>) {
    if (kBatch > 4 && ((count - i) & 4) != 0) {
      move<4, false, kDirection>(to, from, i, 1, count);
      i += 4;
    }
    if (((count - i) & 2) != 0) {
      move<2, false, kDirection>(to, from, i, 1, count);
      i += 2;
    }
    if (i < count) move<1, false, kDirection>(to, from, i, 1, count);
  } else if (kBatch > 4 && i + 3 * stride < count) {
    move<kBatch, true, kDirection>(to, from, i, stride, count);
  } else if (i + stride < count) {
    move<3, true, kDirection>(to, from, i, stride, count);
  } else if (i < count) {
    move<1, false, kDirection>(to, from, i, stride, count);
  }
}

// What a peer's memory answers is a microsecond away: few lanes must each have more under way to
// fill the link. Many need not, and what is under way takes registers from the kernel around.
inline constexpr uint32_t kShallow = 4;
inline constexpr uint32_t kDeep = 8;
inline constexpr uint32_t kManyLanes = 512;

template <Direction kDirection, class Scope, class Unit>
PEAL_DEVICE void copy_deep(Scope scope, Unit* to, const Unit* from, uint32_t count) {
  const auto stride = static_cast<int32_t>(scope.size());
  auto left = static_cast<int32_t>(count - scope.rank());
  to += scope.rank();
  from += scope.rank();
  PEAL_NO_UNROLL
  for (; left > static_cast<int32_t>(kDeep - 1) * stride;
       left -= static_cast<int32_t>(kDeep) * stride) {
    move_on<kDeep, false, kDirection>(to, from, stride, left);
  }
  if (left > 0) move_on<kDeep, true, kDirection>(to, from, stride, left);
}

template <Direction kDirection, class Scope, class Unit>
PEAL_DEVICE void copy_units(Scope scope, Unit* to, const Unit* from, uint32_t count) {
  constexpr bool kLoadsRemote = kDirection == Direction::kGet;
  if constexpr (std::is_same_v<Scope, Thread>) {
    copy_in_batches<kLoadsRemote ? kDeep : kShallow, kDirection>(scope, to, from, count);
  } else if (kLoadsRemote && scope.size() < kManyLanes && count > kShallow * scope.size()) {
    copy_deep<kDirection>(scope, to, from, count);
  } else {
    copy_in_batches<kShallow, kDirection>(scope, to, from, count);
  }
}

/// The `head` bytes at the front and those from `tail` on.
template <class Unit, Direction kDirection, class Scope>
PEAL_DEVICE void copy_edges(Scope scope, std::byte* to, const std::byte* from, uint32_t head,
                            uint32_t tail, uint32_t bytes) {
  const auto units = static_cast<uint32_t>((head + bytes - tail) / sizeof(Unit));
  for (uint32_t i = scope.rank(); i < units; i += scope.size()) {
    auto at = static_cast<uint32_t>(i * sizeof(Unit));
    if (at >= head) at += tail - head;
    store_unit<Unit, kDirection>(
        reinterpret_cast<Unit*>(to + at),
        load_unit<Unit, kDirection>(reinterpret_cast<const Unit*>(from + at)));
  }
}

/// The bytes around the body of a copy in Units, in the largest units that fit. Out of line, as
/// everything that most copies never need: its registers are not the kernel's. Unit is void in a
/// copy by one thread: then it is the largest that fits both sides. That is one function where
/// ptxas compiles each once more for every kernel; of several lanes it would take more registers.
template <class Unit, Direction kDirection, class Scope>
PEAL_DEVICE_COLD void copy_around(Scope scope, std::byte* to, const std::byte* from, uint32_t head,
                                  uint32_t bytes) {
  const auto place = static_cast<uint32_t>(reinterpret_cast<uint64_t>(to));
  uint32_t unit = 0;
  if constexpr (std::is_void_v<Unit>) {
    const auto other = static_cast<uint32_t>(reinterpret_cast<uint64_t>(from));
    const uint32_t apart = (place ^ other) | uint32_t{sizeof(Line)};
    unit = apart & (0 - apart);
  } else {
    unit = sizeof(Unit);
  }
  const uint32_t fit = place | bytes;
  const uint32_t tail = bytes - ((bytes - head) & (unit - 1));
  if (unit > 8 && fit % 8 == 0) {
    copy_edges<uint64_t, kDirection>(scope, to, from, head, tail, bytes);
  } else if (unit > 4 && fit % 4 == 0) {
    copy_edges<uint32_t, kDirection>(scope, to, from, head, tail, bytes);
  } else if (unit > 2 && fit % 2 == 0) {
    copy_edges<uint16_t, kDirection>(scope, to, from, head, tail, bytes);
  } else {
    copy_edges<std::byte, kDirection>(scope, to, from, head, tail, bytes);
  }
}

/// A copy whose body moves in Units, which fit both sides.
template <class Unit, Direction kDirection, class Scope>
PEAL_DEVICE void copy_by(Scope scope, std::byte* to, const std::byte* from, uint32_t bytes) {
  constexpr auto kUnit = static_cast<uint32_t>(sizeof(Unit));
  const auto place = static_cast<uint32_t>(reinterpret_cast<uint64_t>(to));
  uint32_t head = (0 - place) % kUnit;
  if (head > bytes) head = bytes;
  copy_units<kDirection>(scope, reinterpret_cast<Unit*>(to + head),
                         reinterpret_cast<const Unit*>(from + head), (bytes - head) / kUnit);
  if ((place | bytes) % kUnit != 0) {
    using AnyUnit = std::conditional_t<std::is_same_v<Scope, Thread>, void, Unit>;
    call_apart<&copy_around<AnyUnit, kDirection, Scope>>(scope, to, from, head, bytes);
  }
}

/// Up to `kPart` bytes at a time: offsets in 32 bits take half the instructions.
template <class Unit, Direction kDirection, class Scope>
PEAL_DEVICE void copy_in_parts(Scope scope, std::byte* to, const std::byte* from, uint64_t bytes) {
  constexpr uint64_t kPart = uint64_t{1} << 30;
  do {
    const uint64_t part = bytes < kPart ? bytes : kPart;
    copy_by<Unit, kDirection>(scope, to, from, static_cast<uint32_t>(part));
    to += part;
    from += part;
    bytes -= part;
  } while (bytes != 0);
}

/// A copy between addresses that are a multiple of 16 bytes apart.
template <Direction kDirection, class Scope>
PEAL_DEVICE_COLD void copy_level(Scope scope, std::byte* to, const std::byte* from,
                                 uint64_t bytes) {
  copy_in_parts<Line, kDirection>(scope, to, from, bytes);
}

/// A copy between addresses that are not a multiple of 16 bytes apart.
template <Direction kDirection, class Scope>
PEAL_DEVICE_COLD void copy_skewed(Scope scope, std::byte* to, const std::byte* from,
                                  uint64_t bytes) {
  const auto apart =
      static_cast<uint32_t>(reinterpret_cast<uint64_t>(to) ^ reinterpret_cast<uint64_t>(from));
  if (apart % 8 == 0) {
    copy_in_parts<uint64_t, kDirection>(scope, to, from, bytes);
  } else if (apart % 4 == 0) {
    copy_in_parts<uint32_t, kDirection>(scope, to, from, bytes);
  } else if (apart % 2 == 0) {
    copy_in_parts<uint16_t, kDirection>(scope, to, from, bytes);
  } else {
    copy_in_parts<std::byte, kDirection>(scope, to, from, bytes);
  }
}

/// All of it in one go, if it consists of Units and there are no more than kEach for a lane: small
/// messages, and the elements that a thread copies. False if not.
template <class Unit, uint32_t kEach, Direction kDirection, class Scope>
PEAL_DEVICE bool copy_at_once(Scope scope, std::byte* to, const std::byte* from, uint64_t bytes) {
  const uint64_t fit = reinterpret_cast<uint64_t>(to) | reinterpret_cast<uint64_t>(from) | bytes;
  if (fit % sizeof(Unit) != 0 || bytes > scope.size() * kEach * sizeof(Unit)) return false;
  move<kEach, true, kDirection>(reinterpret_cast<Unit*>(to), reinterpret_cast<const Unit*>(from),
                                scope.rank(), scope.size(),
                                static_cast<uint32_t>(bytes / sizeof(Unit)));
  return true;
}

}  // namespace detail

/// Copies `bytes`; each lane of the scope moves its share. Returns when this lane's share is under
/// way (kPut) or has arrived (kGet). Orders nothing: the caller syncs the scope before and after.
template <Direction kDirection, class Scope>
PEAL_DEVICE void copy(Scope scope, void* dst, const void* src, uint64_t bytes) {
  auto* to = static_cast<std::byte*>(dst);
  const auto* from = static_cast<const std::byte*>(src);
  constexpr uint32_t kLines = std::is_same_v<Scope, Thread> ? 4 : 1;
  if (detail::copy_at_once<Line, kLines, kDirection>(scope, to, from, bytes)) return;
  if (detail::copy_at_once<uint64_t, 1, kDirection>(scope, to, from, bytes)) return;
  if (detail::copy_at_once<uint32_t, 1, kDirection>(scope, to, from, bytes)) return;
  if ((reinterpret_cast<uint64_t>(to) ^ reinterpret_cast<uint64_t>(from)) % sizeof(Line) != 0) {
    call_apart<&detail::copy_skewed<kDirection, Scope>>(scope, to, from, bytes);
  } else if constexpr (PEAL_RELOCATABLE && !std::is_same_v<Scope, Thread>) {
    // This function has few registers itself: the loop would have it store those of its caller
    // before the first of a short copy's loads.
    call_apart<&detail::copy_level<kDirection, Scope>>(scope, to, from, bytes);
  } else {
    detail::copy_in_parts<Line, kDirection>(scope, to, from, bytes);
  }
}

}  // namespace peal::p2p
