// SPDX-License-Identifier: Apache-2.0
//
// Meeting the other members of a team: dissemination, as in device/detail/barrier.h, over words
// that carry a signature of the call beside its epoch. Where two members call with other arguments
// every member hears of it in that meeting, and pays nothing for it where all agree.
#pragma once

#include <cstdint>

#include "device/collective/layout.h"
#include "device/detail/barrier.h"
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

/// By one lane, which has fenced what it wants the others to see.
template <Reach R>
PEAL_DEVICE Status meet(const BasicContext<R>& ctx, const Team& team, const Part& part,
                        uint32_t channel, uint32_t signature) {
  Counters& counters = part.counters(channel);
  const uint32_t epoch = load_relaxed<Reach::kGpu>(&counters.meetings) + 1;
  store_relaxed<Reach::kGpu>(&counters.meetings, epoch);
  uint64_t* words = part.arrivals(channel, epoch);
  const uint32_t size = part.members;
  const uint32_t rank = static_cast<uint32_t>(team.rank);
  Status first = Status::kOk;
  for (uint32_t distance = 1; distance < size; distance *= kSyncFan) {
    if (distance != 1) fence_direct_stores<Edge::kM15>();  // passes on what was brought
    for (uint32_t i = 1; i < kSyncFan && i * distance < size; ++i) {
      const uint32_t ahead = rank + i * distance;
      const int pe = world_pe(team, static_cast<int>(ahead < size ? ahead : ahead - size));
      const Status told =
          detail::set_flag(ctx, words + i - 1, uint64_t{epoch} << 32 | signature, pe);
      if (first == Status::kOk) first = told;
    }
    // After a failure the others are still told, so that they need not wait for a deadline.
    for (uint32_t i = 1; first == Status::kOk && i < kSyncFan && i * distance < size; ++i) {
      const uint32_t behind = rank + size - i * distance;
      const int pe = world_pe(team, static_cast<int>(behind < size ? behind : behind - size));
      uint32_t theirs = kDisagree;
      first = detail::wait_flag(ctx, words + i - 1, static_cast<uint32_t>(pe), [&](uint64_t seen) {
        theirs = static_cast<uint32_t>(seen);
        return seen >> 32 == epoch;
      });
      if (theirs != signature) signature = kDisagree;
    }
    words += kSyncFan - 1;
  }
  if constexpr (R != Reach::kGpu) {
    // The next meeting may be of another block, whose words on another queue would come first.
    if (ctx.queues_per_peer > 1 && team.mapped == 0) {
      const Status arrived = detail::drain_all(ctx);
      if (first == Status::kOk) first = arrived;
    }
  }
  if (first != Status::kOk) return first;
  return signature == kDisagree ? Status::kMismatch : Status::kOk;
}

}  // namespace peal::collective
