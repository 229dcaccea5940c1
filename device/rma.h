// SPDX-License-Identifier: Apache-2.0
//
// One-sided transfers: put, get, p, g, strided forms, tickets, ptr.
//
// Addresses at the peer are given as the caller's own address of the symmetric object. Every form
// takes a scope (thread, warp, block; thread if left out) whose lanes all call with the same
// arguments. Counts are in elements of T, in bytes for void. Of none nothing is asked but the PE;
// of more than 64 bits hold in bytes an operation is refused, kNotSymmetric.
//
//   put(ctx, scope, dst, src, n, pe)   returns when src may be reused
//   get(ctx, scope, dst, src, n, pe)   returns when dst holds the data
//   put_nbi, get_nbi                   return at once; wait or quiet completes them
//   with a Tile in place of n          rows that lie further apart than they are long
//
// None of them says that a put has arrived: quiet(ctx) does. Ordering: docs/memory_model.md.
#pragma once

#include <cstddef>
#include <type_traits>

#include "device/base/scope.h"
#include "device/context.h"
#include "device/detail/tile.h"
#include "device/detail/transfer.h"
#include "device/detail/words.h"
#include "device/types.h"

namespace peal {

/// Starts copying `count` elements to `dst` at `pe`. The source must stay unchanged until the
/// ticket completes, and, where the NIC carries it, must lie in a window unless it is at most 1 KiB
/// long: that much a lane reads itself, from anywhere, before the call returns. Lanes of a warp or
/// block return one by one: a single lane may fence or signal for all of them once they have
/// synchronised, as wait, quiet and fence with a scope do.
template <Reach R, AnyScope S, class T>
PEAL_DEVICE Ticket put_nbi(const BasicContext<R>& ctx, S scope, T* dst,
                           const std::type_identity_t<T>* src, size_t count, int pe) {
  const detail::Put put{
      dst, src, detail::bytes_of<T>(count), pe, detail::Until::kStarted, detail::chosen_by<S>(ctx)};
  return detail::checked_access(ctx, scope, put);
}

/// Copies `count` elements to `dst` at `pe`; returns when the source may be reused.
template <Reach R, AnyScope S, class T>
PEAL_DEVICE Status put(const BasicContext<R>& ctx, S scope, T* dst,
                       const std::type_identity_t<T>* src, size_t count, int pe) {
  const detail::Put put{
      dst, src, detail::bytes_of<T>(count), pe, detail::Until::kDone, detail::chosen_by<S>(ctx)};
  return detail::checked_access(ctx, scope, put).status;
}

/// Starts copying `count` elements from `src` at `pe` to `dst`, which, where the NIC carries it,
/// must lie in a window, or be at most 1 KiB: then the call returns when they are there.
template <Reach R, AnyScope S, class T>
PEAL_DEVICE Ticket get_nbi(const BasicContext<R>& ctx, S scope, T* dst,
                           const std::type_identity_t<T>* src, size_t count, int pe) {
  const detail::Get get{
      dst, src, detail::bytes_of<T>(count), pe, detail::Until::kStarted, detail::chosen_by<S>(ctx)};
  return detail::checked_access(ctx, scope, get);
}

/// Copies `count` elements from `src` at `pe`; on kOk they are in `dst`, visible to every lane of
/// the scope.
template <Reach R, AnyScope S, class T>
PEAL_DEVICE Status get(const BasicContext<R>& ctx, S scope, T* dst,
                       const std::type_identity_t<T>* src, size_t count, int pe) {
  const detail::Get get{
      dst, src, detail::bytes_of<T>(count), pe, detail::Until::kDone, detail::chosen_by<S>(ctx)};
  return detail::checked_access(ctx, scope, get).status;
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

/// Waits until the ticket's operation is locally complete. Repeatable after a timeout. Speaks for
/// the calling lane; what the others of its scope did counts once the scope has synchronised.
template <Reach R>
[[nodiscard]] PEAL_DEVICE Status wait(const BasicContext<R>& ctx, const Ticket& ticket) {
  return detail::checked(
      ctx, thread, [&] { return detail::note_of(Call::kWait, ticket); },
      [&] {
        if (ticket.queue == nullptr) return detail::wait_scope<R>(ctx, thread, ticket);
        nic::ring_for<R>(ticket);
        return nic::wait<R>(ticket);
      });
}

/// The same for the operation of a whole scope, by all its lanes: afterwards all of them may use
/// source and destination.
template <Reach R, AnyScope S>
[[nodiscard]] PEAL_DEVICE Status wait(const BasicContext<R>& ctx, S scope, const Ticket& ticket) {
  return detail::checked(
      ctx, scope, [&] { return detail::note_of(Call::kWait, ticket); },
      [&] {
        if (scope.leader()) nic::ring_for<R>(ticket);
        return detail::wait_scope<R>(ctx, scope, ticket);
      });
}

/// True if wait() would not block.
template <Reach R>
PEAL_DEVICE bool test(const BasicContext<R>& ctx, const Ticket& ticket) {
  return detail::checked_look(
      ctx, [&] { return detail::note_of(Call::kTestTicket, ticket); },
      [&] {
        nic::ring_for<R>(ticket);
        return nic::test<R>(ticket);
      });
}

/// Writes one value of up to 8 bytes to `dst` at `pe`. The value travels inside the work request.
/// One thread. A put like any other: it vouches for nothing ahead of it on any route, a signal does
/// (docs/memory_model.md, "What a program may rely on").
template <Reach R, class T>
PEAL_DEVICE Status p(const BasicContext<R>& ctx, T* dst, const std::type_identity_t<T>& value,
                     int pe) {
  return detail::put_value(ctx, dst, value, pe).status;
}

/// Reads one value of up to 8 bytes from `src` at `pe`. One thread.
template <Reach R, class T>
PEAL_DEVICE Fetched<T> g(const BasicContext<R>& ctx, const T* src, int pe) {
  return detail::get_value(ctx, src, pe);
}

/// Starts copying a tile to `dst` at `pe`. The lanes of the scope share the rows, and long rows too
/// where the peer is mapped; for a NIC each row is a put, with the same rules for its source.
template <Reach R, AnyScope S, class T>
PEAL_DEVICE Ticket put_nbi(const BasicContext<R>& ctx, S scope, T* dst,
                           const std::type_identity_t<T>* src, const Tile& tile, int pe) {
  return detail::put_tile<detail::Until::kStarted>(ctx, scope, dst, src, tile, pe);
}

/// Copies a tile to `dst` at `pe`; returns when the source may be reused.
template <Reach R, AnyScope S, class T>
PEAL_DEVICE Status put(const BasicContext<R>& ctx, S scope, T* dst,
                       const std::type_identity_t<T>* src, const Tile& tile, int pe) {
  return detail::put_tile<detail::Until::kDone>(ctx, scope, dst, src, tile, pe).status;
}

/// Starts fetching a tile from `src` at `pe`.
template <Reach R, AnyScope S, class T>
PEAL_DEVICE Ticket get_nbi(const BasicContext<R>& ctx, S scope, T* dst,
                           const std::type_identity_t<T>* src, const Tile& tile, int pe) {
  return detail::get_tile<detail::Until::kStarted>(ctx, scope, dst, src, tile, pe);
}

/// Fetches a tile from `src` at `pe`; on kOk it is in `dst`, visible to every lane of the scope.
template <Reach R, AnyScope S, class T>
PEAL_DEVICE Status get(const BasicContext<R>& ctx, S scope, T* dst,
                       const std::type_identity_t<T>* src, const Tile& tile, int pe) {
  return detail::get_tile<detail::Until::kDone>(ctx, scope, dst, src, tile, pe).status;
}

/// Copies `count` single elements, `strides` apart: a tile of one column. Returns when the source
/// may be reused.
template <Reach R, AnyScope S, class T>
PEAL_DEVICE Status iput(const BasicContext<R>& ctx, S scope, T* dst, const T* src, Strides strides,
                        size_t count, int pe) {
  return put(ctx, scope, dst, src, Tile{count, 1, strides}, pe);
}

/// Fetches `count` single elements, `strides` apart, into `dst`; on kOk all have arrived.
template <Reach R, AnyScope S, class T>
PEAL_DEVICE Status iget(const BasicContext<R>& ctx, S scope, T* dst, const T* src, Strides strides,
                        size_t count, int pe) {
  return get(ctx, scope, dst, src, Tile{count, 1, strides}, pe);
}

/// The peer's copy of a symmetric object as an ordinary pointer, or null when only the NIC reaches
/// it.
template <Reach R, class T>
PEAL_DEVICE T* ptr(const BasicContext<R>& ctx, T* symmetric, int pe) {
  return pe == ctx.pe ? symmetric
                      : static_cast<T*>(detail::find_mapped(ctx, {symmetric, sizeof(T), pe}));
}

}  // namespace peal
