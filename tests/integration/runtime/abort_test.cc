// SPDX-License-Identifier: Apache-2.0
//
// Runtime::abort() and on_failure(): waits end on all PEs, in threads and in processes, everybody
// is told why, and what comes afterwards works.
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <future>
#include <mutex>
#include <stdexcept>
#include <string>
#include <vector>

#include "tests/support/job.h"
#include "tests/support/require.h"

namespace peal::api_test {
namespace {

using std::chrono::seconds;

Config patient_config() {
  Config config = small_config();
  config.timeout = Microseconds(0);  // nothing but the abort ends a wait
  return config;
}

PEAL_KERNEL wait_for_ever(Status* ended, Context ctx, uint64_t* word) {
  ended[block_in_grid()] = wait_until(ctx, word, Compare::kEq, 99);
}
PEAL_KERNEL say(Status* ended, Context ctx, uint64_t* word, int pe) {
  *ended = p(ctx, word, 99, pe);
  if (*ended == Status::kOk) *ended = quiet(ctx);
}

/// All PEs wait for what nobody says; PE 1 calls it off.
void end_by_abort(Runtime& pe) {
  auto* const word = pe.allocate<uint64_t>(1);
  Status ended[4] = {};
  Launch kernel = launch({.blocks = 4, .threads = 1}, wait_for_ever, ended, pe.context(), word);
  if (pe.my_pe() == 1) pe.abort("the input is wrong");
  kernel.wait();
  for (const Status status : ended) require(status == Status::kAborted, to_string(status));
  const Failure failure = pe.failure();
  require(failure.status == Status::kAborted && failure.pe == 1, failure.text);
  require(failure.text == "PE 1 aborted: the input is wrong", failure.text);
  require(pe.status() == Status::kAborted, to_string(pe.status()));
  pe.barrier();
  // Contexts of before stay as they are; recovery brings them back.
  launch({}, wait_for_ever, ended, pe.context(), word).wait();
  require(ended[0] == Status::kAborted, to_string(ended[0]));
  pe.barrier();
  pe.recover();
  pe.check();
  require(pe.status() == Status::kOk, to_string(pe.status()));
  Launch again = launch({}, wait_for_ever, ended, pe.context(), word);
  Status said = Status::kTimeout;
  launch({}, say, &said, pe.context(), word, (pe.my_pe() + 1) % pe.n_pes()).wait();
  require(said == Status::kOk, to_string(said));
  again.wait();
  require(ended[0] == Status::kOk, to_string(ended[0]));
  pe.barrier();
}

// Processes first: a sanitizer follows only children of a process with one thread.
TEST(AbortInProcesses, EndsTheWaitsOfAll) {
  bootstrap::run_processes(4,
                           [&](Bootstrap& group) {
                             Runtime pe = start(group, patient_config());
                             end_by_abort(pe);
                             return 0;
                           },
                           {.deadline = seconds(60), .job = seconds(200)});
}

/// A dead PE is nobody to tell and nobody to wait for: the job would be killed before a deadline.
TEST(AbortInProcesses, WorksWhenAPeIsDead) {
  std::string text = "no error";
  try {
    bootstrap::run_processes(3,
                             [&](Bootstrap& group) {
                               Config config = patient_config();
                               config.bootstrap_timeout = std::chrono::minutes(10);
                               Runtime pe = start(group, config);
                               auto* const word = pe.allocate<uint64_t>(1);
                               const auto own = pe.make_context();
                               pe.barrier();
                               if (pe.my_pe() == 2) _exit(3);
                               require(eventually([&] { return !pe.lost_pes().empty(); }), "lost");
                               pe.abort("one of us is gone");
                               Status ended = Status::kOk;
                               launch({}, wait_for_ever, &ended, pe.context(), word).wait();
                               require(ended == Status::kPeerLost || ended == Status::kAborted,
                                       to_string(ended));
                               return 0;
                             },
                             {.deadline = std::chrono::minutes(10), .job = seconds(100)});
  } catch (const Error& error) {
    text = error.what();
  }
  EXPECT_EQ(text, "rank 2 of 3 exited with code 3");
}

TEST(Abort, EndsTheWaitsOfPesInThreads) {
  bootstrap::run_threads(3, [&](Bootstrap& group) {
    Runtime pe = start(group, patient_config());
    end_by_abort(pe);
  });
}

TEST(Abort, OfAContextLeavesTheOthersAlone) {
  bootstrap::run_threads(2, [&](Bootstrap& group) {
    Runtime pe = start(group, patient_config());
    auto* const word = pe.allocate<uint64_t>(2);
    Status ended[2] = {};
    {
      const auto doomed = pe.make_context();
      pe.barrier();
      Launch kernel = launch({}, wait_for_ever, &ended[0], Context{doomed.value()}, word);
      Launch other = launch({}, wait_for_ever, &ended[1], pe.context(), word + 1);
      if (pe.my_pe() == 0) pe.abort(doomed.value(), "not needed");
      kernel.wait();
      EXPECT_EQ(ended[0], Status::kAborted);
      EXPECT_EQ(pe.failure().text, "PE 0 aborted: not needed");
      Status said = Status::kTimeout;
      launch({}, say, &said, pe.context(), word + 1, 1 - pe.my_pe()).wait();
      EXPECT_EQ(said, Status::kOk);
      other.wait();
      EXPECT_EQ(ended[1], Status::kOk);
      pe.barrier();
    }
    // The failure goes with the context; its slot serves the next one.
    EXPECT_EQ(pe.status(), Status::kOk) << pe.failure().text;
    const auto next = pe.make_context();
    Status said = Status::kTimeout;
    launch({}, say, &said, Context{next.value()}, word, 1 - pe.my_pe()).wait();
    EXPECT_EQ(said, Status::kOk);
    launch({}, wait_for_ever, ended, Context{next.value()}, word).wait();
    EXPECT_EQ(ended[0], Status::kOk);
    pe.check();
    pe.barrier();
  });
}

TEST(Abort, MayBeCalledTwiceAndByAllAtOnce) {
  bootstrap::run_threads(4, [&](Bootstrap& group) {
    Runtime pe = start(group, patient_config());
    auto* const word = pe.allocate<uint64_t>(1);
    for (int round = 0; round < 20; ++round) {
      Status ended = Status::kOk;
      Launch kernel = launch({}, wait_for_ever, &ended, pe.context(), word);
      pe.abort("first");
      pe.abort("second");
      kernel.wait();
      EXPECT_EQ(ended, Status::kAborted);
      EXPECT_NE(pe.failure().text.find("aborted: "), std::string::npos);
      if (pe.failure().pe == pe.my_pe()) {
        EXPECT_NE(pe.failure().text.find("first"), std::string::npos);
      }
      pe.barrier();
      pe.recover();
      EXPECT_EQ(pe.status(), Status::kOk) << "an abort of before arrived after the recovery";
      pe.barrier();
    }
  });
}

// Their messages are one message: a peer whose queue they have filled was told.
TEST(Abort, ByManyThreadsIsNoReasonToWarn) {
  testing::internal::CaptureStderr();
  bootstrap::run_threads(2, [&](Bootstrap& group) {
    Runtime pe = start(group, patient_config());
    std::vector<std::future<void>> threads;
    for (int i = 0; i < 8; ++i) {
      threads.push_back(std::async(std::launch::async, [&pe] {
        for (int again = 0; again < 50; ++again) pe.abort("enough");
      }));
    }
    for (std::future<void>& thread : threads) thread.get();
    pe.barrier();
  });
  EXPECT_EQ(testing::internal::GetCapturedStderr().find("could not be told"), std::string::npos);
}

TEST(Abort, OfAContextOfAnotherRuntimeIsRefused) {
  Runtime one(bootstrap::make_single(), small_config());
  Runtime other(bootstrap::make_single(), small_config());
  EXPECT_THROW(one.abort(other.context(), "mine"), Error);
  ContextFields dropped;
  {
    const auto context = one.make_context();
    dropped = context.value();
  }
  EXPECT_THROW(one.abort(dropped, "gone"), Error);
  EXPECT_EQ(one.status(), Status::kOk);
}

TEST(Abort, CutsAReasonThatIsTooLong) {
  bootstrap::run_threads(2, [&](Bootstrap& group) {
    Runtime pe = start(group, patient_config());
    if (pe.my_pe() == 0) pe.abort(std::string(100'000, 'x'));
    EXPECT_TRUE(eventually([&] { return pe.status() == Status::kAborted; }));
    EXPECT_EQ(pe.failure().text, "PE 0 aborted: " + std::string(1000, 'x'));
    pe.barrier();
  });
}

PEAL_KERNEL misuse(Status* ended, Context ctx, uint64_t* word) { *ended = p(ctx, word, 7, 99); }

/// What a callback was told.
class Told {
 public:
  void operator()(const Failure& failure) {
    const std::lock_guard lock(mutex_);
    failures_.push_back(failure);
  }
  size_t count() const {
    const std::lock_guard lock(mutex_);
    return failures_.size();
  }
  Failure first() const {
    const std::lock_guard lock(mutex_);
    return failures_.at(0);
  }

 private:
  mutable std::mutex mutex_;
  std::vector<Failure> failures_;
};

TEST(OnFailure, IsCalledOnceWhileTheKernelSpinsAndAgainAfterRecovery) {
  Runtime pe(bootstrap::make_single(), patient_config());
  Symmetric<uint64_t> word(pe, 1);
  Told told;
  pe.on_failure(std::ref(told));
  Status ended = Status::kOk;
  Launch spinning = launch({}, wait_for_ever, &ended, pe.context(), word.data());
  Status misused = Status::kOk;
  launch({}, misuse, &misused, pe.context(), word.data()).wait();
  EXPECT_TRUE(eventually([&] { return told.count() == 1; }));
  EXPECT_EQ(told.first().status, Status::kBadPe);
  EXPECT_EQ(told.first().text, pe.failure().text);
  pe.abort("seen");
  spinning.wait();
  EXPECT_EQ(told.count(), 1u);
  pe.recover();
  launch({}, misuse, &misused, pe.context(), word.data()).wait();
  EXPECT_TRUE(eventually([&] { return told.count() == 2; }));
}

TEST(OnFailure, IsCalledForWhatHappenedBefore) {
  Runtime pe(bootstrap::make_single(), small_config());
  pe.abort("early");
  Told told;
  pe.on_failure(std::ref(told));
  EXPECT_TRUE(eventually([&] { return told.count() == 1; }));
  EXPECT_EQ(told.first().text, "PE 0 aborted: early");
}

TEST(OnFailure, TellsOfAnAbortOfAnotherPe) {
  bootstrap::run_threads(2, [&](Bootstrap& group) {
    Runtime pe = start(group, patient_config());
    Told told;
    pe.on_failure(std::ref(told));
    pe.barrier();
    if (pe.my_pe() == 1) pe.abort("enough");
    EXPECT_TRUE(eventually([&] { return told.count() == 1; }));
    EXPECT_EQ(told.first().pe, 1);
    pe.on_failure({});
    pe.barrier();
  });
}

TEST(OnFailure, MayThrowAndMayUseTheRuntime) {
  bootstrap::run_threads(2, [&](Bootstrap& group) {
    Runtime pe = start(group, patient_config());
    auto* const word = pe.allocate<uint64_t>(1);
    std::promise<std::string> dump;
    pe.on_failure([&](const Failure& failure) {
      if (failure.status != Status::kAborted) pe.abort("PE saw: " + failure.text);
      dump.set_value(pe.dump());
      throw std::runtime_error("of the callback's own");
    });
    pe.barrier();
    Status ended = Status::kOk;
    Launch kernel = launch({}, wait_for_ever, &ended, pe.context(), word);
    Status misused = Status::kOk;
    if (pe.my_pe() == 1) launch({}, misuse, &misused, pe.context(), word).wait();
    kernel.wait();
    EXPECT_EQ(ended, Status::kAborted);
    EXPECT_NE(dump.get_future().get().find("failure: "), std::string::npos);
    EXPECT_EQ(pe.failure().pe, pe.my_pe() == 1 ? 99 : 1);
    pe.barrier();
  });
}

/// Hazard: callbacks ran on the thread that alone hears of the other PEs, so that one that waited
/// for news of them waited for itself.
TEST(OnFailure, MayWaitForWhatAnotherPeSays) {
  bootstrap::run_threads(2, [&](Bootstrap& group) {
    Runtime pe = start(group);
    auto* const word = pe.allocate<uint64_t>(1);
    std::promise<void> called;
    std::promise<void> heard;
    pe.on_failure([&](const Failure&) {
      called.set_value();
      heard.get_future().wait();
    });
    Status ended = Status::kOk;
    Launch waiting = launch({}, wait_for_ever, &ended, pe.context(), word);
    Status misused = Status::kOk;
    launch({}, misuse, &misused, pe.context(), word).wait();
    called.get_future().wait();
    pe.barrier();
    if (pe.my_pe() == 1) pe.abort("enough");
    waiting.wait();
    EXPECT_EQ(ended, Status::kAborted);
    heard.set_value();
    pe.barrier();
  });
}

TEST(OnFailure, ThatWasTakenBackIsNotCalled) {
  Runtime pe(bootstrap::make_single(), small_config());
  Told told;
  pe.on_failure(std::ref(told));
  pe.on_failure({});
  Told other;
  pe.abort("now");
  pe.on_failure(std::ref(other));
  EXPECT_TRUE(eventually([&] { return other.count() == 1; }));
  EXPECT_EQ(told.count(), 0u);
}

}  // namespace
}  // namespace peal::api_test

int main(int argc, char** argv) { return peal::api_test::run_tests(argc, argv); }
