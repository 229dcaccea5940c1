// SPDX-License-Identifier: Apache-2.0
//
// The one place that every call of a kernel passes, for those that look at calls: checked mode
// (PEAL_CHECK=on), and the flight recorder (PEAL_RECORD), which writes calls down (recorded.h).
//
//   return checked(ctx, scope, [&] { return note_of(...); }, [&] { return access_peer(...); });
//
// Checked mode looks before a call is made:
//
//   lanes     all of a block are there, and gave the same arguments
//   ranges    lie in blocks of the heap that are allocated, at both ends
//   tickets   are of this context and of after the last recovery
//   barriers  and collective calls have one caller at a time
//   queues    that a block or a lane owns nobody else uses
//
// A call with a mistake is refused with kMistake, which the context keeps as it keeps other wrong
// arguments. On a CPU the host then looks at the order of accesses, through CallHooks.
//
// With both off, a call on a CPU pays two loads and a branch, and on a GPU, where programs bring in
// the observers that they want (base/observers.h), nothing.
#pragma once

#include <cstdint>
#include <type_traits>

#include "device/base/observers.h"
#include "device/base/scaled.h"
#include "device/base/scope.h"
#include "device/context.h"
#include "device/detail/callers.h"
#include "device/detail/mistakes.h"
#include "device/detail/recorded.h"
#include "device/shared/call_note.h"
#include "device/types.h"

namespace peal::detail {

// How a call ended, by its answer; and the answer of a refused call.
PEAL_HD Status outcome(Status status) { return status; }
template <class Answer>
PEAL_HD Status outcome(const Answer& answer) {
  return answer.status;
}

template <class Answer>
PEAL_HD Answer refused_by(Status status) {
  if constexpr (std::is_same_v<Answer, Status>) {
    return status;
  } else {
    Answer answer{};
    answer.status = status;
    return answer;
  }
}

template <class Answer>
PEAL_HD void take_ticket(CallNote&, const Answer&) {}
PEAL_HD void take_ticket(CallNote& note, const Ticket& ticket) {
  note.queue = ticket.queue;
  note.index = ticket.index;
}

// What a call has learned of itself, for the recorder.
template <class Answer>
PEAL_HD void take_value(CallNote&, const Answer&) {}
PEAL_HD void take_value(CallNote& note, const Fetched<uint64_t>& seen) {
  if (note.call != Call::kSignalWaitUntil) return;
  note.value = seen.value;
  note.number = 1;
}
PEAL_HD void take_epoch(CallNote& note, const ContextState* state) {
  if (!is_of_all(note.call)) return;
  note.number = load_relaxed<Reach::kGpu>(&state->sync_epoch);
}

/// True in checked mode.
PEAL_DEVICE bool checks_calls(const ContextState* state) {
  return kChecksCalls && state->checks != nullptr;
}

/// True while the flight recorder writes.
PEAL_DEVICE bool records_calls(const ContextState* state) {
  return kRecordsCalls && state->records != nullptr;
}

/// False: no program that is compiled so has its calls looked at.
inline constexpr bool kObservesCalls = kChecksCalls || kRecordsCalls;

/// True if either looks at the context's calls: one branch for both.
PEAL_DEVICE bool observed(const ContextState* state) {
  const uint64_t checks = kChecksCalls ? reinterpret_cast<uint64_t>(state->checks) : 0;
  const uint64_t records = kRecordsCalls ? reinterpret_cast<uint64_t>(state->records) : 0;
  return (checks | records) != 0;
}

/// What is wrong with a range at home that a call's note does not tell of. By one lane, in checked
/// mode.
PEAL_DEVICE_COLD inline Status look_at_more(ContextState* state, const void* address,
                                            uint64_t bytes, Call call, CallSide side) {
  Misuse found;
  found.mistake = look_at_range(*state->checks, state->fields, address, bytes);
  if (found.mistake == Mistake::kNone) return Status::kOk;
  found.call = call;
  found.side = side;
  found.pe = state->fields.pe;
  found.address = address;
  found.bytes = bytes;
  return tell(state, found);
}

/// One call of a scope while it is looked at. All lanes of the scope do the same with it.
template <Reach R, class S>
class Observed {
 public:
  PEAL_DEVICE Observed(ContextState* state, S scope, const CallNote& note)
      : state_(state), scope_(scope), note_(note) {
    note_.scope = kScopeOf<S>;
  }

