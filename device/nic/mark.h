// SPDX-License-Identifier: Apache-2.0
//
// Which queues were posted to: one bit each, beside the queues, so that quiet need not look at the
// others. Edge kDrainedBeforeUnmark of docs/edges.md.
//
//   marked     quiet looks at the queue
//   unmarked   all that was posted is complete and no error is latched. `reserved` has kUnmarked,
//              so the queue looks full: the next post leaves its fast path there, and marks
//
// A post that finds a queue marked costs nothing: whoever marked it did so before taking kUnmarked
// off, and the post acquires that with its reservation (kMarkBeforeReserve). A quiet unmarks a
// queue only if it is drained and nobody has reserved since. It sets kUnmarking meanwhile, and a
// post that finds it waits, lest the quiet take off the new mark.
#pragma once

#include <cstdint>

#include "device/base/order.h"
#include "device/base/spin.h"
#include "device/nic/nic.h"
#include "device/shared/send_queue.h"

namespace peal::nic {

/// The lanes of a scope share the marks of one word, also where each queue has one user.
template <Reach R>
inline constexpr Reach kMarkReach = R == Reach::kLane ? Reach::kBlock : R;

/// Marks the queue, once a quiet that is about to unmark it has done so.
template <Reach R, AnyQueue Q>
PEAL_HD void mark(Q& q) {
  if (q.marks == nullptr) return;
  // Read by adding nothing: that orders this lane's stores before a quiet that unmarks later, and
  // this mark behind one that did.
  spin_until(
      q.timeout_ns,
      [&] {
        const uint64_t reserved = fetch_add<R>(&q.reserved, uint64_t{0});
        return (reserved & kUnmarking) == 0 || weakened(Edge::kUnmarkBeforeMark);
      },
      [] { return false; });
  set_bits<kMarkReach<R>>(q.marks, q.mark_bit);
}

/// For a lane whose reservation showed that the queue is unmarked, before it publishes.
template <Reach R, AnyQueue Q>
PEAL_HD void mark_for_post(Q& q) {
  if (!weakened(Edge::kMarkBeforePublish)) mark<R>(q);
  clear_bits_release<R, Edge::kMarkBeforeReserve>(&q.reserved, kUnmarked);
}

/// Unmarks the queue if all that was reserved is complete, and, where it `settles`, settled too.
template <Reach R, AnyQueue Q>
PEAL_COLD void unmark(Q& q, bool settles) {
  const uint64_t posted = load_acquire<R>(&q.posted);
  const uint64_t published = posted_end(posted);
  if (is_under_way(posted, load_acquire<R>(&q.completed))) return;
  if (settles && !weakened(Edge::kSettledBeforeUnmark) && load_relaxed<R>(&q.settled) != published)
    return;
  if (weakened(Edge::kPublishedBeforeUnmark)) {  // whoever has reserved since
    set_bits<R>(&q.reserved, kUnmarked | kUnmarking);
  } else {
    const uint64_t unmarking = published | kUnmarked | kUnmarking;
    if (!compare_exchange<R>(&q.reserved, published, unmarking) &&
        !compare_exchange<R>(&q.reserved, published | kUnmarked, unmarking)) {
      return;
    }
  }
  // With release: who finds the queue unmarked knows what this lane knows of its completions.
  if (queue_status<R>(q) == Status::kOk) {
    clear_bits_release<kMarkReach<R>, Edge::kDrainedBeforeUnmark>(q.marks, q.mark_bit);
  }
  clear_bits_release<R>(&q.reserved, kUnmarking);
}

}  // namespace peal::nic
