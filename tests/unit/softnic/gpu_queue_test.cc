// SPDX-License-Identifier: Apache-2.0
//
// How the engine on CPUs copies what lies in queues of a GPU's memory: the last word of a CQE last,
// whatever the order within one copy, and the blocks of a doorbell with few copies. What cannot be
// copied moves nothing.
#include <functional>

#include "softnic/engine/completion.h"
#include "softnic/engine/decode.h"
#include "tests/unit/softnic/engine_pair.h"
#include "tests/unit/softnic/support.h"

namespace peal::softnic::testing {
namespace {

/// A copy engine that a test looks at between any two words, of which it moves the last first.
struct WatchedCopier : GpuCopier {
  WatchedCopier() : before(gpu_copier) { gpu_copier = this; }
  ~WatchedCopier() override { gpu_copier = before; }
  WatchedCopier(const WatchedCopier&) = delete;
  WatchedCopier& operator=(const WatchedCopier&) = delete;

  void copy(void* to, const void* from, size_t bytes, bool more) override {
    ++copies;
    pending = more;
    for (size_t at = bytes; at > 0; at -= 8) {
      std::memcpy(without_mark(to) + at - 8, without_mark(from) + at - 8, 8);
      look();
    }
  }

  GpuCopier* before;
  std::function<void()> look = [] {};
  int copies = 0;
  bool pending = false;  // the last copy may be under way
};

TEST(GpuQueue, ACqeIsThereWhenItsLastWordIs) {
  WatchedCopier copier;
  Pages cqes(4096);
  std::memset(cqes.data(), 0xf0, 4096);
  CompletionQueue cq;
  cq.buffer = with_mark(cqes.data());
  cq.log_entries = 2;
  QueuePair qp;
  qp.qpn = 0x123456;
  qp.user_index = 0x654321;
  const Completed done = {.kind = CqeOpcode::kResponderSendImm,
                          .opcode = Opcode::kSend,
                          .counter = 0xabcd,
                          .bytes = 77,
                          .immediate = 0x01020304,
                          .source_lid = 9,
                          .source = 0x05060708};
  for (uint64_t entry = 0; entry < 9; ++entry) {
    const CqePlace place = place_of(cq, entry, qp);
    const CqeWords wanted = cqe_words(place, done, entry + 1);
    const auto* const slot = reinterpret_cast<const uint64_t*>(without_mark(place.at));
    const uint64_t last_before = slot[7];
    int looks = 0;
    int seen = 0;
    copier.look = [&] {
      ++looks;
      if (slot[7] == last_before) return;  // whoever polls sees nothing new
      ++seen;
      EXPECT_EQ(std::memcmp(slot, wanted.word, sizeof wanted.word), 0) << "entry " << entry;
    };
    write_cqe(place, done, entry + 1);
    EXPECT_EQ(looks, 8);
    EXPECT_EQ(seen, 1);
    EXPECT_FALSE(copier.pending) << "the engine would go on before the CQE is there";
  }
  EXPECT_EQ(copier.copies, 18);
}

TEST(GpuQueue, BlocksOfADoorbellAreFetchedTogether) {
  WatchedCopier copier;
  Pages ring(8 * 64);
  for (size_t at = 0; at < ring.bytes(); ++at)
    ring.as<uint8_t>()[at] = static_cast<uint8_t>(at / 8);
  std::vector<std::byte> fetched(ring.bytes());
  QueuePair qp;
  qp.send_buffer = with_mark(ring.data());
  qp.send_blocks = 8;
  qp.fetched = fetched.data();
  fetch_blocks(qp, 16, 3);
  EXPECT_EQ(copier.copies, 1);
  EXPECT_EQ(std::memcmp(fetched.data(), ring.data(), 3 * 64), 0);
  EXPECT_EQ(fetched[3 * 64 + 8], std::byte{0}) << "not posted";
  fetch_blocks(qp, 22, 4);  // over the ring's end
  EXPECT_EQ(copier.copies, 3);
  EXPECT_FALSE(copier.pending);
  EXPECT_EQ(std::memcmp(fetched.data() + 6 * 64, ring.data() + 6 * 64, 2 * 64), 0);
  EXPECT_EQ(wqe_byte(qp, 22, 130), fetched.data() + 2);
  fetch_blocks(qp, 26, 8);
  EXPECT_EQ(copier.copies, 5);
  EXPECT_EQ(std::memcmp(fetched.data(), ring.data(), ring.bytes()), 0);
}

/// A copy engine that leaves alone what a test names, as that of a GPU whose memory is gone.
struct RefusingCopier : HostCopier {
  RefusingCopier() : before(gpu_copier) { gpu_copier = this; }
  ~RefusingCopier() override { gpu_copier = before; }
  RefusingCopier(const RefusingCopier&) = delete;
  RefusingCopier& operator=(const RefusingCopier&) = delete;

