// SPDX-License-Identifier: Apache-2.0
//
// Transfers of tiles as operations (access.h): rows whose beginnings are a pitch apart. iput and
// iget are tiles of one element a row.
//
//   mapped    groups of lanes copy row after row; a group has as many lanes as a row has lines
//   by NIC    a work request for each row, posted by all lanes that may post
//
// A tile is asked for as one range, from its lowest byte to its highest.
#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "device/base/scaled.h"
#include "device/base/scope.h"
#include "device/context.h"
#include "device/detail/access.h"
#include "device/detail/transfer.h"
#include "device/transport/p2p.h"

namespace peal::detail {

/// A tile in bytes.
struct Rows {
  uint64_t count;
  uint64_t bytes;  // of a row
  ptrdiff_t dst_pitch;
  ptrdiff_t src_pitch;
};

PEAL_HD uint64_t magnitude(ptrdiff_t pitch) {
  const auto forwards = static_cast<uint64_t>(pitch);
  return pitch < 0 ? 0 - forwards : forwards;
}

/// The bytes that `pitches` of them span, or kEndless.
PEAL_HD uint64_t span_of(uint64_t pitches, ptrdiff_t pitch) {
  return scaled(pitches, magnitude(pitch));
}

/// Some of a scope's lanes.
struct Lanes {
  uint32_t number;
  uint32_t count;
  PEAL_HD uint32_t rank() const { return number; }
  PEAL_HD uint32_t size() const { return count; }
};

/// Copies rows; each lane of the scope moves its share. Orders nothing.
template <p2p::Direction kDirection, class S>
PEAL_DEVICE_COLD void copy_rows(S scope, std::byte* to, const std::byte* from, Rows rows) {
  const uint32_t size = scope.size();
  const uint64_t lines = (rows.bytes + sizeof(Line) - 1) / sizeof(Line);
  const uint32_t wide = lines < size ? static_cast<uint32_t>(lines) : size;
  const uint32_t groups = size / wide;
  const uint32_t group = scope.rank() / wide;
  const Lanes mine{scope.rank() % wide, wide};
  for (uint64_t row = group; group < groups && row < rows.count; row += groups) {
    const auto at = static_cast<ptrdiff_t>(row);
    p2p::copy<kDirection>(mine, to + at * rows.dst_pitch, from + at * rows.src_pitch, rows.bytes);
  }
}

/// How many lanes of a scope post for themselves: all, but one alone on a queue that is owned.
template <Reach R, class S>
PEAL_DEVICE uint32_t posting_lanes(S scope) {
  return R == Reach::kLane ? 1 : scope.size();
}

/// post_row(), out of line where a scope has several lanes: its registers are not the loop's.
template <Reach R, class Tile>
PEAL_DEVICE_COLD Ticket post_row_elsewhere(const ContextState* state, const Tile& tile,
                                           const Destination& where, uint64_t row) {
  return tile.post_row(static_cast<const BasicContext<R>&>(state->fields), where, row);
}

template <p2p::Direction kDirection>
struct TileTransfer {
  using Answer = Ticket;
  static constexpr bool kVotes = true;
  static constexpr bool kPut = kDirection == p2p::Direction::kPut;

  std::byte* dst;
  const std::byte* src;
  Rows rows;
  int pe;
  Until until;

  PEAL_DEVICE bool nothing() const { return rows.count == 0 || rows.bytes == 0; }
  PEAL_DEVICE ptrdiff_t far_pitch() const { return kPut ? rows.dst_pitch : rows.src_pitch; }
  /// Where the first row begins in the range that is asked for.
  PEAL_DEVICE uint64_t first_row() const {
    return far_pitch() < 0 ? span_of(rows.count - 1, far_pitch()) : 0;
  }

  PEAL_DEVICE Asked asked() const {
    const std::byte* const first = kPut ? dst : src;
    constexpr Call kCall = kPut ? Call::kPut : Call::kGet;
    if (nothing()) return {.address = first, .bytes = 0, .pe = pe, .call = kCall};
    const uint64_t bytes = end_of(span_of(rows.count - 1, far_pitch()), rows.bytes);
    return {.address = first - first_row(), .bytes = bytes, .pe = pe, .call = kCall};
  }
  PEAL_DEVICE CallNote note() const {
    CallNote note = kPut ? note_of(Call::kPut, pe, dst, rows.bytes, src, rows.bytes)
                         : note_of(Call::kGet, pe, src, rows.bytes, dst, rows.bytes);
    note.starts = until == Until::kStarted ? 1 : 0;
    note.rows = rows.count;
    note.there_pitch = kPut ? rows.dst_pitch : rows.src_pitch;
    note.here_pitch = kPut ? rows.src_pitch : rows.dst_pitch;
    return note;
  }
  PEAL_DEVICE bool has_part(Block) const { return true; }

  template <Reach R, class S>
  PEAL_DEVICE Ticket mapped(const BasicContext<R>& ctx, S scope, std::byte* lowest) const {
    if (!nothing()) {
      std::byte* const there = lowest + first_row();
      call_apart<&copy_rows<kDirection, S>>(scope, kPut ? there : dst, kPut ? src : there, rows);
    }
    if (until != Until::kDone) return Ticket{};
    if constexpr (!kPut) return Ticket{nullptr, 0, ended_together(ctx, scope)};
    scope.sync();
    return Ticket{};
  }

