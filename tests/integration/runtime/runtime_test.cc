// SPDX-License-Identifier: Apache-2.0
//
// Runtimes in one process: what they need, what they refuse and how they say it, and how waits end
// before their condition holds.
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <thread>
#include <vector>

#include "tests/support/error_of.h"
#include "tests/support/job.h"

namespace peal::api_test {
namespace {

/// Starts `count` PEs with a configuration each and answers what every one of them ended with.
std::vector<Error> errors_of(int count, const std::function<Config(int)>& config) {
  std::vector<Error> errors(static_cast<size_t>(count), {ErrorCode::kInternal, "no error"});
  bootstrap::run_threads(count, [&](Bootstrap& group) {
    errors[static_cast<size_t>(group.rank())] =
        error_of([&] { const Runtime pe = start(group, config(group.rank())); });
  });
  return errors;
}

PEAL_KERNEL greet_all(Verdict* verdict, Context ctx, uint64_t* box) {
  for (int pe = 0; pe < n_pes(ctx); ++pe) {
    expect_ok(verdict, p(ctx, box + my_pe(ctx), uint64_t{100} + static_cast<unsigned>(pe), pe));
  }
  expect_ok(verdict, barrier_all(ctx));
  for (int pe = 0; pe < n_pes(ctx); ++pe) {
    expect_eq(verdict, box[pe], uint64_t{100} + static_cast<unsigned>(my_pe(ctx)));
  }
  expect_ok(verdict, sync_all(ctx));
}

void greet(Runtime& pe) {
  Symmetric<uint64_t> box(pe, static_cast<size_t>(pe.n_pes()));
  run_clean(pe, {}, greet_all, pe.context(), box.data());
}

// By record the software NIC works whether it is rung or not: that the thread did ring, with queues
// that start again too, is seen by what it passed on.
TEST(RuntimeAssisted, HasACpuThreadThatRings) {
  Config config = small_config();
  config.doorbell = DoorbellKind::kCpu;
  bootstrap::run_threads(3, [&](Bootstrap& group) {
    Runtime pe = start(group, config);
    EXPECT_NE(pe.dump().find("a CPU thread rings for kernels"), std::string::npos) << pe.dump();
    const auto passed_on = [&pe] {
      const std::string text = pe.dump();
      return std::stoull(text.substr(text.find("passed on ") + 10));
    };
    const uint64_t before = passed_on();
    greet(pe);
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(60);
    while (passed_on() == before) {
      ASSERT_LT(std::chrono::steady_clock::now(), deadline) << pe.dump();
      std::this_thread::yield();
    }
    const auto other = pe.make_context();
    pe.barrier();
  });
}

TEST(RuntimeFences, ReachNoGpuWhereThereIsNone) {
  Config config = small_config();
  config.fence = FenceKind::kGpu;
  bootstrap::run_threads(1, [&](Bootstrap& group) {
    try {
      start(group, config);
      ADD_FAILURE() << "not refused";
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::kUnsupported);
      EXPECT_NE(std::string(error.what()).find("PEAL_FENCE=gpu"), std::string::npos);
    }
  });
}

class RuntimeOf : public testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(Pes, RuntimeOf, testing::Values(1, 2, 3, 4, 8));

TEST_P(RuntimeOf, ManyPesInOneProcessReachEachOther) {
  bootstrap::run_threads(GetParam(), [](Bootstrap& group) {
    Runtime pe = start(group);
    EXPECT_EQ(pe.my_pe(), group.rank());
    EXPECT_EQ(pe.n_pes(), group.size());
    EXPECT_STREQ(pe.transport(), "ibgda");
    EXPECT_EQ(pe.nic(), "softnic-cpu");
    EXPECT_LT(pe.overhead_bytes(), size_t{64} << 20);
    greet(pe);
  });
}

TEST(RuntimeLife, TwoInOneThreadAreIndependent) {
  Runtime first(bootstrap::make_single(), small_config());
  Runtime second(bootstrap::make_single(), small_config());
  greet(first);
  greet(second);
  void* const block = first.malloc(64);
  EXPECT_THROW(second.free(block), Error);
  first.free(block);
}

// A program that was compiled with the headers of one version and runs with the library of another:
// its kernels would take one field of a context for another.
TEST(RuntimeLife, NamesBothVersionsWhenAKernelWouldMisreadAContext) {
  bootstrap::run_threads(1, [](Bootstrap& group) {
    const Runtime pe = start(group, small_config());
    const Context made = pe.context();
    EXPECT_EQ(&detail::readable(made), &made);
    const auto newer = [&] { detail::readable<kContextVersion + 1>(made); };
    expect_error(error_of(newer), ErrorCode::kUnsupported,
                 {"version " + std::to_string(kContextVersion) + " (",
                  "version " + std::to_string(kContextVersion + 1) + " (", "headers"});
    const auto larger = [&] { detail::readable<kContextVersion, sizeof made + 8>(made); };
    expect_error(error_of(larger), ErrorCode::kUnsupported,
                 {std::to_string(sizeof made) + " bytes", std::to_string(sizeof made + 8)});
  });
}

TEST(RuntimeLife, MayMove) {
  Runtime first(bootstrap::make_single(), small_config());
  Runtime second(std::move(first));
  greet(second);
  first = std::move(second);
  greet(first);
}

TEST(RuntimeLife, ComesAndGoesManyTimes) {
  for (int round = 0; round < 20; ++round) {
    bootstrap::run_threads(2, [](Bootstrap& group) {
      Runtime pe = start(group);
      greet(pe);
    });
  }
}

TEST(RuntimeLife, HasKeysOfTheirOwnForPayloadThatMayBeReordered) {
  for (const RelaxedOrdering asked :
       {RelaxedOrdering::kOn, RelaxedOrdering::kOff, RelaxedOrdering::kAuto}) {
    const bool relaxed = asked == RelaxedOrdering::kOn;  // auto: not on a CPU
    bootstrap::run_threads(2, [&](Bootstrap& group) {
      Config config = small_config();
      config.relaxed_ordering = asked;
      Runtime pe = start(group, config);
      const Context context = pe.context();
      EXPECT_EQ(context.relaxed, 1u);  // WRITEs of this NIC may overtake each other in any case
      EXPECT_EQ(context.signals, kSignalsSwap);
      for (int peer = 0; peer < 2; ++peer) {
        EXPECT_EQ(context.heap.rkeys[peer] != context.heap.word_rkeys[peer], relaxed);
      }
      greet(pe);
    });
  }
}

TEST(RuntimeStart, NeedsABootstrap) {
  expect_error(error_of([] { Runtime pe(nullptr, small_config()); }), ErrorCode::kInvalidArgument,
               {"bootstrap is null"});
}

TEST(RuntimeStart, NamesALibraryThatIsMissing) {
  for (const Error& error : errors_of(2, [](int) {
         Config config = small_config();
         config.ibverbs = "/nowhere/libibverbs.so.1";
         config.mlx5 = "/nowhere/libmlx5.so.1";
         return config;
       })) {
    expect_error(error, ErrorCode::kUnsupported,
                 {"dlopen(/nowhere/libibverbs.so.1)", "PEAL_IBVERBS and PEAL_MLX5"});
  }
}

TEST(RuntimeStart, NamesWhatAWrongLibraryLacks) {
  Config config = small_config();
  config.ibverbs = "libm.so.6";
  config.mlx5 = "libm.so.6";
  expect_error(error_of([&] { Runtime pe(bootstrap::make_single(), config); }),
               ErrorCode::kUnsupported, {"libm.so.6 has no function ibv_", "PEAL_IBVERBS"});
}

TEST(RuntimeStart, WantsBothLibrariesOrNeither) {
  Config config = small_config();
  config.mlx5 = "libmlx5.so.1";
  expect_error(error_of([&] { Runtime pe(bootstrap::make_single(), config); }),
               ErrorCode::kConfiguration, {"PEAL_MLX5 is set and PEAL_IBVERBS is not"});
}

TEST(RuntimeStart, NamesTheNicsThereAre) {
  Config config = small_config();
  config.hca = "mlx5_99";
  expect_error(error_of([&] { Runtime pe(bootstrap::make_single(), config); }),
               ErrorCode::kUnsupported,
               {"PEAL_HCA=\"mlx5_99\" allows no mlx5 device", "it has mlx5_0"});
}

TEST(RuntimeStart, RefusesAWrongListOfNicsAlsoWhereNoneIsNeeded) {
  for (const TransportKind transport : {TransportKind::kIbgda, TransportKind::kP2p}) {
    Config config = small_config();
    config.hca = "mlx5_0,";
    config.transport = transport;
    expect_error(error_of([&] { Runtime pe(bootstrap::make_single(), config); }),
                 ErrorCode::kConfiguration, {"PEAL_HCA=\"mlx5_0,\" is not accepted: give names"});
  }
}

TEST(RuntimeStart, TellsWhichNicAndWhyWhenAsked) {
  Config config = small_config();
  config.info = true;
  config.nccl_ib_hca = "=mlx5_7";  // a real one, which a software NIC stands for
  testing::internal::CaptureStderr();
  { const Runtime pe(bootstrap::make_single(), config); }
  const std::string said = testing::internal::GetCapturedStderr();
  EXPECT_NE(said.find("peal[0] nic: mlx5_0: the only one\n"), std::string::npos) << said;
}

TEST(RuntimeStart, UnequalHeapSizesAreNamedOnAllPes) {
  for (const bool by_mpirun : {false, true}) {
    for (const Error& error : errors_of(3, [by_mpirun](int rank) {
           Config config = small_config();
           if (by_mpirun) config.launcher["OMPI_COMM_WORLD_SIZE"] = "3";
           if (rank == 1) config.heap_size = 1 << 20;
           return config;
         })) {
      expect_error(error, ErrorCode::kConfiguration,
                   {"PE 1 has PEAL_HEAP_SIZE=1048576", "PE 0 has 33554432"});
      EXPECT_EQ(std::string(error.what()).find("mpirun -x") != std::string::npos, by_mpirun);
    }
  }
}

// Fails at 7f06408: the sentence spoke of PEAL_HEAP_SIZE.
TEST(RuntimeStart, UnequalTeamMemoryIsNamedOnAllPes) {
  for (const Error& error : errors_of(2, [](int rank) {
         Config config = small_config();
         if (rank == 1) config.team_memory *= 2;
         return config;
       })) {
    expect_error(error, ErrorCode::kConfiguration, {"PE 1", "another PEAL_TEAM_MEMORY"});
  }
}

TEST(RuntimeStart, UnequalQueuesAreNamedOnAllPes) {
  for (const Error& error : errors_of(2, [](int rank) {
         Config config = small_config();
         if (rank == 1) config.queues = 7;
         return config;
       })) {
    expect_error(error, ErrorCode::kConfiguration, {"PE 1 has", "PEAL_QUEUES=7"});
  }
}

TEST(RuntimeStart, UnequalDepthsAreNamedOnAllPes) {
  for (const Error& error : errors_of(2, [](int rank) {
         Config config = small_config();
         if (rank == 0) config.queue_depth = 2048;
         return config;
       })) {
    expect_error(error, ErrorCode::kConfiguration, {"PEAL_QUEUE_DEPTH=1024", "2048"});
  }
}

TEST(RuntimeStart, UnequalOrderingIsNamedOnAllPes) {
  for (const Error& error : errors_of(2, [](int rank) {
         Config config = small_config();
         if (rank == 1) config.relaxed_ordering = RelaxedOrdering::kOn;
         return config;
       })) {
    expect_error(error, ErrorCode::kConfiguration, {"another PEAL_RELAXED_ORDERING", "alike"});
  }
}

TEST(RuntimeStart, RefusesADepthOutOfRange) {
  for (const Error& error : errors_of(2, [](int) {
         Config config = small_config();
         config.queue_depth = 96;
         return config;
       })) {
    expect_error(error, ErrorCode::kInvalidArgument,
                 {"queue depth 96 must be a power of two from 128 to 16384", "PEAL_QUEUE_DEPTH"});
  }
}

TEST(RuntimeStart, RefusesQueuesOutOfRange) {
  Config config = small_config();
  config.queues = 1025;
  expect_error(error_of([&] { Runtime pe(bootstrap::make_single(), config); }),
               ErrorCode::kInvalidArgument, {"1025 queues per peer; 1 to 1024", "PEAL_QUEUES"});
}

TEST(RuntimeStart, RefusesAHeapLargerThanTheMachine) {
  for (const Error& error : errors_of(2, [](int) {
         Config config = small_config();
         config.heap_size = uint64_t{1} << 43;
         return config;
       })) {
    expect_error(error, ErrorCode::kOutOfMemory, {"peal-heap", "PEAL_HEAP_SIZE"});
  }
}

TEST(RuntimeStart, NamesAPeThatLeavesBeforeIt) {
  std::vector<Error> errors(3, {ErrorCode::kInternal, "no error"});
  bootstrap::run_threads(3, [&](Bootstrap& group) {
    if (group.rank() == 1) return;
    errors[static_cast<size_t>(group.rank())] = error_of([&] { const Runtime pe = start(group); });
  });
  expect_error(errors[0], ErrorCode::kPeerLost, {"rank 1 of 3"});
  expect_error(errors[2], ErrorCode::kPeerLost, {"rank 1 of 3"});
}

TEST(RuntimeStart, NamesAPeThatDoesNotCome) {
  std::vector<Error> errors(3, {ErrorCode::kInternal, "no error"});
  const auto attempt = [&](int times) {
    std::atomic<int> ended = 0;
    const auto body = [&](Bootstrap& group) {
      const auto rank = static_cast<size_t>(group.rank());
      while (rank == 1 && ended != 2) std::this_thread::yield();
      if (rank != 1) errors[rank] = error_of([&] { const Runtime pe = start(group); });
      ++ended;
    };
    bootstrap::run_threads(3, body, times * std::chrono::milliseconds(400));
    return errors[0];
  };
  with_more_time(attempt, [](const Error& error) { return contains(error, "rank 1 of 3"); });
  for (const size_t rank : {0u, 2u})
    expect_error(errors[rank], ErrorCode::kTimeout, {"rank 1 of 3"});
}

/// A variable set for the length of a scope.
class Variable {
 public:
  Variable(const char* name, const char* value) : name_(name) { setenv(name, value, 1); }
  ~Variable() { unsetenv(name_); }
  Variable(const Variable&) = delete;
  Variable& operator=(const Variable&) = delete;

