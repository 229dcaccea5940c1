// SPDX-License-Identifier: Apache-2.0
//
// What a lane writes down of its waits. Hazard: a wait ends at its deadline, nobody looks at the
// Status, and nothing anywhere says that the kernel went on without what it waited for.
#include "device/shared/wait_record.h"

#include <optional>
#include <thread>
#include <vector>

#include "gtest/gtest.h"
#include "tests/support/device_rig.h"

namespace peal {
namespace {

using testing::DeviceRig;
using testing::kMillisecond;
using testing::kSecond;

/// A PE whose waits are written down.
class WaitRecords : public ::testing::Test {
 protected:
  DeviceRig& rig(uint64_t timeout_ns) {
    rig_.emplace(testing::RigOptions{.timeout_ns = timeout_ns});
    table_ = {};
    table_.alarm = &alarm_;
    rig_->state().waits = &table_;
    rig_->queue(1).waits = &table_;
    return *rig_;
  }
  std::vector<const WaitRecord*> in(WaitPhase phase) const {
    std::vector<const WaitRecord*> found;
    for (const WaitRecord& record : table_.record) {
      if (WaitRecord::phase(load_acquire<Reach::kGpu>(&record.state)) == phase) {
        found.push_back(&record);
      }
    }
    return found;
  }
  /// The only record that ended, with `status`.
  WaitRecord ended(Status status) const {
    const auto all = in(WaitPhase::kEnded);
    EXPECT_EQ(all.size(), 1u);
    if (all.size() != 1) return {};
    EXPECT_EQ(all[0]->status, static_cast<uint32_t>(status));
    EXPECT_EQ(alarm_, 1u);
    return *all[0];
  }

