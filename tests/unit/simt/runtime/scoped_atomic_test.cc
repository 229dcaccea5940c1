// SPDX-License-Identifier: Apache-2.0
//
// cuda::atomic and cuda::atomic_ref.
#include "simt/runtime/scoped_atomic.h"

#include <gtest/gtest.h>

#include "simt/runtime/cuda_names.h"
#include "tests/unit/simt/support.h"

namespace {

using peal::simt::run;

TEST(ScopedAtomic, SpinsLetOthersRun) {
  // The lane that would set the flag comes after those that spin; nothing else lets it run.
  int flag = 0;
  int data = 0;
  cuda::atomic<int, cuda::thread_scope_device> seen{0};
  run({1, 32}, [&] {
    cuda::atomic_ref<int, cuda::thread_scope_device> word(flag);
    if (threadIdx.x == 31) {
      data = 5;
      word.store(1, cuda::memory_order_release);
      return;
    }
    while (word.load(cuda::std::memory_order_acquire) == 0) {
    }
    seen.fetch_add(data, cuda::memory_order_relaxed);
  });
  EXPECT_EQ(seen.load(), 31 * 5);
}

TEST(ScopedAtomic, LocksBlocks) {
  cuda::atomic<unsigned> lock{0};
  unsigned inside = 0;
  run({8, 32}, [&] {
    while (lock.exchange(1, cuda::memory_order_acquire) != 0) {
    }
    inside = inside + 1;
    lock.store(0, cuda::memory_order_release);
  });
  EXPECT_EQ(inside, 256u);
}

TEST(ScopedAtomic, HasCudasOperations) {
  long long number = 10;
  const cuda::atomic_ref<long long> word(number);
  EXPECT_EQ(word.fetch_sub(3), 10);
  EXPECT_EQ(word.fetch_min(2), 7);
  EXPECT_EQ(word.fetch_max(40), 2);
  EXPECT_EQ(word.fetch_or(1), 40);
  EXPECT_EQ(word.fetch_and(0xf), 41);
  EXPECT_EQ(word.fetch_xor(1), 9);
  EXPECT_EQ(word++, 8);
  EXPECT_EQ(--word, 8);
  EXPECT_EQ(word += 2, 10);
  long long expected = 9;
  EXPECT_FALSE(word.compare_exchange_strong(expected, 0));
  EXPECT_EQ(expected, 10);
  EXPECT_TRUE(word.compare_exchange_strong(expected, 0, cuda::memory_order_acq_rel,
                                           cuda::memory_order_relaxed));
  cuda::atomic_thread_fence(cuda::memory_order_seq_cst, cuda::thread_scope_system);
  EXPECT_EQ(static_cast<long long>(word), 0);
}

}  // namespace
