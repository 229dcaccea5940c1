// SPDX-License-Identifier: Apache-2.0
//
// What the host learns of a failure while kernels still run: status(), failure() and what they
// agree on.
#include <gtest/gtest.h>

#include <chrono>
#include <string>

#include "tests/support/error_of.h"
#include "tests/support/job.h"
#include "tests/support/require.h"

namespace peal::api_test {
namespace {

using std::chrono::seconds;
using std::chrono::steady_clock;

uint64_t now() { return static_cast<uint64_t>(steady_clock::now().time_since_epoch().count()); }

/// Reaches behind the heap, which the NIC of `pe` refuses, and then waits for `gate`.
PEAL_KERNEL err_and_spin(Context ctx, uint64_t* outside, int pe, const uint64_t* gate) {
  static_cast<void>(p(past_the_heap(ctx), outside, 7, pe));
  static_cast<void>(quiet(ctx));
  static_cast<void>(wait_until(ctx, gate, Compare::kEq, 1));
}

PEAL_KERNEL misuse_and_spin(Context ctx, uint64_t* word, const uint64_t* gate) {
  static_cast<void>(p(ctx, word, 7, 99));
  static_cast<void>(wait_until(ctx, gate, Compare::kEq, 1));
}

void on_two(const std::function<void(Runtime&)>& body) {
  bootstrap::run_threads(2, [&](Bootstrap& group) {
    Config config = small_config();
    config.timeout = Microseconds(0);
    Runtime pe = start(group, config);
    body(pe);
    pe.barrier();
  });
}

TEST(Failures, OfAQueueAreToldWhileAKernelSpins) {
  on_two([](Runtime& pe) {
    EXPECT_EQ(pe.status(), Status::kOk);
    if (pe.my_pe() != 0) return;
    const uint64_t begin = now();
    uint64_t gate = 0;
    Launch kernel = launch({}, err_and_spin, pe.context(), behind_heap(pe.context()), 1, &gate);
    EXPECT_TRUE(eventually([&] { return pe.status() != Status::kOk; }));
    const Failure failure = pe.failure();
    EXPECT_EQ(pe.status(), Status::kQueueError);
    EXPECT_EQ(failure.status, Status::kQueueError);
    EXPECT_EQ(failure.pe, 1);
    EXPECT_EQ(failure.queue, 0);
    EXPECT_EQ(failure.wqe_index, 4u) << "behind the self-test";
    EXPECT_EQ(failure.opcode, static_cast<uint8_t>(mlx5::Opcode::kRdmaWrite));
    EXPECT_EQ(failure.syndrome, static_cast<uint8_t>(mlx5::Syndrome::kRemoteAccess));
    EXPECT_GE(failure.time_ns, begin);
    EXPECT_LE(failure.time_ns, now());
    EXPECT_NE(failure.text.find("to PE 1 failed: peer refused key, range or access right"),
              std::string::npos)
        << failure.text;
    EXPECT_NE(failure.text.find("WQE 4 of queue 0, QP 0x"), std::string::npos) << failure.text;
    store_release<Reach::kSystem>(&gate, uint64_t{1});
    kernel.wait();
  });
}

TEST(Failures, OfUsageAreToldWhileAKernelSpins) {
  on_two([](Runtime& pe) {
    if (pe.my_pe() != 1) return;
    const uint64_t begin = now();
    uint64_t gate = 0;
    Launch kernel = launch({}, misuse_and_spin, pe.context(), pe.context().sync_flags, &gate);
    EXPECT_TRUE(eventually([&] { return pe.status() != Status::kOk; }));
    EXPECT_EQ(pe.status(), Status::kBadPe);
    EXPECT_EQ(pe.failure().pe, 99);
    EXPECT_EQ(pe.failure().queue, -1);
    EXPECT_GE(pe.failure().time_ns, begin);
    store_release<Reach::kSystem>(&gate, uint64_t{1});
    kernel.wait();
  });
}

PEAL_KERNEL misuse(Context ctx, uint64_t* word, int pe) { static_cast<void>(p(ctx, word, 7, pe)); }

PEAL_KERNEL put_where_ptr_says(Context ctx, uint64_t* word) {
  static_cast<void>(p(ctx, ptr(ctx, word, 1), 7, 1));
}

// Hazard: an address that ptr() answered was "not symmetric", as any wrong one.
TEST(Failures, OfAnAddressThatPtrAnsweredSayWhatItIs) {
  bootstrap::run_threads(2, [&](Bootstrap& group) {
    Config config = small_config();
    config.transport = TransportKind::kP2p;
    Runtime pe = start(group, config);
    Symmetric<uint64_t> word(pe, 1);
    if (pe.my_pe() == 0) {
      const std::string own = fmt::format("PE 1's {}, seen from here", fmt::ptr(word.data()));
      launch({}, put_where_ptr_says, pe.context(), word.data()).wait();
      EXPECT_NE(pe.failure().text.find(own), std::string::npos) << pe.failure().text;
      const Error error = error_of([&] {
        pe.host().put(static_cast<uint64_t*>(pe.ptr(word.data(), 1)), word.data(), 1, 1);
      });
      EXPECT_TRUE(contains(error, own)) << error.what();
    }
    pe.barrier();
  });
}

TEST(Failures, OfSeveralContextsAreOrderedByTime) {
  Runtime pe(bootstrap::make_single(), small_config());
  Symmetric<uint64_t> word(pe, 1);
  const auto first = pe.make_context();
  const auto second = pe.make_context();
  launch({}, misuse, Context{second.value()}, word.data(), 22).wait();
  launch({}, misuse, Context{first.value()}, word.data(), 11).wait();
  launch({}, misuse, pe.context(), word.data(), 33).wait();
  EXPECT_EQ(pe.failure().pe, 22) << pe.failure().text;
}

TEST(Failures, OfADroppedContextGoWithIt) {
  Runtime pe(bootstrap::make_single(), small_config());
  Symmetric<uint64_t> word(pe, 1);
  {
    const auto context = pe.make_context();
    launch({}, misuse, Context{context.value()}, word.data(), 11).wait();
    EXPECT_EQ(pe.status(), Status::kBadPe);
  }
  EXPECT_EQ(pe.status(), Status::kOk);
  EXPECT_EQ(pe.failure().status, Status::kOk);
  const auto next = pe.make_context();
  EXPECT_EQ(pe.status(), Status::kOk) << "the slot's alarm is the old context's";
}

}  // namespace
}  // namespace peal::api_test

int main(int argc, char** argv) { return peal::api_test::run_tests(argc, argv); }
