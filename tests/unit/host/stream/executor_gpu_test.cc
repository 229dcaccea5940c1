// SPDX-License-Identifier: Apache-2.0
//
// Streams of a GPU, on a driver that is a fake.
#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include "host/memory/gpu.h"
#include "host/stream/executor.h"
#include "tests/support/error_of.h"
#include "tests/support/fake_cuda.h"

namespace peal {
namespace {

// A program that calls exit() with a PE alive: CUDA ends first, and its calls answer
// CUDA_ERROR_DEINITIALIZED. Destructors that threw ended such programs by abort().
TEST(GpuExecutor, EndsQuietlyWhereTheDriverHasEnded) {
  FakeCuda& fake = load_fake_cuda();
  fake.devices = 1;
  fake.memory = size_t{1} << 30;
  auto executor = make_gpu_executor(Gpu::open(0, 0), "", 1);
  void* const stream = executor->own_stream();
  auto mark = executor->mark(stream);
  fake.refuse["cuCtxPushCurrent"] = 4;
  mark.reset();
  executor.reset();
  fake.refuse.clear();
}

class HostWorkOnGpu : public testing::Test {
 protected:
  HostWorkOnGpu() {
    fake_.devices = 1;
    fake_.memory = size_t{1} << 30;
    fake_.refuse.clear();
    fake_.mistakes = 0;
    executor_ = make_gpu_executor(Gpu::open(0, 0), "", 1);
  }
  ~HostWorkOnGpu() override {
    executor_.reset();
    EXPECT_EQ(fake_.mistakes, 0);
  }
  FakeCuda& fake_ = load_fake_cuda();
  std::unique_ptr<Executor> executor_;
};

// Work may be done before the stream is told to wait for it: by then another value is due.
TEST_F(HostWorkOnGpu, IsWaitedForByWhatFollows) {
  void* const stream = executor_->own_stream();
  uint64_t word = 0;
  for (uint64_t round = 1; round <= 600; ++round) {  // more than there are words to wait for
    uint64_t seen = 0;
    executor_->host_work({[&](StreamCopies&) { word = round; }}, stream);
    executor_->copy(&seen, &word, sizeof(word), stream);
    ASSERT_EQ(seen, round);
  }
}

// Streams that wait for each other's work: one thread for all would wait for ever.
TEST_F(HostWorkOnGpu, OfAStreamMayWaitForThatOfAnother) {
  std::atomic<int> met = 0;
  const auto meet = [&](StreamCopies&) {
    ++met;
    while (met < 2) std::this_thread::yield();
  };
  const auto give = [&] { executor_->host_work({meet}, executor_->own_stream()); };
  std::thread other(give);
  give();
  other.join();
  EXPECT_EQ(met, 2);
}

TEST_F(HostWorkOnGpu, IsRefusedWhereStreamsCannotWait) {
  bool done = false;
  fake_.refuse["cuStreamWaitValue64"] = 801;
  const auto give = [&] {
    executor_->host_work({[&](StreamCopies&) { done = true; }}, executor_->own_stream());
  };
  expect_error(error_of(give), ErrorCode::kUnsupported,
               {"GPU 0", "cuStreamWaitValue64", "load and save"});
  fake_.refuse.clear();
  EXPECT_FALSE(done);
  give();
  EXPECT_TRUE(done);
}

// Words of a stream that has failed never come, and the mark of its end says so.
TEST_F(HostWorkOnGpu, IsLeftOutWhereTheStreamHasFailed) {
  bool done = false;
  fake_.stream_fails = true;
  fake_.refuse["cuEventSynchronize"] = fake_.refuse["cuStreamQuery"] = 719;
  executor_->host_work({[&](StreamCopies&) { done = true; }}, executor_->own_stream());
  executor_.reset();
  fake_.stream_fails = false;
  EXPECT_FALSE(done);
}

// Seven copies by three buffers: 0 and 3 and 6 use the first. Hazard: a call of CUDA's by the
// thread waits for a launch of another, which waits for the stream, which waits for the thread.
TEST_F(HostWorkOnGpu, AllowsCopiesOfTheStreamAndCallsNothingOfCuda) {
  constexpr size_t kCopies = 7;
  constexpr size_t kBuffers = 3;
  std::array<uint64_t, kBuffers> buffers{};
  std::array<uint64_t, kCopies> memory{};
  HostTask task{.work =
                    [&](StreamCopies& copies) {
                      for (size_t i = 0; i < kCopies; ++i) {
                        if (i >= kBuffers) copies.wait(i - kBuffers);
                        buffers[i % kBuffers] = 100 + i;
                        copies.allow(i);
                      }
                    },
                .buffers = kBuffers};
  for (size_t i = 0; i < kCopies; ++i) {
    task.copies.push_back({&memory[i], &buffers[i % kBuffers], sizeof(uint64_t)});
  }
  void* const stream = executor_->own_stream();
  fake_.beside_waits = 0;
  for (int round = 0; round < 100; ++round) {
    memory.fill(0);
    executor_->host_work(task, stream);
    for (size_t i = 0; i < kCopies; ++i) ASSERT_EQ(memory[i], 100 + i);
  }
  EXPECT_EQ(fake_.beside_waits, 0);
}

// Work that ends early, as where a file fails: the stream goes on.
TEST_F(HostWorkOnGpu, MakesTheCopiesThatWereNotAllowedAtItsEnd) {
  uint64_t from = 5;
  std::array<uint64_t, 4> to{};
  HostTask task{.work = [](StreamCopies& copies) { copies.allow(0); }, .buffers = 2};
  for (uint64_t& one : to) task.copies.push_back({&one, &from, sizeof(from)});
  executor_->host_work(std::move(task), executor_->own_stream());
  for (const uint64_t one : to) EXPECT_EQ(one, 5u);
}

// Hazard: whoever pins a page of words, which waits for the streams, holds a lock that the work's
// end wants.
TEST_F(HostWorkOnGpu, EndsWhileAnotherWaitsForPinnedMemory) {
  std::atomic<bool> go = false;
  void* const stream = executor_->own_stream();
  std::thread first([&] {
    executor_->host_work({[&](StreamCopies&) {
                           while (!go) std::this_thread::yield();
                         }},
                         stream);
  });
  while (fake_.waiting == 0) std::this_thread::yield();
  fake_.pins_wait = true;
  std::thread second([&] {
    uint64_t word = 0;  // more words to wait for than a page has
    executor_->host_work({.work = [](StreamCopies&) {},
                          .copies = std::vector<Copy>(300, Copy{&word, &word, sizeof(word)}),
                          .buffers = 300},
                         stream);
  });
  while (fake_.pinning == 0) std::this_thread::yield();
  go = true;
  first.join();
  second.join();
  fake_.pins_wait = false;
}

}  // namespace
}  // namespace peal
