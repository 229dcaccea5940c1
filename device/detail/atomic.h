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
#include "device/detail/wait.h"
#include "device/detail/words.h"
#include "device/reduce_op.h"

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

/// The edge that an operation on a mapped word is the end of: kAcquireBeforeLoads of one that only
/// acquires.
PEAL_HD constexpr Edge edge_of(Order order) {
  return order == Order::kRelaxed ? Edge::kNone
         : releases(order)        ? Edge::kStoresBeforeRelease
                                  : Edge::kAcquireBeforeLoads;
}

/// The call that does `update` and answers the old value.
PEAL_HD constexpr Call fetching(Update update) {
  switch (update) {
    case Update::kAdd:
      return Call::kAtomicFetchAdd;
    case Update::kAnd:
      return Call::kAtomicFetchAnd;
    case Update::kOr:
      return Call::kAtomicFetchOr;
    case Update::kXor:
      return Call::kAtomicFetchXor;
    default:
      return Call::kAtomicSwap;
  }
}

/// The call that does it and answers nothing.
PEAL_HD constexpr Call posting(Update update) {
  switch (update) {
    case Update::kAdd:
      return Call::kAtomicAdd;
    case Update::kAnd:
      return Call::kAtomicAnd;
    case Update::kOr:
      return Call::kAtomicOr;
    case Update::kXor:
      return Call::kAtomicXor;
    default:
      return Call::kAtomicSet;
  }
}

// What is done to a word W is a type with two faces: request() for the NIC of the PE that has the
// word, apply() for a word that this PE can reach itself, which answers the old value. kFetching is
// the call that does so and answers that.

/// The word becomes updated<U>(word, value): add, and, or, xor, swap.
template <Update U, class W>
struct Change {
  static constexpr Call kFetching = fetching(U);
  W value;

  /// `result`: a nic::Local or nic::Nowhere.
  template <class Result>
  PEAL_DEVICE nic::Atomic<U, W, Result> request(const nic::Remote& at, const Result& result) const {
    return {at, result, value};
  }
  template <Order O>
  PEAL_DEVICE W apply(W* word) const {
    return fetch_update_direct<U, O, edge_of(O)>(word, value);
  }
};

template <Update U, class T>
PEAL_DEVICE Change<U, WordOf<T>> change(const T& value) {
  return {to_word(value)};
}

/// Adding 0, which by loads and stores is a load.
template <class W>
struct Look : Change<Update::kAdd, W> {
  static constexpr Call kFetching = Call::kAtomicFetch;
  template <Order O>
  PEAL_DEVICE W apply(W* word) const {
    return fetch_direct<O, edge_of(O)>(word);
  }
};

template <class W>
struct SwapIf {
  static constexpr Call kFetching = Call::kAtomicCompareSwap;
  W compare;
  W value;

  PEAL_DEVICE nic::CompareSwap<W> request(const nic::Remote& at, const nic::Local& result) const {
    return {at, result, compare, value};
  }
  template <Order O>
  PEAL_DEVICE W apply(W* word) const {
    return compare_swap_direct<O, edge_of(O)>(word, compare, value);
  }
};

/// Does `what` through the NIC and waits for the old value.
template <Reach R, class T, class What>
PEAL_DEVICE Fetched<T> fetch_by_nic(const BasicContext<R>& ctx, const Destination& at,
                                    const What& what, int pe) {
  Fetched<T> answer{};
  answer.status = settle_left<R, true>(ctx, queue_left(ctx, at.queue, pe));
  if (answer.status != Status::kOk) return answer;
  const auto into = [&](const nic::Local& cell) { return what.request(at.remote, cell); };
  answer.status = fetch_word<R>(ctx, *at.queue, into, [&](uint64_t bits) {
    answer.value = from_word<T>(nic::Model::fetched<WordOf<T>>(bits));
  });
  return answer;
}

