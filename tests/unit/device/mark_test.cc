// SPDX-License-Identifier: Apache-2.0
//
// Marks of queues that were posted to: when they are set and taken off, and that quiet goes by
// them.
#include "device/nic/mark.h"

#include <vector>

#include "device/atomics.h"
#include "device/rma.h"
#include "device/sync.h"
#include "gtest/gtest.h"
#include "simt/lanes/launch.h"
#include "tests/support/device_rig.h"

namespace peal {
namespace {

using testing::DeviceRig;
using testing::kMillisecond;
using testing::NicThread;

/// Quiet often enough to take the marks off all queues that are drained.
template <Reach R>
void settle_down(const BasicContext<R>& ctx) {
  for (int look = 0; look < 3; ++look) ASSERT_EQ(quiet(ctx), Status::kOk);
}

/// A queue that quiet waits for in vain, if it looks.
void make_look_busy(SendQueue& q) { ++q.reserved; }

template <class T>
class Marks : public ::testing::Test {};
template <Reach R>
struct Of {
  static constexpr Reach kReach = R;
};
using Reaches = ::testing::Types<Of<Reach::kLane>, Of<Reach::kBlock>, Of<Reach::kGpu>>;
TYPED_TEST_SUITE(Marks, Reaches);

TYPED_TEST(Marks, AreTakenOffWhereNothingIsPostedAndSetByTheNextPost) {
  DeviceRig rig({.n_pes = 3, .queues_per_peer = 2});
  const auto ctx = rig.context<TypeParam::kReach>();
  settle_down(ctx);
  for (int pe = 0; pe < 3; ++pe) EXPECT_FALSE(rig.marked(pe));
  for (int post = 0; post < 3; ++post) {
    ASSERT_EQ(p(ctx, rig.local<int>(0), 5, 1), Status::kOk);
    EXPECT_TRUE(rig.marked(1));
  }
  EXPECT_FALSE(rig.marked(0));
  EXPECT_FALSE(rig.marked(2));
  rig.step_all();
  EXPECT_EQ(*rig.remote<int>(1, 0), 5);
  EXPECT_EQ(quiet(ctx), Status::kOk);
  EXPECT_TRUE(rig.marked(1)) << "a queue in use keeps its mark";
  settle_down(ctx);
  EXPECT_FALSE(rig.marked(1));
  EXPECT_EQ(rig.complaints(), "") << "the indexes of work requests count on";
}

TYPED_TEST(Marks, QuietDoesNotLookAtQueuesWithoutOne) {
  DeviceRig rig({.n_pes = 200, .timeout_ns = kMillisecond});
  const auto ctx = rig.context<TypeParam::kReach>();
  settle_down(ctx);
  for (int pe = 0; pe < 200; ++pe) make_look_busy(rig.queue(pe));
  EXPECT_EQ(quiet(ctx), Status::kOk);
  EXPECT_EQ(fence(ctx), Status::kOk);
  EXPECT_EQ(barrier_all(ctx), Status::kTimeout) << "nobody else arrives";
}

TYPED_TEST(Marks, QuietWaitsForEachQueueThatHasOne) {
  DeviceRig rig({.n_pes = 200, .timeout_ns = kMillisecond});
  const auto ctx = rig.context<TypeParam::kReach>();
  settle_down(ctx);
  for (const int pe : {0, 63, 64, 130, 199}) {
    ASSERT_EQ(p(ctx, rig.local<int>(0), pe, pe), Status::kOk);
    EXPECT_EQ(quiet(ctx), Status::kTimeout) << pe;
    rig.nic(pe).step();
    EXPECT_EQ(quiet(ctx), Status::kOk) << pe;
  }
}

TYPED_TEST(Marks, AFullQueueIsMarkedTooAndItsLanesWaitForRoom) {
  DeviceRig rig({.timeout_ns = 20 * kMillisecond});
  const auto ctx = rig.context<TypeParam::kReach>();
  settle_down(ctx);
  for (uint32_t post = 0; post < 128; ++post) {
    ASSERT_EQ(p(ctx, rig.local<int>(0), 5, 1), Status::kOk);
  }
  EXPECT_EQ(p(ctx, rig.local<int>(0), 5, 1), Status::kTimeout);
  EXPECT_EQ(quiet(ctx), Status::kTimeout);
}

// A queue that nobody posts to any more keeps its mark while it has an error, so each quiet says
// so.
TYPED_TEST(Marks, StayOnAQueueThatFailed) {
  DeviceRig rig({.n_pes = 3});
  const auto ctx = rig.context<TypeParam::kReach>();
  settle_down(ctx);
  rig.nic(2).fail(0, mlx5::Syndrome::kRemoteAccess, 0);
  ASSERT_EQ(p(ctx, rig.local<int>(0), 5, 2), Status::kOk);
  rig.step_all();
  for (int i = 0; i < 5; ++i) EXPECT_EQ(quiet(ctx), Status::kQueueError);
}

// What gives a queue up without posting: a fetch whose landing cell is not given back in time.
TYPED_TEST(Marks, AreSetByAnErrorOfAQueueThatWasNotPostedTo) {
  DeviceRig rig({.timeout_ns = kMillisecond});
  const auto ctx = rig.context<TypeParam::kReach>();
  settle_down(ctx);
  rig.queue(1).landing_ticket = kLandingCells;  // the next user of cell 0, which has one
  EXPECT_EQ(g(ctx, rig.local<int>(0), 1).status, Status::kTimeout);
  EXPECT_TRUE(rig.marked(1));
  EXPECT_EQ(quiet(ctx), Status::kTimeout);
}

TYPED_TEST(Marks, QuietLooksAtAllQueuesWhereTheHostClosedSome) {
  DeviceRig rig({.n_pes = 70, .queues_per_peer = 2});
  const auto ctx = rig.context<TypeParam::kReach>();
  settle_down(ctx);
  rig.queue(69).error.status = static_cast<uint32_t>(Status::kPeerLost);
  EXPECT_EQ(quiet(ctx), Status::kOk);
  rig.state().look_everywhere = 1;
  EXPECT_EQ(quiet(ctx), Status::kPeerLost);
}

TYPED_TEST(Marks, AreTakenOffAPeThatWasGivenUp) {
  DeviceRig rig({.timeout_ns = kMillisecond});
  const auto ctx = rig.context<TypeParam::kReach>();
  ASSERT_EQ(p(ctx, rig.local<int>(0), 5, 1), Status::kOk);
  rig.queue(1).error.status = static_cast<uint32_t>(Status::kPeerMasked);
  EXPECT_EQ(quiet(ctx), Status::kOk);
  EXPECT_FALSE(rig.marked(1));
  EXPECT_EQ(p(ctx, rig.local<int>(0), 5, 1), Status::kPeerMasked);
  EXPECT_EQ(quiet(ctx), Status::kOk);
}

/// What a thread of each of eight blocks is told.
std::vector<Status> quiet_by_blocks(const Context& ctx) {
  std::vector<Status> told(8);
  simt::launch({8, 1}, [&] { told[block_in_grid()] = quiet(ctx); }).wait();
  return told;
}

// Each begins at its own queues, 20 for a block: the last of two words of marks has 16 bits.
TEST(Mark, AThreadOfAnyBlockLooksAtEveryMarkedQueueAndAtNoOther) {
  for (const uint32_t number : {0u, 5u, 63u, 64u, 70u, 79u}) {
    DeviceRig rig({.n_pes = 20, .queues_per_peer = 4, .timeout_ns = kMillisecond});
    const auto ctx = rig.context();
    SendQueue& q = rig.queue(static_cast<int>(number % 20), number / 20);
    make_look_busy(q);
    EXPECT_EQ(quiet_by_blocks(ctx), std::vector<Status>(8, Status::kTimeout)) << number;
    --q.reserved;
    settle_down(ctx);
    make_look_busy(q);
    EXPECT_EQ(quiet_by_blocks(ctx), std::vector<Status>(8, Status::kOk)) << "it has no mark";
  }
}

// Where blocks share the queues that is block 0, whatever the others do.
TEST(Mark, IsTakenOffByBlock0) {
  DeviceRig rig({.n_pes = 3});
  const auto ctx = rig.context();
  for (int look = 0; look < 3; ++look) {
    simt::launch({4, 1}, [&] {
      if (block_in_grid() != 0) {
        EXPECT_EQ(quiet(ctx), Status::kOk);
      }
    }).wait();
  }
  EXPECT_TRUE(rig.marked(1));
  settle_down(ctx);
  EXPECT_FALSE(rig.marked(1));
}

// Drained is not enough where a queue must be settled: what another lane posted behind the READ of
// this quiet is complete, and only the next quiet sends a READ behind it.
TEST(Mark, AQueueThatIsNotSettledKeepsItsMark) {
  DeviceRig rig({.settle = true});
  rig.context();
  SendQueue& q = rig.queue(1);
  q.reserved = q.rung = q.completed = 3;
  q.posted = posted_word(3, 1);
  q.settled = 2;
  nic::unmark<Reach::kGpu>(q, true);
  EXPECT_TRUE(rig.marked(1));
  q.settled = 3;
  nic::unmark<Reach::kGpu>(q, true);
  EXPECT_FALSE(rig.marked(1));
}

TEST(Mark, AQueueThatSomebodyHasReservedKeepsItsMark) {
  DeviceRig rig;
  rig.context();
  SendQueue& q = rig.queue(1);
  uint64_t first = 0;
  ASSERT_EQ(nic::reserve<Reach::kGpu>(q, 1, &first), Status::kOk);
  nic::unmark<Reach::kGpu>(q, false);
  EXPECT_TRUE(rig.marked(1));
  EXPECT_EQ(q.reserved, 1u);
}

struct Several {
  static constexpr int kPes = 300;
  Status status[256];
};

template <Reach R, class S>
PEAL_KERNEL put_to_all(BasicContext<R> ctx, S scope, std::byte* heap, Several* out) {
  if (scope.leader()) {
    for (int pe = 0; pe < Several::kPes; ++pe) {
      (void)p(ctx, reinterpret_cast<uint32_t*>(heap), 1000u + static_cast<uint32_t>(pe), pe);
    }
  }
  out->status[scope.rank()] = quiet(ctx, scope);
}

template <Reach R, class S>
void expect_lanes_to_share(S scope, uint32_t lanes) {
  DeviceRig rig({.n_pes = Several::kPes});
  const auto ctx = rig.context<R>();
  settle_down(ctx);
  for (int round = 0; round < 3; ++round) {
    Several out{};
    {
      const NicThread nics(rig);
      launch({.blocks = 1, .threads = lanes}, put_to_all<R, S>, ctx, scope, rig.heap(), &out)
          .wait();
    }
    for (uint32_t i = 0; i < lanes; ++i) EXPECT_EQ(out.status[i], Status::kOk);
    for (int pe = 0; pe < Several::kPes; ++pe) {
      EXPECT_EQ(*rig.remote<uint32_t>(pe, 0), 1000u + static_cast<uint32_t>(pe));
    }
    if (round == 1) settle_down(ctx);
  }
  EXPECT_EQ(rig.complaints(), "");
}

TYPED_TEST(Marks, LanesOfAScopeShareTheLooking) {
  expect_lanes_to_share<TypeParam::kReach>(warp, 32);
  expect_lanes_to_share<TypeParam::kReach>(block, 256);
  expect_lanes_to_share<TypeParam::kReach>(block, 40);
}

template <class S>
PEAL_KERNEL quiet_of(Context ctx, S scope, Several* out) {
  out->status[scope.rank()] = quiet(ctx, scope);
}

TEST(Mark, AllLanesLearnOfAnErrorThatOneOfThemFound) {
  DeviceRig rig({.n_pes = Several::kPes});
  const auto ctx = rig.context();
  settle_down(ctx);
  rig.nic(257).fail(0, mlx5::Syndrome::kRemoteAccess, 0);
  ASSERT_EQ(p(ctx, rig.local<int>(0), 5, 257), Status::kOk);
  rig.step_all();
  Several out{};
  launch({.blocks = 1, .threads = 96}, quiet_of<Block>, ctx, block, &out).wait();
  for (uint32_t i = 0; i < 96; ++i) EXPECT_EQ(out.status[i], Status::kQueueError) << i;
}

}  // namespace
}  // namespace peal
