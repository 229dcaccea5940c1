// SPDX-License-Identifier: Apache-2.0
//
// What quiet, fence, barriers and atomics wait for: queues drained, and settled where a PE's memory
// is reached in more than one way (two NICs, or a NIC and a mapping). Edges
// kDoneBeforeQuiet, kStoresBeforeFlag, kNicDataBeforeFlag and kDrainedBeforeUnmark.
//
//   quiet, fence  look at the queues that are marked (nic/mark.h), the lanes of a scope together;
//                 settle them where ContextFields::settle says so
//   an atomic     goes by rail 0 where there are several (resolve.h), so that one NIC of the peer
//                 executes all of them. Where that is not the block's own queue, the own queue is
//                 settled first, and the atomic is waited for: the block's order holds
//
// A settled queue: the peer's memory shows what the queue has carried. A completion says that the
// peer's NIC took it; that NIC's writes may still be on the bus when a flag comes another way. The
// answer to a READ on the same queue passes no earlier write of that NIC (PCIe).
// docs/memory_model.md, "Several ways to one memory".
#pragma once

#include <cstdint>

#include "device/context.h"
#include "device/detail/dump.h"
#include "device/detail/resolve.h"
#include "device/nic/post.h"
#include "device/transport/model.h"

namespace peal {
namespace detail {

/// Posts a READ behind what the queue carries, unless one is the last thing there already.
template <Reach R, bool kTogether>
PEAL_DEVICE void post_settling_read(const ContextFields& ctx, SendQueue& q) {
  const uint64_t reserved = load_relaxed<R>(&q.reserved) & kReservedCount;
  if (load_relaxed<R>(&q.settled) == reserved) return;
  if (is_unconnected(reserved, load_relaxed<R>(&q.completed))) return;
  const uint32_t at = rail_of(ctx, q) * static_cast<uint32_t>(ctx.n_pes) + q.peer;
  const nic::Remote first_word{0, ctx.heap.word_rkeys[at]};
  using Look = nic::ReadWord<sizeof(uint64_t), nic::Nowhere>;
  const Ticket read = nic::post_by_lane<R, kTogether>(q, Look{first_word, {}});
  if (read.status == Status::kOk) store_relaxed<R>(&q.settled, read.index + 1);
}

/// Settles one queue and waits for it.
template <Reach R, bool kTogether>
PEAL_DEVICE_COLD Status settle(const ContextState* state, SendQueue* q) {
  const Status known = stop_status<R>(*q);
  if (known != Status::kOk) return known;
  post_settling_read<R, kTogether>(state->fields, *q);
  return nic::drain<R>(*q);
}

/// The calling block's own queue, if an atomic that goes by `at` leaves it; else null.
template <Reach R>
PEAL_DEVICE SendQueue* queue_left(const BasicContext<R>& ctx, const SendQueue* at, int pe) {
  if (ctx.rails == 1) return nullptr;
  SendQueue* const own = chosen_queue(ctx, Asked{.address = nullptr, .bytes = 0, .pe = pe});
  return own == at ? nullptr : own;
}

/// Before an atomic is posted: what the block posted before it, on the queue that it leaves, is
/// executed.
template <Reach R, bool kTogether>
PEAL_DEVICE Status settle_left(const BasicContext<R>& ctx, SendQueue* left) {
  return left == nullptr ? Status::kOk : settle<R, kRarelyTogether<kTogether>>(ctx.state, left);
}

/// nic::wait() for atomics that left their block's queue.
template <Reach R, nic::Rings kRings>
PEAL_DEVICE_COLD Status wait_there(Ticket ticket) {
  if constexpr (kRings == nic::Rings::kLater) nic::ring_for<R>(ticket);
  return nic::wait<R>(ticket);
}

/// post_by_lane() for an atomic that nobody waits for.
template <Reach R, bool kTogether, nic::Rings kRings = nic::Rings::kNow, class Request>
PEAL_DEVICE Ticket post_in_order(const BasicContext<R>& ctx, const Destination& at, int pe,
                                 const Request& request) {
  SendQueue* const left = queue_left(ctx, at.queue, pe);
  const Status before = settle_left<R, kTogether>(ctx, left);
  if (before != Status::kOk) return Ticket{nullptr, 0, before};
  Ticket ticket = nic::post_by_lane<R, kTogether, kRings>(*at.queue, request);
  if (left != nullptr) ticket.status = wait_there<R, kRings>(ticket);
  return ticket;
}

inline constexpr uint32_t kMarkBatch = 8;  // portions of marks that a lane loads at once
inline constexpr uint32_t kLookBatch = 4;  // queues that it looks at at once

/// Takes the lowest bit out of `bits`, and answers its number.
PEAL_DEVICE uint32_t take_bit(uint64_t* bits) {
  const auto number = static_cast<uint32_t>(__ffsll(static_cast<long long>(*bits))) - 1;
  *bits &= *bits - 1;
  return number;
}

/// The queues that a caller drains, and their marks: queue i has bit i % 64 of word i / 64. The
/// lanes that share the looking take portions of a word in turn. Threads of many blocks, each of
/// which drains all queues of a context by itself, begin at their own ones (of the first 512), and
/// come where others have waited already: that a queue is complete takes a look.
struct Marked {
  const uint64_t* marks;
  std::byte* queues;  // the first one
  uint32_t stride;
  uint32_t count;
  uint32_t lane;
  uint32_t lanes;
  uint32_t begin;  // the queue to begin with; 0 where lanes share the looking

