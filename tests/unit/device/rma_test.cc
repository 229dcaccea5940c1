// SPDX-License-Identifier: Apache-2.0
//
// Transfers through the API: which work requests thread, warp and block calls put into the queue,
// how lanes share a reservation, sizes at every border, and what arrives.
#include "device/rma.h"

#include <array>
#include <numeric>
#include <vector>

#include "gtest/gtest.h"
#include "tests/support/device_rig.h"

namespace peal {
namespace {

using testing::DeviceRig;
using testing::kMillisecond;
using testing::kSource;
using testing::kTarget;
using testing::NicThread;
using testing::SeenWqe;

/// Which WQEs of those seen carry a completion.
std::vector<uint64_t> signalled(const testing::FakeNic& nic) {
  std::vector<uint64_t> indices;
  for (const SeenWqe& wqe : nic.seen()) {
    if (wqe.signalled()) indices.push_back(wqe.index);
  }
  return indices;
}

using Indices = std::vector<uint64_t>;

template <Reach R, class Scope>
PEAL_KERNEL put_32_bytes(BasicContext<R> ctx, Scope scope, std::byte* dst, const std::byte* src) {
  const uint32_t group = thread_in_block() / scope.size();
  (void)put_nbi(ctx, scope, dst + group * 32, src + group * 32, 32, 1);
}

template <Reach R, class Scope>
void post_puts(DeviceRig& rig, Scope scope, uint32_t lanes) {
  launch({.blocks = 1, .threads = lanes}, put_32_bytes<R, Scope>, rig.context<R>(), scope,
         rig.heap() + kTarget, rig.heap() + kSource)
      .wait();
  rig.step_all();
  EXPECT_EQ(rig.complaints(), "");
}

TEST(Put, LanesOfAWarpReserveOnceAndTheLastAsksForACompletion) {
  DeviceRig rig;
  post_puts<Reach::kGpu>(rig, thread, 64);
  const auto& seen = rig.nic(1).seen();
  ASSERT_EQ(seen.size(), 64u);
  EXPECT_EQ(signalled(rig.nic(1)), (Indices{31, 63}));
  EXPECT_EQ(seen[0].text(),
            "00000008 abc00103 00000004 00000000 00000000 00002000 11223301 00000000 "
            "00000020 0a0b0c0d 00000000 00000100");
  EXPECT_EQ(seen[31].text(),
            "00001f08 abc00103 00000008 00000000 00000000 000023e0 11223301 00000000 "
            "00000020 0a0b0c0d 00000000 000004e0");
}

TEST(Put, LanesOfAShortWarpAreAGroupToo) {
  DeviceRig rig;
  post_puts<Reach::kBlock>(rig, thread, 37);
  EXPECT_EQ(rig.nic(1).seen().size(), 37u);
  EXPECT_EQ(signalled(rig.nic(1)), (Indices{31, 36}));
}

TEST(Put, AWarpPostsOneWqe) {
  DeviceRig rig;
  post_puts<Reach::kGpu>(rig, warp, 32);
  ASSERT_EQ(rig.nic(1).seen().size(), 1u);
  EXPECT_EQ(rig.nic(1).seen()[0].text(),
            "00000008 abc00103 00000008 00000000 00000000 00002000 11223301 00000000 "
            "00000020 0a0b0c0d 00000000 00000100");
}

TEST(Put, EveryWarpOfABlockPostsItsOwn) {
  DeviceRig rig;
  post_puts<Reach::kGpu>(rig, warp, 96);
  EXPECT_EQ(rig.nic(1).seen().size(), 3u);
  EXPECT_EQ(signalled(rig.nic(1)), (Indices{0, 1, 2}));
}

TEST(Put, ABlockPostsOneWqe) {
  DeviceRig rig;
  post_puts<Reach::kBlock>(rig, block, 96);
  ASSERT_EQ(rig.nic(1).seen().size(), 1u);
  EXPECT_EQ(rig.nic(1).seen()[0].text(),
            "00000008 abc00103 00000008 00000000 00000000 00002000 11223301 00000000 "
            "00000020 0a0b0c0d 00000000 00000100");
}

TEST(Put, AnOwnedQueueIsPostedToByTheLeader) {
  DeviceRig rig;
  post_puts<Reach::kLane>(rig, block, 64);
  EXPECT_EQ(rig.nic(1).seen().size(), 1u);
  EXPECT_EQ(signalled(rig.nic(1)), (Indices{0}));
}

PEAL_KERNEL put_to_both(Context ctx, std::byte* heap) {
  const int pe = static_cast<int>(thread_in_block()) % 2;
  (void)put_nbi(ctx, heap + kTarget, heap + kSource, 40, pe);
}

TEST(Put, LanesThatGoToDifferentPeersPartInOneCall) {
  DeviceRig rig;
  launch({.blocks = 1, .threads = 32}, put_to_both, rig.context(), rig.heap()).wait();
  rig.step_all();
  for (const int pe : {0, 1}) {
    EXPECT_EQ(rig.nic(pe).seen().size(), 16u);
    EXPECT_EQ(signalled(rig.nic(pe)), (Indices{15}));
    EXPECT_EQ(rig.nic(pe).seen()[0].rkey(), 0x11223300u + static_cast<uint32_t>(pe));
  }
  EXPECT_EQ(rig.complaints(), "");
}

PEAL_KERNEL put_of_two_kinds(Context ctx, std::byte* heap) {
  // Even lanes take one block, odd lanes two: groups of their own.
  const uint32_t me = thread_in_block();
  if (me % 2 == 0) {
    (void)put_nbi(ctx, heap + kTarget, heap + kSource, 8, 1);
  } else {
    const nic::Atomic<Update::kSwap, uint64_t> swap{};
    (void)nic::post_by_lane<Reach::kGpu, true>(*detail::queue_at(ctx, 1), swap);
  }
}

TEST(Put, LanesInDifferentBranchesDoNotMixTheirWqes) {
  DeviceRig rig;
  launch({.blocks = 1, .threads = 32}, put_of_two_kinds, rig.context(), rig.heap()).wait();
  EXPECT_EQ(rig.step_all(), 32u);
  EXPECT_EQ(rig.complaints(), "");
  EXPECT_EQ(posted_end(rig.queue(1).posted), 48u);
}

// ---- sizes

struct Size {
  uint64_t bytes;
  uint32_t segments;
  const char* head;  // of the data or inline segment
};

class PutSize : public ::testing::TestWithParam<Size> {};

TEST_P(PutSize, TravelsInTheWqeUpTo28Bytes) {
  const auto [bytes, segments, head] = GetParam();
  DeviceRig rig;
  for (size_t i = 0; i < 2000; ++i) *rig.local<uint8_t>(kSource + i) = static_cast<uint8_t>(i + 1);
  const Ticket ticket =
      put_nbi(rig.context(), rig.heap() + kTarget, rig.heap() + kSource, bytes, 1);
  EXPECT_EQ(ticket.status, Status::kOk);
  rig.step_all();
  ASSERT_EQ(rig.nic(1).seen().size(), 1u);
  const SeenWqe& wqe = rig.nic(1).seen()[0];
  EXPECT_EQ(wqe.segments(), segments);
  EXPECT_EQ(testing::hex(&wqe.bytes[32], 4), head);
  for (size_t i = 0; i < 2000; ++i) {
    ASSERT_EQ(*rig.remote<uint8_t>(1, kTarget + i), i < bytes ? static_cast<uint8_t>(i + 1) : 0);
  }
  EXPECT_EQ(wait(rig.context(), ticket), Status::kOk);
}

INSTANTIATE_TEST_SUITE_P(Borders, PutSize,
                         ::testing::Values(Size{1, 3, "80000001"}, Size{3, 3, "80000003"},
                                           Size{4, 3, "80000004"}, Size{11, 3, "8000000b"},
                                           Size{12, 3, "8000000c"}, Size{13, 4, "8000000d"},
                                           Size{16, 4, "80000010"}, Size{27, 4, "8000001b"},
                                           Size{28, 4, "8000001c"}, Size{29, 3, "0000001d"},
                                           Size{64, 3, "00000040"}, Size{1999, 3, "000007cf"}));

TEST(Put, NothingIsPostedForNoBytes) {
  DeviceRig rig;
  const Ticket ticket = put_nbi(rig.context(), rig.heap(), rig.heap(), 0, 1);
  EXPECT_EQ(ticket.status, Status::kOk);
  EXPECT_TRUE(test(rig.context(), ticket));
  EXPECT_EQ(put(rig.context(), rig.heap(), rig.heap(), 0, 1), Status::kOk);
  EXPECT_EQ(get(rig.context(), rig.heap(), rig.heap(), 0, 1), Status::kOk);
  EXPECT_EQ(rig.queue(1).reserved, 0u);
  EXPECT_EQ(put(rig.context(), rig.heap(), rig.heap(), 0, 2), Status::kBadPe);
}

// A window of 8 GiB that is not there: nothing but addresses is looked at.
class HugeTransfer : public ::testing::Test {
 protected:
  static constexpr uint64_t kGiB = uint64_t{1} << 30;

