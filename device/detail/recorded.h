// SPDX-License-Identifier: Apache-2.0
//
// How a lane writes its calls into the flight recorder (device/shared/call_record.h): when a call
// begins and when it ends, both out of line. The leader of a scope writes; in a grid the leader of
// block 0 does.
#pragma once

#include <cstdint>
#include <cstring>

#include "device/base/order.h"
#include "device/base/scope.h"
#include "device/context.h"
#include "device/shared/call_note.h"
#include "device/shared/call_record.h"
#include "device/shared/waits.h"

namespace peal::detail {

/// A call that is under way.
struct Recording {
  uint64_t begun_ns;
  CallRecord* record;  // null: it has none
  uint64_t number;
};

/// Takes the record for the caller to write, if it is in the phase that `from` says.
PEAL_HD bool open_record(CallRecord& record, uint64_t from, uint64_t number) {
  const uint64_t mine = CallRecord::turn_of(number, CallPhase::kWritten);
  if (!compare_exchange<Reach::kGpu>(&record.turn, from, mine)) return false;
  // Whoever sees a word that is written from here on sees the turn too.
  memory::fence_release<Reach::kSystem, Edge::kNone>();
  return true;
}

PEAL_HD void close_record(CallRecord& record, uint64_t number, CallPhase phase) {
  store_release<Reach::kSystem>(&record.turn, CallRecord::turn_of(number, phase));
}

/// The host may be reading: whole words.
template <class T>
PEAL_HD void write_words(T* to, const T& value) {
  constexpr size_t kWords = sizeof(T) / sizeof(uint64_t);
  static_assert(sizeof(T) % sizeof(uint64_t) == 0);
  uint64_t words[kWords];
  memcpy(words, &value, sizeof(value));
  for (size_t i = 0; i < kWords; ++i) {
    store_relaxed<Reach::kSystem>(reinterpret_cast<uint64_t*>(to) + i, words[i]);
  }
}

PEAL_HD CallRecord::Body body_of(const CallNote& note) {
  CallRecord::Body body{};
  body.begun_ns = now_ns();
  body.lane = this_lane();
  body.place = this_place();
  body.there = note.there;
  body.bytes = note.there_bytes * note.rows;
  body.here = note.here;
  body.word = note.word;
  body.value = note.value;
  body.number = note.number;
  body.pe = note.pe;
  body.call = note.call;
  body.scope = note.scope;
  body.starts = note.starts;
  body.adds = note.adds;
  return body;
}

PEAL_COLD inline Recording record_begin(RecordTable& table, const CallNote& note) {
  const CallRecord::Body body = body_of(note);
  store_relaxed<Reach::kSystem>(&table.ran, uint64_t{1});
  const uint64_t number = fetch_add_relaxed<Reach::kGpu>(&table.next, uint64_t{1});
  CallRecord& record = table.ring[number & table.mask];
  const uint64_t before = load_relaxed<Reach::kGpu>(&record.turn);
  const bool free = CallRecord::phase(before) != CallPhase::kWritten &&
                    before < CallRecord::turn_of(number, CallPhase::kEmpty);
  if (!free || !open_record(record, before, number)) {
    fetch_add_relaxed<Reach::kGpu>(&table.missed, uint64_t{1});
    return {body.begun_ns, nullptr, number};
  }
  write_words(&record.body, body);
  close_record(record, number, CallPhase::kBegun);
  return {body.begun_ns, &record, number};
}

PEAL_HD void count_call(RecordTable& table, const CallNote& note, uint64_t time_ns, Status status) {
  CallCount& count = table.count[static_cast<uint32_t>(note.call)];
  fetch_add_relaxed<Reach::kGpu>(&count.calls, uint64_t{1});
  fetch_add_relaxed<Reach::kGpu>(&count.time_ns, time_ns);
  if (note.there_bytes != 0) {
    fetch_add_relaxed<Reach::kGpu>(&count.bytes, note.there_bytes * note.rows);
  }
  if (status == Status::kOk) return;
  fetch_add_relaxed<Reach::kGpu>(status == Status::kTimeout ? &count.timeouts : &count.failed,
                                 uint64_t{1});
}

/// `note` has what the call has learned: its ticket, the value that a wait saw, the number of a
/// barrier.
PEAL_COLD inline void record_end(RecordTable& table, const Recording& recording,
                                 const CallNote& note, Status status) {
  const uint64_t ended_ns = now_ns();
  count_call(table, note, ended_ns - recording.begun_ns, status);
  CallRecord* const record = recording.record;
  if (record == nullptr) return;
  // A later call may have taken the record meanwhile.
  const uint64_t begun = CallRecord::turn_of(recording.number, CallPhase::kBegun);
  if (!open_record(*record, begun, recording.number)) return;
  CallRecord::Body& body = record->body;
  store_relaxed<Reach::kSystem>(&body.ended_ns, ended_ns);
  store_relaxed<Reach::kSystem>(&body.value, note.value);
  store_relaxed<Reach::kSystem>(&body.number, note.number);
  store_relaxed<Reach::kSystem>(reinterpret_cast<uint64_t*>(&body.queue),
                                reinterpret_cast<uint64_t>(note.queue));
  store_relaxed<Reach::kSystem>(&body.index, note.index);
  store_relaxed<Reach::kSystem>(&body.status, static_cast<uint32_t>(status));
  close_record(*record, recording.number, CallPhase::kEnded);
}

/// Records a look that saw what it wanted. The others are only counted, for a loop of looks would
/// fill the ring.
PEAL_COLD inline void record_look(RecordTable& table, const CallNote& note, bool saw) {
  store_relaxed<Reach::kSystem>(&table.ran, uint64_t{1});
  if (!saw) {
    fetch_add_relaxed<Reach::kGpu>(&table.looks, uint64_t{1});
    return;
  }
  record_end(table, record_begin(table, note), note, Status::kOk);
}

}  // namespace peal::detail
