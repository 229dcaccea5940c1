// SPDX-License-Identifier: Apache-2.0
//
// Telling a peer that data has arrived, and waiting to be told.
//
//   sender    put_signal(ctx, block, dst, src, n, Signal::add(flag, 1, pe));
//   receiver  signal_wait_until(ctx, block, flag, Compare::kGe, 1);   // then dst holds the data
//
// A signal vouches for its data and for every earlier put of the same block to the same PE on the
// same context: whoever sees the word sees all of them. It does not vouch for other blocks,
// contexts and PEs. (OpenSHMEM's and NVSHMEM's put-with-signal vouch for the data of that call
// alone: a program that is to run there too puts a fence or quiet before it.) p and atomics vouch
// for nothing: docs/memory_model.md, "What a program may rely on".
//
// Through a NIC `add` is an atomic, and so is `set` where WRITEs may be placed out of order
// (ContextFields::signals): atomics execute behind all of them, or start behind them.
#pragma once

#include <cstddef>
#include <type_traits>

#include "device/base/scope.h"
#include "device/context.h"
#include "device/detail/signal.h"
#include "device/detail/wait.h"
#include "device/rma.h"
#include "device/types.h"

namespace peal {

/// Starts a put of `count` elements and, behind it on the same way, the signal: whoever sees the
/// signal sees the data.
template <Reach R, AnyScope S, class T>
PEAL_DEVICE Ticket put_signal_nbi(const BasicContext<R>& ctx, S scope, T* dst,
                                  const std::type_identity_t<T>* src, size_t count,
                                  const Signal& signal) {
  const detail::PutSignal<nic::Rings::kNow> put{dst, src, detail::bytes_of<T>(count), signal};
  return detail::checked_access(ctx, scope, put);
}

/// put_signal_nbi, and returns when the source may be reused (which does not mean that the signal
/// was seen).
template <Reach R, AnyScope S, class T>
PEAL_DEVICE Status put_signal(const BasicContext<R>& ctx, S scope, T* dst,
                              const std::type_identity_t<T>* src, size_t count,
                              const Signal& signal) {
  const detail::PutSignal<nic::Rings::kNow> put{dst, src, detail::bytes_of<T>(count), signal};
  const auto note = [&] {
    CallNote whole = put.note();
    whole.starts = 0;
    return whole;
  };
  return detail::checked(ctx, scope, note, [&] {
    const Ticket ticket = detail::access_peer(ctx, scope, put);
    // Inline data has left the source already, and so has what the lanes copied themselves.
    const bool gone = ticket.queue == nullptr || put.bytes <= nic::Model::kMaxInlineBytes;
    return gone ? ticket.status : detail::wait_scope<R>(ctx, scope, ticket);
  });
}

template <Reach R, class T>
PEAL_DEVICE Ticket put_signal_nbi(const BasicContext<R>& ctx, T* dst,
                                  const std::type_identity_t<T>* src, size_t count,
                                  const Signal& signal) {
  return put_signal_nbi(ctx, thread, dst, src, count, signal);
}
template <Reach R, class T>
PEAL_DEVICE Status put_signal(const BasicContext<R>& ctx, T* dst,
                              const std::type_identity_t<T>* src, size_t count,
                              const Signal& signal) {
  return put_signal(ctx, thread, dst, src, count, signal);
}

/// The signal alone: it vouches for earlier puts of this block to the same PE on this context. One
/// thread.
template <Reach R>
PEAL_DEVICE Status signal(const BasicContext<R>& ctx, const Signal& what) {
  return detail::signal_alone<nic::Rings::kNow>(ctx, what).status;
}

/// What the word of a signal at home says now; never blocks. What was put before the value was
/// written is visible.
template <Reach R>
PEAL_DEVICE uint64_t signal_fetch(const BasicContext<R>& ctx, const uint64_t* word) {
  relax();
  uint64_t seen = 0;
  detail::checked_look(
      ctx, [&] { return detail::note_of_words(Call::kSignalFetch, ctx, word); },
      [&] {
        seen = detail::acquire_word(word);
        return true;
      });
  return seen;
}

/// wait_until() of a signal's word, with the value that ended the wait, or the last one seen. All
/// lanes of the scope get the same one: later ones may differ, for other PEs may go on adding.
template <Reach R, AnyScope S>
PEAL_DEVICE Fetched<uint64_t> signal_wait_until(const BasicContext<R>& ctx, S scope,
                                                const uint64_t* word, Compare compare,
                                                uint64_t value) {
  const auto note = [&] {
    return detail::note_of_words(Call::kSignalWaitUntil, ctx, word, 1, value);
  };
  return detail::checked(ctx, scope, note, [&] {
    return by_leader(scope, [&] {
      Fetched<uint64_t> seen{};
      seen.status = detail::spin(
          ctx,
          [&] {
            seen.value = detail::acquire_word(word);
            return detail::holds(seen.value, compare, value);
          },
          [&] { return detail::wait_for_word(WaitKind::kSignal, word, compare, value); });
      return seen;
    });
  });
}

template <Reach R>
PEAL_DEVICE Fetched<uint64_t> signal_wait_until(const BasicContext<R>& ctx, const uint64_t* word,
                                                Compare compare, uint64_t value) {
  return signal_wait_until(ctx, thread, word, compare, value);
}

}  // namespace peal
