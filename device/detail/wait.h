// SPDX-License-Identifier: Apache-2.0
//
// Looking at words that peers change, and waiting that ends: condition, deadline or stop word.
#pragma once

#include <cstdint>
#include <type_traits>

#include "device/base/order.h"
#include "device/base/spin.h"
#include "device/context.h"
#include "device/types.h"

namespace peal::detail {

template <class T>
PEAL_HD bool holds(T seen, Compare compare, T value) {
  switch (compare) {
    case Compare::kEq:
      return seen == value;
    case Compare::kNe:
      return seen != value;
    case Compare::kGt:
      return seen > value;
    case Compare::kGe:
      return seen >= value;
    case Compare::kLt:
      return seen < value;
    case Compare::kLe:
      return seen <= value;
  }
  return false;
}

/// Acquires a 4- or 8-byte integer that the NIC may be writing.
template <class T>
PEAL_HD T acquire_word(const T* word) {
  static_assert(std::is_integral_v<T> && (sizeof(T) == 4 || sizeof(T) == 8));
  using W = std::conditional_t<sizeof(T) == 4, uint32_t, uint64_t>;
  return static_cast<T>(load_acquire<Reach::kSystem, Edge::kM7>(reinterpret_cast<const W*>(word)));
}

/// True if *word satisfies the comparison now.
template <class T>
PEAL_HD bool word_holds(const T* word, Compare compare, T value) {
  return holds(acquire_word(word), compare, value);
}

PEAL_HD Status stop_word(const ContextFields& ctx) {
  return static_cast<Status>(load_relaxed<Reach::kSystem>(ctx.stop));
}

template <class Done>
PEAL_DEVICE Status spin(const ContextFields& ctx, const Done& done) {
  const SpinEnd end =
      spin_until(ctx.timeout_ns, done, [&] { return stop_word(ctx) != Status::kOk; });
  if (end == SpinEnd::kDone) return Status::kOk;
  return end == SpinEnd::kTimedOut ? Status::kTimeout : stop_word(ctx);
}

}  // namespace peal::detail
