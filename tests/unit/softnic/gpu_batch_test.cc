// SPDX-License-Identifier: Apache-2.0
//
// What the kernel's fast path takes for plain, and how long its runs are: every decision it makes,
// on a CPU. Hazard: taking for plain what the exact step would refuse.

#include "tests/unit/softnic/gpu_batch.h"

namespace peal::softnic::gpu {
namespace {

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

TEST_F(Batch, KnowsWhatWaitsForReadsAndAtomics) {
  transfer(Opcode::kRdmaWrite, kRelaxed, kHome, 1000);
  EXPECT_FALSE(decoded().fenced);
  set(2, static_cast<uint32_t>(Completion::kAlways) | static_cast<uint32_t>(Fence::kFence));
  EXPECT_TRUE(decoded().fenced);
  EXPECT_EQ(decoded().kind, Kind::kWrite);
}

TEST_F(Batch, OrdersNoWritesOfANicThatPlacesInAnyOrder) {
  view.any_placement = true;
  write_inline(kStrict, 8);
  EXPECT_FALSE(decoded().strict);
  transfer(Opcode::kRdmaWrite, kStrict, kHome, 1000);
  EXPECT_FALSE(decoded().strict);
  write_inline(kStrict, 12);
  EXPECT_EQ(decoded().kind, Kind::kWrite) << "no store of it need be the last";
  atomic(Opcode::kAtomicFetchAdd, kAtomic, kWritable, 8);
  EXPECT_TRUE(decoded().strict) << "atomics execute behind WRITEs";
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

TEST_F(Batch, TakesAtomicsOfOneBlock) {
  atomic(Opcode::kAtomicFetchAdd, kAtomic, kWritable, 8);
  Shot shot = decoded();
  EXPECT_EQ(shot.kind, Kind::kAtomic);
  EXPECT_EQ(shot.opcode, Opcode::kAtomicFetchAdd);
  EXPECT_EQ(shot.to, away + 64);
  EXPECT_EQ(shot.from, home + 128);
  EXPECT_EQ(shot.bytes, 8u);
  EXPECT_TRUE(shot.strict) << "whatever the memory";
  atomic(Opcode::kAtomicCompareSwap, kAtomic, kWritable, 8);
  EXPECT_EQ(decoded().kind, Kind::kAtomic);
  atomic(Opcode::kAtomicMaskedFetchAdd, kAtomic, kWritable, 8, mlx5::kOpmodAtomic8);
  EXPECT_EQ(decoded().kind, Kind::kAtomic);
  atomic(Opcode::kAtomicMaskedCompareSwap, kAtomic, kWritable, 4, mlx5::kOpmodAtomic4);
  EXPECT_EQ(decoded().kind, Kind::kAtomic);
}

TEST_F(Batch, ReadsTheOperandsOfAtomics) {
  atomic(Opcode::kAtomicMaskedCompareSwap, kAtomic, kWritable, 4, mlx5::kOpmodAtomic4);
  for (uint32_t i = 0; i < 4; ++i) set(8 + i, 0x100 + i);
  const AtomicRequest small = operation_of(block, 4);
  AtomicOperands operands = small.operands;
  EXPECT_EQ(small.bytes, 4u);
  EXPECT_EQ(small.data_unit, 3u);
  EXPECT_EQ(operands.swap_or_add, 0x100u);
  EXPECT_EQ(operands.compare, 0x101u);
  EXPECT_EQ(operands.swap_mask, 0x102u);
  EXPECT_EQ(operands.compare_mask, 0x103u);
  atomic(Opcode::kAtomicFetchAdd, kAtomic, kWritable, 8);
  EXPECT_EQ(operation_of(block, 4).bytes, 8u);
  operands = operation_of(block, 4).operands;
  EXPECT_EQ(operands.swap_or_add, 0x100'00000101u);
}

TEST_F(Batch, LeavesAtomicsThatTheExactStepWouldRefuseOrSpread) {
  const auto left = [this](const char* what) { EXPECT_EQ(decoded().kind, Kind::kNone) << what; };
  atomic(Opcode::kAtomicMaskedCompareSwap, kAtomic, kWritable, 8, mlx5::kOpmodAtomic8);
  left("operands of two segments");
  atomic(Opcode::kAtomicFetchAdd, kAtomic, kWritable, 4);
  left("4 bytes by a plain atomic");
  atomic(Opcode::kAtomicFetchAdd, kRelaxed, kWritable, 8);
  left("a key without the right");
  atomic(Opcode::kAtomicFetchAdd, kAtomic, kHome, 8);
  left("an answer into memory without local write");
  atomic(Opcode::kAtomicFetchAdd, kAtomic, kWritable, 8);
  set(5, 68);
  left("a word that is not aligned");
  set(5, 64);
  set(15, 132);
  left("an answer that is not aligned");
  set(15, 128);
  set(1, kQpn << 8 | 3);
  left("no room for an answer");
  set(1, kQpn << 8 | 4);
  EXPECT_EQ(decoded().kind, Kind::kAtomic);
  view.peer_access = kRemoteWrite | kRemoteRead;
  left("an operation the peer does not allow");
}

TEST_F(Batch, TakesAMaskedCompareSwapOfTwoBlocks) {
  const Behind behind = swap(kAtomic, kWritable);
  const Shot shot = decode_shot(view, block, 0x10005, behind);
  EXPECT_EQ(shot.kind, Kind::kAtomic);
  EXPECT_EQ(shot.blocks(), 2u);
  EXPECT_EQ(shot.bytes, 8u);
  EXPECT_EQ(shot.from, home + 128);
  EXPECT_TRUE(shot.strict);
  EXPECT_FALSE(shot.inlined_far());
  const AtomicOperands operands = operation_of(block, shot.units).operands;
  EXPECT_EQ(operands.swap_or_add, 0x200'00000201u);
  EXPECT_EQ(operands.compare, 0x202'00000203u);
  EXPECT_EQ(operands.swap_mask, 0x204'00000205u);
  EXPECT_EQ(operands.compare_mask, 0x206'00000207u);
  EXPECT_EQ(decoded().kind, Kind::kNone) << "without its second block";
  atomic(Opcode::kAtomicFetchAdd, kAtomic, kWritable, 8);
  EXPECT_EQ(decode_shot(view, block, 0x10005, behind).blocks(), 1u);
  set(1, kQpn << 8 | 5);
  EXPECT_EQ(decode_shot(view, block, 0x10005, behind).kind, Kind::kNone) << "a segment too many";
}

TEST_F(Batch, LeavesSwapsThatTheExactStepWouldRefuse) {
  const auto left = [this](const char* what, const Behind& behind) {
    EXPECT_EQ(decode_shot(view, block, 0x10005, behind).kind, Kind::kNone) << what;
  };
  left("a key without the right", swap(kRelaxed, kWritable));
  left("an answer into memory without local write", swap(kAtomic, kHome));
  Behind behind = swap(kAtomic, kWritable);
  behind.tail.word[0] = Be32(4u).raw;
  left("an answer of 4 bytes", behind);
  behind = swap(kAtomic, kWritable);
  behind.tail.word[3] = Be32(132u).raw;
  left("an answer that is not aligned", behind);
  behind = swap(kAtomic, kWritable);
  set(5, 68);
  left("a word that is not aligned", behind);
}

TEST_F(Batch, TakesInlineWritesOfSeveralBlocksOutOfTheQueue) {
  std::byte in_queue[512];
  write_inline(kRelaxed, 44);
  const auto decode = [&](const Behind& behind) {
    return decode_shot(view, block, 0x10005, behind);
  };
  Shot shot = decode({.blocks = 1, .tail = {}, .inlined = in_queue});
  EXPECT_EQ(shot.kind, Kind::kWrite);
  EXPECT_EQ(shot.blocks(), 2u);
  EXPECT_EQ(shot.bytes, 44u);
  EXPECT_EQ(shot.to, away + 64);
  EXPECT_EQ(shot.from, in_queue);
  EXPECT_EQ(shot.home, nullptr);
  EXPECT_TRUE(shot.inlined_far());
  EXPECT_FALSE(shot.strict);
  EXPECT_EQ(decode({.blocks = 1, .tail = {}, .inlined = nullptr}).kind, Kind::kNone) << "wraps";
  EXPECT_EQ(decode({.blocks = 0, .tail = {}, .inlined = in_queue}).kind, Kind::kNone) << "cut off";
  write_inline(kStrict, 300);
  EXPECT_EQ(decode({.blocks = 4, .tail = {}, .inlined = in_queue}).kind, Kind::kNone) << "of six";
  shot = decode({.blocks = 31, .tail = {}, .inlined = in_queue});
  EXPECT_EQ(shot.kind, Kind::kWrite);
  EXPECT_EQ(shot.blocks(), 6u);
  EXPECT_TRUE(shot.strict);
  set(1, kQpn << 8 | 20);
  EXPECT_EQ(decode({.blocks = 31, .tail = {}, .inlined = in_queue}).kind, Kind::kNone)
      << "bytes beyond the end";
  write_inline(kRelaxed, 44);
  view.log_max_message = 5;
  EXPECT_EQ(decode({.blocks = 31, .tail = {}, .inlined = in_queue}).kind, Kind::kNone)
      << "longer than messages are";
}

TEST_F(Batch, TakesANopOfSeveralBlocks) {
  head(Opcode::kNop, 9);
  const Shot shot =
      decode_shot(view, block, 0x10005, {.blocks = 2, .tail = {}, .inlined = nullptr});
  EXPECT_EQ(shot.kind, Kind::kNop);
  EXPECT_EQ(shot.blocks(), 3u);
  EXPECT_EQ(decoded().kind, Kind::kNone) << "cut off";
}

TEST_F(Batch, FindsAKeyAtHandFirst) {
  Key elsewhere = away_keys[2];
  elsewhere.memory = away + 512;
  view.away.keep(elsewhere);
  EXPECT_EQ(decoded().to, away + 512 + 64);
  EXPECT_TRUE(view.away.hold(decoded().away));
  write_inline(kStrict, 8);
  EXPECT_EQ(decoded().to, away + 64);
  EXPECT_EQ(decoded().away, &away_keys[1]);
  view.away.keep(away_keys[1]);
  EXPECT_TRUE(view.away.hold(decoded().away)) << "one of each ordering";
  write_inline(kRelaxed, 8);
  EXPECT_TRUE(view.away.hold(decoded().away));
  view.away = {};
  write_inline(0, 8);
  EXPECT_EQ(decoded().kind, Kind::kNone) << "key 0 is none, at hand or not";
}

TEST_F(Batch, DecodesAlikeWithKeysAtHand) {
  View at_hand = view;
  uint32_t seed = 1;
  const auto random = [&seed] { return (seed = seed * 1664525 + 1013904223) >> 8; };
  uint32_t usual = 0;
  for (uint32_t round = 0; round < 20000; ++round) {
    const uint32_t rkeys[] = {kStrict, kRelaxed, kReadOnly, kAtomic};
    view.any_placement = at_hand.any_placement = random() % 4 == 0;
    at_hand.away = {};
    at_hand.home = {};
    at_hand.away.keep(away_keys[random() % 5]);
    at_hand.away.keep(away_keys[random() % 5]);
    at_hand.home.keep(keys[random() % 3]);
    const uint32_t rkey = rkeys[random() % 4];
    if (random() % 2 != 0) {
      write_inline(rkey, random() % 30);
    } else {
      transfer(Opcode::kRdmaWrite, rkey, random() % 2 != 0 ? kHome : kWritable, random() % 200);
    }
    if (random() % 4 == 0) block.word[random() % 12] ^= 1u << random() % 32;
    if (random() % 4 == 0) set(5, random() % 4200);
    const Shot plain = decoded();
    const Shot quick = decode_shot(at_hand, block, 0x10005);
    Shot unused;
    usual += decode_usual(at_hand, block, 0x10005, unused) ? 1 : 0;
    ASSERT_EQ(quick.kind, plain.kind) << round;
    if (plain.kind == Kind::kNone) continue;
    ASSERT_EQ(quick.opcode, plain.opcode) << round;
    ASSERT_EQ(quick.strict, plain.strict) << round;
    ASSERT_EQ(quick.signalled, plain.signalled) << round;
    ASSERT_EQ(quick.bytes, plain.bytes) << round;
    ASSERT_EQ(quick.to, plain.to) << round;
    ASSERT_EQ(quick.from, plain.from) << round;
    ASSERT_EQ(quick.away == nullptr, plain.away == nullptr) << round;
    ASSERT_EQ(quick.home == nullptr, plain.home == nullptr) << round;
  }
  EXPECT_GT(usual, 1000u);
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
  EXPECT_EQ(run_length(0, 0), 0u);
  EXPECT_EQ(run_length(0b0111, 0), 3u);
  EXPECT_EQ(run_length(0b1011, 0), 2u);
  EXPECT_EQ(run_length(~0u, 0), 32u);
}

TEST(RunLength, EndsBeforeAClash) {
  EXPECT_EQ(run_length(~0u, 0b100), 2u);
  EXPECT_EQ(run_length(0b1, 0b100), 1u);
}

TEST(Insides, AreBehindTheFirstBlocksOfRequests) {
  const auto two = [](uint32_t) { return 2u; };
  EXPECT_EQ(insides(0, two), 0u);
  EXPECT_EQ(insides(0b10, two), 0b100u);
  EXPECT_EQ(insides(0b100010, two), 0b1000100u);
  EXPECT_EQ(insides(0b110, two), 0b100u) << "lane 2 only looks like a request";
  EXPECT_EQ(insides(0b1110, two), 0b10100u) << "lane 3 is one";
  EXPECT_EQ(insides(~0u, two), 0xaaaaaaaau);
  const auto some = [](uint32_t lane) { return lane == 3 ? 16u : 3u; };
  EXPECT_EQ(insides(0b1001, some), 0b110u | 0xfffeu << 3);
  EXPECT_EQ(insides(1u << 16, some), 0b11u << 17);
  EXPECT_EQ(insides(1u << 31, two), 0u);
}

// A signal behind its data: the swap is strict, so it ends the segment that the WRITE begins.
TEST(Segment, HasASwapBehindTheWriteOfTheSameDoorbell) {
  constexpr uint32_t kWrite = 0b001, kSwap = 0b010, kInside = 0b100;
  const uint32_t run = run_length(kWrite | kSwap | kInside, 0);
  EXPECT_EQ(run, 3u);
  EXPECT_EQ(segment_end(kSwap, 0, run), 2u);
  EXPECT_EQ(segment_end(kSwap, 2, run), 3u);
}

TEST(Segment, EndsBehindTheNextStrictOne) {
  EXPECT_EQ(segment_end(0, 0, 5), 5u);
  EXPECT_EQ(segment_end(0b1, 0, 5), 1u);
  EXPECT_EQ(segment_end(0b1001, 0, 5), 1u);
  EXPECT_EQ(segment_end(0b1001, 1, 5), 4u);
  EXPECT_EQ(segment_end(0b1001, 4, 5), 5u);
  EXPECT_EQ(segment_end(1u << 31, 0, 32), 32u);
  EXPECT_EQ(segment_end(1u << 31, 0, 7), 7u);
}

}  // namespace
}  // namespace peal::softnic::gpu
