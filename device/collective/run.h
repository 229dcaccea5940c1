// SPDX-License-Identifier: Apache-2.0
//
// The one place that asks which way a collective call goes, by the table of algorithms (choice.h).
//
//   run(ctx, scope, team, call)
//
//   members are mapped   short   brief()                  one exchange, with the signature
//                        long    meet | mapped() | meet   arguments are compared in the first
//   else                 short   a meeting that carries all to all | take()
//                        long    meet | by_nic() | meet
//
// A call is a type:
//
//   kCall, which()            of the list of calls: whose rows of the table it has; which it is
//   root(), bytes()           a member that must exist, or 0; of a message to one member, or 0
//   spans(members)            the memory that it uses, and where (spans.h)
//   signature(ctx)            what the members must agree on
//   brief(call, group, sign)  the short way
//   mapped(call, crew, a)     the long way by loads and stores, each lane its part, by algorithm a
//   cargo(members)            what this member gives to all others
//   take(call, lanes, c, set) makes its result of what all have given
//   by_nic(call, lanes, a)    the long way by work requests
//   in_place(), has_room(call), has_long_shares(call)    where its rows need them
//
// In a call by a grid block 0 alone does what is short or goes by a NIC, once all have come.
// The blocks that have a channel share what is long. All end together. A launched grid shares what
// is short, too, and no block waits for another of it: what was before the call in the stream is
// done, and the kernel's end is the call's. What a kernel inlines is for mapped members; the rest
// is out of line.
#pragma once

#include <cstdint>

#include "device/base/call.h"
#include "device/collective/carry.h"
#include "device/collective/choice.h"
#include "device/collective/exchange.h"
#include "device/collective/spans.h"

