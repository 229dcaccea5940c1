// SPDX-License-Identifier: Apache-2.0
//
// Golden bytes of every work request the composer can make. The literals are written out from the
// mlx5 tables, byte for byte as they lie in the queue; nothing here is computed by the code under
// test.
#include "device/mlx5/wqe.h"

#include <string>

#include "gtest/gtest.h"
#include "tests/support/fake_nic.h"

namespace peal::mlx5 {
namespace {

constexpr nic::Remote kRemote{0x1122334455667788, key(0xaabbccdd)};
constexpr nic::Local kLocal{0x99aabbccddeeff00, key(0x01020304)};
constexpr uint32_t kShort[3] = {0x64636261, 0x68676665, 0x6c6b6a69};  // "abcdefghijkl" in memory
constexpr uint32_t kLong[7] = {0x64636261, 0x68676665, 0x6c6b6a69, 0x706f6e6d,
                               0x74737271, 0x78777675, 0x31307a79};

Header header(uint64_t index, uint32_t qpn) {
  return {.index = index, .qpn_shifted = Be32{qpn << 8}};
}

template <uint32_t kLines>
std::string text(const Wqe<kLines>& wqe) {
  return testing::hex(&wqe, sizeof wqe);
}

/// One thing the composer makes, and its bytes at index 5 of QP 0x123456, always completing.
struct Shape {
  const char* name;
  std::string (*make)(const Header&);
  const char* golden;
};

void PrintTo(const Shape& shape, std::ostream* out) { *out << shape.name; }

const Shape kShapes[] = {
    {"Nop", [](const Header& h) { return text(compose(h, Nop{})); },
     "00000500 12345601 00000008 00000000"},
    {"Write",
     [](const Header& h) {
       return text(compose(h, nic::Write{kRemote, kLocal, 0x1000}));
     },
     "00000508 12345603 00000008 00000000 11223344 55667788 aabbccdd 00000000 "
     "00001000 01020304 99aabbcc ddeeff00"},
    {"WriteOfOneGigabyte",
     [](const Header& h) {
       return text(compose(h, nic::Write{kRemote, kLocal, 1u << 30}));
     },
     "00000508 12345603 00000008 00000000 11223344 55667788 aabbccdd 00000000 "
     "40000000 01020304 99aabbcc ddeeff00"},
    {"Read",
     [](const Header& h) {
       return text(compose(h, nic::Read{kRemote, kLocal, 0x12345}));
     },
     "00000510 12345603 00000008 00000000 11223344 55667788 aabbccdd 00000000 "
     "00012345 01020304 99aabbcc ddeeff00"},
    {"InlineWriteOf1Byte",
     [](const Header& h) {
       const uint32_t byte[3] = {0x61, 0, 0};
       return text(compose(h, nic::write_inline(kRemote, byte, 1)));
     },
     "00000508 12345603 00000008 00000000 11223344 55667788 aabbccdd 00000000 "
     "80000001 61000000 00000000 00000000"},
    {"InlineWriteOf8Bytes",
     [](const Header& h) {
       const uint32_t bytes[3] = {0x64636261, 0x68676665, 0};
       return text(compose(h, nic::write_inline(kRemote, bytes, 8)));
     },
     "00000508 12345603 00000008 00000000 11223344 55667788 aabbccdd 00000000 "
     "80000008 61626364 65666768 00000000"},
    {"InlineWriteOf12Bytes",
     [](const Header& h) { return text(compose(h, nic::write_inline(kRemote, kShort, 12))); },
     "00000508 12345603 00000008 00000000 11223344 55667788 aabbccdd 00000000 "
     "8000000c 61626364 65666768 696a6b6c"},
    {"InlineWriteOf13Bytes",
     [](const Header& h) {
       const uint32_t bytes[7] = {0x64636261, 0x68676665, 0x6c6b6a69, 0x6d, 0, 0, 0};
       return text(compose(h, nic::write_inline(kRemote, bytes, 13)));
     },
     "00000508 12345604 00000008 00000000 11223344 55667788 aabbccdd 00000000 "
     "8000000d 61626364 65666768 696a6b6c 6d000000 00000000 00000000 00000000"},
    {"InlineWriteOf28Bytes",
     [](const Header& h) { return text(compose(h, nic::write_inline(kRemote, kLong, 28))); },
     "00000508 12345604 00000008 00000000 11223344 55667788 aabbccdd 00000000 "
     "8000001c 61626364 65666768 696a6b6c 6d6e6f70 71727374 75767778 797a3031"},
    {"CompareSwap",
     [](const Header& h) {
       return text(compose(
           h, nic::CompareSwap<uint64_t>{kRemote, kLocal, 0x0102030405060708, 0x1112131415161718}));
     },
     "00000511 12345604 00000008 00000000 11223344 55667788 aabbccdd 00000000 "
     "11121314 15161718 01020304 05060708 00000008 01020304 99aabbcc ddeeff00"},
    {"FetchAdd",
     [](const Header& h) {
       return text(
           compose(h, nic::Atomic<Update::kAdd, uint64_t>{kRemote, kLocal, 0xfedcba9876543210}));
     },
     "00000512 12345604 00000008 00000000 11223344 55667788 aabbccdd 00000000 "
     "fedcba98 76543210 00000000 00000000 00000008 01020304 99aabbcc ddeeff00"},
    {"MaskedCompareSwapOf4Bytes",
     [](const Header& h) {
       const MaskedSwap<uint32_t> op{.compare = 0x01020304,
                                     .compare_mask = 0x11121314,
                                     .swap = 0x21222324,
                                     .swap_mask = 0x31323334};
       return text(compose_masked(h, kRemote, op, kLocal));
     },
     "08000514 12345604 00000008 00000000 11223344 55667788 aabbccdd 00000000 "
     "21222324 01020304 31323334 11121314 00000004 01020304 99aabbcc ddeeff00"},
    {"MaskedFetchAddOf4Bytes",
     [](const Header& h) {
       const MaskedAdd<uint32_t> op{.add = 0x01020304, .boundary = 0xf1f2f3f4};
       return text(compose_masked(h, kRemote, op, kLocal));
     },
     "08000515 12345604 00000008 00000000 11223344 55667788 aabbccdd 00000000 "
     "01020304 f1f2f3f4 00000000 00000000 00000004 01020304 99aabbcc ddeeff00"},
    {"MaskedCompareSwapOf8Bytes",
     [](const Header& h) {
       const MaskedSwap<uint64_t> op{.compare = 0x0102030405060708,
                                     .compare_mask = 0x1112131415161718,
                                     .swap = 0x2122232425262728,
                                     .swap_mask = 0x3132333435363738};
       return text(compose_masked(h, kRemote, op, kLocal));
     },
     "09000514 12345605 00000008 00000000 11223344 55667788 aabbccdd 00000000 "
     "21222324 25262728 01020304 05060708 31323334 35363738 11121314 15161718 "
     "00000008 01020304 99aabbcc ddeeff00"},
    {"MaskedFetchAddOf8Bytes",
     [](const Header& h) {
       const MaskedAdd<uint64_t> op{.add = 0x0102030405060708, .boundary = 0xf1f2f3f4f5f6f7f8};
       return text(compose_masked(h, kRemote, op, kLocal));
     },
     "09000515 12345604 00000008 00000000 11223344 55667788 aabbccdd 00000000 "
     "01020304 05060708 f1f2f3f4 f5f6f7f8 00000008 01020304 99aabbcc ddeeff00"},
    {"Dump",
     [](const Header& h) {
       return text(compose(h, nic::Dump{kLocal, 1}));
     },
     "00000523 12345602 00000008 00000000 00000001 01020304 99aabbcc ddeeff00"},
    {"Wait",
     [](const Header& h) {
       return text(compose(h, WaitForCq{0x00abcdef, 0x12345678}));
     },
     "0000050f 12345602 00000008 00000000 00000000 00000000 12345678 00abcdef"},
};

class WqeShape : public ::testing::TestWithParam<Shape> {
 protected:
  /// The golden bytes with `letters` in place of those from `place` on.
  static std::string golden_with(size_t place, const std::string& letters) {
    return std::string(GetParam().golden).replace(place, letters.size(), letters);
  }
};

TEST_P(WqeShape, IsComposedByteForByte) {
  EXPECT_EQ(GetParam().make(header(5, 0x123456)), GetParam().golden);
}

TEST_P(WqeShape, CarriesTheLow16BitsOfItsIndex) {
  constexpr size_t kIndex = 2;  // letters before it: "00"
  EXPECT_EQ(GetParam().make(header(0, 0x123456)), golden_with(kIndex, "0000"));
  EXPECT_EQ(GetParam().make(header(0xffff, 0x123456)), golden_with(kIndex, "ffff"));
  EXPECT_EQ(GetParam().make(header(0x10000, 0x123456)), golden_with(kIndex, "0000"));
  EXPECT_EQ(GetParam().make(header(0xffffffff, 0x123456)), golden_with(kIndex, "ffff"));
  EXPECT_EQ(GetParam().make(header(0x100000005, 0x123456)), golden_with(kIndex, "0005"));
}

TEST_P(WqeShape, CarriesAll24BitsOfItsQueuePair) {
  constexpr size_t kQpn = 9;  // letters before it: "00000508 "
  EXPECT_EQ(GetParam().make(header(5, 0)), golden_with(kQpn, "000000"));
  EXPECT_EQ(GetParam().make(header(5, 1)), golden_with(kQpn, "000001"));
  EXPECT_EQ(GetParam().make(header(5, 0xffffff)), golden_with(kQpn, "ffffff"));
  EXPECT_EQ(GetParam().make(header(5, 0x800000)), golden_with(kQpn, "800000"));
}

TEST_P(WqeShape, CarriesItsCompletionAndFenceModes) {
  constexpr size_t kFlags = 18;  // letters before it: "00000508 12345603 "
  const auto with = [](Completion completion, Fence fence) {
    Header h = header(5, 0x123456);
    h.completion = completion;
    h.fence = fence;
    return GetParam().make(h);
  };
  EXPECT_EQ(with(Completion::kOnError, Fence::kNone), golden_with(kFlags, "00000000"));
  EXPECT_EQ(with(Completion::kOnFirstError, Fence::kNone), golden_with(kFlags, "00000004"));
  EXPECT_EQ(with(Completion::kAlways, Fence::kNone), golden_with(kFlags, "00000008"));
  EXPECT_EQ(with(Completion::kAlwaysWithEvent, Fence::kNone), golden_with(kFlags, "0000000c"));
  EXPECT_EQ(with(Completion::kAlways, Fence::kInitiatorSmall), golden_with(kFlags, "00000028"));
  EXPECT_EQ(with(Completion::kOnError, Fence::kFence), golden_with(kFlags, "00000040"));
  EXPECT_EQ(with(Completion::kAlways, Fence::kStrong), golden_with(kFlags, "00000068"));
  EXPECT_EQ(with(Completion::kOnFirstError, Fence::kFenceAndSmall),
            golden_with(kFlags, "00000084"));
}

INSTANTIATE_TEST_SUITE_P(Every, WqeShape, ::testing::ValuesIn(kShapes),
                         [](const auto& tested) { return std::string(tested.param.name); });

TEST(Wqe, CountsItsBlocks) {
  EXPECT_EQ(Wqe<1>::kBlocks, 1u);
  EXPECT_EQ(Wqe<4>::kBlocks, 1u);
  EXPECT_EQ(Wqe<5>::kBlocks, 2u);
  EXPECT_EQ(Wqe<8>::kBlocks, 2u);
  EXPECT_EQ(Wqe<9>::kBlocks, 3u);
}

}  // namespace
}  // namespace peal::mlx5
