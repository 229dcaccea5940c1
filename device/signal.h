// SPDX-License-Identifier: Apache-2.0
//
// Telling a peer that data has arrived, and waiting to be told.
//
//   sender    put_signal(ctx, block, dst, src, n, Signal::add(flag, 1, pe));
//   receiver  wait_until(ctx, block, flag, Compare::kGe, 1);   // then dst holds the data
//
// A signal is an 8-byte word in the symmetric heap. `set` has one writer per word and is
// repeatable; `add` has any number of writers. Through a NIC `add` is an atomic, and so is `set`
// where WRITEs may be placed out of order (ContextFields::sets_by_swap): atomics execute behind all
// of them.
#pragma once

#include <cstddef>
#include <cstdint>

#include "device/base/scope.h"
#include "device/context.h"
#include "device/rails.h"
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

/// Calls `post` with the composer of the WQE that sets the word `at`, which travels by `q`.
template <class Post>
PEAL_DEVICE Ticket with_set(const ContextFields& ctx, const mlx5::SendQueue& q,
                            const mlx5::Remote& at, uint64_t value, const Post& post) {
  if (ctx.sets_by_swap != 0 && !weakened(Edge::kM6Swap)) {
    const mlx5::MaskedSwap<uint64_t> whole{0, 0, value, ~uint64_t{0}};
    return post([&](const mlx5::Header& h) {
      return mlx5::compose_masked(h, at, whole, ibgda::Landing::sink(q));
    });
  }
  return post([&](const mlx5::Header& h) { return compose_signal_set(h, at, value); });
}

/// Calls `post` with the composer of the signal's WQE.
template <class Post>
PEAL_DEVICE Ticket with_signal(const ContextFields& ctx, const Destination& flag,
                               const Signal& signal, const Post& post) {
  if (signal.kind == Signal::Kind::kSet) {
    return with_set(ctx, *flag.queue, flag.remote, signal.value, post);
  }
  return post([&](const mlx5::Header& h) {
    return mlx5::compose_fetch_add(h, flag.remote, signal.value, ibgda::Landing::sink(*flag.queue));
  });
}

template <Reach R, bool kTogether>
PEAL_DEVICE Ticket post_signal(const BasicContext<R>& ctx, const Destination& flag,
                               const Signal& signal) {
  return with_signal(ctx, flag, signal, [&](const auto& compose) {
    return post_in_order<R, kTogether>(ctx, flag, signal.pe, compose);
  });
}

/// Checks the signal's word; its queue is the one its data travels on, unless it is an atomic that
/// another NIC executes.
template <Reach R>
PEAL_DEVICE Destination resolve_signal(const BasicContext<R>& ctx, const Signal& signal) {
  const Use use = signal.kind == Signal::Kind::kAdd ? Use::kAtomic : Use::kWord;
  return resolve_word(ctx, signal.word, sizeof(uint64_t), signal.pe, use);
}

/// Data first, then the word, with release: edge M7 begins here when no NIC is between.
PEAL_DEVICE void signal_direct(std::byte* word, const Signal& signal) {
  auto* at = reinterpret_cast<uint64_t*>(word);
  if (signal.kind == Signal::Kind::kSet) {
    store_release<Reach::kSystem, Edge::kM16Signal>(at, signal.value);
  } else {
    add_release<Reach::kSystem, Edge::kM16Signal>(at, signal.value);
  }
}

template <Reach R, bool kTogether>
PEAL_DEVICE Ticket put_signal_bytes(const BasicContext<R>& ctx, const Destination& to,
                                    const Destination& flag, const void* src, uint64_t bytes,
                                    const Signal& signal) {
  if (flag.direct != nullptr) {
    // Two ways to one peer: nothing orders them but waiting, and not for a completion alone. Edge
    // M17.
    const Ticket put = put_bytes<R, kTogether>(ctx, to, src, bytes);
    Status done = put.status;
    if (done == Status::kOk) {
      done = weakened(Edge::kM17Signal) ? ibgda::wait<R>(put)
                                        : settle<R, kTogether>(ctx.state, to.queue);
    }
    if (done == Status::kOk) signal_direct(flag.direct, signal);
    return Ticket{nullptr, 0, done};
  }
  if (bytes == 0) return post_signal<R, kTogether>(ctx, flag, signal);
  if (flag.queue != to.queue) {  // two NICs: the same, and the signal settles what is ahead of it
    const Ticket put = put_bytes<R, kTogether>(ctx, to, src, bytes);
    return put.status == Status::kOk ? post_signal<R, kTogether>(ctx, flag, signal) : put;
  }
  // Same queue, later slot: the responder executes the signal after the data. Edge M6.
  return with_signal(ctx, flag, signal, [&](const auto& compose) {
    return put_bytes<R, kTogether>(ctx, to, src, bytes, compose);
  });
}

