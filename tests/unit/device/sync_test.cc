// SPDX-License-Identifier: Apache-2.0
//
// fence, quiet, sync_all, barrier_all: what they wait for, what they post, what they report.
#include "device/sync.h"

#include <thread>
#include <vector>

#include "gtest/gtest.h"
#include "tests/support/device_rig.h"

namespace peal {
namespace {

using testing::DeviceRig;
using testing::kMillisecond;
using testing::NicThread;

constexpr uint64_t kLate = 1000;  // an epoch nobody reaches

constexpr size_t kFlags = DeviceRig::kHeapBytes - 1024;

/// Makes every peer appear to have arrived long ago.
void let_peers_arrive(DeviceRig& rig) {
  const auto ctx = rig.context();
  for (uint32_t i = 0; i < ctx.sync_rounds * (kSyncFan - 1); ++i) ctx.sync_flags[i] = kLate;
}

TEST(Quiet, ReturnsAtOnceWhenNothingWasPosted) {
  DeviceRig rig({.n_pes = 4, .queues_per_peer = 2, .timeout_ns = kMillisecond});
  EXPECT_EQ(quiet(rig.context()), Status::kOk);
}

TEST(Quiet, WaitsForEveryPeerAndQueue) {
  DeviceRig rig({.n_pes = 3, .timeout_ns = kMillisecond});
  for (int pe = 0; pe < 3; ++pe) {
    ASSERT_EQ(p(rig.context(), rig.local<int>(0), 5, pe), Status::kOk);
  }
  for (int pe = 0; pe < 3; ++pe) {
    EXPECT_EQ(quiet(rig.context()), Status::kTimeout) << "before PE " << pe << " is done";
    rig.nic(pe).step();
  }
  EXPECT_EQ(quiet(rig.context()), Status::kOk);
}

TEST(QuietOfOnePe, WaitsForAllQueuesToThatPeAndNoOther) {
  DeviceRig rig({.n_pes = 3, .queues_per_peer = 2, .timeout_ns = kMillisecond});
  const auto ctx = rig.context();
  launch(
      {.blocks = 2},
      +[](Context c, int* box) {
        for (int pe = 0; pe < 3; ++pe) (void)p(c, box, 5, pe);
      },
      ctx, rig.local<int>(0))
      .wait();
  rig.nic(1, 0).step();
  EXPECT_EQ(quiet(ctx, 1), Status::kTimeout);
  rig.nic(1, 1).step();
  EXPECT_EQ(quiet(ctx, 1), Status::kOk);
  EXPECT_EQ(fence(ctx, 1), Status::kOk);
  EXPECT_EQ(quiet(ctx, 2), Status::kTimeout);
  EXPECT_EQ(fence(ctx, 2), Status::kTimeout) << "two queues: it must wait";
  EXPECT_EQ(quiet(ctx), Status::kTimeout);
}

TEST(QuietOfOnePe, ReportsErrorsOfThatPe) {
  DeviceRig rig({.n_pes = 3});
  const auto ctx = rig.context();
  rig.nic(2).fail(0, mlx5::Syndrome::kRemoteAccess, 0);
  ASSERT_EQ(p(ctx, rig.local<int>(0), 5, 2), Status::kOk);
  rig.step_all();
  EXPECT_EQ(quiet(ctx, 1), Status::kOk);
  EXPECT_EQ(quiet(ctx, 2), Status::kQueueError);
}

TEST(QuietOfOnePe, ThatDoesNotExistIsRefused) {
  for (const int pe : {-1, 3}) {
    DeviceRig rig({.n_pes = 3});
    EXPECT_EQ(quiet(rig.context(), pe), Status::kBadPe);
    EXPECT_EQ(rig.usage().pe, pe);
    EXPECT_EQ(fence(rig.context(), pe), Status::kBadPe);
  }
}

TEST(QuietOfOnePe, SettlesTheQueuesToThatPe) {
  DeviceRig rig({.n_pes = 3, .settle = true});
  const auto ctx = rig.context();
  ASSERT_EQ(p(ctx, rig.local<int>(0), 5, 1), Status::kOk);
  ASSERT_EQ(p(ctx, rig.local<int>(0), 5, 2), Status::kOk);
  const NicThread nics(rig);
  EXPECT_EQ(quiet(ctx, 1), Status::kOk);
  EXPECT_EQ(rig.queue(1).settled, 2u);
  EXPECT_EQ(rig.queue(2).settled, 0u);
}

PEAL_KERNEL put_and_drain(BlockContext ctx, int* box, uint32_t poster, Status* drained) {
  if (block_in_grid() == poster) (void)p(ctx, box, 5, 1);
  drained[block_in_grid()] = quiet(ctx);
}

// Blocks that own their queues touch them without atomics of the GPU's scope, or any: a block that
// drained the queues of others did so while those posted.
TEST(Quiet, LeavesQueuesAloneThatOtherBlocksOwn) {
  DeviceRig rig({.queues_per_peer = 2, .timeout_ns = kMillisecond});
  std::vector<Status> drained(2, Status::kOk);
  for (const uint32_t poster : {0u, 1u}) {
    launch({.blocks = 2}, put_and_drain, rig.context<Reach::kBlock>(), rig.local<int>(0), poster,
           drained.data())
        .wait();
    EXPECT_EQ(drained[poster], Status::kTimeout);
    EXPECT_EQ(drained[1 - poster], Status::kOk);
    rig.step_all();
    launch({.blocks = 2}, put_and_drain, rig.context<Reach::kBlock>(), rig.local<int>(0), 2u,
           drained.data())
        .wait();
    EXPECT_EQ(drained, std::vector<Status>(2, Status::kOk));
  }
}

TEST(Quiet, ReportsAnErrorOfAnyQueueAndGoesOnReportingIt) {
  DeviceRig rig({.n_pes = 3});
  rig.nic(2).fail(0, mlx5::Syndrome::kRemoteAccess, 0);
  ASSERT_EQ(p(rig.context(), rig.local<int>(0), 5, 2), Status::kOk);
  ASSERT_EQ(p(rig.context(), rig.local<int>(0), 5, 1), Status::kOk);
  rig.step_all();
  EXPECT_EQ(quiet(rig.context()), Status::kQueueError);
  EXPECT_EQ(quiet(rig.context()), Status::kQueueError);
  EXPECT_EQ(*rig.remote<int>(1, 0), 5) << "the other queue was drained all the same";
}

TEST(Quiet, AMisuseIsReportedAfterTheQueuesAreDrained) {
  DeviceRig rig({.timeout_ns = kMillisecond});
  ASSERT_EQ(p(rig.context(), rig.local<int>(0), 5, 7), Status::kBadPe);
  ASSERT_EQ(p(rig.context(), rig.local<int>(0), 5, 1), Status::kOk);
  rig.step_all();
  EXPECT_EQ(quiet(rig.context()), Status::kBadPe);
}

TEST(Quiet, TheStopWordEndsIt) {
  DeviceRig rig;
  ASSERT_EQ(p(rig.context(), rig.local<int>(0), 5, 1), Status::kOk);
  rig.stop(Status::kPeerLost);
  EXPECT_EQ(quiet(rig.context()), Status::kPeerLost);
}

template <class Scope>
PEAL_KERNEL put_then_quiet(Context ctx, Scope scope, std::byte* heap, Status* out) {
  const uint32_t me = thread_in_block();
  (void)p(ctx, reinterpret_cast<uint32_t*>(heap) + me, me + 1, 1);
  out[me] = quiet(ctx, scope);
}

TEST(Quiet, AllLanesOfAScopeLearnItsStatus) {
  DeviceRig rig;
  const NicThread nics(rig);
  std::vector<Status> out(64, Status::kCount);
  launch({.blocks = 1, .threads = 64}, put_then_quiet<Warp>, rig.context(), warp, rig.heap(),
         out.data())
      .wait();
  EXPECT_EQ(out, std::vector<Status>(64, Status::kOk));
  out.assign(64, Status::kCount);
  launch({.blocks = 1, .threads = 64}, put_then_quiet<Block>, rig.context(), block, rig.heap(),
         out.data())
      .wait();
  EXPECT_EQ(out, std::vector<Status>(64, Status::kOk));
}

struct HeldUp {
  uint64_t hole;                  // a reservation of somebody who is slow to publish
  uint64_t covered_by_quiet[32];  // `published` when quiet returned to a lane
};

PEAL_KERNEL quiet_behind_a_slow_lane(Context ctx, std::byte* heap, HeldUp* out) {
  const uint32_t me = thread_in_block();
  SendQueue& q = *detail::queue_at(ctx, 1);
  if (me < 32) {
    // Not side by side, where the lanes' words would be one request.
    (void)p(ctx, reinterpret_cast<uint32_t*>(heap) + 2 * me, me, 1);
    (void)quiet(ctx);
    out->covered_by_quiet[me] = posted_end(load_acquire<Reach::kGpu>(&q.posted));
  } else {
    for (int turn = 0; turn < 500; ++turn) relax();
    nic::Model::write(q.nic, q.mask, out->hole, mlx5::Nop{}, true);
    (void)nic::publish<Reach::kGpu>(q, {.first = out->hole, .blocks = 1, .last = out->hole});
  }
}

// The lanes of a warp post as a group, which its leader publishes. While the leader waits for its
// turn the others must not believe that their work is done: it is not even posted.
TEST(Quiet, CoversALanesOwnWorkAlthoughItsLeaderPublishesIt) {
  DeviceRig rig;
  HeldUp out{};
  ASSERT_EQ(nic::reserve<Reach::kGpu>(rig.queue(1), 1, &out.hole), Status::kOk);
  {
    const NicThread nics(rig);
    launch({.blocks = 1, .threads = 33}, quiet_behind_a_slow_lane, rig.context(), rig.heap(), &out)
        .wait();
  }
  for (uint32_t i = 0; i < 32; ++i) EXPECT_EQ(out.covered_by_quiet[i], 33u) << "lane " << i;
  EXPECT_EQ(rig.complaints(), "");
}

TEST(Fence, CostsNothingWithOneQueuePerPeer) {
  DeviceRig rig({.timeout_ns = kMillisecond});
  ASSERT_EQ(p(rig.context(), rig.local<int>(0), 5, 1), Status::kOk);
  EXPECT_EQ(fence(rig.context()), Status::kOk) << "although no NIC completed anything";
  EXPECT_EQ(rig.queue(1).reserved, 1u);
}

TEST(Fence, DrainsSeveralQueuesPerPeer) {
  DeviceRig rig({.queues_per_peer = 2, .timeout_ns = kMillisecond});
  ASSERT_EQ(p(rig.context(), rig.local<int>(0), 5, 1), Status::kOk);
  EXPECT_EQ(fence(rig.context()), Status::kTimeout);
  rig.step_all();
  EXPECT_EQ(fence(rig.context()), Status::kOk);
}

TEST(Fence, DrainsWherePayloadMayOvertake) {
  DeviceRig rig({.timeout_ns = kMillisecond});
  auto ctx = rig.context();
  ctx.relaxed = 1;
  ASSERT_EQ(p(ctx, rig.local<int>(0), 5, 1), Status::kOk);
  EXPECT_EQ(fence(ctx), Status::kTimeout);
  rig.step_all();
  EXPECT_EQ(fence(ctx), Status::kOk);
}

TEST(SyncAll, AJobOfOnePostsNothing) {
  DeviceRig rig({.n_pes = 1, .timeout_ns = kMillisecond});
  EXPECT_EQ(sync_all(rig.context()), Status::kOk);
  EXPECT_EQ(barrier_all(rig.context()), Status::kOk);
  EXPECT_EQ(rig.queue(0).reserved, 0u);
}

TEST(SyncAll, TellsEveryPeOfAMachineInOneRound) {
  DeviceRig rig({.pe = 3, .n_pes = 7});
  let_peers_arrive(rig);
  EXPECT_EQ(sync_all(rig.context()), Status::kOk);
  rig.step_all();
  for (int pe = 0; pe < 7; ++pe) {
    EXPECT_EQ(rig.nic(pe).seen().size(), pe == 3 ? 0u : 1u) << "PE " << pe;
    if (pe == 3) continue;
    const size_t slot = static_cast<size_t>((pe - 3 + 7) % 7) - 1;
    EXPECT_EQ(*rig.remote<uint64_t>(pe, kFlags + 8 * slot), 1u) << "PE " << pe;
  }
}

TEST(SyncAll, GoesOnInStridesOfTheFanWhereThereAreMorePes) {
  DeviceRig rig({.pe = 2, .n_pes = 20});
  let_peers_arrive(rig);
  EXPECT_EQ(sync_all(rig.context()), Status::kOk);
  rig.step_all();
  std::vector<int> told;
  for (int pe = 0; pe < 20; ++pe) {
    if (!rig.nic(pe).seen().empty()) told.push_back(pe);
  }
  EXPECT_EQ(told, (std::vector<int>{3, 4, 5, 6, 7, 8, 9, 10, 18}));  // 2 + 1..7, + 8, + 16
  EXPECT_EQ(*rig.remote<uint64_t>(10, kFlags + 8 * (kSyncFan - 1)), 1u);
  EXPECT_EQ(*rig.remote<uint64_t>(18, kFlags + 8 * kSyncFan), 1u);
}

TEST(SyncAll, RoundsCoverEveryPe) {
  EXPECT_EQ(sync_rounds(1), 0u);
  EXPECT_EQ(sync_rounds(2), 1u);
  EXPECT_EQ(sync_rounds(8), 1u);
  EXPECT_EQ(sync_rounds(9), 2u);
  EXPECT_EQ(sync_rounds(64), 2u);
  EXPECT_EQ(sync_rounds(65), 3u);
}

TEST(SyncAll, WaitsForTheOthers) {
  DeviceRig rig({.timeout_ns = kMillisecond});
  EXPECT_EQ(sync_all(rig.context()), Status::kTimeout);
  rig.context().sync_flags[0] = 1;
  EXPECT_EQ(sync_all(rig.context()), Status::kTimeout) << "that was for the first one";
  rig.context().sync_flags[0] = 3;
  EXPECT_EQ(sync_all(rig.context()), Status::kOk);
}

TEST(SyncAll, APeerOneBarrierAheadIsFine) {
  DeviceRig rig({.timeout_ns = 100 * kMillisecond});
  rig.context().sync_flags[0] = 2;
  EXPECT_EQ(sync_all(rig.context()), Status::kOk);
  EXPECT_EQ(sync_all(rig.context()), Status::kOk);
}

TEST(SyncAll, TheStopWordEndsIt) {
  DeviceRig rig;
  rig.stop(Status::kPeerLost);
  EXPECT_EQ(sync_all(rig.context()), Status::kPeerLost);
}

// A queue that fails while its PE waits for a flag is polled by nobody else: without a deadline the
// barrier would wait for ever.
TEST(SyncAll, AFailedQueueEndsItsWaitForTheFlagOfThatPeer) {
  DeviceRig rig({.timeout_ns = 2000 * kMillisecond});
  rig.nic(1).fail(0, mlx5::Syndrome::kTransportRetryExceeded, 0);
  ASSERT_EQ(p(rig.context(), rig.local<int>(0), 5, 1), Status::kOk);
  rig.step_all();  // its error is not seen yet
  EXPECT_EQ(sync_all(rig.context()), Status::kQueueError);
}

PEAL_KERNEL sync_from_block(Context ctx, uint32_t caller, Status* out) {
  if (block_in_grid() == caller) *out = sync_all(ctx);
}

// Two barriers announced on two queues could overtake one another, and the flag would go back.
TEST(SyncAll, IsAnnouncedOnOneQueueWhicheverBlockCalls) {
  DeviceRig rig({.queues_per_peer = 2});
  let_peers_arrive(rig);
  for (const uint32_t caller : {1u, 0u}) {
    Status status = Status::kCount;
    launch({.blocks = 2, .threads = 1}, sync_from_block, rig.context(), caller, &status).wait();
    ASSERT_EQ(status, Status::kOk);
  }
  EXPECT_EQ(rig.nic(1, 0).step(), 2u);
  EXPECT_EQ(rig.nic(1, 1).step(), 0u);
  EXPECT_EQ(*rig.remote<uint64_t>(1, kFlags), 2u);
}

TEST(BarrierAll, DrainsFirst) {
  DeviceRig rig({.timeout_ns = kMillisecond});
  let_peers_arrive(rig);
  ASSERT_EQ(p(rig.context(), rig.local<int>(0), 5, 1), Status::kOk);
  EXPECT_EQ(barrier_all(rig.context()), Status::kTimeout);
  rig.step_all();
  EXPECT_EQ(barrier_all(rig.context()), Status::kOk);
}

TEST(BarrierAll, ArrivesEvenAfterAFailure) {
  DeviceRig rig({.n_pes = 3});
  let_peers_arrive(rig);
  ASSERT_EQ(p(rig.context(), rig.local<int>(0), 5, 9), Status::kBadPe);
  EXPECT_EQ(barrier_all(rig.context()), Status::kBadPe);
  rig.step_all();
  EXPECT_EQ(*rig.remote<uint64_t>(1, kFlags), 1u);
  EXPECT_EQ(*rig.remote<uint64_t>(2, kFlags + 8), 1u);
}

/// One PE of a job of two rigs: a NIC of each writes into the other's heap.
class TwoPes : public ::testing::Test {
 protected:
  TwoPes() : pes{DeviceRig({.pe = 0}), DeviceRig({.pe = 1})} {
    pes[0].nic(1).know(DeviceRig::rkey(0, 1), pes[1].heap());
    pes[1].nic(0).know(DeviceRig::rkey(0, 0), pes[0].heap());
  }
  DeviceRig pes[2];
};

PEAL_KERNEL count_together(Context ctx, uint64_t* cell, int rounds, uint32_t* wrong) {
  const int peer = 1 - my_pe(ctx);
  for (int i = 1; i <= rounds; ++i) {
    if (thread_in_block() == 0 && p(ctx, cell, static_cast<uint64_t>(i), peer) != Status::kOk) {
      atomicAdd(wrong, 1u);
    }
    if (barrier_all(ctx, block) != Status::kOk) atomicAdd(wrong, 1u);
    if (*cell != static_cast<uint64_t>(i)) atomicAdd(wrong, 1u);
    if (sync_all(ctx, block) != Status::kOk) atomicAdd(wrong, 1u);
  }
}

TEST_F(TwoPes, EachSeesWhatTheOtherPutBeforeTheBarrier) {
  uint32_t wrong[2] = {};
  {
    const NicThread first(pes[0]);
    const NicThread second(pes[1]);
    auto other = launch({.blocks = 1, .threads = 40}, count_together, pes[1].context(),
                        pes[1].local<uint64_t>(64), 20, &wrong[1]);
    launch({.blocks = 1, .threads = 40}, count_together, pes[0].context(),
           pes[0].local<uint64_t>(64), 20, &wrong[0])
        .wait();
    other.wait();
  }
  EXPECT_EQ(wrong[0], 0u);
  EXPECT_EQ(wrong[1], 0u);
  EXPECT_EQ(pes[0].complaints() + pes[1].complaints(), "");
}

}  // namespace
}  // namespace peal
