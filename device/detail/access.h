// SPDX-License-Identifier: Apache-2.0
//
// The one place that asks how a PE's memory is reached: mapped here, so that the lanes of the scope
// load and store, or by a work request of its NIC.
//
//   access_peer(ctx, scope, operation)
//
// An operation is a type:
//
//   Answer                       what it answers; of a refused one `status` alone means something
//   asked()                      the range at the PE
//   mapped(ctx, scope, address)  does it by loads and stores, each lane its part
//   by_nic(ctx, scope, where)    does it by work requests
//
// and for several lanes
//
//   kVotes                       true: lanes need not all look, and agree on what was found
//   has_part(block)              then: false for lanes that need not look, for they copy nothing
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

/// An operation on a range that is not in a near heap. One thread looks for a near window first, by
/// the instructions of find_near_window(): a hit goes on from where it was found, because to bring
/// hits together takes a third as long as a look-up.
template <Reach R, class S, class Op>
PEAL_DEVICE typename Op::Answer access_far(const BasicContext<R>& ctx, S scope, const Op& op) {
  if constexpr (std::is_same_v<S, Thread>) {
    const Asked asked = op.asked();
    const Near near = find_near(ctx, asked);
    if (names_window(asked.address)) {
      const AtHand at = near_by_number(ctx.windows, asked, near.slot);
      if (at.here) return op.mapped(ctx, scope, at.address);
    } else if (near.mapped) {
      IndexPlace place = place_in_index(ctx.windows, asked.address);
      PEAL_NO_UNROLL
      for (uint32_t left = place.near_probes(); left > 0; --left) {
        const AtHand at = near_by_address(place, asked, near.slot);
        if (at.here) return op.mapped(ctx, scope, at.address);
        place.step();
      }
    }
    return access_at(ctx, scope, op, resolve_far(ctx, asked, near));
  } else {
    return access_at(ctx, scope, op, resolve_together(ctx, scope, op.asked()));
  }
}

template <Reach R, class S, class Op>
PEAL_DEVICE_COLD void access_elsewhere(const ContextState* state, S scope, const Op* op,
                                       typename Op::Answer* answer) {
  *answer = access_far(static_cast<const BasicContext<R>&>(state->fields), scope, *op);
}

/// The same by one thread, by value: a kernel of relocatable code then needs no stack for it, whose
/// address it would form first thing.
template <Reach R, class Op>
PEAL_DEVICE_COLD typename Op::Answer access_by_value(const ContextState* state, Op op) {
  return access_far(static_cast<const BasicContext<R>&>(state->fields), thread, op);
}

/// access_far(), out of line.
template <Reach R, class S, class Op>
PEAL_DEVICE typename Op::Answer access_apart(const BasicContext<R>& ctx, S scope, const Op& op) {
  if constexpr (std::is_same_v<S, Thread>) {
    return call_apart<&access_by_value<R, Op>>(ctx.state, op);
  } else {
    typename Op::Answer answer{};
    Op kept = op;
    in_memory(&kept);
    call_apart<&access_elsewhere<R, S, Op>>(ctx.state, scope, &kept, &answer);
    return answer;
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

/// Where an operation of several lanes that is not in a near heap goes on: at a mapped address;
/// null: it has been done, as `answer` says.
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
    if constexpr (PEAL_RELOCATABLE) {
      return at_hand != nullptr ? op.mapped(ctx, scope, at_hand) : access_apart(ctx, scope, op);
    }
    return at_hand != nullptr ? op.mapped(ctx, scope, at_hand) : access_far(ctx, scope, op);
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

/// access_peer() of a call of a kernel, which checked mode looks at: note() says what it does.
template <Reach R, class S, class Op>
PEAL_DEVICE typename Op::Answer checked_access(const BasicContext<R>& ctx, S scope, const Op& op) {
  return checked(
      ctx, scope, [&] { return op.note(); }, [&] { return access_peer(ctx, scope, op); });
}

/// An operation by one thread, as two functions: of a context and an address, and of a context and
/// a Destination. They have what they need by value, and so no address of what is in registers.
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

/// `note`: of the call.
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
