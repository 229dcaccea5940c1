// SPDX-License-Identifier: Apache-2.0
//
// The protocol of queues over a model of NICs that has nothing of an mlx5
// (tests/support/toy_nic.h): what holds there holds by the protocol, and is no property of one NIC.
#include "tests/support/toy_nic.h"

#include <array>
#include <cstring>
#include <memory>
#include <thread>
#include <vector>

#include "device/base/launch.h"
#include "device/nic/post.h"
#include "gtest/gtest.h"

namespace peal::testing {
namespace {

constexpr auto kReach = Reach::kGpu;
constexpr uint64_t kSecond = 1'000'000'000, kMillisecond = 1'000'000;
constexpr NicKey kThere{0x1000}, kHere{0x2000}, kCells{0x3000}, kNobodys{0x4000};

struct Options {
  uint32_t depth = 64;
  uint64_t start = 0;
  uint64_t timeout_ns = 60 * kSecond;
};

/// One queue, the memories at both of its ends, and the NIC.
struct Toy {
  explicit Toy(const Options& options = {})
      : blocks(options.depth),
        ready(options.depth),
        nic(blocks.data(), options.depth, options.start) {
    queue.nic = {blocks.data(), nic.reg(), nic.complete(), nic.syndrome()};
    queue.mask = options.depth - 1;
    queue.landing = cells.data();
    queue.landing_key = kCells;
    queue.stop = &stop;
    queue.peer = 1;
    queue.timeout_ns = options.timeout_ns;
    queue.reserved = queue.rung = queue.completed = queue.settled = options.start;
    queue.posted = posted_word(options.start, 1);
    queue.ready = ready.data();
    nic.know(kThere, there.data());
    nic.know(kHere, here.data());
    nic.know(kCells, cells.data());
    for (size_t i = 0; i < here.size(); ++i) here[i] = 0x100 + i;
  }
  nic::Remote remote(size_t word) const { return {8 * word, kThere}; }
  nic::Local local(size_t word) const { return {8 * word, kHere}; }
  template <class... Requests>
  BasicTicket<ToyQueue> post(const Requests&... requests) {
    return nic::post<kReach>(queue, nic::Alone{}, requests...);
  }

  std::vector<ToyBlock> blocks;
  std::vector<uint32_t> ready;
  ToyNic nic;
  ToyQueue queue{};
  uint32_t stop = 0;
  std::array<uint64_t, 64> there{}, here{};
  std::array<LandingCell, kLandingCells + 1> cells{};
};

/// Drives the NIC while a test waits.
class Driven {
 public:
  explicit Driven(Toy& toy)
      : thread_([this, &toy] {
          while (!done_.load(std::memory_order_relaxed)) {
            if (toy.nic.step() == 0) std::this_thread::yield();
          }
        }) {}
  ~Driven() {
    done_ = true;
    thread_.join();
  }

