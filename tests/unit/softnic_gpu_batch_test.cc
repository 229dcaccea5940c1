// SPDX-License-Identifier: Apache-2.0
//
// What the kernel's fast path takes for plain, and how long its runs are: every decision it makes,
// on a CPU. Hazard: taking for plain what the exact step would refuse.
#include <cstring>

#include "gtest/gtest.h"
#include "softnic/gpu/batch.h"

namespace peal::softnic::gpu {
namespace {

using mlx5::Completion;
using mlx5::Fence;
using mlx5::Opcode;
using Kind = Shot::Kind;

constexpr uint32_t kQpn = 0x123;
constexpr uint32_t kPd = 3;
constexpr uint32_t kPeerPd = 4;
constexpr uint32_t kHome = 1 << 8 | 7;      // readable only
constexpr uint32_t kWritable = 2 << 8 | 7;  // at home
constexpr uint32_t kStrict = 1 << 8 | 9;    // at the peer
constexpr uint32_t kRelaxed = 2 << 8 | 9;
constexpr uint32_t kReadOnly = 3 << 8 | 9;

class Batch : public ::testing::Test {
 protected:
  Batch() {
    keys[1] = {.number = kHome, .pd = kPd, .access = 0, .bytes = 4096, .memory = home};
    keys[2] = {
        .number = kWritable, .pd = kPd, .access = kLocalWrite, .bytes = 4096, .memory = home};
    const uint32_t all = kLocalWrite | kRemoteWrite | kRemoteRead;
    away_keys[1] = {.number = kStrict, .pd = kPeerPd, .access = all, .bytes = 4096, .memory = away};
    away_keys[2] = away_keys[1];
    away_keys[2].number = kRelaxed;
    away_keys[2].access = all | kRelaxedOrdering;
    away_keys[3] = away_keys[1];
    away_keys[3].number = kReadOnly;
    away_keys[3].access = kRemoteRead;
    view = {.qpn = kQpn,
            .pd = kPd,
            .keys = keys,
            .key_count = 4,
            .peer_key_count = 4,
            .peer_keys = away_keys,
            .peer_pd = kPeerPd,
            .peer_access = kRemoteWrite | kRemoteRead,
            .log_max_message = 30};
    write_inline(kRelaxed, 8);
  }

  void head(Opcode opcode, uint32_t units) {
    set(0, 5u << 8 | static_cast<uint32_t>(opcode));
    set(1, kQpn << 8 | units);
    set(2, static_cast<uint32_t>(Completion::kAlways));
    set(4, 0);
    set(5, 64);  // remote address
  }
  void write_inline(uint32_t rkey, uint32_t bytes) {
    head(Opcode::kRdmaWrite, 2 + (bytes + 4 + 15) / 16);
    set(6, rkey);
    set(8, bytes | mlx5::kInlineFlag);
  }
  void transfer(Opcode opcode, uint32_t rkey, uint32_t lkey, uint32_t bytes) {
    head(opcode, 3);
    set(6, rkey);
    set(8, bytes);
    set(9, lkey);
    set(10, 0);
    set(11, 128);  // local address
  }
  void set(uint32_t word, uint32_t value) { block.word[word] = Be32(value).raw; }
  Shot decoded() const { return decode_shot(view, block, 0x10005); }

