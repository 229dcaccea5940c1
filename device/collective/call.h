// SPDX-License-Identifier: Apache-2.0
//
// What every collective call begins and ends with: whether this PE may make it, its part of the
// team's memory, meetings with the other members.
#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "device/base/scope.h"
#include "device/collective/meet.h"
#include "device/context.h"
#include "device/detail/drain.h"
#include "device/detail/resolve.h"
#include "device/shared/call_names.h"
#include "device/shared/team_memory.h"
#include "device/team.h"

namespace peal::collective {

/// The lanes of the group that are in one block: those that can synchronise.
PEAL_DEVICE Block lanes_of(WholeGrid) { return {}; }  // and of a LaunchedGrid
template <AnyScope S>
PEAL_DEVICE S lanes_of(S scope) {
  return scope;
}

/// The blocks of a grid that have a channel, and share out what is long.
struct Crew {
  uint32_t blocks;

  PEAL_DEVICE static uint32_t rank() { return WholeGrid::rank(); }
  PEAL_DEVICE uint32_t size() const { return blocks * threads_in_block(); }
};
PEAL_DEVICE Crew crew_of(WholeGrid, uint32_t channels) {
  return {blocks_in_grid() < channels ? blocks_in_grid() : channels};
}
template <AnyScope S>
PEAL_DEVICE S crew_of(S scope, uint32_t) {
  return scope;
}

PEAL_DEVICE_COLD inline std::byte* find_in_window(ContextState* state, const void* symmetric,
                                                  int pe) {
  return static_cast<std::byte*>(detail::find_mapped(state->fields, {symmetric, 1, pe}));
}

/// A call under way.
template <Reach R>
struct TeamCall {
  const BasicContext<R>& ctx;
  const Team& team;
  Part part;
  uint32_t channel;

