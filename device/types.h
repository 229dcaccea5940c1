// SPDX-License-Identifier: Apache-2.0
//
// What operations take and answer, beside Status.
#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "device/base/access.h"
#include "device/base/target.h"
#include "device/status.h"

namespace peal {

/// Names an operation in flight. Complete means: the source may be reused, and what was fetched has
/// arrived. wait() and test() take it.
template <class Queue>
struct BasicTicket {
  Queue* queue = nullptr;  // null: nothing was posted, `status` says why
  uint64_t index = 0;
  Status status = Status::kOk;
};
struct SendQueue;
using Ticket = BasicTicket<SendQueue>;

/// A fetched value, and whether it was fetched.
template <class T>
struct [[nodiscard]] Fetched {
  T value;
  Status status;
};

/// Distances between consecutive elements, in elements, at the destination and at the source.
struct Strides {
  ptrdiff_t dst;
  ptrdiff_t src;
};

/// Blocks of a buffer, one for each member of a team, in elements: how many, and from where on.
/// Both lists have as many entries as the team has members.
template <class I>
struct Blocks {
  static_assert(std::is_integral_v<I> && (sizeof(I) == 4 || sizeof(I) == 8));
  const I* counts;
  const I* displacements;
};

/// `rows` rows of `columns` elements each: a tile of a matrix, or blocks of elements. The
/// beginnings of consecutive rows are `pitch` elements apart at either side.
struct Tile {
  size_t rows;
  size_t columns;
  Strides pitch;
};

/// What to do to which 8-byte word of the symmetric heap at which PE. `set` has one writer per word
/// and may be repeated; `add` has any number of writers.
struct Signal {
  enum class Kind : uint32_t { kSet, kAdd };
  uint64_t* word;
  uint64_t value;
  int pe;
  Kind kind;

  PEAL_HD static Signal set(uint64_t* word, uint64_t value, int pe) {
    return {word, value, pe, Kind::kSet};
  }
  PEAL_HD static Signal add(uint64_t* word, uint64_t value, int pe) {
    return {word, value, pe, Kind::kAdd};
  }
};

/// What an atomic orders besides its word, as its last argument; without one it is Relaxed. See
/// device/atomics.h.
template <Order O>
struct Ordering {
  static constexpr Order kOrder = O;
};
inline constexpr Ordering<Order::kAcquire> acquire{};
inline constexpr Ordering<Order::kRelease> release{};
inline constexpr Ordering<Order::kBoth> acq_rel{};

using Relaxed = Ordering<Order::kRelaxed>;
template <class O>
concept AnyOrder = std::is_same_v<O, Ordering<O::kOrder>>;
/// The orders of a call that reads and stores nothing. WriteOrder: of one whose caller does not
/// hear what was there.
template <class O>
concept ReadOrder = AnyOrder<O> && !releases(O::kOrder);
template <class O>
concept WriteOrder = AnyOrder<O> && !acquires(O::kOrder);

/// How a wait compares the word, on the left, with the value.
enum class Compare : uint32_t { kEq, kNe, kGt, kGe, kLt, kLe };

}  // namespace peal