  alignas(64) std::byte home[4096];
  alignas(64) std::byte away[4096];
  Key keys[4];
  Key away_keys[4];
  View view = {};
  Block block = {};
};

TEST_F(Batch, TakesAnInlineWrite) {
  const Shot shot = decoded();
  EXPECT_EQ(shot.kind, Kind::kWrite);
  EXPECT_EQ(shot.to, away + 64);
  EXPECT_EQ(shot.from, nullptr);
  EXPECT_EQ(shot.bytes, 8u);
  EXPECT_TRUE(shot.signalled);
  EXPECT_FALSE(shot.strict);
}

TEST_F(Batch, TakesAGatheringWriteAndARead) {
  transfer(Opcode::kRdmaWrite, kRelaxed, kHome, 1000);
  Shot shot = decoded();
  EXPECT_EQ(shot.kind, Kind::kWrite);
  EXPECT_EQ(shot.from, home + 128);
  EXPECT_EQ(shot.to, away + 64);
  transfer(Opcode::kRdmaRead, kReadOnly, kWritable, 1000);
  shot = decoded();
  EXPECT_EQ(shot.kind, Kind::kRead);
  EXPECT_EQ(shot.from, away + 64);
  EXPECT_EQ(shot.to, home + 128);
  EXPECT_FALSE(shot.strict);
}

TEST_F(Batch, KnowsStrictMemory) {
  write_inline(kStrict, 8);
  EXPECT_TRUE(decoded().strict);
  EXPECT_EQ(decoded().kind, Kind::kWrite);
  write_inline(kStrict, 12);  // two stores, the last of which must be last
  EXPECT_EQ(decoded().kind, Kind::kNone);
  write_inline(kRelaxed, 12);
  EXPECT_EQ(decoded().kind, Kind::kWrite);
}

TEST_F(Batch, LeavesWhatTheExactStepWouldRefuse) {
  const auto refused = [this](const char* what) { EXPECT_EQ(decoded().kind, Kind::kNone) << what; };
  set(0, 6u << 8 | 0x08);
  refused("another index");
  write_inline(kRelaxed, 8);
  set(1, (kQpn + 1) << 8 | 3);
  refused("another queue pair");
  write_inline(kRelaxed, 8);
  set(1, kQpn << 8 | 2);
  refused("inline data beyond the end");
  write_inline(kRelaxed, 8);
  set(1, kQpn << 8);
  refused("no segments");
  write_inline(kRelaxed + 1, 8);
  refused("unknown key");
  write_inline(kReadOnly, 8);
  refused("key without the right");
  write_inline(kRelaxed, 8);
  set(5, 4090);
  refused("beyond the key's end");
  transfer(Opcode::kRdmaWrite, kRelaxed, kHome + 1, 8);
  refused("unknown local key");
  transfer(Opcode::kRdmaRead, kRelaxed, kHome, 8);
  refused("a READ into memory without local write");
  transfer(Opcode::kRdmaWrite, kRelaxed, kHome, 0);
  refused("byte count 0, which means 2^31");
  transfer(Opcode::kRdmaRead, kRelaxed, kWritable, 8 | mlx5::kInlineFlag);
  refused("inline data in a READ");
  view.peer_access = kRemoteWrite;
  transfer(Opcode::kRdmaRead, kRelaxed, kWritable, 8);
  refused("an operation the peer does not allow");
}

TEST_F(Batch, LeavesOtherOpcodesAndStrongFences) {
  head(Opcode::kAtomicFetchAdd, 4);
  EXPECT_EQ(decoded().kind, Kind::kNone);
  head(Opcode::kRdmaWriteImm, 3);
  EXPECT_EQ(decoded().kind, Kind::kNone);
  write_inline(kRelaxed, 8);
  set(2, static_cast<uint32_t>(Fence::kStrong));
  EXPECT_EQ(decoded().kind, Kind::kNone);
  set(2, 0xa0);
  EXPECT_EQ(decoded().kind, Kind::kNone);
  set(2, static_cast<uint32_t>(Fence::kFenceAndSmall));
  EXPECT_EQ(decoded().kind, Kind::kWrite);
}

TEST_F(Batch, TakesANopAndItsCompletionMode) {
  head(Opcode::kNop, 1);
  EXPECT_EQ(decoded().kind, Kind::kNop);
  EXPECT_TRUE(decoded().signalled);
  set(2, static_cast<uint32_t>(Completion::kOnFirstError));
  EXPECT_FALSE(decoded().signalled);
}

TEST(Clash, IsAByteInCommon) {
  std::byte memory[64];
  const auto shot = [&](size_t at, uint32_t bytes) {
    Shot s;
    s.kind = Kind::kWrite;
    s.to = memory + at;
    s.bytes = bytes;
    return s;
  };
  EXPECT_TRUE(clash(shot(0, 8), shot(0, 8)));
  EXPECT_TRUE(clash(shot(0, 9), shot(8, 8)));
  EXPECT_TRUE(clash(shot(8, 8), shot(0, 64)));
  EXPECT_FALSE(clash(shot(0, 8), shot(8, 8)));
  EXPECT_FALSE(clash(shot(8, 8), shot(0, 8)));
  EXPECT_FALSE(clash(Shot{}, shot(0, 8)));
}

TEST(Joins, KeepsReadsAmongReads) {
  EXPECT_TRUE(joins(Kind::kRead, Kind::kRead));
  EXPECT_TRUE(joins(Kind::kRead, Kind::kNop));
  EXPECT_FALSE(joins(Kind::kRead, Kind::kWrite));
  EXPECT_TRUE(joins(Kind::kWrite, Kind::kWrite));
  EXPECT_FALSE(joins(Kind::kWrite, Kind::kRead));
  EXPECT_FALSE(joins(Kind::kNop, Kind::kRead));
}

TEST(RunLength, EndsAtWhatIsNotPlain) {
  EXPECT_EQ(run_length(0, 0, 0), 0u);
  EXPECT_EQ(run_length(0b0111, 0, 0), 3u);
  EXPECT_EQ(run_length(0b1011, 0, 0), 2u);
  EXPECT_EQ(run_length(~0u, 0, 0), 32u);
}

TEST(RunLength, EndsWithTheFirstStrictOne) {
  EXPECT_EQ(run_length(~0u, 1, 0), 1u);
  EXPECT_EQ(run_length(~0u, 0b1000, 0), 4u);
  EXPECT_EQ(run_length(~0u, 0b11000, 0), 4u);
  EXPECT_EQ(run_length(0b11, 0b1000, 0), 2u);
  EXPECT_EQ(run_length(~0u, 1u << 31, 0), 32u);
}

TEST(RunLength, EndsBeforeAClash) {
  EXPECT_EQ(run_length(~0u, 0, 0b100), 2u);
  EXPECT_EQ(run_length(~0u, 0b10, 0b100), 2u);
  EXPECT_EQ(run_length(~0u, 0b1000, 0b100), 2u);
}

}  // namespace
}  // namespace peal::softnic::gpu