 private:
  const char* name_;
};

struct Malformed {
  const char* name;
  const char* value;
  const char* part;
};

class StartWith : public testing::TestWithParam<Malformed> {};
INSTANTIATE_TEST_SUITE_P(
    Malformed, StartWith,
    testing::Values(Malformed{"PEAL_HEAP_SIZE", "lots", "a size from"},
                    Malformed{"PEAL_HEAP_SIZE", "-1", "a size from"},
                    Malformed{"PEAL_HEAP_SIZE", "1K", "a size from"},
                    Malformed{"PEAL_HEAP_SIZE", "", "a size from"},
                    Malformed{"PEAL_QUEUES", "0", "a whole number from 1 to 1024"},
                    Malformed{"PEAL_QUEUES", "4.5", "a whole number from 1 to 1024"},
                    Malformed{"PEAL_QUEUE_DEPTH", "1000", "a power of two"},
                    Malformed{"PEAL_TIMEOUT", "10m", "20ms or 10s"},
                    Malformed{"PEAL_BOOTSTRAP", "smoke",
                              "one of auto mpi pmix pmi torchrun tcp single"},
                    Malformed{"PEAL_BOOTSTRAP", "tcp", "needs PEAL_TCP_ID"},
                    Malformed{"PEAL_TCP_ID", "12", "PEAL_TCP_ID has 2 characters"},
                    Malformed{"PEAL_TRANSPORT", "pigeon", "one of auto"},
                    Malformed{"PEAL_INFO", "maybe", "on or off"},
                    Malformed{"PEAL_LOG", "loud", "one of error warn info debug"},
                    Malformed{"PEAL_HEAPSIZE", "64M", "did you mean PEAL_HEAP_SIZE"}));

TEST_P(StartWith, MalformedVariableIsRefusedByName) {
  const Variable variable(GetParam().name, GetParam().value);
  const std::string text = error_of([] { const Runtime pe = peal::start(); }).what();
  EXPECT_NE(text.find(GetParam().part), std::string::npos) << text;
}

TEST(RunMain, TurnsAnErrorIntoExitCode1) {
  EXPECT_EQ(run_main([]() -> int { fail(ErrorCode::kTimeout, "too late"); }), 1);
  EXPECT_EQ(run_main([] { return 7; }), 7);
}

// Kernels that wait for what never comes.
using Wait = Status (*)(const Context&, uint64_t*);
Status by_wait_until(const Context& ctx, uint64_t* word) {
  return wait_until(ctx, word, Compare::kEq, 99);
}
Status by_wait_any(const Context& ctx, uint64_t* word) {
  return wait_until_any(ctx, WaitSet<uint64_t>{word, 1}, Compare::kEq, 99).status;
}
Status by_wait_all(const Context& ctx, uint64_t* word) {
  return wait_until_all(ctx, WaitSet<uint64_t>{word, 1}, Compare::kEq, 99);
}
Status by_sync_all(const Context& ctx, uint64_t*) { return sync_all(ctx); }
Status by_barrier_all(const Context& ctx, uint64_t*) { return barrier_all(ctx); }

PEAL_KERNEL wait_for_ever(Verdict* verdict, Context ctx, Wait wait, uint64_t* word, Status wanted) {
  expect_eq(verdict, static_cast<unsigned>(wait(ctx, word)), static_cast<unsigned>(wanted));
}

PEAL_KERNEL put_three(Verdict* verdict, Context ctx, uint64_t* word) {
  for (uint64_t i = 0; i < 3; ++i) expect_ok(verdict, p(ctx, word, i, 0));
  expect_ok(verdict, quiet(ctx));
}

TEST(Dump, SaysWhereEveryQueueStands) {
  Runtime pe(bootstrap::make_single(), small_config());
  Symmetric<uint64_t> word(pe, 1);
  const std::string before = pe.dump();
  EXPECT_NE(before.find("PE 0 of 1: transport ibgda, NIC softnic-cpu, no failure"),
            std::string::npos)
      << before;
  EXPECT_NE(before.find("4          4          4          4  3              mlx5_0     ok"),
            std::string::npos)
      << "the self-test\n"
      << before;
  run_clean(pe, {}, put_three, pe.context(), word.data());
  const std::string after = pe.dump();
  EXPECT_NE(after.find("7          7          7          7  6              mlx5_0     ok"),
            std::string::npos)
      << after;
}

TEST(Dump, NamesTheFirstFailure) {
  Runtime pe(bootstrap::make_single(), small_config());
  pe.abort("enough");
  EXPECT_NE(pe.dump().find("failure: PE 0 aborted: enough"), std::string::npos) << pe.dump();
}

class EndlessWait : public testing::TestWithParam<Wait> {};
INSTANTIATE_TEST_SUITE_P(By, EndlessWait,
                         testing::Values(by_wait_until, by_wait_any, by_wait_all, by_sync_all,
                                         by_barrier_all));

/// Two PEs, of which the second launches nothing: the first one's barriers are endless too.
void on_the_first_of_two(const Config& config, const std::function<void(Runtime&)>& body) {
  bootstrap::run_threads(2, [&](Bootstrap& group) {
    Runtime pe = start(group, config);
    Symmetric<uint64_t> word(pe, 1);
    if (pe.my_pe() == 0) body(pe);
    pe.barrier();
  });
}

TEST_P(EndlessWait, EndsWhenTheHostAborts) {
  Config config = small_config();
  config.timeout = Microseconds(0);
  on_the_first_of_two(config, [](Runtime& pe) {
    uint64_t word = 0;
    Verdict verdict;
    Launch kernel = launch({.blocks = 2, .threads = 3}, wait_for_ever, &verdict, pe.context(),
                           GetParam(), &word, Status::kAborted);
    pe.abort("enough");
    kernel.wait();
    EXPECT_EQ(verdict.failures, 0u) << "saw " << verdict.seen;
    EXPECT_EQ(pe.failure().status, Status::kAborted);
    expect_error(error_of([&] { pe.check(); }), ErrorCode::kSystem,
                 {"PE 0: ", "PE 0 aborted: enough"});
    // It stays so.
    run({}, wait_for_ever, pe.context(), GetParam(), &word, Status::kAborted);
  });
}

TEST_P(EndlessWait, EndsAtTheDeadlineOfTheConfiguration) {
  Config config = small_config();
  config.timeout = std::chrono::milliseconds(30);
  on_the_first_of_two(config, [](Runtime& pe) {
    uint64_t word = 0;
    run({}, wait_for_ever, pe.context(), GetParam(), &word, Status::kTimeout);
    EXPECT_EQ(pe.failure().status, Status::kTimeout) << pe.failure().text;
  });
}

PEAL_KERNEL fill_and_wait(Verdict* verdict, Context ctx, uint64_t* words, uint32_t* sum) {
  for (uint64_t i = 0; i < 1000; ++i) {
    const Status status = p(ctx, words, i, 0);
    if (status == Status::kOk) continue;
    expect_eq(verdict, static_cast<unsigned>(status), static_cast<unsigned>(Status::kAborted));
    expect(verdict, quiet(ctx) != Status::kOk);
    expect(verdict, atomic_fetch_inc(ctx, sum, 0).status != Status::kOk);
    return;
  }
}

TEST(Abort, LeavesNoKernelStuckInAQueue) {
  Runtime pe(bootstrap::make_single(), small_config());
  Symmetric<uint64_t> words(pe, 1);
  Symmetric<uint32_t> sum(pe, 1);
  pe.abort("enough");
  Verdict verdict;
  launch({.blocks = 4, .threads = 64}, fill_and_wait, &verdict, pe.context(), words.data(),
         sum.data())
      .wait();
  EXPECT_EQ(verdict.failures, 0u) << "line " << verdict.line << " saw " << verdict.seen;
  EXPECT_EQ(pe.failure().status, Status::kAborted);
}

}  // namespace
}  // namespace peal::api_test

int main(int argc, char** argv) { return peal::api_test::run_tests(argc, argv); }
