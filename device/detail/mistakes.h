// SPDX-License-Identifier: Apache-2.0
//
// Finding the mistakes of a call (checked.h). All of it is out of line: it runs in checked mode
// alone.
#pragma once

#include <cstddef>
#include <cstdint>

#include "device/base/order.h"
#include "device/base/place.h"
#include "device/base/scope.h"
#include "device/context.h"
#include "device/detail/callers.h"
#include "device/detail/resolve.h"
#include "device/shared/call_note.h"
#include "device/shared/waits.h"
#include "device/transport/model.h"

namespace peal::detail {

/// The number of a lane in CheckTable, and back.
PEAL_DEVICE uint64_t number_of_this_lane() {
  return (uint64_t{block_in_grid()} << 32 | thread_in_block()) + 1;
}
PEAL_DEVICE LaneName name_of_lane(uint64_t number) {
  LaneName lane = this_lane();  // of the same kernel, as far as anybody knows
  lane.block = static_cast<uint32_t>((number - 1) >> 32);
  lane.thread = static_cast<uint32_t>(number - 1);
  return lane;
}

/// What a call was wrong in.
struct Misuse {
  Mistake mistake = Mistake::kNone;
  Call call = Call::kNone;
  CallSide side = CallSide::kThere;
  const void* address = nullptr;
  uint64_t bytes = 0;
  int pe = -1;
  uint32_t argument = 0;
  uint64_t other = 0;  // a lane's number, or 0
  uint64_t detail = 0;
  uint64_t other_detail = 0;
};

/// Tells the host, and latches it as the context's usage error if it has none.
PEAL_DEVICE_COLD inline Status tell(ContextState* state, const Misuse& found) {
  UsageError error{};
  error.pe = found.pe;
  error.call = found.call;
  error.side = found.side;
  error.address = reinterpret_cast<uint64_t>(found.address);
  error.bytes = found.bytes;
  error.time_ns = now_ns();
  error.lane = this_lane();
  error.place = this_place();
  error.mistake = static_cast<uint32_t>(found.mistake);
  error.argument = found.argument;
  if (found.other != 0) error.other = name_of_lane(found.other);
  error.detail = found.detail;
  error.other_detail = found.other_detail;
  const CallHooks* const hooks = state->checks->hooks;
  if (hooks != nullptr) hooks->found(hooks->self, state, error);
  UsageError& usage = state->usage;
  error.claimed = static_cast<uint32_t>(Status::kMistake);
  if (compare_exchange<Reach::kGpu>(&usage.claimed, 0u, error.claimed)) {
    usage = error;
    store_release<Reach::kSystem>(&usage.status, static_cast<uint32_t>(Status::kMistake));
    if (state->alarm != nullptr) store_release<Reach::kSystem>(state->alarm, 1u);
  }
  return Status::kMistake;
}

// ---- ranges

/// What is wrong with a range of the heap; what lies elsewhere is the operation's matter.
PEAL_DEVICE Mistake look_at_range(const CheckTable& table, const ContextFields& ctx,
                                  const void* address, uint64_t bytes) {
  if (bytes == 0 || !in_heap(ctx, address, bytes)) return Mistake::kNone;
  const uint64_t begin = offset_in(ctx.heap, address);
  const uint64_t end = begin + bytes;
  constexpr uint64_t kUnit = CheckTable::kUnit;
  bool inside = false;
  for (uint64_t unit = begin / kUnit; unit * kUnit < end; ++unit) {
    const uint8_t extent = table.extents[unit];
    if (extent == CheckTable::kFreed) return Mistake::kFreed;
    if (extent == CheckTable::kInternal) return Mistake::kInternal;
    const uint64_t allocated = unit * kUnit + extent;
    if (begin < allocated) inside = true;
    if (!inside && extent == 0) return Mistake::kNotAllocated;
    if (allocated < end && allocated < (unit + 1) * kUnit) return Mistake::kPastEnd;
  }
  return Mistake::kNone;
}

struct RowsAt {
  const void* first;
  uint64_t bytes;
  int64_t pitch;
};

PEAL_DEVICE Misuse look_at_rows(const ContextState* state, const CallNote& note, const RowsAt& rows,
                                CallSide side, int pe) {
  Misuse found;
  for (uint64_t row = 0; row < note.rows && rows.first != nullptr; ++row) {
    const std::byte* const at =
        static_cast<const std::byte*>(rows.first) + static_cast<int64_t>(row) * rows.pitch;
    if (!in_heap(state->fields, at, rows.bytes)) return found;  // nor do rows behind it
    found.mistake = look_at_range(*state->checks, state->fields, at, rows.bytes);
    if (found.mistake == Mistake::kNone) continue;
    found.address = at;
    found.bytes = rows.bytes;
    found.call = note.call;
    found.side = side;
    found.pe = pe;
    return found;
  }
  return found;
}

PEAL_DEVICE Misuse look_at_ranges(const ContextState* state, const CallNote& note) {
  const int me = state->fields.pe;
  const CallSide there = is_of_words(note.call) ? CallSide::kWord : CallSide::kThere;
  Misuse found = look_at_rows(state, note, {note.there, note.there_bytes, note.there_pitch}, there,
                              note.pe < 0 ? me : note.pe);
  if (found.mistake != Mistake::kNone) return found;
  found =
      look_at_rows(state, note, {note.here, note.here_bytes, note.here_pitch}, CallSide::kHere, me);
  if (found.mistake != Mistake::kNone || note.word == nullptr) return found;
  found.mistake = look_at_range(*state->checks, state->fields, note.word, sizeof(uint64_t));
  found.address = note.word;
  found.bytes = sizeof(uint64_t);
  found.call = note.call;
  found.side = CallSide::kWord;
  found.pe = note.pe;
  return found;
}

// ---- tickets

PEAL_DEVICE Misuse look_at_ticket(const ContextState* state, const CallNote& note) {
  Misuse found;
  if (!is_of_ticket(note.call) || note.queue == nullptr) return found;
  const ContextFields& ctx = state->fields;
  const auto at = static_cast<uint64_t>(static_cast<const std::byte*>(note.queue) - ctx.queues);
  const uint64_t all = uint64_t{ctx.queues_per_peer} * static_cast<uint64_t>(ctx.n_pes);
  found.call = note.call;
  found.pe = ctx.pe;
  found.address = note.queue;
  found.detail = note.index;
  if (ctx.queues == nullptr || at % ctx.queue_stride != 0 || at / ctx.queue_stride >= all) {
    found.mistake = Mistake::kTicketOther;
    return found;
  }
  const auto& q = *static_cast<const SendQueue*>(note.queue);
  const uint64_t newest = (load_acquire<Reach::kGpu>(&q.reserved) & kReservedCount) - 1;
  if (static_cast<int64_t>(note.index - newest) > 0) found.mistake = Mistake::kTicketStale;
  found.other_detail = newest;
  return found;
}

// ---- who is in it already

/// Takes a word that only one may have at a time, and answers 0; else answers who has it.
PEAL_DEVICE uint64_t claim(uint64_t* word) {
  const uint64_t mine = number_of_this_lane();
  if (compare_exchange<Reach::kGpu>(word, uint64_t{0}, mine)) return 0;
  const uint64_t other = load_relaxed<Reach::kGpu>(word);
  return other == mine ? 0 : other;
}

/// Takes a word that a lane gives back before its call returns, and answers likewise. Whoever has
/// it is in a call now; a lane of the same number is one of another kernel.
PEAL_DEVICE uint64_t claim_meeting(uint64_t* word) {
  const uint64_t mine = number_of_this_lane();
  if (compare_exchange<Reach::kGpu>(word, uint64_t{0}, mine)) return 0;
  const uint64_t other = load_relaxed<Reach::kGpu>(word);
  return other == 0 ? mine : other;
}

/// In a call by a grid block 0 takes the word for all blocks.
PEAL_DEVICE uint64_t* meeting_word(CheckTable& table, const CallNote& note) {
  if (note.scope == CallScope::kGrid && block_in_grid() != 0) return nullptr;
  if (is_of_all(note.call)) return &table.barrier;
  return is_collective(note.call) ? &table.team[note.number % CheckTable::kTeams] : nullptr;
}

/// True if something of the call may be under way when it has returned.
PEAL_DEVICE bool leaves_work(const CallNote& note) {
  if (is_put(note.call)) return note.starts != 0 || note.here_bytes <= nic::Model::kMaxInlineBytes;
  if (note.call == Call::kGet || fetches(note.call)) return note.starts != 0;
  return writes_word(note.call);
}

/// True if a call goes by the block's own queues. Collective calls, but for a barrier, have queues
/// of their own.
PEAL_DEVICE bool uses_queue(Call call) {
  if (is_collective(call)) return call == Call::kBarrier;
  return !is_of_words(call) && !is_of_ticket(call);
}

/// Claims a queue of a context whose queues are owned: the block's queues are its own, and one
/// lane's at a time.
template <Reach R>
PEAL_DEVICE uint64_t claim_queue(CheckTable& table, const ContextFields& ctx,
                                 const CallNote& note) {
  if (R == Reach::kGpu || !uses_queue(note.call)) return 0;
  const uint32_t per_peer = ctx.queues_per_peer == 0 ? 1 : ctx.queues_per_peer;
  const uint32_t queue = block_in_grid() % per_peer % CheckTable::kQueues;
  const uint64_t block = uint64_t{block_in_grid()} + 1;
  // At once: blocks that begin together do not both find it free.
  uint64_t* const word = &table.undrained[queue];
  const bool taken = leaves_work(note) && compare_exchange<Reach::kGpu>(word, uint64_t{0}, block);
  const uint64_t before = taken ? block : load_relaxed<Reach::kGpu>(word);
  if (before != 0 && before != block) return (before - 1) << 32 | 1;
  if constexpr (R == Reach::kLane) return claim(&table.queue[queue]);
  return 0;
}

template <Reach R>
PEAL_DEVICE void release_queue(CheckTable& table, const ContextFields& ctx, const CallNote& note) {
  if (R == Reach::kGpu || !uses_queue(note.call)) return;
  const uint32_t per_peer = ctx.queues_per_peer == 0 ? 1 : ctx.queues_per_peer;
  const uint32_t queue = block_in_grid() % per_peer % CheckTable::kQueues;
  if (drains(note.call) && note.pe < 0) {
    store_relaxed<Reach::kGpu>(&table.undrained[queue], uint64_t{0});
  }
  if constexpr (R == Reach::kLane) store_release<Reach::kGpu>(&table.queue[queue], uint64_t{0});
}

template <Reach R>
PEAL_DEVICE Misuse look_at_users(ContextState* state, const CallNote& note) {
  CheckTable& table = *state->checks;
  Misuse found;
  found.call = note.call;
  found.pe = state->fields.pe;
  found.address = note.there;
  uint64_t* const meeting = meeting_word(table, note);
  if (meeting != nullptr) found.other = claim_meeting(meeting);
  if (found.other != 0) {
    found.mistake = Mistake::kBarrierInUse;
    return found;
  }
  found.other = claim_queue<R>(table, state->fields, note);
  if (found.other == 0) return found;
  found.mistake = Mistake::kQueueShared;
  if (meeting != nullptr) store_release<Reach::kGpu>(meeting, uint64_t{0});
  return found;
}

// ---- lanes

/// The first argument in which two notes differ, as its offset, or sizeof(CallNote).
PEAL_DEVICE uint32_t difference(const CallNote& a, const CallNote& b) {
  if (a.call != b.call) return offsetof(CallNote, call);
  if (a.pe != b.pe) return offsetof(CallNote, pe);
  if (a.there != b.there) return offsetof(CallNote, there);
  if (a.there_bytes != b.there_bytes) return offsetof(CallNote, there_bytes);
  if (a.here != b.here) return offsetof(CallNote, here);
  if (a.here_bytes != b.here_bytes) return offsetof(CallNote, here_bytes);
  if (a.rows != b.rows) return offsetof(CallNote, rows);
  if (a.there_pitch != b.there_pitch) return offsetof(CallNote, there_pitch);
  if (a.here_pitch != b.here_pitch) return offsetof(CallNote, here_pitch);
  if (a.word != b.word) return offsetof(CallNote, word);
  if (a.value != b.value) return offsetof(CallNote, value);
  if (a.number != b.number) return offsetof(CallNote, number);
  return sizeof(CallNote);
}

PEAL_DEVICE uint64_t argument_of(const CallNote& note, uint32_t argument) {
  uint64_t value = 0;
  const uint32_t bytes = argument == offsetof(CallNote, pe)     ? sizeof(note.pe)
                         : argument == offsetof(CallNote, call) ? sizeof(note.call)
                                                                : sizeof(value);
  memcpy(&value, reinterpret_cast<const std::byte*>(&note) + argument, bytes);
  return value;
}

template <class S>
PEAL_DEVICE Misuse look_at_lanes(const ContextState* state, S scope, const CallNote& note) {
  Misuse found;
  found.call = note.call;
  found.pe = state->fields.pe;
  found.address = note.there;
  found.bytes = note.there_bytes;
  if constexpr (std::is_same_v<S, Block>) {
    const auto left = static_cast<uint32_t>(__syncthreads_count(1));
    if (left != threads_in_block()) {
      found.mistake = Mistake::kLanesMissing;
      found.detail = left;
      return found;
    }
  }
  const CallNote leaders = scope.from_leader(note);
  const uint32_t argument = difference(note, leaders);
  if (argument == sizeof(CallNote)) return found;
  found.mistake = Mistake::kLanesDiffer;
  found.argument = argument;
  found.detail = argument_of(note, argument);
  found.other_detail = argument_of(leaders, argument);
  found.other = number_of_this_lane() - scope.rank();
  return found;
}

// ---- one call

template <Reach R>
PEAL_DEVICE Status look_at_call(ContextState* state, const CallNote& note) {
  store_relaxed<Reach::kSystem>(&state->checks->ran, 1u);
  Misuse found = look_at_ranges(state, note);
  if (found.mistake == Mistake::kNone) found = look_at_ticket(state, note);
  if (found.mistake == Mistake::kNone) found = look_at_users<R>(state, note);
  if (found.mistake != Mistake::kNone) return tell(state, found);
  const CallHooks* const hooks = state->checks->hooks;
  const bool once = note.scope != CallScope::kGrid || block_in_grid() == 0;
  if (hooks != nullptr && once) hooks->begin(hooks->self, state, note);
  return Status::kOk;
}

template <Reach R, class S>
PEAL_DEVICE_COLD Status begin_checked(ContextState* state, S scope, const CallNote& note) {
  enter_library();
  const auto lanes = lanes_in(scope);
  Status status = Status::kOk;
  if constexpr (std::is_same_v<S, Thread>) {
    status = look_at_call<R>(state, note);
  } else {
    const Misuse found = look_at_lanes(state, lanes, note);
    if (found.mistake != Mistake::kNone) status = tell(state, found);
    status = first_failure(lanes, status);
    if (status == Status::kOk) {
      if (lanes.leader()) status = look_at_call<R>(state, note);
      status = lanes.from_leader(status);
    }
  }
  if (status != Status::kOk) leave_library();
  return status;
}

template <Reach R, class S>
PEAL_DEVICE_COLD void end_checked(ContextState* state, S scope, const CallNote& note,
                                  Status status) {
  CheckTable& table = *state->checks;
  if (lanes_in(scope).leader()) {
    const CallHooks* const hooks = table.hooks;
    const bool once = note.scope != CallScope::kGrid || block_in_grid() == 0;
    if (hooks != nullptr && once) hooks->end(hooks->self, state, note, status);
    release_queue<R>(table, state->fields, note);
    uint64_t* const meeting = meeting_word(table, note);
    if (meeting != nullptr) store_release<Reach::kGpu>(meeting, uint64_t{0});
  }
  leave_library();
}

}  // namespace peal::detail
