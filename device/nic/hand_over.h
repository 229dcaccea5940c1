// SPDX-License-Identifier: Apache-2.0
//
// How written requests get from lanes that share a queue to its NIC: in the order reserved, by one
// lane at a time, and nobody waits for those ahead.
//
//   posted         one word (shared/send_queue.h): how far the queue is published, and two flags
//   ready[block]   of a request that begins there, is written and is not published yet: how many
//                  blocks it takes; else 0
//
// A lane takes `posted` by setting kRinging. One that comes alone, with nothing before its request,
// rings and gives it back. One that finds somebody ringing leaves its word in `ready`, says so by
// kWanted, and goes on: who rings publishes what is ready in one piece, tells the NIC once for all,
// and looks again before giving back. One whose request has a gap before it does the same and
// leaves kWanted behind: whoever fills the gap then looks at `ready`. So whatever is ready, and has
// nothing before it that is not, is rung by somebody.
//
// Where the queue has one owner there is nothing to take: the lane rings, and stores `posted`.
#pragma once

#include <cstdint>

#include "device/base/call.h"
#include "device/base/order.h"
#include "device/base/target.h"
#include "device/nic/nic.h"
#include "device/nic/stage_clock.h"
#include "device/shared/send_queue.h"

namespace peal::nic {

/// What one lane hands over: `blocks` blocks from `first`, the last request of which begins at
/// `last`.
struct Posted {
  uint64_t first;
  uint32_t blocks;
  uint64_t last;

