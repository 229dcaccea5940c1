// SPDX-License-Identifier: Apache-2.0
//
// put and get as operations (access.h): stored or loaded by the scope's own lanes where the peer's
// memory is mapped, else as a work request that the scope's leader posts.
#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "device/base/scope.h"
#include "device/context.h"
#include "device/detail/access.h"
#include "device/detail/anywhere.h"
#include "device/detail/post.h"
#include "device/transport/ibgda.h"
#include "device/transport/p2p.h"

namespace peal {
namespace detail {

template <class T>
PEAL_HD constexpr uint64_t bytes_of(size_t count) {
  if constexpr (std::is_void_v<T>) {
    return count;
  } else {
    static_assert(std::is_trivially_copyable_v<T>, "only plain data travels");
    return count * sizeof(T);
  }
}

inline constexpr uint64_t kShortInline = 12;

/// Posts a put of any size, followed by `after` (one more composer per WQE) under the same doorbell
/// as its last part.
template <Reach R, bool kTogether, Rings kRings = Rings::kNow, class... After>
PEAL_DEVICE Ticket put_bytes(const BasicContext<R>& ctx, const Destination& to, const Home& home,
                             uint64_t bytes, const After&... after) {
  mlx5::SendQueue& q = *to.queue;
  const void* const src = home.at;
  mlx5::Remote remote = to.remote;
  if (bytes <= kShortInline) {
    const Payload<3> payload(src, static_cast<uint32_t>(bytes));
    return post<R, kTogether, kRings>(
        q,
        [&](const mlx5::Header& h) {
          return mlx5::compose_write_inline(h, remote, payload.word, static_cast<uint32_t>(bytes));
        },
        after...);
  }
  if (bytes <= mlx5::kMaxInlineBytes) {
    const Payload<7> payload(src, static_cast<uint32_t>(bytes));
    return post<R, kTogether, kRings>(
        q,
        [&](const mlx5::Header& h) {
          return mlx5::compose_write_inline(h, remote, payload.word, static_cast<uint32_t>(bytes));
        },
        after...);
  }
  const Origin from = resolve_local(ctx, q, home.at, bytes);
  if (from.status != Status::kOk) {
    constexpr auto kPut = p2p::Direction::kPut;
    const Status moved = move_by_lane<kPut, R, kTogether>(ctx.state, &q, remote, home, bytes);
    if constexpr (sizeof...(After) > 0) {
      if (moved == Status::kOk) return post<R, kTogether, kRings>(q, after...);
    }
    return {nullptr, 0, moved};
  }
  mlx5::Local local = from.local;
  for (; bytes > mlx5::kMaxMessageBytes; bytes -= mlx5::kMaxMessageBytes) {
    const Ticket part = post<R, kTogether, kRings>(q, [&](const mlx5::Header& h) {
      return mlx5::compose_write(h, remote, local, static_cast<uint32_t>(mlx5::kMaxMessageBytes));
    });
    if (part.status != Status::kOk) return part;
    remote.address += mlx5::kMaxMessageBytes;
    local.address += mlx5::kMaxMessageBytes;
  }
  return post<R, kTogether, kRings>(
      q,
      [&](const mlx5::Header& h) {
        return mlx5::compose_write(h, remote, local, static_cast<uint32_t>(bytes));
      },
      after...);
}

template <Reach R, bool kTogether, Rings kRings = Rings::kNow>
PEAL_DEVICE Ticket get_bytes(const BasicContext<R>& ctx, const Destination& at, const Home& home,
                             uint64_t bytes) {
  const Origin to = resolve_local(ctx, *at.queue, home.at, bytes);
  if (to.status != Status::kOk) {
    constexpr auto kGet = p2p::Direction::kGet;
    return {nullptr, 0,
            move_by_lane<kGet, R, kTogether>(ctx.state, at.queue, at.remote, home, bytes)};
  }
  mlx5::Remote remote = at.remote;
  mlx5::Local local = to.local;
  Ticket ticket{};
  while (bytes > 0) {
    const uint64_t part = bytes < mlx5::kMaxMessageBytes ? bytes : mlx5::kMaxMessageBytes;
    ticket = post<R, kTogether, kRings>(*at.queue, [&](const mlx5::Header& h) {
      return mlx5::compose_read(h, remote, local, static_cast<uint32_t>(part));
    });
    if (ticket.status != Status::kOk) return ticket;
    remote.address += part;
    local.address += part;
    bytes -= part;
  }
  return landed<R, kTogether>(*at.queue, to.dumped, to.local, ticket);
}

/// What a call waits for: that it is under way, or that a put's source may be reused and a get's
/// data is here.
enum class Until : uint32_t { kStarted, kDone };

/// ended_status() for a scope, alike for all its lanes, which meet. A block's need not ask who of
/// them saw it: what one has seen the others find after the meeting.
template <class S>
PEAL_DEVICE Status ended_together(const ContextFields& ctx, S scope) {
  const Status ended = ended_status(ctx);
  if constexpr (std::is_same_v<S, Block>) {
    return any(scope, ended != Status::kOk) ? ended_status(ctx) : Status::kOk;
  } else {
    return first_failure(scope, ended);
  }
}

/// Waits for what the scope's leader posted, or for the lanes that copied each its part.
template <Reach R, class S>
PEAL_DEVICE Status wait_far(S scope, const Ticket& ticket) {
  if (ticket.queue == nullptr) {
    scope.sync();
    return ticket.status;
  }
  return by_leader(scope, [&] { return ibgda::wait<R>(ticket); });
}

template <Reach R, class S>
PEAL_DEVICE_COLD Status wait_elsewhere(S scope, Ticket ticket) {
  return wait_far<R>(scope, ticket);
}

/// wait_far(), out of line where a scope has several lanes; of a ticket of a mapped peer whether
/// the context's waits have been ended.
template <Reach R, class S>
PEAL_DEVICE Status wait_scope(const ContextFields& ctx, S scope, const Ticket& ticket) {
  if (ticket.queue == nullptr) {
    const Status ended = ended_together(ctx, scope);
    return ticket.status != Status::kOk ? ticket.status : ended;
  }
  if constexpr (std::is_same_v<S, Thread>) {
    return wait_far<R>(scope, ticket);
  } else {
    return wait_elsewhere<R>(scope, ticket);
  }
}

/// A put or get of any length.
template <p2p::Direction kDirection, Rings kRings = Rings::kNow>
struct Transfer {
  using Answer = Ticket;
  static constexpr bool kVotes = true;
  static constexpr bool kPut = kDirection == p2p::Direction::kPut;

