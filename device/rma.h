// SPDX-License-Identifier: Apache-2.0
//
// One-sided transfers: put, get, p, g, strided forms, tickets, ptr.
//
// Addresses at the peer are given as the caller's own address of the symmetric object. Every form
// takes a scope (thread, warp, block; thread if left out) whose lanes all call with the same
// arguments. Counts are in elements of T, in bytes for void.
//
//   put(ctx, scope, dst, src, n, pe)   returns when src may be reused
//   get(ctx, scope, dst, src, n, pe)   returns when dst holds the data
//   put_nbi, get_nbi                   return at once; wait or quiet completes them
//
// None of them says that a put has arrived: quiet(ctx) does. Ordering: docs/memory_model.md.
#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "device/base/scope.h"
#include "device/context.h"
#include "device/resolve.h"
#include "device/transfer.h"
#include "device/transport/ibgda.h"
#include "device/transport/p2p.h"

namespace peal {

/// Waits until the ticket's operation is locally complete. Repeatable after a timeout. Speaks for
/// the calling lane; what the others of its scope did counts once the scope has synchronised.
template <Reach R>
[[nodiscard]] PEAL_DEVICE Status wait(const BasicContext<R>&, const Ticket& ticket) {
  return ibgda::wait<R>(ticket);
}

/// The same for the operation of a whole scope, by all its lanes: afterwards all of them may use
/// source and destination.
template <Reach R, class S>
requires detail::kIsScope<S>
[[nodiscard]] PEAL_DEVICE Status wait(const BasicContext<R>&, S scope, const Ticket& ticket) {
  if (ticket.queue == nullptr) {  // the lanes did it themselves, each its part
    scope.sync();
    return ticket.status;
  }
  if constexpr (std::is_same_v<S, Thread>) {
    return ibgda::wait<R>(ticket);
  } else {
    return detail::wait_elsewhere<R>(scope, ticket);
  }
}

/// True if wait() would not block.
template <Reach R>
PEAL_DEVICE bool test(const BasicContext<R>&, const Ticket& ticket) {
  return ibgda::test<R>(ticket);
}

/// Starts copying `count` elements to `dst` at `pe`. The source must stay unchanged until the
/// ticket completes, and, where the NIC carries it, must lie in a window unless it is at most 28
/// bytes long. Lanes of a warp or block return one by one: a single lane may fence or signal for
/// all of them once they have synchronised, as wait, quiet and fence with a scope do.
template <Reach R, class S, class T>
requires detail::kIsScope<S> PEAL_DEVICE Ticket put_nbi(const BasicContext<R>& ctx, S scope, T* dst,
                                                        const std::type_identity_t<T>* src,
                                                        size_t count, int pe) {
  const uint64_t bytes = detail::bytes_of<T>(count);
  return detail::transfer<p2p::Direction::kPut, detail::Until::kStarted>(ctx, scope,
                                                                         {dst, src, bytes, pe});
}

/// Copies `count` elements to `dst` at `pe`; returns when the source may be reused.
template <Reach R, class S, class T>
requires detail::kIsScope<S> PEAL_DEVICE Status put(const BasicContext<R>& ctx, S scope, T* dst,
                                                    const std::type_identity_t<T>* src,
                                                    size_t count, int pe) {
  const uint64_t bytes = detail::bytes_of<T>(count);
  return detail::transfer<p2p::Direction::kPut, detail::Until::kDone>(ctx, scope,
                                                                      {dst, src, bytes, pe})
      .status;
}

/// Starts copying `count` elements from `src` at `pe` to `dst`, which, where the NIC carries it,
/// must lie in a window.
template <Reach R, class S, class T>
requires detail::kIsScope<S> PEAL_DEVICE Ticket get_nbi(const BasicContext<R>& ctx, S scope, T* dst,
                                                        const std::type_identity_t<T>* src,
                                                        size_t count, int pe) {
  const uint64_t bytes = detail::bytes_of<T>(count);
  return detail::transfer<p2p::Direction::kGet, detail::Until::kStarted>(ctx, scope,
                                                                         {dst, src, bytes, pe});
}

/// Copies `count` elements from `src` at `pe`; on kOk they are in `dst`, visible to every lane of
/// the scope.
template <Reach R, class S, class T>
requires detail::kIsScope<S> PEAL_DEVICE Status get(const BasicContext<R>& ctx, S scope, T* dst,
                                                    const std::type_identity_t<T>* src,
                                                    size_t count, int pe) {
  const uint64_t bytes = detail::bytes_of<T>(count);
  return detail::transfer<p2p::Direction::kGet, detail::Until::kDone>(ctx, scope,
                                                                      {dst, src, bytes, pe})
      .status;
}

template <Reach R, class T>
PEAL_DEVICE Ticket put_nbi(const BasicContext<R>& ctx, T* dst, const std::type_identity_t<T>* src,
                           size_t count, int pe) {
  return put_nbi(ctx, thread, dst, src, count, pe);
}
template <Reach R, class T>
PEAL_DEVICE Status put(const BasicContext<R>& ctx, T* dst, const std::type_identity_t<T>* src,
                       size_t count, int pe) {
  return put(ctx, thread, dst, src, count, pe);
}
template <Reach R, class T>
PEAL_DEVICE Ticket get_nbi(const BasicContext<R>& ctx, T* dst, const std::type_identity_t<T>* src,
                           size_t count, int pe) {
  return get_nbi(ctx, thread, dst, src, count, pe);
}
template <Reach R, class T>
PEAL_DEVICE Status get(const BasicContext<R>& ctx, T* dst, const std::type_identity_t<T>* src,
                       size_t count, int pe) {
  return get(ctx, thread, dst, src, count, pe);
}

/// Writes one value of up to 8 bytes to `dst` at `pe`. The value travels inside the work request.
/// One thread. It is a put: it vouches for nothing ahead of it, a signal does.
template <Reach R, class T>
PEAL_DEVICE Status p(const BasicContext<R>& ctx, T* dst, const std::type_identity_t<T>& value,
                     int pe) {
  static_assert(sizeof(T) <= 8 && std::is_trivially_copyable_v<T>);
  const detail::Near near = detail::find_near(ctx, dst, sizeof(T), pe);
  if (near.here) {
    p2p::store_value(near.address, value);
    return Status::kOk;
  }
  const detail::Destination to = detail::resolve(ctx, dst, sizeof(T), pe, detail::Use::kWord);
  if (to.direct != nullptr) {
    p2p::store_value(to.direct, value);
    return Status::kOk;
  }
  if (to.status != Status::kOk) return to.status;
  uint64_t bits = 0;
  memcpy(&bits, &value, sizeof(T));
  const uint32_t payload[3] = {static_cast<uint32_t>(bits), static_cast<uint32_t>(bits >> 32), 0};
  return detail::post<R, true>(*to.queue,
                               [&](const mlx5::Header& h) {
                                 return mlx5::compose_write_inline(h, to.remote, payload,
                                                                   sizeof(T));
                               })
      .status;
}

/// A fetched value, and whether it was fetched.
template <class T>
struct [[nodiscard]] Fetched {
  T value;
  Status status;
};

/// Reads one value of up to 8 bytes from `src` at `pe`. One thread.
template <Reach R, class T>
PEAL_DEVICE Fetched<T> g(const BasicContext<R>& ctx, const T* src, int pe) {
  static_assert(sizeof(T) <= 8 && std::is_trivially_copyable_v<T>);
  Fetched<T> answer{};
  const detail::Near near = detail::find_near(ctx, src, sizeof(T), pe);
  if (near.here) {
    answer.value = p2p::load_value<T>(near.address);
    return answer;
  }
  const detail::Destination from = detail::resolve(ctx, src, sizeof(T), pe, detail::Use::kWord);
  answer.status = from.status;
  if (from.status != Status::kOk) return answer;
  if (from.direct != nullptr) {
    answer.value = p2p::load_value<T>(from.direct);
    return answer;
  }
  const auto landing = ibgda::Landing::take<R>(*from.queue, &answer.status);
  if (answer.status != Status::kOk) return answer;
  const Ticket read = detail::post<R, true>(*from.queue, [&](const mlx5::Header& h) {
    return mlx5::compose_read(h, from.remote, landing.local(), sizeof(T));
  });
  // Queues lie where the heap does, and so do their landing cells.
  answer.status =
      ibgda::wait<R>(detail::landed<R, true>(*from.queue, ctx.heap.dumped, landing.local(), read));
  if (answer.status == Status::kOk) {
    const uint64_t bits = landing.value();
    memcpy(&answer.value, &bits, sizeof(T));
  }
  landing.template give_back<R>();
  return answer;
}

/// Distances between consecutive elements, in elements, at the destination and at the source.
struct Strides {
  ptrdiff_t dst;
  ptrdiff_t src;
};

namespace detail {

/// How many lanes of a scope post for themselves: all, but one alone on a queue that is owned.
template <Reach R, class S>
PEAL_DEVICE uint32_t posting_lanes(S scope) {
  return R == Reach::kLane ? 1 : scope.size();
}

}  // namespace detail

/// Copies `count` single elements of up to 8 bytes, `strides` apart; returns when the source may be
/// reused. The lanes of the scope share the elements.
template <Reach R, class S, class T>
requires detail::kIsScope<S> PEAL_DEVICE Status iput(const BasicContext<R>& ctx, S scope, T* dst,
                                                     const T* src, Strides strides, size_t count,
                                                     int pe) {
  Status status = Status::kOk;
  const uint32_t lanes = detail::posting_lanes<R>(scope);
  scope.sync();
  for (size_t i = scope.rank(); scope.rank() < lanes && i < count; i += lanes) {
    const auto at = static_cast<ptrdiff_t>(i);
    const Status one = p(ctx, dst + at * strides.dst, src[at * strides.src], pe);
    if (status == Status::kOk) status = one;
  }
  return first_failure(scope, status);
}

/// Fetches `count` single elements, `strides` apart, into `dst`, which must lie in a window; on kOk
/// all have arrived. Where an element is refused, what was asked for before it has arrived.
template <Reach R, class S, class T>
requires detail::kIsScope<S> PEAL_DEVICE Status iget(const BasicContext<R>& ctx, S scope, T* dst,
                                                     const T* src, Strides strides, size_t count,
                                                     int pe) {
  Ticket last{};
  Status refused = Status::kOk;
  const uint32_t lanes = detail::posting_lanes<R>(scope);
  scope.sync();
  for (size_t i = scope.rank(); scope.rank() < lanes && i < count && refused == Status::kOk;
       i += lanes) {
    const auto at = static_cast<ptrdiff_t>(i);
    const Ticket one = get_nbi(ctx, thread, dst + at * strides.dst, src + at * strides.src, 1, pe);
    refused = one.status;
    if (refused == Status::kOk) last = one;
  }
  const Status arrived = ibgda::wait<R>(last);  // of elements before a refused one, too
  return first_failure(scope, refused != Status::kOk ? refused : arrived);
}

/// The peer's copy of a symmetric object as an ordinary pointer, or null when only the NIC reaches
/// it.
template <Reach R, class T>
PEAL_DEVICE T* ptr(const BasicContext<R>& ctx, T* symmetric, int pe) {
  if (pe < 0 || pe >= ctx.n_pes) return nullptr;
  if (pe == ctx.pe) return symmetric;
  const bool in_heap = detail::holds_range(ctx.heap, symmetric, sizeof(T));
  const Window* const w =
      in_heap ? &ctx.heap
              : detail::find_window(ctx.windows, symmetric, sizeof(T), detail::Side::kPeer);
  if (w == nullptr || w->direct == nullptr || w->direct[pe] == nullptr) return nullptr;
  return reinterpret_cast<T*>(w->direct[pe] + detail::offset_in(*w, symmetric));
}

}  // namespace peal
