// SPDX-License-Identifier: Apache-2.0
//
// Atomics on 4- and 8-byte words at a peer, executed by the peer's NIC, or by this PE where it
// reaches the word itself. Atomic with respect to one another as long as all PEs reach the word the
// same way; not with respect to the peer's own plain loads and stores.
//
// Fetching forms wait for the old value. The others return once posted; quiet(ctx) completes them.
// One thread calls; lanes of a warp that call together are posted together. A word must be aligned
// to its size: kMisaligned otherwise.
#pragma once

#include <cstdint>
#include <type_traits>

#include "device/context.h"
#include "device/rails.h"
#include "device/resolve.h"
#include "device/rma.h"
#include "device/transport/ibgda.h"

namespace peal {
namespace detail {

template <class T>
using WordOf = std::conditional_t<sizeof(T) == 4, uint32_t, uint64_t>;

template <class T>
PEAL_HD WordOf<T> to_word(const T& value) {
  static_assert((sizeof(T) == 4 || sizeof(T) == 8) && std::is_trivially_copyable_v<T>);
  WordOf<T> word;
  memcpy(&word, &value, sizeof(T));
  return word;
}

template <class T>
PEAL_HD T from_landing(uint64_t bits) {
  // The NIC returns 8-byte results in host order and 4-byte results big-endian
  // (atomic_req_8B_endianness_mode 1).
  WordOf<T> word = static_cast<WordOf<T>>(bits);
  if constexpr (sizeof(T) == 4) word = swap_bytes(word);
  T value;
  memcpy(&value, &word, sizeof(T));
  return value;
}

// An operation on words W is a type with two faces: compose() for the NIC of the PE that has the
// word, apply() for a word this PE can reach itself, which answers the old value. apply_blind() is
// apply() for those who do not ask: on a GPU it waits for nothing.

template <class W>
struct Add {
  W value;
  PEAL_DEVICE mlx5::Wqe<4> compose(const mlx5::Header& h, const mlx5::Remote& at,
                                   const mlx5::Local& result) const {
    if constexpr (sizeof(W) == 8) {
      return mlx5::compose_fetch_add(h, at, value, result);
    } else {
      return mlx5::compose_masked(h, at, mlx5::MaskedAdd<W>{value, 0}, result);
    }
  }
  PEAL_DEVICE W apply(W* word) const { return fetch_add_relaxed<Reach::kSystem>(word, value); }
  PEAL_DEVICE void apply_blind(W* word) const { add_relaxed<Reach::kSystem>(word, value); }
};

template <class W>
struct Fetch {
  PEAL_DEVICE mlx5::Wqe<4> compose(const mlx5::Header& h, const mlx5::Remote& at,
                                   const mlx5::Local& result) const {
    return Add<W>{0}.compose(h, at, result);
  }
  PEAL_DEVICE W apply(W* word) const { return load_relaxed<Reach::kSystem>(word); }
};

template <class W>
struct SwapIf {
  W compare;
  W value;
  PEAL_DEVICE mlx5::Wqe<4> compose(const mlx5::Header& h, const mlx5::Remote& at,
                                   const mlx5::Local& result) const {
    constexpr W kAll = static_cast<W>(~W{0});
    if constexpr (sizeof(W) == 8) {
      return mlx5::compose_compare_swap(h, at, compare, value, result);
    } else {
      return mlx5::compose_masked(h, at, mlx5::MaskedSwap<W>{compare, kAll, value, kAll}, result);
    }
  }
  PEAL_DEVICE W apply(W* word) const {
    return fetch_compare_swap_relaxed<Reach::kSystem>(word, compare, value);
  }
};

/// The bits of `mask` become those of `value`, whatever was there: swap, and, or.
template <class W>
PEAL_DEVICE auto compose_replace(const mlx5::Header& h, const mlx5::Remote& at,
                                 const mlx5::Local& result, W value, W mask) {
  return mlx5::compose_masked(h, at, mlx5::MaskedSwap<W>{0, 0, value, mask}, result);
}

template <class W>
struct Swap {
  W value;
  PEAL_DEVICE auto compose(const mlx5::Header& h, const mlx5::Remote& at,
                           const mlx5::Local& result) const {
    return compose_replace(h, at, result, value, static_cast<W>(~W{0}));
  }
  PEAL_DEVICE W apply(W* word) const { return exchange_relaxed<Reach::kSystem>(word, value); }
  PEAL_DEVICE void apply_blind(W* word) const { store_relaxed<Reach::kSystem>(word, value); }
};

template <class W>
struct And {
  W value;
  PEAL_DEVICE auto compose(const mlx5::Header& h, const mlx5::Remote& at,
                           const mlx5::Local& result) const {
    return compose_replace(h, at, result, value, static_cast<W>(~value));
  }
  PEAL_DEVICE W apply(W* word) const { return fetch_and_relaxed<Reach::kSystem>(word, value); }
  PEAL_DEVICE void apply_blind(W* word) const { and_relaxed<Reach::kSystem>(word, value); }
};

template <class W>
struct Or {
  W value;
  PEAL_DEVICE auto compose(const mlx5::Header& h, const mlx5::Remote& at,
                           const mlx5::Local& result) const {
    return compose_replace(h, at, result, value, value);
  }
  PEAL_DEVICE W apply(W* word) const { return fetch_or_relaxed<Reach::kSystem>(word, value); }
  PEAL_DEVICE void apply_blind(W* word) const { or_relaxed<Reach::kSystem>(word, value); }
};

template <class W>
struct Xor {
  W value;
  PEAL_DEVICE mlx5::Wqe<4> compose(const mlx5::Header& h, const mlx5::Remote& at,
                                   const mlx5::Local& result) const {
    return mlx5::compose_masked(h, at, mlx5::MaskedAdd<W>{value, static_cast<W>(~W{0})}, result);
  }
  PEAL_DEVICE W apply(W* word) const { return fetch_xor_relaxed<Reach::kSystem>(word, value); }
  PEAL_DEVICE void apply_blind(W* word) const { xor_relaxed<Reach::kSystem>(word, value); }
};

template <Reach R, class T, class Op>
PEAL_DEVICE Fetched<T> fetch_atomic(const BasicContext<R>& ctx, T* word, const Op& op, int pe) {
  Fetched<T> answer{};
  const Near near = find_near_word(ctx, word, sizeof(T), pe);
  if (near.here) {
    const WordOf<T> old = op.apply(reinterpret_cast<WordOf<T>*>(near.address));
    memcpy(&answer.value, &old, sizeof(T));
    return answer;
  }
  const Destination at = resolve_word(ctx, word, sizeof(T), pe, Use::kAtomic);
  answer.status = at.status;
  if (at.status != Status::kOk) return answer;
  if (at.direct != nullptr) {
    const WordOf<T> old = op.apply(reinterpret_cast<WordOf<T>*>(at.direct));
    memcpy(&answer.value, &old, sizeof(T));
    return answer;
  }
  answer.status = settle_left<R, true>(ctx, queue_left(ctx, at.queue, pe));
  if (answer.status != Status::kOk) return answer;
  const auto landing = ibgda::Landing::take<R>(*at.queue, &answer.status);
  if (answer.status != Status::kOk) return answer;
  const Ticket fetch = post<R, true>(
      *at.queue, [&](const mlx5::Header& h) { return op.compose(h, at.remote, landing.local()); });
  answer.status =
      ibgda::wait<R>(landed<R, true>(*at.queue, ctx.heap.dumped, landing.local(), fetch));
  if (answer.status == Status::kOk) answer.value = from_landing<T>(landing.value());
  landing.template give_back<R>();
  return answer;
}

template <Reach R, class T, class Op>
PEAL_DEVICE Status post_atomic(const BasicContext<R>& ctx, T* word, const Op& op, int pe) {
  const Near near = find_near_word(ctx, word, sizeof(T), pe);
  // As a pointer that may be null, and not as a condition of its own: then ptxas sees whether all
  // lanes have one address, and adds up in the warp what the warp adds there.
  auto* const at_hand = near.here ? reinterpret_cast<WordOf<T>*>(near.address) : nullptr;
  if (at_hand != nullptr) {
    op.apply_blind(at_hand);
    return Status::kOk;
  }
  const Destination at = resolve_word(ctx, word, sizeof(T), pe, Use::kAtomic);
  if (at.status != Status::kOk) return at.status;
  if (at.direct != nullptr) {
    op.apply_blind(reinterpret_cast<WordOf<T>*>(at.direct));
    return Status::kOk;
  }
  return post_in_order<R, true>(ctx, at, pe,
                                [&](const mlx5::Header& h) {
                                  return op.compose(h, at.remote, ibgda::Landing::sink(*at.queue));
                                })
      .status;
}

}  // namespace detail

/// Reads the word atomically.
template <Reach R, class T>
PEAL_DEVICE Fetched<T> atomic_fetch(const BasicContext<R>& ctx, const T* word, int pe) {
  return detail::fetch_atomic(ctx, const_cast<T*>(word), detail::Fetch<detail::WordOf<T>>{}, pe);
}

/// Stores `value`.
template <Reach R, class T>
PEAL_DEVICE Status atomic_set(const BasicContext<R>& ctx, T* word, std::type_identity_t<T> value,
                              int pe) {
  return detail::post_atomic(ctx, word, detail::Swap{detail::to_word(value)}, pe);
}

/// Stores `value` and returns what was there.
template <Reach R, class T>
PEAL_DEVICE Fetched<T> atomic_swap(const BasicContext<R>& ctx, T* word,
                                   std::type_identity_t<T> value, int pe) {
  return detail::fetch_atomic(ctx, word, detail::Swap{detail::to_word(value)}, pe);
}

/// Stores `value` if the word equals `compare`; returns what was there.
template <Reach R, class T>
PEAL_DEVICE Fetched<T> atomic_compare_swap(const BasicContext<R>& ctx, T* word,
                                           std::type_identity_t<T> compare,
                                           std::type_identity_t<T> value, int pe) {
  return detail::fetch_atomic(ctx, word,
                              detail::SwapIf{detail::to_word(compare), detail::to_word(value)}, pe);
}

/// Adds `value`, wrapping.
template <Reach R, class T>
PEAL_DEVICE Status atomic_add(const BasicContext<R>& ctx, T* word, std::type_identity_t<T> value,
                              int pe) {
  static_assert(std::is_integral_v<T>);
  return detail::post_atomic(ctx, word, detail::Add{detail::to_word(value)}, pe);
}

/// Adds `value`, wrapping, and returns what was there.
template <Reach R, class T>
PEAL_DEVICE Fetched<T> atomic_fetch_add(const BasicContext<R>& ctx, T* word,
                                        std::type_identity_t<T> value, int pe) {
  static_assert(std::is_integral_v<T>);
  return detail::fetch_atomic(ctx, word, detail::Add{detail::to_word(value)}, pe);
}

/// Adds one.
template <Reach R, class T>
PEAL_DEVICE Status atomic_inc(const BasicContext<R>& ctx, T* word, int pe) {
  return atomic_add(ctx, word, T{1}, pe);
}

/// Adds one and returns what was there.
template <Reach R, class T>
PEAL_DEVICE Fetched<T> atomic_fetch_inc(const BasicContext<R>& ctx, T* word, int pe) {
  return atomic_fetch_add(ctx, word, T{1}, pe);
}

/// Ands `value` into the word.
template <Reach R, class T>
PEAL_DEVICE Status atomic_and(const BasicContext<R>& ctx, T* word, std::type_identity_t<T> value,
                              int pe) {
  return detail::post_atomic(ctx, word, detail::And{detail::to_word(value)}, pe);
}

/// Ands `value` into the word and returns what was there.
template <Reach R, class T>
PEAL_DEVICE Fetched<T> atomic_fetch_and(const BasicContext<R>& ctx, T* word,
                                        std::type_identity_t<T> value, int pe) {
  return detail::fetch_atomic(ctx, word, detail::And{detail::to_word(value)}, pe);
}

/// Ors `value` into the word.
template <Reach R, class T>
PEAL_DEVICE Status atomic_or(const BasicContext<R>& ctx, T* word, std::type_identity_t<T> value,
                             int pe) {
  return detail::post_atomic(ctx, word, detail::Or{detail::to_word(value)}, pe);
}

/// Ors `value` into the word and returns what was there.
template <Reach R, class T>
PEAL_DEVICE Fetched<T> atomic_fetch_or(const BasicContext<R>& ctx, T* word,
                                       std::type_identity_t<T> value, int pe) {
  return detail::fetch_atomic(ctx, word, detail::Or{detail::to_word(value)}, pe);
}

/// Xors `value` into the word.
template <Reach R, class T>
PEAL_DEVICE Status atomic_xor(const BasicContext<R>& ctx, T* word, std::type_identity_t<T> value,
                              int pe) {
  return detail::post_atomic(ctx, word, detail::Xor{detail::to_word(value)}, pe);
}

/// Xors `value` into the word and returns what was there.
template <Reach R, class T>
PEAL_DEVICE Fetched<T> atomic_fetch_xor(const BasicContext<R>& ctx, T* word,
                                        std::type_identity_t<T> value, int pe) {
  return detail::fetch_atomic(ctx, word, detail::Xor{detail::to_word(value)}, pe);
}

}  // namespace peal
