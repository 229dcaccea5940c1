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
#include "device/transport/ibgda.h"
#include "device/transport/p2p.h"

namespace peal {

namespace detail {

template <class S>
inline constexpr bool kIsScope =
    std::is_same_v<S, Thread> || std::is_same_v<S, Warp> || std::is_same_v<S, Block>;

template <class T>
PEAL_HD constexpr uint64_t bytes_of(size_t count) {
  if constexpr (std::is_void_v<T>) {
    return count;
  } else {
    static_assert(std::is_trivially_copyable_v<T>, "only plain data travels");
    return count * sizeof(T);
  }
}

/// Posts for one lane: together with the lanes beside it where the queue is shared, alone where it
/// is owned.
template <Reach R, bool kTogether, class... Compose>
PEAL_DEVICE Ticket post(mlx5::SendQueue& q, const Compose&... compose) {
  if constexpr (kTogether && R != Reach::kLane) {
    return ibgda::post<R>(q, Coalesced(&q), compose...);
  } else {
    return ibgda::post<R>(q, ibgda::Alone{}, compose...);
  }
}

/// Up to N*4 bytes of payload, in memory order, in registers.
template <uint32_t N>
struct Payload {
  uint32_t word[N];
  PEAL_DEVICE Payload(const void* from, uint32_t bytes) : word{} {
    const auto* source = static_cast<const unsigned char*>(from);
    for (uint32_t i = 0; i < N * 4; ++i) {
      if (i < bytes) word[i / 4] |= static_cast<uint32_t>(source[i]) << (8 * (i % 4));
    }
  }
};

inline constexpr uint64_t kShortInline = 12;

/// Posts a put of any size, followed by `after` (one more composer per WQE) under the same doorbell
/// as its last part.
template <Reach R, bool kTogether, class... After>
PEAL_DEVICE Ticket put_bytes(const BasicContext<R>& ctx, const Destination& to, const void* src,
                             uint64_t bytes, const After&... after) {
  mlx5::SendQueue& q = *to.queue;
  mlx5::Remote remote = to.remote;
  if (bytes <= kShortInline) {
    const Payload<3> payload(src, static_cast<uint32_t>(bytes));
    return post<R, kTogether>(
        q,
        [&](const mlx5::Header& h) {
          return mlx5::compose_write_inline(h, remote, payload.word, static_cast<uint32_t>(bytes));
        },
        after...);
  }
  if (bytes <= mlx5::kMaxInlineBytes) {
    const Payload<7> payload(src, static_cast<uint32_t>(bytes));
    return post<R, kTogether>(
        q,
        [&](const mlx5::Header& h) {
          return mlx5::compose_write_inline(h, remote, payload.word, static_cast<uint32_t>(bytes));
        },
        after...);
  }
  const Origin from = resolve_local(ctx, src, bytes);
  if (from.status != Status::kOk) return Ticket{nullptr, 0, from.status};
  mlx5::Local local = from.local;
  for (; bytes > mlx5::kMaxMessageBytes; bytes -= mlx5::kMaxMessageBytes) {
    const Ticket part = post<R, kTogether>(q, [&](const mlx5::Header& h) {
      return mlx5::compose_write(h, remote, local, static_cast<uint32_t>(mlx5::kMaxMessageBytes));
    });
    if (part.status != Status::kOk) return part;
    remote.address += mlx5::kMaxMessageBytes;
    local.address += mlx5::kMaxMessageBytes;
  }
  return post<R, kTogether>(
      q,
      [&](const mlx5::Header& h) {
        return mlx5::compose_write(h, remote, local, static_cast<uint32_t>(bytes));
      },
      after...);
}

template <Reach R, bool kTogether>
PEAL_DEVICE Ticket get_bytes(const BasicContext<R>& ctx, void* dst, const Destination& at,
                             uint64_t bytes) {
  const Origin to = resolve_local(ctx, dst, bytes);
  if (to.status != Status::kOk) return Ticket{nullptr, 0, to.status};
  mlx5::Remote remote = at.remote;
  mlx5::Local local = to.local;
  Ticket ticket{};
  while (bytes > 0) {
    const uint64_t part = bytes < mlx5::kMaxMessageBytes ? bytes : mlx5::kMaxMessageBytes;
    ticket = post<R, kTogether>(*at.queue, [&](const mlx5::Header& h) {
      return mlx5::compose_read(h, remote, local, static_cast<uint32_t>(part));
    });
    if (ticket.status != Status::kOk) return ticket;
    remote.address += part;
    local.address += part;
    bytes -= part;
  }
  return ticket;
}

template <Reach R, class S, class Op>
PEAL_DEVICE_COLD auto by_leader_elsewhere(const ContextState* state, S scope, Op op) {
  const auto& ctx = static_cast<const BasicContext<R>&>(state->fields);
  return by_leader(scope, [&] { return op(ctx); });
}

/// by_leader() for what goes through the NIC; `op` takes the context. A warp or a block, which
/// copies with all its lanes where the peer is mapped, has this out of line: its registers are then
/// the copy's. `op` must capture by value, and not the context.
template <Reach R, class S, class Op>
PEAL_DEVICE auto through_leader(const BasicContext<R>& ctx, S scope, const Op& op) {
  if constexpr (std::is_same_v<S, Thread>) {
    return op(ctx);
  } else {
    return by_leader_elsewhere<R>(ctx.state, scope, op);
  }
}

/// Both sides of a transfer as its caller names them, one of them an address at `pe`.
struct Transfer {
  void* dst;
  const void* src;
  uint64_t bytes;
  int pe;
};

/// True for lanes that have a part in a transfer by stores and loads, warp by warp: those of a
/// block that have none leave the questions to the others. Each instruction of a block counts 32
/// times.
template <class S>
PEAL_DEVICE bool has_part(S scope, const Transfer& t) {
  if constexpr (std::is_same_v<S, Block>) {
    // The smallest unit that copy() may deal out: what fits both addresses and the length.
    const uint64_t fit =
        reinterpret_cast<uint64_t>(t.dst) | reinterpret_cast<uint64_t>(t.src) | t.bytes;
    const uint64_t power = fit & (0 - fit);
    const uint64_t unit = power < sizeof(Line) ? power : sizeof(Line);
    const uint32_t first = scope.rank() / kWarpLanes * kWarpLanes;
    return first == 0 || first * unit < t.bytes;
  } else {
    return true;
  }
}

/// Moves the bytes with the scope's own lanes where the peer is mapped, else has the leader do what
/// `far` makes of the way there. Returns when the calling lane's part is done, as non-blocking
/// calls may.
template <p2p::Direction kDirection, Reach R, class S, class Far>
PEAL_DEVICE Ticket transfer(const BasicContext<R>& ctx, S scope, const Transfer& t,
                            const Far& far) {
  constexpr bool kPut = kDirection == p2p::Direction::kPut;
  const void* const there = kPut ? t.dst : t.src;
  bool mine = has_part(scope, t);
  Near near{nullptr, true};
  if (mine) near = find_near(ctx, there, t.bytes, t.pe);
  if (any(scope, !near.here)) {  // edge M8: every lane's earlier stores precede the copy
    const Destination at = resolve(ctx, there, t.bytes, t.pe, Use::kPayload);
    if (at.status != Status::kOk) return Ticket{nullptr, 0, at.status};
    if (at.direct == nullptr && t.bytes == 0) return Ticket{};
    if (at.direct == nullptr) return through_leader(ctx, scope, far(at));
    near.address = at.direct;
    mine = true;
  }
  if (mine) {
    p2p::copy<kDirection>(scope, kPut ? near.address : t.dst, kPut ? t.src : near.address, t.bytes);
  }
  return Ticket{};
}

}  // namespace detail

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
[[nodiscard]] PEAL_DEVICE Status wait(const BasicContext<R>& ctx, S scope, const Ticket& ticket) {
  if (ticket.queue == nullptr) {  // the lanes did it themselves, each its part
    scope.sync();
    return ticket.status;
  }
  return detail::through_leader(
      ctx, scope, [ticket](const BasicContext<R>&) { return ibgda::wait<R>(ticket); });
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
  const auto far = [=](const detail::Destination& to) {
    return [=](const BasicContext<R>& c) {
      return detail::put_bytes<R, std::is_same_v<S, Thread>>(c, to, src, bytes);
    };
  };
  return detail::transfer<p2p::Direction::kPut>(ctx, scope, {dst, src, bytes, pe}, far);
}

/// Copies `count` elements to `dst` at `pe`; returns when the source may be reused.
template <Reach R, class S, class T>
requires detail::kIsScope<S> PEAL_DEVICE Status put(const BasicContext<R>& ctx, S scope, T* dst,
                                                    const std::type_identity_t<T>* src,
                                                    size_t count, int pe) {
  const Ticket ticket = put_nbi(ctx, scope, dst, src, count, pe);
  // Inline data has left the source already.
  const bool inlined = detail::bytes_of<T>(count) <= mlx5::kMaxInlineBytes;
  return ticket.queue != nullptr && inlined ? ticket.status : wait(ctx, scope, ticket);
}

/// Starts copying `count` elements from `src` at `pe` to `dst`, which, where the NIC carries it,
/// must lie in a window.
template <Reach R, class S, class T>
requires detail::kIsScope<S> PEAL_DEVICE Ticket get_nbi(const BasicContext<R>& ctx, S scope, T* dst,
                                                        const std::type_identity_t<T>* src,
                                                        size_t count, int pe) {
  const uint64_t bytes = detail::bytes_of<T>(count);
  const auto far = [=](const detail::Destination& from) {
    return [=](const BasicContext<R>& c) {
      return detail::get_bytes<R, std::is_same_v<S, Thread>>(c, dst, from, bytes);
    };
  };
  return detail::transfer<p2p::Direction::kGet>(ctx, scope, {dst, src, bytes, pe}, far);
}

/// Copies `count` elements from `src` at `pe`; on kOk they are in `dst`, visible to every lane of
/// the scope.
template <Reach R, class S, class T>
requires detail::kIsScope<S> PEAL_DEVICE Status get(const BasicContext<R>& ctx, S scope, T* dst,
                                                    const std::type_identity_t<T>* src,
                                                    size_t count, int pe) {
  return wait(ctx, scope, get_nbi(ctx, scope, dst, src, count, pe));
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
/// One thread.
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
struct Fetched {
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
  const Ticket ticket = detail::post<R, true>(*from.queue, [&](const mlx5::Header& h) {
    return mlx5::compose_read(h, from.remote, landing.local(), sizeof(T));
  });
  answer.status = ibgda::wait<R>(ticket);
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
/// all have arrived.
template <Reach R, class S, class T>
requires detail::kIsScope<S> PEAL_DEVICE Status iget(const BasicContext<R>& ctx, S scope, T* dst,
                                                     const T* src, Strides strides, size_t count,
                                                     int pe) {
  Ticket last{};
  const uint32_t lanes = detail::posting_lanes<R>(scope);
  scope.sync();
  for (size_t i = scope.rank(); scope.rank() < lanes && i < count && last.status == Status::kOk;
       i += lanes) {
    const auto at = static_cast<ptrdiff_t>(i);
    last = get_nbi(ctx, thread, dst + at * strides.dst, src + at * strides.src, 1, pe);
  }
  return first_failure(scope, ibgda::wait<R>(last));
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
