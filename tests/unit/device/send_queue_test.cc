// SPDX-License-Identifier: Apache-2.0
//
// The send queue on its own: reserve, write, hand over, ring, wait. kPostedBeforeRing,
// kRecordBeforeSecondDoorbell, kDoneBeforeReuse, kReadyBeforeWanted.
//
// The fake NIC complains of everything a real one would trip over: a doorbell record that goes
// back, a slot whose WQE has another index, a WQE half announced.
#include "device/nic/send_queue.h"

#include <numeric>
#include <thread>
#include <vector>

#include "device/mlx5/nic.h"
#include "gtest/gtest.h"
#include "tests/support/device_rig.h"

namespace peal::nic {
namespace {

using testing::kMillisecond;
using testing::NicThread;
using testing::QueueRig;
using testing::RigOptions;

struct StopWord {
  uint32_t stop = 0;
};

class Queue : public StopWord, public QueueRig {
 public:
  explicit Queue(const RigOptions& options = {}) : QueueRig(options, 1, 7, &stop) {}
};

constexpr Remote kNowhere{0x1000, mlx5::key(1)};

template <class Request>
void write(const SendQueue& q, uint64_t index, const Request& request) {
  Model::write(q.nic, q.mask, index, request, true);
}

/// A NOP with a completion, all three steps.
template <Reach R>
Status post_nop(SendQueue& q) {
  uint64_t at = 0;
  Status status = reserve<R>(q, 1, &at);
  if (status != Status::kOk) return status;
  write(q, at, mlx5::Nop{});
  hand_over<R, true>(q, {.first = at, .blocks = 1, .last = at});
  return status;
}

/// An inline put of `value`: one block.
template <Reach R>
Status post_value(SendQueue& q, uint32_t value, uint64_t* at) {
  const Status status = reserve<R>(q, 1, at);
  if (status != Status::kOk) return status;
  const uint32_t payload[3] = {value, 0, 0};
  write(q, *at, write_inline(kNowhere, payload, 4));
  hand_over<R, true>(q, {.first = *at, .blocks = 1, .last = *at});
  return Status::kOk;
}

/// A masked swap, which takes two blocks, reserved and published.
template <Reach R>
uint64_t post_two_blocks(SendQueue& q) {
  uint64_t at = 0;
  EXPECT_EQ(reserve<R>(q, 2, &at), Status::kOk);
  write(q, at, Atomic<Update::kSwap, uint64_t>{kNowhere, {0x99, mlx5::key(0x5555)}, 3});
  publish<R>(q, {.first = at, .blocks = 2, .last = at});
  return at;
}

template <class R>
class SendQueueOf : public ::testing::Test {};
struct Owned {
  static constexpr Reach kReach = Reach::kLane;
};
struct OfBlock {
  static constexpr Reach kReach = Reach::kBlock;
};
struct OfGpu {
  static constexpr Reach kReach = Reach::kGpu;
};
using Reaches = ::testing::Types<Owned, OfBlock, OfGpu>;
TYPED_TEST_SUITE(SendQueueOf, Reaches);

TYPED_TEST(SendQueueOf, ReservesConsecutiveBlocks) {
  Queue queue({.start = 40});
  uint64_t at = 0;
  for (const uint64_t expected : {40u, 43u, 46u}) {
    EXPECT_EQ(reserve<TypeParam::kReach>(queue.queue, 3, &at), Status::kOk);
    EXPECT_EQ(at, expected);
  }
}

TYPED_TEST(SendQueueOf, TellsTheNicNothingBeforeTheRing) {
  constexpr Reach kReach = TypeParam::kReach;
  Queue queue;
  uint64_t at = 0;
  ASSERT_EQ(reserve<kReach>(queue.queue, 1, &at), Status::kOk);
  write(queue.queue, at, mlx5::Nop{});
  publish<kReach>(queue.queue, {.first = at, .blocks = 1, .last = at});
  EXPECT_EQ(queue.record(), 0u);
  EXPECT_EQ(queue.doorbell, 0u);
  ring<kReach>(queue.queue);
  EXPECT_EQ(queue.record(), 1u);
  EXPECT_EQ(testing::hex(&queue.doorbell, 8), "00000100 abc00700");
}

TYPED_TEST(SendQueueOf, PublishingNamesTheLastWqeOfTheBatch) {
  Queue queue;
  uint64_t at = 0;
  ASSERT_EQ(reserve<TypeParam::kReach>(queue.queue, 5, &at), Status::kOk);
  publish<TypeParam::kReach>(queue.queue, {.first = 0, .blocks = 5, .last = 3});
  EXPECT_EQ(posted_end(queue.queue.posted), 5u);
  EXPECT_EQ(posted_last(queue.queue.posted), 3u);
}

TYPED_TEST(SendQueueOf, AWqeOfTwoBlocksContinuesAtBlockZero) {
  constexpr Reach kReach = TypeParam::kReach;
  Queue queue({.start = 127});
  const uint64_t at = post_two_blocks<kReach>(queue.queue);
  ring<kReach>(queue.queue);
  EXPECT_EQ(at, 127u);
  EXPECT_EQ(queue.nic().step(), 1u);
  EXPECT_EQ(testing::hex(queue.queue.nic.block(0, queue.queue.mask), 16),
            "00000008 00005555 00000000 00000099");
  EXPECT_EQ(testing::hex(queue.queue.nic.block(127, queue.queue.mask), 16),
            "09007f14 abc00705 00000008 00000000");
  EXPECT_EQ(wait_completed<kReach>(queue.queue, at), Status::kOk);
  EXPECT_EQ(queue.nic().complaints(), "");
}

TYPED_TEST(SendQueueOf, AFullQueueWaitsForTheNic) {
  constexpr Reach kReach = TypeParam::kReach;
  Queue queue;
  for (int i = 0; i < 128; ++i) ASSERT_EQ(post_nop<kReach>(queue.queue), Status::kOk);
  EXPECT_EQ(queue.nic().step(1), 1u);  // room for one
  EXPECT_EQ(post_nop<kReach>(queue.queue), Status::kOk);
  NicThread nic(queue);
  for (int i = 0; i < 1000; ++i) ASSERT_EQ(post_nop<kReach>(queue.queue), Status::kOk);
  EXPECT_EQ(drain<kReach>(queue.queue), Status::kOk);
  EXPECT_EQ(queue.queue.completed, 1129u);
}

TYPED_TEST(SendQueueOf, AFullQueueRingsBeforeItWaitsForItself) {
  constexpr Reach kReach = TypeParam::kReach;
  Queue queue;
  for (int i = 0; i < 64; ++i) post_two_blocks<kReach>(queue.queue);
  EXPECT_EQ(queue.record(), 0u);  // all published, nothing rung
  NicThread nic(queue);
  EXPECT_EQ(post_nop<kReach>(queue.queue), Status::kOk);
  EXPECT_EQ(drain<kReach>(queue.queue), Status::kOk);
}

TYPED_TEST(SendQueueOf, ADeadNicTimesOutAndClosesTheQueue) {
  constexpr Reach kReach = TypeParam::kReach;
  Queue queue({.timeout_ns = 2 * kMillisecond});
  for (int i = 0; i < 128; ++i) ASSERT_EQ(post_nop<kReach>(queue.queue), Status::kOk);
  EXPECT_EQ(post_nop<kReach>(queue.queue), Status::kTimeout);
  EXPECT_EQ(queue_status<kReach>(queue.queue), Status::kTimeout);
  EXPECT_EQ(queue.record(), 128u);  // what did not fit was never announced
  queue.nic().step();
  EXPECT_EQ(post_nop<kReach>(queue.queue), Status::kTimeout) << "a closed queue takes nothing more";
}

TYPED_TEST(SendQueueOf, ABrokenQueueRefusesWork) {
  constexpr Reach kReach = TypeParam::kReach;
  Queue queue;
  queue.nic().fail(1, mlx5::Syndrome::kRemoteAccess, 0x88);
  for (int i = 0; i < 4; ++i) ASSERT_EQ(post_nop<kReach>(queue.queue), Status::kOk);
  queue.nic().step(2);
  EXPECT_EQ(wait_completed<kReach>(queue.queue, 3), Status::kQueueError);
  EXPECT_EQ(queue.queue.error.wqe_index, 1u);
  queue.nic().step();
  EXPECT_EQ(post_nop<kReach>(queue.queue), Status::kQueueError);
  EXPECT_EQ(drain<kReach>(queue.queue), Status::kQueueError);
  EXPECT_EQ(queue.queue.error.syndrome, 0x13) << "the flush that followed is not the cause";
  EXPECT_EQ(queue.queue.error.vendor_syndrome, 0x88);
}

TYPED_TEST(SendQueueOf, TheStopWordEndsAWaitForRoom) {
  constexpr Reach kReach = TypeParam::kReach;
  Queue queue;
  for (int i = 0; i < 128; ++i) ASSERT_EQ(post_nop<kReach>(queue.queue), Status::kOk);
  queue.stop = static_cast<uint32_t>(Status::kPeerLost);
  EXPECT_EQ(post_nop<kReach>(queue.queue), Status::kPeerLost);
  EXPECT_EQ(queue_status<kReach>(queue.queue), Status::kPeerLost);
}

TYPED_TEST(SendQueueOf, TheStopWordEndsAWaitForCompletion) {
  constexpr Reach kReach = TypeParam::kReach;
  Queue queue;
  ASSERT_EQ(post_nop<kReach>(queue.queue), Status::kOk);
  queue.stop = static_cast<uint32_t>(Status::kAborted);
  EXPECT_EQ(wait_completed<kReach>(queue.queue, 0), Status::kAborted);
  EXPECT_EQ(drain<kReach>(queue.queue), Status::kAborted);
}

TYPED_TEST(SendQueueOf, AWaitThatTimedOutMayBeRepeated) {
  constexpr Reach kReach = TypeParam::kReach;
  Queue queue({.timeout_ns = kMillisecond});
  ASSERT_EQ(post_nop<kReach>(queue.queue), Status::kOk);
  EXPECT_EQ(wait_completed<kReach>(queue.queue, 0), Status::kTimeout);
  EXPECT_EQ(drain<kReach>(queue.queue), Status::kTimeout);
  EXPECT_EQ(queue_status<kReach>(queue.queue), Status::kOk);
  queue.nic().step();
  EXPECT_EQ(wait_completed<kReach>(queue.queue, 0), Status::kOk);
}

TYPED_TEST(SendQueueOf, DrainingAnUnusedQueueReturnsAtOnce) {
  for (const uint64_t start : {uint64_t{0}, uint64_t{5}, uint64_t{1} << 32}) {
    Queue queue({.start = start, .timeout_ns = kMillisecond});
    EXPECT_EQ(drain<TypeParam::kReach>(queue.queue), Status::kOk);
  }
}

TYPED_TEST(SendQueueOf, DrainingWaitsForALastWqeOfTwoBlocks) {
  constexpr Reach kReach = TypeParam::kReach;
  Queue queue({.timeout_ns = kMillisecond});
  ASSERT_EQ(post_nop<kReach>(queue.queue), Status::kOk);
  post_two_blocks<kReach>(queue.queue);
  ring<kReach>(queue.queue);
  queue.nic().step(1);
  EXPECT_EQ(drain<kReach>(queue.queue), Status::kTimeout);
  queue.nic().step();
  EXPECT_EQ(drain<kReach>(queue.queue), Status::kOk);
}

TYPED_TEST(SendQueueOf, DrainingReportsAnErrorThatIsKnown) {
  Queue queue;
  latch_error<TypeParam::kReach>(queue.queue, Status::kPeerLost, {});
  EXPECT_EQ(drain<TypeParam::kReach>(queue.queue), Status::kPeerLost);
}

TYPED_TEST(SendQueueOf, WorkFinishedBeforeAnErrorStaysFinished) {
  constexpr Reach kReach = TypeParam::kReach;
  Queue queue;
  queue.nic().fail(1, mlx5::Syndrome::kRemoteAccess, 0);
  ASSERT_EQ(post_nop<kReach>(queue.queue), Status::kOk);
  ASSERT_EQ(post_nop<kReach>(queue.queue), Status::kOk);
  queue.nic().step(1);
  poll<kReach>(queue.queue);
  queue.nic().step();
  poll<kReach>(queue.queue);
  EXPECT_EQ(wait_completed<kReach>(queue.queue, 0), Status::kOk);
  EXPECT_EQ(wait_completed<kReach>(queue.queue, 1), Status::kQueueError);
}

class SendQueueWrap : public ::testing::TestWithParam<uint64_t> {
 protected:
  /// Posts WQEs of one and two blocks for several rounds of the ring.
  template <Reach R>
  static void run() {
    const uint64_t start = GetParam();
    Queue queue({.start = start});
    for (int i = 0; i < 400; ++i) {
      ASSERT_EQ(post_nop<R>(queue.queue), Status::kOk);
      const uint64_t at = post_two_blocks<R>(queue.queue);
      ring<R>(queue.queue);
      EXPECT_EQ(queue.record(), (at + 2) & 0xffff);
      EXPECT_EQ(queue.nic().step(), 2u);
      ASSERT_EQ(wait_completed<R>(queue.queue, at), Status::kOk);
      ASSERT_EQ(queue.queue.completed, at + 1);
    }
    EXPECT_EQ(queue.nic().complaints(), "");
    EXPECT_EQ(queue.nic().seen().back().wire_index(), (start + 1198) & 0xffff);
  }
};

TEST_P(SendQueueWrap, IndicesRunOnInAnOwnedQueue) { run<Reach::kLane>(); }
TEST_P(SendQueueWrap, IndicesRunOnInASharedQueue) { run<Reach::kGpu>(); }

INSTANTIATE_TEST_SUITE_P(Starts, SendQueueWrap,
                         ::testing::Values(0, 0xfffd, 0xffff, 0xfffffffd, 0xffffffff, 0x1ffffff01));

// ---- many lanes

struct Work {
  SendQueue* q;
  uint32_t posts;
  uint32_t* failures;
};

template <Reach R>
PEAL_KERNEL post_values(Work work) {
  const uint32_t me = block_in_grid() * threads_in_block() + thread_in_block();
  for (uint32_t i = 0; i < work.posts; ++i) {
    uint64_t at = 0;
    Status status = post_value<R>(*work.q, me * work.posts + i, &at);
    if (status == Status::kOk && i % 4 == 3) status = wait_completed<R>(*work.q, at);
    if (status != Status::kOk) atomicAdd(work.failures, 1u);
  }
}

/// The values of inline puts, in the order in which the NIC saw them.
std::vector<uint32_t> values(const testing::FakeNic& nic) {
  std::vector<uint32_t> all;
  for (const testing::SeenWqe& wqe : nic.seen()) {
    uint32_t value;
    std::memcpy(&value, &wqe.bytes[36], sizeof value);
    all.push_back(value);
  }
  return all;
}

template <Reach R>
void expect_every_value_once(const Grid& grid, uint64_t start) {
  Queue queue({.start = start});
  const auto lanes = static_cast<uint32_t>(grid.blocks.x * grid.threads.x);
  constexpr uint32_t kPosts = 20;
  uint32_t failures = 0;
  {
    NicThread nic(queue);
    launch(grid, post_values<R>, Work{&queue.queue, kPosts, &failures}).wait();
    EXPECT_EQ(drain<R>(queue.queue), Status::kOk);
  }
  EXPECT_EQ(failures, 0u);
  EXPECT_EQ(queue.nic().complaints(), "");
  std::vector<uint32_t> next(lanes, 0);
  for (const uint32_t value : values(queue.nic())) {
    ASSERT_EQ(value % kPosts, next[value / kPosts]++) << "lane " << value / kPosts;
  }
  EXPECT_EQ(std::accumulate(next.begin(), next.end(), 0u), lanes * kPosts);
}

TEST(SendQueue, LanesOfAGridShareIt) {
  expect_every_value_once<Reach::kGpu>({.blocks = 4, .threads = 48}, 0);
}
TEST(SendQueue, LanesOfAGridShareItOver16Bits) {
  expect_every_value_once<Reach::kGpu>({.blocks = 4, .threads = 48}, 0xff80);
}
TEST(SendQueue, LanesOfAGridShareItOver32Bits) {
  expect_every_value_once<Reach::kGpu>({.blocks = 3, .threads = 32}, 0xffffff80);
}
TEST(SendQueue, LanesOfABlockShareIt) {
  expect_every_value_once<Reach::kBlock>({.blocks = 1, .threads = 160}, 0xffff);
}
TEST(SendQueue, OneLaneOwnsIt) {
  expect_every_value_once<Reach::kLane>({.blocks = 1, .threads = 1}, 0xfffe);
}

struct Overtaking {
  SendQueue* q;
  uint32_t told_early;
  Status status[2];
};

PEAL_KERNEL overtake(Overtaking* out) {
  const uint32_t me = thread_in_block();
  SendQueue& q = *out->q;
  uint64_t at = 0;
  if (me == 0) out->status[0] = reserve<Reach::kGpu>(q, 1, &at);
  __syncthreads();
  if (me == 1) {
    out->status[1] = post_nop<Reach::kGpu>(q);
    out->told_early = q.nic.doorbell_record->send.host();
  }
  __syncthreads();  // the other has posted, and gone on
  if (me == 0) {
    write(q, at, mlx5::Nop{});
    hand_over<Reach::kGpu, true>(q, {.first = at, .blocks = 1, .last = at});
  }
}

TEST(SendQueue, NobodyWaitsForThoseAheadAndTheyRingForAll) {
  Queue queue;
  Overtaking out{&queue.queue, 99, {Status::kCount, Status::kCount}};
  launch({.blocks = 1, .threads = 2}, overtake, &out).wait();
  EXPECT_EQ(out.told_early, 0u) << "the NIC would execute what nobody has written";
  EXPECT_EQ(out.status[0], Status::kOk);
  EXPECT_EQ(out.status[1], Status::kOk);
  EXPECT_EQ(queue.record(), 2u);
  EXPECT_EQ(queue.queue.posted, posted_word(2, 1)) << "and nothing is left to do";
}

// A reservation that is handed over late, or never.
class SendQueueHole : public ::testing::Test {
 protected:
  uint64_t post_behind_hole(Queue& queue) {
    uint64_t hole = 0;
    EXPECT_EQ(reserve<Reach::kGpu>(queue.queue, 1, &hole), Status::kOk);
    EXPECT_EQ(post_nop<Reach::kGpu>(queue.queue), Status::kOk);
    return hole;
  }
  /// The hole filled without a doorbell, as a batch does.
  void fill_hole(Queue& queue, uint64_t hole) {
    write(queue.queue, hole, mlx5::Nop{});
    publish<Reach::kGpu>(queue.queue, {.first = hole, .blocks = 1, .last = hole});
  }
};

TEST_F(SendQueueHole, QuietWaitsForIt) {
  Queue queue({.timeout_ns = kMillisecond});
  const uint64_t hole = post_behind_hole(queue);
  EXPECT_EQ(queue.record(), 0u);
  EXPECT_EQ(drain<Reach::kGpu>(queue.queue), Status::kTimeout);
  EXPECT_EQ(queue_status<Reach::kGpu>(queue.queue), Status::kOk) << "the wait may be repeated";
  fill_hole(queue, hole);
  queue.nic().step();
  EXPECT_EQ(drain<Reach::kGpu>(queue.queue), Status::kOk);
  EXPECT_EQ(queue.nic().complaints(), "");
}

// Else what is posted behind an open batch's request waits for as long as the batch is open.
TEST_F(SendQueueHole, WhoFillsItRingsForThoseBehindEvenInABatch) {
  Queue queue;
  fill_hole(queue, post_behind_hole(queue));
  EXPECT_EQ(queue.record(), 2u);
}

TEST_F(SendQueueHole, EndsWithTheStopWord) {
  Queue queue;
  post_behind_hole(queue);
  queue.stop = static_cast<uint32_t>(Status::kAborted);
  EXPECT_EQ(drain<Reach::kGpu>(queue.queue), Status::kAborted);
}

TEST_F(SendQueueHole, EndsWithTheQueuesOwnError) {
  Queue queue;
  post_behind_hole(queue);
  latch_error<Reach::kGpu>(queue.queue, Status::kQueueError, {});
  EXPECT_EQ(drain<Reach::kGpu>(queue.queue), Status::kQueueError);
}

TEST(SendQueue, RingingWithNothingNewTouchesNoRegister) {
  Queue queue;
  ASSERT_EQ(post_nop<Reach::kGpu>(queue.queue), Status::kOk);
  queue.doorbell = 0;
  ring<Reach::kGpu>(queue.queue);
  EXPECT_EQ(queue.doorbell, 0u);
  EXPECT_EQ(queue.queue.posted, posted_word(1, 1));
}

TEST(SendQueue, WhoFindsSomebodyRingingLeavesAndIsRungFor) {
  Queue queue;
  queue.queue.posted |= kRinging;
  uint64_t at = 0;
  ASSERT_EQ(post_nop<Reach::kGpu>(queue.queue), Status::kOk);
  EXPECT_EQ(reserve<Reach::kGpu>(queue.queue, 3, &at), Status::kOk);
  hand_over<Reach::kGpu, true>(queue.queue, {.first = at, .blocks = 3, .last = at + 1});
  EXPECT_EQ(queue.record(), 0u) << "who has the word rings, not we";
  EXPECT_EQ(queue.queue.posted, posted_word(0, 1) | kRinging | kWanted);
  ring_for_all<Reach::kGpu>(queue.queue, posted_word(0, 1));
  EXPECT_EQ(queue.record(), 4u);
  EXPECT_EQ(queue.queue.posted, posted_word(4, 2));
}

// Each thread waits for its own WQE before the next, so one lost doorbell stops everything.
TEST(SendQueue, CombiningRingersLoseNoDoorbell) {
  Queue queue({.timeout_ns = 20 * testing::kSecond});
  constexpr int kThreads = 4;
  constexpr int kPosts = 500;
  std::atomic<int> failures{0};
  {
    NicThread nic(queue);
    std::vector<std::thread> ringers;
    for (int t = 0; t < kThreads; ++t) {
      ringers.emplace_back([&] {
        for (int i = 0; i < kPosts; ++i) {
          uint64_t at = 0;
          const bool ok = post_value<Reach::kGpu>(queue.queue, 1, &at) == Status::kOk &&
                          wait_completed<Reach::kGpu>(queue.queue, at) == Status::kOk;
          if (!ok) failures.fetch_add(1);
        }
      });
    }
    for (std::thread& ringer : ringers) ringer.join();
  }
  EXPECT_EQ(failures.load(), 0);
  EXPECT_EQ(queue.nic().seen().size(), size_t{kThreads * kPosts});
  EXPECT_EQ(queue.nic().complaints(), "");
}

}  // namespace
}  // namespace peal::nic
