// SPDX-License-Identifier: Apache-2.0
//
// Telling a peer that data has arrived, and waiting to be told.
//
//   sender    put_signal(ctx, block, dst, src, n, Signal::add(flag, 1, pe));
//   receiver  wait_until(ctx, block, flag, Compare::kGe, 1);   // then dst holds the data
//
// A signal is an 8-byte word in the symmetric heap. `set` is an 8-byte write (one writer per word,
// repeatable); `add` is an atomic (any number of writers).
#pragma once

#include <cstddef>
#include <cstdint>

#include "device/base/scope.h"
#include "device/context.h"
#include "device/resolve.h"
#include "device/rma.h"
#include "device/transport/ibgda.h"

namespace peal {

/// What to do to which word at which peer.
struct Signal {
  enum class Kind : uint32_t { kSet, kAdd };
  uint64_t* word;
  uint64_t value;
  int pe;
  Kind kind;

  PEAL_HD static Signal set(uint64_t* word, uint64_t value, int pe) {
    return {word, value, pe, Kind::kSet};
  }
  PEAL_HD static Signal add(uint64_t* word, uint64_t value, int pe) {
    return {word, value, pe, Kind::kAdd};
  }
};

namespace detail {

PEAL_HD mlx5::Wqe<3> compose_signal_set(const mlx5::Header& h, const mlx5::Remote& at,
                                        uint64_t value) {
  const uint32_t payload[3] = {static_cast<uint32_t>(value), static_cast<uint32_t>(value >> 32), 0};
  return mlx5::compose_write_inline(h, at, payload, 8);
}

/// Checks the signal's word; its queue is the one its data travels on.
template <Reach R>
PEAL_DEVICE Destination resolve_signal(const BasicContext<R>& ctx, const Signal& signal) {
  Destination d = resolve(ctx, signal.word, sizeof(uint64_t), signal.pe);
  if (d.status == Status::kOk && reinterpret_cast<uint64_t>(signal.word) % 8 != 0) {
    d.status = refuse(ctx, Status::kMisaligned,
                      {.status = 0,
                       .claimed = 0,
                       .pe = signal.pe,
                       .block = 0,
                       .address = reinterpret_cast<uint64_t>(signal.word),
                       .bytes = 8});
  }
  return d;
}

template <Reach R, bool kTogether>
PEAL_DEVICE Ticket put_signal_bytes(const BasicContext<R>& ctx, void* dst, const void* src,
                                    uint64_t bytes, const Signal& signal) {
  const Destination flag = resolve_signal(ctx, signal);
  if (flag.status != Status::kOk) return Ticket{nullptr, 0, flag.status};
  const Destination to = resolve(ctx, dst, bytes, signal.pe);
  if (to.status != Status::kOk) return Ticket{nullptr, 0, to.status};
  const auto set = [&](const mlx5::Header& h) {
    return compose_signal_set(h, flag.remote, signal.value);
  };
  const auto add = [&](const mlx5::Header& h) {
    return mlx5::compose_fetch_add(h, flag.remote, signal.value, ibgda::Landing::sink(*flag.queue));
  };
  // Same queue, later slot: the responder executes the signal after the data. Edge M6.
  if (signal.kind == Signal::Kind::kSet) {
    if (bytes == 0) return post<R, kTogether>(*flag.queue, set);
    return put_bytes<R, kTogether>(ctx, to, src, bytes, set);
  }
  if (bytes == 0) return post<R, kTogether>(*flag.queue, add);
  return put_bytes<R, kTogether>(ctx, to, src, bytes, add);
}

}  // namespace detail

/// Starts a put of `count` elements and, behind it in the same queue, the signal: whoever sees the
/// signal sees the data.
template <Reach R, class S, class T>
requires detail::kIsScope<S> PEAL_DEVICE Ticket put_signal_nbi(const BasicContext<R>& ctx, S scope,
                                                               T* dst,
                                                               const std::type_identity_t<T>* src,
                                                               size_t count, const Signal& signal) {
  return by_leader(scope, [&]() -> Ticket {
    return detail::put_signal_bytes<R, std::is_same_v<S, Thread>>(
        ctx, dst, src, detail::bytes_of<T>(count), signal);
  });
}

/// put_signal_nbi, and returns when the source may be reused (which does not mean that the signal
/// was seen).
template <Reach R, class S, class T>
requires detail::kIsScope<S> PEAL_DEVICE Status put_signal(const BasicContext<R>& ctx, S scope,
                                                           T* dst,
                                                           const std::type_identity_t<T>* src,
                                                           size_t count, const Signal& signal) {
  const Ticket ticket = put_signal_nbi(ctx, scope, dst, src, count, signal);
  if (detail::bytes_of<T>(count) <= mlx5::kMaxInlineBytes) return ticket.status;
  return by_leader(scope, [&] { return ibgda::wait<R>(ticket); });
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

/// The signal alone. Ordered behind earlier puts of this block to the same peer on this context.
template <Reach R>
PEAL_DEVICE Status signal(const BasicContext<R>& ctx, const Signal& what) {
  const detail::Destination flag = detail::resolve_signal(ctx, what);
  if (flag.status != Status::kOk) return flag.status;
  if (what.kind == Signal::Kind::kSet) {
    return detail::post<R, true>(*flag.queue,
                                 [&](const mlx5::Header& h) {
                                   return detail::compose_signal_set(h, flag.remote, what.value);
                                 })
        .status;
  }
  return detail::post<R, true>(*flag.queue,
                               [&](const mlx5::Header& h) {
                                 return mlx5::compose_fetch_add(h, flag.remote, what.value,
                                                                ibgda::Landing::sink(*flag.queue));
                               })
      .status;
}

}  // namespace peal
