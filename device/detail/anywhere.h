// SPDX-License-Identifier: Apache-2.0
//
// Transfers whose end at home no NIC knows: a variable of a kernel, on its stack or shared by its
// block, memory that nobody registered. The lane that posts moves the bytes itself:
//
//   up to 1 KiB            put: inside work requests, one behind the other
//                          get: by way of the queue's landing cells, 8 bytes each; it is waited for
//   more                   refused; or copied, in a program that may (ContextState::own_memory),
//                          where the PE is this one
//
// What begins in the heap or in a window and ends behind it is refused whatever its length: a lane
// would write over what lies there.
//
// Called, out of line, where a key for the address was looked for in vain.
#pragma once

#include <cstdint>

#include "device/base/order.h"
#include "device/base/scope.h"
#include "device/context.h"
#include "device/detail/drain.h"
#include "device/detail/post.h"
#include "device/detail/resolve.h"
#include "device/transport/ibgda.h"
#include "device/transport/p2p.h"

namespace peal::detail {

/// The end at home of a transfer.
struct Home {
  const void* at;
  const void* first;  // the same; of a tile's row, of the first one
};

/// Up to N*4 bytes of payload, in memory order, in registers.
template <uint32_t N>
struct Payload {
  uint32_t word[N];
};

/// A payload that does not consist of words.
template <uint32_t N>
PEAL_DEVICE_COLD Payload<N> payload_of_bytes(const unsigned char* from, uint32_t bytes) {
  Payload<N> payload{};
  for (uint32_t i = 0; i < N * 4; ++i) {
    if (i < bytes) {
      payload.word[i / 4] |= static_cast<uint32_t>(load_payload(&from[i])) << (8 * (i % 4));
    }
  }
  return payload;
}

template <uint32_t N>
PEAL_DEVICE Payload<N> payload_of(const void* from, uint32_t bytes) {
  if (((static_cast<uint32_t>(reinterpret_cast<uint64_t>(from)) | bytes) & 3) != 0) {
    return payload_of_bytes<N>(static_cast<const unsigned char*>(from), bytes);
  }
  const auto* source = static_cast<const uint32_t*>(from);
  Payload<N> payload{};
  PEAL_UNROLL
  for (uint32_t i = 0; i < N; ++i) {
    if (4 * i < bytes) payload.word[i] = load_payload(&source[i]);
  }
  return payload;
}

/// True if neither heap nor window has the byte at `home`: a lane may load and store there.
PEAL_DEVICE_COLD inline bool lies_anywhere(const ContextFields* ctx, const void* home) {
  return home != nullptr && !names_window(home) && !holds_range(ctx->heap, home, 1) &&
         find_window(ctx->windows, home, 1, Side::kHome).window == nullptr;
}

/// The far end of a transfer by `q` where that is this PE, and the program need not say which of
/// its memory is symmetric; else null.
PEAL_DEVICE std::byte* own_address(const ContextState* state, const mlx5::SendQueue& q,
                                   const mlx5::Remote& remote) {
  const ContextFields& ctx = state->fields;
  if (state->own_memory == 0 || q.peer != static_cast<uint32_t>(ctx.pe)) return nullptr;
  const uint32_t count = load_relaxed<Reach::kSystem>(&ctx.windows->count);
  for (uint32_t i = 0; i < count; ++i) {
    const Window& w = ctx.windows->window[i];
    if (w.rkeys == nullptr || w.rkeys[key_index(ctx, q, ctx.pe)].raw != remote.rkey.raw) continue;
    return w.base + (remote.address - w.iova);
  }
  return nullptr;
}

/// Both ends are here. What the NIC has carried to this PE comes first, as on its queue.
template <Reach R, bool kTogether>
PEAL_DEVICE Status copy_at_home(const ContextState* state, mlx5::SendQueue* q, std::byte* to,
                                const std::byte* from, uint64_t bytes) {
  const Status arrived = settle<R, kTogether>(state, q);
  if (arrived != Status::kOk) return arrived;
  constexpr uint64_t kWord = sizeof(uint64_t);
  const auto apart = reinterpret_cast<uint64_t>(to) | reinterpret_cast<uint64_t>(from);
  const uint64_t in_words = apart % kWord == 0 ? bytes / kWord * kWord : 0;
  uint64_t at = 0;
  PEAL_NO_UNROLL
  for (; at < in_words; at += kWord) {
    store_payload(reinterpret_cast<uint64_t*>(to + at),
                  load_payload(reinterpret_cast<const uint64_t*>(from + at)));
  }
  PEAL_NO_UNROLL
  for (; at < bytes; ++at) store_payload(to + at, load_payload(from + at));
  fence_direct_stores<Edge::kM16>();  // edge M16: a NIC may overtake plain stores
  return Status::kOk;
}

PEAL_DEVICE Status refuse_home(ContextState* state, const void* at, uint64_t bytes, Doing doing) {
  return refuse(state, Status::kNotRegistered,
                Asked{.address = at, .bytes = bytes, .pe = state->fields.pe, .doing = doing});
}

/// Posts up to mlx5::kAnywhereBytes in pieces, inside work requests: the source may be reused.
template <Reach R, bool kTogether>
PEAL_DEVICE Status put_in_pieces(mlx5::SendQueue& q, const mlx5::Remote& to, const std::byte* src,
                                 uint64_t bytes) {
  constexpr uint64_t kPiece = 24;  // the most whole words that a request carries
  Status status = Status::kOk;
  for (uint64_t at = 0; at < bytes && status == Status::kOk; at += kPiece) {
    const auto part = static_cast<uint32_t>(bytes - at < kPiece ? bytes - at : kPiece);
    const Payload<7> payload = payload_of<7>(src + at, part);
    const mlx5::Remote there{to.address + at, to.rkey};
    const Ticket one = post<R, kTogether>(q, [there, payload, part](const mlx5::Header& h) {
      return mlx5::compose_write_inline(h, there, payload.word, part);
    });
    status = one.status;
  }
  return status;
}

/// Fetches up to mlx5::kAnywhereBytes: 8 to a cell, all of them under way at once. All tickets are
/// taken before any is waited for, so that who holds cells waits for earlier tickets alone.
template <Reach R, bool kTogether>
PEAL_DEVICE Status get_by_cells(const ContextFields& ctx, mlx5::SendQueue& q,
                                const mlx5::Remote& at, std::byte* dst, uint64_t bytes) {
  constexpr uint64_t kCell = sizeof(uint64_t);
  const auto cells = static_cast<uint32_t>((bytes + kCell - 1) / kCell);
  const uint64_t first = ibgda::Landing::take_tickets<R>(q, cells);
  for (uint32_t i = 0; i < cells; ++i) {
    const Status free = ibgda::Landing(q, first + i).template await_turn<R>();
    if (free != Status::kOk) return free;
  }
  Ticket last{};
  for (uint32_t i = 0; i < cells && last.status == Status::kOk; ++i) {
    const uint64_t left = bytes - i * kCell;
    const auto part = static_cast<uint32_t>(left < kCell ? left : kCell);
    const mlx5::Remote there{at.address + i * kCell, at.rkey};
    const mlx5::Local cell = ibgda::Landing(q, first + i).local();
    last = post<R, kTogether>(q, [there, cell, part](const mlx5::Header& h) {
      return mlx5::compose_read(h, there, cell, part);
    });
  }
  // Queues lie where the heap does, and so do their landing cells.
  const mlx5::Local end = ibgda::Landing(q, first + cells - 1).local();
  const Status status = ibgda::wait<R>(landed<R, kTogether>(q, ctx.heap.dumped, end, last));
  for (uint32_t i = 0; i < cells; ++i) {
    const ibgda::Landing cell(q, first + i);
    const uint64_t value = status == Status::kOk ? cell.value() : 0;
    const uint64_t behind = status == Status::kOk ? bytes : 0;
    for (uint64_t byte = i * kCell; byte < behind && byte < (i + 1) * kCell; ++byte) {
      store_payload(dst + byte, static_cast<std::byte>(value >> (8 * (byte % kCell))));
    }
    cell.template give_back<R>();
  }
  return status;
}

/// A transfer by `q` whose end at home is `here`, in no window.
template <p2p::Direction kDirection, Reach R, bool kTogether>
PEAL_DEVICE_COLD Status move_by_lane(ContextState* state, mlx5::SendQueue* q, mlx5::Remote remote,
                                     Home home, uint64_t bytes) {
  constexpr bool kPut = kDirection == p2p::Direction::kPut;
  const ContextFields& ctx = state->fields;
  auto* const here = static_cast<std::byte*>(const_cast<void*>(home.at));
  const bool anywhere = lies_anywhere(&ctx, home.first);
  if (anywhere && bytes <= mlx5::kAnywhereBytes) {
    return kPut ? put_in_pieces<R, kTogether>(*q, remote, here, bytes)
                : get_by_cells<R, kTogether>(ctx, *q, remote, here, bytes);
  }
  std::byte* const there = anywhere ? own_address(state, *q, remote) : nullptr;
  if (there != nullptr) {
    return copy_at_home<R, kTogether>(state, q, kPut ? there : here, kPut ? here : there, bytes);
  }
  return refuse_home(state, here, bytes, kPut ? Doing::kPutSource : Doing::kGetDestination);
}

}  // namespace peal::detail
