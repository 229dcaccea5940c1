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
#include "device/detail/dump.h"
#include "device/detail/resolve.h"
#include "device/nic/post.h"
#include "device/transport/model.h"
#include "device/transport/p2p.h"

namespace peal::detail {

/// The end at home of a tile's row. Of any other transfer it is an address.
struct RowAtHome {
  const void* at;
  const void* first;  // of the tile's first row
};
PEAL_DEVICE const void* address_of(const RowAtHome& row) { return row.at; }
PEAL_DEVICE const void* address_of(const void* home) { return home; }
PEAL_DEVICE const void* begin_of(const RowAtHome& row) { return row.first; }
PEAL_DEVICE const void* begin_of(const void* home) { return home; }

/// A transfer by `q` whose end at home is in no window. Handed on in memory: who calls has no
/// registers left (base/call.h).
struct ByLane {
  ContextState* state;
  SendQueue* q;
  nic::Remote remote;
  std::byte* home;
  const void* begin;  // of what `home` is a part of
  uint64_t bytes;
  uint64_t done = 0;           // bytes that were posted
  uint64_t first = 0;          // ticket of the first landing cell
  Ticket last{};               // of the last post
  std::byte* there = nullptr;  // where both ends are this PE's: the remote one
};

/// Up to N*4 bytes of payload, in memory order, in registers.
template <uint32_t N>
struct InlineWords {
  uint32_t word[N];
};

/// A payload that does not consist of words.
template <uint32_t N>
PEAL_DEVICE_COLD InlineWords<N> words_of_bytes(const unsigned char* from, uint32_t bytes) {
  InlineWords<N> payload{};
  for (uint32_t i = 0; i < N * 4; ++i) {
    if (i < bytes) {
      payload.word[i / 4] |= static_cast<uint32_t>(load_payload(&from[i])) << (8 * (i % 4));
    }
  }
  return payload;
}

template <uint32_t N>
PEAL_DEVICE InlineWords<N> payload_of(const void* from, uint32_t bytes) {
  if (((static_cast<uint32_t>(reinterpret_cast<uint64_t>(from)) | bytes) & 3) != 0) {
    return words_of_bytes<N>(static_cast<const unsigned char*>(from), bytes);
  }
  const auto* source = static_cast<const uint32_t*>(from);
  InlineWords<N> payload{};
  PEAL_UNROLL
  for (uint32_t i = 0; i < N; ++i) {
    if (4 * i < bytes) payload.word[i] = load_payload(&source[i]);
  }
  return payload;
}

/// The request that puts up to N*4 bytes at `from`, which may be changed then.
template <uint32_t N>
PEAL_DEVICE nic::WriteInline<N> inline_write(const nic::Remote& to, const void* from,
                                             uint32_t bytes) {
  return nic::write_inline(to, payload_of<N>(from, bytes).word, bytes);
}

/// True if neither heap nor window has the byte at `home`: a lane may load and store there.
PEAL_DEVICE_COLD inline bool lies_anywhere(const ContextFields* ctx, const void* home) {
  return home != nullptr && !names_window(home) && !in_heap(*ctx, home, 1) &&
         find_window(ctx->windows, home, 1, Side::kHome).window == nullptr;
}

/// The remote end of a transfer where that is this PE, and the program need not say which of its
/// memory is symmetric; else null.
PEAL_DEVICE_COLD inline std::byte* own_address(ByLane* move) {
  const ContextFields& ctx = move->state->fields;
  const SendQueue& q = *move->q;
  const bool may = load_relaxed<Reach::kGpu>(&move->state->own_memory) != 0;
  if (!may || q.peer != static_cast<uint32_t>(ctx.pe)) return nullptr;
  const uint32_t count = load_relaxed<Reach::kSystem>(&ctx.windows->count);
  for (uint32_t i = 0; i < count; ++i) {
    const Window& w = ctx.windows->window[i];
    if (w.rkeys == nullptr || w.rkeys[key_index(ctx, q, ctx.pe)] != move->remote.key) {
      continue;
    }
    return w.base + (move->remote.address - w.iova);
  }
  return nullptr;
}

/// Both ends are here.
template <bool kPut>
PEAL_DEVICE_COLD void copy_at_home(ByLane* move) {
  std::byte* const to = kPut ? move->there : move->home;
  const std::byte* const from = kPut ? move->home : move->there;
  constexpr uint64_t kWord = sizeof(uint64_t);
  const auto apart = reinterpret_cast<uint64_t>(to) | reinterpret_cast<uint64_t>(from);
  const uint64_t in_words = apart % kWord == 0 ? move->bytes / kWord * kWord : 0;
  uint64_t at = 0;
  PEAL_NO_UNROLL
  for (; at < in_words; at += kWord) {
    store_payload(reinterpret_cast<uint64_t*>(to + at),
                  load_payload(reinterpret_cast<const uint64_t*>(from + at)));
  }
  PEAL_NO_UNROLL
  for (; at < move->bytes; ++at) store_payload(to + at, load_payload(from + at));
  fence_direct_stores<Edge::kStoresBeforeFlag>();  // a NIC may overtake plain stores
}

PEAL_DEVICE Status refuse_home(ContextState* state, const void* at, uint64_t bytes, Call call) {
  return refuse(state, Status::kNotRegistered,
                Asked{.address = at,
                      .bytes = bytes,
                      .pe = state->fields.pe,
                      .call = call,
                      .side = CallSide::kHere});
}

/// Posts up to kAnywhereBytes in pieces, inside work requests: the source may be reused.
template <Reach R, bool kTogether>
PEAL_DEVICE_COLD Status put_in_pieces(ByLane* move) {
  constexpr uint64_t kPiece = 8;  // no word is torn; requests that carry 24 cost registers
  while (move->done < move->bytes && move->last.status == Status::kOk) {
    const uint64_t left = move->bytes - move->done;
    const auto part = static_cast<uint32_t>(left < kPiece ? left : kPiece);
    const nic::Remote there{move->remote.address + move->done, move->remote.key};
    const auto write = inline_write<3>(there, move->home + move->done, part);
    move->done += part;
    in_memory(move);
    move->last = nic::post_by_lane<R, kTogether>(*move->q, write);
    in_memory(move);
  }
  return move->last.status;
}

/// Posts the READs of a get by cells, 8 bytes each.
template <Reach R, bool kTogether>
PEAL_DEVICE_COLD void fetch_to_cells(ByLane* move) {
  constexpr uint64_t kCell = sizeof(uint64_t);
  while (move->done < move->bytes && move->last.status == Status::kOk) {
    const uint64_t left = move->bytes - move->done;
    const auto part = static_cast<uint32_t>(left < kCell ? left : kCell);
    const nic::Remote there{move->remote.address + move->done, move->remote.key};
    const nic::Local cell = nic::Landing(*move->q, move->first + move->done / kCell).local();
    move->done += part;
    in_memory(move);
    move->last = nic::post_by_lane<R, kTogether>(*move->q, nic::Read{there, cell, part});
    in_memory(move);
  }
}

PEAL_DEVICE uint32_t cells_of(const ByLane& move) {
  return static_cast<uint32_t>((move.bytes + sizeof(uint64_t) - 1) / sizeof(uint64_t));
}

/// Waits until its cells are free.
template <Reach R>
PEAL_DEVICE_COLD Status await_cells(ByLane* move) {
  const uint32_t cells = cells_of(*move);
  PEAL_NO_UNROLL
  for (uint32_t i = 0; i < cells; ++i) {
    const Status status = nic::Landing(*move->q, move->first + i).template await_turn<R>();
    if (status != Status::kOk) return status;
  }
  return Status::kOk;
}

/// Waits for the last fetch, and until its data has landed: queues lie where the heap does, and so
/// do their landing cells.
template <Reach R, bool kTogether>
PEAL_DEVICE_COLD Status await_landing(ByLane* move) {
  const uint32_t dumped = move->state->fields.heap.dumped;
  const nic::Local end = nic::Landing(*move->q, move->first + cells_of(*move) - 1).local();
  return nic::wait<R>(landed<R, kTogether>(*move->q, dumped, end, move->last));
}

/// Stores what is in the cells, if the fetch has ended well, and gives them back.
template <Reach R>
PEAL_DEVICE_COLD void empty_cells(ByLane* move, bool stores) {
  constexpr uint64_t kCell = sizeof(uint64_t);
  const uint32_t cells = cells_of(*move);
  PEAL_NO_UNROLL
  for (uint32_t i = 0; i < cells; ++i) {
    const nic::Landing cell(*move->q, move->first + i);
    const uint64_t left = move->bytes - i * kCell;
    uint64_t value = stores ? cell.value() : 0;
    const uint64_t bytes = !stores ? 0 : left < kCell ? left : kCell;
    PEAL_NO_UNROLL
    for (uint64_t byte = 0; byte < bytes; ++byte) {
      store_payload(move->home + i * kCell + byte, static_cast<std::byte>(value));
      value >>= 8;
    }
    cell.template give_back<R>();
  }
}

/// Fetches up to kAnywhereBytes: 8 to a cell, all of them under way at once. All tickets are
/// taken before any is waited for, so that who holds cells waits for earlier tickets alone.
template <Reach R, bool kTogether>
PEAL_DEVICE_COLD Status get_by_cells(ByLane* move) {
  move->first = nic::take_tickets<R>(*move->q, cells_of(*move));
  Status status = await_cells<R>(move);
  if (status != Status::kOk) return status;
  fetch_to_cells<R, kTogether>(move);
  status = await_landing<R, kTogether>(move);
  empty_cells<R>(move, status == Status::kOk);
  return status;
}

template <Reach R, bool kTogether, Call kCall>
PEAL_DEVICE_COLD Status move_by_lane(ByLane* move) {
  constexpr bool kPut = is_put(kCall);
  const bool anywhere = lies_anywhere(&move->state->fields, move->begin);
  if (anywhere && move->bytes <= kAnywhereBytes) {
    return kPut ? put_in_pieces<R, kTogether>(move) : get_by_cells<R, kTogether>(move);
  }
  move->there = anywhere ? own_address(move) : nullptr;
  if (move->there != nullptr) {
    // What the NIC has carried to this PE comes first, as on its queue.
    const Status arrived = settle<R, kTogether>(move->state, move->q);
    if (arrived == Status::kOk) copy_at_home<kPut>(move);
    return arrived;
  }
  return refuse_home(move->state, move->home, move->bytes, kCall);
}

/// Does a put or get of `bytes` at `there` whose end at home no NIC knows, or refuses it.
template <Reach R, bool kTogether, Call kCall, class Home>
PEAL_DEVICE Status by_lane(ContextState* state, const Destination& there, const Home& home,
                           uint64_t bytes) {
  auto* const at = static_cast<std::byte*>(const_cast<void*>(address_of(home)));
  ByLane move{state, there.queue, there.remote, at, begin_of(home), bytes};
  in_memory(&move);
  return move_by_lane<R, kRarelyTogether<kTogether>, kCall>(&move);
}

}  // namespace peal::detail
