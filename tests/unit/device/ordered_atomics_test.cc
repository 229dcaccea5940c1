// SPDX-License-Identifier: Apache-2.0
//
// Atomics that acquire and release: what they do to the word and answer, by loads and stores and on
// every kind of queue; what goes ahead of a release through the NIC; what is refused, by the
// compiler or by the call. That they order anything is shown in tests/sim.
#include <vector>

#include "device/atomics.h"
#include "device/atomics_nbi.h"
#include "device/rma.h"
#include "device/sync.h"
#include "examples/ticket_lock.h"
#include "examples/work_deque.h"
#include "gtest/gtest.h"
#include "tests/support/device_rig.h"
#include "tests/support/one_block.h"

namespace peal {
namespace {

using namespace testing;

constexpr size_t kWord = 0x40;
constexpr size_t kOld = 0x400;
constexpr size_t kBytes = 256;
constexpr uint8_t kSwapIf = 0x11;
constexpr uint8_t kMaskedSwap = 0x14;

template <class T>
void expect_old(const Fetched<T>& answer, std::type_identity_t<T> old) {
  EXPECT_EQ(answer.status, Status::kOk);
  EXPECT_EQ(answer.value, old);
}

/// Every call in every order that it takes, on one word that nobody else touches.
template <class T, class C>
void expect_every_call(const C& ctx, T* word) {
  EXPECT_EQ(atomic_set(ctx, word, 10, 1, release), Status::kOk);
  expect_old(atomic_fetch(ctx, word, 1, acquire), 10);
  expect_old(atomic_fetch_add(ctx, word, 5, 1, acquire), 10);
  expect_old(atomic_fetch_add(ctx, word, 5, 1, release), 15);
  expect_old(atomic_fetch_add(ctx, word, 5, 1, acq_rel), 20);
  EXPECT_EQ(atomic_add(ctx, word, 1, 1, release), Status::kOk);
  EXPECT_EQ(atomic_inc(ctx, word, 1, release), Status::kOk);
  expect_old(atomic_fetch_inc(ctx, word, 1, acquire), 27);
  expect_old(atomic_fetch_inc(ctx, word, 1, acq_rel), 28);
  expect_old(atomic_swap(ctx, word, 0xf0, 1, acq_rel), 29);
  expect_old(atomic_swap(ctx, word, 0xf1, 1, acquire), 0xf0);
  expect_old(atomic_compare_swap(ctx, word, 1, 2, 1, acq_rel), 0xf1);
  expect_old(atomic_compare_swap(ctx, word, 0xf1, 0xff, 1, acquire), 0xf1);
  expect_old(atomic_compare_swap(ctx, word, 0xff, 0xff, 1, release), 0xff);
  expect_old(atomic_fetch_and(ctx, word, 0x3c, 1, acq_rel), 0xff);
  expect_old(atomic_fetch_or(ctx, word, 0x41, 1, acquire), 0x3c);
  expect_old(atomic_fetch_xor(ctx, word, 0x7f, 1, release), 0x7d);
  EXPECT_EQ(atomic_and(ctx, word, 0x03, 1, release), Status::kOk);
  EXPECT_EQ(atomic_or(ctx, word, 0x10, 1, release), Status::kOk);
  EXPECT_EQ(atomic_xor(ctx, word, 0x01, 1, release), Status::kOk);
  EXPECT_EQ(atomic_max(ctx, word, 0x20, 1, release), Status::kOk);
  expect_old(atomic_fetch_max(ctx, word, 0x1f, 1, acquire), 0x20);
  EXPECT_EQ(atomic_min(ctx, word, 0x1e, 1, release), Status::kOk);
  expect_old(atomic_fetch_min(ctx, word, 0x1d, 1, acq_rel), 0x1e);
  expect_old(atomic_fetch(ctx, word, 1, acquire), 0x1d);
}

template <class T, class C>
void expect_every_call_later(const C& ctx, T* word, T* old) {
  const auto done = [&](const Ticket& ticket, T value) {
    EXPECT_EQ(wait(ctx, ticket), Status::kOk);
    EXPECT_EQ(*old, value);
  };
  EXPECT_EQ(atomic_set(ctx, word, 10, 1, release), Status::kOk);
  done(atomic_fetch_nbi(ctx, old, word, 1, acquire), 10);
  done(atomic_swap_nbi(ctx, old, word, 3, 1, acq_rel), 10);
  done(atomic_compare_swap_nbi(ctx, old, word, 3, 4, 1, release), 3);
  done(atomic_fetch_add_nbi(ctx, old, word, 2, 1, acquire), 4);
  done(atomic_fetch_inc_nbi(ctx, old, word, 1, release), 6);
  done(atomic_fetch_and_nbi(ctx, old, word, 6, 1, acq_rel), 7);
  done(atomic_fetch_or_nbi(ctx, old, word, 8, 1, acquire), 6);
  done(atomic_fetch_xor_nbi(ctx, old, word, 2, 1, release), 14);
  expect_old(atomic_fetch(ctx, word, 1), 12);
}

template <class T, class C>
void expect_sums_of_reals(const C& ctx, T* word) {
  EXPECT_EQ(atomic_set(ctx, word, T{1.5}, 1, release), Status::kOk);
  EXPECT_EQ(atomic_add(ctx, word, T{1}, 1, release), Status::kOk);
  expect_old(atomic_fetch_add(ctx, word, T{2}, 1, acquire), T{2.5});
  expect_old(atomic_fetch_add(ctx, word, T{2}, 1, acq_rel), T{4.5});
  expect_old(atomic_fetch_max(ctx, word, T{9}, 1, acq_rel), T{6.5});
  expect_old(atomic_fetch(ctx, word, 1, acquire), T{9});
}

template <class C>
void expect_all(DeviceRig& rig, const C& ctx) {
  expect_every_call(ctx, rig.local<uint64_t>(kWord));
  expect_every_call(ctx, rig.local<int32_t>(kWord + 8));
  expect_every_call_later(ctx, rig.local<uint64_t>(kWord), rig.local<uint64_t>(kOld));
  expect_every_call_later(ctx, rig.local<uint32_t>(kWord), rig.local<uint32_t>(kOld));
  expect_sums_of_reals(ctx, rig.local<double>(kWord));
  expect_sums_of_reals(ctx, rig.local<float>(kWord));
}

TEST(OrderedAtomic, DoesWhatTheRelaxedOneDoesByTheNic) {
  DeviceRig rig;
  const NicThread nics(rig);
  expect_all(rig, rig.context());
}
TEST(OrderedAtomic, OnAQueueOfABlock) {
  DeviceRig rig;
  const NicThread nics(rig);
  expect_all(rig, rig.context<Reach::kBlock>());
}
TEST(OrderedAtomic, OnAQueueOfALane) {
  DeviceRig rig;
  const NicThread nics(rig);
  expect_all(rig, rig.context<Reach::kLane>());
}
TEST(OrderedAtomic, WhereReleasesSettle) {
  DeviceRig rig({.queues_per_peer = 2, .rails = 2});
  const NicThread nics(rig);
  expect_all(rig, rig.context());
}
TEST(OrderedAtomic, OnAMappedWord) {
  DeviceRig rig;
  std::byte* direct[2] = {nullptr, rig.heap_of(1)};
  rig.windows().window[0].direct = direct;
  expect_all(rig, rig.context());
  EXPECT_EQ(rig.queue(1).reserved, 0u);
}
TEST(OrderedAtomic, OnAMappedWordBesideTheNearHeaps) {
  DeviceRig rig;
  std::byte* direct[2] = {nullptr, rig.heap_of(1)};
  rig.windows().window[0].direct = direct;
  Context ctx = rig.context();
  ctx.near_first = INT32_MAX;
  rig.state().fields = ctx;
  expect_all(rig, ctx);
  EXPECT_EQ(rig.queue(1).reserved, 0u);
}

Status put_and_set(const Context& ctx, std::byte* heap) {
  const Ticket put = put_nbi(ctx, heap + kTarget, heap + kSource, kBytes, 1);
  const Status set = atomic_set(ctx, reinterpret_cast<uint64_t*>(heap + kWord), 9, 1, release);
  return put.status != Status::kOk ? put.status : set;
}
Status put_and_swap(const Context& ctx, std::byte* heap) {
  const Ticket put = put_nbi(ctx, heap + kTarget, heap + kSource, kBytes, 1);
  auto* const word = reinterpret_cast<uint64_t*>(heap + kWord);
  const auto old = atomic_compare_swap(ctx, word, 0, 9, 1, acq_rel);
  return put.status != Status::kOk ? put.status : old.status;
}
Status put_and_look(const Context& ctx, std::byte* heap) {
  const Ticket put = put_nbi(ctx, heap + kTarget, heap + kSource, kBytes, 1);
  const auto old = atomic_fetch(ctx, reinterpret_cast<uint64_t*>(heap + kWord), 1, acquire);
  return put.status != Status::kOk ? put.status : old.status;
}

TEST(Release, GoesBehindThePayloadOnOneQueueWithNothingBetween) {
  DeviceRig rig;
  ASSERT_EQ(run_as_block(rig, 0, put_and_set), Status::kOk);
  ASSERT_EQ(run_as_block(rig, 0, put_and_swap), Status::kOk);
  EXPECT_EQ(opcodes(rig), (Ops{kWrite, kMaskedSwap, kWrite, kSwapIf}));
}

TEST(Release, GoesByTheKeyOfWords) {
  DeviceRig rig;
  const NicKey keys[2] = {mlx5::key(1), mlx5::key(DeviceRig::rkey(0, 1))};
  const NicKey loose[2] = {mlx5::key(2), mlx5::key(3)};
  rig.windows().window[0].word_rkeys = keys;
  rig.windows().window[0].rkeys = loose;
  const NicThread nics(rig);
  expect_old(atomic_swap(rig.context(), rig.local<uint64_t>(kWord), 9, 1, acq_rel), 0);
}

TEST(Release, SettlesItsQueueWhereTheMemoryIsReachedInOtherWaysToo) {
  DeviceRig rig({.settle = true});
  ASSERT_EQ(run_as_block(rig, 0, put_and_set), Status::kOk);
  ASSERT_EQ(run_as_block(rig, 0, put_and_swap), Status::kOk);
  EXPECT_EQ(opcodes(rig), (Ops{kWrite, kRead, kMaskedSwap, kWrite, kRead, kSwapIf}));
}

TEST(Release, OnAnotherRailSettlesTheQueueThatItLeavesAndNoOther) {
  DeviceRig rig({.queues_per_peer = 2, .rails = 2});
  ASSERT_EQ(run_as_block(rig, 1, put_and_set), Status::kOk);
  EXPECT_EQ(opcodes(rig, 1), (Ops{kWrite, kRead}));
  EXPECT_EQ(opcodes(rig, 0), (Ops{kMaskedSwap}));
  ASSERT_EQ(run_as_block(rig, 0, put_and_set), Status::kOk);
  EXPECT_EQ(opcodes(rig, 0), (Ops{kMaskedSwap, kWrite, kRead, kMaskedSwap}));
}

TEST(Release, IsNotPostedWhereItsQueueHasFailed) {
  DeviceRig rig({.settle = true});
  rig.nic(1).fail(0, mlx5::Syndrome::kRemoteAccess, 0);
  EXPECT_EQ(run_as_block(rig, 0, put_and_set), Status::kQueueError);
  EXPECT_EQ(run_as_block(rig, 0, put_and_swap), Status::kQueueError);
  EXPECT_EQ(*rig.remote<uint64_t>(1, kWord), 0u);
}

TEST(Acquire, PostsAndSettlesNothingMore) {
  DeviceRig rig({.settle = true});
  ASSERT_EQ(run_as_block(rig, 0, put_and_look), Status::kOk);
  EXPECT_EQ(opcodes(rig), (Ops{kWrite, kFetchAdd}));
}

// The structures of examples/ by blocks that run at the same time: ThreadSanitizer looks at what
// the lock, and the deque, leave unordered.

constexpr uint32_t kRecordWords = 9;
constexpr uint32_t kTurns = 30;
constexpr int kKeeper = 1;

PEAL_KERNEL count_under_lock(Context ctx, TicketLock* at, uint64_t* record, uint64_t* mine,
                             uint32_t* wrong) {
  uint64_t* const copy = mine + block_in_grid() * kRecordWords;
  for (uint32_t turn = 0; turn < kTurns; ++turn) {
    const Fetched<uint64_t> ticket = lock(ctx, at, kKeeper);
    Status status = ticket.status;
    if (status == Status::kOk) status = get(ctx, copy, record, kRecordWords, kKeeper);
    for (uint32_t i = 0; i < kRecordWords; ++i) {
      if (copy[i] != ticket.value * (i + 1)) ++*wrong;
      copy[i] = (ticket.value + 1) * (i + 1);
    }
    if (status == Status::kOk) status = put(ctx, record, copy, kRecordWords, kKeeper);
    if (status == Status::kOk) status = unlock(ctx, at, kKeeper, ticket.value);
    if (status != Status::kOk) ++*wrong;
  }
}

void expect_counted(DeviceRig& rig) {
  constexpr uint32_t kBlocks = 4;
  uint32_t wrong = 0;
  launch({.blocks = kBlocks, .threads = 1}, count_under_lock, rig.context(),
         rig.local<TicketLock>(kWord), rig.local<uint64_t>(kTarget), rig.local<uint64_t>(kSource),
         &wrong)
      .wait();
  EXPECT_EQ(quiet(rig.context()), Status::kOk);
  EXPECT_EQ(wrong, 0u);
  for (uint32_t i = 0; i < kRecordWords; ++i) {
    EXPECT_EQ(rig.remote<uint64_t>(kKeeper, kTarget)[i], kBlocks * kTurns * (i + 1));
  }
}

TEST(TicketLock, KeepsARecordOfAMappedPeer) {
  DeviceRig rig;
  std::byte* direct[2] = {nullptr, rig.heap_of(1)};
  rig.windows().window[0].direct = direct;
  expect_counted(rig);
}
TEST(TicketLock, KeepsARecordBehindTheNic) {
  DeviceRig rig;
  const NicThread nics(rig);
  expect_counted(rig);
}

struct Chore {
  uint64_t number;
  uint64_t check[2];
};
constexpr uint64_t kChores = 150;
#if defined(__SANITIZE_THREAD__)
constexpr uint32_t kSlots = 256;  // none used twice: a late thief reads what it drops
#else
constexpr uint32_t kSlots = 8;
#endif

/// Block 0 owns the deque of its PE; the others steal as another PE would.
PEAL_KERNEL share_chores(Context ctx, WorkDeque<Chore> deque, Chore* landing, uint32_t* done) {
  const auto note = [&](const Fetched<bool>& got, const Chore& one) {
    if (!got.value) return;
    const bool right = one.check[0] == ~one.number && one.check[1] == one.number * one.number;
    __atomic_fetch_add(right ? &done[1 + one.number] : &done[kChores + 1], 1, __ATOMIC_RELAXED);
    __atomic_fetch_add(&done[0], 1, __ATOMIC_RELAXED);
  };
  Chore mine{};
  for (uint64_t i = 0; block_in_grid() == 0 && i < kChores;) {
    const Fetched<bool> pushed = deque.push(ctx, Chore{i, {~i, i * i}});
    if (pushed.status != Status::kOk) return;
    if (pushed.value) ++i;
    if (!pushed.value || i % 4 == 0) note(deque.pop(ctx, &mine), mine);
  }
  const auto all_done = [&] {
    if (block_in_grid() == 0) {
      note(deque.pop(ctx, &mine), mine);
    } else {
      Chore* const there = landing + block_in_grid();
      const Fetched<bool> got = deque.steal(ctx, 0, there);
      note(got, *there);
    }
    return __atomic_load_n(&done[0], __ATOMIC_RELAXED) == kChores;
  };
  (void)spin_until(ctx.timeout_ns, all_done, [] { return false; });
}

void expect_shared(DeviceRig& rig) {
  const WorkDeque<Chore> deque{rig.local<uint64_t>(kWord), rig.local<Chore>(kTarget), kSlots};
  std::vector<uint32_t> done(kChores + 2);
  launch({.blocks = 4, .threads = 1}, share_chores, rig.context(), deque, rig.local<Chore>(kSource),
         done.data())
      .wait();
  EXPECT_EQ(done[0], kChores);
  EXPECT_EQ(done[kChores + 1], 0u) << "tasks that are not what was pushed";
  for (uint64_t i = 0; i < kChores; ++i) EXPECT_EQ(done[1 + i], 1u) << i;
}

TEST(WorkDeque, GivesEachTaskToOneOfThemByLoadsAndStores) {
  DeviceRig rig;
  std::byte* direct[2] = {rig.heap(), rig.heap_of(1)};
  rig.windows().window[0].direct = direct;
  expect_shared(rig);
}
TEST(WorkDeque, GivesEachTaskToOneOfThemByTheNic) {
  DeviceRig rig;
  const NicThread nics(rig);
  expect_shared(rig);
}

template <class C>
void expect_refused(DeviceRig& rig, const C& ctx) {
  auto* const word = rig.local<uint64_t>(kWord);
  auto* const crooked = reinterpret_cast<uint64_t*>(rig.heap() + kWord + 4);
  auto* const old = rig.local<uint64_t>(kOld);
  uint64_t mine = 0;
  EXPECT_EQ(atomic_set(ctx, crooked, 1, 1, release), Status::kMisaligned);
  EXPECT_EQ(rig.usage().address, reinterpret_cast<uint64_t>(crooked));
  EXPECT_EQ(atomic_fetch(ctx, crooked, 1, acquire).status, Status::kMisaligned);
  EXPECT_EQ(atomic_swap(ctx, crooked, 1, 1, acq_rel).status, Status::kMisaligned);
  EXPECT_EQ(atomic_max(ctx, crooked, 1, 1, release), Status::kMisaligned);
  EXPECT_EQ(atomic_fetch_inc_nbi(ctx, old, crooked, 1, release).status, Status::kMisaligned);
  for (const int pe : {-1, 2}) {
    EXPECT_EQ(atomic_set(ctx, word, 1, pe, release), Status::kBadPe);
    EXPECT_EQ(atomic_fetch(ctx, word, pe, acquire).status, Status::kBadPe);
    EXPECT_EQ(atomic_fetch_inc(ctx, word, pe, acq_rel).status, Status::kBadPe);
    EXPECT_EQ(atomic_fetch_max(ctx, word, 1, pe, acq_rel).status, Status::kBadPe);
    EXPECT_EQ(atomic_fetch_nbi(ctx, old, word, pe, acquire).status, Status::kBadPe);
  }
  EXPECT_EQ(atomic_set(ctx, &mine, 1, 1, release), Status::kNotSymmetric);
  EXPECT_EQ(atomic_fetch(ctx, &mine, 1, acquire).status, Status::kNotSymmetric);
  EXPECT_EQ(atomic_compare_swap(ctx, &mine, 0, 1, 1, acq_rel).status, Status::kNotSymmetric);
  EXPECT_EQ(atomic_fetch_min(ctx, &mine, 1, 1, acquire).status, Status::kNotSymmetric);
  EXPECT_EQ(atomic_swap_nbi(ctx, old, &mine, 1, 1, acq_rel).status, Status::kNotSymmetric);
  EXPECT_EQ(mine, 0u);
  EXPECT_EQ(rig.queue(1).reserved, 0u);
}

TEST(OrderedAtomic, MistakesPostNothing) {
  DeviceRig rig({.timeout_ns = kMillisecond});
  expect_refused(rig, rig.context());
}
TEST(OrderedAtomic, MistakesPostNothingWhereReleasesSettle) {
  DeviceRig rig({.settle = true, .timeout_ns = kMillisecond});
  expect_refused(rig, rig.context<Reach::kLane>());
}
TEST(OrderedAtomic, MistakesStoreNothing) {
  DeviceRig rig;
  std::byte* direct[2] = {nullptr, rig.heap_of(1)};
  rig.windows().window[0].direct = direct;
  expect_refused(rig, rig.context());
  EXPECT_EQ(*rig.remote<uint64_t>(1, kWord), 0u);
}

// A load releases nothing, and a store whose caller does not hear the old value acquires nothing.
template <class O>
concept Looks = requires(Context ctx, uint64_t* word, O order) {
  atomic_fetch(ctx, word, 1, order);
};
template <class O>
concept Sets = requires(Context ctx, uint64_t* word, O order) {
  atomic_set(ctx, word, 1, 1, order);
  atomic_inc(ctx, word, 1, order);
};
template <class O>
concept Swaps = requires(Context ctx, uint64_t* word, O order) {
  atomic_swap(ctx, word, 1, 1, order);
};

using Acquire = Ordering<Order::kAcquire>;
using Release = Ordering<Order::kRelease>;
using Both = Ordering<Order::kBoth>;
static_assert(Looks<Relaxed> && Looks<Acquire> && !Looks<Release> && !Looks<Both>);
static_assert(Sets<Relaxed> && !Sets<Acquire> && Sets<Release> && !Sets<Both>);
static_assert(Swaps<Relaxed> && Swaps<Acquire> && Swaps<Release> && Swaps<Both>);
static_assert(!Looks<int> && !Sets<Order> && !Swaps<Thread>);

}  // namespace
}  // namespace peal