  /// What the call is refused with, or kOk.
  PEAL_DEVICE Status begin() {
    if (writes()) recording_ = record_begin(*state_->records, note_);
    Status refused = Status::kOk;
    if (checks_calls(state_)) refused = begin_checked<R>(state_, scope_, note_);
    if (refused != Status::kOk && writes()) {
      record_end(*state_->records, recording_, note_, refused);
    }
    return refused;
  }

  template <class Answer>
  PEAL_DEVICE void end(const Answer& answer) {
    take_ticket(note_, answer);
    if (checks_calls(state_)) end_checked<R>(state_, scope_, note_, outcome(answer));
    if (!writes()) return;
    take_value(note_, answer);
    take_epoch(note_, state_);
    record_end(*state_->records, recording_, note_, outcome(answer));
  }

 private:
  PEAL_DEVICE bool writes() const {
    const bool once = kScopeOf<S> != CallScope::kGrid || block_in_grid() == 0;
    return records_calls(state_) && once && lanes_in(scope_).leader();
  }

  ContextState* state_;
  [[no_unique_address]] S scope_;
  CallNote note_;
  Recording recording_{};
};

/// Makes the call `op()`, whose CallNote is `note`, while it is looked at, unless checked mode
/// finds a mistake in it.
template <Reach R, class S, class Op>
PEAL_DEVICE auto observe(const BasicContext<R>& ctx, S scope, const CallNote& note, const Op& op) {
  using Answer = decltype(op());
  Observed<R, S> call(ctx.state, scope, note);
  const Status refused = call.begin();
  if (refused != Status::kOk) return refused_by<Answer>(refused);
  Answer answer = op();
  call.end(answer);
  return answer;
}

/// Makes the call `op()`, whose CallNote is make(). All lanes of the scope call.
template <Reach R, class S, class Make, class Op>
PEAL_DEVICE auto checked(const BasicContext<R>& ctx, S scope, const Make& make, const Op& op) {
  if constexpr (kObservesCalls) {
    if (observed(ctx.state)) return observe(ctx, scope, make(), op);
  }
  return op();
}

/// A look that does not wait, whose CallNote is make(): what `op()` answers converts to false where
/// it did not see what it wanted. One thread.
template <Reach R, class Make, class Op>
PEAL_DEVICE auto checked_look(const BasicContext<R>& ctx, const Make& make, const Op& op) {
  if constexpr (kObservesCalls) {
    using Answer = decltype(op());
    ContextState* const state = ctx.state;
    if (!observed(state)) return op();
    const CallNote note = make();
    const bool checks = checks_calls(state);
    if (checks && begin_checked<R>(state, thread, note) != Status::kOk) return Answer{};
    const Answer answer = op();
    if (checks) end_checked<R>(state, thread, note, answer ? Status::kOk : Status::kTimeout);
    const bool keeps = answer && note.call != Call::kSignalFetch;  // which wants nothing
    if (records_calls(state)) record_look(*state->records, note, keeps);
    return answer;
  } else {
    return op();
  }
}

// ---- notes

PEAL_HD CallNote note_of(Call call, int pe, const void* there, uint64_t there_bytes,
                         const void* here, uint64_t here_bytes) {
  CallNote note;
  note.call = call;
  note.pe = pe;
  note.there = there;
  note.there_bytes = there_bytes;
  note.here = here;
  note.here_bytes = here_bytes;
  return note;
}

/// The note of a wait for words at home, or of a look at them.
template <class T>
PEAL_HD CallNote note_of_words(Call call, const ContextFields& ctx, const T* words,
                               uint64_t count = 1, uint64_t value = 0) {
  CallNote note = note_of(call, ctx.pe, words, scaled_by<sizeof(T)>(count), nullptr, 0);
  note.value = value;
  return note;
}

/// The note of a wait for a ticket, or of a look at it.
PEAL_HD CallNote note_of(Call call, const Ticket& ticket) {
  CallNote note;
  note.call = call;
  note.queue = ticket.queue;
  note.index = ticket.index;
  return note;
}

/// The note of a collective call.
PEAL_HD CallNote note_of_team(Call call, uint64_t team, const void* dst = nullptr,
                              uint64_t dst_bytes = 0, const void* src = nullptr,
                              uint64_t src_bytes = 0) {
  CallNote note = note_of(call, -1, dst, dst_bytes, src, src_bytes);
  note.number = team;
  return note;
}

/// The note of a call that touches no memory but words of the library.
PEAL_HD CallNote note_of(Call call, int pe = -1) {
  CallNote note;
  note.call = call;
  note.pe = pe;
  return note;
}

}  // namespace peal::detail
