// SPDX-License-Identifier: Apache-2.0
//
// The DUMP behind a post that fetches.
#pragma once

#include <cstdint>

#include "device/base/scope.h"
#include "device/context.h"
#include "device/nic/post.h"
#include "device/transport/model.h"

namespace peal::detail {

/// kAnswerBeforeDump: behind a fetch whose data lands at `at`, where its completion does not vouch
/// for it: the NIC reads there, once the data is under way, and a read passes no earlier write.
/// Answers the ticket to wait for. The byte is the destination's own: a read pushes what goes the
/// same way.
template <Reach R, bool kTogether>
PEAL_DEVICE_COLD Ticket post_dump(SendQueue* q, nic::Local at, Ticket fetch) {
  if (fetch.status != Status::kOk || weakened(Edge::kAnswerBeforeDump)) return fetch;
  const auto fence =
      weakened(Edge::kReadBeforeDump) ? nic::RequestFence::kNone : nic::RequestFence::kFetches;
  return nic::post_by_lane<R, kTogether>(*q, nic::Fenced<nic::Dump>{fence, {at, 1}});
}

/// The ticket that says of a fetch into `at` that its data is there.
template <Reach R, bool kTogether>
PEAL_DEVICE Ticket landed(SendQueue& q, uint32_t dumped, const nic::Local& at,
                          const Ticket& fetch) {
  return dumped == 0 ? fetch : post_dump<R, kRarelyTogether<kTogether>>(&q, at, fetch);
}

}  // namespace peal::detail
