// SPDX-License-Identifier: Apache-2.0
//
// Atomics on 4- and 8-byte words at a peer, executed by the peer's NIC, or by this PE where it
// reaches the word itself. Atomic with respect to one another as long as all PEs reach the word the
// same way; not with respect to the peer's own plain loads and stores.
//
// Fetching forms wait for the old value (atomics_nbi.h has those that do not). The others return
// once posted; quiet(ctx) completes them. What a NIC has no operation for, min, max and the sum of
// reals, is done by compare and swap there: two round trips or more, each waited for.
//
// One thread calls; lanes of a warp that call together are posted together. A word must be aligned
// to its size: kMisaligned otherwise.
//
// Without a last argument an atomic is relaxed: it vouches for nothing, on any route. Who sees its
// value need not see the puts before it, nor does a g behind a fetch see what was done before the
// word was changed. The last argument orders, on every route:
//
//   release  covers what this block had posted to `pe` on this context, what this lane had stored
//            at home and into mapped memory, had got and had acquired, and what lanes had done that
//            it had synchronised with; not what a NIC takes to another PE: quiet(ctx, that_pe)
//   acquire  if the old value is a release's, or what atomics made of one: later g, get, sources of
//            puts, and loads at home and of mapped memory, of this lane, see what that covers
//   acq_rel  both
//
// A compare and swap that fails, and a min or max that changes nothing, releases nothing. Waits and
// signal_fetch acquire, signals release. docs/memory_model.md, "Acquire and release": the cost.
#pragma once

#include <type_traits>

#include "device/context.h"
#include "device/detail/atomic.h"
#include "device/reduce_op.h"
#include "device/types.h"

