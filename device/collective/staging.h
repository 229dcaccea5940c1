// SPDX-License-Identifier: Apache-2.0
//
// Long reductions and exchanges in place where some member is reached by the NIC alone: what others
// have is fetched into the team's workspace, piece by piece, worked out there, and put from there.
// An all_reduce that is not in place has more room than that: its destination.
#pragma once

#include <cstdint>

#include "device/collective/call.h"
#include "device/collective/move.h"
#include "device/collective/reduce.h"
#include "device/detail/transfer.h"

namespace peal::collective {

/// Bytes of a piece: one of each member fits the workspace.
template <Reach R>
PEAL_DEVICE uint64_t piece_bytes(const TeamCall<R>& call) {
  return call.part.workspace / call.members() / sizeof(Line) * sizeof(Line);
}

/// Where member `member`'s piece is staged.
template <Reach R>
PEAL_DEVICE std::byte* staged(const TeamCall<R>& call, uint32_t member) {
  return call.part.space() + member * piece_bytes(call);
}

/// Everything the lanes of the scope asked for is here, and everything they sent is away.
template <Reach R, AnyScope S>
PEAL_DEVICE Status finish(const TeamCall<R>& call, S scope, Status status) {
  const Status mine = first_failure(scope, status);
  const Status drained =
      by_leader(scope, [&] { return call_apart<&drain_by_nic<R>>(call.ctx.state); });
  return mine != Status::kOk ? mine : drained;
}

/// Fetches `bytes` bytes at `src` of every member.
template <Reach R, AnyScope S>
PEAL_DEVICE Status fetch_all(const TeamCall<R>& call, S scope, const std::byte* src,
                             uint64_t bytes) {
  Status status = Status::kOk;
  for (uint32_t i = 1; i < call.members(); ++i) {
    const uint32_t member = call.after(i);
    const detail::Get get{staged(call, member), src, bytes,
                          world_pe(call.team, static_cast<int>(member)), detail::Until::kStarted};
    const Status asked = detail::access_peer(call.ctx, scope, get).status;
    if (status == Status::kOk) status = asked;
  }
  copy_beside(scope, staged(call, call.rank()), src, bytes);
  return finish(call, scope, status);
}

/// Makes of `count` staged elements of each member what member i gets, in place of piece i (scans),
/// or in place of piece 0.
template <Call kCall, class T, class Op, Reach R, AnyScope S>
PEAL_DEVICE void fold_staged(const TeamCall<R>& call, S scope, uint64_t count) {
  for (uint64_t e = scope.rank(); e < count; e += scope.size()) {
    const auto at = [&](uint32_t member) { return reinterpret_cast<T*>(staged(call, member)) + e; };
    Folded<T, Op, 1> folded{};
    T now = load_payload(at(0));
    T before = now;
    folded.set(&now);
    for (uint32_t i = 1; i < call.members(); ++i) {
      now = load_payload(at(i));
      folded.add(&now);
      folded.get(&now);
      if (kCall == Call::kScan) store_payload(at(i), now);
      if (kCall == Call::kExclusiveScan) store_payload(at(i), before);
      before = now;
    }
    if (!is_scan(kCall)) store_payload(at(0), now);
  }
  scope.sync();
}

/// Sends a piece of the results to whoever gets one.
template <Reach R, AnyScope S>
PEAL_DEVICE Status send_staged(const TeamCall<R>& call, S scope, std::byte* dst, uint64_t bytes,
                               const Wanted& wanted) {
  Status status = Status::kOk;
  for (uint32_t i = 0; i < call.members(); ++i) {
    const uint32_t member = call.after(i);
    if (wanted.call == Call::kReduce && member != wanted.root) continue;
    if (wanted.call == Call::kReduceScatter && member != call.rank()) continue;
    if (wanted.call == Call::kExclusiveScan && member == 0) continue;
    const std::byte* const from = staged(call, is_scan(wanted.call) ? member : 0);
    if (member == call.rank()) {
      copy_beside(scope, dst, from, bytes);
      continue;
    }
    const Status sent = post_put(call, scope, member, dst, from, bytes);
    if (status == Status::kOk) status = sent;
  }
  return status;
}

/// The owner's share of a reduction. `fold(bytes)` works out a piece.
template <Reach R, AnyScope S, class Fold>
PEAL_DEVICE Status reduce_staged(const TeamCall<R>& call, S scope, const Owned<std::byte>& owned,
                                 const Wanted& wanted, const Fold& fold) {
  const uint64_t piece = piece_bytes(call);
  Status status = Status::kOk;
  for (uint64_t at = 0; at < owned.count && status == Status::kOk; at += piece) {
    const uint64_t bytes = owned.count - at < piece ? owned.count - at : piece;
    status = fetch_all(call, scope, owned.src + owned.from + at, bytes);
    if (status != Status::kOk) break;
    fold(bytes);
    status = send_staged(call, scope, owned.dst + owned.to + at, bytes, wanted);
    status = finish(call, scope, status);
  }
  return status;
}

/// Elements of the longest share, which is member 0's.
template <class T, Reach R>
PEAL_DEVICE uint64_t longest_share(const TeamCall<R>& call, uint64_t count) {
  return Share::of(count, kPerLine<T>, 0, call.members()).count;
}
/// The destination of reduce_in_destination() has room for the shares of all other members.
template <class T, Reach R>
PEAL_DEVICE bool destination_holds(const TeamCall<R>& call, uint64_t count) {
  return longest_share<T>(call, count) * (call.members() - 1) <= count;
}

/// An all_reduce whose source stays: member i's elements for member j go to place i of j's
/// destination (i - 1 behind j), in one message each. An element of the result is where one that it
/// is made of was; that one the same lane reads before.
template <class T, class Op, Reach R, AnyScope S>
PEAL_DEVICE Status reduce_in_destination(const TeamCall<R>& call, S scope, T* dst, const T* src,
                                         uint64_t count) {
  const auto share_of = [&](uint32_t member) {
    return Share::of(count, kPerLine<T>, member, call.members());
  };
  const uint64_t each = share_of(0).count;
  const Share mine = share_of(call.rank());
  Status status = Status::kOk;
  const auto put = [&](uint32_t member, T* to, const T* from, uint64_t elements) {
    const Status sent = post_put(call, scope, member, to, from, elements * sizeof(T));
    if (status == Status::kOk) status = sent;
  };
  for (uint32_t i = 1; i < call.members(); ++i) {
    const uint32_t member = call.after(i);
    const uint32_t place = call.rank() < member ? call.rank() : call.rank() - 1;
    put(member, dst + place * each, src + share_of(member).at, share_of(member).count);
  }
  status = meet_after<false>(call, scope, status);
  for (uint64_t e = scope.rank(); status == Status::kOk && e < mine.count; e += scope.size()) {
    Folded<T, Op, 1> folded{};
    for (uint32_t i = 0; i < call.members(); ++i) {
      const uint32_t place = i < call.rank() ? i : i - 1;
      const T value = load_payload(i == call.rank() ? src + mine.at + e : dst + place * each + e);
      if (i == 0) {
        folded.set(&value);
      } else {
        folded.add(&value);
      }
    }
    T result;
    folded.get(&result);
    store_payload(dst + mine.at + e, result);
  }
  // Nobody's places are read any more. Met also after a failure: the others are here.
  const Status met = meet_before<false>(call, scope, kArrived);
  if (status == Status::kOk) status = met;
  for (uint32_t i = 1; i < call.members() && status == Status::kOk; ++i) {
    put(call.after(i), dst + mine.at, dst + mine.at, mine.count);
  }
  return status;
}

}  // namespace peal::collective