/// Moves the bytes with the scope's own lanes. Source and destination may be used by all of them
/// afterwards.
template <p2p::Direction kDirection, class S>
PEAL_DEVICE void copy_direct(S scope, void* dst, const void* src, uint64_t bytes) {
  scope.sync();  // edge M8: every lane's earlier stores to the source precede the copy
  p2p::copy<kDirection>(scope, dst, src, bytes);
  scope.sync();
}

/// Data that is stored, but not into a near heap: another window, a large machine. The word is
/// stored too, or goes through the NIC.
template <Reach R, class S>
PEAL_DEVICE Ticket put_signal_mapped(const BasicContext<R>& ctx, S scope, const Destination& to,
                                     const Destination& flag, const Transfer& t,
                                     const Signal& signal) {
  copy_direct<p2p::Direction::kPut>(scope, to.direct, t.src, t.bytes);
  return by_leader(scope, [&] {
    if (flag.direct != nullptr) {
      signal_direct(flag.direct, signal);
      return Ticket{};
    }
    fence_direct_stores<Edge::kM16>();  // edge M16: the NIC may overtake plain stores
    return post_signal<R, false>(ctx, flag, signal);
  });
}

/// What put_signal_nbi does unless both go into a near heap.
template <Reach R, class S>
PEAL_DEVICE Ticket put_signal_resolved(const BasicContext<R>& ctx, S scope, void* dst,
                                       const void* src, uint64_t bytes, const Signal& signal) {
  const Destination flag = resolve_signal(ctx, signal);
  // Nothing to send needs no destination.
  const Destination to = bytes == 0 ? flag : resolve(ctx, dst, bytes, signal.pe, Use::kPayload);
  if (flag.status != Status::kOk) return Ticket{nullptr, 0, flag.status};
  if (to.status != Status::kOk) return Ticket{nullptr, 0, to.status};
  if (to.direct != nullptr) {
    return put_signal_mapped(ctx, scope, to, flag, {dst, src, bytes, signal.pe}, signal);
  }
  return by_leader(scope, [&] {
    return put_signal_bytes<R, std::is_same_v<S, Thread>>(ctx, to, flag, src, bytes, signal);
  });
}

template <Reach R, class S>
PEAL_DEVICE_COLD Ticket put_signal_elsewhere(const ContextState* state, S scope, void* dst,
                                             const void* src, uint64_t bytes, Signal signal) {
  return put_signal_resolved(static_cast<const BasicContext<R>&>(state->fields), scope, dst, src,
                             bytes, signal);
}

}  // namespace detail

/// Starts a put of `count` elements and, behind it on the same way, the signal: whoever sees the
/// signal sees the data.
template <Reach R, class S, class T>
requires detail::kIsScope<S> PEAL_DEVICE Ticket put_signal_nbi(const BasicContext<R>& ctx, S scope,
                                                               T* dst,
                                                               const std::type_identity_t<T>* src,
                                                               size_t count, const Signal& signal) {
  const uint64_t bytes = detail::bytes_of<T>(count);
  const detail::Near near_flag =
      detail::find_near_word(ctx, signal.word, sizeof(uint64_t), signal.pe);
  const detail::Near near = detail::find_near(ctx, dst, bytes, signal.pe);
  if (near_flag.here & near.here) {
    detail::copy_direct<p2p::Direction::kPut>(scope, near.address, src, bytes);
    if (scope.leader()) detail::signal_direct(near_flag.address, signal);
    return Ticket{};
  }
  if constexpr (std::is_same_v<S, Thread>) {
    return detail::put_signal_resolved(ctx, scope, dst, src, bytes, signal);
  } else {
    return detail::put_signal_elsewhere<R>(ctx.state, scope, dst, src, bytes, signal);
  }
}

/// put_signal_nbi, and returns when the source may be reused (which does not mean that the signal
/// was seen).
template <Reach R, class S, class T>
requires detail::kIsScope<S> PEAL_DEVICE Status put_signal(const BasicContext<R>& ctx, S scope,
                                                           T* dst,
                                                           const std::type_identity_t<T>* src,
                                                           size_t count, const Signal& signal) {
  const Ticket ticket = put_signal_nbi(ctx, scope, dst, src, count, signal);
  // Inline data has left the source already, and so has what the lanes copied themselves.
  const bool inlined = detail::bytes_of<T>(count) <= mlx5::kMaxInlineBytes;
  return ticket.queue == nullptr || inlined ? ticket.status : wait(ctx, scope, ticket);
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
  const detail::Near near = detail::find_near_word(ctx, what.word, sizeof(uint64_t), what.pe);
  if (near.here) {
    detail::signal_direct(near.address, what);
    return Status::kOk;
  }
  const detail::Destination flag = detail::resolve_signal(ctx, what);
  if (flag.status != Status::kOk) return flag.status;
  if (flag.direct != nullptr) {
    detail::signal_direct(flag.direct, what);
    return Status::kOk;
  }
  return detail::post_signal<R, true>(ctx, flag, what).status;
}

}  // namespace peal
