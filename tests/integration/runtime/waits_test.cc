// SPDX-License-Identifier: Apache-2.0
//
// What the host says of waits. Hazard: a job that deadlocks ends after its deadline with "check()
// ok" and "no failure", because its kernels dropped the Status of the wait.
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "tests/support/error_of.h"
#include "tests/support/injector.h"
#include "tests/support/job.h"

namespace peal::api_test {
namespace {

using std::chrono::milliseconds;

/// Two PEs in this process, whose waits give up soon.
void on_two(const std::function<void(Runtime&)>& body, milliseconds timeout = milliseconds(20)) {
  Config config = small_config();
  config.timeout = timeout;
  bootstrap::run_threads(2, [&](Bootstrap& group) {
    Runtime pe = start(group, config);
    body(pe);
    pe.barrier();
  });
}

PEAL_KERNEL drop_the_status(Context ctx, const uint64_t* flag) {
  if (block_in_grid() != 1 || thread_in_block() != 2) return;
  static_cast<void>(signal_wait_until(ctx, flag, Compare::kGe, 3).status);
}

TEST(Waits, ThatTimedOutUnseenAreWhatCheckThrows) {
  on_two([](Runtime& pe) {
    Symmetric<uint64_t> words(pe, 16);
    if (pe.my_pe() == 0) {
      words[1] = 2;
      launch({.blocks = 2, .threads = 3}, drop_the_status, pe.context(), &words[1]).wait();
      expect_error(
          error_of([&] { pe.check(); }), ErrorCode::kSystem,
          {"PE 0: kernel drop_the_status (waits_test.cc:", "), block 1, thread 2, waited for",
           "(signal_wait_until) the word at byte 8 of the 128 bytes at heap offset 0x",
           "to be >= 3, found 2: timeout"});
      EXPECT_EQ(pe.status(), Status::kTimeout);
      EXPECT_EQ(pe.failure().status, Status::kTimeout);
    } else {
      pe.check();
    }
    pe.barrier();
    EXPECT_EQ(pe.recover(), 0u);
    pe.check();
  });
}

PEAL_KERNEL meet_alone(Context ctx) { static_cast<void>(barrier_all(ctx)); }

TEST(Waits, OfABarrierNameThePeThatHasNotCome) {
  on_two([](Runtime& pe) {
    if (pe.my_pe() == 1) {
      launch({}, meet_alone, pe.context()).wait();
      expect_error(error_of([&] { pe.check(); }), ErrorCode::kSystem,
                   {"kernel meet_alone (waits_test.cc:",
                    "), block 0, thread 0, waited for PE 0 to enter barrier 1",
                    "it is at barrier 0: timeout"});
    }
    pe.barrier();
  });
}

PEAL_KERNEL ask_again(Context ctx, const uint64_t* flag) {
  for (int i = 0; i < 2; ++i) {
    if (handled(ctx, wait_until(ctx, flag, Compare::kEq, 1)) == Status::kOk) return;
  }
}

TEST(Waits, WhoseStatusAKernelHandledAreNoFailure) {
  on_two([](Runtime& pe) {
    Symmetric<uint64_t> flag(pe, 1);
    launch({}, ask_again, pe.context(), flag.data()).wait();
    pe.check();
    EXPECT_EQ(pe.status(), Status::kOk);
  });
}

PEAL_KERNEL wait_for_signal(Context ctx, const uint64_t* flag) {
  if (block_in_grid() == 2) {
    static_cast<void>(signal_wait_until(ctx, flag, Compare::kGe, 1).status);
  }
}

/// Asks for the dump until it has all of `parts`; fails when it never does.
void expect_in_dump(const Runtime& pe, const std::vector<std::string>& parts) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(60);
  std::string text;
  const auto missing = [&](const std::string& part) {
    return text.find(part) == std::string::npos;
  };
  do {
    text = pe.dump();
  } while (std::ranges::any_of(parts, missing) && std::chrono::steady_clock::now() < end);
  for (const std::string& part : parts) EXPECT_FALSE(missing(part)) << part << " in\n" << text;
}

// A deadlock, asked while it lasts: PE 0 waits in a barrier for PE 1, and PE 1 for a signal.
TEST(Waits, InACircleAreNamedByTheDumpOfEitherPe) {
  on_two(
      [](Runtime& pe) {
        Symmetric<uint64_t> flag(pe, 1);
        Launch kernel = pe.my_pe() == 0
                            ? launch({}, meet_alone, pe.context())
                            : launch({.blocks = 3}, wait_for_signal, pe.context(), flag.data());
        expect_in_dump(pe, {"PE 0: kernel meet_alone (waits_test.cc:",
                            "), block 0, thread 0, waits for PE 1 to enter barrier 1",
                            "PE 1: kernel wait_for_signal (waits_test.cc:",
                            "), block 2, thread 0, waits for (signal_wait_until)",
                            "waiting in a circle: PE 0: kernel meet_alone (waits_test.cc:",
                            "), block 0", "to be >= 1, found 0, which only PE 0 can write"});
        pe.barrier();
        if (pe.my_pe() == 0) pe.abort("the test has seen it");
        kernel.wait();
      },
      milliseconds(0));
}

TEST(Waits, ThatAreOverAreNotInTheDump) {
  on_two([](Runtime& pe) {
    const std::string text = pe.dump();
    EXPECT_EQ(text.find("waits for"), std::string::npos) << text;
    pe.barrier();
  });
}

PEAL_KERNEL put_from_outside(Context ctx, std::byte* there, const std::byte* here) {
  static_cast<void>(put(ctx, there, here, 2048, 1));  // more than a lane moves by itself
}
PEAL_KERNEL put_past_the_part(Context ctx, WindowHandle window, std::byte* heap) {
  if (ctx.pe == 0) static_cast<void>(put(ctx, window.at(60), heap, 8, 1));
}

PEAL_KERNEL put_past_the_end(Context ctx, std::byte* there, const std::byte* here) {
  static_cast<void>(put(ctx, there, here, 2048, 1));  // more than a lane moves by itself
}
PEAL_KERNEL add_to_half_a_word(Context ctx, std::byte* there) {
  static_cast<void>(atomic_add(ctx, reinterpret_cast<uint64_t*>(there + 4), 1, 1));
}
PEAL_KERNEL signal_to_nobody(Context ctx, uint64_t* word) {
  if (thread_in_block() == 1) static_cast<void>(signal(ctx, Signal::set(word, 1, 2)));
}

/// The sentence of PE 0 after the kernel ran there.
template <class... Parameters, class... Arguments>
void expect_sentence(Runtime& pe, const std::vector<std::string>& parts,
                     void (*kernel)(Parameters...), Arguments&&... arguments) {
  if (pe.my_pe() == 0) {
    launch({.threads = 2}, kernel, pe.context(), std::forward<Arguments>(arguments)...).wait();
    expect_error(error_of([&] { pe.check(); }), ErrorCode::kSystem, parts);
  }
  pe.barrier();
  pe.recover();
}

TEST(Refused, ArgumentsAreToldWithTheOperationTheRangeAndTheRemedy) {
  on_two(
      [](Runtime& pe) {
        Symmetric<std::byte> data(pe, 2048);
        std::byte mine[64] = {};
        std::byte large[2048] = {};
        std::byte* const heap = pe.context().heap.base;
        std::byte* const end = heap + pe.context().heap.bytes;
        expect_sentence(pe,
                        {"kernel put_from_outside (waits_test.cc:",
                         "), block 0, thread 0: the source of put used PE 0 "
                         "(itself), address ",
                         "2048 bytes: address not registered; allocate it in the symmetric heap [",
                         "or register_local(0x", ", 2048) first"},
                        put_from_outside, data.data(), large);
        expect_sentence(pe,
                        {"kernel put_past_the_end (waits_test.cc:",
                         "), block 0, thread 0: put used PE 1, address ",
                         "address not symmetric; at a PE an operation takes what lies, whole, in",
                         "register_window; the heap ends after 16 bytes of it"},
                        put_past_the_end, end - 16, data.data());
        const WindowHandle window = pe.register_window(mine, sizeof(mine));
        expect_sentence(
            pe,
            {"kernel put_past_the_part (waits_test.cc:", "put used PE 1, byte 60 of window",
             "8 bytes: address not symmetric; the part of PE 1 is shorter, or the handle"},
            put_past_the_part, window, data.data());
        pe.unregister_window(window);
        expect_sentence(pe,
                        {"atomic_add used PE 1",
                         "address misaligned; it must be a multiple of 8 "
                         "and is 4 beyond one"},
                        add_to_half_a_word, data.data());
        expect_sentence(pe,
                        {"kernel signal_to_nobody (waits_test.cc:",
                         "), block 0, thread 1: signal used PE 2", "no such pe; PEs are 0 to 1"},
                        signal_to_nobody, reinterpret_cast<uint64_t*>(data.data()));
      },
      milliseconds(20000));
}

/// Makes a call with one argument that is wrong.
PEAL_KERNEL refused_call(Context ctx, Team team, Call call, uint64_t* word) {
  uint64_t* const none = nullptr;
  const Blocks<int64_t> no_lists{nullptr, nullptr};
  if (thread_in_block() != 0) return;
  switch (call) {
    case Call::kQuiet:
      return static_cast<void>(quiet(ctx, 2));
    case Call::kFence:
      return static_cast<void>(fence(ctx, 2));
    case Call::kPutSignal:
      return static_cast<void>(put_signal(ctx, word, word, 1, Signal::set(none, 1, 1)));
    case Call::kAtomicFetchMax:
      return static_cast<void>(atomic_fetch_max(ctx, none, 1, 1));
    case Call::kAtomicFetchAdd:
      return static_cast<void>(atomic_fetch_add_nbi(
          ctx, reinterpret_cast<uint64_t*>(reinterpret_cast<std::byte*>(word) + 1), word, 1, 1));
    case Call::kBroadcast:
      return static_cast<void>(broadcast(ctx, thread, team, word, word, 1, 7));
    case Call::kScan:
      return static_cast<void>(scan(ctx, thread, team, word, none, 1, op::sum));
    case Call::kAllToAllV:
      return static_cast<void>(all_to_all_v(ctx, thread, team, word, no_lists, word, no_lists));
    default:
      return;
  }
}

/// Hazard: a program with five reductions was told that "a collective call" was wrong.
TEST(Refused, CallsAreNamedAsTheProgramWritesThem) {
  const std::pair<Call, std::string> said[] = {
      {Call::kQuiet, ": quiet used PE 2, "},
      {Call::kFence, ": fence used PE 2, "},
      {Call::kPutSignal, ": the signal of put_signal used PE 1, "},
      {Call::kAtomicFetchMax, ": atomic_fetch_max used PE 1, "},
      {Call::kAtomicFetchAdd, ": the result of atomic_fetch_add used PE 0 (itself), "},
      {Call::kBroadcast, ": broadcast used PE 7, "},
      {Call::kScan, ": the source of scan used PE 0 (itself), "},
      {Call::kAllToAllV, ": the lists of all_to_all_v used PE 0, "}};
  on_two(
      [&](Runtime& pe) {
        Symmetric<uint64_t> word(pe, 2);
        for (const auto& [call, sentence] : said) {
          expect_sentence(pe, {sentence}, refused_call, pe.world(), call, word.data());
        }
      },
      milliseconds(20000));
}

PEAL_KERNEL put_alone(Context ctx, uint64_t* word, Status* ended) {
  *ended = put(ctx, thread, word, word, sizeof(*word), 1);
}

// A PE whose process is stopped looks to the others like one that deadlocks, and to their NICs like
// one that is not there: the failure of a queue was told as "flushed after an earlier error".
TEST(Waits, ForAStoppedPeSayThatItIsStopped) {
  const auto at = static_cast<pid_t*>(
      ::mmap(nullptr, sizeof(pid_t), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0));
  ASSERT_NE(at, MAP_FAILED);
  const auto live = [at](Bootstrap& group) {
    Config config = small_config();
    config.timeout = milliseconds(20);
    Runtime pe = start(group, config);
    Symmetric<uint64_t> word(pe, 1);
    const auto patient = pe.make_context({.timeout = std::chrono::seconds(60)});
    if (pe.my_pe() == 1) {
      *at = ::getpid();
      pe.barrier();
      ::raise(SIGSTOP);
    } else {
      pe.barrier();
      const std::string says = fmt::format("PE 1 (process {}) is stopped: kill -CONT {}", *at, *at);
      expect_in_dump(pe, {"PE 1 did not say what it waits for", says});
      launch({}, meet_alone, pe.context()).wait();
      expect_error(error_of([&] { pe.check(); }), ErrorCode::kSystem,
                   {"waited for PE 1 to enter barrier 1", says});
      const fault_test::Injector nic;
      nic.inject("wqe=1 fault=syndrome:0x15");
      Status ended = Status::kOk;
      launch({}, put_alone, Context{patient.value()}, &word[0], &ended).wait();
      EXPECT_EQ(ended, Status::kQueueError);
      expect_error(error_of([&] { pe.check(); }), ErrorCode::kSystem,
                   {"peer does not answer", says});
      nic.clear();
      ::kill(*at, SIGCONT);
    }
    pe.barrier();
    return testing::Test::HasFailure() ? 1 : 0;
  };
  bootstrap::run_processes(
      2, live, {.deadline = std::chrono::seconds(60), .job = std::chrono::seconds(200)});
  ::munmap(at, sizeof(pid_t));
}

}  // namespace
}  // namespace peal::api_test
