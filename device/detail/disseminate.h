// SPDX-License-Identifier: Apache-2.0
//
// Dissemination, by which barriers (barrier.h) and teams (device/collective/meet.h) meet. In round
// r each of `count` tells those 1, 2, ... times kSyncFan^r ahead, in a circle, then hears those as
// far behind: after ceil(log_kSyncFan(count)) rounds everybody has heard of everybody.
//
//   words   [ 1 ahead | 2 ahead | ... | 7 ahead ] of round 0, of round 1, ...
//
// The two differ in all else. A barrier's words are a context's own, count up and vouch for nothing
// more; those of a team carry a signature, lie in two sets, and a team has no words for a context
// beyond TeamOptions::contexts. One for both would cost a barrier two loads: the team's counters.
#pragma once

#include <cstdint>

#include "device/base/order.h"
#include "device/shared/context_fields.h"
#include "device/status.h"

namespace peal::detail {

/// Under way, round by round. By one lane, who has fenced what it wants the others to see.
struct Dissemination {
  uint32_t rank;
  uint32_t count;
  uint64_t* words;  // of the round
  uint32_t distance = 1;
  Status first = Status::kOk;  // what went wrong first

  PEAL_DEVICE bool more() const { return distance < count; }

  /// One round. tell(word, number, ahead) tells number `number`, that is `ahead` of this one, by
  /// the word; hear(word, number) waits for it. `told` of the first in the round know already.
  template <class Tell, class Hear>
  PEAL_DEVICE void round(const Tell& tell, const Hear& hear, uint32_t told = 0) {
    PEAL_NO_UNROLL
    for (uint32_t i = 1 + told; i < kSyncFan && i * distance < count; ++i) {
      const Status status = tell(words + i - 1, in_circle(rank + i * distance), i * distance);
      if (first == Status::kOk) first = status;
    }
    // After a failure the others are still told, so that they need not wait for a deadline.
    PEAL_NO_UNROLL
    for (uint32_t i = 1; first == Status::kOk && i < kSyncFan && i * distance < count; ++i) {
      first = hear(words + i - 1, in_circle(rank + count - i * distance));
    }
    words += kSyncFan - 1;
    distance *= kSyncFan;
  }

  /// All of them; each passes on what the one before it brought.
  template <class Tell, class Hear>
  PEAL_DEVICE Status all_rounds(const Tell& tell, const Hear& hear, uint32_t told = 0) {
    for (; more(); told = 0) {
      if (distance != 1) fence_direct_stores<Edge::kQuietBeforeBarrier>();
      round(tell, hear, told);
    }
    return first;
  }

 private:
  PEAL_DEVICE uint32_t in_circle(uint32_t number) const {
    return number < count ? number : number - count;
  }
};

}  // namespace peal::detail
