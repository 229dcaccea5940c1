// SPDX-License-Identifier: Apache-2.0
//
// What the host says of waits. Hazard: a job that deadlocks ends after its deadline with "check()
// ok" and "no failure", because its kernels dropped the Status of the wait.
#include <gtest/gtest.h>

#include <chrono>
#include <string>

#include "tests/support/error_of.h"
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
      expect_error(error_of([&] { pe.check(); }), ErrorCode::kSystem,
                   {"PE 0: kernel drop_the_status, block 1, thread 2, waited for",
                    "(signal_wait_until) the word at byte 8 of the 128 bytes at heap offset 0x",
                    "to be >= 3, found 2: timeout after"});
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
                   {"kernel meet_alone, block 0, thread 0, waited for PE 0 to enter barrier 1",
                    "it is at barrier 0: timeout after"});
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

}  // namespace
}  // namespace peal::api_test
