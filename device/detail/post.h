// SPDX-License-Identifier: Apache-2.0
//
// A post by the lanes of a scope, and the DUMP behind one that fetches: what transfers, words,
// atomics and draining are made of.
#pragma once

#include <cstdint>

#include "device/base/scope.h"
#include "device/context.h"
#include "device/nic/post.h"
#include "device/transport/model.h"

namespace peal::detail {

using nic::Rings;

/// Posts for one lane: together with the lanes beside it where the queue is shared, alone where it
/// is owned.
template <Reach R, bool kTogether, Rings kRings = Rings::kNow, class... Requests>
PEAL_DEVICE Ticket post(SendQueue& q, const Requests&... requests) {
  if constexpr (kTogether && R != Reach::kLane) {
    return nic::post<R, kRings>(q, Coalesced(&q), requests...);
  } else {
    return nic::post<R, kRings>(q, nic::Alone{}, requests...);
  }
}

/// post() of a store of a few words, which may be one request with what the lanes beside it store.
template <Reach R, Rings kRings = Rings::kNow, class Request>
PEAL_DEVICE Ticket post_few(SendQueue& q, const Request& request) {
  if constexpr (R != Reach::kLane) {
    return nic::post<R, kRings>(q, Coalesced(&q), nic::MayCombine<Request>{request});
  } else {
    return nic::post<R, kRings>(q, nic::Alone{}, request);
  }
}

/// kAnswerBeforeDump: behind a fetch whose data lands at `at`, where its completion does not vouch
/// for it: the NIC reads there, once the data is under way, and a read passes no earlier write.
/// Answers the ticket to wait for. The byte is the destination's own: a read pushes what goes the
/// same way.
template <Reach R, bool kTogether>
PEAL_DEVICE_COLD Ticket post_dump(SendQueue* q, nic::Local at, Ticket fetch) {
  if (fetch.status != Status::kOk || weakened(Edge::kAnswerBeforeDump)) return fetch;
  const auto fence =
      weakened(Edge::kReadBeforeDump) ? nic::RequestFence::kNone : nic::RequestFence::kFetches;
  return post<R, kTogether>(*q, nic::Fenced<nic::Dump>{fence, {at, 1}});
}

/// The ticket that says of a fetch into `at` that its data is there.
template <Reach R, bool kTogether>
PEAL_DEVICE Ticket landed(SendQueue& q, uint32_t dumped, const nic::Local& at,
                          const Ticket& fetch) {
  return dumped == 0 ? fetch : post_dump<R, kTogether>(&q, at, fetch);
}

}  // namespace peal::detail