  void copy(void* to, const void* from, size_t bytes, bool more) override {
    const std::byte* const source = without_mark(from);
    if (gone == nullptr || source < gone->data() || source >= gone->data() + gone->bytes()) {
      HostCopier::copy(to, from, bytes, more);
    }
  }

  GpuCopier* before;
  const Pages* gone = nullptr;
};

/// SENDs from `a` to receive entries of `b` that lie in a GPU's memory, as does its record.
class GoneQueue : public ::testing::Test {
 protected:
  static constexpr uint64_t kTo = 40'000;

  GoneQueue() {
    QueuePair& qp = pair.b.qp();
    qp.receive_buffer = with_mark(ring.data());
    qp.receive_entries = 8;
    qp.doorbell = reinterpret_cast<mlx5::DoorbellRecord*>(with_mark(record.data()));
    const mlx5::DataSegment entry = {Be32(8), Be32(Side::kKey), Be64(kTo)};
    for (size_t i = 0; i < 8; ++i) std::memcpy(ring.data() + i * 16, &entry, sizeof entry);
    receive(1);
    send(77);
    EXPECT_TRUE(pair.run_until(1));
    EXPECT_EQ(*pair.b.memory.as<uint64_t>(kTo), 77u) << "while it can be copied";
  }
  void receive(uint32_t posted) {
    store<uint32_t>(&record.as<mlx5::DoorbellRecord>()->receive, Be32(posted).raw);
  }
  void send(uint64_t value) {
    Wqe wqe{.opcode = Opcode::kSend};
    pair.a.post(wqe.inline_data(&value, sizeof value));
  }

  Pair pair{0};
  Pages ring{4096};
  Pages record{4096};
  RefusingCopier copier;
};

TEST_F(GoneQueue, AnEntryThatCannotBeCopiedMovesNothing) {
  const std::vector<std::byte> before(pair.b.memory.data(),
                                      pair.b.memory.data() + pair.b.memory.bytes());
  copier.gone = &ring;
  receive(2);
  send(78);
  ASSERT_TRUE(pair.run_until(2));
  EXPECT_EQ(pair.a.cqe(1).syndrome, Syndrome::kRemoteOperation);
  EXPECT_EQ(pair.b.cqe(1).syndrome, Syndrome::kLocalProtection);
  EXPECT_EQ(std::memcmp(pair.b.memory.data(), before.data(), before.size()), 0);
}

TEST_F(GoneQueue, ARecordThatCannotBeCopiedPostsNothing) {
  copier.gone = &record;
  receive(2);
  send(78);
  for (int i = 0; i < 100; ++i) pair.step();
  EXPECT_EQ(client_word(with_mark(record.data())), 0u);
  EXPECT_EQ(pair.a.completions(), 1u);
  EXPECT_EQ(*pair.b.memory.as<uint64_t>(kTo), 77u);
  copier.gone = nullptr;
  ASSERT_TRUE(pair.run_until(2));
  EXPECT_EQ(*pair.b.memory.as<uint64_t>(kTo), 78u);
}

TEST(GpuQueue, WhatOneForgetsToCopyFaults) {
  Pages record(4096);
  QueuePair qp;
  qp.doorbell = reinterpret_cast<mlx5::DoorbellRecord*>(with_mark(record.data()));
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_DEATH(static_cast<void>(load<uint32_t>(&qp.doorbell->send)), "");
}

}  // namespace
}  // namespace peal::softnic::testing
