// SPDX-License-Identifier: Apache-2.0
//
// From the range that a call names to how it is reached, or to the first usage error of a context:
//
//   resolve()              near: its address here (lookup.h)
//     resolve_far()        the heap of a PE that is not mapped: through_nic()
//     resolve_elsewhere()  the rest: reach(), by what the table says; or what is wrong with it
//   through_nic()          the caller's queue to the PE (queue_choice.h), an offset and a key
#pragma once

#include <cstdint>

#include "device/base/call.h"
#include "device/base/order.h"
#include "device/base/scaled.h"
#include "device/base/scope.h"
#include "device/context.h"
#include "device/detail/asked.h"
#include "device/detail/lookup.h"
#include "device/detail/meet_fault.h"
#include "device/detail/queue_choice.h"
#include "device/nic/post.h"
#include "device/transport/model.h"

namespace peal {
namespace detail {

/// A remote range made concrete: its address here if the peer's memory is mapped, else which queue,
/// which offset, which key.
struct Destination {
  std::byte* direct;  // null: through the NIC
  SendQueue* queue;
  nic::Remote remote;
  Status status;
};

/// Queues [first, first + count) of a context.
struct QueueRange {
  uint32_t first;
  uint32_t count;
};

/// The queues that a caller drains: all of a context that all lanes share, else those of its own
/// block. Others' are touched by their owners alone, without atomics.
template <Reach R>
PEAL_DEVICE QueueRange drained_queues(const ContextFields& ctx) {
  const auto peers = static_cast<uint32_t>(ctx.n_pes);
  if constexpr (R == Reach::kGpu) {
    return {0, ctx.queues_per_peer * peers};
  } else {
    if (ctx.queues_per_peer <= 1) return {0, ctx.queues_per_peer * peers};
    return {block_in_grid() % ctx.queues_per_peer * peers, peers};
  }
}

/// A queue's rail; with one NIC nothing is looked up.
PEAL_HD uint32_t rail_of(const ContextFields& ctx, const SendQueue& q) {
  return ctx.rails > 1 ? q.rail : 0;
}

/// Which of a window's keys is that of `pe`, for the rail of a queue.
PEAL_HD uint32_t key_index(const ContextFields& ctx, const SendQueue& q, int pe) {
  return rail_of(ctx, q) * static_cast<uint32_t>(ctx.n_pes) + static_cast<uint32_t>(pe);
}

/// The caller's queue, and the key by which its rail knows the window.
PEAL_DEVICE Destination through_nic(const ContextFields& ctx, const Window& w, uint64_t offset,
                                    const Asked& asked) {
  SendQueue* const q = chosen_queue(ctx, asked);
  const uint32_t at = key_index(ctx, *q, asked.pe);
  // Words have strict keys (kDataBeforeWord). Relaxed atomics need none, for they vouch for
  // nothing: a simulation can take away what their NICs promise beyond that.
  const bool strict = asked.use != Use::kPayload && !weakened(Edge::kDataBeforeWord) &&
                      !(asked.use == Use::kAtomic && weakened(Edge::kDataBeforeAtomic));
  return {nullptr, q, {offset, strict ? w.word_rkeys[at] : w.rkeys[at]}, Status::kOk};
}

/// How a place is reached that lookup.h has found, mapped or by the NIC.
PEAL_DEVICE Destination reach(ContextState* state, const WindowOffset& place, const Asked& asked) {
  const ContextFields& ctx = state->fields;
  const Window& w = *place.window;
  if (w.direct != nullptr && w.direct[asked.pe] != nullptr) {
    // With a plan of faults no PE is near: every operation of one thread comes here.
    const bool meets = state->faults != nullptr && asked.counts;
    return {w.direct[asked.pe] + place.offset,
            nullptr,
            {},
            meets ? meet_fault(state, asked) : Status::kOk};
  }
  if (w.rkeys == nullptr) {
    // Without a NIC every PE is mapped, but for those that were given up.
    return {nullptr, nullptr, {}, Status::kPeerMasked};
  }
  return through_nic(ctx, w, part_of(w, asked.pe).iova + place.offset, asked);
}

/// True if the range is any memory of this PE, where the program may name such: not what begins in
/// the heap and ends behind it.
PEAL_DEVICE bool own_memory(const ContextState& state, const Asked& asked) {
  const ContextFields& ctx = state.fields;
  return load_relaxed<Reach::kGpu>(&state.own_memory) != 0 && asked.pe == ctx.pe &&
         asked.address != nullptr && asked.bytes != kEndless && !names_window(asked.address) &&
         offset_in(ctx.heap, asked.address) >= ctx.heap.bytes;
}

/// Where own_memory() said so: the address itself, for loads and stores.
PEAL_DEVICE Destination at_home(ContextState* state, const Asked& asked) {
  if (misaligned(asked)) return {nullptr, nullptr, {}, refuse(state, Status::kMisaligned, asked)};
  // Once: many lanes may be here again and again.
  if (load_relaxed<Reach::kGpu>(&state->own_memory) != kOwnMemoryStored) {
    store_relaxed<Reach::kGpu>(&state->own_memory, kOwnMemoryStored);
  }
  auto* const here = static_cast<std::byte*>(const_cast<void*>(asked.address));
  return {here, nullptr, {}, Status::kOk};
}

/// What resolve() does with anything but the heap of an existing PE; also says what is wrong.
PEAL_DEVICE_COLD inline Destination resolve_elsewhere(ContextState* state, Asked asked) {
  const ContextFields& ctx = state->fields;
  if (asked.pe < 0 || asked.pe >= ctx.n_pes) {
    return {nullptr, nullptr, {}, refuse(state, Status::kBadPe, asked)};
  }
  // Nothing to move has no address.
  if (asked.bytes == 0) return {nullptr, nullptr, {}, Status::kOk};
  const WindowOffset place = find_symmetric(ctx, asked);
  if (place.window == nullptr) {
    if (own_memory(*state, asked)) return at_home(state, asked);
    return {nullptr, nullptr, {}, refuse(state, Status::kNotSymmetric, asked)};
  }
  asked.by_warp = 0;  // the choice takes registers, which callers of what is off the path pay for
  // The parts of a window may begin at different bytes of a page, and so of a word.
  const uint64_t at_peer = part_of(*place.window, asked.pe).iova + place.offset;
  if (asked.aligned && at_peer % asked.bytes != 0) {
    return {nullptr, nullptr, {}, refuse(state, Status::kMisaligned, asked)};
  }
  return reach(state, place, asked);
}

/// resolve() of what is not at hand, for which find_near() answered `near`.
PEAL_DEVICE Destination resolve_far(const ContextFields& ctx, const Asked& asked,
                                    const Near& near) {
  const bool pe_exists = static_cast<uint32_t>(asked.pe) < static_cast<uint32_t>(ctx.n_pes);
  const bool aligned = !misaligned(asked);
  // One branch for what takes no load.
  const bool by_nic = (near.in_heap & pe_exists & aligned & (ctx.heap.rkeys != nullptr)) &&
                      lacks_heap(ctx, asked.pe, near);
  if (!by_nic) return resolve_elsewhere(ctx.state, asked);
  return through_nic(ctx, ctx.heap, offset_in(ctx.heap, asked.address), asked);
}

/// Checks PE, range and alignment; finds how the range is reached: mapped here, or by the queue of
/// the calling block. `again` is the context too, for what is not at hand.
PEAL_DEVICE Destination resolve(const ContextFields& ctx, const ContextFields& again,
                                const Asked& asked) {
  const auto mapped_at = [](std::byte* at) { return Destination{at, nullptr, {}, Status::kOk}; };
  const Near near = find_near(ctx, asked);
  if (near.here) return mapped_at(near.address);
  return find_near_window(ctx, asked, near, mapped_at,
                          [&] { return resolve_far(again, asked, near); });
}
PEAL_DEVICE Destination resolve(const ContextFields& ctx, const Asked& asked) {
  return resolve(ctx, ctx, asked);
}

/// The same for the lanes of a scope, which meet a fault together. Into memory, so that no register
/// holds what was found while they do.
template <class S>
PEAL_DEVICE void resolve_together(const ContextFields& ctx, S scope, Asked asked,
                                  Destination* found) {
  if constexpr (std::is_same_v<S, Thread>) {
    *found = resolve(ctx, asked);
  } else {
    asked.counts = false;
    // Fields that lie in memory, read side by side: behind an acquire each goes there again, and
    // behind a branch one after the other.
    const ContextFields again = ctx;
    in_memory(&ctx);
    *found = resolve(ctx, again, asked);
    in_memory(found);
    if (found->direct != nullptr && found->status == Status::kOk && ctx.state->faults != nullptr) {
      // As a ticket, for which scopes have their shared memory already.
      found->status = by_leader(scope, [&] {
                        return Ticket{nullptr, 0, meet_fault(ctx.state, asked)};
                      }).status;
    }
  }
}
template <class S>
PEAL_DEVICE Destination resolve_together(const ContextFields& ctx, S scope, const Asked& asked) {
  Destination found;
  resolve_together(ctx, scope, asked, &found);
  return found;
}

/// The local side of a transfer.
struct Origin {
  nic::Local local;
  Status status;
  uint32_t dumped;  // Window::dumped, for what is fetched into it
};

PEAL_DEVICE_COLD inline Origin resolve_local_elsewhere(const WindowTable* windows,
                                                       const void* address, uint64_t bytes,
                                                       uint32_t rail) {
  const auto [w, offset] = find_window(windows, address, bytes, Side::kHome);
  if (w == nullptr) return {{}, Status::kNotRegistered, 0};
  // kOffGpuSourceBeforeDoorbell: a queue's own fence may reach no further than this GPU.
  if (w->off_gpu != 0) fence_posted<Reach::kSystem, Edge::kOffGpuSourceBeforeDoorbell>();
  return {{w->iova + offset, w->lkeys[rail]}, Status::kOk, w->dumped};
}

/// For a transfer by queue `q`. kNotRegistered: the caller does without, or refuses.
template <Reach R>
PEAL_DEVICE Origin resolve_local(const BasicContext<R>& ctx, const SendQueue& q,
                                 const void* address, uint64_t bytes) {
  const uint32_t rail = rail_of(ctx, q);
  if (in_heap(ctx, address, bytes)) {
    return {{offset_in(ctx.heap, address), ctx.heap.lkeys[rail]}, Status::kOk, ctx.heap.dumped};
  }
  return resolve_local_elsewhere(ctx.windows, address, bytes, rail);
}

}  // namespace detail
}  // namespace peal
