// SPDX-License-Identifier: Apache-2.0
//
// The thread that rings for kernels, with a word of memory for a register: what it copies, in which
// order, and what it must not leave out. kRecordBeforeSecondDoorbell between a kernel and the
// register.
#include "host/transport/assist.h"

#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <memory>
#include <thread>

#include "device/mlx5/doorbell.h"
#include "tests/support/require.h"

namespace peal {
namespace {

uint64_t in(const uint64_t* word) { return load_acquire<Reach::kSystem>(word); }

/// As a kernel does it.
void ring(uint64_t* word, uint64_t posted, uint32_t qpn) {
  mlx5::ring_doorbell(word, mlx5::posted_count(posted), Be32{qpn << 8});
}

uint64_t doorbell(uint64_t posted, uint32_t qpn) {
  uint64_t value = 0;
  ring(&value, posted, qpn);
  return value;
}

TEST(Assist, CopiesADoorbellAsItIs) {
  uint64_t reg = 0;
  std::array<uint64_t, 3> words{};
  Assist assist(&reg);
  assist.watch(words.data(), words.size());
  ring(&words[1], 0x1234, 0xabcdef);
  EXPECT_TRUE(eventually([&] { return assist.passed_on() == 1; }));
  EXPECT_EQ(reg, doorbell(0x1234, 0xabcdef));
  assist.forget(words.data());
}

TEST(Assist, PassesOnEveryQueuesNewest) {
  uint64_t reg = 0;
  std::array<uint64_t, 64> words{};
  std::array<uint64_t, 2> others{};
  Assist assist(&reg);
  assist.watch(words.data(), words.size());
  assist.watch(others.data(), others.size());
  for (uint32_t i = 0; i < words.size(); ++i) ring(&words[i], i + 1, i + 1);
  ring(&others[1], 9, 99);
  EXPECT_TRUE(eventually([&] { return assist.passed_on() == words.size() + 1; }));
  EXPECT_NE(reg, 0u);
}

// A register that went back would tell of nothing wrong; one that is behind for ever would.
TEST(Assist, NeverGoesBackAndEndsWithTheLast) {
  constexpr uint64_t kLast = 20000;  // within 16 bits
  uint64_t reg = 0;
  uint64_t word = 0;
  Assist assist(&reg);
  assist.watch(&word, 1);
  std::thread kernel([&] {
    for (uint64_t posted = 1; posted <= kLast; ++posted) ring(&word, posted, 5);
  });
  const auto posted = [](uint64_t value) {
    return swap_bytes(static_cast<uint32_t>(value)) >> 8 & 0xffff;
  };
  uint32_t before = 0;
  EXPECT_TRUE(eventually([&] {
    const uint32_t now = posted(in(&reg));
    EXPECT_GE(now, before);
    before = now;
    return now == kLast;
  }));
  kernel.join();
  EXPECT_LE(assist.passed_on(), kLast);
}

// A store between the thread's look at a word and its taking of the value must not vanish.
TEST(Assist, LosesNoDoorbellBehindAnother) {
  uint64_t reg = 0;
  uint64_t word = 0;
  Assist assist(&reg);
  assist.watch(&word, 1);
  for (uint64_t posted = 2; posted < 2000; posted += 2) {
    ring(&word, posted - 1, 5);
    ring(&word, posted, 5);
    ASSERT_TRUE(eventually([&] { return in(&reg) == doorbell(posted, 5); })) << posted;
  }
}

// What a kernel wrote before it rang is there for whoever sees the register.
TEST(Assist, RingsBehindWhatPrecededTheWord) {
  uint64_t reg = 0;
  uint64_t word = 0;
  mlx5::DoorbellRecord record{};
  Assist assist(&reg);
  assist.watch(&word, 1);
  std::thread kernel([&] {
    for (uint64_t posted = 1; posted <= 2000; ++posted) {
      mlx5::write_doorbell_record(&record, mlx5::posted_count(posted));
      ring(&word, posted, 7);
    }
  });
  EXPECT_TRUE(eventually([&] {
    const uint64_t seen = in(&reg);
    const uint32_t recorded = Be32::from_raw(load_relaxed<Reach::kSystem>(&record.send.raw)).host();
    EXPECT_GE(recorded, swap_bytes(static_cast<uint32_t>(seen)) >> 8 & 0xffff);
    return seen == doorbell(2000, 7);
  }));
  kernel.join();
}

// The second of two rings is the one that counts, and has the value of the first; so has the first
// one of a queue that begins at 0 again after a recovery.
TEST(Assist, RingsTheSameValueAgain) {
  uint64_t reg = 0;
  std::array<uint64_t, 2> words{};
  Assist assist(&reg);
  assist.watch(words.data(), words.size());
  for (uint64_t round = 1; round <= 50; ++round) {
    store_mmio(&reg, 0);
    ring(&words[1], 1, 5);
    ASSERT_TRUE(eventually([&] { return assist.passed_on() == round; })) << round;
    EXPECT_EQ(in(&reg), doorbell(1, 5));
  }
}

TEST(Assist, LooksAtNothingThatItForgot) {
  uint64_t reg = 0;
  auto gone = std::make_unique<uint64_t>(0);
  uint64_t word = 0;
  Assist assist(&reg);
  assist.watch(gone.get(), 1);
  assist.watch(&word, 1);
  assist.forget(gone.get());
  ring(gone.get(), 3, 3);
  gone.reset();  // AddressSanitizer sees a look
  ring(&word, 4, 4);
  EXPECT_TRUE(eventually([&] { return assist.passed_on() != 0; }));
  EXPECT_EQ(in(&reg), doorbell(4, 4));
  EXPECT_EQ(assist.passed_on(), 1u);
}

TEST(Assist, PassesOnWhatIsThereAtTheEnd) {
  for (int round = 0; round < 20; ++round) {
    uint64_t reg = 0;
    uint64_t word = 0;
    {
      Assist assist(&reg);
      assist.watch(&word, 1);
      ring(&word, 11, 2);
    }
    EXPECT_EQ(reg, doorbell(11, 2));
  }
}

// Contexts come and go while the queues of others ring.
TEST(Assist, LetsOthersInWhileItRings) {
  uint64_t reg = 0;
  uint64_t word = 0;
  Assist assist(&reg);
  assist.watch(&word, 1);
  std::atomic<bool> done{false};
  std::thread kernel([&] {
    for (uint64_t posted = 1; !done; ++posted) ring(&word, posted, 5);
  });
  for (int round = 0; round < 200; ++round) {
    std::array<uint64_t, 4> words{};
    assist.watch(words.data(), words.size());
    ring(&words[2], 1, 6);
    assist.forget(words.data());
  }
  EXPECT_TRUE(eventually([&] { return assist.passed_on() > 0; }));
  done = true;
  kernel.join();
}

}  // namespace
}  // namespace peal
