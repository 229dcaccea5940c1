// SPDX-License-Identifier: Apache-2.0
//
// A post by the lanes of a scope, and the DUMP behind one that fetches: what transfers, words,
// atomics and draining are made of.
#pragma once

#include <cstdint>

#include "device/base/scope.h"
#include "device/context.h"
#include "device/transport/ibgda.h"

namespace peal::detail {

using ibgda::Rings;

/// Posts for one lane: together with the lanes beside it where the queue is shared, alone where it
/// is owned.
template <Reach R, bool kTogether, Rings kRings = Rings::kNow, class... Compose>
PEAL_DEVICE Ticket post(mlx5::SendQueue& q, const Compose&... compose) {
  if constexpr (kTogether && R != Reach::kLane) {
    return ibgda::post<R, kRings>(q, Coalesced(&q), compose...);
  } else {
    return ibgda::post<R, kRings>(q, ibgda::Alone{}, compose...);
  }
}

/// kAnswerBeforeDump: behind a fetch whose data lands at `at`, where its completion does not vouch
/// for it: the NIC reads there, once the data is under way, and a read passes no earlier write.
/// Answers the ticket to wait for. The byte is the destination's own: a read pushes what goes the
/// same way.
template <Reach R, bool kTogether>
PEAL_DEVICE_COLD Ticket post_dump(mlx5::SendQueue* q, mlx5::Local at, Ticket fetch) {
  if (fetch.status != Status::kOk || weakened(Edge::kAnswerBeforeDump)) return fetch;
  return post<R, kTogether>(*q, [at](mlx5::Header h) {
    h.fence = weakened(Edge::kReadBeforeDump) ? mlx5::Fence::kNone : mlx5::Fence::kFence;
    return mlx5::compose_dump(h, at, 1);
  });
}

/// The ticket that says of a fetch into `at` that its data is there.
template <Reach R, bool kTogether>
PEAL_DEVICE Ticket landed(mlx5::SendQueue& q, uint32_t dumped, const mlx5::Local& at,
                          const Ticket& fetch) {
  return dumped == 0 ? fetch : post_dump<R, kTogether>(&q, at, fetch);
}

}  // namespace peal::detail
