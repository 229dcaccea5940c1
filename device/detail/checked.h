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
// With both off, a call on a CPU pays two loads and a branch, and on a GPU, where programs are
// compiled with -DPEAL_CHECK=1 or -DPEAL_RECORD=1, nothing.
#pragma once

#include <cstdint>
#include <type_traits>

#include "device/base/scaled.h"
#include "device/base/scope.h"
#include "device/context.h"
#include "device/detail/callers.h"
#include "device/shared/call_note.h"
#include "device/types.h"

#if PEAL_CUDA || PEAL_SIM
#define PEAL_LOOKS_AT_CALLS 0
#else
#define PEAL_LOOKS_AT_CALLS 1
#endif
#if !defined(PEAL_CHECK)
#define PEAL_CHECK PEAL_LOOKS_AT_CALLS
#endif
#if !defined(PEAL_RECORD)
#define PEAL_RECORD PEAL_LOOKS_AT_CALLS
#endif

#if PEAL_CHECK
#include "device/detail/mistakes.h"
#endif
#if PEAL_RECORD
#include "device/detail/recorded.h"
#endif

namespace peal::detail {

// How a call ended, of what it answered; and what a refused one answers.
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

/// True if somebody looks at the context's calls.
PEAL_DEVICE bool observed([[maybe_unused]] const ContextState* state) {
  bool either = false;
#if PEAL_CHECK && PEAL_RECORD
  either =
      (reinterpret_cast<uint64_t>(state->checks) | reinterpret_cast<uint64_t>(state->records)) != 0;
#elif PEAL_CHECK
  either = state->checks != nullptr;
#elif PEAL_RECORD
  either = state->records != nullptr;
#endif
  return either;
}

/// True in checked mode.
PEAL_DEVICE bool checks_calls([[maybe_unused]] const ContextState* state) {
#if PEAL_CHECK
  return state->checks != nullptr;
#else
  return false;
#endif
}

/// What is wrong with a range at home that a call's note does not tell of, in checked mode. One
/// lane.
PEAL_DEVICE_COLD inline Status look_at_more([[maybe_unused]] ContextState* state,
                                            [[maybe_unused]] const void* address,
                                            [[maybe_unused]] uint64_t bytes,
                                            [[maybe_unused]] Call call,
                                            [[maybe_unused]] CallSide side) {
#if PEAL_CHECK
  Misuse found;
  found.mistake = look_at_range(*state->checks, state->fields, address, bytes);
  if (found.mistake == Mistake::kNone) return Status::kOk;
  found.call = call;
  found.side = side;
  found.pe = state->fields.pe;
  found.address = address;
  found.bytes = bytes;
  return tell(state, found);
#else
  return Status::kOk;
#endif
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
#if PEAL_RECORD
    if (writes()) recording_ = record_begin(*state_->records, note_);
#endif
    Status refused = Status::kOk;
#if PEAL_CHECK
    if (state_->checks != nullptr) refused = begin_checked<R>(state_, scope_, note_);
#endif
#if PEAL_RECORD
    if (refused != Status::kOk && writes()) {
      record_end(*state_->records, recording_, note_, refused);
    }
#endif
    return refused;
  }

  template <class Answer>
  PEAL_DEVICE void end(const Answer& answer) {
    take_ticket(note_, answer);
#if PEAL_CHECK
    if (state_->checks != nullptr) end_checked<R>(state_, scope_, note_, outcome(answer));
#endif
#if PEAL_RECORD
    if (!writes()) return;
    take_value(note_, answer);
    take_epoch(note_, state_);
    record_end(*state_->records, recording_, note_, outcome(answer));
#endif
  }

 private:
  ContextState* state_;
  [[no_unique_address]] S scope_;
  CallNote note_;
#if PEAL_RECORD
  PEAL_DEVICE bool writes() const {
    const bool once = kScopeOf<S> != CallScope::kGrid || block_in_grid() == 0;
    return state_->records != nullptr && once && lanes_in(scope_).leader();
  }
  Recording recording_{};
#endif
};

/// Makes the call `op()`, whose CallNote is make(), unless checked mode finds a mistake in it. All
/// lanes of the scope call.
template <Reach R, class S, class Make, class Op>
PEAL_DEVICE auto checked([[maybe_unused]] const BasicContext<R>& ctx, [[maybe_unused]] S scope,
                         [[maybe_unused]] const Make& make, const Op& op) {
#if PEAL_CHECK || PEAL_RECORD
  using Answer = decltype(op());
  if (!observed(ctx.state)) return op();
  Observed<R, S> call(ctx.state, scope, make());
  const Status refused = call.begin();
  if (refused != Status::kOk) return refused_by<Answer>(refused);
  Answer answer = op();
  call.end(answer);
  return answer;
#else
  return op();
#endif
}

/// A look that does not wait, whose CallNote is make(): what `op()` answers converts to false where
/// it did not see what it wanted. One thread.
template <Reach R, class Make, class Op>
PEAL_DEVICE auto checked_look([[maybe_unused]] const BasicContext<R>& ctx,
                              [[maybe_unused]] const Make& make, const Op& op) {
#if PEAL_CHECK || PEAL_RECORD
  using Answer = decltype(op());
  ContextState* const state = ctx.state;
  if (!observed(state)) return op();
  const CallNote note = make();
#if PEAL_CHECK
  const bool checks = state->checks != nullptr;
  if (checks && begin_checked<R>(state, thread, note) != Status::kOk) return Answer{};
#endif
  const Answer answer = op();
#if PEAL_CHECK
  if (checks) end_checked<R>(state, thread, note, answer ? Status::kOk : Status::kTimeout);
#endif
#if PEAL_RECORD
  const bool keeps = answer && note.call != Call::kSignalFetch;  // which has no opinion
  if (state->records != nullptr) record_look(*state->records, note, keeps);
#endif
  return answer;
#else
  return op();
#endif
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

/// The note of a call that touches no memory but its own words.
PEAL_HD CallNote note_of(Call call, int pe = -1) {
  CallNote note;
  note.call = call;
  note.pe = pe;
  return note;
}

}  // namespace peal::detail