  void* dst;
  const void* src;
  uint64_t bytes;
  int pe;
  Until until;

  PEAL_DEVICE Asked asked() const {
    return {.address = kPut ? dst : src,
            .bytes = bytes,
            .pe = pe,
            .doing = kPut ? Doing::kPut : Doing::kGet};
  }

  PEAL_DEVICE CallNote note() const {
    CallNote note = kPut ? note_of(CallKind::kPut, pe, dst, bytes, src, bytes)
                         : note_of(CallKind::kGet, pe, src, bytes, dst, bytes);
    note.starts = until == Until::kStarted ? 1 : 0;
    return note;
  }

  /// False for whole warps that copy nothing: an instruction of a block is executed by up to 32.
  PEAL_DEVICE bool has_part(Block scope) const {
    // Counted in lines where addresses and length consist of them, else in bytes: few instructions.
    const auto fit = static_cast<uint32_t>(reinterpret_cast<uint64_t>(dst) |
                                           reinterpret_cast<uint64_t>(src) | bytes);
    const uint64_t units = fit % sizeof(Line) == 0 ? bytes / sizeof(Line) : bytes;
    const uint32_t first = scope.rank() / kWarpLanes * kWarpLanes;
    return first == 0 || first < units;
  }

  /// Returns when the calling lane's part is done, as non-blocking calls may.
  template <Reach R, class S>
  PEAL_DEVICE Ticket mapped(const BasicContext<R>& ctx, S scope, std::byte* there) const {
    bool copies = true;
    if constexpr (std::is_same_v<S, Block>) copies = has_part(scope);
    if (copies) p2p::copy<kDirection>(scope, kPut ? there : dst, kPut ? src : there, bytes);
    if (until != Until::kDone) return Ticket{};
    if constexpr (!kPut) return Ticket{nullptr, 0, ended_together(ctx, scope)};
    scope.sync();
    return Ticket{};
  }

  template <Reach R, class S>
  PEAL_DEVICE Ticket by_nic(const BasicContext<R>& ctx, S scope, const Destination& where) const {
    constexpr bool kTogether = std::is_same_v<S, Thread>;
    Ticket ticket{};
    if (bytes != 0) {
      ticket = by_leader(scope, [&] {
        if constexpr (kPut)
          return put_bytes<R, kTogether, kRings>(ctx, where, {src, src}, bytes);
        else
          return get_bytes<R, kTogether, kRings>(ctx, where, {dst, dst}, bytes);
      });
    }
    // Inline data has left the source already.
    const bool gone = kPut && bytes <= mlx5::kMaxInlineBytes && ticket.queue != nullptr;
    if (until == Until::kDone && !gone) ticket.status = wait_far<R>(scope, ticket);
    return ticket;
  }
};
using Put = Transfer<p2p::Direction::kPut>;
using Get = Transfer<p2p::Direction::kGet>;

}  // namespace detail
}  // namespace peal
