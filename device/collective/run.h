// SPDX-License-Identifier: Apache-2.0
//
// From a collective call to the way it goes: short messages through the workspace, long ones
// straight. Mapped members, up to exchange_limit(): one exchange and no meeting. Else
//
//   meet (arguments compared) | move or reduce | meet
//
// Of a grid block 0 alone does what is short or goes by the NIC, and all blocks end together.
#pragma once

#include <cstdint>

#include "device/collective/exchange.h"
#include "device/collective/move.h"
#include "device/collective/reduce.h"
#include "device/collective/staging.h"
#include "device/collective/swap.h"

namespace peal::collective {

enum class Kind : uint32_t {
  kSync,
  kBroadcast,
  kGather,
  kAllToAll,
  kReduce,
  kReduceScatter,
  kScan,
};

/// What a call is of, for its signature.
template <Reach R>
PEAL_DEVICE uint32_t signature(const Call<R>& call, Kind kind, const void* dst, const void* src,
                               uint64_t bytes, uint32_t variant) {
  const Window& heap = call.ctx.heap;
  return Signature(static_cast<uint32_t>(kind))
      .with(detail::offset_in(heap, dst))
      .with(detail::offset_in(heap, src))
      .with(bytes)
      .with(variant)
      .value();
}

/// True for the lanes that make a short exchange.
template <Reach R, class S>
PEAL_DEVICE bool exchanges(const Call<R>& call, S) {
  return !std::is_same_v<S, WholeGrid> || call.channel == 0;
}

/// A call: `brief(lanes)` where it is short, else `lengthy(group)` between two meetings. One block
/// alone talks to a NIC: of a grid, group is the grid only where members are mapped.
template <Reach R, class S, class Brief, class Lengthy>
PEAL_DEVICE Status run(const Call<R>& call, S scope, uint32_t signature, bool is_short,
                       const Brief& brief, const Lengthy& lengthy) {
  Status status = Status::kOk;
  if (is_short) {
    if (exchanges(call, scope)) status = brief(lanes_of(scope));
  } else if (takes_part(call, scope) && call.channel < call.team.channels) {
    status = meet_before(call, scope, signature);
    if (status == Status::kOk) {
      const Status moved = call.team.mapped != 0 ? lengthy(scope) : lengthy(lanes_of(scope));
      status = meet_after(call, scope, moved);
    }
  }
  if constexpr (std::is_same_v<S, WholeGrid>) status = end_of_grid(call, status);
  return status;
}

}  // namespace peal::collective
