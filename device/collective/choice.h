// SPDX-License-Identifier: Apache-2.0
//
// Which row of the table of algorithms (device/shared/algorithms.h) a call goes by. Each need is
// asked where it is a question: what a call's type and the way answer the compiler knows.
#pragma once

#include <cstddef>
#include <cstdint>

#include "device/collective/call.h"
#include "device/collective/carry.h"
#include "device/collective/exchange.h"
#include "device/shared/algorithms.h"

namespace peal::collective {

/// A call whose needs are asked for.
template <Reach R, class S, class Op>
struct Asking {
  const TeamCall<R>& call;
  S scope;
  const Op& op;

  template <Need kNeed>
  PEAL_DEVICE bool meets() const {
    if constexpr (kNeed == kMapped) {
      return all_mapped(call.team);
    } else if constexpr (kNeed == kByNic) {
      return !all_mapped(call.team);
    } else if constexpr (kNeed == kFromKernel) {
      return !requires { typename Op::ByHost; };
    } else if constexpr (kNeed == kInPlace) {
      return op.in_place();
    } else if constexpr (kNeed == kApart) {
      return !op.in_place();
    } else if constexpr (kNeed == kFitsRings) {
      return op.bytes() <= exchange_limit(call.part, scope);
    } else if constexpr (kNeed == kWordsVouch) {
      return call.ctx.settle != kSettleAlways;
    } else if constexpr (kNeed == kFitsSet) {
      return op.cargo(call.members()).fits(call.part);
    } else if constexpr (kNeed == kRoom) {
      return op.has_room(call);
    } else if constexpr (kNeed == kOfTwo) {
      return call.members() <= 2;
    } else if constexpr (kNeed == kOfSeveral) {
      return call.members() > 1;
    } else {
      static_assert(kNeed == kLongShares);
      return op.has_long_shares(call);
    }
  }
  /// The first of the needs that is not met, or 0.
  template <uint32_t kNeeds>
  PEAL_DEVICE uint32_t lacks() const {
    if constexpr (kNeeds == 0) {
      return 0;
    } else {
      constexpr uint32_t kFirst = kNeeds & (0u - kNeeds);
      return meets<static_cast<Need>(kFirst)>() ? lacks<(kNeeds & ~kFirst)>() : kFirst;
    }
  }
};

/// The algorithm that a call must take, kAny where that is open; refused where it does not fit.
struct DemandedAlgorithm {
  Algorithm algorithm;
  Status status;
};

/// What the forced algorithm lacks of the call, 0 for nothing.
template <size_t kRow, Reach R, class S, class Op>
PEAL_DEVICE uint32_t lacks_of_forced(const Asking<R, S, Op>& asking, Algorithm forced) {
  if constexpr (kRow == kAlgorithmRows) {
    return 0;
  } else {
    constexpr AlgorithmRow kThis = kAlgorithms[kRow];
    if constexpr ((kThis.calls & bit_of(Op::kCall)) != 0) {
      if (kThis.algorithm == forced) return asking.template lacks<kThis.needs>();
    }
    return lacks_of_forced<kRow + 1>(asking, forced);
  }
}

/// Out of line: what PEAL_ALGORITHM demands of the call.
template <Reach R, class S, class Op>
PEAL_DEVICE_COLD DemandedAlgorithm demand_of(ContextState* state, S scope, Team team, Op op) {
  const Algorithm forced = ForcedAlgorithm::of(team.apart).of_call(op.which());
  if (forced == Algorithm::kAny) return {forced, Status::kOk};
  const auto& ctx = static_cast<const BasicContext<R>&>(state->fields);
  const TeamCall<R> call = begin(ctx, scope, team);
  const uint32_t lacks = lacks_of_forced<0>(Asking<R, S, Op>{call, scope, op}, forced);
  if (lacks == 0) return {forced, Status::kOk};
  const uint64_t which = uint64_t{static_cast<uint32_t>(forced)} << 32 | lacks;
  return {forced, detail::refuse(state, Status::kBadAlgorithm,
                                 {.address = reinterpret_cast<const void*>(which),
                                  .bytes = op.bytes(),
                                  .pe = ctx.pe,
                                  .call = op.which()})};
}

/// The table has that algorithm for the call.
template <class Op>
PEAL_HD constexpr bool has_row(Algorithm algorithm) {
  return row_of(Op::kCall, algorithm) != kAlgorithmRows;
}

/// The same where all members are mapped.
template <Reach R, class S, class Op>
PEAL_DEVICE DemandedAlgorithm demand_on_mapped(const BasicContext<R>& ctx, S scope,
                                               const Team& team, const Op& op) {
  if (team.apart == 0) return {Algorithm::kAny, Status::kOk};
  return call_cold<&demand_of<R, S, Op>>(ctx.state, scope, team, op);
}

/// Whether the call goes by algorithm A, which meets by itself: as demanded, or where it fits.
template <Algorithm A, uint32_t kWay, Reach R, class S, class Op>
PEAL_DEVICE bool goes_by(const Asking<R, S, Op>& asking, Algorithm demanded) {
  constexpr AlgorithmRow kThis = kAlgorithms[row_of(Op::kCall, A)];
  constexpr uint32_t kAsked = (kThis.needs | kThis.best) & ~kWay;
  return demanded == Algorithm::kAny ? asking.template lacks<kAsked>() == 0 : demanded == A;
}

/// Chooses among the algorithms that lie between two meetings: the one that the call goes by.
template <uint32_t kWay, size_t kFrom = 0, Reach R, class S, class Op>
PEAL_DEVICE Algorithm long_algorithm(const Asking<R, S, Op>& asking, Algorithm demanded) {
  constexpr size_t kRow = next_row<kWay>(Op::kCall, kFrom);
  static_assert(kRow < kAlgorithmRows, "a call has an algorithm for each way");
  constexpr AlgorithmRow kThis = kAlgorithms[kRow];
  if constexpr (meets_by_itself(kThis.algorithm)) {
    return long_algorithm<kWay, kRow + 1>(asking, demanded);
  } else if constexpr (next_row<kWay>(Op::kCall, kRow + 1) == kAlgorithmRows) {
    return kThis.algorithm;
  } else {
    constexpr uint32_t kAsked = (kThis.needs | kThis.best) & ~kWay;
    const bool taken = demanded == Algorithm::kAny ? asking.template lacks<kAsked>() == 0
                                                   : demanded == kThis.algorithm;
    return taken ? kThis.algorithm : long_algorithm<kWay, kRow + 1>(asking, demanded);
  }
}

}  // namespace peal::collective
