// SPDX-License-Identifier: Apache-2.0
//
// Fetching atomics that do not wait: the old value comes to `result`, memory at home, and is there
// when the ticket completes (wait, test, quiet). Until then nobody may touch `result`. In all else
// as without _nbi (atomics.h): a release has happened when the word changes, and an acquire when
// the ticket was found complete.
//
// A NIC stores 4-byte results with their bytes reversed, and a CPU thread that posts for kernels
// brings some to no other memory than its own, and no NIC writes where no window is: there the
// calls wait for the value, store it and answer a ticket that is complete.
#pragma once

#include <type_traits>

#include "device/context.h"
#include "device/detail/atomic.h"
#include "device/types.h"

namespace peal {

/// Reads the word.
template <Reach R, class T, ReadOrder O = Relaxed>
PEAL_DEVICE Ticket atomic_fetch_nbi(const BasicContext<R>& ctx, T* result, const T* word, int pe,
                                    O = {}) {
  return detail::fetch_atomic_nbi<O::kOrder>(ctx, result, word, detail::Look<detail::WordOf<T>>{},
                                             pe);
}

/// Stores `value`.
template <Reach R, class T, AnyOrder O = Relaxed>
PEAL_DEVICE Ticket atomic_swap_nbi(const BasicContext<R>& ctx, T* result, T* word,
                                   std::type_identity_t<T> value, int pe, O = {}) {
  return detail::fetch_atomic_nbi<O::kOrder>(ctx, result, word,
                                             detail::change<Update::kSwap>(value), pe);
}

/// Stores `value` if the word equals `compare`.
template <Reach R, class T, AnyOrder O = Relaxed>
PEAL_DEVICE Ticket atomic_compare_swap_nbi(const BasicContext<R>& ctx, T* result, T* word,
                                           std::type_identity_t<T> compare,
                                           std::type_identity_t<T> value, int pe, O = {}) {
  const detail::SwapIf what{detail::to_word(compare), detail::to_word(value)};
  return detail::fetch_atomic_nbi<O::kOrder>(ctx, result, word, what, pe);
}

/// Adds `value` to an integer, wrapping.
template <Reach R, class T, AnyOrder O = Relaxed>
PEAL_DEVICE Ticket atomic_fetch_add_nbi(const BasicContext<R>& ctx, T* result, T* word,
                                        std::type_identity_t<T> value, int pe, O = {}) {
  static_assert(std::is_integral_v<T>);
  return detail::fetch_atomic_nbi<O::kOrder>(ctx, result, word, detail::change<Update::kAdd>(value),
                                             pe);
}

/// Adds one.
template <Reach R, class T, AnyOrder O = Relaxed>
PEAL_DEVICE Ticket atomic_fetch_inc_nbi(const BasicContext<R>& ctx, T* result, T* word, int pe,
                                        O order = {}) {
  return atomic_fetch_add_nbi(ctx, result, word, T{1}, pe, order);
}

/// Ands `value` into the word.
template <Reach R, class T, AnyOrder O = Relaxed>
PEAL_DEVICE Ticket atomic_fetch_and_nbi(const BasicContext<R>& ctx, T* result, T* word,
                                        std::type_identity_t<T> value, int pe, O = {}) {
  return detail::fetch_atomic_nbi<O::kOrder>(ctx, result, word, detail::change<Update::kAnd>(value),
                                             pe);
}

/// Ors `value` into the word.
template <Reach R, class T, AnyOrder O = Relaxed>
PEAL_DEVICE Ticket atomic_fetch_or_nbi(const BasicContext<R>& ctx, T* result, T* word,
                                       std::type_identity_t<T> value, int pe, O = {}) {
  return detail::fetch_atomic_nbi<O::kOrder>(ctx, result, word, detail::change<Update::kOr>(value),
                                             pe);
}

/// Xors `value` into the word.
template <Reach R, class T, AnyOrder O = Relaxed>
PEAL_DEVICE Ticket atomic_fetch_xor_nbi(const BasicContext<R>& ctx, T* result, T* word,
                                        std::type_identity_t<T> value, int pe, O = {}) {
  return detail::fetch_atomic_nbi<O::kOrder>(ctx, result, word, detail::change<Update::kXor>(value),
                                             pe);
}

}  // namespace peal
