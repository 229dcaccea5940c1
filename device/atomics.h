// SPDX-License-Identifier: Apache-2.0
//
// Atomics on 4- and 8-byte words at a peer, executed by the peer's NIC: atomic with respect to one
// another on any PE, not with respect to the peer's own loads and stores.
//
// Fetching forms wait for the old value. The others return once posted; quiet(ctx) completes them.
// One thread calls; lanes of a warp that call together are posted together. A word must be aligned
// to its size: kMisaligned otherwise.
#pragma once

#include <cstdint>
#include <type_traits>

#include "device/context.h"
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
PEAL_HD T from_word(uint64_t bits) {
  // The NIC returns 8-byte results in host order and 4-byte results big-endian
  // (atomic_req_8B_endianness_mode 1).
  WordOf<T> word = static_cast<WordOf<T>>(bits);
  if constexpr (sizeof(T) == 4) word = swap_bytes(word);
  T value;
  memcpy(&value, &word, sizeof(T));
  return value;
}

/// resolve() and the alignment check.
template <Reach R, class T>
PEAL_DEVICE Destination resolve_word(const BasicContext<R>& ctx, const T* word, int pe) {
  Destination d = resolve(ctx, word, sizeof(T), pe);
  if (d.status == Status::kOk && reinterpret_cast<uint64_t>(word) % sizeof(T) != 0) {
    d.status = refuse(ctx, Status::kMisaligned,
                      {.status = 0,
                       .claimed = 0,
                       .pe = pe,
                       .block = 0,
                       .address = reinterpret_cast<uint64_t>(word),
                       .bytes = sizeof(T)});
  }
  return d;
}

/// The work request of an operation on T; `op` is an 8-byte plain add or swap, or a masked form.
struct PlainAdd {
  uint64_t add;
};
struct PlainSwap {
  uint64_t compare;
  uint64_t swap;
};

PEAL_HD mlx5::Wqe<4> compose_atomic(const mlx5::Header& h, const mlx5::Remote& at,
                                    const PlainAdd& op, const mlx5::Local& result) {
  return mlx5::compose_fetch_add(h, at, op.add, result);
}
PEAL_HD mlx5::Wqe<4> compose_atomic(const mlx5::Header& h, const mlx5::Remote& at,
                                    const PlainSwap& op, const mlx5::Local& result) {
  return mlx5::compose_compare_swap(h, at, op.compare, op.swap, result);
}
template <class Masked>
PEAL_HD auto compose_atomic(const mlx5::Header& h, const mlx5::Remote& at, const Masked& op,
                            const mlx5::Local& result) {
  return mlx5::compose_masked(h, at, op, result);
}

template <class T>
PEAL_HD auto add_op(const T& value) {
  if constexpr (sizeof(T) == 8) {
    return PlainAdd{to_word(value)};
  } else {
    return mlx5::MaskedAdd<uint32_t>{to_word(value), 0};
  }
}
template <class T>
PEAL_HD auto swap_if_op(const T& compare, const T& value) {
  if constexpr (sizeof(T) == 8) {
    return PlainSwap{to_word(compare), to_word(value)};
  } else {
    return mlx5::MaskedSwap<uint32_t>{to_word(compare), ~0u, to_word(value), ~0u};
  }
}
/// Unconditional: the bits of `mask` become those of `value`.
template <class W>
PEAL_HD mlx5::MaskedSwap<W> replace_op(W value, W mask) {
  return {0, 0, value, mask};
}
template <class W>
PEAL_HD mlx5::MaskedAdd<W> xor_op(W value) {
  return {value, static_cast<W>(~W{0})};
}

template <Reach R, class T, class Op>
PEAL_DEVICE Fetched<T> fetch_atomic(const BasicContext<R>& ctx, T* word, const Op& op, int pe) {
  Fetched<T> answer{};
  const Destination at = resolve_word(ctx, word, pe);
  answer.status = at.status;
  if (at.status != Status::kOk) return answer;
  const auto landing = ibgda::Landing::take<R>(*at.queue, &answer.status);
  if (answer.status != Status::kOk) return answer;
  const Ticket ticket = post<R, true>(*at.queue, [&](const mlx5::Header& h) {
    return compose_atomic(h, at.remote, op, landing.local());
  });
  answer.status = ibgda::wait<R>(ticket);
  if (answer.status == Status::kOk) {
    answer.value = from_word<T>(landing.value());
    landing.template give_back<R>();
  }
  return answer;
}

