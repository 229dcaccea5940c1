// SPDX-License-Identifier: Apache-2.0
//
// How lanes write their calls into the flight recorder. Hazards: a reader takes half of one call
// and half of another for a call; a ring that is full stops the lanes or loses the newest.
#include "device/detail/recorded.h"

#include <atomic>
#include <iterator>
#include <thread>
#include <vector>

#include "gtest/gtest.h"
#include "tests/support/device_rig.h"

namespace peal {
namespace {

using testing::DeviceRig;
using testing::kMillisecond;

/// A PE whose last 16 calls are written down.
class Recorded : public ::testing::Test {
 protected:
  static constexpr uint64_t kEntries = 16;

  Recorded() {
    table_.ring = ring_.data();
    table_.mask = kEntries - 1;
    pe_.state().records = &table_;
  }
  const CallCount& count(Call which) const { return table_.count[static_cast<uint32_t>(which)]; }
  uint64_t in(CallPhase phase) const {
    uint64_t found = 0;
    for (const CallRecord& record : ring_) {
      if (CallRecord::phase(load_acquire<Reach::kGpu>(&record.turn)) == phase) ++found;
    }
    return found;
  }

  std::vector<CallRecord> ring_{kEntries};
  RecordTable table_{};
  DeviceRig pe_{testing::RigOptions{.timeout_ns = kMillisecond}};
};

PEAL_KERNEL signal_from_two_lanes(Context ctx, uint64_t* word) {
  if (thread_in_block() != 2) return;
  static_cast<void>(signal(ctx, Signal::add(word, 3, 1)));
}

TEST_F(Recorded, SaysWhoCalledWhatAndHowItEnded) {
  auto* const word = pe_.local<uint64_t>(64);
  launch({.blocks = 1, .threads = 4}, signal_from_two_lanes, pe_.context(), word).wait();
  EXPECT_EQ(table_.ran, 1u);
  EXPECT_EQ(table_.next, 1u);
  EXPECT_EQ(CallRecord::phase(ring_[0].turn), CallPhase::kEnded);
  const CallRecord::Body& call = ring_[0].body;
  EXPECT_EQ(call.call, Call::kSignal);
  EXPECT_EQ(call.scope, CallScope::kThread);
  EXPECT_EQ(call.pe, 1);
  EXPECT_EQ(call.word, word);
  EXPECT_EQ(call.value, 3u);
  EXPECT_EQ(call.adds, 1u);
  EXPECT_EQ(call.bytes, sizeof(uint64_t));
  EXPECT_EQ(call.queue, &pe_.queue(1));
  EXPECT_EQ(call.status, static_cast<uint32_t>(Status::kOk));
  EXPECT_LE(call.begun_ns, call.ended_ns);
  EXPECT_NE(call.ended_ns, 0u);
  EXPECT_EQ(call.lane.thread, 2u);
  EXPECT_EQ(call.lane.kernel, reinterpret_cast<uint64_t>(&signal_from_two_lanes));
}

/// Hazard: all atomics that fetch were one kind, the others another, and all that waits a third.
TEST_F(Recorded, SaysWhichCallItWas) {
  const Context ctx = pe_.context();
  auto* const word = pe_.local<uint64_t>(64);
  auto* const old = pe_.local<uint64_t>(0);
  const uint64_t mine[2] = {4, 4};
  const WaitSet<uint64_t> set{mine, 2};
  size_t seen[2] = {};
  static_cast<void>(atomic_inc(ctx, word, 1));
  static_cast<void>(atomic_max(ctx, word, 2u, 1));
  static_cast<void>(atomic_swap(ctx, word, 2u, 1));
  static_cast<void>(atomic_compare_swap(ctx, word, 2u, 3u, 1));
  static_cast<void>(atomic_fetch_xor_nbi(ctx, old, word, 2u, 1));
  static_cast<void>(put_signal(ctx, word, old, 1, Signal::set(word + 1, 1, 1)));
  EXPECT_EQ(wait_until_all(ctx, set, Compare::kEq, 4u), Status::kOk);
  EXPECT_EQ(test_some(ctx, set, seen, Compare::kEq, 4u), 2u);
  static_cast<void>(fence(ctx));
  constexpr Call kMade[] = {Call::kAtomicAdd,         Call::kAtomicMax,      Call::kAtomicSwap,
                            Call::kAtomicCompareSwap, Call::kAtomicFetchXor, Call::kPutSignal,
                            Call::kWaitUntilAll,      Call::kTestSome,       Call::kFence};
  ASSERT_EQ(table_.next, std::size(kMade));
  for (size_t i = 0; i < std::size(kMade); ++i) {
    EXPECT_EQ(ring_[i].body.call, kMade[i]) << i;
    EXPECT_EQ(ring_[i].body.starts, kMade[i] == Call::kAtomicFetchXor ? 1 : 0) << i;
    EXPECT_EQ(count(kMade[i]).calls, 1u) << i;
  }
  EXPECT_EQ(ring_[4].body.here, old) << "where the old value comes to";
}

TEST_F(Recorded, WrapsAndKeepsTheNewest) {
  const Context ctx = pe_.context();
  for (uint64_t i = 0; i < kEntries + 5; ++i) {
    ASSERT_EQ(p(ctx, pe_.local<uint64_t>(64), i, 1), Status::kOk);
  }
  EXPECT_EQ(table_.next, kEntries + 5);
  EXPECT_EQ(in(CallPhase::kEnded), kEntries);
  EXPECT_EQ(ring_[4].turn, CallRecord::turn_of(kEntries + 4, CallPhase::kEnded));
  EXPECT_EQ(ring_[5].turn, CallRecord::turn_of(5, CallPhase::kEnded));
  EXPECT_EQ(table_.missed, 0u);
  EXPECT_EQ(count(Call::kP).calls, kEntries + 5);
  EXPECT_EQ(count(Call::kP).bytes, (kEntries + 5) * sizeof(uint64_t));
}

TEST_F(Recorded, CountsWhatFailedAndWhatTimedOut) {
  const Context ctx = pe_.context();
  const uint64_t word = 4;
  EXPECT_EQ(wait_until(ctx, &word, Compare::kEq, 1), Status::kTimeout);
  EXPECT_EQ(count(Call::kWaitUntil).timeouts, 1u);
  EXPECT_GE(count(Call::kWaitUntil).time_ns, kMillisecond);
  EXPECT_EQ(ring_[0].body.status, static_cast<uint32_t>(Status::kTimeout));
  EXPECT_NE(put(ctx, pe_.local<uint64_t>(64), pe_.local<uint64_t>(0), 1, 7), Status::kOk);
  EXPECT_EQ(count(Call::kPut).failed, 1u);
  EXPECT_EQ(ring_[1].body.status, static_cast<uint32_t>(Status::kBadPe));
}

TEST_F(Recorded, KeepsOfLooksThoseThatSawWhatTheyWanted) {
  const Context ctx = pe_.context();
  const uint64_t word = 4;
  EXPECT_FALSE(test(ctx, &word, Compare::kEq, 1));
  EXPECT_EQ(signal_fetch(ctx, &word), 4u);
  EXPECT_EQ(table_.next, 0u);
  EXPECT_EQ(table_.looks, 2u);
  EXPECT_TRUE(test(ctx, &word, Compare::kEq, 4));
  EXPECT_EQ(table_.next, 1u);
  EXPECT_EQ(ring_[0].body.call, Call::kTest);
}

TEST_F(Recorded, OfASignalHasTheValueThatTheWaitSaw) {
  const uint64_t word = 9;
  EXPECT_EQ(signal_wait_until(pe_.context(), &word, Compare::kGe, 2).status, Status::kOk);
  EXPECT_EQ(ring_[0].body.value, 9u);
  EXPECT_EQ(ring_[0].body.number, 1u);
}

TEST_F(Recorded, GivesUpARecordThatAnotherLaneIsWriting) {
  ring_[0].turn = CallRecord::turn_of(0, CallPhase::kWritten) - 4 * kEntries;
  ring_[1].turn = CallRecord::turn_of(kEntries + 1, CallPhase::kBegun);  // of a later lap
  const Context ctx = pe_.context();
  for (int i = 0; i < 2; ++i) ASSERT_EQ(p(ctx, pe_.local<uint64_t>(64), 1u, 1), Status::kOk);
  EXPECT_EQ(table_.missed, 2u);
  EXPECT_EQ(in(CallPhase::kEnded), 0u);
  EXPECT_EQ(count(Call::kP).calls, 2u) << "counted all the same";
}

// A lane whose record was taken by a later lap when its call ends.
TEST_F(Recorded, DoesNotEndTheRecordOfALaterCall) {
  const CallNote note = detail::note_of(Call::kQuiet);
  const detail::Recording first = detail::record_begin(table_, note);
  ASSERT_EQ(first.record, &ring_[0]);
  for (uint64_t i = 0; i < kEntries; ++i) detail::record_begin(table_, note);
  detail::record_end(table_, first, note, Status::kOk);
  EXPECT_EQ(ring_[0].turn, CallRecord::turn_of(kEntries, CallPhase::kBegun));
  EXPECT_EQ(ring_[0].body.ended_ns, 0u);
}

// Writers on few records, and a reader that takes a record whose turn was the same before and
// after: each has arguments that belong together.
TEST_F(Recorded, IsWholeWhereTheTurnIsTheSameBeforeAndAfter) {
  std::atomic<bool> done{false};
  std::vector<std::thread> writers;
  for (uint64_t mine = 1; mine <= 3; ++mine) {
    writers.emplace_back([this, &done, mine] {
      CallNote note = detail::note_of(Call::kPut);
      note.there_bytes = mine;
      note.value = mine;
      note.index = mine;
      while (!done)
        detail::record_end(table_, detail::record_begin(table_, note), note, Status::kOk);
    });
  }
  uint64_t whole = 0;
  for (uint64_t i = 0; whole < 20000; ++i) {
    const CallRecord& record = ring_[i % kEntries];
    const uint64_t before = load_acquire<Reach::kSystem>(&record.turn);
    const uint64_t bytes = load_acquire<Reach::kSystem>(&record.body.bytes);
    const uint64_t value = load_acquire<Reach::kSystem>(&record.body.value);
    const uint64_t index = load_acquire<Reach::kSystem>(&record.body.index);
    const uint64_t after = load_acquire<Reach::kSystem>(&record.turn);
    if (before != after || CallRecord::phase(before) != CallPhase::kEnded) continue;
    ++whole;
    if (bytes != value || value != index) {
      ADD_FAILURE() << bytes << ", " << value << ", " << index << " of turn " << before;
      break;
    }
  }
  done = true;
  for (std::thread& writer : writers) writer.join();
}

}  // namespace
}  // namespace peal
