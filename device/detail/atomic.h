// SPDX-License-Identifier: Apache-2.0
//
// Atomics as operations (access.h).
#pragma once

#include <cstring>
#include <type_traits>

#include "device/base/order.h"
#include "device/context.h"
#include "device/detail/access.h"
#include "device/detail/drain.h"
#include "device/detail/words.h"

namespace peal::detail {

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
PEAL_HD T from_word(WordOf<T> word) {
  T value;
  memcpy(&value, &word, sizeof(T));
  return value;
}

// What is done to a word W is a type with two faces: compose() for the NIC of the PE that has the
// word, apply() for a word that this PE can reach itself, which answers the old value.

/// The word becomes updated<U>(word, value): add, and, or, xor, swap.
template <Update U, class W>
struct Change {
  W value;

  PEAL_DEVICE auto compose(const mlx5::Header& h, const mlx5::Remote& at,
                           const mlx5::Local& result) const {
    constexpr W kAll = static_cast<W>(~W{0});
    if constexpr (U == Update::kAdd && sizeof(W) == 8) {
      return mlx5::compose_fetch_add(h, at, value, result);
    } else if constexpr (U == Update::kAdd || U == Update::kXor) {
      const W boundary = U == Update::kXor ? kAll : W{0};  // no carries: xor
      return mlx5::compose_masked(h, at, mlx5::MaskedAdd<W>{value, boundary}, result);
    } else {  // the bits of `mask` become those of `value`, whatever was there
      const W mask = U == Update::kSwap ? kAll : U == Update::kOr ? value : static_cast<W>(~value);
      return mlx5::compose_masked(h, at, mlx5::MaskedSwap<W>{0, 0, value, mask}, result);
    }
  }
  PEAL_DEVICE W apply(W* word) const { return fetch_update_direct<U>(word, value); }
};

template <Update U, class T>
PEAL_DEVICE Change<U, WordOf<T>> change(const T& value) {
  return {to_word(value)};
}

/// Adding 0, which by loads and stores is a load.
template <class W>
struct Look : Change<Update::kAdd, W> {
  PEAL_DEVICE W apply(W* word) const { return load_relaxed<Reach::kSystem>(word); }
};

template <class W>
struct SwapIf {
  W compare;
  W value;

  PEAL_DEVICE auto compose(const mlx5::Header& h, const mlx5::Remote& at,
                           const mlx5::Local& result) const {
    constexpr W kAll = static_cast<W>(~W{0});
    if constexpr (sizeof(W) == 8) {
      return mlx5::compose_compare_swap(h, at, compare, value, result);
    } else {
      return mlx5::compose_masked(h, at, mlx5::MaskedSwap<W>{compare, kAll, value, kAll}, result);
    }
  }
  PEAL_DEVICE W apply(W* word) const { return compare_swap_direct(word, compare, value); }
};

/// Does `what` and waits for the old value.
template <Reach R, class T, class What>
PEAL_DEVICE Fetched<T> fetch_atomic(const BasicContext<R>& ctx, const T* word, What what, int pe) {
  using W = WordOf<T>;
  return access_word<Fetched<T>>(
      ctx, {word, sizeof(T), pe, Use::kAtomic, true},
      [&](std::byte* there) {
        return Fetched<T>{from_word<T>(what.apply(reinterpret_cast<W*>(there))), Status::kOk};
      },
      [&](const Destination& at) {
        Fetched<T> answer{};
        answer.status = settle_left<R, true>(ctx, queue_left(ctx, at.queue, pe));
        if (answer.status != Status::kOk) return answer;
        const auto compose = [&](const mlx5::Header& h, const mlx5::Local& cell) {
          return what.compose(h, at.remote, cell);
        };
        answer.status = fetch_word<R>(ctx, *at.queue, compose, [&](uint64_t bits) {
          // 8-byte results come in host order and 4-byte results big-endian
          // (atomic_req_8B_endianness_mode 1).
          const W old = static_cast<W>(bits);
          answer.value = from_word<T>(sizeof(T) == 4 ? swap_bytes(old) : old);
        });
        return answer;
      });
}

/// Makes updated<U>(word, value) of the word; nobody asks for the old value.
template <Update U, Reach R, class T>
PEAL_DEVICE Status post_atomic(const BasicContext<R>& ctx, T* word, const T& value, int pe) {
  const auto what = change<U>(value);
  return access_word<Ticket>(
             ctx, {word, sizeof(T), pe, Use::kAtomic, true},
             [&](std::byte* there) {
               update_direct<U>(reinterpret_cast<WordOf<T>*>(there), what.value);
               return Ticket{};
             },
             [&](const Destination& at) {
               return post_in_order<R, true>(ctx, at, pe, [&](const mlx5::Header& h) {
                 return what.compose(h, at.remote, ibgda::Landing::sink(*at.queue));
               });
             })
      .status;
}

}  // namespace peal::detail
