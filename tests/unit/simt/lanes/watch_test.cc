// SPDX-License-Identifier: Apache-2.0
//
// What is said of lanes that never come back. Hazard: a loop over a plain word, which nothing
// preempts, and a crash, look like a job that hangs and one that ends for no reason.
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <string>
#include <string_view>
#include <thread>

#include "simt/lanes/crash.h"
#include "simt/lanes/lane.h"
#include "simt/lanes/sanitizer.h"
#include "simt/lanes/symbol.h"
#include "simt/simulation/simulation.h"
#include "tests/unit/simt/support.h"

namespace peal::simt {
namespace {

/// What goes to stderr while it lives, for a thread to wait for.
class Stderr {
 public:
  Stderr() : before_(::dup(STDERR_FILENO)) {
    EXPECT_EQ(::pipe(pipe_), 0);
    ::dup2(pipe_[1], STDERR_FILENO);
  }
  ~Stderr() {
    ::dup2(before_, STDERR_FILENO);
    for (const int fd : {before_, pipe_[0], pipe_[1]}) ::close(fd);
  }
  Stderr(const Stderr&) = delete;
  Stderr& operator=(const Stderr&) = delete;

  /// The next line; waits for it.
  std::string line() const {
    std::string text;
    for (char c = 0; c != '\n' && ::read(pipe_[0], &c, 1) == 1;) text += c;
    return text;
  }

