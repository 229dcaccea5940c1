// SPDX-License-Identifier: Apache-2.0
//
// Short messages between members whose memory is mapped. A unit of 8 bytes travels as a line of two
// words, and each word carries 4 bytes and the number of the exchange, the second one 16 bits of it
// and 16 of the call's signature:
//
//   [ 4 bytes | number | 4 bytes | number, signature ]
//
// So whoever takes a line knows what call it is of, and members that make different ones find out.
// The second word is as new as the first, but for one that was written 2^16 exchanges before, to
// the number, by a store of which half has come.
//
// Whoever waits for data waits for the data itself: there is no flag behind it, so one way over the
// link is all it takes, and nothing needs to be ordered. The lines lie in the team's workspace, a
// ring for each sender; all rings are at the same line. A line may be written again once all have
// read it. Whoever has heard of everybody in an exchange knows that all are done with those before
// it. Where not everybody says something nobody knows: broadcasts in a row go on until the ring is
// used up, and then the members meet (kTakenBeforeReuse).
#pragma once

#include <cstdint>
#include <type_traits>

#include "device/base/order.h"
#include "device/collective/bytes.h"
#include "device/collective/call.h"
#include "device/detail/wait.h"

namespace peal::collective {

/// What an exchange carries to a member.
struct Carries {
  uint64_t bytes;
  uint32_t signature;  // of the call

  PEAL_DEVICE uint32_t units() const { return units_of(bytes); }
};

/// What the second words of lines carry of exchange `tag`, in a call of this signature.
PEAL_DEVICE uint32_t second_tag(uint32_t tag, uint32_t signature) {
  return (tag & 0xffff) | ((signature ^ signature << 16) & 0xffff0000u);
}

/// An exchange under way.
struct Exchange {
  LineRings rings;
  uint32_t number;
  uint32_t first;  // line of unit 0
  Status status;
  uint32_t signature;
  bool by_all;  // every member sends something to every other