template <Reach R, class T, class Op>
PEAL_DEVICE Status post_atomic(const BasicContext<R>& ctx, T* word, const Op& op, int pe) {
  const Destination at = resolve_word(ctx, word, pe);
  if (at.status != Status::kOk) return at.status;
  return post<R, true>(*at.queue,
                       [&](const mlx5::Header& h) {
                         return compose_atomic(h, at.remote, op, ibgda::Landing::sink(*at.queue));
                       })
      .status;
}

}  // namespace detail

/// Reads the word atomically.
template <Reach R, class T>
PEAL_DEVICE Fetched<T> atomic_fetch(const BasicContext<R>& ctx, const T* word, int pe) {
  return detail::fetch_atomic(ctx, const_cast<T*>(word), detail::add_op(T{}), pe);
}

/// Stores `value`.
template <Reach R, class T>
PEAL_DEVICE Status atomic_set(const BasicContext<R>& ctx, T* word, std::type_identity_t<T> value,
                              int pe) {
  using W = detail::WordOf<T>;
  return detail::post_atomic(
      ctx, word, detail::replace_op<W>(detail::to_word(value), static_cast<W>(~W{0})), pe);
}

/// Stores `value` and returns what was there.
template <Reach R, class T>
PEAL_DEVICE Fetched<T> atomic_swap(const BasicContext<R>& ctx, T* word,
                                   std::type_identity_t<T> value, int pe) {
  using W = detail::WordOf<T>;
  return detail::fetch_atomic(
      ctx, word, detail::replace_op<W>(detail::to_word(value), static_cast<W>(~W{0})), pe);
}

/// Stores `value` if the word equals `compare`; returns what was there.
template <Reach R, class T>
PEAL_DEVICE Fetched<T> atomic_compare_swap(const BasicContext<R>& ctx, T* word,
                                           std::type_identity_t<T> compare,
                                           std::type_identity_t<T> value, int pe) {
  return detail::fetch_atomic(ctx, word, detail::swap_if_op<T>(compare, value), pe);
}

/// Adds `value`, wrapping.
template <Reach R, class T>
PEAL_DEVICE Status atomic_add(const BasicContext<R>& ctx, T* word, std::type_identity_t<T> value,
                              int pe) {
  static_assert(std::is_integral_v<T>);
  return detail::post_atomic(ctx, word, detail::add_op<T>(value), pe);
}

/// Adds `value`, wrapping, and returns what was there.
template <Reach R, class T>
PEAL_DEVICE Fetched<T> atomic_fetch_add(const BasicContext<R>& ctx, T* word,
                                        std::type_identity_t<T> value, int pe) {
  static_assert(std::is_integral_v<T>);
  return detail::fetch_atomic(ctx, word, detail::add_op<T>(value), pe);
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
  using W = detail::WordOf<T>;
  const W bits = detail::to_word(value);
  return detail::post_atomic(ctx, word, detail::replace_op<W>(bits, static_cast<W>(~bits)), pe);
}

/// Ands `value` into the word and returns what was there.
template <Reach R, class T>
PEAL_DEVICE Fetched<T> atomic_fetch_and(const BasicContext<R>& ctx, T* word,
                                        std::type_identity_t<T> value, int pe) {
  using W = detail::WordOf<T>;
  const W bits = detail::to_word(value);
  return detail::fetch_atomic(ctx, word, detail::replace_op<W>(bits, static_cast<W>(~bits)), pe);
}

/// Ors `value` into the word.
template <Reach R, class T>
PEAL_DEVICE Status atomic_or(const BasicContext<R>& ctx, T* word, std::type_identity_t<T> value,
                             int pe) {
  const auto bits = detail::to_word(value);
  return detail::post_atomic(ctx, word, detail::replace_op(bits, bits), pe);
}

/// Ors `value` into the word and returns what was there.
template <Reach R, class T>
PEAL_DEVICE Fetched<T> atomic_fetch_or(const BasicContext<R>& ctx, T* word,
                                       std::type_identity_t<T> value, int pe) {
  const auto bits = detail::to_word(value);
  return detail::fetch_atomic(ctx, word, detail::replace_op(bits, bits), pe);
}

/// Xors `value` into the word.
template <Reach R, class T>
PEAL_DEVICE Status atomic_xor(const BasicContext<R>& ctx, T* word, std::type_identity_t<T> value,
                              int pe) {
  return detail::post_atomic(ctx, word, detail::xor_op(detail::to_word(value)), pe);
}

/// Xors `value` into the word and returns what was there.
template <Reach R, class T>
PEAL_DEVICE Fetched<T> atomic_fetch_xor(const BasicContext<R>& ctx, T* word,
                                        std::type_identity_t<T> value, int pe) {
  return detail::fetch_atomic(ctx, word, detail::xor_op(detail::to_word(value)), pe);
}

}  // namespace peal