  PEAL_HD uint64_t end() const { return first + blocks; }
  /// `posted`, once this is published.
  PEAL_HD uint64_t word() const { return posted_word(end(), static_cast<uint32_t>(end() - last)); }
  /// Its word in `ready`.
  PEAL_HD uint32_t ready() const {
    return blocks | static_cast<uint32_t>(end() - last) << kReadyLastShift;
  }
  static constexpr uint32_t kReadyLastShift = 16;
};

/// True where the NIC hears of work behind fences of GPU scope. Before the queue is made it says
/// kSystem, which is always enough.
template <AnyQueue Q>
PEAL_HD bool fences_gpu(const Q& q) {
  return kMmioMayOvertake && q.fence == NicFence::kGpu;
}

/// Tells the NIC of everything up to `end`; `nic` is q.nic, or was.
template <Reach R, AnyQueue Q>
PEAL_HD void tell_until(Q& q, const typename Q::Model::WorkQueue& nic, uint64_t end,
                        bool gpu_fence) {
  StageClock clock(q.times);
  // Completions do not go by it. Behind the fence, which waits for it, it would keep registers in
  // use: gets by a warp in kernels of 1,024 threads then copied by way of the stack.
  store_relaxed<R>(&q.rung, end);
  if (gpu_fence) {
    Q::Model::template tell<Reach::kGpu>(nic, end);
  } else {
    Q::Model::template tell<Reach::kSystem>(nic, end);
  }
  clock.end(PostStage::kRing);
}

/// Takes what is ready behind `word`, one request after another, and answers `posted` as it will be
/// once that is published. The caller has acquired `posted` just now.
template <Reach R, AnyQueue Q>
PEAL_HD uint64_t take_ready(Q& q, uint64_t word) {
  const uint64_t before = word;
  for (;;) {
    uint32_t& ready = q.ready[posted_end(word) & q.mask];
    const uint32_t found = load_neighbour(&ready);
    if (found == 0) break;
    // Off again before the NIC hears of it: the next lap's lane comes behind its completion.
    store_relaxed<R>(&ready, 0u);
    word = posted_word(posted_end(word) + (found & ((1u << Posted::kReadyLastShift) - 1)),
                       found >> Posted::kReadyLastShift);
  }
  // kPostedBeforeRing: what the lanes wrote before they said that it is ready.
  if (word != before) acquire_batch<R, Edge::kRingAfterPosted>();
  return word;
}

/// Rings for all, until there is nothing left to do; the caller has taken `posted`, and has
/// published it up to `word`.
template <Reach R, AnyQueue Q>
PEAL_HD void ring_for_all(Q& q, uint64_t word) {
  for (;;) {
    // Who set kWanted before this has left a word that is seen below; who does later is seen when
    // `posted` is given back. kReadyBeforeWanted.
    exchange<R, Edge::kReadyBeforeWanted>(&q.posted, word | kRinging);
    word = take_ready<R>(q, word);
    const uint64_t end = posted_end(word);
    if (end != load_relaxed<R>(&q.rung)) {
      tell_until<R>(q, q.nic, end, fences_gpu(q));
      continue;
    }
    // Somebody may have left a word behind a gap: then whoever fills it shall look.
    const bool gap = (load_relaxed<R>(&q.reserved) & kReservedCount) != end;
    const uint64_t idle = gap ? word | kWanted : word;
    const uint64_t mine = word | kRinging;
    if (compare_swap_release<R, Edge::kPublishedBeforeTaken>(&q.posted, mine, idle) == mine) return;
  }
}

/// Rings for what is published or ready, or leaves it to who rings already.
template <Reach R, AnyQueue Q>
PEAL_HD void ring(Q& q) {
  if constexpr (R == Reach::kLane) {
    tell_until<R>(q, q.nic, posted_end(load_relaxed<R>(&q.posted)), fences_gpu(q));
  } else {
    const uint64_t before = fetch_or<R, Edge::kReadyBeforeWanted>(&q.posted, kRinging | kWanted);
    if ((before & kRinging) == 0) ring_for_all<R>(q, before & ~kPostedFlags);
  }
}

/// Rings unless all that is reserved has been rung: a batch holds its doorbell back. A caller that
/// knows of something reserved sees at least that in `reserved`, so the two are alike only where
/// somebody rings, or has rung, for it. kBatchBeforeRing.
template <Reach R, Edge E, AnyQueue Q>
PEAL_HD void ring_held_back(Q& q) {
  if (weakened(E)) return;
  const uint64_t reserved = load_relaxed<R>(&q.reserved) & kReservedCount;
  if (load_relaxed<R>(&q.rung) != reserved) ring<R>(q);
}

/// True where ringing would publish more: a request is ready with nothing before it.
template <Reach R, AnyQueue Q>
PEAL_HD bool is_ready(const Q& q, uint64_t published) {
  if constexpr (R == Reach::kLane) return false;
  return load_relaxed<R>(&q.ready[published & q.mask]) != 0;
}

/// The slow half of hand_over(), for a lane that is not alone; `before` is what it found in
/// `posted` when it took it. True if it has rung itself.
template <Reach R, AnyQueue Q>
PEAL_COLD bool hand_over_among_others(Q& q, Posted batch, uint64_t before) {
  uint64_t word = before & ~kPostedFlags;
  if ((before & kRinging) == 0 && posted_end(before) == batch.first) {
    word = batch.word();
  } else {
    store_release<R, Edge::kPostedBeforeRing>(&q.ready[batch.first & q.mask], batch.ready());
    if ((before & kRinging) != 0) {
      before = fetch_or<R, Edge::kReadyBeforeWanted>(&q.posted, kRinging | kWanted);
      if ((before & kRinging) != 0) return false;
      word = before & ~kPostedFlags;
    }
  }
  ring_for_all<R>(q, word);
  return true;
}

/// Hands a batch over, and tells the NIC of it, by this lane or by who rings already; unless it
/// `kRings` that may be much later. What is `kept` is in memory while there is more to do
/// (base/call.h).
template <Reach R, bool kRings, AnyQueue Q, class... Kept>
PEAL_HD void hand_over(Q& q, const Posted& batch, Kept&... kept) {
  const uint64_t end = batch.end();
  const uint64_t word = batch.word();
  // Read ahead of the acquire, behind which each load goes to memory again.
  const bool gpu_fence = kRings && fences_gpu(q);
  const typename Q::Model::WorkQueue nic = q.nic;
  if constexpr (R == Reach::kLane) {
    if (kRings) tell_until<R>(q, nic, end, gpu_fence);
    store_relaxed<R>(&q.posted, word);
  } else {
    const uint64_t before = fetch_or_acquire<R, Edge::kPublishedBeforeTaken>(&q.posted, kRinging);
    if ((before & (kPostedFlags | kPostedCount)) == batch.first) {
      if (kRings) tell_until<R>(q, nic, end, gpu_fence);
      const uint64_t mine = before | kRinging;
      if (compare_swap_release<R, Edge::kPublishedBeforeTaken>(&q.posted, mine, word) == mine)
        return;
    }
    parked([&] { return hand_over_among_others<R>(q, batch, before); }, kept...);
  }
}

/// hand_over() without a doorbell.
template <Reach R, AnyQueue Q>
PEAL_HD void publish(Q& q, const Posted& batch) {
  hand_over<R, false>(q, batch);
}

}  // namespace peal::nic
