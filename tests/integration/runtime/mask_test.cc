// SPDX-License-Identifier: Apache-2.0
//
// Runtime::mask(): PEs die, the others go on with the same contexts, through the NIC and without.
//
// PEs are forked processes. A survivor that sees what it should returns 0, so the deaths are the
// only failures that run_processes reports.
#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <future>
#include <string>
#include <vector>

#include "tests/support/error_of.h"
#include "tests/support/job.h"
#include "tests/support/require.h"
#include "tests/support/without_pidfds.h"

namespace peal::api_test {
namespace {

using std::chrono::seconds;
using std::chrono::steady_clock;

void require_status(Status seen, Status wanted, const std::string& of) {
  require(seen == wanted, of + ": " + to_string(seen));
}

bool holds(const std::vector<int>& pes, int pe) { return std::ranges::find(pes, pe) != pes.end(); }

/// What the PEs live through; `victims` are those that die.
struct Life {
  int count;
  std::vector<int> victims;
  TransportKind transport;
  bool without_pidfds = false;
};

/// Runs `body` on every PE and expects that nobody fails but the victims.
void live(const Life& life, const std::function<void(Runtime&)>& body) {
  std::string text = "no error";
  try {
    bootstrap::run_processes(life.count,
                             [&](Bootstrap& group) {
                               if (life.without_pidfds) require(refuse_pidfds(EPERM), "a filter");
                               Config config = small_config();
                               config.transport = life.transport;
                               config.heap_size = 4u << 20;
                               Runtime pe = start(group, config);
                               body(pe);
                               return 0;
                             },
                             {.deadline = seconds(60), .job = seconds(200)});
  } catch (const Error& error) {
    text = error.what();
  }
  std::string wanted;
  for (const int victim : life.victims) {
    wanted += wanted.empty() ? "" : "; ";
    wanted += fmt::format("rank {} of {} was killed by signal 9 (Killed)", victim, life.count);
  }
  EXPECT_EQ(text, wanted.empty() ? "no error" : wanted);
}

[[noreturn]] void die() {
  raise(SIGKILL);
  _exit(9);
}

/// Masks whoever has ended, until no one more ends meanwhile.
void mask_all(Runtime& pe, size_t count) {
  const auto end = steady_clock::now() + seconds(60);
  size_t masked = 0;
  while (masked < count) {
    const std::vector<int> lost = pe.lost_pes();
    require(steady_clock::now() < end, "all deaths are noticed");
    if (lost.empty()) continue;
    masked += lost.size();
    try {
      pe.mask(lost);
    } catch (const Error& error) {
      require(error.code() == ErrorCode::kPeerLost, error.what());
    }
  }
}

PEAL_KERNEL wait_for_ever(Status* ended, Context ctx, uint64_t* word) {
  *ended = wait_until(ctx, word, Compare::kEq, 99);
}

/// The end of a PE is seen by a kernel of each other one.
void see_it_end(Runtime& pe, uint64_t* words) {
  Status ended = Status::kOk;
  launch({}, wait_for_ever, &ended, pe.context(), words + 1000).wait();
  require_status(ended, Status::kPeerLost, "the wait");
}

/// One after another, everything that can be asked of a PE.
PEAL_KERNEL try_everything(Status* ended, Context ctx, uint64_t* words, int pe) {
  uint32_t i = 0;
  ended[i++] = p(ctx, words, 1, pe);
  ended[i++] = g(ctx, words, pe).status;
  ended[i++] = put(ctx, words, words + 512, 1, pe);
  ended[i++] = put(ctx, words, words + 512, 256, pe);
  ended[i++] = get(ctx, words + 512, words, 256, pe);
  ended[i++] = put_nbi(ctx, words, words + 512, 100, pe).status;
  ended[i++] = get_nbi(ctx, words + 512, words, 100, pe).status;
  ended[i++] = signal(ctx, Signal::set(words, 1, pe));
  ended[i++] = signal(ctx, Signal::add(words, 1, pe));
  ended[i++] = put_signal(ctx, words, words + 512, 64, Signal::set(words + 900, 1, pe));
  ended[i++] = atomic_add(ctx, words, 1, pe);
  ended[i++] = atomic_fetch_add(ctx, words, 1, pe).status;
  ended[i++] = atomic_compare_swap(ctx, words, 1, 2, pe).status;
  ended[i++] = put(ctx, warp, words, words + 512, 256, pe);
  ended[i] = quiet(ctx);
}
constexpr uint32_t kThings = 14;

/// What needs no answer of a PE, and lasts for as long as the program goes on with it.
PEAL_KERNEL ask_on(Status* ended, Context ctx, uint64_t* words, int pe) {
  ended[0] = g(ctx, words, pe).status;
  ended[1] = get(ctx, words + 512, words, 256, pe);
  ended[2] = get(ctx, warp, words + 512, words, 256, pe);
  ended[3] = get(ctx, block, words + 512, words, 256, pe);
  ended[4] = iget(ctx, thread, words + 512, words, Strides{1, 2}, 8, pe);
  ended[5] = wait(ctx, get_nbi(ctx, words + 512, words, 100, pe));
  ended[6] = wait(ctx, block, put_nbi(ctx, block, words, words + 512, 100, pe));
  ended[7] = atomic_fetch_add(ctx, words, 1, pe).status;
  ended[8] = atomic_fetch(ctx, words, pe).status;
  ended[9] = wait(ctx, atomic_fetch_add_nbi(ctx, words + 600, words, 1, pe));
  (void)put(ctx, words, words + 512, 256, pe);
  ended[10] = quiet(ctx);
  ended[11] = quiet(ctx, pe);
  ended[12] = fence(ctx);
  ended[13] = fence(ctx, pe);
  ended[14] = quiet(ctx, block);
  ended[15] = barrier_all(ctx);
}

/// Hazard: where a PE is mapped nothing failed, and a program went on for ever with what it left.
void all_tell_of_it(Runtime& pe, const Context& ctx, uint64_t* words, int lost) {
  std::vector<Status> ended(16);
  launch({}, ask_on, ended.data(), ctx, words, lost).wait();
  for (size_t i = 0; i < ended.size(); ++i) {
    const bool by_nic = ended[i] == Status::kQueueError && std::string(pe.transport()) != "p2p";
    if (!by_nic) require_status(ended[i], Status::kPeerLost, "call " + std::to_string(i));
  }
  const HostCalls host = pe.host();
  const std::function<void()> calls[] = {
      [&] { host.put(words, words + 512, 8, lost); }, [&] { (void)host.g(words, lost); },
      [&] { host.p(words, uint64_t{1}, lost); }, [&] { host.quiet(); }};
  for (const auto& call : calls) {
    const Error error = error_of(call);
    require(names_one_lost(pe, error), std::string("the host hears: ") + error.what());
  }
}

void all_are_refused(Runtime& pe, const Context& ctx, uint64_t* words, int masked) {
  // More often than a queue has slots and landing cells.
  for (int round = 0; round < 120; ++round) {
    Status ended[kThings + 1] = {};
    launch({}, try_everything, ended, ctx, words, masked).wait();
    for (uint32_t i = 0; i < kThings; ++i) {
      require_status(ended[i], Status::kPeerMasked, "thing " + std::to_string(i));
    }
    require_status(ended[kThings], Status::kOk, "quiet");
  }
  require_status(pe.status(), Status::kOk, "being refused is no failure");
}

struct List {
  int pe[16];
  int count;
};

/// All to all among `with`, with barriers between the rounds: who passes one early sees old words.
PEAL_KERNEL exchange(Verdict* verdict, Context ctx, uint64_t* words, List with, uint64_t first) {
  for (uint64_t round = first; round < first + 20; ++round) {
    for (int i = 0; i < with.count; ++i) {
      expect_ok(verdict, p(ctx, words + my_pe(ctx), round, with.pe[i]));
    }
    expect_ok(verdict, barrier_all(ctx));
    for (int i = 0; i < with.count; ++i) expect_eq(verdict, words[with.pe[i]], round);
    expect_ok(verdict, sync_all(ctx));
  }
  expect_ok(verdict, quiet(ctx));
}

List others(const Runtime& pe, const std::vector<int>& victims) {
  List list{};
  for (int i = 0; i < pe.n_pes(); ++i) {
    if (!holds(victims, i)) list.pe[list.count++] = i;
  }
  return list;
}

void all_is_well(Runtime& pe, const Context& ctx, uint64_t* words, const List& with,
                 uint64_t first) {
  Verdict verdict;
  launch({}, exchange, &verdict, ctx, words, with, first).wait();
  require(verdict.failures == 0,
          fmt::format("line {} saw {}, wanted {}", verdict.line, verdict.seen, verdict.wanted));
  pe.check();
}

/// The whole story after some PEs have died.
void outlive(Runtime& pe, const Life& life, uint64_t* words, const Context& own) {
  see_it_end(pe, words);
  all_tell_of_it(pe, pe.context(), words, pe.lost_pes().front());
  mask_all(pe, life.victims.size());
  require_status(pe.status(), Status::kOk, "afterwards");
  require(pe.lost_pes().empty(), "none is lost that is not masked");
  const List with = others(pe, life.victims);
  all_is_well(pe, pe.context(), words, with, 1000);
  for (const int victim : life.victims) all_are_refused(pe, pe.context(), words, victim);
  pe.barrier();
  // Collective calls are among those that are left.
  auto* const more = pe.allocate<uint64_t>(1024);
  all_is_well(pe, pe.context(), more, with, 1);
  {
    const auto context = pe.make_context();
    all_is_well(pe, context.value(), words, with, 5000);
    all_are_refused(pe, context.value(), words, life.victims[0]);
    pe.barrier();
  }
  pe.free(more);
  pe.mask(life.victims);  // again: nothing new
  static_cast<void>(own);
  all_is_well(pe, pe.context(), words, with, 9000);
}

class Mask : public testing::TestWithParam<TransportKind> {};
INSTANTIATE_TEST_SUITE_P(Over, Mask, testing::Values(TransportKind::kIbgda, TransportKind::kP2p),
                         [](const auto& one) {
                           return one.param == TransportKind::kP2p ? "p2p" : "ibgda";
                         });

void outlive_victims(const Life& life) {
  live(life, [&](Runtime& pe) {
    auto* const words = pe.allocate<uint64_t>(1024);
    const auto own = pe.make_context();
    all_is_well(pe, pe.context(), words, others(pe, {}), 1);
    pe.barrier();
    if (holds(life.victims, pe.my_pe())) die();
    outlive(pe, life, words, own.value());
    all_is_well(pe, own.value(), words, others(pe, life.victims), 20'000);
    pe.barrier();
  });
}

TEST_P(Mask, LetsTheOthersGoOn) { outlive_victims({4, {1}, GetParam()}); }
TEST_P(Mask, WorksForTheFirstPe) { outlive_victims({3, {0}, GetParam()}); }
TEST_P(Mask, WorksForTwo) { outlive_victims({4, {0, 2}, GetParam()}); }
TEST_P(Mask, LeavesOnePeAlone) { outlive_victims({2, {1}, GetParam()}); }
TEST_P(Mask, WorksAcrossSeveralRoundsOfABarrier) { outlive_victims({11, {3, 7}, GetParam()}); }

TEST_P(Mask, WorksOneAfterAnother) {
  const Life life{4, {1, 3}, GetParam()};
  live(life, [&](Runtime& pe) {
    auto* const words = pe.allocate<uint64_t>(1024);
    pe.barrier();
    if (pe.my_pe() == 1) die();
    see_it_end(pe, words);
    pe.mask({1});
    all_is_well(pe, pe.context(), words, others(pe, {1}), 1);
    pe.barrier();
    if (pe.my_pe() == 3) die();
    see_it_end(pe, words);
    pe.mask({3});
    all_is_well(pe, pe.context(), words, others(pe, {1, 3}), 1000);
    all_are_refused(pe, pe.context(), words, 1);
    all_are_refused(pe, pe.context(), words, 3);
    pe.barrier();
  });
}

/// Hazard: where pidfds are refused no end was noticed, and mask() took the living for dead.
TEST_P(Mask, KnowsTheLivingFromTheDeadWithoutPidfds) {
  if (!may_refuse_pidfds()) GTEST_SKIP() << "this process may not have filters";
  live({3, {1}, GetParam(), true}, [&](Runtime& pe) {
    auto* const words = pe.allocate<uint64_t>(1024);
    pe.barrier();
    if (pe.my_pe() == 0) {
      const Error refused = error_of([&] { pe.mask({2}); });
      require(refused.code() == ErrorCode::kInvalidArgument, refused.what());
    }
    pe.barrier();
    if (pe.my_pe() == 1) die();
    see_it_end(pe, words);
    pe.mask({1});
    all_is_well(pe, pe.context(), words, others(pe, {1}), 1);
    pe.barrier();
  });
}

/// Hazard: a callback that waited for a thread in mask() kept that from hearing of the other PEs,
/// and both waited until the deadline.
TEST_P(Mask, GoesOnWhileACallbackWaitsForIt) {
  live({3, {1}, GetParam()}, [&](Runtime& pe) {
    auto* const words = pe.allocate<uint64_t>(1024);
    std::promise<void> called, masked;
    pe.on_failure([&](const Failure&) {
      called.set_value();
      masked.get_future().wait();
    });
    pe.barrier();
    if (pe.my_pe() == 1) die();
    see_it_end(pe, words);
    called.get_future().wait();
    pe.on_failure({});
    pe.mask({1});
    masked.set_value();
    all_is_well(pe, pe.context(), words, others(pe, {1}), 1);
    pe.barrier();
  });
}

PEAL_KERNEL meet_and_talk(Status* ended, Context ctx, uint64_t* words, uint64_t rounds) {
  const uint32_t block = block_in_grid();
  for (uint64_t round = 1; round <= rounds; ++round) {
    for (int pe = 0; pe < n_pes(ctx); ++pe) {
      ended[block] = p(ctx, words + 64 + block, round, pe);
      if (ended[block] == Status::kOk) ended[block] = atomic_fetch_inc(ctx, words + 63, pe).status;
      if (ended[block] != Status::kOk) return;
    }
    if (block == 0) ended[0] = barrier_all(ctx);
    if (ended[block] != Status::kOk) return;
  }
}

/// In the middle of traffic queues close and barriers are left half way, one PE ahead of another.
TEST_P(Mask, AfterADeathInTheMiddleOfTraffic) {
  for (int round = 0; round < 5; ++round) {
    const Life life{4, {round % 4}, GetParam()};
    live(life, [&](Runtime& pe) {
      auto* const words = pe.allocate<uint64_t>(1024);
      const bool victim = pe.my_pe() == life.victims[0];
      Status ended[8] = {};
      const uint64_t rounds = victim ? 7u + 5u * static_cast<unsigned>(round) : 1'000'000u;
      // What is stored into a dead peer's memory meets no error: only the barrier does.
      const unsigned blocks = GetParam() == TransportKind::kP2p ? 1 : 8;
      launch({.blocks = blocks, .threads = 1}, meet_and_talk, ended, pe.context(), words, rounds)
          .wait();
      if (victim) die();
      require(ended[0] != Status::kOk, "an error");
      mask_all(pe, life.victims.size());
      all_is_well(pe, pe.context(), words, others(pe, life.victims), 1000);
      all_are_refused(pe, pe.context(), words, life.victims[0]);
      pe.barrier();
    });
  }
}

PEAL_KERNEL meet_once(Status* ended, Context ctx) {
  *ended = barrier_all(ctx);
  static_cast<void>(quiet(ctx));
}

/// The dead PE had entered a barrier that nobody else has: its flags lie where, with one PE less,
/// those of others are awaited.
TEST_P(Mask, OutdatesTheFlagsOfTheDead) {
  const Life life{4, {1}, GetParam()};
  live(life, [&](Runtime& pe) {
    auto* const words = pe.allocate<uint64_t>(1024);
    const auto hasty = pe.make_context({.timeout = std::chrono::milliseconds(100)});
    pe.barrier();
    Status ended = Status::kOk;
    if (pe.my_pe() == 1) {
      launch({}, meet_once, &ended, Context{hasty.value()}).wait();
      die();
    }
    see_it_end(pe, words);
    pe.mask({1});
    if (pe.my_pe() != 0) {
      launch({}, meet_once, &ended, Context{hasty.value()}).wait();
      require_status(ended, Status::kTimeout, "a barrier that PE 0 has not entered");
    }
    pe.barrier();
  });
}

PEAL_KERNEL reach_outside(Status* ended, Context ctx, int pe) {
  *ended = p(ctx, reinterpret_cast<uint64_t*>(ctx.heap.base + ctx.heap.bytes), 7, pe);
}
PEAL_KERNEL break_queue(Status* ended, Context ctx, uint64_t* words, int pe) {
  SendQueue* const q = detail::queue_at(ctx, static_cast<uint32_t>(pe));
  const nic::Remote nowhere{0, mlx5::key(0x00badbad)};
  const uint32_t payload[3] = {static_cast<uint32_t>(words[0]), 0, 0};
  *ended = nic::post<Reach::kGpu>(*q, nic::Alone{}, nic::write_inline(nowhere, payload, 8)).status;
  if (*ended == Status::kOk) *ended = quiet(ctx);
}

TEST(MaskThenRecover, WorksAmongThoseThatAreLeft) {
  const Life life{4, {2}, TransportKind::kIbgda};
  live(life, [&](Runtime& pe) {
    auto* const words = pe.allocate<uint64_t>(1024);
    pe.barrier();
    if (pe.my_pe() == 2) die();
    see_it_end(pe, words);
    pe.mask({2});
    Status ended = Status::kOk;
    if (pe.my_pe() == 0) {
      launch({}, break_queue, &ended, pe.context(), words, 3).wait();
      require_status(ended, Status::kQueueError, "the bad key");
    }
    launch({}, reach_outside, &ended, pe.context(), 1).wait();
    require_status(ended, Status::kNotSymmetric, "misuse");
    pe.barrier();
    require(pe.recover() == (pe.my_pe() == 1 ? 0u : 1u), "both ends are reset");
    all_is_well(pe, pe.context(), words, others(pe, {2}), 1);
    pe.barrier();
  });
}

template <class Call>
std::string refusal(Call&& call) {
  try {
    call();
  } catch (const Error& error) {
    return fmt::format("{}: {}", to_string(error.code()), error.what());
  }
  return "no error";
}

void mask_wrongly(Runtime& pe) {
  const int other = 1 - pe.my_pe();
  const auto expect = [&](const std::vector<int>& pes, const std::string& part) {
    const std::string text = refusal([&] { pe.mask(pes); });
    require(text.find("invalid argument: mask: " + part) == 0, text);
  };
  expect({pe.my_pe()}, fmt::format("PE {} is this one", pe.my_pe()));
  expect({-1}, "there is no PE -1; PEs are 0 to 1");
  expect({2}, "there is no PE 2");
  expect({other}, fmt::format("PE {} (process ", other));
  pe.mask({});
  auto* const words = pe.allocate<uint64_t>(1024);
  all_is_well(pe, pe.context(), words, others(pe, {}), 1);
  pe.barrier();
}

TEST(MaskWrongly, OfALivePeOrNoneIsRefusedInProcesses) {
  live({2, {}, TransportKind::kIbgda}, mask_wrongly);
}
TEST(MaskWrongly, OfALivePeOrNoneIsRefusedInThreads) {
  // Threads of a child: a sanitizer follows only children of a process with one thread.
  bootstrap::run_processes(1, [](Bootstrap&) {
    bootstrap::run_threads(2, [](Bootstrap& group) {
      Runtime pe = start(group);
      mask_wrongly(pe);
    });
    return 0;
  });
}

/// Who recovers without masking is told whom to mask; who masks alone is not waited for for ever.
TEST(MaskWrongly, RecoveryWithoutItIsRefused) {
  live({3, {1}, TransportKind::kIbgda}, [&](Runtime& pe) {
    auto* const words = pe.allocate<uint64_t>(1024);
    pe.barrier();
    if (pe.my_pe() == 1) die();
    see_it_end(pe, words);
    const std::string text = refusal([&] { pe.recover(); });
    require(text.find("peer lost: recover: PE 1 has ended: mask it first") == 0, text);
    pe.mask({1});
    all_is_well(pe, pe.context(), words, others(pe, {1}), 1);
    pe.barrier();
  });
}

TEST(MaskWrongly, ByOnePeAloneEndsAtTheDeadline) {
  std::string text = "no error";
  try {
    bootstrap::run_processes(3,
                             [](Bootstrap& group) {
                               Config config = small_config();
                               config.bootstrap_timeout = seconds(10);
                               Runtime pe = start(group, config);
                               auto* const words = pe.allocate<uint64_t>(1024);
                               pe.barrier();
                               if (pe.my_pe() == 1) die();
                               see_it_end(pe, words);
                               if (pe.my_pe() == 2) return 0;  // and waits for nobody
                               const std::string why = refusal([&] { pe.mask({1}); });
                               require(why.find("PE 2 ") != std::string::npos, why);
                               return 0;
                             },
                             {.deadline = seconds(60), .job = seconds(200)});
  } catch (const Error& error) {
    text = error.what();
  }
  EXPECT_EQ(text, "rank 1 of 3 was killed by signal 9 (Killed)");
}

}  // namespace
}  // namespace peal::api_test

int main(int argc, char** argv) { return peal::api_test::run_tests(argc, argv); }
