// SPDX-License-Identifier: Apache-2.0
//
// put and get as operations (access.h): stored or loaded by the scope's own lanes where the peer's
// memory is mapped, else as a work request that the scope's leader posts.
#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "device/base/call.h"
#include "device/base/scaled.h"
#include "device/base/scope.h"
#include "device/context.h"
#include "device/detail/access.h"
#include "device/detail/anywhere.h"
#include "device/detail/dump.h"
#include "device/nic/post.h"
#include "device/transport/model.h"
#include "device/transport/p2p.h"

namespace peal {
namespace detail {

/// The bytes of `count` elements; kEndless if no memory can hold so many.
template <class T>
PEAL_HD constexpr uint64_t bytes_of(size_t count) {
  if constexpr (std::is_void_v<T>) {
    return count;
  } else {
    static_assert(std::is_trivially_copyable_v<T>, "only plain data travels");
    return scaled_by<sizeof(T)>(count);
  }
}

inline constexpr uint64_t kShortInline = 12;

/// What is still to be posted of a transfer.
struct Rest {
  nic::Remote remote;
  nic::Local local;
  uint64_t bytes;
};

/// Posts one part of a transfer, with the requests `after` behind it.
template <Reach R, bool kTogether, nic::Rings kRings, bool kPut, class... After>
PEAL_DEVICE Ticket post_part(SendQueue& q, const Rest& rest, uint32_t bytes,
                             const After&... after) {
  using Request = std::conditional_t<kPut, nic::Write, nic::Read>;
  return nic::post_by_lane<R, kTogether, kRings>(q, Request{rest.remote, rest.local, bytes},
                                                 after...);
}

/// Posts what is ahead of the last part of a transfer that one request does not carry.
template <Reach R, bool kTogether, nic::Rings kRings, bool kPut>
PEAL_DEVICE_COLD Status post_ahead(SendQueue* q, Rest* rest) {
  constexpr auto kPart = static_cast<uint32_t>(nic::Model::kMaxMessageBytes);
  for (; rest->bytes > kPart; rest->bytes -= kPart) {
    const Ticket part = post_part<R, kTogether, kRings, kPut>(*q, *rest, kPart);
    if (part.status != Status::kOk) return part.status;
    rest->remote.address += kPart;
    rest->local.address += kPart;
  }
  return Status::kOk;
}

/// Posts a transfer of any size, with `after` under the same doorbell as its last part.
template <Reach R, bool kTogether, nic::Rings kRings, bool kPut, class... After>
PEAL_DEVICE Ticket post_parts(SendQueue& q, Rest rest, const After&... after) {
  if (rest.bytes > nic::Model::kMaxMessageBytes) {
    Rest parts = rest;
    in_memory(&parts);
    const Status status = post_ahead<R, kTogether, kRings, kPut>(&q, &parts);
    in_memory(&parts);
    if (status != Status::kOk) return Ticket{&q, 0, status};
    rest = parts;
  }
  return post_part<R, kTogether, kRings, kPut>(q, rest, static_cast<uint32_t>(rest.bytes),
                                               after...);
}

/// Posts a put of N*4 bytes or less, which travel inside its request.
template <uint32_t N, Reach R, bool kTogether, nic::Rings kRings, class... After>
PEAL_DEVICE Ticket post_inline(const Destination& to, const void* src, uint32_t bytes,
                               const After&... after) {
  const auto write = inline_write<N>(to.remote, src, bytes);
  return nic::post_by_lane<R, kTogether, kRings>(*to.queue, write, after...);
}

/// Posts a put of at most kShortInline bytes by one lane of several, which may be one request with
/// theirs.
template <Reach R, nic::Rings kRings>
PEAL_DEVICE Ticket post_short(const Destination& to, const void* src, uint32_t bytes) {
  return nic::post_few<R, kRings>(*to.queue, inline_write<3>(to.remote, src, bytes));
}

/// Posts a put of any size, followed by `after` (more requests) under the same doorbell
/// as its last part.
template <Reach R, bool kTogether, nic::Rings kRings = nic::Rings::kNow, Call kCall = Call::kPut,
          class Home, class... After>
PEAL_DEVICE Ticket put_bytes(const BasicContext<R>& ctx, const Destination& to, Home home,
                             uint64_t bytes, const After&... after) {
  if (bytes <= kShortInline) {
    return post_inline<3, R, kTogether, kRings>(to, address_of(home), static_cast<uint32_t>(bytes),
                                                after...);
  }
  if (bytes <= nic::Model::kMaxInlineBytes) {
    return post_inline<7, R, kTogether, kRings>(to, address_of(home), static_cast<uint32_t>(bytes),
                                                after...);
  }
  const Origin from = resolve_local(ctx, *to.queue, address_of(home), bytes);
  if (from.status != Status::kOk) {
    const Status moved = by_lane<R, kTogether, kCall>(ctx.state, to, home, bytes);
    if constexpr (sizeof...(After) > 0) {
      if (moved == Status::kOk) return nic::post_by_lane<R, kTogether, kRings>(*to.queue, after...);
    }
    return {nullptr, 0, moved};
  }
  return post_parts<R, kTogether, kRings, true>(*to.queue, {to.remote, from.local, bytes},
                                                after...);
}

template <Reach R, bool kTogether, nic::Rings kRings = nic::Rings::kNow, class Home>
PEAL_DEVICE Ticket get_bytes(const BasicContext<R>& ctx, const Destination& at, Home home,
                             uint64_t bytes) {
  Origin to = resolve_local(ctx, *at.queue, address_of(home), bytes);
  if (to.status != Status::kOk) {
    return {nullptr, 0, by_lane<R, kTogether, Call::kGet>(ctx.state, at, home, bytes)};
  }
  in_memory(&to);
  const Ticket ticket =
      post_parts<R, kTogether, kRings, false>(*at.queue, {at.remote, to.local, bytes});
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
  return by_leader(scope, [&] { return nic::wait<R>(ticket); });
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
    return call_apart<&wait_elsewhere<R, S>>(scope, ticket);
  }
}

template <p2p::Direction kDirection, class S>
PEAL_DEVICE_COLD void copy_elsewhere(S scope, void* dst, const void* src, uint64_t bytes) {
  p2p::copy<kDirection>(scope, dst, src, bytes);
}

/// Copies, out of line in relocatable code where a scope has several lanes: it takes more registers
/// than a call.
template <p2p::Direction kDirection, class S>
PEAL_DEVICE void copy_mapped(S scope, void* dst, const void* src, uint64_t bytes) {
  if constexpr (PEAL_RELOCATABLE && !std::is_same_v<S, Thread>) {
    call_apart<&copy_elsewhere<kDirection, S>>(scope, dst, src, bytes);
  } else {
    p2p::copy<kDirection>(scope, dst, src, bytes);
  }
}

/// A put or get of any length.
template <p2p::Direction kDirection, nic::Rings kRings = nic::Rings::kNow>
struct Transfer {
  using Answer = Ticket;
  static constexpr bool kVotes = true;
  static constexpr bool kPut = kDirection == p2p::Direction::kPut;

