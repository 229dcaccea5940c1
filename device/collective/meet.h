// SPDX-License-Identifier: Apache-2.0
//
// Meeting the other members of a team: dissemination (device/detail/disseminate.h) over words that
// carry a signature of the call beside its epoch. Where two members call with other arguments
// every member hears of it in that meeting, and pays nothing for it where all agree.
#pragma once

#include <cstdint>

#include "device/base/call.h"
#include "device/detail/barrier.h"
#include "device/shared/team_memory.h"
#include "device/team.h"

namespace peal::collective {

/// Signatures that no call has: of an end of a call, and of members that disagree.
inline constexpr uint32_t kArrived = 1;
inline constexpr uint32_t kDisagree = 0;

/// What the members must agree on, in 32 bits, never kArrived or kDisagree: two calls that differ
/// have the same one in one of 2^32 cases.
class Signature {
 public:
  PEAL_DEVICE explicit Signature(uint32_t kind) : hash_(kind + 1) {}
  PEAL_DEVICE Signature& with(uint64_t argument) {
    hash_ = (hash_ ^ argument) * 0x9e3779b97f4a7c15u;
    hash_ ^= hash_ >> 32;
    return *this;
  }
  PEAL_DEVICE uint32_t value() const {
    const auto low = static_cast<uint32_t>(hash_);
    return low <= kArrived ? low + 2 : low;
  }

 private:
  uint64_t hash_;
};

/// Why the host lets no call be made any more, or kOk.
PEAL_DEVICE Status refusal(const ChannelCounters& counters) {
  return static_cast<Status>(load_relaxed<Reach::kGpu>(&counters.refused));
}

/// Tells a member of a meeting: by a store where all members are mapped, else as barriers do.
template <bool kMapped, Reach R>
PEAL_DEVICE Status tell(const BasicContext<R>& ctx, uint64_t* word, uint64_t value, int pe) {
  if constexpr (!kMapped) return detail::set_flag(ctx, word, value, pe);
  std::byte* const there = detail::heap_of(ctx, pe) + detail::offset_in(ctx.heap, word);
  store_relaxed<Reach::kSystem>(reinterpret_cast<uint64_t*>(there), value);
  return Status::kOk;
}

/// A meeting under way, round by round. By one lane.
/// The next meeting may be of another block, whose words come on another queue: they are of the
/// other set, and this one is used again when all have seen what is sent here.
template <bool kMapped, Reach R>
struct Meeting {
  const BasicContext<R>& ctx;
  const Team& team;
  uint32_t epoch;
  uint32_t signature;
  const uint32_t* failed;  // BlockFailure of another block of the grid: this one waits no more
  detail::Dissemination rounds;

  PEAL_DEVICE static Meeting of(const BasicContext<R>& ctx, const Team& team, const Part& part,
                                uint32_t channel, uint32_t epoch, uint32_t signature) {
    return {ctx,
            team,
            epoch,
            signature,
            &part.counters(0).failed,
            {static_cast<uint32_t>(team.rank), static_cast<uint32_t>(team.size),
             part.arrivals(channel, epoch)}};
  }

  /// Tells by tell(word, value, pe, ahead).
  template <class Tell>
  PEAL_DEVICE void round(const Tell& tell) {
    rounds.round(telling(tell), hearing());
  }
  template <class Tell>
  PEAL_DEVICE void all_rounds(const Tell& tell) {
    (void)rounds.all_rounds(telling(tell), hearing());
  }
  PEAL_DEVICE Status outcome() const {
    if (rounds.first != Status::kOk) return rounds.first;
    return signature == kDisagree ? Status::kMismatch : Status::kOk;
  }

