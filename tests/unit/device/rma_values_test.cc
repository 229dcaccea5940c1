// SPDX-License-Identifier: Apache-2.0
//
// Single values and strided ones: p, g, iput, iget. A fetched value lands in a cell of its queue;
// cells are few and lanes are many.
#include <array>
#include <vector>

#include "device/atomics.h"
#include "device/rma.h"
#include "device/sync.h"
#include "gtest/gtest.h"
#include "tests/support/device_rig.h"

namespace peal {
namespace {

using testing::Background;
using testing::DeviceRig;
using testing::kMillisecond;
using testing::NicThread;
using testing::SeenWqe;

TEST(P, AValueTravelsInTheWqe) {
  DeviceRig rig;
  EXPECT_EQ(p(rig.context(), rig.local<uint64_t>(0x40), 0x1122334455667788, 1), Status::kOk);
  EXPECT_EQ(p(rig.context(), rig.local<uint32_t>(0x48), 0xaabbccdd, 1), Status::kOk);
  EXPECT_EQ(p(rig.context(), rig.local<uint16_t>(0x4c), 0x0102, 1), Status::kOk);
  EXPECT_EQ(p(rig.context(), rig.local<char>(0x4e), 'x', 1), Status::kOk);
  EXPECT_EQ(p(rig.context(), rig.local<double>(0x50), 1.5, 1), Status::kOk);
  rig.step_all();
  ASSERT_EQ(rig.nic(1).seen().size(), 5u);
  EXPECT_EQ(rig.nic(1).seen()[0].text(),
            "00000008 abc00103 00000008 00000000 00000000 00000040 11223301 00000000 "
            "80000008 88776655 44332211 00000000");
  EXPECT_EQ(rig.nic(1).seen()[1].text(),
            "00000108 abc00103 00000008 00000000 00000000 00000048 11223301 00000000 "
            "80000004 ddccbbaa 00000000 00000000");
  EXPECT_EQ(*rig.remote<uint16_t>(1, 0x4c), 0x0102);
  EXPECT_EQ(*rig.remote<char>(1, 0x4e), 'x');
  EXPECT_EQ(*rig.remote<double>(1, 0x50), 1.5);
  EXPECT_EQ(*rig.remote<char>(1, 0x4f), 0);
}

PEAL_KERNEL put_rank(Context ctx, uint32_t* slots) {
  const uint32_t me = thread_in_block();
  if (me % 3 != 1) (void)p(ctx, &slots[me], me + 1, 1);
}

TEST(P, ActiveLanesOfAWarpShareADoorbell) {
  DeviceRig rig;
  launch({.blocks = 1, .threads = 32}, put_rank, rig.context(), rig.local<uint32_t>(0)).wait();
  rig.step_all();
  size_t completions = 0;
  for (const SeenWqe& wqe : rig.nic(1).seen()) completions += wqe.signalled() ? 1 : 0;
  EXPECT_EQ(rig.nic(1).seen().size(), 21u);
  EXPECT_EQ(completions, 1u);
  EXPECT_TRUE(rig.nic(1).seen().back().signalled());
  for (uint32_t i = 0; i < 32; ++i) {
    EXPECT_EQ(rig.remote<uint32_t>(1, 0)[i], i % 3 != 1 ? i + 1 : 0);
  }
}

TEST(G, FetchesEverySize) {
  DeviceRig rig;
  *rig.remote<uint64_t>(1, 0x40) = 0x1122334455667788;
  *rig.remote<float>(1, 0x48) = 2.5f;
  const NicThread nics(rig);
  EXPECT_EQ(g(rig.context(), rig.local<uint64_t>(0x40), 1).value, 0x1122334455667788u);
  EXPECT_EQ(g(rig.context(), rig.local<uint32_t>(0x44), 1).value, 0x11223344u);
  EXPECT_EQ(g(rig.context(), rig.local<uint16_t>(0x40), 1).value, 0x7788);
  EXPECT_EQ(g(rig.context(), rig.local<uint8_t>(0x47), 1).value, 0x11);
  EXPECT_EQ(g(rig.context(), rig.local<float>(0x48), 1).value, 2.5f);
}

TEST(G, ReadsIntoTheNextLandingCell) {
  DeviceRig rig({.timeout_ns = kMillisecond});
  EXPECT_EQ(g(rig.context(), rig.local<uint32_t>(0x44), 1).status, Status::kTimeout);
  EXPECT_EQ(g(rig.context(), rig.local<uint64_t>(0x40), 1).status, Status::kTimeout);
  rig.step_all();
  ASSERT_EQ(rig.nic(1).seen().size(), 2u);
  EXPECT_EQ(rig.nic(1).seen()[0].text(),
            "00000010 abc00103 00000008 00000000 00000000 00000044 11223301 00000000 "
            "00000004 77000001 00000000 00000040");
  EXPECT_EQ(rig.nic(1).seen()[1].text(),
            "00000110 abc00103 00000008 00000000 00000000 00000040 11223301 00000000 "
            "00000008 77000001 00000000 00000050");
}

TEST(G, MistakesFetchNothing) {
  DeviceRig rig;
  EXPECT_EQ(g(rig.context(), rig.local<int>(0), 2).status, Status::kBadPe);
  int here = 0;
  EXPECT_EQ(g(rig.context(), &here, 1).status, Status::kNotSymmetric);
  EXPECT_EQ(rig.queue(1).landing_ticket, 0u);
}

template <Reach R>
PEAL_KERNEL fetch_many(BasicContext<R> ctx, const uint64_t* words, uint32_t rounds,
                       uint32_t* wrong) {
  const uint32_t me = block_in_grid() * threads_in_block() + thread_in_block();
  for (uint32_t i = 0; i < rounds; ++i) {
    const uint32_t which = (me * 7 + i * 13) % 1000;
    const Fetched<uint64_t> got = g(ctx, &words[which], 1);
    if (got.status != Status::kOk || got.value != which * 3 + 1) atomicAdd(wrong, 1u);
  }
}

template <Reach R>
void expect_fetches_apart(const Grid& grid, uint32_t rounds) {
  DeviceRig rig({.start = 0xff00});
  for (uint64_t i = 0; i < 1000; ++i) rig.remote<uint64_t>(1, 0)[i] = i * 3 + 1;
  uint32_t wrong = 0;
  {
    const NicThread nics(rig);
    launch(grid, fetch_many<R>, rig.context<R>(), rig.local<uint64_t>(0), rounds, &wrong).wait();
  }
  EXPECT_EQ(wrong, 0u);
  EXPECT_EQ(rig.complaints(), "");
  EXPECT_EQ(rig.queue(1).landing_ticket, grid.blocks.x * grid.threads.x * rounds);
}

TEST(G, MoreLanesThanLandingCellsDoNotMixTheirValues) {
  expect_fetches_apart<Reach::kGpu>({.blocks = 4, .threads = 96}, 6);
}
TEST(G, LanesOfABlockDoNotMixTheirValues) {
  expect_fetches_apart<Reach::kBlock>({.blocks = 1, .threads = 200}, 4);
}
TEST(G, AnOwnerReusesItsCells) {
  expect_fetches_apart<Reach::kLane>({.blocks = 1, .threads = 1}, 300);
}

TEST(G, AClosedQueueHandsOutNoCellThatIsTaken) {
  DeviceRig rig({.timeout_ns = kMillisecond});
  rig.queue(1).landing_ticket = kLandingCells;  // second lap, nobody gave back the first
  EXPECT_EQ(g(rig.context(), rig.local<int>(0), 1).status, Status::kTimeout);
  EXPECT_EQ(quiet(rig.context()), Status::kTimeout);
  EXPECT_EQ(rig.queue(1).reserved, 0u);
}

// A fetch that has timed out is never waited for again, so nobody else could give its cell back:
// the queue ran out of cells, and closed, after 128 of them. Answers of a queue land in order, so a
// late one cannot fall on the value of the cell's next user.
TEST(G, GivesItsCellBackWhenItTimesOut) {
  DeviceRig rig({.timeout_ns = kMillisecond});
  for (int lap = 0; lap < 3; ++lap) {
    for (uint32_t i = 0; i < kLandingCells / 2; ++i) {
      ASSERT_EQ(g(rig.context(), rig.local<int>(0), 1).status, Status::kTimeout);
      ASSERT_EQ(atomic_fetch_add(rig.context(), rig.local<int>(8), 1, 1).status, Status::kTimeout);
      rig.step_all();
    }
    ASSERT_EQ(quiet(rig.context()), Status::kOk);
  }
}

// ---- strided

template <Reach R, class Scope>
PEAL_KERNEL put_strided(BasicContext<R> ctx, Scope scope, int32_t* dst, const int32_t* src,
                        Strides strides, size_t count, Status* out) {
  if (scope.size() == 1 && thread_in_block() != 0) return;
  out[thread_in_block()] = iput(ctx, scope, dst, src, strides, count, 1);
}

template <Reach R, class Scope>
PEAL_KERNEL get_strided(BasicContext<R> ctx, Scope scope, int32_t* dst, const int32_t* src,
                        Strides strides, size_t count, uint32_t* wrong) {
  if (scope.size() == 1 && thread_in_block() != 0) return;
  const Status status = iget(ctx, scope, dst, src, strides, count, 1);
  for (size_t i = 0; i < count; ++i) {  // elements that other lanes have fetched, too
    const auto at = static_cast<ptrdiff_t>(i);
    if (status != Status::kOk || dst[at * strides.dst] != static_cast<int32_t>(i) + 1) {
      atomicAdd(wrong, 1u);
    }
  }
}

template <Reach R, class Scope>
void expect_strided(Scope scope, uint32_t lanes, size_t count) {
  DeviceRig rig;
  std::vector<int32_t> source(2 * count);
  for (size_t i = 0; i < count; ++i) source[2 * i] = static_cast<int32_t>(i) + 1;
  std::vector<Status> out(lanes, Status::kOk);
  uint32_t wrong = 0;
  {
    // One WQE at a time: lanes that end early must be told of what the others still fetch.
    const Background nic([&rig] { return rig.nic(1).step(1) * 0; });
    launch({.blocks = 1, .threads = lanes}, put_strided<R, Scope>, rig.context<R>(), scope,
           rig.local<int32_t>(0), source.data(), Strides{3, 2}, count, out.data())
        .wait();
    EXPECT_EQ(out, std::vector<Status>(lanes, Status::kOk));
    EXPECT_EQ(quiet(rig.context<R>()), Status::kOk);
    launch({.blocks = 1, .threads = lanes}, get_strided<R, Scope>, rig.context<R>(), scope,
           rig.local<int32_t>(0xe000), rig.local<int32_t>(0), Strides{-2, 3}, count, &wrong)
        .wait();
  }
  EXPECT_EQ(wrong, 0u);
  EXPECT_EQ(rig.complaints(), "");
  for (size_t i = 0; i < count; ++i) {
    EXPECT_EQ(rig.remote<int32_t>(1, 0)[3 * i], static_cast<int32_t>(i) + 1);
    EXPECT_EQ(rig.remote<int32_t>(1, 0)[3 * i + 1], 0);
  }
}

TEST(Strided, AThreadMovesAllElements) { expect_strided<Reach::kGpu>(thread, 1, 20); }
TEST(Strided, AWarpSharesTheElements) { expect_strided<Reach::kGpu>(warp, 32, 77); }
TEST(Strided, ABlockSharesTheElements) { expect_strided<Reach::kGpu>(block, 100, 333); }
TEST(Strided, AWarpMovesThemOverAnOwnedQueue) { expect_strided<Reach::kLane>(warp, 32, 400); }
TEST(Strided, ABlockMovesThemOverAnOwnedQueue) { expect_strided<Reach::kLane>(block, 64, 400); }
TEST(Strided, NoElementsAreNoWork) { expect_strided<Reach::kGpu>(warp, 32, 0); }

TEST(Strided, OneWrongElementIsReportedToAllLanes) {
  DeviceRig rig;
  const std::array<int32_t, 64> source{};
  std::vector<Status> out(64, Status::kOk);
  auto* const near_end = rig.local<int32_t>(DeviceRig::kHeapBytes - 33 * 4);  // room for 33
  launch({.blocks = 1, .threads = 64}, put_strided<Reach::kGpu, Block>, rig.context(), block,
         near_end, source.data(), Strides{1, 1}, size_t{34}, out.data())
      .wait();
  EXPECT_EQ(out, std::vector<Status>(64, Status::kNotSymmetric));
}

template <class Scope>
PEAL_KERNEL get_too_many(Context ctx, Scope scope, int32_t* dst, const int32_t* src, size_t there,
                         Status* out, uint32_t* missing) {
  out[thread_in_block()] = iget(ctx, scope, dst, src, Strides{1, 2}, 2 * there, 1);
  for (size_t i = 0; i < there; ++i) {
    if (dst[i] != static_cast<int32_t>(i) + 1) atomicAdd(missing, 1u);
  }
}

// A lane that found an element it may not fetch returned at once, and the NIC went on writing what
// the lane had asked for before into memory that the caller took for its own again. Here there is
// no room for the second half, and the NIC does nothing until that has been noticed.
template <class Scope>
void expect_nothing_in_flight(Scope scope, uint32_t lanes, size_t there) {
  DeviceRig rig;
  const size_t to = DeviceRig::kHeapBytes - there * sizeof(int32_t);
  for (size_t i = 0; i < there; ++i) rig.remote<int32_t>(1, 0)[2 * i] = static_cast<int32_t>(i) + 1;
  std::vector<Status> out(lanes, Status::kOk);
  uint32_t missing = 0;
  {
    const Background nic([&rig] {
      const auto status = load_acquire<Reach::kSystem>(&rig.usage().status);
      return status != 0 ? rig.nic(1).step(1) * 0 : 0;
    });
    launch({.blocks = 1, .threads = lanes}, get_too_many<Scope>, rig.context(), scope,
           rig.local<int32_t>(to), rig.local<int32_t>(0), there, out.data(), &missing)
        .wait();
  }
  EXPECT_EQ(out, std::vector<Status>(lanes, Status::kNotRegistered));
  EXPECT_EQ(missing, 0u);
}

TEST(Strided, AThreadThatFailsHasNothingInFlight) { expect_nothing_in_flight(thread, 1, 20); }
TEST(Strided, AWarpThatFailsHasNothingInFlight) { expect_nothing_in_flight(warp, 32, 32); }
TEST(Strided, ABlockThatFailsHasNothingInFlight) { expect_nothing_in_flight(block, 40, 40); }

// ---- peers whose memory is mapped

TEST(Direct, NothingGoesThroughAQueue) {
  DeviceRig rig;
  std::byte* direct[2] = {nullptr, rig.heap_of(1)};
  rig.windows().window[0].direct = direct;
  std::array<uint8_t, 100> source;
  source.fill(7);
  EXPECT_EQ(put(rig.context(), rig.local<uint8_t>(3), source.data(), source.size(), 1),
            Status::kOk);
  EXPECT_EQ(std::memcmp(rig.heap_of(1) + 3, source.data(), source.size()), 0);
  EXPECT_EQ(*rig.remote<uint8_t>(1, 103), 0);
  std::array<uint8_t, 100> target{};
  EXPECT_EQ(get(rig.context(), target.data(), rig.local<uint8_t>(3), target.size(), 1),
            Status::kOk);
  EXPECT_EQ(target, source);
  EXPECT_EQ(p(rig.context(), rig.local<uint64_t>(0x200), 9, 1), Status::kOk);
  EXPECT_EQ(g(rig.context(), rig.local<uint64_t>(0x200), 1).value, 9u);
  EXPECT_EQ(quiet(rig.context()), Status::kOk);
  EXPECT_EQ(rig.queue(1).reserved, 0u);
}

}  // namespace
}  // namespace peal