  std::optional<DeviceRig> rig_;
  WaitTable table_{};
  uint32_t alarm_ = 0;
};

PEAL_KERNEL wait_in_vain(Context ctx, const int32_t* word) {
  if (thread_in_block() != 2 || block_in_grid() != 1) return;
  static_cast<void>(wait_until(ctx, word, Compare::kGe, -3));
}

TEST_F(WaitRecords, SayWhoWaitedForWhatAndWhatWasFound) {
  DeviceRig& pe = rig(kMillisecond);
  auto* const word = pe.local<int32_t>(8);
  *word = -7;
  launch({.blocks = 2, .threads = 3}, wait_in_vain, pe.context(), word).wait();
  const WaitRecord::Body body = ended(Status::kTimeout).body;
  EXPECT_EQ(body.wait.kind, WaitKind::kWord);
  EXPECT_EQ(body.wait.word, word);
  EXPECT_EQ(body.wait.compare, static_cast<uint32_t>(Compare::kGe));
  EXPECT_EQ(static_cast<int64_t>(body.wait.wanted), -3);
  EXPECT_EQ(static_cast<int64_t>(body.found), -7);
  EXPECT_EQ(body.wait.pe, -1) << "anybody may write it";
  EXPECT_EQ(body.lane.block, 1u);
  EXPECT_EQ(body.lane.thread, 2u);
  EXPECT_EQ(body.lane.kernel, reinterpret_cast<uint64_t>(&wait_in_vain));
}

TEST_F(WaitRecords, OfASetNameTheFirstWordThatIsMissing) {
  DeviceRig& pe = rig(kMillisecond);
  const uint64_t words[3] = {1, 0, 0};
  EXPECT_EQ(wait_until_all(pe.context(), WaitSet<uint64_t>{words, 3}, Compare::kEq, 1u),
            Status::kTimeout);
  EXPECT_EQ(ended(Status::kTimeout).body.wait.word, &words[1]);
}

TEST_F(WaitRecords, OfABarrierNameThePeThatHasNotEntered) {
  DeviceRig& pe = rig(kMillisecond);
  testing::NicThread nics(pe);
  EXPECT_EQ(sync_all(pe.context()), Status::kTimeout);
  const WaitRecord::Body body = ended(Status::kTimeout).body;
  EXPECT_EQ(body.wait.kind, WaitKind::kBarrier);
  EXPECT_EQ(body.wait.pe, 1);
  EXPECT_EQ(body.wait.number, 1u);
  EXPECT_EQ(body.found, 0u) << "it has entered none";
}

TEST_F(WaitRecords, OfAQuietNameTheQueueAndTheRequest) {
  DeviceRig& pe = rig(kMillisecond);
  const Context ctx = pe.context();
  EXPECT_EQ(p(ctx, pe.local<uint64_t>(64), 1u, 1), Status::kOk);
  EXPECT_EQ(quiet(ctx), Status::kTimeout) << "no NIC takes a step";
  const WaitRecord::Body body = ended(Status::kTimeout).body;
  EXPECT_EQ(body.wait.kind, WaitKind::kQuiet);
  EXPECT_EQ(body.wait.pe, 1);
  EXPECT_EQ(body.wait.number, 0u);
  EXPECT_EQ(body.wait.queue, &pe.queue(1));
}

TEST_F(WaitRecords, OfAFullQueueAreWaitsForRoom) {
  DeviceRig& pe = rig(kMillisecond);
  const Context ctx = pe.context();
  for (uint32_t i = 0; i < 128; ++i) ASSERT_EQ(p(ctx, pe.local<uint64_t>(64), 1u, 1), Status::kOk);
  EXPECT_EQ(p(ctx, pe.local<uint64_t>(64), 1u, 1), Status::kTimeout);
  EXPECT_EQ(ended(Status::kTimeout).body.wait.kind, WaitKind::kRoom);
}

TEST_F(WaitRecords, SayWhyAWaitWasEndedFromOutside) {
  for (const Status why : {Status::kPeerLost, Status::kAborted}) {
    DeviceRig& pe = rig(0);
    pe.stop(why);
    const uint64_t word = 0;
    EXPECT_EQ(signal_wait_until(pe.context(), &word, Compare::kEq, 1).status, why);
    EXPECT_EQ(ended(why).body.wait.kind, WaitKind::kSignal);
  }
}

TEST_F(WaitRecords, AreShownWhileAWaitLastsAndGoneWhenItHasEnded) {
  DeviceRig& pe = rig(60 * kSecond);
  uint64_t word = 0;
  std::thread waiter([&, ctx = pe.context()] {
    EXPECT_EQ(signal_wait_until(ctx, &word, Compare::kEq, 1).status, Status::kOk);
  });
  while (in(WaitPhase::kWaiting).empty()) std::this_thread::yield();
  EXPECT_EQ(in(WaitPhase::kWaiting)[0]->body.wait.word, &word);
  store_release<Reach::kSystem>(&word, uint64_t{1});
  waiter.join();
  EXPECT_EQ(in(WaitPhase::kFree).size(), kWaitRecords);
  EXPECT_EQ(alarm_, 0u);
}

TEST_F(WaitRecords, AreBounded) {
  DeviceRig& pe = rig(kMillisecond);
  const uint64_t word = 0;
  for (uint32_t i = 0; i < kWaitRecords + 3; ++i) {
    EXPECT_EQ(wait_until(pe.context(), &word, Compare::kEq, 1), Status::kTimeout);
  }
  EXPECT_EQ(in(WaitPhase::kEnded).size(), kWaitRecords);
  EXPECT_GE(table_.dropped, 3u);
}

TEST_F(WaitRecords, OfAQuietAreShownWhileItLasts) {
  DeviceRig& pe = rig(60 * kSecond);
  const Context ctx = pe.context();
  ASSERT_EQ(p(ctx, pe.local<uint64_t>(64), 1u, 1), Status::kOk);
  std::thread waiter([&] { EXPECT_EQ(quiet(ctx), Status::kOk); });
  while (in(WaitPhase::kWaiting).empty()) std::this_thread::yield();
  EXPECT_EQ(in(WaitPhase::kWaiting)[0]->body.wait.kind, WaitKind::kQuiet);
  while (in(WaitPhase::kFree).size() != kWaitRecords) pe.step_all();
  waiter.join();
}

PEAL_KERNEL look_at_one(Context ctx, const uint64_t* word, Status* seen) {
  const Status status = wait_until(ctx, word, Compare::kEq, 1);
  if (block_in_grid() == 1) *seen = handled(ctx, status);
}

// A kernel that knows what to do at a deadline says so, for its own block alone.
TEST_F(WaitRecords, AreForgottenWhereTheKernelHasLookedAtTheStatus) {
  DeviceRig& pe = rig(kMillisecond);
  const uint64_t word = 0;
  Status seen = Status::kOk;
  launch({.blocks = 2}, look_at_one, pe.context(), &word, &seen).wait();
  EXPECT_EQ(seen, Status::kTimeout);
  EXPECT_EQ(ended(Status::kTimeout).body.lane.block, 0u);
}

}  // namespace
}  // namespace peal
