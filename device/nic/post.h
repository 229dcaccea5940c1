// SPDX-License-Identifier: Apache-2.0
//
// One operation on one peer's queue, driven by the kernel itself: reserve, write, hand over.
//
// post() takes requests, so a put and its signal are one reservation and one doorbell; and a group
// of lanes, so a warp that posts to one queue reserves once and rings once. In the ring the
// requests of each lane lie one after the other; or what the lanes store is one request
// (combine.h).
#pragma once

#include <cstdint>
#include <tuple>
#include <type_traits>
#include <utility>

#include "device/base/scope.h"
#include "device/nic/combine.h"
#include "device/nic/landing.h"
#include "device/nic/nic.h"
#include "device/nic/request.h"
#include "device/nic/send_queue.h"
#include "device/nic/stage_clock.h"
#include "device/types.h"

namespace peal::nic {

/// A request as it goes into the queue's ring: what nobody wants lands in the queue's sink.
template <AnyQueue Q, class Request>
PEAL_HD const Request& placed(const Q&, const Request& request) {
  return request;
}
template <AnyQueue Q, uint32_t kBytes>
PEAL_HD ReadWord<kBytes> placed(const Q& q, const ReadWord<kBytes, Nowhere>& read) {
  return {read.remote, sink(q)};
}
template <AnyQueue Q, Update U, class W>
PEAL_HD Atomic<U, W> placed(const Q& q, const Atomic<U, W, Nowhere>& atomic) {
  return {atomic.remote, sink(q), atomic.value};
}
template <AnyQueue Q, class Request>
PEAL_HD auto placed(const Q& q, const Fenced<Request>& fenced) {
  return Fenced<std::remove_cvref_t<decltype(placed(q, fenced.request))>>{
      fenced.fence, placed(q, fenced.request)};
}

template <AnyQueue Q, class Request>
PEAL_HD const Request& placed(const Q&, const MayCombine<Request>& one) {
  return one.request;
}

/// Blocks that a request takes of a queue's ring.
template <AnyQueue Q, class Request>
inline constexpr uint32_t kBlocksOf =
    Q::Model::template kBlocks<std::remove_cvref_t<decltype(placed(
        std::declval<const Q&>(), std::declval<const Request&>()))>>;

/// A queue, and what writing asks of its fixed part.
template <AnyQueue Q>
struct PostTarget {
  const Q& queue;
  const typename Q::Model::WorkQueue& nic;
  uint32_t mask;
};

/// Writes the requests from `at` on; only the very last one of the last lane asks for a completion.
template <AnyQueue Q, class First, class... Rest>
PEAL_DEVICE void write_all(const PostTarget<Q>& to, uint64_t at, bool reports, const First& first,
                           const Rest&... rest) {
  constexpr bool kFinal = sizeof...(Rest) == 0;
  Q::Model::write(to.nic, to.mask, at, placed(to.queue, first), kFinal && reports);
  if constexpr (!kFinal) write_all(to, at + kBlocksOf<Q, First>, reports, rest...);
}

/// Each lane's requests one after the other.
template <AnyQueue Q, class Group, class... Requests>
class RingLayout {
 public:
  PEAL_DEVICE RingLayout(const Q&, const Group&, const Requests&...) {}

  PEAL_DEVICE uint32_t blocks(const Group& group) const { return group.size() * kBlocks; }
  /// Of the last request.
  PEAL_DEVICE uint32_t last_blocks() const {
    return kBlocksOf<Q, std::tuple_element_t<sizeof...(Requests) - 1, std::tuple<Requests...>>>;
  }
  /// Stores what the calling lane has of them, from block `first` on.
  PEAL_DEVICE void write(const PostTarget<Q>& to, uint64_t first, const Group& group,
                         const Requests&... requests) const {
    write_all(to, first + group.rank() * kBlocks, group.last(), requests...);
  }

 private:
  static constexpr uint32_t kBlocks = (kBlocksOf<Q, Requests> + ...);
};

template <AnyQueue Q, class Group, class Request>
requires MayBeOne<Q, Group, Request>
class RingLayout<Q, Group, MayCombine<Request>> {
 public:
  PEAL_DEVICE RingLayout(const Q& q, const Group& group, const MayCombine<Request>& one) {
    if (group.size() == 1 || !group.adjacent() || q.by_cpu()) return;
    const auto own = words_of(one.request);
    if (follow_one_another(group, one.request.remote, own)) {
      combined_ = Q::Model::combined_blocks(group.size() * own.bytes);
    }
  }

