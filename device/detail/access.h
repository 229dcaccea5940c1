// SPDX-License-Identifier: Apache-2.0
//
// The one place that asks how a PE's memory is reached: mapped here, so that the lanes of the scope
// load and store, or by a work request of its NIC.
//
//   access_peer(ctx, scope, operation)
//
// An operation is a type:
//
//   Answer                       what it answers; of a refused call only `status` has a meaning
//   asked()                      the range at the PE
//   mapped(ctx, scope, address)  does it by loads and stores, each lane its part
//   by_nic(ctx, scope, where)    does it by work requests
//
// and for several lanes
//
//   kVotes                       true: lanes need not all look, and agree on what was found; false:
//                                it has a near_of() and an access_far() of its own
//   has_part(block)              if it votes: false for lanes that copy nothing, and need not look
//
// What a kernel inlines is the case of a near heap, and for one thread of a near window. For scopes
// of several lanes the rest is out of line, and the operation meanwhile in memory, so that the
// registers of a kernel are those of the copy. In relocatable code one thread's is, too.
#pragma once

#include "device/base/call.h"
#include "device/base/scope.h"
#include "device/context.h"
#include "device/detail/checked.h"
#include "device/detail/resolve.h"

namespace peal::detail {

template <class Op>
PEAL_DEVICE Near near_of(const ContextFields& ctx, const Op& op) {
  return find_near(ctx, op.asked());
}

/// Does the operation where its range has been found.
template <Reach R, class S, class Op>
PEAL_DEVICE typename Op::Answer access_at(const BasicContext<R>& ctx, S scope, const Op& op,
                                          const Destination& where) {
  if (where.status != Status::kOk) {
    typename Op::Answer refused{};
    refused.status = where.status;
    return refused;
  }
  if (where.direct != nullptr) return op.mapped(ctx, scope, where.direct);
  return op.by_nic(ctx, scope, where);
}

/// resolve(), out of line: for operations that wait for an answer in relocatable code, where they
/// share it.
PEAL_DEVICE_COLD inline Destination resolve_apart(const ContextState* state, Asked asked) {
  return resolve(state->fields, asked);
}

/// An operation of one thread on a range that is not in a near heap. `by_warp` is that of the
/// caller's context, which `ctx` need not be.
template <Reach R, class S, class Op>
PEAL_DEVICE typename Op::Answer access_far(const BasicContext<R>& ctx, S scope, const Op& op,
                                           uint8_t by_warp) {
  static_assert(std::is_same_v<S, Thread>);
  Asked asked = op.asked();
  asked.by_warp = by_warp;
  if constexpr (PEAL_RELOCATABLE && !std::is_same_v<typename Op::Answer, Ticket>) {
    return access_at(ctx, scope, op, resolve_apart(ctx.state, asked));
  } else {
    const Near near = find_near(ctx, asked);
    return find_near_window(
        ctx, asked, near, [&](std::byte* at) { return op.mapped(ctx, scope, at); },
        [&] { return access_at(ctx, scope, op, resolve_far(ctx, asked, near)); });
  }
}

template <Reach R, class S, class Op>
PEAL_DEVICE_COLD void access_elsewhere(const ContextState* state, S scope, const Op* op,
                                       typename Op::Answer* answer) {
  *answer = access_far(static_cast<const BasicContext<R>&>(state->fields), scope, *op, 0);
}

/// The same by one thread, by value: a kernel of relocatable code then needs no stack for it, whose
/// address it would form first thing.
template <Reach R, class Op>
PEAL_DEVICE_COLD typename Op::Answer access_by_value(const ContextState* state, Op op,
                                                     uint8_t by_warp) {
  return access_far(static_cast<const BasicContext<R>&>(state->fields), thread, op, by_warp);
}

/// access_far(), out of line but for one thread of code that is not relocatable.
template <Reach R, class S, class Op>
PEAL_DEVICE typename Op::Answer access_apart(const BasicContext<R>& ctx, S scope, const Op& op) {
  if constexpr (!std::is_same_v<S, Thread>) {
    typename Op::Answer answer{};
    Op kept = op;
    in_memory(&kept);
    call_apart<&access_elsewhere<R, S, Op>>(ctx.state, scope, &kept, &answer);
    return answer;
  } else if constexpr (PEAL_RELOCATABLE) {
    return call_apart<&access_by_value<R, Op>>(ctx.state, op, ctx.by_warp);
  } else {
    return access_far(ctx, scope, op, ctx.by_warp);
  }
}

// Out of line each for itself: the registers of a chain of calls add up.

template <Reach R, class S, class Op>
PEAL_DEVICE_COLD void resolve_operation(ContextState* state, S scope, const Op* op,
                                        Destination* where) {
  const auto& ctx = static_cast<const BasicContext<R>&>(state->fields);
  resolve_together(ctx, scope, op->asked(), where);
}

template <Reach R, class S, class Op>
PEAL_DEVICE_COLD void do_by_nic(ContextState* state, S scope, const Op* op,
                                const Destination* where, typename Op::Answer* answer) {
  *answer = op->by_nic(static_cast<const BasicContext<R>&>(state->fields), scope, *where);
}

/// Finds where an operation of several lanes that is not in a near heap goes on: at the mapped
/// address. Null: the operation has been done, and `answer` says how it ended.
template <Reach R, class S, class Op>
PEAL_DEVICE_COLD std::byte* find_elsewhere(ContextState* state, S scope, const Op* op,
                                           typename Op::Answer* answer) {
  Destination where;
  resolve_operation<R>(state, scope, op, &where);
  if (where.status != Status::kOk) {
    answer->status = where.status;
    return nullptr;
  }
  if (where.direct == nullptr) do_by_nic<R>(state, scope, op, &where, answer);
  return where.direct;
}

template <Reach R, class S, class Op>
PEAL_DEVICE typename Op::Answer access_peer(const BasicContext<R>& ctx, S scope, const Op& op) {
  if constexpr (std::is_same_v<S, Thread>) {
    const Near near = near_of(ctx, op);
    // As a pointer that may be null, and not as a condition of its own: then ptxas sees whether all
    // lanes have one address, and adds up in the warp what an atomic adds there.
    std::byte* const at_hand = near.here ? near.address : nullptr;
    return at_hand != nullptr ? op.mapped(ctx, scope, at_hand) : access_apart(ctx, scope, op);
  } else if constexpr (Op::kVotes) {
    bool looks = true;
    if constexpr (std::is_same_v<S, Block>) looks = op.has_part(scope);
    Near near{nullptr, true};
    if (looks) near = near_of(ctx, op);
    // kLanesBeforeLeader: what the lanes stored precedes what they copy.
    if (!any(scope, !near.here)) return op.mapped(ctx, scope, near.address);
    typename Op::Answer answer{};
    Op kept = op;
    in_memory(&kept);
    in_memory(&answer);
    std::byte* const there =
        call_apart<&find_elsewhere<R, S, Op>>(ctx.state, scope, &kept, &answer);
    in_memory(&kept);
    in_memory(&answer);
    if (there == nullptr) return answer;
    return kept.mapped(ctx, scope, there);
  } else {
    const Near near = near_of(ctx, op);
    if (near.here) return op.mapped(ctx, scope, near.address);
    return access_apart(ctx, scope, op);
  }
}

/// access_peer() of a call of a kernel, which checked mode looks at: note() says what it does. As
/// checked(), but that the call goes on in this file: docs/architecture.md#life-of-a-put.
template <Reach R, class S, class Op>
PEAL_DEVICE typename Op::Answer checked_access(const BasicContext<R>& ctx, S scope, const Op& op) {
  if constexpr (kObservesCalls) {
    if (observed(ctx.state)) {
      return observe(ctx, scope, op.note(), [&] { return access_peer(ctx, scope, op); });
    }
  }
  return access_peer(ctx, scope, op);
}

/// An operation by one thread, as two functions: one takes a context and an address, the other a
/// context and a Destination. They hold what they need by value, for nothing in a register has an
/// address.
template <class A, class Mapped, class ByNic>
struct WordAccess {
  using Answer = A;
  Asked range;
  Mapped do_mapped;
  ByNic do_by_nic;

