// SPDX-License-Identifier: Apache-2.0
//
// p and g as operations (access.h): one value of up to 8 bytes, stored or loaded where the peer is
// mapped, else inside a work request or by way of a landing cell.
#pragma once

#include <cstdint>
#include <cstring>
#include <type_traits>

#include "device/base/order.h"
#include "device/context.h"
#include "device/detail/access.h"
#include "device/detail/transfer.h"
#include "device/nic/post.h"
#include "device/transport/model.h"

namespace peal::detail {

/// The unsigned integer that holds kBytes, of which there are at most 8.
template <size_t kBytes>
using Word =
    std::conditional_t<(kBytes > 4), uint64_t,
                       std::conditional_t<(kBytes > 2), uint32_t,
                                          std::conditional_t<(kBytes > 1), uint16_t, uint8_t>>>;

/// A value that is a word and lies as one: it goes in one piece.
template <class T>
PEAL_DEVICE bool is_word(const void* where) {
  return sizeof(T) == sizeof(Word<sizeof(T)>) && reinterpret_cast<uint64_t>(where) % sizeof(T) == 0;
}

/// Stores one value of up to 8 bytes; never torn if it is an aligned word. Straight from a
/// register.
template <class T>
PEAL_DEVICE void store_value(void* where, const T& value) {
  using Word = Word<sizeof(T)>;
  Word word = 0;
  memcpy(&word, &value, sizeof(T));
  if (!is_word<T>(where)) {
    for (uint32_t i = 0; i < sizeof(T); ++i) {
      static_cast<volatile uint8_t*>(where)[i] = static_cast<uint8_t>(word >> (8 * i));
    }
  } else if constexpr (sizeof(Word) >= 4) {
    store_relaxed<Reach::kSystem>(static_cast<Word*>(where), word);
  } else {
    *static_cast<volatile Word*>(where) = word;
  }
}

/// Loads one value of up to 8 bytes; never torn if it is an aligned word, never from a stale cache
/// line.
template <class T>
PEAL_DEVICE T load_value(const void* where) {
  using Word = Word<sizeof(T)>;
  Word word = 0;
  if (!is_word<T>(where)) {
    for (uint32_t i = 0; i < sizeof(T); ++i) {
      const Word byte = static_cast<const volatile uint8_t*>(where)[i];
      word = static_cast<Word>(word | static_cast<Word>(byte << (8 * i)));
    }
  } else if constexpr (sizeof(Word) >= 4) {
    word = load_relaxed<Reach::kSystem>(static_cast<const Word*>(where));
  } else {
    word = *static_cast<const volatile Word*>(where);
  }
  T value;
  memcpy(&value, &word, sizeof(T));
  return value;
}

/// A value from a register into a word of `pe`. No more than the call's own arguments: what a
/// kernel hands to the function out of line, it keeps away from the kernel's own registers.
template <class T, nic::Rings kRings>
struct PutValue {
  static_assert(sizeof(T) <= 8 && std::is_trivially_copyable_v<T>);
  using Answer = Ticket;
  T* dst;
  T value;
  int32_t pe;

  PEAL_DEVICE Asked asked() const { return {dst, sizeof(T), pe, Use::kWord, false, Call::kP}; }
  PEAL_DEVICE CallNote note() const { return note_of(Call::kP, pe, dst, sizeof(T), nullptr, 0); }
  template <Reach R>
  PEAL_DEVICE Ticket mapped(const BasicContext<R>&, Thread, std::byte* there) const {
    store_value(there, value);
    return Ticket{};
  }
  template <Reach R>
  PEAL_DEVICE Ticket by_nic(const BasicContext<R>&, Thread, const Destination& at) const {
    uint64_t bits = 0;
    memcpy(&bits, &value, sizeof(T));
    const nic::WriteWord<sizeof(T)> write{at.remote, bits};
    if constexpr (sizeof(T) % sizeof(uint32_t) == 0)
      return nic::post_few<R, kRings>(*at.queue, write);
    return nic::post_by_lane<R, true, kRings>(*at.queue, write);
  }
};

template <nic::Rings kRings = nic::Rings::kNow, Reach R, class T>
PEAL_DEVICE Ticket put_value(const BasicContext<R>& ctx, T* dst, const T& value, int pe) {
  return checked_access(ctx, thread, PutValue<T, kRings>{dst, value, pe});
}

/// Posts the request that `into` makes of a landing cell, waits, and gives the value's 8 bytes to
/// `read`.
template <Reach R, class Into, class Read>
PEAL_DEVICE Status fetch_word(const BasicContext<R>& ctx, SendQueue& q, const Into& into,
                              const Read& read) {
  Status status = Status::kOk;
  const auto landing = nic::take_landing<R>(q, &status);
  if (status != Status::kOk) return status;
  const Ticket fetch = nic::post_by_lane<R, true>(q, into(landing.local()));
  // Queues lie where the heap does, and so do their landing cells.
  status = nic::wait<R>(landed<R, true>(q, ctx.heap.dumped, landing.local(), fetch));
  if (status == Status::kOk) read(landing.value());
  landing.template give_back<R>();
  return status;
}

template <Reach R, class T>
PEAL_DEVICE Fetched<T> get_value(const BasicContext<R>& ctx, const T* src, int pe) {
  static_assert(sizeof(T) <= 8 && std::is_trivially_copyable_v<T>);
  return access_word<Fetched<T>>(
      ctx, {src, sizeof(T), pe, Use::kWord, false, Call::kG},
      [](const ContextFields& context, const std::byte* there) {
        return Fetched<T>{load_value<T>(there), ended_status(context)};
      },
      [](const BasicContext<R>& context, const Destination& at) {
        const auto into = [&](const nic::Local& cell) {
          return nic::ReadWord<sizeof(T)>{at.remote, cell};
        };
        Fetched<T> answer{};
        answer.status = fetch_word<R>(context, *at.queue, into, [&](uint64_t bits) {
          memcpy(&answer.value, &bits, sizeof(T));
        });
        return answer;
      });
}

}  // namespace peal::detail