  PEAL_DEVICE uint32_t members() const { return static_cast<uint32_t>(team.size); }
  PEAL_DEVICE uint32_t rank() const { return static_cast<uint32_t>(team.rank); }
  /// The member `ahead` places behind this one, in a circle.
  PEAL_DEVICE uint32_t after(uint32_t ahead) const {
    const uint32_t member = rank() + ahead;
    return member < members() ? member : member - members();
  }
  /// Where `symmetric` is mapped at a member; only where all are.
  template <class T>
  PEAL_DEVICE T* at(uint32_t member, T* symmetric) const {
    const int pe = world_pe(team, static_cast<int>(member));
    if (pe == ctx.pe) return symmetric;
    using Byte = std::conditional_t<std::is_const_v<T>, const std::byte, std::byte>;
    const uint64_t offset = detail::offset_in(ctx.heap, symmetric);
    std::byte* const there = offset < ctx.heap.bytes ? detail::heap_of(ctx, pe) + offset
                                                     : find_in_window(ctx.state, symmetric, pe);
    return reinterpret_cast<T*>(static_cast<Byte*>(there));
  }
};

template <Reach R, class S>
PEAL_DEVICE TeamCall<R> begin(const BasicContext<R>& ctx, S, const Team& team) {
  const uint32_t channel = AnyGrid<S> ? block_in_grid() : 0;
  return {ctx, team, Part::of(team, ctx.slot), channel};
}

/// kOk where this PE may make `call` of the team on this context, and `root` is a member.
template <class S>
PEAL_DEVICE Status check(const ContextFields& ctx, S, const Team& team, Call call, int root = 0) {
  if constexpr (std::is_same_v<S, WholeGrid>) require_all_blocks(call);
  if (team.rank < 0 || ctx.slot >= team.contexts) {
    return detail::refuse(
        ctx.state, Status::kBadTeam,
        {.address = team.memory, .bytes = team.contexts, .pe = ctx.pe, .call = call});
  }
  if (root < 0 || root >= team.size) {
    return detail::refuse(ctx.state, Status::kBadPe,
                          {.address = team.memory, .bytes = 0, .pe = root, .call = call});
  }
  return Status::kOk;
}

/// One lane meets the other members, all of them mapped, after what the lanes stored before: edge
/// E. `aligns`: see MeetingChannel.
template <Edge E, Reach R>
PEAL_DEVICE Status meet_mapped(const TeamCall<R>& call, uint32_t signature, bool aligns) {
  const ChannelCounters& counters = call.part.counters(call.channel);
  // Looked up while the fence waits.
  const Status refused = refusal(counters);
  const uint32_t epoch = load_relaxed<Reach::kGpu>(&counters.meetings) + 1;
  fence_direct_stores<E>();
  if (refused != Status::kOk) return refused;
  return meet<true>(call.ctx, call.team, call.part, {call.channel, aligns}, epoch, signature);
}

/// Every member has begun this call and means the same by it. By one scope, or a block of a grid.
template <bool kMapped, Reach R, class S>
PEAL_DEVICE Status meet_before(const TeamCall<R>& call, S scope, uint32_t signature) {
  return by_leader(lanes_of(scope), [&] {
    if constexpr (kMapped) {
      const bool alone = !AnyGrid<S> || blocks_in_grid() == 1;
      return meet_mapped<Edge::kStoresBeforeMeeting>(call, signature, alone);
    }
    return call_apart<&meet_by_nic<R>>(call.ctx.state, &call.team, false, signature);
  });
}

/// What the lanes stored and posted has arrived at every member.
template <bool kMapped, Reach R, class S>
PEAL_DEVICE Status meet_after(const TeamCall<R>& call, S scope, Status status) {
  const Status mine = first_failure(lanes_of(scope), status);
  return by_leader(lanes_of(scope), [&] {
    // Here all hear of counts that differ.
    const uint32_t signature = mine == Status::kMismatch ? kDisagree : kArrived;
    Status met = Status::kOk;
    if constexpr (kMapped) {
      met = meet_mapped<Edge::kStoresBeforeFlag>(call, signature, false);
    } else {
      met = call_apart<&meet_by_nic<R>>(call.ctx.state, &call.team, true, signature);
    }
    return mine != Status::kOk ? mine : met;
  });
}

/// All blocks of the grid are done with the call, and answer the same: what failed in one of them.
/// kBlockBeforeGrid: what a block stored, and what it learned of other members, is there for all.
/// `began`: see BlockFailure.
template <Reach R>
PEAL_DEVICE Status end_of_grid(const TeamCall<R>& call, Status status, bool began = true) {
  const Status mine = first_failure(block, status);
  if (blocks_in_grid() == 1) return mine;
  return by_leader(block, [&] {
    ChannelCounters& counters = call.part.counters(0);
    const uint32_t done = load_relaxed<Reach::kGpu>(&counters.done);
    if (mine != Status::kOk) {
      raise_to<Reach::kGpu>(&counters.failed, BlockFailure::of(mine, began).word);
    }
    if (fetch_add<Reach::kGpu, Edge::kBlockBeforeGrid>(&counters.arrived, 1u) + 1 ==
        blocks_in_grid()) {
      const BlockFailure failed{load_relaxed<Reach::kGpu>(&counters.failed)};
      if (failed.never_began() && failed.status() == Status::kMismatch) {
        align_meetings<R>(call.part);
      }
      store_relaxed<Reach::kGpu>(&counters.outcome, static_cast<uint32_t>(failed.status()));
      store_relaxed<Reach::kGpu>(&counters.failed, 0u);
      store_relaxed<Reach::kGpu>(&counters.arrived, 0u);
      store_release<Reach::kGpu>(&counters.done, done + 1);
      return failed.status();
    }
    const Status waited = detail::spin(
        call.ctx,
        [&] { return load_acquire<Reach::kGpu, Edge::kGridBeforeBlock>(&counters.done) != done; },
        detail::WaitOf<WaitKind::kGrid>{});
    if (waited != Status::kOk) return mine != Status::kOk ? mine : waited;
    return static_cast<Status>(load_relaxed<Reach::kGpu>(&counters.outcome));
  });
}

/// What one scope does: of a grid block 0, once all blocks have come, and for all of them. `mine`:
/// how what another block did before it came went.
template <Reach R, class S, class Op>
PEAL_DEVICE Status by_one(const TeamCall<R>& call, S, const Op& op, Status mine = Status::kOk) {
  if constexpr (!std::is_same_v<S, WholeGrid>) {
    return op();
  } else {
    if (call.channel != 0) return end_of_grid(call, mine);
    if (blocks_in_grid() == 1) return op();
    const ChannelCounters& counters = call.part.counters(0);
    const Status come = by_leader(block, [&] {
      return detail::spin(
          call.ctx,
          [&] {
            return load_acquire<Reach::kGpu, Edge::kBlockBeforeGrid>(&counters.arrived) + 1 ==
                   blocks_in_grid();
          },
          detail::WaitOf<WaitKind::kGrid>{});
    });
    return end_of_grid(call, come == Status::kOk ? op() : come);
  }
}

}  // namespace peal::collective