  PEAL_DEVICE uint32_t line(uint32_t unit) const {
    const uint32_t at = first + unit;
    return at < rings.lines ? at : at - rings.lines;
  }
};

template <class S>
PEAL_HD LineRings rings_of(const Part& part, S) {
  return std::is_same_v<S, LaunchedGrid> ? part.grid_rings() : part.rings();
}

template <class S>
PEAL_HD uint64_t exchange_limit(const Part& part, S) {
  const bool launched = std::is_same_v<S, LaunchedGrid>;
  return brief_bytes(launched ? part.grid_workspace : part.workspace, part.members);
}

/// Never 0, which is what fresh memory has.
PEAL_DEVICE uint32_t tag_of(uint32_t number) { return number << 1 | 1; }

/// True for one lane, when the lanes of the group have all looked at the counters.
template <Reach R, class S>
PEAL_DEVICE bool all_have_looked(const TeamCall<R>& call, S scope) {
  if (!scope.leader()) return false;
  if constexpr (std::is_same_v<S, LaunchedGrid>) {
    const uint32_t blocks = crew_of(scope, call.team.channels).blocks;
    uint32_t& arrived = call.part.counters(0).arrived;
    if (blocks == 1) return true;
    if (fetch_add<Reach::kGpu, Edge::kBlockBeforeGrid>(&arrived, 1u) + 1 != blocks) return false;
    store_relaxed<Reach::kGpu>(&arrived, 0u);
  }
  return true;
}

/// Members made different calls in this exchange: of one by all they all know.
PEAL_DEVICE void disagree(const Exchange& exchange) {
  const uint32_t word = exchange.number << 1 | (exchange.by_all ? 1 : 0);
  store_relaxed<Reach::kGpu>(exchange.rings.disagreed, word);
}
PEAL_DEVICE bool disagreed(const Exchange& exchange) {
  const uint32_t word = load_relaxed<Reach::kGpu>(exchange.rings.disagreed);
  return word != 0 && (word | 1) == tag_of(exchange.number);
}
/// All disagreed in the one before `number`: they may be at different lines.
PEAL_DEVICE bool all_disagreed_before(const LineRings& rings, uint32_t number) {
  return load_relaxed<Reach::kGpu>(rings.disagreed) == tag_of(number - 1);
}

/// Begins one, once its lines are free. All lanes of the group. `by_all`: every member sends
/// something to every other.
template <Reach R, class S>
PEAL_DEVICE Exchange begin_exchange(const TeamCall<R>& call, S scope, const Carries& carries,
                                    bool by_all) {
  const uint32_t units = carries.units();
  const LineRings rings = rings_of(call.part, scope);
  const RingPlace place = RingPlace::of(load_relaxed<Reach::kGpu>(rings.place));
  const uint32_t number = load_relaxed<Reach::kGpu>(rings.exchanges) + 1;
  Exchange exchange{rings, number, place.line, refusal(call.part.counters(0)), carries.signature,
                    by_all};
  uint32_t unheard = place.unheard + units;
  if (all_disagreed_before(rings, number)) unheard = rings.lines + 1;
  scope.sync();  // kLanesBeforeLeader: what the lanes stored precedes what they send; all have
                 // looked
  if (unheard > rings.lines && !weakened(Edge::kTakenBeforeReuse)) {
    exchange.status = meet_before<true>(call, scope, kArrived);
    exchange.first = 0;
    unheard = units;
  }
  if (all_have_looked(call, scope)) {
    store_relaxed<Reach::kGpu>(rings.exchanges, number);
    const RingPlace next{exchange.line(units), by_all ? units : unheard};
    store_relaxed<Reach::kGpu>(rings.place, next.word());
  }
  return exchange;
}

/// Ends one. Of a launched grid the end of the kernel does, and each lane tells of itself.
template <class S>
PEAL_DEVICE Status end_exchange(S scope, Status status) {
  if constexpr (AnyGrid<S>) {
    return status;
  } else {
    const Status outcome = first_failure(scope, status);
    scope.sync();
    return outcome;
  }
}

/// The rings as another member has them.
struct PeerRings {
  std::byte* base;
  template <Reach R>
  PEAL_DEVICE static PeerRings of(const TeamCall<R>& call, const LineRings& rings,
                                  uint32_t member) {
    return {call.at(member, rings.base)};
  }
};

/// The next member's: looked up before the lanes meet, while the counters come.
template <Reach R, class S>
PEAL_DEVICE PeerRings next_rings(const TeamCall<R>& call, S scope) {
  return PeerRings::of(call, rings_of(call.part, scope), call.after(1));
}

/// Sends a unit to the member that has the mailbox.
template <Reach R>
PEAL_DEVICE void send_unit(const TeamCall<R>& call, const Exchange& exchange, const PeerRings& to,
                           uint32_t unit, uint64_t value) {
  const uint32_t tag = tag_of(exchange.number);
  const uint64_t second = second_tag(tag, exchange.signature);
  const LineRings& rings = exchange.rings;
  store_line_direct(to.base + (rings.line(call.rank(), exchange.line(unit)) - rings.base),
                    Line{{value << 32 | tag, (value & 0xffffffff00000000u) | second}});
}

/// Waits for a unit of members [first, first + count), count at most kTogether, at once.
inline constexpr uint32_t kTogether = 8;
template <Reach R>
PEAL_DEVICE Status receive_units(const TeamCall<R>& call, const Exchange& exchange, uint32_t unit,
                                 uint32_t first, uint32_t count, uint64_t* values) {
  const uint32_t tag = tag_of(exchange.number);
  const uint32_t second = second_tag(tag, exchange.signature);
  uint32_t turns = 0;
  bool differs = false;
  const Status status = detail::spin(
      call.ctx,
      [&] {
        // Where the peer makes a call of fewer lines, the awaited one never comes.
        if (++turns % 64 == 0 && disagreed(exchange)) return differs = true;
        Line line[kTogether] = {};
        PEAL_UNROLL
        for (uint32_t k = 0; k < kTogether; ++k) {
          if (k >= count || first + k == call.rank()) continue;
          line[k] = load_line_direct(exchange.rings.line(first + k, exchange.line(unit)));
        }
        bool all = true;
        PEAL_UNROLL
        for (uint32_t k = 0; k < kTogether; ++k) {
          if (k >= count || first + k == call.rank()) continue;
          const uint32_t apart = static_cast<uint32_t>(line[k].word[1]) ^ second;
          const bool here = static_cast<uint32_t>(line[k].word[0]) == tag && (apart & 0xffff) == 0;
          all = all && here;
          values[k] = line[k].word[0] >> 32 | (line[k].word[1] & 0xffffffff00000000u);
          differs = differs || (here && apart != 0);
        }
        // Here and not behind the loop, where the lane may wait for those that are in it still.
        if (all && differs) disagree(exchange);
        return all;
      },
      detail::WaitOf<WaitKind::kMembers>{});
  return differs && status == Status::kOk ? Status::kMismatch : status;
}

/// An exchange in which every member sends as much to every other. `message`:
///
///   uint64_t given(member, unit)      a unit of what `member` gets; of this PE's own, too
///   auto taking(unit)                 with take(member, value) for each in order, and done()
///
/// kMismatch where members made different calls, at all of them.
template <Reach R, class S, class Message>
PEAL_DEVICE Status exchange_all(const TeamCall<R>& call, S scope, const Carries& carries,
                                const Message& message) {
  const uint32_t units = carries.units();
  const PeerRings next = next_rings(call, scope);
  const Exchange exchange = begin_exchange(call, scope, carries, true);
  const auto crew = crew_of(scope, call.team.channels);
  Status status = exchange.status;
  for (uint32_t i = 1; i < call.members() && status == Status::kOk; ++i) {
    const uint32_t member = call.after(i);
    const PeerRings to = i == 1 ? next : PeerRings::of(call, exchange.rings, member);
    for (uint32_t u = crew.rank(); u < units; u += crew.size()) {
      send_unit(call, exchange, to, u, message.given(member, u));
    }
  }
  for (uint32_t u = crew.rank(); u < units && status == Status::kOk; u += crew.size()) {
    const uint64_t own = message.given(call.rank(), u);
    auto taking = message.taking(u);
    for (uint32_t first = 0; first < call.members() && status == Status::kOk; first += kTogether) {
      const uint32_t left = call.members() - first;
      const uint32_t count = left < kTogether ? left : kTogether;
      uint64_t values[kTogether] = {};
      status = receive_units(call, exchange, u, first, count, values);
      PEAL_UNROLL
      for (uint32_t k = 0; k < kTogether; ++k) {
        if (k >= count || status != Status::kOk) continue;
        taking.take(first + k, first + k == call.rank() ? own : values[k]);
      }
    }
    if (status == Status::kOk) taking.done();
  }
  return end_exchange(scope, status);
}

/// What `root` has for all.
struct FromRoot {
  uint32_t root;
  uint32_t signature;
  void* dst;
  const void* src;
  uint64_t bytes;
};

/// An exchange in which `root` alone sends, the same to all. kMismatch where it made another call.
template <Reach R, class S>
PEAL_DEVICE Status exchange_from(const TeamCall<R>& call, S scope, const FromRoot& what) {
  const Carries carries{what.bytes, what.signature};
  const uint32_t units = carries.units();
  const PeerRings next = next_rings(call, scope);
  const Exchange exchange = begin_exchange(call, scope, carries, false);
  const auto crew = crew_of(scope, call.team.channels);
  Status status = exchange.status;
  for (uint32_t u = crew.rank(); u < units && status == Status::kOk; u += crew.size()) {
    uint64_t value = 0;
    if (call.rank() == what.root) {
      value = load_unit(what.src, what.bytes, u);
      if (call.members() > 1) send_unit(call, exchange, next, u, value);
      for (uint32_t i = 2; i < call.members(); ++i) {
        send_unit(call, exchange, PeerRings::of(call, exchange.rings, call.after(i)), u, value);
      }
    } else {
      status = receive_units(call, exchange, u, what.root, 1, &value);
    }
    if (status == Status::kOk) store_unit(what.dst, what.bytes, u, value);
  }
  return end_exchange(scope, status);
}

}  // namespace peal::collective