/// Ahead of a release that the NIC carries to `at`. Where somebody may look at the memory past that
/// NIC, or atomics are executed ahead of WRITEs, the block's queue is settled; one that the release
/// leaves, whoever leaves it settles.
template <Reach R>
PEAL_DEVICE Status before_release(const BasicContext<R>& ctx, const Destination& at, int pe) {
  fence_direct_stores<Edge::kStoresBeforeNicRelease>();  // to home too: no queue's own fence need
                                                         // reach so far
  const bool behind = ctx.settle == 0 && (ctx.signals & kSignalsWait) == 0;
  if (behind || weakened(Edge::kNicDataBeforeRelease)) return Status::kOk;
  if (queue_left(ctx, at.queue, pe) != nullptr) return Status::kOk;
  return settle<R, true>(ctx.state, at.queue);
}

/// An atomic as a call names it; `result`: where the old value comes to later, or null.
template <class T>
struct AtomicOn {
  Call call;
  const T* word;
  int pe;
  T* result = nullptr;
};

/// access_word() of an atomic that orders what O says.
template <Order O, class Answer, Reach R, class T, class Mapped, class ByNic>
PEAL_DEVICE Answer access_atomic(const BasicContext<R>& ctx, const AtomicOn<T>& on,
                                 const Mapped& mapped, const ByNic& by_nic) {
  const Use use =
      releases(O) && !weakened(Edge::kDataBeforeNicRelease) ? Use::kReleasing : Use::kAtomic;
  const Asked asked{on.word, sizeof(T), on.pe, use, true, on.call};
  const auto note = [&] {
    const uint64_t brought = on.result != nullptr ? sizeof(T) : 0;
    CallNote one = note_of(asked.call, asked.pe, asked.address, asked.bytes, on.result, brought);
    one.starts = on.result != nullptr ? 1 : 0;
    one.releases = use == Use::kReleasing ? 1 : 0;
    return one;
  };
  const auto behind = [pe = on.pe, by_nic](const BasicContext<R>& context, const Destination& at) {
    static_cast<void>(pe);  // else clang warns where nothing is released
    if constexpr (releases(O)) {
      Answer refused{};
      refused.status = before_release(context, at, pe);
      if (refused.status != Status::kOk) return refused;
    }
    return by_nic(context, at);
  };
  return access_word<Answer>(ctx, asked, note, mapped, behind);
}

/// Does `what` and waits for the old value.
template <Order O, Reach R, class T, class What>
PEAL_DEVICE Fetched<T> fetch_atomic(const BasicContext<R>& ctx, const T* word, What what, int pe) {
  return access_atomic<O, Fetched<T>>(
      ctx, AtomicOn<T>{What::kFetching, word, pe},
      [what](const ContextFields& context, std::byte* there) {
        auto* const at = reinterpret_cast<WordOf<T>*>(there);
        return Fetched<T>{from_word<T>(what.template apply<O>(at)), ended_status(context)};
      },
      [what, pe](const BasicContext<R>& context, const Destination& at) {
        return fetch_by_nic<R, T>(context, at, what, pe);
      });
}

/// Does `what`; the old value comes to `result`, by the time the ticket completes. What the NIC
/// cannot bring there as it is, is waited for: values that land otherwise, into memory that it
/// does not know, and where values come to landing cells alone.
template <Order O, Reach R, class T, class What>
PEAL_DEVICE Ticket fetch_atomic_nbi(const BasicContext<R>& ctx, T* result, const T* word, What what,
                                    int pe) {
  if (reinterpret_cast<uint64_t>(result) % sizeof(T) != 0) {
    const Asked here{.address = result,
                     .bytes = sizeof(T),
                     .pe = ctx.pe,
                     .call = What::kFetching,
                     .side = CallSide::kHere};
    return Ticket{nullptr, 0, refuse(ctx.state, Status::kMisaligned, here)};
  }
  return access_atomic<O, Ticket>(
      ctx, AtomicOn<T>{What::kFetching, word, pe, result},
      [what, result](const ContextFields&, std::byte* there) {
        auto* const at = reinterpret_cast<WordOf<T>*>(there);
        store_payload(result, from_word<T>(what.template apply<O>(at)));
        return Ticket{};
      },
      [what, result, pe](const BasicContext<R>& context, const Destination& at) {
        const Origin to = resolve_local(context, *at.queue, result, sizeof(T));
        const bool known = to.status == Status::kOk;
        if (!known && !lies_anywhere(&context.state->fields, result)) {
          return Ticket{nullptr, 0, refuse_home(context.state, result, sizeof(T), What::kFetching)};
        }
        if (nic::Model::kLandsAsIs<WordOf<T>> && known && at.queue->to_cells == 0) {
          const Ticket ticket =
              post_in_order<R, true>(context, at, pe, what.request(at.remote, to.local));
          return landed<R, true>(*at.queue, to.dumped, to.local, ticket);
        }
        const Fetched<T> old = fetch_by_nic<R, T>(context, at, what, pe);
        if (old.status == Status::kOk) store_payload(result, old.value);
        return Ticket{nullptr, 0, old.status};
      });
}

