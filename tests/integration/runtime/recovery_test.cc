// SPDX-License-Identifier: Apache-2.0
//
// Runtime::recover(): whatever went wrong, afterwards the same contexts work as if new.
#include <gtest/gtest.h>

#include <atomic>
#include <string>
#include <vector>

#include "tests/support/job.h"

namespace peal::api_test {
namespace {

constexpr int kPes = 3;

/// Waits end soon, so that a test may wait for one that ends in vain.
Config hasty_config() {
  Config config = small_config();
  config.timeout = std::chrono::milliseconds(20);
  config.connect = ConnectKind::kEager;  // which 20 ms may be too short for
  return config;
}

/// Runs `body` on every PE with a heap block of 1024 words and an address that the NIC refuses.
using Body = std::function<void(Runtime&, uint64_t* words, uint64_t* outside)>;
void on_pes(const Body& body, const Config& config = small_config()) {
  static std::atomic<int> failed;
  failed = 0;
  bootstrap::run_threads(kPes, [&](Bootstrap& group) {
    Runtime pe = start(group, config);
    auto* const words = pe.allocate<uint64_t>(1024);
    body(pe, words, behind_heap(pe.context()));
    pe.barrier();
  });
}

/// Everything that travels, from all to all, by several blocks; then a barrier; `round` makes the
/// values new.
PEAL_KERNEL exchange(Verdict* verdict, Context ctx, uint64_t* words, uint64_t round) {
  const auto me = static_cast<uint64_t>(my_pe(ctx));
  const uint32_t block = block_in_grid();
  for (int pe = 0; pe < n_pes(ctx); ++pe) {
    const uint64_t at = 64 * block + 8 * me;
    expect_ok(verdict, p(ctx, words + at, round + me, pe));
    expect_ok(verdict, put(ctx, words + at + 1, words + 900, 1, pe));
    expect_ok(verdict, signal(ctx, Signal::set(words + at + 2, round, pe)));
    expect_ok(verdict, wait_until(ctx, words + 64 * block + 8 * static_cast<unsigned>(pe) + 2,
                                  Compare::kGe, round));
    const Fetched<uint64_t> old = atomic_fetch_inc(ctx, words + 950, pe);
    expect_ok(verdict, old.status);
    const Fetched<uint64_t> seen = g(ctx, words + at, pe);
    expect_ok(verdict, seen.status);
    expect_eq(verdict, seen.value, round + me);
  }
  expect_ok(verdict, quiet(ctx));
}
PEAL_KERNEL meet(Verdict* verdict, Context ctx) {
  for (int i = 0; i < 3; ++i) expect_ok(verdict, barrier_all(ctx));
}

void all_is_well(Runtime& pe, const Context& ctx, uint64_t* words) {
  static std::atomic<uint64_t> rounds{0};
  pe.barrier();
  if (pe.my_pe() == 0) ++rounds;
  pe.barrier();
  run_clean(pe, {.blocks = 8, .threads = 1}, exchange, ctx, words, 1000 * rounds);
  run_clean(pe, {}, meet, ctx);
  EXPECT_EQ(pe.status(), Status::kOk);
  pe.check();
  pe.barrier();  // the peers are done with a context that is dropped next
}

PEAL_KERNEL reach_outside(Status* ended, Context ctx, uint64_t* outside, int pe) {
  const Status status = p(past_the_heap(ctx), outside, 7, pe);
  *ended = status == Status::kOk ? quiet(ctx) : status;
}

/// Breaks the queue of `block` to `peer`.
void break_queue(Runtime& pe, const Context& ctx, uint64_t* outside, int peer) {
  Status ended = Status::kOk;
  launch({}, reach_outside, &ended, ctx, outside, peer).wait();
  EXPECT_EQ(ended, Status::kQueueError);
  EXPECT_EQ(pe.status(), Status::kQueueError);
}

TEST(Recovery, WithNothingWrongChangesNothing) {
  on_pes([](Runtime& pe, uint64_t* words, uint64_t*) {
    EXPECT_EQ(pe.recover(), 0u);
    all_is_well(pe, pe.context(), words);
    EXPECT_EQ(pe.recover(), 0u);
    EXPECT_EQ(pe.recover(), 0u);
    all_is_well(pe, pe.context(), words);
  });
}

TEST(Recovery, ResetsBothEndsOfAQueueInError) {
  on_pes([](Runtime& pe, uint64_t* words, uint64_t* outside) {
    all_is_well(pe, pe.context(), words);
    if (pe.my_pe() == 0) break_queue(pe, pe.context(), outside, 1);
    pe.barrier();
    EXPECT_EQ(pe.recover(), pe.my_pe() == 2 ? 0u : 1u);
    EXPECT_EQ(pe.failure().status, Status::kOk);
    all_is_well(pe, pe.context(), words);
  });
}

TEST(Recovery, WorksAgainAndAgainFromEveryPe) {
  on_pes([](Runtime& pe, uint64_t* words, uint64_t* outside) {
    const auto own = pe.make_context();
    for (int round = 0; round < 12; ++round) {
      const int culprit = round % kPes;
      if (pe.my_pe() == culprit || round > 9) {
        break_queue(pe, round % 2 == 0 ? pe.context() : Context{own.value()}, outside,
                    (pe.my_pe() + round) % kPes);
      }
      pe.barrier();
      pe.recover();
      all_is_well(pe, pe.context(), words);
      all_is_well(pe, own.value(), words);
    }
  });
}

/// Reserves blocks that are never handed over.
PEAL_KERNEL hold_slots(Context ctx, int pe, uint32_t blocks) {
  auto* const queue =
      reinterpret_cast<SendQueue*>(ctx.queues + static_cast<uint64_t>(pe) * ctx.queue_stride);
  uint64_t at = 0;
  static_cast<void>(nic::reserve<Reach::kGpu>(*queue, blocks, &at));
}
PEAL_KERNEL post_one(Status* ended, Context ctx, uint64_t* word, int pe) {
  *ended = p(ctx, word, 7, pe);
}

TEST(Recovery, OpensAQueueThatATimeoutHasClosed) {
  const Config config = hasty_config();
  on_pes(
      [](Runtime& pe, uint64_t* words, uint64_t*) {
        const ContextOptions patient{.timeout = std::chrono::seconds(60)};
        const auto ctx = pe.make_context(patient);
        if (pe.my_pe() == 1) {
          launch({}, hold_slots, pe.context(), 2, pe.config().queue_depth).wait();
          Status ended = Status::kOk;
          launch({}, post_one, &ended, pe.context(), words, 2).wait();
          EXPECT_EQ(ended, Status::kTimeout);
          EXPECT_EQ(pe.failure().status, Status::kTimeout);
          EXPECT_NE(pe.failure().text.find("queue 0 to PE 2 closed: timeout"), std::string::npos);
        }
        EXPECT_EQ(pe.recover(), pe.my_pe() == 0 ? 0u : 1u);
        Status ended = Status::kTimeout;
        launch({}, post_one, &ended, pe.context(), words, 2).wait();
        EXPECT_EQ(ended, Status::kOk);
        pe.check();
        all_is_well(pe, ctx.value(), words);
      },
      config);
}

PEAL_KERNEL quiet_once(Status* ended, Context ctx) { *ended = quiet(ctx); }

/// A kernel was cut off between reserving and handing over: nothing behind it is ever rung, though
/// no error says so.
TEST(Recovery, FreesAQueueOfWhatWasNeverHandedOver) {
  const Config config = hasty_config();
  on_pes(
      [](Runtime& pe, uint64_t* words, uint64_t*) {
        const ContextOptions patient{.timeout = std::chrono::seconds(60)};
        const auto ctx = pe.make_context(patient);
        Status ended = Status::kOk;
        if (pe.my_pe() == 1) {
          launch({}, hold_slots, pe.context(), 2, 1u).wait();
          launch({}, post_one, &ended, pe.context(), words, 2).wait();
          EXPECT_EQ(ended, Status::kOk) << "a post waits for nobody";
          launch({}, quiet_once, &ended, pe.context()).wait();
          EXPECT_EQ(ended, Status::kTimeout);
        }
        EXPECT_EQ(pe.recover(), pe.my_pe() == 0 ? 0u : 1u);
        launch({}, post_one, &ended, pe.context(), words, 2).wait();
        EXPECT_EQ(ended, Status::kOk);
        all_is_well(pe, ctx.value(), words);
      },
      config);
}

PEAL_KERNEL take_all_cells(Context ctx, int pe) {
  auto* const queue =
      reinterpret_cast<SendQueue*>(ctx.queues + static_cast<uint64_t>(pe) * ctx.queue_stride);
  for (uint32_t i = 0; i < kLandingCells; ++i) {
    Status status = Status::kOk;
    static_cast<void>(nic::take_landing<Reach::kGpu>(*queue, &status));
  }
}
PEAL_KERNEL fetch_one(Status* ended, Context ctx, uint64_t* word, int pe) {
  *ended = g(ctx, word, pe).status;
}

/// Fetches that time out keep their cells: without new ones the 129th closes the queue. Only a
/// fetch that ends in vain is in a hurry.
TEST(Recovery, GivesBackTheCellsOfFetchesThatGaveUp) {
  on_pes([](Runtime& pe, uint64_t* words, uint64_t*) {
    SendQueue& queue = *detail::queue_at(pe.context(), 0);
    const uint64_t patience_ns = queue.timeout_ns;
    Status ended = Status::kOk;
    launch({}, take_all_cells, pe.context(), 0).wait();
    EXPECT_EQ(pe.recover(), 0u) << "no queue has an error";
    launch({}, fetch_one, &ended, pe.context(), words, 0).wait();
    EXPECT_EQ(ended, Status::kOk);
    launch({}, take_all_cells, pe.context(), 0).wait();
    queue.timeout_ns = 20'000'000;
    launch({}, fetch_one, &ended, pe.context(), words, 0).wait();
    EXPECT_EQ(ended, Status::kTimeout);
    queue.timeout_ns = patience_ns;
    pe.barrier();
    EXPECT_GE(pe.recover(), 1u);
    launch({}, fetch_one, &ended, pe.context(), words, 0).wait();
    EXPECT_EQ(ended, Status::kOk);
    pe.barrier();
  });
}

TEST(Recovery, ForgetsMisuse) {
  on_pes([](Runtime& pe, uint64_t* words, uint64_t*) {
    Status ended = Status::kOk;
    launch({}, post_one, &ended, pe.context(), words, 99).wait();
    EXPECT_EQ(pe.status(), Status::kBadPe);
    EXPECT_EQ(pe.recover(), 0u);
    all_is_well(pe, pe.context(), words);
  });
}

PEAL_KERNEL meet_once(Status* ended, Context ctx) { *ended = barrier_all(ctx); }

/// The PE that was alone in a barrier has entered one more than the others.
TEST(Recovery, BringsBarriersTogether) {
  on_pes([](Runtime& pe, uint64_t* words, uint64_t*) {
    const auto ctx = pe.make_context();
    Status ended = Status::kOk;
    if (pe.my_pe() == 0) {
      Context hasty = ctx.value();
      hasty.timeout_ns = 20'000'000;
      launch({}, meet_once, &ended, hasty).wait();
      EXPECT_EQ(ended, Status::kTimeout);
    }
    pe.barrier();
    pe.recover();
    all_is_well(pe, ctx.value(), words);
    all_is_well(pe, pe.context(), words);
  });
}

/// The sender repeats everything that is not known to have arrived; a sequence write makes that
/// harmless.
PEAL_KERNEL send_from(Status* ended, Context ctx, uint64_t* words, uint64_t* first, uint64_t bad,
                      uint64_t* outside) {
  for (uint64_t i = *first; i <= 50; ++i) {
    words[500] = i * i;
    *ended = put_signal(ctx, words + i, words + 500, 1, Signal::set(words + 100, i, 1));
    if (*ended == Status::kOk && i == bad) *ended = p(past_the_heap(ctx), outside, i, 1);
    if (*ended == Status::kOk) *ended = quiet(ctx);
    if (*ended != Status::kOk) return;
    *first = i + 1;
  }
}
PEAL_KERNEL receive_all(Verdict* verdict, Context ctx, const uint64_t* words) {
  expect_ok(verdict, wait_until(ctx, words + 100, Compare::kGe, 50));
  for (uint64_t i = 1; i <= 50; ++i) expect_eq(verdict, words[i], i * i);
}

TEST(Recovery, LeavesAReplayOfSequenceWritesHarmless) {
  on_pes([](Runtime& pe, uint64_t* words, uint64_t* outside) {
    uint64_t first = 1;
    for (const uint64_t bad : {7u, 20u, 20u, 49u, 0u}) {
      Status ended = Status::kOk;
      if (pe.my_pe() == 0) {
        launch({}, send_from, &ended, pe.context(), words, &first, bad, outside).wait();
        EXPECT_EQ(ended, bad == 0 ? Status::kOk : Status::kQueueError);
      }
      if (bad == 20 && first == 20) first = 15;  // repeats what had arrived, too
      pe.barrier();
      pe.recover();
    }
    if (pe.my_pe() == 1) run_clean(pe, {}, receive_all, pe.context(), words);
    pe.barrier();
  });
}

TEST(Recovery, OfDifferentContextsIsRefusedOnAllPes) {
  on_pes([](Runtime& pe, uint64_t* words, uint64_t*) {
    auto extra = std::make_optional(pe.make_context());
    pe.barrier();
    if (pe.my_pe() == 1) extra.reset();
    try {
      pe.recover();
      ADD_FAILURE() << "no error";
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::kInvalidArgument);
      EXPECT_NE(std::string(error.what()).find("PE 1 has contexts 0x1 (one bit each), PE 0 0x3"),
                std::string::npos)
          << error.what();
    }
    extra.reset();
    EXPECT_EQ(pe.recover(), 0u);
    all_is_well(pe, pe.context(), words);
  });
}

TEST(Recovery, WithoutANicClearsWhatThereIs) {
  Config config = small_config();
  config.transport = TransportKind::kP2p;
  bootstrap::run_threads(kPes, [&](Bootstrap& group) {
    Runtime pe = start(group, config);
    auto* const words = pe.allocate<uint64_t>(1024);
    Status ended = Status::kOk;
    launch({}, post_one, &ended, pe.context(), words, 99).wait();
    EXPECT_EQ(pe.status(), Status::kBadPe);
    EXPECT_EQ(pe.recover(), 0u);
    all_is_well(pe, pe.context(), words);
  });
}

}  // namespace
}  // namespace peal::api_test

int main(int argc, char** argv) { return peal::api_test::run_tests(argc, argv); }
