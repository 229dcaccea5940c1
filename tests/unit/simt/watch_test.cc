// SPDX-License-Identifier: Apache-2.0
//
// What is said of lanes that never come back. Hazard: a loop over a plain word, which nothing
// preempts, and a stack that overflows, look like a job that hangs and one that crashes for no
// reason.
#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <string>
#include <thread>

#include "simt/lane.h"
#include "simt/sanitizer.h"
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

TEST(Watch, TellsOfALaneThatLoopsByItself) {
  if (kThreadSanitized) GTEST_SKIP() << "it holds signals back from a loop that calls nothing";
  const LimitsFor soon(with_busy_ms(5));
  std::atomic<bool> go = false;
  std::string said;
  {
    const Stderr captured;
    std::thread reader([&] {
      said = captured.line();
      go = true;
    });
    const Grid grid{.blocks = 2, .threads = 3, .kernel = reinterpret_cast<void*>(&spin_by_hand)};
    run(grid, [&] {
      if (blockIdx.x == 1 && threadIdx.x == 2) spin_by_hand(go);
    });
    reader.join();
  }
  EXPECT_EQ(said.find("peal: kernel spin_by_hand, block 1, thread 2, has run for 5 ms without"), 0u)
      << said;
  EXPECT_NE(said.find("and is at spin_by_hand"), std::string::npos) << said;
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

TEST(WatchDeathTest, SaysThatAStackHasOverflowedAndHowToEnlargeIt) {
  if (sanitized()) GTEST_SKIP() << "the sanitizer says so";
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_DEATH(run({.blocks = 2, .threads = 2},
                   [] {
                     volatile unsigned left = blockIdx.x == 1 && threadIdx.x == 1 ? 100000 : 1;
                     static_cast<void>(descend(&left));
                   }),
               "a lane has used up its stack of 65536 bytes: block 1, thread 1 of kernel .*"
               "Limits::stack_bytes, set_limits");
}

}  // namespace
}  // namespace peal::simt
