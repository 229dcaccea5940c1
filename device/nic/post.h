// SPDX-License-Identifier: Apache-2.0
//
// One operation on one peer's queue, driven by the kernel itself: reserve, write, hand over.
//
// post() takes requests, so a put and its signal are one reservation and one doorbell; and a group
// of lanes, so a warp that posts to one queue reserves once and rings once; what its lanes store
// may be one request (combine.h).
#pragma once

#include <cstdint>

#include "device/base/scope.h"
#include "device/nic/combine.h"
#include "device/nic/request.h"
#include "device/nic/send_queue.h"
#include "device/types.h"

namespace peal::nic {

/// When the NIC is told of a post: at once, or, in a batch, once for many.
enum class Rings : uint32_t { kNow, kLater };

/// A lane that posts for itself (or for its whole warp or block).
struct Alone {
  PEAL_DEVICE uint32_t size() const { return 1; }
  PEAL_DEVICE uint32_t rank() const { return 0; }
  PEAL_DEVICE bool leader() const { return true; }
  PEAL_DEVICE bool last() const { return true; }
  template <Edge E>
  PEAL_DEVICE void sync() const {}
  PEAL_DEVICE bool share(bool have, uint64_t*) const { return have; }
};

/// True of the requests with which a post keeps the queue's fixed part over its reservation: puts.
/// With others the registers would be too many for blocks of 1,024 threads (registers_test.py).
template <class... Requests>
inline constexpr bool kKeepsFixed = false;
template <>
inline constexpr bool kKeepsFixed<Write> = true;
template <uint32_t N>
inline constexpr bool kKeepsFixed<WriteInline<N>> = true;
template <class Request>
inline constexpr bool kKeepsFixed<MayCombine<Request>> = true;

/// Posts the requests of each lane of `group`. Returns a ticket for the whole group's work. Takes
/// copies, which are in memory while it waits.
template <Reach R, Rings kRings = Rings::kNow, AnyQueue Q, class Group, class... Requests>
PEAL_DEVICE BasicTicket<Q> post(Q& queue, Group group, Requests... requests) {
  using Posts = BasicTicket<Q>;
  Q* q = &queue;
  const RingLayout<Q, Group, Requests...> layout(*q, group, requests...);
  uint64_t first = 0;
  Status reserved = Status::kOk;
  Fixed<Q> fixed = Fixed<Q>::template of<R>(*q);
  if (group.leader())
    reserved = reserve<R>(*q, fixed, layout.blocks(group), &first, q, group, requests...);
  if (!group.share(reserved == Status::kOk, &first)) {
    // A lane that gave up may find the error record claimed by another and not yet written.
    const Status why = stop_status<R>(*q);
    return Posts{q, 0, why != Status::kOk ? why : Status::kTimeout};
  }
  constexpr bool kKeeps = R != Reach::kLane && kKeepsFixed<Requests...>;
  if (R != Reach::kLane && (first & kReadAnew) != 0) {
    first &= ~kReadAnew;
    if constexpr (kKeeps) fixed = Fixed<Q>::template of<R>(*q);
  }
  // Nor may it have been connected when this lane read it, though the reservation waited for
  // nothing.
  if (kKeeps && !Q::Model::is_numbered(fixed.nic)) fixed = Fixed<Q>::template of<R>(*q);
  layout.write({*q, kKeeps ? fixed.nic : q->nic, kKeeps ? fixed.mask : q->mask}, first, group,
               requests...);
  group.template sync<Edge::kGroupBeforePublish>();  // every lane's stores precede the leader's
                                                     // publication
  const uint32_t blocks = layout.blocks(group);
  uint64_t last = first + blocks - layout.last_blocks();
  if (group.leader()) {
    hand_over<R, kRings == Rings::kNow>(*q, {.first = first, .blocks = blocks, .last = last}, q,
                                        group, last);
  }
  // Orders nothing that others do not: the lanes leave together and meet again at their next post.
  // Where the compiler sees no place for them to converge, those that do not ring would run ahead
  // of the one that does, and each lane would come to ring alone.
  group.template sync<Edge::kNone>();
  return Posts{q, last, Status::kOk};
}

/// Rings the queue if work there is held back, once for the lanes that ask together.
template <Reach R, Edge E, AnyQueue Q>
PEAL_DEVICE_COLD void ring_together(Q* q) {
  if constexpr (R == Reach::kLane) {
    ring_held_back<R, E>(*q);
  } else {
    const Coalesced lanes(q);
    lanes.template sync<E>();  // the leader sees what each of them has published
    if (lanes.leader()) ring_held_back<R, E>(*q);
  }
}

/// Rings for a ticket of a batch whose doorbell is still held back.
template <Reach R, AnyQueue Q>
PEAL_DEVICE void ring_for(const BasicTicket<Q>& ticket) {
  if (ticket.status != Status::kOk || ticket.queue == nullptr) return;
  if (load_relaxed<R>(&ticket.queue->rung) > ticket.index) return;
  ring_together<R, Edge::kBatchBeforeWait>(ticket.queue);
}

/// Waits for a ticket, which has been rung.
template <Reach R, AnyQueue Q>
[[nodiscard]] PEAL_DEVICE Status wait(const BasicTicket<Q>& ticket) {
  if (ticket.status != Status::kOk || ticket.queue == nullptr) return ticket.status;
  return wait_completed<R>(*ticket.queue, ticket.index);
}

/// True once a ticket's work is complete (or can no longer complete); never blocks.
template <Reach R, AnyQueue Q>
PEAL_DEVICE bool test(const BasicTicket<Q>& ticket) {
  if (ticket.status != Status::kOk || ticket.queue == nullptr) return true;
  poll<R>(*ticket.queue);
  return load_acquire<R>(&ticket.queue->completed) > ticket.index ||
         stop_status<R>(*ticket.queue) != Status::kOk;
}

}  // namespace peal::nic