 private:
  template <class Tell>
  PEAL_DEVICE auto telling(const Tell& tell) {
    return [this, &tell](uint64_t* word, uint32_t member, uint32_t ahead) {
      return tell(word, uint64_t{epoch} << 32 | signature, pe_of(member), ahead);
    };
  }
  PEAL_DEVICE auto hearing() {
    return [this](const uint64_t* word, uint32_t member) {
      uint32_t theirs = kDisagree;
      const Status heard = hear(word, pe_of(member), &theirs);
      if (heard != Status::kOk || theirs != signature) signature = kDisagree;
      return heard;
    };
  }
  /// Why another block's failure ends this wait, or kOk. Where a call has begun in one block it
  /// begins in all: who left the first meeting of it would make one less than the other members.
  /// All come to the meeting at its end, too, even where counts differed, and store until then.
  PEAL_DEVICE Status failed_beside() const {
    const BlockFailure beside{load_relaxed<Reach::kGpu>(failed)};
    const bool all_come = signature > kArrived || beside.status() == Status::kMismatch;
    return !beside.never_began() && all_come ? Status::kOk : beside.status();
  }
  /// Waits until PE `pe` has told of this meeting; `theirs` is the signature it told.
  PEAL_DEVICE Status hear(const uint64_t* word, int pe, uint32_t* theirs) const {
    const auto heard = [&](uint64_t seen) {
      *theirs = static_cast<uint32_t>(seen);
      return static_cast<uint32_t>(seen >> 32) == epoch;
    };
    const auto what = [&] {
      return detail::wait_for_flag(word, static_cast<uint32_t>(pe), epoch, team.id + 1);
    };
    if constexpr (!kMapped) {
      return detail::wait_flag(ctx, word, static_cast<uint32_t>(pe), heard, what);
    }
    const auto stop = [&] {
      const Status ended = detail::stop_word(ctx);
      return ended != Status::kOk ? ended : failed_beside();
    };
    return wait_noted(
        &ctx.state->waits, ctx.timeout_ns, [&] { return heard(detail::acquire_word(word)); }, stop,
        what);
  }
  PEAL_DEVICE int pe_of(uint32_t member) const { return world_pe(team, static_cast<int>(member)); }
};

/// Sets every channel to channel 0's number of meetings, and the ring to its beginning: of a call
/// that members began differently some blocks made a meeting that others did not, and some left it.
template <Reach R>
PEAL_DEVICE_COLD void align_meetings(Part part) {
  store_relaxed<Reach::kGpu>(&part.counters(0).ring, uint64_t{0});
  const uint32_t made = load_relaxed<Reach::kGpu>(&part.counters(0).meetings);
  for (uint32_t channel = 1; channel < part.channels; ++channel) {
    store_relaxed<Reach::kGpu>(&part.counters(channel).meetings, made);
  }
}

/// By what a block meets, and whether it aligns the channels where members disagree: of a grid that
/// waits for the last of its blocks (end_of_grid).
struct MeetingChannel {
  uint32_t number;
  bool aligns;
};

/// A whole one, number `epoch` of the channel. All that the members have sent one another is taken:
/// rings begin anew.
template <bool kMapped, Reach R>
PEAL_DEVICE Status meet(const BasicContext<R>& ctx, const Team& team, const Part& part,
                        const MeetingChannel& channel, uint32_t epoch, uint32_t signature) {
  ChannelCounters& counters = part.counters(channel.number);
  store_relaxed<Reach::kGpu>(&counters.meetings, epoch);
  auto meeting = Meeting<kMapped, R>::of(ctx, team, part, channel.number, epoch, signature);
  meeting.all_rounds([&](uint64_t* word, uint64_t value, int pe, uint32_t) {
    return tell<kMapped>(ctx, word, value, pe);
  });
  if (meeting.rounds.first == Status::kOk) {
    store_relaxed<Reach::kGpu>(&counters.ring, uint64_t{0});
  }
  const Status met = meeting.outcome();
  if (met == Status::kMismatch && channel.aligns) align_meetings<R>(part);
  return met;
}

template <Reach R>
PEAL_DEVICE_COLD Status drain_by_nic(const ContextState* state) {
  return detail::drain_all(static_cast<const BasicContext<R>&>(state->fields));
}

/// A meeting by the NIC, behind what this PE has posted or its lanes have stored. Once for all
/// calls: what a meeting posts takes ptxas long. The team is in memory: no register holds it
/// while queues are drained.
template <Reach R>
PEAL_DEVICE_COLD Status meet_by_nic(const ContextState* state, const Team* team, bool drains,
                                    uint32_t signature) {
  const auto& ctx = static_cast<const BasicContext<R>&>(state->fields);
  const Status refused = refusal(Part::of(*team, ctx.slot).counters(0));
  if (refused != Status::kOk) return refused;
  Status drained = Status::kOk;
  if (drains) {
    drained = drain_by_nic<R>(state);  // and fences
  } else {
    detail::fence_stores<Edge::kStoresBeforeMeeting>(ctx);
  }
  in_memory(team);
  // Arrive even after a failure: the others did nothing wrong and must not wait for a deadline.
  const Part part = Part::of(*team, ctx.slot);
  const uint32_t epoch = load_relaxed<Reach::kGpu>(&part.counters(0).meetings) + 1;
  const Status met = meet<false>(ctx, *team, part, {0, true}, epoch, signature);
  return drained != Status::kOk ? drained : met;
}

}  // namespace peal::collective