  HugeTransfer() {
    rig.windows().window[1] = {base,        8 * kGiB,    {mlx5::key(0x77)},
                               keys.data(), keys.data(), nullptr};
    rig.windows().count = 2;
  }
  void expect(size_t i, uint32_t bytes, uint64_t remote, uint64_t local) {
    const SeenWqe& wqe = rig.nic(1).seen().at(i);
    EXPECT_EQ(wqe.data_bytes(), bytes);
    EXPECT_EQ(wqe.remote_address(), remote);
    EXPECT_EQ(wqe.local_address(), local);
    EXPECT_EQ(wqe.lkey(), 0x77u);
    EXPECT_EQ(wqe.rkey(), 0xbbu);
  }

  DeviceRig rig;
  std::byte* base = reinterpret_cast<std::byte*>(uintptr_t{1} << 44);
  std::array<NicKey, 2> keys = {mlx5::key(0xaa), mlx5::key(0xbb)};
};

TEST_F(HugeTransfer, OneGigabyteIsOneWqe) {
  ASSERT_EQ(put_nbi(rig.context(), base + 5 * kGiB, base + 7, kGiB, 1).status, Status::kOk);
  ASSERT_EQ(rig.step_all(), 1u);
  expect(0, 0x40000000, 5 * kGiB, 7);
}

TEST_F(HugeTransfer, OneByteMoreIsTwo) {
  ASSERT_EQ(put_nbi(rig.context(), base + 5 * kGiB, base + 7, kGiB + 1, 1).status, Status::kOk);
  ASSERT_EQ(rig.step_all(), 2u);
  expect(0, 0x40000000, 5 * kGiB, 7);
  expect(1, 1, 6 * kGiB, 7 + kGiB);
}

TEST_F(HugeTransfer, PutsGoOnInOrder) {
  const Ticket ticket = put_nbi(rig.context(), base, base + 4 * kGiB, 2 * kGiB + 5, 1);
  ASSERT_EQ(rig.step_all(), 3u);
  expect(0, 0x40000000, 0, 4 * kGiB);
  expect(1, 0x40000000, kGiB, 5 * kGiB);
  expect(2, 5, 2 * kGiB, 6 * kGiB);
  EXPECT_EQ(ticket.index, 2u);
}

TEST_F(HugeTransfer, GetsGoOnInOrder) {
  const Ticket ticket = get_nbi(rig.context(), base + 4 * kGiB, base, 3 * kGiB, 1);
  ASSERT_EQ(rig.step_all(), 3u);
  expect(0, 0x40000000, 0, 4 * kGiB);
  expect(2, 0x40000000, 2 * kGiB, 6 * kGiB);
  EXPECT_EQ(rig.nic(1).seen()[1].opcode(), 0x10);
  EXPECT_EQ(ticket.index, 2u);
}

TEST_F(HugeTransfer, OneThatEndsOutsideIsRefusedWhole) {
  EXPECT_EQ(put(rig.context(), base + 7 * kGiB, base, kGiB + 1, 1), Status::kNotSymmetric);
  EXPECT_EQ(get(rig.context(), base + 7 * kGiB, base, kGiB + 1, 1), Status::kNotRegistered);
  EXPECT_EQ(rig.queue(1).reserved, 0u);
}

// ---- sources, ends, errors

TEST(Put, AShortSourceNeedNotBeRegistered) {
  DeviceRig rig;
  std::array<uint8_t, 28> source;
  std::iota(source.begin(), source.end(), uint8_t{1});
  EXPECT_EQ(put(rig.context(), rig.local<uint8_t>(kTarget), source.data(), source.size(), 1),
            Status::kOk);
  rig.step_all();
  EXPECT_EQ(std::memcmp(rig.remote<uint8_t>(1, kTarget), source.data(), source.size()), 0);
}

// From there it goes in pieces of 8 bytes, inside work requests.
TEST(Put, ASourceOfUpTo1KiBNeedNotBeRegisteredEither) {
  DeviceRig rig;
  const NicThread nics(rig);
  std::vector<uint8_t> source(1024);
  std::iota(source.begin(), source.end(), uint8_t{1});
  for (const size_t bytes : {size_t{29}, size_t{1024}}) {
    auto* const target = rig.local<uint8_t>(kTarget);
    EXPECT_EQ(put(rig.context(), target, source.data(), bytes, 1), Status::kOk);
    EXPECT_EQ(quiet(rig.context()), Status::kOk);
    EXPECT_EQ(std::memcmp(rig.remote<uint8_t>(1, kTarget), source.data(), bytes), 0) << bytes;
  }
  EXPECT_EQ(rig.nic(1).seen().size(), 4u + 128u);
}

TEST(Put, ALongerSourceMustBeRegistered) {
  DeviceRig rig;
  std::vector<uint8_t> source(1025);
  EXPECT_EQ(put(rig.context(), rig.local<uint8_t>(kTarget), source.data(), source.size(), 1),
            Status::kNotRegistered);
  EXPECT_EQ(rig.queue(1).reserved, 0u);
  EXPECT_EQ(rig.usage().status, static_cast<uint32_t>(Status::kNotRegistered));
  EXPECT_EQ(rig.usage().pe, 0) << "its own pe";
}

// By way of the landing cells, which are all back behind it.
TEST(Get, ATargetOfUpTo1KiBNeedNotBeRegistered) {
  DeviceRig rig;
  const NicThread nics(rig);
  auto* const there = rig.remote<uint8_t>(1, kSource);
  std::iota(there, there + 1024, uint8_t{1});
  std::vector<uint8_t> target(1026);
  const auto* const source = rig.local<uint8_t>(kSource);
  for (const size_t bytes : {size_t{1}, size_t{13}, size_t{1024}}) {
    std::fill(target.begin(), target.end(), uint8_t{0xee});
    EXPECT_EQ(get(rig.context(), target.data() + 1, source, bytes, 1), Status::kOk);
    EXPECT_EQ(std::memcmp(target.data() + 1, there, bytes), 0) << bytes;
    EXPECT_EQ(target[0] + target[bytes + 1], 2 * 0xee) << "beside it";
  }
  EXPECT_EQ(rig.queue(1).landing_ticket, 1u + 2u + 128u);
  EXPECT_EQ(g(rig.context(), source, 1).value, 1);
}

TEST(Get, ALongerTargetMustBeRegistered) {
  DeviceRig rig;
  std::vector<uint8_t> target(1025);
  EXPECT_EQ(get(rig.context(), target.data(), rig.local<uint8_t>(kSource), target.size(), 1),
            Status::kNotRegistered);
}

// What begins in the heap and ends behind it was never meant.
TEST(Get, ATargetAcrossTheEndOfTheHeapIsRefused) {
  DeviceRig rig;
  auto* const target = rig.local<uint8_t>(DeviceRig::kHeapBytes - 4);
  EXPECT_EQ(get(rig.context(), target, rig.local<uint8_t>(kSource), 8, 1), Status::kNotRegistered);
  EXPECT_EQ(put(rig.context(), rig.local<uint8_t>(kTarget), target, 40, 1), Status::kNotRegistered);
}

// Lanes that hold landing cells wait for no lane behind them.
PEAL_KERNEL get_into_stack(Context ctx, const uint64_t* src, uint32_t* wrong) {
  uint64_t mine[100] = {};
  const Status status = get(ctx, mine, src, 100, 1);
  for (uint64_t i = 0; i < 100; ++i) {
    if (status != Status::kOk || mine[i] != i) atomicAdd(wrong, 1u);
  }
}
TEST(Get, ManyLanesFetchIntoTheirStacks) {
  DeviceRig rig;
  const NicThread nics(rig);
  for (uint64_t i = 0; i < 100; ++i) rig.remote<uint64_t>(1, kSource)[i] = i;
  uint32_t wrong = 0;
  launch({.blocks = 2, .threads = 32}, get_into_stack, rig.context(), rig.local<uint64_t>(kSource),
         &wrong)
      .wait();
  EXPECT_EQ(wrong, 0u);
}

TEST(Put, InlineDataDoesNotWaitForTheNic) {
  DeviceRig rig({.timeout_ns = kMillisecond});
  EXPECT_EQ(put(rig.context(), rig.heap() + kTarget, rig.heap(), 28, 1), Status::kOk);
}

TEST(Put, LongerDataWaitsUntilTheSourceIsFree) {
  DeviceRig dead({.timeout_ns = kMillisecond});
  EXPECT_EQ(put(dead.context(), dead.heap() + kTarget, dead.heap(), 29, 1), Status::kTimeout);
  DeviceRig rig;
  const NicThread nics(rig);
  EXPECT_EQ(put(rig.context(), rig.heap() + kTarget, rig.heap(), 29, 1), Status::kOk);
}

TEST(Put, ATicketTellsWhenItIsDone) {
  DeviceRig rig;
  const Ticket ticket = put_nbi(rig.context(), rig.heap() + kTarget, rig.heap(), 100, 1);
  EXPECT_FALSE(test(rig.context(), ticket));
  rig.step_all();
  EXPECT_TRUE(test(rig.context(), ticket));
  EXPECT_EQ(wait(rig.context(), ticket), Status::kOk);
}

TEST(Put, AFailedWqeEndsTheWait) {
  DeviceRig rig;
  rig.nic(1).fail(0, mlx5::Syndrome::kRemoteAccess, 1);
  const NicThread nics(rig);
  EXPECT_EQ(put(rig.context(), rig.heap() + kTarget, rig.heap(), 100, 1), Status::kQueueError);
  EXPECT_EQ(get(rig.context(), rig.heap() + kTarget, rig.heap(), 100, 1), Status::kQueueError);
  EXPECT_EQ(put(rig.context(), rig.heap() + kTarget, rig.heap(), 100, 0), Status::kOk)
      << "the other queue is well";
}

// Between claiming the error record and writing its status there is a moment; who gives up in it
// must not be told that all is well.
TEST(Put, GivingUpWhileAnotherLaneWritesTheErrorIsNoSuccess) {
  DeviceRig rig({.timeout_ns = kMillisecond});
  rig.queue(1).error.claimed = 1;
  for (int i = 0; i < 128; ++i) {
    ASSERT_EQ(put(rig.context(), rig.heap() + kTarget, rig.heap(), 8, 1), Status::kOk);
  }
  EXPECT_EQ(put(rig.context(), rig.heap() + kTarget, rig.heap(), 8, 1), Status::kTimeout);
}

template <class Scope>
PEAL_KERNEL get_and_check(Context ctx, Scope scope, uint32_t* dst, uint32_t* src, size_t count,
                          uint32_t* wrong) {
  const uint32_t group = thread_in_block() / scope.size();
  const Status status = get(ctx, scope, dst + group * count, src + group * count, count, 1);
  // Every lane looks at all of it: the leader's wait must hold for the others.
  for (size_t i = 0; i < count; ++i) {
    if (status != Status::kOk || dst[group * count + i] != group * count + i) {
      atomicAdd(wrong, 1u);
    }
  }
}

template <class Scope>
void expect_get_arrives(Scope scope) {
  DeviceRig rig;
  for (uint32_t i = 0; i < 4096; ++i) *rig.remote<uint32_t>(1, i * 4) = i;
  const NicThread nics(rig);
  uint32_t wrong = 0;
  launch({.blocks = 1, .threads = 64}, get_and_check<Scope>, rig.context(), scope,
         rig.local<uint32_t>(0x8000), rig.local<uint32_t>(0), size_t{33}, &wrong)
      .wait();
  EXPECT_EQ(wrong, 0u);
}

TEST(Get, ArrivesForAThread) { expect_get_arrives(thread); }
TEST(Get, ArrivesForAllLanesOfAWarp) { expect_get_arrives(warp); }
TEST(Get, ArrivesForAllLanesOfABlock) { expect_get_arrives(block); }

PEAL_KERNEL put_my_value(Context ctx, uint64_t* slots, uint32_t rounds, uint32_t* wrong) {
  const uint32_t me = block_in_grid() * threads_in_block() + thread_in_block();
  for (uint64_t i = 1; i <= rounds; ++i) {
    if (p(ctx, &slots[me], me * 1000 + i, 1) != Status::kOk) atomicAdd(wrong, 1u);
  }
  if (quiet(ctx) != Status::kOk) atomicAdd(wrong, 1u);
}

TEST(Put, ManyLanesFillTheQueueOverAndOver) {
  DeviceRig rig({.start = 0xfff0});
  uint32_t wrong = 0;
  {
    const NicThread nics(rig);
    launch({.blocks = 3, .threads = 80}, put_my_value, rig.context(), rig.local<uint64_t>(0), 12u,
           &wrong)
        .wait();
  }
  EXPECT_EQ(wrong, 0u);
  EXPECT_EQ(rig.complaints(), "");
  for (uint64_t i = 0; i < 240; ++i) EXPECT_EQ(rig.remote<uint64_t>(1, 0)[i], i * 1000 + 12);
}

}  // namespace
}  // namespace peal
