// SPDX-License-Identifier: Apache-2.0
//
// Windows that come and go while kernels use others, over the NIC and over mapped memory; calls
// from the host on parts of different sizes.
#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <string>
#include <vector>

#include "tests/support/error_of.h"
#include "tests/support/job.h"

namespace peal::api_test {
namespace {

class WindowsBy : public testing::TestWithParam<TransportKind> {
 protected:
  void on_two(const std::function<void(Runtime&)>& body) const {
    Config config = small_config();
    config.transport = GetParam();
    bootstrap::run_threads(2, [&](Bootstrap& group) {
      Runtime pe = start(group, config);
      body(pe);
      pe.barrier();
    });
  }
};

// Writes all words of the peer's part, again until the host ends it.
PEAL_KERNEL put_until_told(Verdict* verdict, Context ctx, uint64_t* part, const uint64_t* source,
                           uint64_t words, const uint64_t* told) {
  do {
    expect_ok(verdict, put(ctx, part, source, words, 1 - ctx.pe));
    expect_ok(verdict, quiet(ctx));
  } while (load_relaxed<Reach::kSystem>(told) == 0);
}

TEST_P(WindowsBy, ComeAndGoBesideKernelsThatUseOthers) {
  on_two([](Runtime& pe) {
    constexpr size_t kWords = 64;
    std::vector<uint64_t> part(kWords), others(64 * 8);
    const std::vector<uint64_t> source(kWords, 7);
    pe.register_window(part.data(), kWords * sizeof(uint64_t));
    pe.register_local(const_cast<uint64_t*>(source.data()), kWords * sizeof(uint64_t));
    Symmetric<uint64_t> told(pe, 1);
    std::vector<Verdict> verdict(1);
    Launch kernel = launch({}, put_until_told, verdict.data(), pe.context(), part.data(),
                           source.data(), uint64_t{kWords}, told.data());
    for (int round = 0; round < 20; ++round) {
      std::array<WindowHandle, 8> windows;
      for (size_t i = 0; i < windows.size(); ++i) {
        windows[i] = pe.register_window(&others[i * 64], 8 * (1 + i));
      }
      for (const WindowHandle& window : windows) pe.unregister_window(window);
    }
    store_release<Reach::kSystem>(told.data(), uint64_t{1});
    kernel.wait();
    EXPECT_EQ(verdict[0].failures, 0u) << "line " << verdict[0].line;
    pe.check();
    pe.barrier();
    EXPECT_EQ(part, source);
  });
}

PEAL_KERNEL put_word(Verdict* verdict, Context ctx, uint64_t* at) {
  expect_ok(verdict, p(ctx, at, uint64_t{5}, 1 - ctx.pe));
  expect_ok(verdict, quiet(ctx));
}

// A number is used again once there is no other: here a lane has looked its window up before.
TEST_P(WindowsBy, ArePutBackToUseAtOtherPlaces) {
  on_two([](Runtime& pe) {
    std::vector<uint64_t> memory(2 * 512);
    for (size_t round = 0; round < 10; ++round) {
      uint64_t* const at = &memory[round % 2 * 512 + round];
      pe.register_window(at, 8);
      run_clean(pe, {}, put_word, pe.context(), at);
      pe.barrier();
      EXPECT_EQ(*at, 5u);
      pe.unregister_window(at);
      expect_error(error_of([&] { pe.host().p(at, uint64_t{1}, 0); }), ErrorCode::kInvalidArgument,
                   {"not symmetric memory of PE"});
      pe.barrier();
    }
  });
}

PEAL_KERNEL put_one(Verdict* verdict, Context ctx, uint64_t* at, uint64_t value) {
  expect_ok(verdict, put(ctx, at, &value, 1, 1));
  expect_ok(verdict, p(ctx, at + 1, value, 1));
  expect_ok(verdict, quiet(ctx));
}

PEAL_KERNEL ask_ptr(uint64_t** seen, Context ctx, uint64_t* at) { *seen = ptr(ctx, at, 1); }

// Hazard: kernels took the window that ends last, the host the one that begins last, and what lies
// in both is at the peer in two places.
TEST_P(WindowsBy, WithinOneAnotherMeanTheOneThatEndsLast) {
  on_two([](Runtime& pe) {
    constexpr size_t kOuter = 64, kInner = 16, kWritten = 4;
    Symmetric<uint64_t> source(pe, 1);
    const bool first = pe.my_pe() == 0;
    for (const bool outer_first : {true, false}) {
      std::vector<uint64_t> outer(kOuter), apart(kInner);
      uint64_t* const inner = first ? &outer[20] : apart.data();
      if (outer_first) pe.register_window(outer.data(), 8 * kOuter);
      pe.register_window(inner, 8 * kInner);
      if (!outer_first) pe.register_window(outer.data(), 8 * kOuter);
      const auto put_all = [&](uint64_t value) {
        if (!first) return;
        std::vector<Verdict> verdict(1);
        launch({}, put_one, verdict.data(), pe.context(), inner, value).wait();
        EXPECT_EQ(verdict[0].failures, 0u) << "line " << verdict[0].line;
        source[0] = value;
        pe.host().put(inner + 2, source.data(), 1, 1);
        pe.host().signal(Signal::set(inner + 3, value, 1));
        source[0] = 0;
        pe.host().get(source.data(), inner + 2, 1, 1);
        EXPECT_EQ(source[0], value);
        std::vector<uint64_t*> seen(1);
        launch({}, ask_ptr, seen.data(), pe.context(), inner).wait();
        EXPECT_EQ(pe.ptr(inner, 1), seen[0]);
      };
      put_all(5);
      pe.barrier();
      if (!first) {
        for (size_t i = 0; i < kWritten; ++i) EXPECT_EQ(outer[20 + i], 5u) << i;
        EXPECT_EQ(apart, std::vector<uint64_t>(kInner));
      }
      pe.unregister_window(outer.data());
      put_all(6);
      pe.barrier();
      if (!first) {
        for (size_t i = 0; i < kWritten; ++i) EXPECT_EQ(apart[i], 6u) << i;
      }
      pe.unregister_window(inner);
    }
  });
}

TEST_P(WindowsBy, AreReachedByTheHostAtAnySize) {
  on_two([](Runtime& pe) {
    const bool first = pe.my_pe() == 0;
    std::vector<uint64_t> part(first ? 0 : 100);
    std::vector<uint64_t> source(100, 3);
    pe.register_local(source.data(), 800);
    const WindowHandle window =
        pe.register_window(part.data(), 8 * part.size(), {.any_size = true});
    if (first) {
      pe.host().put(window.at<uint64_t>(80), source.data(), 90, 1);
      pe.host().p(window.at<uint64_t>(8), uint64_t{9}, 1);
      EXPECT_EQ(pe.host().g(window.at<uint64_t>(8), 1), 9u);
      EXPECT_EQ(pe.ptr(window.at(0), 0), nullptr);
      expect_error(
          error_of([&] { pe.host().put(window.at<uint64_t>(88), source.data(), 90, 1); }),
          ErrorCode::kInvalidArgument,
          {"put: dst, 720 bytes from byte 88 of a window: the part of PE 1 has 800 bytes"});
      expect_error(error_of([&] { pe.host().p(window.at<uint64_t>(0), uint64_t{1}, 0); }),
                   ErrorCode::kInvalidArgument, {"the part of PE 0 has 0 bytes"});
      expect_error(error_of([&] {
                     pe.host().wait_until(window.at<uint64_t>(0), Compare::kEq, uint64_t{1});
                   }),
                   ErrorCode::kInvalidArgument, {"by its own address"});
    }
    pe.barrier();
    if (!first) {
      EXPECT_EQ(part[1], 9u);
      EXPECT_EQ(part[99], 3u);
      EXPECT_EQ(part[9], 0u);
    }
    pe.unregister_window(window);
  });
}

INSTANTIATE_TEST_SUITE_P(Routes, WindowsBy,
                         testing::Values(TransportKind::kP2p, TransportKind::kIbgda,
                                         TransportKind::kProxy));

}  // namespace
}  // namespace peal::api_test
