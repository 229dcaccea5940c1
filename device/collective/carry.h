// SPDX-License-Identifier: Apache-2.0
//
// Short messages of members that a NIC is between: a meeting that carries them. In each round a
// member passes on all blocks that it has so far, and the words of the meeting travel behind them
// on the same way:
//
//   one round for up to 8 members     all send their block to all
//   another, to 8, 16, ... ahead      all send the 8 blocks that they have
//
// Afterwards everybody has everything, knows that all have begun the call, and that they mean the
// same by it. A block lies at one place of the workspace at all members, and in one of two sets,
// used in turn: a member that has met in epoch e knows that all are done with e - 1, whose set
// e + 1 uses (kTakenBeforeReuse). What is sent is sent from there, so nobody waits for completions.
#pragma once

#include <cstdint>

#include "device/base/call.h"
#include "device/collective/call.h"
#include "device/collective/move.h"
#include "device/detail/barrier.h"
#include "device/detail/signal.h"
#include "device/detail/transfer.h"

namespace peal::collective {

/// What a meeting carries: a block of `bytes` bytes of each member, or of member `only` alone.
struct Cargo {
  const std::byte* src;  // of this PE's
  uint64_t bytes;
  int32_t only = -1;

  PEAL_DEVICE uint64_t stride() const {
    return (bytes + sizeof(Line) - 1) / sizeof(Line) * sizeof(Line);
  }
  /// Where member `member`'s block lies in a set.
  PEAL_DEVICE uint64_t place(uint32_t member) const { return only < 0 ? member * stride() : 0; }
  /// A set of the workspace is large enough.
  PEAL_DEVICE bool fits(const Part& part) const {
    const uint64_t blocks = only < 0 ? part.members : 1;
    return bytes <= part.set_bytes() && blocks * stride() <= part.set_bytes();
  }
};

/// Some bytes of a set.
struct Stretch {
  std::byte* at;
  uint64_t bytes;
};
/// What goes to one member: blocks that lie in a row, but for the end of the set.
struct Freight {
  Stretch stretch[2];
};

/// The blocks of this member and of those before it that somebody `ahead` of it lacks, in a round
/// of `distance`.
PEAL_DEVICE Freight freight_for(const Cargo& cargo, std::byte* set, const Team& team,
                                uint32_t distance, uint32_t ahead) {
  const auto members = static_cast<uint32_t>(team.size);
  const auto rank = static_cast<uint32_t>(team.rank);
  const uint32_t count = distance < members - ahead ? distance : members - ahead;
  if (cargo.only >= 0) {
    const auto only = static_cast<uint32_t>(cargo.only);
    const uint32_t behind = rank >= only ? rank - only : rank + members - only;
    return {{{set, behind < count ? cargo.bytes : 0}, {nullptr, 0}}};
  }
  // The last of several blocks in a row goes without its padding.
  const auto stretch = [&](uint32_t first, uint32_t blocks) {
    return Stretch{set + cargo.place(first), (blocks - 1) * cargo.stride() + cargo.bytes};
  };
  if (count <= rank + 1) return {{stretch(rank + 1 - count, count), {nullptr, 0}}};
  const uint32_t wrapped = count - rank - 1;
  return {{stretch(0, rank + 1), stretch(members - wrapped, wrapped)}};
}

/// Tells a PE of a meeting. Where the NIC reaches it the freight goes to the same place there, and
/// the word behind it on one queue, so that the peer executes it behind the data: kDataBeforeWord.
template <Reach R>
PEAL_DEVICE_COLD Status tell_behind(const ContextState* state, Freight freight, uint64_t* word,
                                    uint64_t value, int pe) {
  const auto& ctx = static_cast<const BasicContext<R>&>(state->fields);
  if (freight.stretch[0].bytes == 0 || detail::heap_of(ctx, pe) != nullptr) {
    return detail::set_flag(ctx, word, value, pe);
  }
  SendQueue& q = *detail::flag_queue(ctx, static_cast<uint32_t>(pe));
  const uint32_t key = detail::key_index(ctx, q, pe);
  const auto put = [&](const Stretch& stretch, const auto&... after) {
    const nic::Remote to{detail::offset_in(ctx.heap, stretch.at), ctx.heap.rkeys[key]};
    return detail::put_bytes<R, true>(ctx, {nullptr, &q, to, Status::kOk}, stretch.at,
                                      stretch.bytes, after...);
  };
  if (freight.stretch[1].bytes != 0) {
    const Status sent = put(freight.stretch[1]).status;
    if (sent != Status::kOk) return sent;
  }
  const NicKey* const keys = weakened(Edge::kDataBeforeWord) ? ctx.heap.rkeys : ctx.heap.word_rkeys;
  const nic::Remote at{detail::offset_in(ctx.heap, word), keys[key]};
  return detail::with_set(ctx, at, value,
                          [&](const auto& request) { return put(freight.stretch[0], request); })
      .status;
}

/// Each lane's part of what goes to members that are mapped; whether there are any.
template <Reach R, AnyScope S>
PEAL_DEVICE bool store_freight(const BasicContext<R>& ctx, S scope, const Team& team,
                               const Cargo& cargo, std::byte* set, uint32_t distance) {
  bool stored = false;
  for (uint32_t i = 1; i < kSyncFan && i * distance < static_cast<uint32_t>(team.size); ++i) {
    const int ahead = team.rank + static_cast<int>(i * distance);
    const int pe = world_pe(team, ahead < team.size ? ahead : ahead - team.size);
    std::byte* const there = detail::heap_of(ctx, pe);
    if (there == nullptr) continue;
    stored = true;
    for (const Stretch& stretch : freight_for(cargo, set, team, distance, i * distance).stretch) {
      if (stretch.bytes == 0) continue;
      p2p::copy<p2p::Direction::kPut>(scope, there + detail::offset_in(ctx.heap, stretch.at),
                                      stretch.at, stretch.bytes);
    }
  }
  return stored;
}

/// What a meeting has brought: of kOk every member's block, in `set`, for all lanes.
struct Carried {
  const std::byte* set;
  Status status;
};

template <Reach R, AnyScope S>
PEAL_DEVICE_COLD Carried carry_by_nic(const ContextState* state, S scope, Team team, Cargo cargo,
                                      uint32_t signature) {
  const auto& ctx = static_cast<const BasicContext<R>&>(state->fields);
  const Part part = Part::of(team, ctx.slot);
  ChannelCounters& counters = part.counters(0);
  const Status refused = refusal(counters);
  if (refused != Status::kOk) return {nullptr, refused};
  const uint32_t epoch = load_relaxed<Reach::kGpu>(&counters.meetings) + 1;
  std::byte* const set = part.carried(epoch);
  scope.sync();  // kLanesBeforeLeader: the lanes' earlier stores to the source
  if (cargo.only < 0 || cargo.only == team.rank) {
    copy_beside(scope, set + cargo.place(static_cast<uint32_t>(team.rank)), cargo.src, cargo.bytes);
  }
  auto meeting = Meeting<false, R>::of(ctx, team, part, 0, epoch, signature);
  Status met = Status::kOk;
  scope.sync();  // and theirs to the block, which any of them may store at another member
  for (uint32_t distance = 1; distance < part.members; distance *= kSyncFan) {
    const bool stored = store_freight(ctx, scope, team, cargo, set, distance);
    met = by_leader(scope, [&] {
      store_relaxed<Reach::kGpu>(&counters.meetings, epoch);
      if (stored) fence_direct_stores<Edge::kStoresBeforeFlag>();
      meeting.round([&](uint64_t* word, uint64_t value, int pe, uint32_t ahead) {
        return tell_behind<R>(state, freight_for(cargo, set, team, distance, ahead), word, value,
                              pe);
      });
      return meeting.outcome();
    });
  }
  return {set, met};
}

}  // namespace peal::collective