  template <Reach R>
  PEAL_DEVICE Ticket post_row(const BasicContext<R>& ctx, Destination where, uint64_t row) const {
    const auto at = static_cast<ptrdiff_t>(row);
    where.remote.address += first_row() + static_cast<uint64_t>(at * far_pitch());
    if constexpr (kPut) {
      return put_bytes<R, true>(ctx, where, RowAtHome{src + at * rows.src_pitch, src}, rows.bytes);
    } else {
      return get_bytes<R, true>(ctx, where, RowAtHome{dst + at * rows.dst_pitch, dst}, rows.bytes);
    }
  }

  template <Reach R, class S>
  PEAL_DEVICE Ticket post_one(const BasicContext<R>& ctx, S, const Destination& where,
                              uint64_t row) const {
    if constexpr (std::is_same_v<S, Thread>) {
      return post_row(ctx, where, row);
    } else {
      return post_row_elsewhere<R>(ctx.state, *this, where, row);
    }
  }

  /// A ticket for what all lanes have posted: what a queue carries completes in order.
  template <Reach R, class S>
  PEAL_DEVICE static Ticket ticket_for_all(S scope, SendQueue* q) {
    return by_leader(scope, [&] {
      uint64_t posted = 0;
      const uint64_t end = load_relaxed<R>(&q->reserved) & kReservedCount;
      const Status status = nic::wait_rung<R>(*q, end, &posted);
      return Ticket{q, posted_last(posted), status};
    });
  }

  template <Reach R, class S>
  PEAL_DEVICE Ticket by_nic(const BasicContext<R>& ctx, S scope, const Destination& where) const {
    if (nothing()) return Ticket{};
    Ticket last{};
    Status refused = Status::kOk;
    const uint32_t lanes = posting_lanes<R>(scope);
    scope.sync();  // kLanesBeforeLeader: what the lanes wrote precedes what any of them posts
    for (uint64_t row = scope.rank();
         scope.rank() < lanes && row < rows.count && refused == Status::kOk; row += lanes) {
      const Ticket one = post_one(ctx, scope, where, row);
      refused = one.status;
      if (refused == Status::kOk && one.queue != nullptr) last = one;
    }
    const Status first = first_failure(scope, refused);
    if (first == Status::kOk && until == Until::kStarted) {
      return ticket_for_all<R>(scope, where.queue);
    }
    const bool gone = kPut && rows.bytes <= nic::Model::kMaxInlineBytes;
    if (first == Status::kOk && gone) return Ticket{};
    // Behind a row that was refused, too: of a call that failed nothing is under way.
    const Status arrived = nic::wait<R>(last);
    return Ticket{nullptr, 0, first_failure(scope, first != Status::kOk ? first : arrived)};
  }
};

/// From the first element of the first row to the first of the last one, in bytes.
template <class T>
PEAL_HD uint64_t spread_of(const Tile& tile, ptrdiff_t pitch) {
  return scaled(tile.rows - 1, bytes_of<T>(magnitude(pitch)));
}

/// A tile without gaps is one row. Of one whose rows are further apart at either side than
/// addresses reach, one row that no memory holds.
template <class T>
PEAL_DEVICE Rows rows_of(const Tile& tile) {
  const uint64_t bytes = bytes_of<T>(tile.columns);
  if (tile.rows == 0 || bytes == 0) return {};
  constexpr uint64_t kFurthest = kEndless / 2;
  if (spread_of<T>(tile, tile.pitch.dst) > kFurthest ||
      spread_of<T>(tile, tile.pitch.src) > kFurthest) {
    return {1, kEndless, 0, 0};
  }
  if (tile.rows == 1) return {1, bytes, 0, 0};
  const auto each = static_cast<ptrdiff_t>(bytes_of<T>(1));
  const Rows rows{tile.rows, bytes, tile.pitch.dst * each, tile.pitch.src * each};
  const auto dense = static_cast<ptrdiff_t>(bytes);
  if (rows.dst_pitch != dense || rows.src_pitch != dense) return rows;
  return {1, scaled(rows.count, bytes), dense, dense};
}

template <Until kUntil, Reach R, class S, class T>
PEAL_DEVICE Ticket put_tile(const BasicContext<R>& ctx, S scope, T* dst, const T* src,
                            const Tile& tile, int pe) {
  const TileTransfer<p2p::Direction::kPut> put{reinterpret_cast<std::byte*>(dst),
                                               reinterpret_cast<const std::byte*>(src),
                                               rows_of<T>(tile), pe, kUntil};
  return checked_access(ctx, scope, put);
}

template <Until kUntil, Reach R, class S, class T>
PEAL_DEVICE Ticket get_tile(const BasicContext<R>& ctx, S scope, T* dst, const T* src,
                            const Tile& tile, int pe) {
  const TileTransfer<p2p::Direction::kGet> get{reinterpret_cast<std::byte*>(dst),
                                               reinterpret_cast<const std::byte*>(src),
                                               rows_of<T>(tile), pe, kUntil};
  return checked_access(ctx, scope, get);
}

}  // namespace peal::detail
