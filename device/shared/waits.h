// SPDX-License-Identifier: Apache-2.0
//
// How a waiting lane writes its record (wait_record.h): nothing in the first turns, one call out of
// line when the wait lasts, another when it ends.
//
//   wait_noted(&table, timeout_ns, done, stop, what)      what() -> Wait, in the two rare cases
//   alone
#pragma once

#include <cstdint>
#include <cstring>
#include <type_traits>

#include "device/base/observers.h"
#include "device/base/order.h"
#include "device/base/place.h"
#include "device/base/spin.h"
#include "device/shared/wait_record.h"
#include "device/status.h"

namespace peal {

PEAL_HD LaneName this_lane() { return lane_as<LaneName>(); }

PEAL_HD uint64_t word_now(const Wait& wait) {
  if (wait.word_bytes == 8) {
    return load_acquire<Reach::kSystem>(static_cast<const uint64_t*>(wait.word));
  }
  if (wait.word_bytes != 4) return 0;
  const uint32_t word = load_acquire<Reach::kSystem>(static_cast<const uint32_t*>(wait.word));
  return wait.word_signed != 0 ? static_cast<uint64_t>(static_cast<int32_t>(word)) : word;
}

/// A free record for the caller to write, numbered from 1; 0 if there is none.
PEAL_HD uint32_t take_record(WaitTable& table) {
  PEAL_NO_UNROLL
  for (uint32_t i = 0; i < kWaitRecords; ++i) {
    uint32_t* const state = &table.record[i].state;
    const uint32_t seen = load_relaxed<Reach::kGpu>(state);
    if (WaitRecord::phase(seen) == WaitPhase::kFree &&
        compare_exchange<Reach::kGpu>(state, seen, seen + 1)) {
      return i + 1;
    }
  }
  fetch_add_relaxed<Reach::kGpu>(&table.dropped, uint64_t{1});
  return 0;
}

/// The host may be reading: whole words, and the state last.
PEAL_HD void show_record(WaitRecord& record, WaitPhase phase, const WaitRecord::Body& body) {
  constexpr size_t kWords = sizeof(body) / sizeof(uint64_t);
  uint64_t words[kWords];
  memcpy(words, &body, sizeof(body));
  auto* const to = reinterpret_cast<uint64_t*>(&record.body);
  for (size_t i = 0; i < kWords; ++i) store_relaxed<Reach::kSystem>(to + i, words[i]);
  const uint32_t state = load_relaxed<Reach::kGpu>(&record.state) & ~3u;
  store_release<Reach::kSystem>(&record.state, state | static_cast<uint32_t>(phase));
}

PEAL_HD void free_record(WaitRecord& record) {
  const uint32_t state = load_relaxed<Reach::kGpu>(&record.state) & ~3u;
  store_release<Reach::kSystem>(&record.state, state + 4);
}

/// The wait lasts. Answers the number of its record, or 0. A table may be null: nobody asks.
PEAL_COLD inline uint32_t begin_wait(WaitTable* table, Wait wait) {
  if (table == nullptr) return 0;
  const uint32_t taken = take_record(*table);
  if (taken == 0) return 0;
  show_record(table->record[taken - 1], WaitPhase::kWaiting,
              {wait, word_now(wait), now_ns(), 0, this_lane(), this_place()});
  return taken;
}

/// The wait is over, with a Status; `taken` is what begin_wait() answered.
PEAL_COLD inline void end_wait(WaitTable* table, uint32_t taken, Wait wait, uint32_t status) {
  if (table == nullptr) return;
  if (status == 0) return free_record(table->record[taken - 1]);
  const bool known = taken != 0;
  if (!known) taken = take_record(*table);
  if (taken == 0) return;
  WaitRecord& record = table->record[taken - 1];
  const uint64_t begun_ns = known ? load_relaxed<Reach::kGpu>(&record.body.begun_ns) : 0;
  store_relaxed<Reach::kSystem>(&record.status, status);
  show_record(record, WaitPhase::kEnded,
              {wait, word_now(wait), begun_ns, now_ns(), this_lane(), this_place()});
  if (table->alarm != nullptr) store_release<Reach::kSystem>(table->alarm, 1u);
}

/// Frees the records of the calling block's waits that ended with `status`.
PEAL_COLD inline void forget_waits(WaitTable* table, uint32_t status) {
  if (table == nullptr) return;
  const uint32_t mine = this_lane().block;
  for (WaitRecord& record : table->record) {
    const uint32_t state = load_acquire<Reach::kGpu>(&record.state);
    if (WaitRecord::phase(state) != WaitPhase::kEnded) continue;
    if (load_relaxed<Reach::kGpu>(&record.status) != status) continue;
    if (load_relaxed<Reach::kGpu>(&record.body.lane.block) != mine) continue;
    compare_exchange<Reach::kGpu>(&record.state, state, (state & ~3u) + 4);
  }
}

/// One lane's wait while it lasts.
class RecordedWait {
 public:
  /// `table` is read when there is something to write.
  PEAL_HD explicit RecordedWait(WaitTable* const* table) : table_(table) {}

  /// At each look at what ends the wait early.
  template <class What>
  PEAL_HD void look(const What& what) {
    if (++looks_ == kLooksBeforeRecord) taken_ = begin_wait(*table_, what());
  }
  /// Once, with how the wait ended: a Status.
  template <class Status, class What>
  PEAL_HD void end(Status status, const What& what) const {
    if (status == Status{} && taken_ == 0) return;
    end_wait(*table_, taken_, what(), static_cast<uint32_t>(status));
  }
  /// True while nothing has been written.
  PEAL_HD bool unwritten() const { return taken_ == 0; }

 private:
  WaitTable* const* table_;
  uint32_t looks_ = 0;
  uint32_t taken_ = 0;
};

/// One that nobody writes down.
class UnrecordedWait {
 public:
  PEAL_HD explicit UnrecordedWait(WaitTable* const*) {}
  template <class What>
  PEAL_HD void look(const What&) {}
  template <class Status, class What>
  PEAL_HD void end(Status, const What&) const {}
  PEAL_HD bool unwritten() const { return true; }
};

using Waiting = std::conditional_t<kRecordsWaits, RecordedWait, UnrecordedWait>;

/// Waits until done(): kOk. What ends it early is what stop() answers, or kTimeout after
/// `timeout_ns` (0: never). Noted as what() in `table` when it lasts, or ends early.
template <class Done, class Stop, class What>
PEAL_HD Status wait_noted(WaitTable* const* table, uint64_t timeout_ns, const Done& done,
                          const Stop& stop, const What& what) {
  Status ended = Status::kOk;
  Waiting waiting(table);
  const SpinEnd end = spin_until(timeout_ns, done, [&] {
    waiting.look(what);
    ended = stop();
    return ended != Status::kOk;
  });
  if (end == SpinEnd::kTimedOut) ended = Status::kTimeout;
  waiting.end(ended, what);
  return ended;
}

}  // namespace peal