namespace peal::collective {

template <Reach R, AnyScope S, class Op>
PEAL_DEVICE_COLD Status run_by_nic(ContextState* state, S lanes, Team team, Op op) {
  const auto& ctx = static_cast<const BasicContext<R>&>(state->fields);
  DemandedAlgorithm demand{Algorithm::kAny, Status::kOk};
  if (team.apart != kTeamByNic) demand = demand_of<R>(state, lanes, team, op);
  if (demand.status != Status::kOk) return demand.status;
  const TeamCall<R> call = begin(ctx, lanes, team);
  const uint32_t signature = op.signature(ctx).value();
  const Asking<R, S, Op> asking{call, lanes, op};
  if constexpr (has_row<Op>(Algorithm::kBruck)) {
    if (goes_by<Algorithm::kBruck, kByNic>(asking, demand.algorithm)) {
      const Cargo cargo = op.cargo(call.members());
      const Carried carried = carry_by_nic<R>(state, lanes, team, cargo, signature);
      if (carried.status == Status::kOk) op.take(call, lanes, cargo, carried.set);
      lanes.sync();
      return carried.status;
    }
  }
  const Status begun = meet_before<false>(call, lanes, signature);
  if (begun != Status::kOk) return begun;
  const Algorithm algorithm = long_algorithm<kByNic>(asking, demand.algorithm);
  return meet_after<false>(call, lanes, op.by_nic(call, lanes, algorithm));
}

/// What the members must agree on of a long call by loads and stores: of a grid also how many
/// blocks share it.
template <Reach R, class S, class Op>
PEAL_DEVICE uint32_t signature_of(const BasicContext<R>& ctx, S, const Op& op) {
  Signature signature = op.signature(ctx);
  if constexpr (AnyGrid<S>) signature.with(blocks_in_grid());
  return signature.value();
}

/// The short way over mapped memory.
template <Reach R, class S, class Op>
PEAL_DEVICE Status run_brief(const TeamCall<R>& call, S scope, const Op& op) {
  const uint32_t signature = op.signature(call.ctx).value();
  if constexpr (std::is_same_v<S, LaunchedGrid>) {
    return call.channel < call.team.channels ? op.brief(call, scope, signature) : Status::kOk;
  } else {
    return by_one(call, scope, [&] { return op.brief(call, lanes_of(scope), signature); });
  }
}

/// A call that check() has let through, of a team whose members are mapped. What is forced goes
/// through the same code as what is not.
template <Reach R, class S, class Op>
PEAL_DEVICE Status run_mapped(const BasicContext<R>& ctx, S scope, const Team& team, const Op& op,
                              Algorithm demanded) {
  const TeamCall<R> call = begin(ctx, scope, team);
  const Asking<R, S, Op> asking{call, scope, op};
  if constexpr (has_row<Op>(Algorithm::kExchange)) {
    if (goes_by<Algorithm::kExchange, kMapped>(asking, demanded)) {
      return run_brief(call, scope, op);
    }
  }
  Status status = Status::kOk;
  bool began = true;
  if (call.channel < team.channels) {
    status = meet_before<true>(call, scope, signature_of(ctx, scope, op));
    began = status == Status::kOk;
    if (began) {
      const Algorithm algorithm = long_algorithm<kMapped>(asking, demanded);
      status =
          meet_after<true>(call, scope, op.mapped(call, crew_of(scope, team.channels), algorithm));
    }
  }
  if constexpr (std::is_same_v<S, WholeGrid>) status = end_of_grid(call, status, began);
  return status;
}

/// How a call ends whose memory is not there: of a grid whose blocks wait for one another in all of
/// them, whichever has found out.
template <Reach R, class S>
PEAL_DEVICE_COLD Status end_refused([[maybe_unused]] ContextState* state, [[maybe_unused]] S scope,
                                    [[maybe_unused]] Team team, Status refused) {
  if constexpr (std::is_same_v<S, WholeGrid>) {
    const auto& ctx = static_cast<const BasicContext<R>&>(state->fields);
    return end_of_grid(begin(ctx, scope, team), refused, false);
  }
  return refused;
}

/// Why a call is not made, or kOk.
template <Reach R, class S, class Op>
PEAL_DEVICE Status admit(const BasicContext<R>& ctx, S scope, const Team& team, const Op& op) {
  const Status status = check(ctx, scope, team, op.which(), op.root());
  if (status != Status::kOk || op.bytes() == 0) return status;
  const Status looked = look_at_all(ctx, lanes_of(scope), team, op);
  return looked == Status::kOk ? looked : end_refused<R>(ctx.state, scope, team, looked);
}

/// A call by the NIC, out of line.
template <Reach R, class S, class Op>
PEAL_DEVICE Status run_apart(const BasicContext<R>& ctx, S scope, const Team& team, const Op& op) {
  const auto lanes = lanes_of(scope);
  if constexpr (std::is_same_v<S, LaunchedGrid>) {
    if (block_in_grid() != 0) return Status::kOk;
    return call_cold<&run_by_nic<R, Block, Op>>(ctx.state, lanes, team, op);
  }
  return by_one(begin(ctx, scope, team), scope, [&] {
    return call_cold<&run_by_nic<R, decltype(lanes_of(scope)), Op>>(ctx.state, lanes, team, op);
  });
}

template <Reach R, class S, class Op>
PEAL_DEVICE Status run(const BasicContext<R>& ctx, S scope, const Team& team, const Op& op) {
  const Status status = admit(ctx, scope, team, op);
  if (status != Status::kOk || op.bytes() == 0) return status;
  Algorithm demanded = Algorithm::kAny;
  if (team.apart != 0) {
    if (!all_mapped(team)) return run_apart(ctx, scope, team, op);
    const DemandedAlgorithm demand = demand_on_mapped(ctx, scope, team, op);
    if (demand.status != Status::kOk) return demand.status;
    demanded = demand.algorithm;
  }
  return run_mapped(ctx, scope, team, op, demanded);
}

template <Reach R, AnyScope S>
PEAL_DEVICE_COLD Status sync_by_nic(ContextState* state, S scope, const Team* team, bool drains) {
  return by_leader(scope, [&] { return meet_by_nic<R>(state, team, drains, kArrived); });
}

/// A meeting; `drains`: behind what this PE has posted, on queues to others than members, too.
template <Reach R, class S>
PEAL_DEVICE Status sync(const BasicContext<R>& ctx, S scope, const Team& team, bool drains) {
  const Status status = check(ctx, scope, team, drains ? Call::kBarrier : Call::kSync);
  if (status != Status::kOk) return status;
  const TeamCall<R> call = begin(ctx, scope, team);
  const auto lanes = lanes_of(scope);
  Status mine = Status::kOk;
  if constexpr (std::is_same_v<S, WholeGrid> && R != Reach::kGpu) {
    // Block 0 drains its own queues alone.
    if (drains && call.channel != 0)
      mine = by_leader(block, [&] { return call_apart<&drain_by_nic<R>>(ctx.state); });
  }
  const auto meets = [&] {
    // So where an algorithm is forced, too: a meeting of mapped members asks no more than this.
    if (team.apart != 0 || (drains && ctx.queues != nullptr)) {
      const Team kept = team;
      in_memory(&kept);
      return call_apart<&sync_by_nic<R, decltype(lanes_of(scope))>>(ctx.state, lanes, &kept,
                                                                    drains);
    }
    const Status known = drains ? detail::usage_status(ctx) : Status::kOk;
    const Status met = meet_before<true>(call, lanes, kArrived);
    return met == Status::kOk ? known : met;
  };
  return by_one(call, scope, meets, mine);
}

}  // namespace peal::collective