 private:
  std::atomic<bool> done_{false};
  std::thread thread_;
};

TEST(ToyNic, PutsWhatIsInMemoryInlineAndInAWord) {
  Toy toy;
  const uint32_t words[7] = {1, 2, 3, 4, 5, 6, 7};
  const auto ticket = toy.post(nic::Write{toy.remote(0), toy.local(4), 32},
                               nic::write_inline(toy.remote(8), words, 28),
                               nic::WriteWord<8>{toy.remote(16), 0xfeed});
  EXPECT_EQ(toy.nic.step(), 3u);
  EXPECT_EQ(nic::wait<kReach>(ticket), Status::kOk);
  EXPECT_EQ(std::memcmp(&toy.there[0], &toy.here[4], 32), 0);
  EXPECT_EQ(std::memcmp(&toy.there[8], words, 28), 0);
  EXPECT_EQ(toy.there[16], 0xfeedu);
}

TEST(ToyNic, GetsIntoMemoryAndIntoALandingCell) {
  Toy toy;
  toy.there[3] = 33;
  toy.there[4] = 44;
  const Driven driven(toy);
  EXPECT_EQ(nic::wait<kReach>(toy.post(nic::Read{toy.remote(3), toy.local(0), 16})), Status::kOk);
  EXPECT_EQ(toy.here[0], 33u);
  EXPECT_EQ(toy.here[1], 44u);
  for (uint32_t lap = 0; lap < 3 * kLandingCells; ++lap) {
    Status status = Status::kOk;
    const auto cell = nic::take_landing<kReach>(toy.queue, &status);
    ASSERT_EQ(status, Status::kOk);
    const auto ticket = toy.post(nic::ReadWord<8>{toy.remote(4), cell.local()});
    ASSERT_EQ(nic::wait<kReach>(ticket), Status::kOk);
    ASSERT_EQ(cell.value(), 44u);
    cell.give_back<kReach>();
  }
}

TEST(ToyNic, ACellThatNobodyGaveBackIsWaitedForInVain) {
  Toy toy({.timeout_ns = kMillisecond});
  nic::take_tickets<kReach>(toy.queue, kLandingCells);
  Status status = Status::kOk;
  nic::take_landing<kReach>(toy.queue, &status);
  EXPECT_EQ(status, Status::kTimeout);
  EXPECT_EQ(queue_status<kReach>(toy.queue), Status::kTimeout) << "the cell's place is lost";
}

template <Update U, class W>
void expect_update(W value, W becomes) {
  Toy toy;
  constexpr W kBefore = 0b1100;
  std::memcpy(&toy.there[1], &kBefore, sizeof(W));
  const auto ticket = toy.post(nic::Atomic<U, W>{toy.remote(1), toy.local(2), value});
  EXPECT_EQ(toy.nic.step(), 1u);
  EXPECT_EQ(nic::wait<kReach>(ticket), Status::kOk);
  W now = 0;
  std::memcpy(&now, &toy.there[1], sizeof(W));
  EXPECT_EQ(now, becomes);
  EXPECT_EQ(ToyModel::fetched<W>(toy.here[2]), kBefore);
}

TEST(ToyNic, DoesEachAtomicOnWordsOf4And8Bytes) {
  expect_update<Update::kAdd, uint32_t>(5, 0b1100 + 5);
  expect_update<Update::kAdd, uint64_t>(5, 0b1100 + 5);
  expect_update<Update::kAnd, uint32_t>(0b0110, 0b0100);
  expect_update<Update::kOr, uint64_t>(0b0011, 0b1111);
  expect_update<Update::kXor, uint32_t>(0b0110, 0b1010);
  expect_update<Update::kSwap, uint64_t>(7, 7);
}

TEST(ToyNic, SwapsIfTheWordIsAsSaid) {
  Toy toy;
  toy.there[1] = 5;
  toy.post(nic::CompareSwap<uint64_t>{toy.remote(1), toy.local(0), 4, 9});
  toy.nic.step();
  EXPECT_EQ(toy.there[1], 5u);
  toy.post(nic::CompareSwap<uint64_t>{toy.remote(1), toy.local(1), 5, 9});
  toy.nic.step();
  EXPECT_EQ(toy.there[1], 9u);
  EXPECT_EQ(toy.here[0], 5u);
  EXPECT_EQ(toy.here[1], 5u);
}

TEST(ToyNic, ValuesThatNobodyWantsLandInTheSink) {
  Toy toy;
  using Add = nic::Atomic<Update::kAdd, uint64_t, nic::Nowhere>;
  toy.there[1] = 40;
  const auto ticket = toy.post(Add{toy.remote(1), {}, 2});
  toy.nic.step();
  EXPECT_EQ(nic::wait<kReach>(ticket), Status::kOk);
  EXPECT_EQ(toy.there[1], 42u);
  EXPECT_EQ(toy.cells[kLandingCells].value, 40u);
}

TEST(ToyNic, AFenceComesWithItsRequest) {
  Toy toy;
  using Set = nic::Atomic<Update::kSwap, uint64_t, nic::Nowhere>;
  toy.post(nic::Fenced<nic::Dump>{nic::RequestFence::kFetches, {toy.local(0), 1}},
           nic::Fenced<Set>{nic::RequestFence::kAll, {toy.remote(0), {}, 1}});
  toy.nic.step();
  ASSERT_EQ(toy.nic.done().size(), 2u);
  EXPECT_EQ(toy.nic.done()[0].fence(), nic::RequestFence::kFetches);
  EXPECT_EQ(toy.nic.done()[1].fence(), nic::RequestFence::kAll);
}

TEST(ToyNic, OnlyTheLastRequestOfAPostReports) {
  Toy toy;
  for (uint64_t i = 0; i < 3; ++i) {
    toy.post(nic::WriteWord<8>{toy.remote(0), i}, nic::WriteWord<8>{toy.remote(1), i});
  }
  toy.nic.step();
  std::vector<bool> reports;
  for (const ToyNic::Done& done : toy.nic.done()) reports.push_back(done.reports());
  EXPECT_EQ(reports, (std::vector<bool>{false, true, false, true, false, true}));
}

TEST(ToyNic, AFullQueueRingsAndWaitsForRoom) {
  Toy toy({.depth = 8});
  for (uint64_t i = 0; i < 8; ++i) {
    nic::post<kReach, nic::Rings::kLater>(toy.queue, nic::Alone{},
                                          nic::WriteWord<8>{toy.remote(i), i + 1});
  }
  EXPECT_EQ(toy.nic.step(), 0u) << "nothing was rung";
  {
    const Driven driven(toy);
    EXPECT_EQ(nic::wait<kReach>(toy.post(nic::WriteWord<8>{toy.remote(8), 9})), Status::kOk);
  }
  for (uint64_t i = 0; i <= 8; ++i) EXPECT_EQ(toy.there[i], i + 1);
}

TEST(ToyNic, AFullQueueWhoseNicStandsStillIsClosed) {
  Toy toy({.depth = 8, .timeout_ns = kMillisecond});
  for (int i = 0; i < 8; ++i) toy.post(nic::WriteWord<8>{toy.remote(0), 1});
  EXPECT_EQ(toy.post(nic::WriteWord<8>{toy.remote(0), 1}).status, Status::kTimeout);
  toy.nic.step();
  EXPECT_EQ(toy.post(nic::WriteWord<8>{toy.remote(0), 1}).status, Status::kTimeout);
}

// Two blocks from the last one of the ring on, and round it many times.
TEST(ToyNic, RequestsGoRoundTheEndOfTheRing) {
  Toy toy({.depth = 8, .start = 7});
  const Driven driven(toy);
  const uint32_t words[3] = {11, 22, 33};
  for (uint64_t i = 1; i <= 100; ++i) {
    const auto put = nic::write_inline(toy.remote(0), words, 12);
    ASSERT_EQ(nic::wait<kReach>(toy.post(put, nic::WriteWord<8>{toy.remote(2), i})), Status::kOk);
    ASSERT_EQ(toy.there[2], i);
  }
  EXPECT_EQ(std::memcmp(&toy.there[0], words, 12), 0);
  EXPECT_EQ(posted_end(toy.queue.posted), 7u + 300u);
}

TEST(ToyNic, TheFirstErrorIsLatchedAndEndsEveryWait) {
  Toy toy;
  uint32_t alarm = 0;
  toy.queue.alarm = &alarm;
  const auto good = toy.post(nic::WriteWord<8>{toy.remote(0), 1});
  const auto bad = toy.post(nic::WriteWord<8>{{0, kNobodys}, 2});
  const auto behind = toy.post(nic::WriteWord<8>{toy.remote(1), 3});
  toy.nic.step(1);
  EXPECT_EQ(nic::wait<kReach>(good), Status::kOk);
  toy.nic.step();
  EXPECT_EQ(nic::wait<kReach>(behind), Status::kQueueError);
  EXPECT_EQ(nic::wait<kReach>(bad), Status::kQueueError);
  EXPECT_TRUE(nic::test<kReach>(behind));
  EXPECT_EQ(toy.queue.error.wqe_index, 1u);
  EXPECT_EQ(alarm, 1u);
  EXPECT_EQ(toy.there[1], 0u);
  EXPECT_EQ(toy.post(nic::WriteWord<8>{toy.remote(0), 1}).status, Status::kQueueError);
}

TEST(ToyNic, ABatchIsRungOnceForAll) {
  Toy toy;
  BasicTicket<ToyQueue> last{};
  for (uint64_t i = 0; i < 5; ++i) {
    last = nic::post<kReach, nic::Rings::kLater>(toy.queue, nic::Alone{},
                                                 nic::WriteWord<8>{toy.remote(i), i + 1});
  }
  EXPECT_EQ(toy.nic.step(), 0u);
  nic::ring_held_back<kReach, Edge::kBatchBeforeRing>(toy.queue);
  EXPECT_EQ(toy.nic.step(), 5u);
  EXPECT_EQ(nic::wait<kReach>(last), Status::kOk);
  EXPECT_EQ(nic::drain<kReach>(toy.queue), Status::kOk);
}

TEST(ToyNic, DrainingWaitsForAllThatWasPosted) {
  Toy toy({.timeout_ns = kMillisecond});
  toy.post(nic::WriteWord<8>{toy.remote(0), 1});
  toy.post(nic::WriteWord<8>{toy.remote(1), 2});
  toy.nic.step(1);
  EXPECT_EQ(nic::drain<kReach>(toy.queue), Status::kTimeout) << "a wait that may be repeated";
  toy.nic.step();
  EXPECT_EQ(nic::drain<kReach>(toy.queue), Status::kOk);
}

TEST(ToyNic, ADrainedQueueLosesItsMarkAndTheNextPostSetsIt) {
  Toy toy;
  uint64_t marks = 4;
  toy.queue.marks = &marks;
  toy.queue.mark_bit = 4;
  toy.post(nic::WriteWord<8>{toy.remote(0), 1});
  nic::unmark<kReach>(toy.queue, false);
  EXPECT_EQ(marks, 4u) << "it is under way";
  toy.nic.step();
  nic::poll<kReach>(toy.queue);
  nic::unmark<kReach>(toy.queue, false);
  EXPECT_EQ(marks, 0u);
  toy.post(nic::WriteWord<8>{toy.remote(0), 2});
  EXPECT_EQ(marks, 4u);
}

constexpr uint32_t kLanes = 32, kRounds = 8;

PEAL_KERNEL add_by_lanes(ToyQueue* queue, Status* answers) {
  using Add = nic::Atomic<Update::kAdd, uint64_t, nic::Nowhere>;
  const uint32_t lane = thread_in_block();
  Status status = Status::kOk;
  for (uint32_t i = 0; i < kRounds && status == Status::kOk; ++i) {
    const auto ticket = nic::post<kReach>(*queue, Coalesced(queue), Add{{0, kThere}, {}, 1},
                                          nic::WriteWord<8>{{8 + 8 * lane, kThere}, i + 1});
    status = nic::wait<kReach>(ticket);
  }
  answers[lane] = status;
}

TEST(ToyNic, LanesThatPostTogetherReserveAndRingOnce) {
  Toy toy({.depth = 128});
  const Driven driven(toy);
  std::array<Status, kLanes> answers{};
  launch({.blocks = 1, .threads = kLanes}, add_by_lanes, &toy.queue, answers.data()).wait();
  for (const Status status : answers) EXPECT_EQ(status, Status::kOk);
  EXPECT_EQ(toy.there[0], kLanes * kRounds);
  for (uint32_t lane = 0; lane < kLanes; ++lane) EXPECT_EQ(toy.there[1 + lane], kRounds);
}

}  // namespace
}  // namespace peal::testing