  void* dst;
  const void* src;
  uint64_t bytes;
  int pe;
  Until until;
  uint8_t by_warp = 0;  // as Asked has it

  PEAL_DEVICE Asked asked() const {
    return {.address = kPut ? dst : src,
            .bytes = bytes,
            .pe = pe,
            .call = kPut ? Call::kPut : Call::kGet,
            .by_warp = by_warp};
  }

  PEAL_DEVICE CallNote note() const {
    CallNote note = kPut ? note_of(Call::kPut, pe, dst, bytes, src, bytes)
                         : note_of(Call::kGet, pe, src, bytes, dst, bytes);
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
    if (copies) copy_mapped<kDirection>(scope, kPut ? there : dst, kPut ? src : there, bytes);
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
        if constexpr (kPut && kTogether) {
          if (bytes <= kShortInline) {
            return post_short<R, kRings>(where, src, static_cast<uint32_t>(bytes));
          }
        }
        if constexpr (kPut)
          return put_bytes<R, kTogether, kRings>(ctx, where, src, bytes);
        else
          return get_bytes<R, kTogether, kRings>(ctx, where, dst, bytes);
      });
    }
    // Inline data has left the source already.
    const bool gone = kPut && bytes <= nic::Model::kMaxInlineBytes && ticket.queue != nullptr;
    if (until == Until::kDone && !gone) ticket.status = wait_far<R>(scope, ticket);
    return ticket;
  }
};
using Put = Transfer<p2p::Direction::kPut>;
using Get = Transfer<p2p::Direction::kGet>;

}  // namespace detail
}  // namespace peal