  PEAL_DEVICE Asked asked() const { return range; }
  template <Reach R>
  PEAL_DEVICE A mapped(const BasicContext<R>& ctx, Thread, std::byte* at) const {
    return do_mapped(ctx, at);
  }
  template <Reach R>
  PEAL_DEVICE A by_nic(const BasicContext<R>& ctx, Thread, const Destination& at) const {
    return do_by_nic(ctx, at);
  }
};

/// `note` makes the call's CallNote.
template <class Answer, Reach R, class Note, class Mapped, class ByNic>
PEAL_DEVICE Answer access_word(const BasicContext<R>& ctx, const Asked& range, const Note& note,
                               const Mapped& mapped, const ByNic& by_nic) {
  return checked(ctx, thread, note, [&] {
    return access_peer(ctx, thread, WordAccess<Answer, Mapped, ByNic>{range, mapped, by_nic});
  });
}

template <class Answer, Reach R, class Mapped, class ByNic>
PEAL_DEVICE Answer access_word(const BasicContext<R>& ctx, const Asked& range, const Mapped& mapped,
                               const ByNic& by_nic) {
  const auto note = [&] {
    return note_of(range.call, range.pe, range.address, range.bytes, nullptr, 0);
  };
  return access_word<Answer>(ctx, range, note, mapped, by_nic);
}

}  // namespace peal::detail