 private:
  const int before_;
  int pipe_[2] = {-1, -1};
};

Limits with_busy_ms(unsigned busy_ms) {
  Limits changed = limits();
  changed.busy_ms = busy_ms;
  return changed;
}

[[gnu::noinline]] void spin_by_hand(const std::atomic<bool>& go) {
  while (!go.load(std::memory_order_relaxed)) {
  }
}

/// What is said of a lane that loops until it is.
std::string said_of_a_loop(void (*start)(const LaneGrid& grid, const std::function<void()>& body)) {
  const LimitsFor soon(with_busy_ms(5));
  std::atomic<bool> go = false;
  std::string said;
  const Stderr captured;
  std::thread reader([&] {
    said = captured.line();
    go = true;
  });
  const LaneGrid grid{.blocks = 2, .threads = 3, .kernel = reinterpret_cast<void*>(&spin_by_hand)};
  start(grid, [&] {
    if (blockIdx.x == 1 && threadIdx.x == 2) spin_by_hand(go);
  });
  reader.join();
  return said;
}

TEST(Watch, TellsOfALaneThatLoopsByItself) {
  if (kThreadSanitized) GTEST_SKIP() << "it holds signals back from a loop that calls nothing";
  // Also where the thread that waits for the grid runs the lane.
  for (const std::string& said :
       {said_of_a_loop([](const LaneGrid&grid, const auto&body) { run(grid, body); }),
        said_of_a_loop(
            [](const LaneGrid&grid, const auto&body) { launch_and_wait(grid, body); })}) {
    EXPECT_EQ(said.find("peal: kernel spin_by_hand, block 1, thread 2, has run for 5 ms without"),
              0u)
        << said;
    EXPECT_NE(said.find("and is at spin_by_hand"), std::string::npos) << said;
  }
}

TEST(Watch, SaysNothingOfLanesThatYield) {
  const LimitsFor soon(with_busy_ms(1));
  testing::internal::CaptureStderr();
  run({.blocks = 2, .threads = 4}, [] {
    for (int i = 0; i < 20000; ++i) yield();
  });
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "");
}

// The frame is used behind the call: no compiler makes a loop of it.
[[gnu::noinline]] unsigned descend(volatile unsigned* left) {
  volatile unsigned char frame[512] = {};
  if (*left == 0) return 0;
  *left = *left - 1;
  const unsigned below = descend(left);
  return below + frame[below % sizeof(frame)];
}

enum class Way { kStore, kCallNothing, kAbort, kDivide, kTrap, kFile, kOverflow };

int* volatile nowhere = reinterpret_cast<int*>(0x10);
void (*volatile no_function)() = nullptr;
volatile int zero = 0;

/// A mapped page of a file that has none.
volatile char* beyond_a_file() {
  return static_cast<volatile char*>(
      ::mmap(nullptr, 4096, PROT_READ, MAP_SHARED, ::memfd_create("empty", 0), 0));
}

[[gnu::noinline]] void crash_by(Way way) {
  if (way == Way::kStore) *nowhere = 1;
  if (way == Way::kCallNothing) no_function();
  if (way == Way::kAbort) std::abort();
  if (way == Way::kDivide) zero = 100 / zero;
  if (way == Way::kTrap) __builtin_trap();
  if (way == Way::kFile) zero = *beyond_a_file();
  volatile unsigned left = way == Way::kOverflow ? 100000 : 1;
  static_cast<void>(descend(&left));
}

template <int kNumber>
void crashing_kernel(Way way) {
  if (blockIdx.x == 1 && threadIdx.y == 1) crash_by(way);
}

void run_crashing(Way way) {
  const LaneGrid grid{
      .blocks = 2, .threads = {1, 2, 1}, .kernel = reinterpret_cast<void*>(&crashing_kernel<7>)};
  run(grid, [way] { crashing_kernel<7>(way); });
}

struct CrashCase {
  Way way;
  int signal;
  const char* said;
};

// A bare "Segmentation fault" of a job of a thousand lanes names nobody.
TEST(CrashDeathTest, NamesKernelBlockThreadAndLine) {
  if (sanitized()) GTEST_SKIP() << "the sanitizer says so";
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const std::string lane = "peal: kernel crashing_kernel, block \\(1,0,0\\), thread \\(0,1,0\\): ";
  const std::string place = ", in crash_by \\(watch_test.cc:[0-9]+\\)\n";
  for (const CrashCase& row : {
         CrashCase{Way::kStore, SIGSEGV, "segmentation fault at address 0x10"},
             CrashCase{Way::kCallNothing, SIGSEGV, "segmentation fault at address 0x0"},
             CrashCase{Way::kAbort, SIGABRT, "abort\\(\\)"},
#if defined(__x86_64__)  // elsewhere a division by zero is no error
             CrashCase{Way::kDivide, SIGFPE, "integer division by zero"},
             CrashCase{Way::kTrap, SIGILL, "illegal instruction .*"},
#endif
             CrashCase {
           Way::kFile, SIGBUS, "bus error at address 0x[0-9a-f]+ .*/dev/shm\\)"
         }
       }) {
    EXPECT_EXIT(run_crashing(row.way), testing::KilledBySignal(row.signal),
                "^" + lane + row.said + place + "$");
  }
}

TEST(CrashDeathTest, SaysThatAStackHasOverflowedAndHowToEnlargeIt) {
  if (sanitized()) GTEST_SKIP() << "the sanitizer says so";
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(run_crashing(Way::kOverflow), testing::KilledBySignal(SIGSEGV),
              "thread \\(0,1,0\\): stack overflow: a lane has used up its stack of 65536 bytes, in "
              "descend \\(watch_test.cc:[0-9]+\\).*Limits::stack_bytes, set_limits");
}

TEST(CrashDeathTest, SaysOneLineThoughManyLanesCrash) {
  if (sanitized()) GTEST_SKIP() << "the sanitizer says so";
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const LaneGrid grid{.blocks = 16, .threads = 2, .kernel = reinterpret_cast<void*>(&crash_by)};
  const LimitsFor many(with_workers(16));
  EXPECT_EXIT(run(grid, [] { crash_by(Way::kStore); }), testing::KilledBySignal(SIGSEGV),
              "^peal: kernel crash_by, block [^\n]*\n$");
}

// Whoever has a handler keeps it, whenever it was installed.
TEST(CrashDeathTest, LeavesSignalsToTheProgramsHandlers) {
  if (sanitized()) GTEST_SKIP() << "the sanitizer has its own";
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const auto take_over = [](int signal) { ::signal(signal, [](int) { ::_exit(3); }); };
  for (const Way way : {Way::kStore, Way::kAbort}) {
    const int signal = way == Way::kStore ? SIGSEGV : SIGABRT;
    EXPECT_EXIT((take_over(signal), run_crashing(way)), testing::ExitedWithCode(3), "^$");
    EXPECT_EXIT((run({.blocks = 1, .threads = 1}, [] {}), take_over(signal), run_crashing(way)),
                testing::ExitedWithCode(3), "^$");
  }
}

// What comes from outside is not the fault of the lane that happens to run.
TEST(CrashDeathTest, SaysNothingOfSignalsOfOtherProcesses) {
  if (sanitized()) GTEST_SKIP() << "the sanitizer says so";
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  // To the lane's own thread: kill() may choose another one, which the end of run() can overtake.
  EXPECT_EXIT(run({.blocks = 1, .threads = 1}, [] { ::pthread_kill(::pthread_self(), SIGSEGV); }),
              testing::KilledBySignal(SIGSEGV), "^$");
}

TEST(CrashDeathTest, NamesThePeAndTellsTheHook) {
  if (sanitized()) GTEST_SKIP() << "the sanitizer says so";
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const auto prepare = [] {
    set_pe_of_process(3);
    set_pe_of_process(3);
    set_crash_hook([](const Crash& crash) {
      const std::string_view text = crash.text == nullptr ? "a host thread" : crash.text;
      const std::string said = "heard of " + std::to_string(crash.signal) + ": ";
      if (::write(STDERR_FILENO, said.data(), said.size()) < 0) return;
      if (::write(STDERR_FILENO, text.data(), text.size()) < 0) return;
    });
  };
  EXPECT_EXIT((prepare(), run_crashing(Way::kStore)), testing::KilledBySignal(SIGSEGV),
              "^PE 3: (kernel [^\n]*)\nheard of 11: PE 3: (kernel [^\n]*)$");
  EXPECT_EXIT((prepare(), run({.blocks = 1, .threads = 1}, [] {}), std::abort()),
              testing::KilledBySignal(SIGABRT), "^heard of 6: a host thread$");
  EXPECT_EXIT((prepare(), set_pe_of_process(4), run_crashing(Way::kStore)),
              testing::KilledBySignal(SIGSEGV), "^peal: kernel ");
}

TEST(CrashDeathTest, NamesTheHostsAndKernelsOfASimulation) {
  if (sanitized()) GTEST_SKIP() << "the sanitizer says so";
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const auto simulate = [](auto add) {
    Simulation simulation(1, {.memory_bytes = 4096});
    add(simulation);
    simulation.run();
  };
  const LaneGrid grid{.blocks = 1, .threads = 1, .kernel = reinterpret_cast<void*>(&crash_by)};
  EXPECT_EXIT(simulate([&](Simulation& simulation) {
                simulation.launch({.name = "PE 2", .device = 2, .pe = 2}, grid,
                                  [] { crash_by(Way::kStore); });
              }),
              testing::KilledBySignal(SIGSEGV),
              "^PE 2: kernel crash_by, block \\(0,0,0\\), thread \\(0,0,0\\): segmentation fault");
  EXPECT_EXIT(simulate([](Simulation& simulation) {
                simulation.host({.name = "PE 2", .device = 2, .pe = 2},
                                [] { crash_by(Way::kStore); });
              }),
              testing::KilledBySignal(SIGSEGV), "^PE 2, the host: segmentation fault at");
}

TEST(LastName, IsWhatAPersonCallsAFunction) {
  for (const auto& [symbol, name] :
       {std::pair("ring", "ring"),
        {"_Z4ringv", "ring"},
        {"_ZL4ringPm", "ring"},
        {"_ZN3job4ringEv", "ring"},
        {"_ZN12_GLOBAL__N_14ringEPm", "ring"},
        {"_Z4ringILi4EEvPi", "ring"},
        {"_ZN3job4ringILi4EEEvPi", "ring"},
        {"_ZN3job4PipeIiLb1ENS_4WideISt6vectorIiSaIiEEEEE5drainERKS5_", "drain"},
        {"_ZNK3job4Pipe5drainEv", "drain"},
        {"_ZN3job4PipeILNS_5ScopeE1EE5drainEv", "drain"},
        {"_ZN4PipeIFvPiEE5drainEv", "drain"},
        {"_ZN4PipeIXadL_Z4ringvEEE5drainEv", "drain"},
        {"_ZZ4mainENKUlvE_clEv", "_ZZ4mainENKUlvE_clEv"},
        {"_ZN3job", "_ZN3job"},
        {"_Z99ring", "_Z99ring"},
        {"_ZN3jobI", "_ZN3jobI"},
        {"_Z", "_Z"},
        {"", ""}}) {
    EXPECT_EQ(last_name(symbol), name) << symbol;
  }
}

}  // namespace
}  // namespace peal::simt
