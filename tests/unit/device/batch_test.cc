// SPDX-License-Identifier: Apache-2.0
//
// What a batch posts, when its queues are rung and by whom. The NIC of the rig goes by doorbell
// records: what is not rung it does not see.
#include "device/batch.h"

#include <vector>

#include "device/atomics.h"
#include "device/rma.h"
#include "device/sync.h"
#include "gtest/gtest.h"
#include "tests/support/device_rig.h"

namespace peal {
namespace {

using testing::DeviceRig;
using testing::kFetchAdd;
using testing::kMillisecond;
using testing::kRead;
using testing::kSource;
using testing::kTarget;
using testing::kWrite;
using testing::NicThread;
using testing::opcodes;
using testing::Ops;

constexpr uint8_t kMaskedSwap = 0x14;
constexpr uint8_t kMaskedAdd = 0x15;

TEST(Batch, TheNicHearsNothingBeforeItRings) {
  DeviceRig rig;
  const auto ctx = rig.context();
  Batch batch(ctx);
  for (int i = 0; i < 5; ++i) {
    ASSERT_EQ(
        batch.put_nbi(rig.local<int>(kTarget) + 20 * i, rig.local<int>(kSource), 20, 1).status,
        Status::kOk);
    EXPECT_EQ(rig.step_all(), 0u);
  }
  EXPECT_EQ(posted_end(rig.queue(1).posted), 5u);
  EXPECT_EQ(rig.queue(1).rung, 0u);
  EXPECT_EQ(rig.rig(1).doorbell, 0u);
  batch.ring();
  EXPECT_EQ(rig.step_all(), 5u);
  EXPECT_NE(rig.rig(1).doorbell, 0u);
}

TEST(Batch, PostsWhatTheOperationsOfTheSameNamePost) {
  DeviceRig rig;
  const auto ctx = rig.context();
  auto* const word = rig.local<uint64_t>(0x40);
  {
    Batch batch(ctx);
    EXPECT_EQ(batch.p(word + 1, 5, 1), Status::kOk);
    EXPECT_EQ(batch.get_nbi(rig.local<int>(kSource), rig.local<int>(kTarget), 3, 1).status,
              Status::kOk);
    EXPECT_EQ(batch.atomic_set(word, 12, 1), Status::kOk);
    EXPECT_EQ(batch.atomic_add(word, 2, 1), Status::kOk);
    EXPECT_EQ(batch.atomic_inc(word, 1), Status::kOk);
    EXPECT_EQ(batch.atomic_and(word, 13, 1), Status::kOk);
    EXPECT_EQ(batch.atomic_or(word, 64, 1), Status::kOk);
    EXPECT_EQ(batch.atomic_xor(word, 3, 1), Status::kOk);
    EXPECT_EQ(batch.signal(Signal::add(word + 2, 4, 1)), Status::kOk);
    const uint64_t value = 77;
    EXPECT_EQ(batch.put_signal_nbi(word + 4, &value, 1, Signal::set(word + 3, 9, 1)).status,
              Status::kOk);
    EXPECT_EQ(rig.step_all(), 0u);
  }
  rig.step_all();
  EXPECT_EQ(opcodes(rig), (Ops{kWrite, kRead, kMaskedSwap, kFetchAdd, kFetchAdd, kMaskedSwap,
                               kMaskedSwap, kMaskedAdd, kFetchAdd, kWrite, kWrite}));
  const uint64_t* const there = rig.remote<uint64_t>(1, 0x40);
  EXPECT_EQ(there[0], ((15u & 13u) | 64u) ^ 3u);
  EXPECT_EQ(there[1], 5u);
  EXPECT_EQ(there[2], 4u);
  EXPECT_EQ(there[3], 9u);
  EXPECT_EQ(there[4], 77u);
  EXPECT_EQ(rig.complaints(), "");
}

TEST(Batch, RingsEveryQueueItPostedTo) {
  DeviceRig rig({.n_pes = 4});
  const auto ctx = rig.context();
  Batch batch(ctx);
  for (int pe = 0; pe < 4; ++pe) ASSERT_EQ(batch.p(rig.local<int>(0), 7, pe), Status::kOk);
  EXPECT_EQ(rig.step_all(), 0u);
  batch.ring();
  EXPECT_EQ(rig.step_all(), 4u);
  ASSERT_EQ(batch.p(rig.local<int>(4), 8, 3), Status::kOk);
  batch.ring();
  EXPECT_EQ(*rig.remote<int>(3, 4), 0);
  EXPECT_EQ(rig.step_all(), 1u);
}

// One queue more than it remembers: that one's work must not wait for somebody who happens to come.
TEST(Batch, RingsTheEldestQueueWhenItCanRememberNoMore) {
  constexpr int kPes = 12;
  constexpr auto kQueues = static_cast<int>(Batch<Reach::kGpu>::kQueues);
  DeviceRig rig({.n_pes = kPes});
  const auto ctx = rig.context();
  {
    Batch batch(ctx);
    for (int pe = 0; pe < kQueues; ++pe) ASSERT_EQ(batch.p(rig.local<int>(0), 7, pe), Status::kOk);
    EXPECT_EQ(rig.step_all(), 0u);
    ASSERT_EQ(batch.p(rig.local<int>(0), 7, kQueues), Status::kOk);
    EXPECT_EQ(rig.step_all(), 1u);
    EXPECT_EQ(*rig.remote<int>(0, 0), 7);
    for (int pe = kQueues + 1; pe < kPes; ++pe) (void)batch.p(rig.local<int>(0), 7, pe);
  }
  rig.step_all();
  for (int pe = 0; pe < kPes; ++pe) EXPECT_EQ(*rig.remote<int>(pe, 0), 7) << "PE " << pe;
}

template <Reach R>
PEAL_KERNEL post_by_all(BasicContext<R> ctx, int* dst, const int* src, int rounds) {
  const uint32_t me = thread_in_block();
  Batch batch(ctx);
  // Not side by side, where the lanes' puts would be one request.
  for (int i = 0; i < rounds; ++i) (void)batch.put_nbi(dst + 2 * me, src + me, 1, 1);
}

// More than the queue holds: what is held back must make room for itself.
TEST(Batch, MoreThanAQueueHoldsIsRungOnTheWay) {
  DeviceRig rig({.depth = 128});
  for (int i = 0; i < 64; ++i) rig.local<int>(kSource)[i] = i + 1;
  {
    const NicThread nics(rig);
    launch({.blocks = 1, .threads = 64}, post_by_all<Reach::kGpu>, rig.context(),
           rig.local<int>(kTarget), rig.local<int>(kSource), 10)
        .wait();
    EXPECT_EQ(quiet(rig.context()), Status::kOk);
  }
  EXPECT_EQ(rig.nic(1).seen().size(), 640u);
  for (int i = 0; i < 64; ++i) EXPECT_EQ(rig.remote<int>(1, kTarget)[2 * i], i + 1);
  EXPECT_EQ(rig.complaints(), "");
}

template <Reach R>
PEAL_KERNEL post_by_scope(BasicContext<R> ctx, int* dst, const int* src, Status* out) {
  Batch batch(ctx);
  const Ticket ticket = batch.put_nbi(block, dst, src, 100, 1);
  (void)batch.put_nbi(block, dst + 100, src + 100, 100, 1);
  out[thread_in_block()] = ticket.status;
}

template <Reach R>
void expect_leader_rings() {
  DeviceRig rig;
  for (int i = 0; i < 200; ++i) rig.local<int>(kSource)[i] = i + 1;
  std::vector<Status> out(40, Status::kTimeout);
  launch({.blocks = 1, .threads = 40}, post_by_scope<R>, rig.context<R>(), rig.local<int>(kTarget),
         rig.local<int>(kSource), out.data())
      .wait();
  EXPECT_EQ(out, std::vector<Status>(40, Status::kOk));
  EXPECT_EQ(rig.step_all(), 2u);
  EXPECT_EQ(rig.remote<int>(1, kTarget)[199], 200);
}
TEST(Batch, OfABlockIsRungByItsLeader) { expect_leader_rings<Reach::kGpu>(); }
TEST(Batch, OfABlockThatOwnsTheQueueIsRungByItsLeader) { expect_leader_rings<Reach::kLane>(); }

TEST(HeldBack, QuietRings) {
  DeviceRig rig({.n_pes = 3, .timeout_ns = kMillisecond});
  const auto ctx = rig.context();
  Batch batch(ctx);
  ASSERT_EQ(batch.p(rig.local<int>(0), 7, 1), Status::kOk);
  ASSERT_EQ(batch.p(rig.local<int>(0), 7, 2), Status::kOk);
  EXPECT_EQ(quiet(ctx, 2), Status::kTimeout);
  EXPECT_EQ(rig.nic(1).step() * 10 + rig.nic(2).step(), 1u) << "the queue to PE 2 and no other";
  EXPECT_EQ(quiet(ctx, 2), Status::kOk);
  EXPECT_EQ(quiet(ctx), Status::kTimeout);
  EXPECT_EQ(rig.nic(1).step(), 1u);
  EXPECT_EQ(quiet(ctx), Status::kOk);
}

TEST(HeldBack, WaitAndTestRingForTheirTicket) {
  DeviceRig rig({.timeout_ns = kMillisecond});
  const auto ctx = rig.context();
  Batch batch(ctx);
  Ticket ticket = batch.put_nbi(rig.local<int>(kTarget), rig.local<int>(kSource), 20, 1);
  EXPECT_EQ(wait(ctx, ticket), Status::kTimeout);
  EXPECT_EQ(rig.step_all(), 1u);
  EXPECT_EQ(wait(ctx, ticket), Status::kOk);
  ticket = batch.put_nbi(rig.local<int>(kTarget), rig.local<int>(kSource), 20, 1);
  EXPECT_FALSE(test(ctx, ticket));
  EXPECT_EQ(rig.step_all(), 1u);
  EXPECT_TRUE(test(ctx, ticket));
}

TEST(HeldBack, AnyOtherPostTakesItWithIt) {
  DeviceRig rig;
  const auto ctx = rig.context();
  Batch batch(ctx);
  ASSERT_EQ(batch.p(rig.local<int>(0), 7, 1), Status::kOk);
  ASSERT_EQ(p(ctx, rig.local<int>(4), 8, 1), Status::kOk);
  EXPECT_EQ(rig.step_all(), 2u);
}

// An atomic by another NIC than the block's own is waited for: it would wait for its own doorbell.
TEST(HeldBack, AnAtomicThatIsWaitedForIsRung) {
  DeviceRig rig({.queues_per_peer = 2, .rails = 2});
  const NicThread nics(rig);
  struct Kernel {
    static void post(Context ctx, uint64_t* word, Status* out) {
      Batch batch(ctx);
      *out = batch.atomic_add(word, 3, 1);
    }
  };
  Status out[2] = {Status::kTimeout, Status::kTimeout};
  launch(
      {.blocks = 2},
      +[](Context ctx, uint64_t* word, Status* status) {
        Kernel::post(ctx, word, status + block_in_grid());
      },
      rig.context(), rig.local<uint64_t>(0), &out[0])
      .wait();
  EXPECT_EQ(out[0], Status::kOk);
  EXPECT_EQ(out[1], Status::kOk);
  EXPECT_EQ(quiet(rig.context()), Status::kOk);
  EXPECT_EQ(*rig.remote<uint64_t>(1, 0), 6u);
}

TEST(Batch, StoresAtOnceWhereThePeerIsMapped) {
  DeviceRig rig;
  std::byte* direct[2] = {nullptr, rig.heap_of(1)};
  rig.windows().window[0].direct = direct;
  const auto ctx = rig.context();
  Batch batch(ctx);
  EXPECT_EQ(batch.p(rig.local<int>(0), 7, 1), Status::kOk);
  EXPECT_EQ(*rig.remote<int>(1, 0), 7);
  EXPECT_EQ(rig.queue(1).reserved, 0u);
}

TEST(Batch, TellsWhatIsWrongAtTheCall) {
  DeviceRig rig({.timeout_ns = kMillisecond});
  const auto ctx = rig.context();
  Batch batch(ctx);
  std::vector<int> mine(257);
  EXPECT_EQ(batch.p(rig.local<int>(0), 7, 2), Status::kBadPe);
  EXPECT_EQ(batch.p(mine.data(), 7, 1), Status::kNotSymmetric);
  EXPECT_EQ(batch.put_nbi(rig.local<int>(0), mine.data(), 257, 1).status, Status::kNotRegistered);
  EXPECT_EQ(batch.get_nbi(mine.data(), rig.local<int>(0), 257, 1).status, Status::kNotRegistered);
  EXPECT_EQ(batch.atomic_add(rig.local<uint64_t>(4), 1, 1), Status::kMisaligned);
  EXPECT_EQ(batch.signal(Signal::set(rig.local<uint64_t>(0), 1, -1)), Status::kBadPe);
  EXPECT_EQ(
      batch.put_signal_nbi(mine.data(), mine.data(), 1, Signal::set(rig.local<uint64_t>(0), 1, 1))
          .status,
      Status::kNotSymmetric);
  EXPECT_EQ(posted_end(rig.queue(1).posted), 0u);
}

TEST(Batch, OnAQueueInErrorSaysSo) {
  DeviceRig rig;
  const auto ctx = rig.context();
  rig.nic(1).fail(0, mlx5::Syndrome::kRemoteAccess, 0);
  Batch batch(ctx);
  const Ticket ticket = batch.put_nbi(rig.local<int>(0), rig.local<int>(0), 20, 1);
  EXPECT_EQ(ticket.status, Status::kOk);
  batch.ring();
  rig.step_all();
  EXPECT_EQ(wait(ctx, ticket), Status::kQueueError);
  EXPECT_EQ(batch.p(rig.local<int>(0), 7, 1), Status::kQueueError);
}

}  // namespace
}  // namespace peal
