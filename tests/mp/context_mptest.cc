// SPDX-License-Identifier: Apache-2.0
//
// Contexts with queues of their own: made and dropped, refused, worn through the 16-bit index, full
// of work, out of time.
#include <optional>
#include <vector>

#include "tests/support/error_of.h"
#include "tests/support/job.h"

namespace peal::api_test {
namespace {

void expect_refusal(const Error& error, const std::string& part) {
  expect_error(error, ErrorCode::kInvalidArgument, {part});
}

template <Reach R>
PEAL_KERNEL greet(Verdict* verdict, BasicContext<R> ctx, uint64_t* box, uint64_t word) {
  const int next = (my_pe(ctx) + 1) % n_pes(ctx);
  expect_ok(verdict, p(ctx, box, word, next));
  expect_ok(verdict, barrier_all(ctx));
  expect_eq(verdict, *box, word);
  expect_ok(verdict, sync_all(ctx));
}

TEST(Contexts, MadeAndDroppedManyTimesLeaveNothingBehind) {
  on_every_pe([](Runtime& pe) {
    Symmetric<uint64_t> box(pe, 1);
    const size_t before = pe.overhead_bytes();
    for (uint64_t round = 1; round <= 150; ++round) {
      const auto context = pe.make_context({.queues_per_peer = 1, .depth = 128});
      EXPECT_GT(pe.overhead_bytes(), before);
      run_clean(pe, {}, greet<Reach::kGpu>, context.value(), box.data(), round);
      pe.barrier();
    }
    EXPECT_EQ(pe.overhead_bytes(), before);
  });
}

TEST(Contexts, MoreThan64AtOnceAreRefusedAndOneDroppedMakesRoom) {
  on_every_pe([](Runtime& pe) {
    Symmetric<uint64_t> box(pe, 1);
    std::vector<OwnedContext<Reach::kGpu>> all;
    for (int i = 0; i < 63; ++i) all.push_back(pe.make_context({1, 128}));
    expect_refusal(error_of([&] { (void)pe.make_context({1, 128}); }), "64 contexts exist already");
    pe.barrier();
    all.erase(all.begin() + 17);
    pe.barrier();
    all.push_back(pe.make_context({1, 128}));
    run_clean(pe, {}, greet<Reach::kGpu>, all.back().value(), box.data(), uint64_t{7});
    run_clean(pe, {}, greet<Reach::kGpu>, all.front().value(), box.data(), uint64_t{8});
    pe.barrier();
  });
}

TEST(Contexts, ASlotIsTakenAsLongAsOnePeHoldsIt) {
  on_every_pe([](Runtime& pe) {
    Symmetric<uint64_t> box(pe, 1);
    std::optional<OwnedContext<Reach::kGpu>> held = pe.make_context({1, 128});
    if (pe.my_pe() != 0) held.reset();
    pe.barrier();
    const auto fresh = pe.make_context({1, 128});
    run_clean(pe, {}, greet<Reach::kGpu>, fresh.value(), box.data(), uint64_t{9});
    pe.barrier();
  });
}

TEST(Contexts, RefuseDepthsAndQueueCountsOutOfRange) {
  on_every_pe([](Runtime& pe) {
    for (const uint32_t depth : {1u, 64u, 100u, 129u, 32'768u, 0x80000000u}) {
      expect_refusal(error_of([&] { (void)pe.make_context({.depth = depth}); }),
                     fmt::format("queue depth {} must be a power of two from 128", depth));
      pe.barrier();
    }
    for (const uint32_t queues : {1025u, 0xffffffffu}) {
      expect_refusal(error_of([&] { (void)pe.make_context({.queues_per_peer = queues}); }),
                     fmt::format("{} queues per peer; 1 to 1024", queues));
      pe.barrier();
    }
    Symmetric<uint64_t> box(pe, 1);
    run_clean(pe, {}, greet<Reach::kGpu>, pe.context(), box.data(), uint64_t{5});
  });
}

TEST(Contexts, DifferentOptionsAreAnErrorOnAllPes) {
  on_every_pe([](Runtime& pe) {
    if (pe.n_pes() == 1) GTEST_SKIP() << "one PE agrees with itself";
    const ContextOptions queues{.queues_per_peer = pe.my_pe() == 1 ? 2u : 3u, .depth = 128};
    expect_refusal(error_of([&] { (void)pe.make_context(queues); }),
                   "PE 1 asks for 2 queues of depth 128, PE 0 for 3 of 128");
    const ContextOptions depth{.queues_per_peer = 1, .depth = pe.my_pe() == 1 ? 256u : 100u};
    expect_refusal(error_of([&] { (void)pe.make_context(depth); }),
                   "PE 1 asks for 1 queues of depth 256, PE 0 for 1 of 100");
    Symmetric<uint64_t> box(pe, 1);
    const auto context = pe.make_context({1, 128});
    run_clean(pe, {}, greet<Reach::kGpu>, context.value(), box.data(), uint64_t{5});
    pe.barrier();
  });
}

template <class Options>
void greet_with(const Options& options) {
  on_every_pe([&](Runtime& pe) {
    Symmetric<uint64_t> box(pe, 1);
    const auto context = pe.make_context<Reach::kBlock>(options);
    run_clean(pe, {}, greet<Reach::kBlock>, context.value(), box.data(), uint64_t{3});
    pe.barrier();
  });
}
TEST(Contexts, WorkWithTheDeepestQueue) {
  greet_with(ContextOptions{.queues_per_peer = 1, .depth = 16'384});
}
TEST(Contexts, WorkWithTheMostQueues) {
  greet_with(ContextOptions{.queues_per_peer = 64, .depth = 128});
}

// More work requests than 16 bits count, each checked at the peer.
template <Reach R>
PEAL_KERNEL wear_through(Verdict* verdict, BasicContext<R> ctx, uint32_t* slots, uint32_t mask,
                         uint32_t* sum, uint32_t puts) {
  const int next = (my_pe(ctx) + 1) % n_pes(ctx);
  const uint32_t lane = thread_in_block();
  const uint32_t lanes = threads_in_block();
  for (uint32_t i = lane; i < puts; i += lanes) {
    const Status status = p(ctx, slots + (i & mask), i + 1, next);
    expect_ok(verdict, status);
    if (status != Status::kOk) return;
    if (i % 16 == 0) expect_ok(verdict, atomic_inc(ctx, sum, next));
    if (i % 5000 == 0) {
      expect_eq(verdict, g(ctx, slots + (i & mask), next).value & mask, (i + 1) & mask);
    }
  }
  expect_ok(verdict, quiet(ctx));
}

template <Reach R>
void wear_a_queue_through(unsigned threads, uint32_t depth) {
  on_every_pe([=](Runtime& pe) {
    constexpr uint32_t kPuts = 75'000;
    constexpr uint32_t kMask = 0xfff;
    const auto context = pe.make_context<R>({.queues_per_peer = 1, .depth = depth});
    Symmetric<uint32_t> slots(pe, kMask + 1);
    Symmetric<uint32_t> sum(pe, 1);
    run_clean(pe, {.blocks = 1, .threads = threads}, wear_through<R>, context.value(), slots.data(),
              kMask, sum.data(), kPuts);
    pe.barrier();
    EXPECT_EQ(sum[0], (kPuts + 15) / 16);
    for (uint32_t slot = 0; slot <= kMask; ++slot) {
      // The last put to the slot; with several lanes, one of the last of each.
      const uint32_t last = (kPuts - 1 - slot) / (kMask + 1) * (kMask + 1) + slot + 1;
      ASSERT_EQ(slots[slot] % (kMask + 1), last % (kMask + 1));
      ASSERT_TRUE(threads > 1 || slots[slot] == last) << slots[slot] << " is not " << last;
    }
    pe.barrier();
  });
}
TEST(IndexWrap, OfAnExclusiveQueue) { wear_a_queue_through<Reach::kLane>(1, 128); }
TEST(IndexWrap, OfABlocksQueue) { wear_a_queue_through<Reach::kBlock>(1, 512); }
TEST(IndexWrap, OfASharedQueue) { wear_a_queue_through<Reach::kGpu>(1, 128); }
TEST(IndexWrap, OfASharedQueueThatAWarpFillsTogether) {
  wear_a_queue_through<Reach::kGpu>(32, 1024);
}

// A queue of the least depth, far more producers than slots.
PEAL_KERNEL crowd(Verdict* verdict, Context ctx, uint64_t* sum, uint64_t* slots, int times) {
  const int next = (my_pe(ctx) + 1) % n_pes(ctx);
  const size_t lane = block_in_grid() * threads_in_block() + thread_in_block();
  for (int i = 1; i <= times; ++i) {
    const auto value = lane * 1000 + static_cast<uint64_t>(i);
    expect_ok(verdict, atomic_add(ctx, sum, 1, next));
    expect_ok(verdict, put_signal(ctx, slots + lane, &value, 1, Signal::add(sum + 1, 1, next)));
  }
  expect_ok(verdict, quiet(ctx));
}

TEST(FullQueue, OfManyProducersLosesNothing) {
  on_every_pe([](Runtime& pe) {
    constexpr unsigned kBlocks = 8;
    constexpr unsigned kThreads = 64;
    constexpr int kTimes = 20;
    const auto context = pe.make_context({.queues_per_peer = 1, .depth = 128});
    Symmetric<uint64_t> sum(pe, 2);
    Symmetric<uint64_t> slots(pe, kBlocks * kThreads);
    run_clean(pe, {.blocks = kBlocks, .threads = kThreads}, crowd, context.value(), sum.data(),
              slots.data(), kTimes);
    pe.barrier();
    EXPECT_EQ(sum[0], uint64_t{kBlocks} * kThreads * kTimes);
    EXPECT_EQ(sum[1], uint64_t{kBlocks} * kThreads * kTimes);
    for (size_t i = 0; i < kBlocks * kThreads; ++i) ASSERT_EQ(slots[i], i * 1000 + kTimes);
    pe.barrier();
  });
}

PEAL_KERNEL wait_in_vain(Verdict* verdict, Context ctx, uint64_t* word, Status wanted) {
  expect_eq(verdict, static_cast<unsigned>(handled(ctx, wait_until(ctx, word, Compare::kEq, 99))),
            static_cast<unsigned>(wanted));
  const WaitAny any = wait_until_any(ctx, WaitSet<uint64_t>{word, 1}, Compare::kEq, 99);
  expect_eq(verdict, static_cast<unsigned>(handled(ctx, any.status)),
            static_cast<unsigned>(wanted));
  expect(verdict, any.index == kNone);
}

/// Block 1 waits for what block 0 sends once its own wait, on a hasty context, was in vain.
PEAL_KERNEL outlast(Verdict* verdict, Context hasty, Context patient, uint64_t* words) {
  if (block_in_grid() == 1) {
    expect_ok(verdict, wait_until(patient, words, Compare::kEq, 1));
  } else {
    expect_eq(verdict,
              static_cast<unsigned>(handled(hasty, wait_until(hasty, words, Compare::kEq, 99))),
              static_cast<unsigned>(Status::kTimeout));
    expect_ok(verdict, p(patient, words, uint64_t{1}, my_pe(patient)));
  }
}

/// Sends a word by a context of short deadlines. On a busy machine the link or the completion may
/// take longer than one of them: what timed out is asked for again, 1,000 times at most.
PEAL_KERNEL send_in_the_end(Verdict* verdict, Context hasty, uint64_t* box, uint64_t word) {
  const int next = (my_pe(hasty) + 1) % n_pes(hasty);
  Status status = Status::kTimeout;
  for (int i = 0; i < 1000 && status == Status::kTimeout; ++i) {
    status = handled(hasty, p(hasty, box, word, next));
    if (status == Status::kOk) status = handled(hasty, quiet(hasty));
  }
  expect_ok(verdict, status);
}

TEST(Deadline, OfTheContextEndsAWaitAndTheContextStaysUsable) {
  on_every_pe([](Runtime& pe) {
    const auto context = pe.make_context({.timeout = std::chrono::milliseconds(60)});
    const auto patient = pe.make_context();
    Symmetric<uint64_t> box(pe, 2);
    run_clean(pe, {.blocks = 2, .threads = 3}, wait_in_vain, context.value(), box.data() + 1,
              Status::kTimeout);
    run_clean(pe, {.blocks = 2, .threads = 1}, outlast, context.value(), patient.value(),
              box.data() + 1);
    pe.barrier();
    run_clean(pe, {}, greet<Reach::kGpu>, patient.value(), box.data(), uint64_t{1});
    pe.barrier();
    run_clean(pe, {}, send_in_the_end, context.value(), box.data(), uint64_t{2});
    pe.barrier();
    EXPECT_EQ(box[0], 2u);
    pe.barrier();
  });
}

PEAL_KERNEL come_to_the_barrier(Verdict* verdict, Context ctx, Status wanted) {
  expect_eq(verdict, static_cast<unsigned>(handled(ctx, barrier_all(ctx))),
            static_cast<unsigned>(wanted));
}

TEST(Deadline, EndsABarrierThatOnePeDoesNotReach) {
  on_every_pe([](Runtime& pe) {
    if (pe.n_pes() == 1) GTEST_SKIP() << "one PE waits for nobody";
    const auto context = pe.make_context({.timeout = std::chrono::milliseconds(60)});
    const auto patient = pe.make_context();
    Symmetric<uint64_t> box(pe, 1);
    if (pe.my_pe() != 0) {
      run_clean(pe, {}, come_to_the_barrier, context.value(), Status::kTimeout);
    }
    pe.barrier();
    run_clean(pe, {}, greet<Reach::kGpu>, patient.value(), box.data(), uint64_t{1});
    pe.barrier();
  });
}

}  // namespace
}  // namespace peal::api_test