  PEAL_DEVICE uint32_t blocks(const Group& group) const {
    return combined_ != 0 ? combined_ : group.size() * kBlocks;
  }
  PEAL_DEVICE uint32_t last_blocks() const { return combined_ != 0 ? combined_ : kBlocks; }
  PEAL_DEVICE void write(const PostTarget<Q>& to, uint64_t first, const Group& group,
                         const MayCombine<Request>& one) const {
    if (combined_ == 0) {
      return write_all(to, first + group.rank() * kBlocks, group.last(), one.request);
    }
    const auto own = words_of(one.request);
    Q::Model::write_combined(to.nic, to.mask, first, Combined{group, own, one.request.remote});
  }

 private:
  static constexpr uint32_t kBlocks = kBlocksOf<Q, Request>;
  uint32_t combined_ = 0;  // blocks of the one request of all lanes; 0: each has its own
};

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
  StageClock clock(q->times);
  Fixed<Q> fixed = Fixed<Q>::template of<R>(*q);
  if (group.leader())
    reserved = reserve<R>(*q, fixed, layout.blocks(group), &first, q, group, requests...);
  if (!group.share(reserved == Status::kOk, &first)) {
    // A lane that gave up may find the error record claimed by another and not yet written.
    const Status why = stop_status<R>(*q);
    return Posts{q, 0, why != Status::kOk ? why : Status::kTimeout};
  }
  if (group.leader()) clock.end(PostStage::kReserve);
  constexpr bool kKeeps = R != Reach::kLane && kKeepsFixed<Requests...>;
  if (R != Reach::kLane && (first & kReadAnew) != 0) {
    first &= ~kReadAnew;
    if constexpr (kKeeps) fixed = Fixed<Q>::template of<R>(*q);
  }
  // Nor may it have been connected when this lane read it, though the reservation waited for
  // nothing.
  if (kKeeps && !Q::Model::is_numbered(fixed.nic)) fixed = Fixed<Q>::template of<R>(*q);
  // By value: what it writes with is under way at once, and not read again behind each store.
  const typename Q::Model::WorkQueue nic = kKeeps ? fixed.nic : q->nic;
  layout.write({*q, nic, kKeeps ? fixed.mask : q->mask}, first, group, requests...);
  group.template sync<Edge::kGroupBeforePublish>();  // every lane's stores precede the leader's
                                                     // publication
  const uint32_t blocks = layout.blocks(group);
  uint64_t last = first + blocks - layout.last_blocks();
  if (group.leader()) {
    clock.end(PostStage::kWrite);
    hand_over<R, kRings == Rings::kNow>(*q, {.first = first, .blocks = blocks, .last = last}, q,
                                        group, last);
    clock.end(PostStage::kHandOver);
  }
  // Orders nothing that others do not: the lanes leave together and meet again at their next post.
  // Where the compiler sees no place for them to converge, those that do not ring would run ahead
  // of the one that does, and each lane would come to ring alone.
  group.template sync<Edge::kNone>();
  return Posts{q, last, Status::kOk};
}

/// Posts for one lane: together with the lanes beside it where the queue is shared, alone where it
/// is owned.
template <Reach R, bool kTogether, Rings kRings = Rings::kNow, AnyQueue Q, class... Requests>
PEAL_DEVICE BasicTicket<Q> post_by_lane(Q& q, const Requests&... requests) {
  if constexpr (kTogether && R != Reach::kLane) {
    return post<R, kRings>(q, Coalesced(&q), requests...);
  } else {
    return post<R, kRings>(q, Alone{}, requests...);
  }
}

/// post_by_lane() of a store of a few words, which may be one request with what the lanes beside it
/// store.
template <Reach R, Rings kRings = Rings::kNow, AnyQueue Q, class Request>
PEAL_DEVICE BasicTicket<Q> post_few(Q& q, const Request& request) {
  if constexpr (R != Reach::kLane) {
    return post<R, kRings>(q, Coalesced(&q), MayCombine<Request>{request});
  } else {
    return post<R, kRings>(q, Alone{}, request);
  }
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