/// Makes updated<U>(word, value) of the word; nobody asks for the old value.
template <Update U, Order O, nic::Rings kRings = nic::Rings::kNow, Reach R, class T>
PEAL_DEVICE Ticket post_atomic(const BasicContext<R>& ctx, T* word, const T& value, int pe) {
  const auto what = change<U>(value);
  return access_atomic<O, Ticket>(
      ctx, AtomicOn<T>{posting(U), word, pe},
      [what](const ContextFields&, std::byte* there) {
        update_direct<U, O, edge_of(O)>(reinterpret_cast<WordOf<T>*>(there), what.value);
        return Ticket{};
      },
      [what, pe](const BasicContext<R>& context, const Destination& at) {
        return post_in_order<R, true, kRings>(context, at, pe,
                                              what.request(at.remote, nic::Nowhere{}));
      });
}

// What neither a NIC nor, in part, a GPU does to a word is done by compare and swap, again and
// again until nobody came between. Each turn is a round trip; somebody's always succeeds.

/// Swaps Combine(old, value) in for `seen`, the word as it was, or as it is by then.
template <class Combine, class T, class Swap>
PEAL_DEVICE Fetched<T> swap_until_done(const ContextFields& ctx, Fetched<T> seen, const T& value,
                                       const Swap& swap) {
  if (seen.status != Status::kOk) return seen;
  const Status ended = spin(
      ctx,
      [&] {
        const WordOf<T> old = to_word(seen.value);
        const SwapIf<WordOf<T>> what{old, to_word(Combine{}(seen.value, value))};
        if (what.value == old) return true;
        seen = swap(what);
        return seen.status != Status::kOk || to_word(seen.value) == old;
      },
      WaitOf<WaitKind::kSwap>{});
  if (seen.status == Status::kOk) seen.status = ended;
  return seen;
}

/// Makes Combine(word, value) of the word and answers the old value. Reading the word acquires, if
/// O does: it may be that nothing is to be changed, and nothing swapped.
template <class Combine, Order O, Reach R, class T>
PEAL_DEVICE Fetched<T> combine_atomic(const BasicContext<R>& ctx, Call call, T* word,
                                      const T& value, int pe) {
  static_assert(std::is_arithmetic_v<T>);
  return access_atomic<O, Fetched<T>>(
      ctx, AtomicOn<T>{call, word, pe},
      [value](const ContextFields& context, std::byte* there) {
        if constexpr (std::is_same_v<Combine, op::Sum> && std::is_floating_point_v<T>) {
          auto* const at = reinterpret_cast<T*>(there);
          return Fetched<T>{fetch_add_real_direct<O, edge_of(O)>(at, value), ended_status(context)};
        } else {
          auto* const at = reinterpret_cast<WordOf<T>*>(there);
          constexpr Order kLook = acquires(O) ? Order::kAcquire : Order::kRelaxed;
          const Fetched<T> seen{from_word<T>(fetch_direct<kLook, edge_of(kLook)>(at)),
                                ended_status(context)};
          return swap_until_done<Combine>(
              context, seen, value, [at](const SwapIf<WordOf<T>>& what) {
                return Fetched<T>{from_word<T>(what.template apply<O>(at)), Status::kOk};
              });
        }
      },
      [value, pe](const BasicContext<R>& context, const Destination& at) {
        const Look<WordOf<T>> look{};
        const Fetched<T> seen = fetch_by_nic<R, T>(context, at, look, pe);
        return swap_until_done<Combine>(context, seen, value, [&](const SwapIf<WordOf<T>>& what) {
          return fetch_by_nic<R, T>(context, at, what, pe);
        });
      });
}

}  // namespace peal::detail
