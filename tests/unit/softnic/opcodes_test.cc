// SPDX-License-Identifier: Apache-2.0
//
// Every opcode the NIC serves, posted by hand to a queue pair connected to itself: what memory and
// completion look like afterwards.
#include "tests/unit/softnic/support.h"

namespace peal::softnic::testing {

using Opcodes = SoftNic;

TEST_F(Opcodes, NopCompletesAndTouchesNothing) {
  auto qp = make_loop();
  const SeenCqe cqe = run(*qp, nop());
  EXPECT_EQ(cqe.kind, CqeOpcode::kRequester);
  EXPECT_EQ(cqe.qpn, qp->qpn);
  EXPECT_EQ(cqe.counter, 0);
  EXPECT_EQ(cqe.wqe_opcode, 0);
  EXPECT_EQ(cqe.user_index, 0x123u);
}

TEST_F(Opcodes, InlineWriteStoresItsBytes) {
  auto qp = make_loop();
  Region target(*nic, pd, 4096);
  const SeenCqe cqe = run(*qp, write_inline<uint64_t>(64, target.key, 0x1122334455667788));
  EXPECT_EQ(cqe.kind, CqeOpcode::kRequester);
  EXPECT_EQ(cqe.wqe_opcode, 0x08);
  EXPECT_EQ(target.load<uint64_t>(64), 0x1122334455667788u);
  EXPECT_EQ(target.load<uint64_t>(56), 0u);
  EXPECT_EQ(target.load<uint64_t>(72), 0u);
}

TEST_F(Opcodes, WriteGathersSeveralSegments) {
  auto qp = make_loop();
  Region memory(*nic, pd, 8192);
  for (uint32_t i = 0; i < 64; ++i) memory.pages.as<uint8_t>()[i] = static_cast<uint8_t>(i + 1);
  Wqe wqe{.opcode = Opcode::kRdmaWrite};
  wqe.remote(4096, memory.key)
      .data(10, memory.key, 0)
      .data(20, memory.key, 10)
      .data(34, memory.key, 30);
  EXPECT_EQ(run(*qp, wqe).kind, CqeOpcode::kRequester);
  EXPECT_EQ(std::memcmp(memory.pages.data(), memory.pages.data() + 4096, 64), 0);
  EXPECT_EQ(memory.load<uint8_t>(4096 + 64), 0);
}

TEST_F(Opcodes, WriteMixesInlineAndPointedData) {
  auto qp = make_loop();
  Region memory(*nic, pd, 8192);
  memory.store<uint32_t>(0, 0x04030201);
  Wqe wqe{.opcode = Opcode::kRdmaWrite};
  wqe.remote(4096, memory.key).inline_data("abcdef", 6).data(4, memory.key, 0).inline_data("XY", 2);
  EXPECT_EQ(run(*qp, wqe).kind, CqeOpcode::kRequester);
  EXPECT_EQ(std::memcmp(memory.pages.data() + 4096, "abcdef\1\2\3\4XY", 12), 0);
}

TEST_F(Opcodes, EveryInlineLengthArrivesWhole) {
  auto qp = make_loop();
  Region memory(*nic, pd, 4096);
  uint8_t bytes[200];
  for (uint32_t i = 0; i < sizeof(bytes); ++i) bytes[i] = static_cast<uint8_t>(3 * i + 1);
  for (uint32_t length = 0; length <= sizeof(bytes); length += length < 40 ? 1 : 13) {
    std::memset(memory.pages.data(), 0, 4096);
    Wqe wqe{.opcode = Opcode::kRdmaWrite};
    wqe.remote(101, memory.key).inline_data(bytes, length);
    ASSERT_EQ(run(*qp, wqe).kind, CqeOpcode::kRequester) << length;
    EXPECT_EQ(std::memcmp(memory.pages.data() + 101, bytes, length), 0) << length;
    EXPECT_EQ(memory.load<uint8_t>(101 + length), 0) << length;
    EXPECT_EQ(memory.load<uint8_t>(100), 0) << length;
  }
}

TEST_F(Opcodes, WriteMovesMegabytes) {
  auto qp = make_loop();
  constexpr uint32_t kBytes = 5'000'001;
  Region from(*nic, pd, kBytes);
  Region to(*nic, pd, kBytes);
  for (uint32_t i = 0; i < kBytes; ++i) from.pages.as<uint8_t>()[i] = static_cast<uint8_t>(i * 7);
  EXPECT_EQ(run(*qp, write_from(0, to.key, kBytes, from.key, 0)).kind, CqeOpcode::kRequester);
  EXPECT_EQ(std::memcmp(from.pages.data(), to.pages.data(), kBytes), 0);
}

TEST_F(Opcodes, ZeroByteWriteNeedsNoKey) {
  auto qp = make_loop();
  Wqe wqe{.opcode = Opcode::kRdmaWrite};
  wqe.remote(0x1234, 0xbadbad00);
  EXPECT_EQ(run(*qp, wqe).kind, CqeOpcode::kRequester);
}

TEST_F(Opcodes, ZeroByteReadNeedsNoKey) {
  auto qp = make_loop();
  Wqe wqe{.opcode = Opcode::kRdmaRead};
  wqe.remote(0x1234, 0xbadbad00);
  const SeenCqe cqe = run(*qp, wqe);
  EXPECT_EQ(cqe.kind, CqeOpcode::kRequester);
  EXPECT_EQ(cqe.bytes, 0u);
}

TEST_F(Opcodes, ReadScattersOverSegments) {
  auto qp = make_loop();
  Region memory(*nic, pd, 8192);
  for (uint32_t i = 0; i < 48; ++i) memory.pages.as<uint8_t>()[i] = static_cast<uint8_t>(i + 1);
  Wqe wqe{.opcode = Opcode::kRdmaRead};
  wqe.remote(0, memory.key).data(16, memory.key, 4096).data(32, memory.key, 5000);
  const SeenCqe cqe = run(*qp, wqe);
  EXPECT_EQ(cqe.bytes, 48u);
  EXPECT_EQ(cqe.wqe_opcode, 0x10);
  EXPECT_EQ(std::memcmp(memory.pages.data(), memory.pages.data() + 4096, 16), 0);
  EXPECT_EQ(std::memcmp(memory.pages.data() + 16, memory.pages.data() + 5000, 32), 0);
}

TEST_F(Opcodes, ReadSeesTheWriteBeforeIt) {
  auto qp = make_loop();
  Region memory(*nic, pd, 4096);
  for (uint64_t i = 1; i <= 100; ++i) {
    qp->post(write_inline<uint64_t>(0, memory.key, i).with(Completion::kOnError));
    qp->post(read_into(0, memory.key, 8, memory.key, 64));
    qp->ring();
    cq->await();
    ASSERT_EQ(memory.load<uint64_t>(64), i);
  }
}

TEST_F(Opcodes, FetchAddAddsAndReturnsTheOldValueInHostOrder) {
  auto qp = make_loop();
  Region memory(*nic, pd, 4096);
  memory.store<uint64_t>(8, 0x100);
  const SeenCqe cqe = run(*qp, fetch_add(8, memory.key, 0x23, memory.key, 64));
  EXPECT_EQ(cqe.wqe_opcode, 0x12);
  EXPECT_EQ(cqe.bytes, 8u);
  EXPECT_EQ(memory.load<uint64_t>(8), 0x123u);
  EXPECT_EQ(memory.load<uint64_t>(64), 0x100u);
}

Wqe compare_swap(uint64_t address, uint32_t key, uint64_t swap, uint64_t compare) {
  Wqe wqe{.opcode = Opcode::kAtomicCompareSwap};
  return wqe.remote(address, key)
      .add(mlx5::AtomicSegment{Be64(swap), Be64(compare)})
      .data(8, key, 64);
}

TEST_F(Opcodes, CompareSwapSwapsOnlyWhenEqual) {
  auto qp = make_loop();
  Region memory(*nic, pd, 4096);
  memory.store<uint64_t>(0, 5);
  run(*qp, compare_swap(0, memory.key, 9, 4));
  EXPECT_EQ(memory.load<uint64_t>(0), 5u);
  EXPECT_EQ(memory.load<uint64_t>(64), 5u);
  run(*qp, compare_swap(0, memory.key, 9, 5));
  EXPECT_EQ(memory.load<uint64_t>(0), 9u);
  EXPECT_EQ(memory.load<uint64_t>(64), 5u);
}

Wqe masked_add8(uint64_t address, uint32_t key, uint64_t value, uint64_t boundary) {
  Wqe wqe{.opcode = Opcode::kAtomicMaskedFetchAdd, .opmod = mlx5::kOpmodAtomic8};
  return wqe.remote(address, key)
      .add(mlx5::MaskedFetchAdd8Segment{Be64(value), Be64(boundary)})
      .data(8, key, 64);
}

Wqe masked_swap8(uint64_t address, uint32_t key, mlx5::MaskedCompareSwap8Segment values,
                 mlx5::MaskedCompareSwap8Segment masks) {
  Wqe wqe{.opcode = Opcode::kAtomicMaskedCompareSwap, .opmod = mlx5::kOpmodAtomic8};
  return wqe.remote(address, key).add(values).add(masks).data(8, key, 64);
}

Wqe masked_add4(uint64_t address, uint32_t key, uint32_t value, uint32_t boundary) {
  Wqe wqe{.opcode = Opcode::kAtomicMaskedFetchAdd, .opmod = mlx5::kOpmodAtomic4};
  return wqe.remote(address, key)
      .add(mlx5::MaskedFetchAdd4Segment{Be32(value), Be32(boundary), Be64(0x7777777777777777)})
      .data(4, key, 64);
}

Wqe masked_swap4(uint64_t address, uint32_t key, mlx5::MaskedCompareSwap4Segment segment) {
  Wqe wqe{.opcode = Opcode::kAtomicMaskedCompareSwap, .opmod = mlx5::kOpmodAtomic4};
  return wqe.remote(address, key).add(segment).data(4, key, 64);
}

TEST_F(Opcodes, MaskedAddWithoutBoundaryIsAddition) {
  auto qp = make_loop();
  Region memory(*nic, pd, 4096);
  memory.store<uint64_t>(0, ~0ull);
  run(*qp, masked_add8(0, memory.key, 2, 0));
  EXPECT_EQ(memory.load<uint64_t>(0), 1u);
  EXPECT_EQ(memory.load<uint64_t>(64), ~0ull);
}

TEST_F(Opcodes, MaskedAddWithAllBoundariesIsExclusiveOr) {
  auto qp = make_loop();
  Region memory(*nic, pd, 4096);
  memory.store<uint64_t>(0, 0xff00ff00ff00ff00);
  run(*qp, masked_add8(0, memory.key, 0x0ff00ff00ff00ff0, ~0ull));
  EXPECT_EQ(memory.load<uint64_t>(0), 0xff00ff00ff00ff00 ^ 0x0ff00ff00ff00ff0);
}

TEST_F(Opcodes, MaskedAddCutsCarriesAtBoundaries) {
  auto qp = make_loop();
  Region memory(*nic, pd, 4096);
  memory.store<uint64_t>(0, 0x00000001'ffffffff);
  run(*qp, masked_add8(0, memory.key, 0x00000001'00000001, 0x80000000'80000000));
  EXPECT_EQ(memory.load<uint64_t>(0), 0x00000002'00000000u);
}

TEST_F(Opcodes, MaskedSwapWithoutCompareMaskIsUnconditional) {
  auto qp = make_loop();
  Region memory(*nic, pd, 4096);
  memory.store<uint64_t>(0, 7);
  run(*qp, masked_swap8(0, memory.key, {Be64(9), Be64(1234)}, {Be64(~0ull), Be64(0)}));
  EXPECT_EQ(memory.load<uint64_t>(0), 9u);
  EXPECT_EQ(memory.load<uint64_t>(64), 7u);
}

TEST_F(Opcodes, MaskedSwapTouchesOnlyMaskedBits) {
  auto qp = make_loop();
  Region memory(*nic, pd, 4096);
  memory.store<uint64_t>(0, 0x1111222233334444);
  run(*qp, masked_swap8(0, memory.key, {Be64(~0ull), Be64(0x4444)}, {Be64(0xf0), Be64(0xffff)}));
  EXPECT_EQ(memory.load<uint64_t>(0), 0x11112222333344f4u);
  run(*qp, masked_swap8(0, memory.key, {Be64(0), Be64(0x4444)}, {Be64(0xff), Be64(0xffff)}));
  EXPECT_EQ(memory.load<uint64_t>(0), 0x11112222333344f4u) << "compare must have failed";
}

TEST_F(Opcodes, FourByteMaskedAddReturnsBigEndian) {
  auto qp = make_loop();
  Region memory(*nic, pd, 4096);
  memory.store<uint32_t>(4, 0x01020304);
  memory.store<uint32_t>(8, 0x55555555);
  const SeenCqe cqe = run(*qp, masked_add4(4, memory.key, 1, 0));
  EXPECT_EQ(cqe.bytes, 4u);
  EXPECT_EQ(memory.load<uint32_t>(4), 0x01020305u);
  EXPECT_EQ(memory.load<uint32_t>(8), 0x55555555u);
  EXPECT_EQ(memory.load<uint32_t>(64), Be32(0x01020304).raw);
}

TEST_F(Opcodes, FourByteMaskedSwapComparesUnderItsMask) {
  auto qp = make_loop();
  Region memory(*nic, pd, 4096);
  memory.store<uint32_t>(0, 0xaabbccdd);
  run(*qp, masked_swap4(0, memory.key, {Be32(0x11), Be32(0xcc00), Be32(0xff), Be32(0xff00)}));
  EXPECT_EQ(memory.load<uint32_t>(0), 0xaabbcc11u);
  EXPECT_EQ(memory.load<uint32_t>(64), Be32(0xaabbccdd).raw);
  run(*qp, masked_swap4(0, memory.key, {Be32(0x22), Be32(0), Be32(0xff), Be32(0xff00)}));
  EXPECT_EQ(memory.load<uint32_t>(0), 0xaabbcc11u);
}

TEST_F(Opcodes, DumpChecksItsSourceAndCompletes) {
  auto qp = make_loop();
  Region memory(*nic, pd, 4096);
  Wqe wqe{.opcode = Opcode::kDump};
  wqe.data(1, memory.key, 17);
  const SeenCqe cqe = run(*qp, wqe);
  EXPECT_EQ(cqe.kind, CqeOpcode::kRequester);
  EXPECT_EQ(cqe.wqe_opcode, 0x23);
}

TEST_F(Opcodes, NopIgnoresWhatFollowsIt) {
  auto qp = make_loop();
  Wqe wqe;
  wqe.add(mlx5::DataSegment{Be32(0xffffffff), Be32(0xffffffff), Be64(~0ull)});
  EXPECT_EQ(run(*qp, wqe).kind, CqeOpcode::kRequester);
}

TEST_F(Opcodes, WriteWithImmediateTakesAReceive) {
  auto qp = make_loop({.receives = true});
  Region memory(*nic, pd, 4096);
  qp->post_receives(2);
  for (uint16_t i = 0; i < 2; ++i) {
    Wqe wqe = write_inline<uint64_t>(8, memory.key, 100u + i);
    wqe.opcode = Opcode::kRdmaWriteImm;
    wqe.immediate = 0x11223344u + i;
    const SeenCqe sent = run(*qp, wqe);
    EXPECT_EQ(sent.kind, CqeOpcode::kRequester);
    const SeenCqe received = receive_cq->await();
    EXPECT_EQ(received.kind, CqeOpcode::kResponderWriteImm);
    EXPECT_EQ(received.immediate, 0x11223344u + i);
    EXPECT_EQ(received.bytes, 8u);
    EXPECT_EQ(received.counter, i);
    EXPECT_EQ(received.qpn, qp->qpn);
    EXPECT_EQ(memory.load<uint64_t>(8), 100u + i);
  }
}

TEST_F(Opcodes, ImmediateWithoutBytesNeedsNoKey) {
  auto qp = make_loop({.receives = true});
  qp->post_receives(1);
  Wqe wqe{.opcode = Opcode::kRdmaWriteImm, .immediate = 77};
  wqe.remote(0, 0);
  run(*qp, wqe);
  EXPECT_EQ(receive_cq->await().immediate, 77u);
}

TEST_F(Opcodes, TwoQueuePairsAddToOneWordWithoutLoss) {
  auto a = make_qp();
  auto b = make_qp();
  a->connect(nic->lid(), b->qpn);
  b->connect(nic->lid(), a->qpn);
  Region memory(*nic, pd, 4096);
  constexpr uint32_t kRounds = 200;
  std::atomic_ref<uint64_t> word(*memory.pages.as<uint64_t>());
  std::thread cpu([&] {
    for (uint32_t i = 0; i < kRounds; ++i) word.fetch_add(1);
  });
  for (uint32_t i = 0; i < kRounds; ++i) {
    a->post(fetch_add(0, memory.key, 1, memory.key, 64));
    b->post(fetch_add(0, memory.key, 1, memory.key, 72));
    a->ring();
    b->ring();
    cq->await();
    cq->await();
  }
  cpu.join();
  EXPECT_EQ(memory.load<uint64_t>(0), 3 * kRounds);
}

TEST_F(Opcodes, ASignalWrittenLastCoversTheDataBeforeIt) {
  auto qp = make_loop();
  Region memory(*nic, pd, 1 << 16);
  constexpr uint64_t kRounds = 300;
  std::thread kernel([&] {
    for (uint64_t i = 1; i <= kRounds; ++i) {
      std::memset(memory.pages.data() + 32768, static_cast<int>(i & 0xff), 4096);
      qp->post(write_from(0, memory.key, 4096, memory.key, 32768).with(Completion::kOnError));
      qp->post(write_inline<uint64_t>(8192, memory.key, i).with(Completion::kOnError));
      qp->ring();
      while (memory.load<uint64_t>(8200) != i) std::this_thread::yield();
    }
  });
  for (uint64_t i = 1; i <= kRounds; ++i) {
    ASSERT_TRUE(eventually([&] { return memory.load<uint64_t>(8192) == i; }));
    EXPECT_EQ(memory.pages.as<uint8_t>()[0], i & 0xff);
    EXPECT_EQ(memory.pages.as<uint8_t>()[4095], i & 0xff);
    memory.store<uint64_t>(8200, i);
  }
  kernel.join();
}

}  // namespace peal::softnic::testing