namespace peal {

/// Reads the word atomically.
template <Reach R, class T, ReadOrder O = Relaxed>
PEAL_DEVICE Fetched<T> atomic_fetch(const BasicContext<R>& ctx, const T* word, int pe, O = {}) {
  return detail::fetch_atomic<O::kOrder>(ctx, word, detail::Look<detail::WordOf<T>>{}, pe);
}

/// Stores `value`.
template <Reach R, class T, WriteOrder O = Relaxed>
PEAL_DEVICE Status atomic_set(const BasicContext<R>& ctx, T* word, std::type_identity_t<T> value,
                              int pe, O = {}) {
  return detail::post_atomic<Update::kSwap, O::kOrder>(ctx, word, value, pe).status;
}

/// Stores `value` and returns what was there.
template <Reach R, class T, AnyOrder O = Relaxed>
PEAL_DEVICE Fetched<T> atomic_swap(const BasicContext<R>& ctx, T* word,
                                   std::type_identity_t<T> value, int pe, O = {}) {
  return detail::fetch_atomic<O::kOrder>(ctx, word, detail::change<Update::kSwap>(value), pe);
}

/// Stores `value` if the word equals `compare`; returns what was there.
template <Reach R, class T, AnyOrder O = Relaxed>
PEAL_DEVICE Fetched<T> atomic_compare_swap(const BasicContext<R>& ctx, T* word,
                                           std::type_identity_t<T> compare,
                                           std::type_identity_t<T> value, int pe, O = {}) {
  const detail::SwapIf what{detail::to_word(compare), detail::to_word(value)};
  return detail::fetch_atomic<O::kOrder>(ctx, word, what, pe);
}

/// Adds `value`; integers wrap. A real's sum is that of the machine which adds: a GPU flushes
/// subnormal floats of mapped memory to zero.
template <Reach R, class T, WriteOrder O = Relaxed>
PEAL_DEVICE Status atomic_add(const BasicContext<R>& ctx, T* word, std::type_identity_t<T> value,
                              int pe, O = {}) {
  if constexpr (std::is_floating_point_v<T>) {
    return detail::combine_atomic<op::Sum, O::kOrder>(ctx, Call::kAtomicAdd, word, value, pe)
        .status;
  } else {
    static_assert(std::is_integral_v<T>);
    return detail::post_atomic<Update::kAdd, O::kOrder>(ctx, word, value, pe).status;
  }
}

/// Adds `value` and returns what was there.
template <Reach R, class T, AnyOrder O = Relaxed>
PEAL_DEVICE Fetched<T> atomic_fetch_add(const BasicContext<R>& ctx, T* word,
                                        std::type_identity_t<T> value, int pe, O = {}) {
  if constexpr (std::is_floating_point_v<T>) {
    return detail::combine_atomic<op::Sum, O::kOrder>(ctx, Call::kAtomicFetchAdd, word, value, pe);
  } else {
    static_assert(std::is_integral_v<T>);
    return detail::fetch_atomic<O::kOrder>(ctx, word, detail::change<Update::kAdd>(value), pe);
  }
}

/// Adds one.
template <Reach R, class T, WriteOrder O = Relaxed>
PEAL_DEVICE Status atomic_inc(const BasicContext<R>& ctx, T* word, int pe, O order = {}) {
  return atomic_add(ctx, word, T{1}, pe, order);
}

/// Adds one and returns what was there.
template <Reach R, class T, AnyOrder O = Relaxed>
PEAL_DEVICE Fetched<T> atomic_fetch_inc(const BasicContext<R>& ctx, T* word, int pe, O order = {}) {
  return atomic_fetch_add(ctx, word, T{1}, pe, order);
}

/// Ands `value` into the word.
template <Reach R, class T, WriteOrder O = Relaxed>
PEAL_DEVICE Status atomic_and(const BasicContext<R>& ctx, T* word, std::type_identity_t<T> value,
                              int pe, O = {}) {
  return detail::post_atomic<Update::kAnd, O::kOrder>(ctx, word, value, pe).status;
}

/// Ands `value` into the word and returns what was there.
template <Reach R, class T, AnyOrder O = Relaxed>
PEAL_DEVICE Fetched<T> atomic_fetch_and(const BasicContext<R>& ctx, T* word,
                                        std::type_identity_t<T> value, int pe, O = {}) {
  return detail::fetch_atomic<O::kOrder>(ctx, word, detail::change<Update::kAnd>(value), pe);
}

/// Ors `value` into the word.
template <Reach R, class T, WriteOrder O = Relaxed>
PEAL_DEVICE Status atomic_or(const BasicContext<R>& ctx, T* word, std::type_identity_t<T> value,
                             int pe, O = {}) {
  return detail::post_atomic<Update::kOr, O::kOrder>(ctx, word, value, pe).status;
}

/// Ors `value` into the word and returns what was there.
template <Reach R, class T, AnyOrder O = Relaxed>
PEAL_DEVICE Fetched<T> atomic_fetch_or(const BasicContext<R>& ctx, T* word,
                                       std::type_identity_t<T> value, int pe, O = {}) {
  return detail::fetch_atomic<O::kOrder>(ctx, word, detail::change<Update::kOr>(value), pe);
}

/// Xors `value` into the word.
template <Reach R, class T, WriteOrder O = Relaxed>
PEAL_DEVICE Status atomic_xor(const BasicContext<R>& ctx, T* word, std::type_identity_t<T> value,
                              int pe, O = {}) {
  return detail::post_atomic<Update::kXor, O::kOrder>(ctx, word, value, pe).status;
}

/// Xors `value` into the word and returns what was there.
template <Reach R, class T, AnyOrder O = Relaxed>
PEAL_DEVICE Fetched<T> atomic_fetch_xor(const BasicContext<R>& ctx, T* word,
                                        std::type_identity_t<T> value, int pe, O = {}) {
  return detail::fetch_atomic<O::kOrder>(ctx, word, detail::change<Update::kXor>(value), pe);
}

/// Makes `value` of the word if it is smaller. A value that is not a number is never stored, and
/// one that is there stays.
template <Reach R, class T, WriteOrder O = Relaxed>
PEAL_DEVICE Status atomic_min(const BasicContext<R>& ctx, T* word, std::type_identity_t<T> value,
                              int pe, O = {}) {
  return detail::combine_atomic<op::Min, O::kOrder>(ctx, Call::kAtomicMin, word, value, pe).status;
}

/// The same; returns what was there.
template <Reach R, class T, AnyOrder O = Relaxed>
PEAL_DEVICE Fetched<T> atomic_fetch_min(const BasicContext<R>& ctx, T* word,
                                        std::type_identity_t<T> value, int pe, O = {}) {
  return detail::combine_atomic<op::Min, O::kOrder>(ctx, Call::kAtomicFetchMin, word, value, pe);
}

/// Makes `value` of the word if it is larger; the rest as atomic_min.
template <Reach R, class T, WriteOrder O = Relaxed>
PEAL_DEVICE Status atomic_max(const BasicContext<R>& ctx, T* word, std::type_identity_t<T> value,
                              int pe, O = {}) {
  return detail::combine_atomic<op::Max, O::kOrder>(ctx, Call::kAtomicMax, word, value, pe).status;
}

/// The same; returns what was there.
template <Reach R, class T, AnyOrder O = Relaxed>
PEAL_DEVICE Fetched<T> atomic_fetch_max(const BasicContext<R>& ctx, T* word,
                                        std::type_identity_t<T> value, int pe, O = {}) {
  return detail::combine_atomic<op::Max, O::kOrder>(ctx, Call::kAtomicFetchMax, word, value, pe);
}

}  // namespace peal