  /// Queue i of the order of looking.
  PEAL_DEVICE SendQueue& queue(uint32_t i) const {
    return numbered(i / 64 * 64 + (i + begin) % 64);
  }
  PEAL_DEVICE SendQueue& numbered(uint32_t number) const {
    return *reinterpret_cast<SendQueue*>(queues + uint64_t{number} * stride);
  }
  /// The queue of the lowest of the marks from `first` on, which is taken out; any if there is
  /// none.
  PEAL_DEVICE SendQueue& take_queue(uint32_t first, uint64_t* from) const {
    return *from != 0 ? queue(first + take_bit(from)) : numbered(first);
  }
  /// Queues that one portion of marks is about.
  PEAL_DEVICE uint32_t portion() const { return lanes == 1 ? 64 : kLookBatch; }
};

/// Marked::begin.
template <Reach R, class S>
PEAL_DEVICE uint32_t first_drained(const ContextFields& ctx, S) {
  if constexpr (R != Reach::kGpu || !std::is_same_v<S, Thread>) return 0;
  return block_in_grid() % ctx.queues_per_peer * static_cast<uint32_t>(ctx.n_pes);
}

template <Reach R, class S>
PEAL_DEVICE Marked marked_of(const BasicContext<R>& ctx, S scope) {
  const QueueRange range = drained_queues<R>(ctx);
  const auto peers = static_cast<uint32_t>(ctx.n_pes);
  // Where a block's queues are all there are, their marks begin at word 0.
  const uint32_t row = R == Reach::kGpu || range.first == 0 ? 0 : range.first / peers;
  return {ctx.marks + mark_words(row, peers),
          ctx.queues + range.first * ctx.queue_stride,
          static_cast<uint32_t>(ctx.queue_stride),
          range.count,
          scope.rank(),
          scope.size(),
          first_drained<R>(ctx, scope)};
}

/// The marks of the calling lane's portion number `at`; all of them where the host says so.
template <Reach R>
PEAL_DEVICE uint64_t marks_at(const Marked& m, uint32_t at, bool everywhere) {
  const uint32_t first = at * m.portion();
  if (first >= m.count) return 0;
  const uint64_t marked = load_batched<R>(&m.marks[first / 64]);  // beside `everywhere`
  const uint64_t whole = ~uint64_t{0} >> (64 - m.portion());
  const uint32_t left = m.count - first;
  uint64_t marks = left < m.portion() ? (uint64_t{1} << left) - 1 : whole;
  // No queue behind the last one is marked.
  if (!everywhere) marks = marked >> first % 64 & whole;
  return m.begin % 64 == 0 ? marks : marks >> m.begin % 64 | marks << (64 - m.begin % 64);
}

/// Calls visit(first, marks) for each portion of the calling lane in which queues are marked: queue
/// first + i where bit i of `marks` is set. Most portions have none: it looks at several at once.
template <Reach R, class Visit>
PEAL_DEVICE void for_each_portion(const Marked& m, const ContextState* state, const Visit& visit) {
  const bool everywhere = load_relaxed<Reach::kSystem>(&state->look_everywhere) != 0;
  const uint32_t portions = (m.count + m.portion() - 1) / m.portion();
  for (uint32_t from = m.lane; from < portions; from += kMarkBatch * m.lanes) {
    uint64_t marks[kMarkBatch];
    uint64_t found = 0;
    PEAL_UNROLL
    for (uint32_t k = 0; k < kMarkBatch; ++k) {
      marks[k] = marks_at<R>(m, from + k * m.lanes, everywhere);
      found |= uint64_t{marks[k] != 0} << k;
    }
    // From the own word on, where it is among these.
    const uint32_t begin = m.begin / 64 - from;
    uint64_t later = begin < kMarkBatch ? found & ((uint64_t{1} << begin) - 1) : 0;
    for (found ^= later; (found | later) != 0;) {
      const uint32_t k = take_bit(found != 0 ? &found : &later);
      visit((from + k * m.lanes) * m.portion(), marks[k]);
    }
  }
}

/// Which of the marked queues of a portion carry more than their last READ settles.
template <Reach R>
PEAL_DEVICE uint64_t unsettled(const Marked& m, uint32_t first, uint64_t marks) {
  uint64_t found = 0;
  while (marks != 0) {
    uint64_t reserved[kLookBatch];
    uint64_t settled[kLookBatch];
    uint64_t completed[kLookBatch];
    uint64_t next = marks;
    PEAL_UNROLL
    for (uint32_t k = 0; k < kLookBatch; ++k) {
      const SendQueue& q = m.take_queue(first, &next);
      reserved[k] = load_batched<R>(&q.reserved) & kReservedCount;
      settled[k] = load_batched<R>(&q.settled);
      completed[k] = load_batched<R>(&q.completed);
    }
    PEAL_UNROLL
    for (uint32_t k = 0; k < kLookBatch; ++k) {
      if (marks == 0) continue;
      const uint64_t bit = uint64_t{1} << take_bit(&marks);
      if (reserved[k] != settled[k] && !is_unconnected(reserved[k], completed[k])) found |= bit;
    }
  }
  // Who sees that a READ covers the queue sees that READ as the last WQE, and waits for it.
  acquire_batch<Reach::kGpu>();
  return found;
}

/// Lets READs settle the marked queues that work; draining the queues waits for them.
template <Reach R, class S>
PEAL_DEVICE_COLD void begin_settling(const ContextState* state, S scope) {
  const Marked m = marked_of(static_cast<const BasicContext<R>&>(state->fields), scope);
  for_each_portion<R>(m, state, [&](uint32_t first, uint64_t marks) {
    for (uint64_t left = unsettled<R>(m, first, marks); left != 0;) {
      SendQueue& q = m.queue(first + take_bit(&left));
      if (stop_status<R>(q) == Status::kOk) post_settling_read<R, true>(state->fields, q);
    }
  });
}

/// What is to be done with the first kLookBatch queues of some marks, a bit each.
struct Found {
  uint32_t busy = 0;    // under way, or failed
  uint32_t quiet = 0;   // nothing was posted since quiet looked last
  uint32_t masked = 0;  // their PE was given up: nobody waits there
};

/// True for who keeps the marks: where blocks share the queues that is block 0, or the quiet of one
/// block would be the second look behind another's, and each queue marked anew by each kernel.
template <Reach R>
PEAL_DEVICE bool unmarks() {
  return R != Reach::kGpu || block_in_grid() == 0;
}

/// Sorts idle queues, of which all that was posted is complete, into those where nothing was posted
/// since quiet looked last and others. A queue stays marked until quiet has found it so twice:
/// those in use are not marked anew by every post.
template <Reach R>
PEAL_DEVICE uint32_t look_back(const Marked& m, uint32_t first, uint64_t marks, uint32_t idle,
                               const uint64_t (&ends)[kLookBatch]) {
  uint64_t looked[kLookBatch];
  uint64_t next = marks;
  PEAL_UNROLL
  for (uint32_t k = 0; k < kLookBatch; ++k) {
    looked[k] = load_batched<R>(&m.take_queue(first, &next).looked);
  }
  uint32_t quiet = 0;
  PEAL_UNROLL
  for (uint32_t k = 0; k < kLookBatch; ++k) {
    if (marks == 0) continue;
    const uint32_t at = first + take_bit(&marks);
    if ((idle & 1u << k) == 0) continue;
    if (looked[k] == ends[k]) {
      quiet |= 1u << k;
    } else {
      store_relaxed<R>(&m.queue(at).looked, ends[k]);
    }
  }
  return quiet;
}

/// Looks at several queues of a portion at once, for each look takes long; at fewer words of each
/// than there are, for each takes registers.
template <Reach R>
PEAL_DEVICE Found look_at(const Marked& m, uint32_t first, uint64_t marks) {
  uint64_t reserved[kLookBatch];
  uint64_t posted[kLookBatch];
  uint64_t completed[kLookBatch];
  uint32_t failed[kLookBatch];
  uint64_t next = marks;
  PEAL_UNROLL
  for (uint32_t k = 0; k < kLookBatch; ++k) {
    const SendQueue& q = m.take_queue(first, &next);
    reserved[k] = load_batched<R>(&q.reserved) & kReservedCount;
    posted[k] = load_batched<R>(&q.posted);
    completed[k] = load_batched<R>(&q.completed);
    failed[k] = load_batched<R>(&q.error.status);
  }
  Found found;
  uint32_t idle = 0;
  next = marks;
  PEAL_UNROLL
  for (uint32_t k = 0; k < kLookBatch; ++k) {
    if (next == 0) continue;
    const uint32_t at = first + take_bit(&next);
    if (weakened(Edge::kDoneBeforeQuiet) && at != 0) continue;
    if (failed[k] == static_cast<uint32_t>(Status::kPeerMasked)) {
      found.masked |= 1u << k;
    } else if (failed[k] != 0 || nic::is_busy(reserved[k], posted[k], completed[k])) {
      found.busy |= 1u << k;
    } else {
      idle |= 1u << k;
    }
    posted[k] = posted_end(posted[k]);
  }
  if (idle != 0 && unmarks<R>()) found.quiet = look_back<R>(m, first, marks, idle, posted);
  return found;
}

/// Drains the marked queues; the first failure wins, but every queue is waited for.
template <Reach R>
PEAL_DEVICE_COLD Status drain_queues(Marked m, const ContextState* state) {
  Status status = Status::kOk;
  for_each_portion<R>(m, state, [&](uint32_t first, uint64_t marks) {
    while (marks != 0) {
      const Found found = look_at<R>(m, first, marks);
      PEAL_NO_UNROLL
      for (uint32_t bit = 1; bit != 1u << kLookBatch; bit <<= 1) {
        if (marks == 0) break;
        SendQueue& q = m.queue(first + take_bit(&marks));
        if ((found.busy & bit) != 0) {
          const Status drained = nic::drain<R>(q);
          if (drained == Status::kOk && unmarks<R>()) {
            store_relaxed<R>(&q.looked, posted_end(load_relaxed<R>(&q.posted)));
          }
          if (status == Status::kOk) status = drained;
        } else if ((found.quiet & bit) != 0) {
          nic::unmark<R>(q, state->fields.settle != 0);
        } else if ((found.masked & bit) != 0) {
          clear_bits<nic::kMarkReach<R>>(q.marks, q.mark_bit);
        }
      }
    }
  });
  // kDoneBeforeQuiet and kDrainedBeforeUnmark: what others knew of the queues that were found
  // complete, or unmarked.
  acquire_batch<Reach::kGpu, Edge::kDrainedBeforeQuiet>();
  return status;
}

/// Waits for what was posted on the caller's queues; answers their first error. All lanes of the
/// scope call and share the looking.
template <Reach R, class S>
PEAL_DEVICE Status drain_marked(const BasicContext<R>& ctx, S scope) {
  if (ctx.queues_per_peer == 0) return Status::kOk;
  scope.sync();  // kLanesBeforeLeader: what any of the lanes posted, or knows to be posted
  // kNicDataBeforeFlag: what the NICs of the peers took is there for flags that come by other ways,
  // too.
  if (ctx.settle != 0 && !weakened(Edge::kNicDataBeforeFlag)) {
    call_apart<&begin_settling<R, S>>(ctx.state, scope);
  }
  return first_failure(scope, call_apart<&drain_queues<R>>(marked_of(ctx, scope), ctx.state));
}

/// True if lanes may have stored directly to memory that is not this GPU's, where no other PE's is
/// mapped: memory of the host has windows, or a program's own was named.
PEAL_DEVICE bool stored_elsewhere(const ContextFields& ctx) {
  const uint32_t windows = load_relaxed<Reach::kGpu>(&ctx.windows->off_gpu);
  const uint32_t own = load_relaxed<Reach::kGpu>(&ctx.state->own_memory);
  return (windows != 0) | (own == kOwnMemoryStored);
}

/// Orders what lanes have stored directly, and what the NIC has brought, before what this lane
/// stores next. A fence of the system takes half a microsecond more than one of the GPU.
template <Edge E>
PEAL_DEVICE void fence_stores(const ContextFields& ctx) {
  if (ctx.stores_stay == 0) return fence_direct_stores<E>();
  const bool elsewhere = stored_elsewhere(ctx);  // looked up while the fence waits
  fence_direct_stores<E, Reach::kGpu>();
  if (elsewhere && !weakened(Edge::kOffGpuStoresBeforeFlag)) fence_direct_stores<E>();
}

/// The end of a quiet, by one lane: the context's usage error, `drained`, or why its waits have
/// been ended. fence() is behind the queues: it passes on what the NIC has brought, too.
template <Reach R, class Fence>
PEAL_DEVICE Status end_quiet_by(const BasicContext<R>& ctx, Status drained, const Fence& fence) {
  const Status usage = usage_status(ctx);  // both looked up while the fence waits
  const Status ended = ended_status(ctx);
  fence();
  if (usage != Status::kOk) return usage;
  return drained != Status::kOk ? drained : ended;
}
template <Reach R>
PEAL_DEVICE Status end_quiet(const BasicContext<R>& ctx, Status drained) {
  return end_quiet_by(ctx, drained, [&] { fence_stores<Edge::kStoresBeforeFlag>(ctx); });
}

/// Everything posted and stored so far has arrived; the first error of the context.
template <Reach R>
PEAL_DEVICE Status drain_all(const BasicContext<R>& ctx) {
  return end_quiet(ctx, drain_marked(ctx, thread));
}

/// True if what is posted first is executed first at its PE, without waiting.
template <Reach R>
PEAL_DEVICE bool queues_keep_order(const BasicContext<R>& ctx) {
  const bool several = R == Reach::kGpu && ctx.queues_per_peer > 1;
  return !several && (ctx.relaxed | ctx.settle) == 0;
}

/// drain_all() for what goes to one PE; by `kCall`.
template <Reach R, Call kCall>
PEAL_DEVICE_COLD Status drain_pe(ContextState* state, int pe) {
  const auto& ctx = static_cast<const BasicContext<R>&>(state->fields);
  const auto peers = static_cast<uint32_t>(ctx.n_pes);
  if (static_cast<uint32_t>(pe) >= peers) {
    return refuse(state, Status::kBadPe,
                  Asked{.address = nullptr, .bytes = 0, .pe = pe, .call = kCall});
  }
  const Status first = usage_status(ctx);
  const QueueRange range = drained_queues<R>(ctx);
  const uint32_t at = range.first + static_cast<uint32_t>(pe);
  const bool settles = ctx.settle != 0 && !weakened(Edge::kNicDataBeforeFlag);
  for (uint32_t i = at; settles && i < range.first + range.count; i += peers) {
    SendQueue& q = *queue_at(ctx, i);
    if (stop_status<R>(q) == Status::kOk) post_settling_read<R, true>(ctx, q);
  }
  Status drained = Status::kOk;
  for (uint32_t i = at; i < range.first + range.count; i += peers) {
    SendQueue& q = *queue_at(ctx, i);
    if (queue_status<R>(q) == Status::kPeerMasked) continue;  // nobody waits there
    const Status one = nic::drain<R>(q);
    if (drained == Status::kOk) drained = one;
  }
  const Status ended = ended_status(ctx);
  fence_stores<Edge::kStoresBeforeFlag>(ctx);
  if (first != Status::kOk) return first;
  return drained != Status::kOk ? drained : ended;
}

}  // namespace detail
}  // namespace peal
