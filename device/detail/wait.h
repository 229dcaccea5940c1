// SPDX-License-Identifier: Apache-2.0
//
// Looking at words that peers change, and waiting that ends: condition, deadline or stop word.
#pragma once

#include <cstdint>
#include <type_traits>

#include "device/base/order.h"
#include "device/base/spin.h"
#include "device/context.h"
#include "device/shared/waits.h"
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
  return static_cast<T>(
      load_acquire<Reach::kSystem, Edge::kWordBeforeWait>(reinterpret_cast<const W*>(word)));
}

/// True if *word satisfies the comparison now.
template <class T>
PEAL_HD bool word_holds(const T* word, Compare compare, T value) {
  return holds(acquire_word(word), compare, value);
}

PEAL_HD Status stop_word(const ContextFields& ctx) {
  return static_cast<Status>(load_relaxed<Reach::kSystem>(ctx.stop));
}

/// A wait for one word; the first one of a set.
template <class T>
PEAL_HD Wait wait_for_word(WaitKind kind, const T* word, Compare compare, T value) {
  Wait wait;
  wait.kind = kind;
  wait.word = word;
  wait.word_bytes = sizeof(T);
  wait.word_signed = std::is_signed_v<T> ? 1 : 0;
  wait.compare = static_cast<uint32_t>(compare);
  wait.wanted = static_cast<uint64_t>(value);
  return wait;
}

/// A wait of which no more is known.
template <WaitKind K>
struct WaitOf {
  PEAL_DEVICE Wait operator()() const {
    Wait wait;
    wait.kind = K;
    return wait;
  }
};

/// Waits until done(). Noted as what() when it lasts, or ends early.
template <class Done, class What = WaitOf<WaitKind::kOther>>
PEAL_DEVICE Status spin(const ContextFields& ctx, const Done& done, const What& what = {}) {
  return wait_noted(
      &ctx.state->waits, ctx.timeout_ns, done, [&] { return stop_word(ctx); }, what);
}

}  // namespace peal::detail
