// SPDX-License-Identifier: Apache-2.0
//
// What the proxy makes of work queue entries. The bytes are written out from the mlx5 tables, as
// they lie in the ring; the hazard is an entry that is taken for what it is not: of another lap, of
// another queue, half of one, or with segments that its opcode does not have.
#include "host/nic/mlx5/proxy_decode.h"

#include <gtest/gtest.h>

#include <cstring>
#include <sstream>
#include <string>
#include <vector>

namespace peal {
namespace {

using mlx5::Syndrome;
using Kind = ProxyWork::Kind;

constexpr uint32_t kDepth = 16;
constexpr uint32_t kQpn = 0x123456;

/// A ring, filled with what no entry looks like.
class Ring {
 public:
  Ring() : blocks_(kDepth * mlx5::kWqebbBytes, std::byte{0xee}) {}

  /// Hexadecimal words of four bytes, in memory order, from block `index` on, round the ring's end.
  void write(uint64_t index, const std::string& words) {
    std::istringstream text(words);
    size_t at = index * mlx5::kWqebbBytes;
    for (std::string word; text >> word; at += 4) {
      for (size_t i = 0; i < 4; ++i) {
        blocks_[(at + i) % blocks_.size()] =
            static_cast<std::byte>(std::stoul(word.substr(2 * i, 2), nullptr, 16));
      }
    }
  }

  Syndrome decode(uint64_t index, uint64_t posted) {
    return decode_for_proxy({blocks_.data(), kDepth, kQpn}, index, posted, work);
  }

  ProxyWork work;

 private:
  std::vector<std::byte> blocks_;
};

/// Decodes one entry at index 5.
Syndrome decoded(Ring& ring, const std::string& words, uint64_t posted = 7) {
  ring.write(5, words);
  return ring.decode(5, posted);
}

const std::string kRemote = " 11223344 55667788 aabbccdd 00000000 ";

TEST(ProxyDecode, OfAWrite) {
  Ring ring;
  ASSERT_EQ(decoded(ring, "00000508 12345603 00000008 00000000" + kRemote +
                              "00001000 01020304 99aabbcc ddeeff00"),
            Syndrome::kNone);
  EXPECT_EQ(ring.work.kind, Kind::kWrite);
  EXPECT_EQ(ring.work.opcode, mlx5::Opcode::kRdmaWrite);
  EXPECT_EQ(ring.work.remote, 0x1122334455667788u);
  EXPECT_EQ(ring.work.rkey, 0xaabbccddu);
  EXPECT_EQ(ring.work.bytes, 0x1000u);
  EXPECT_EQ(ring.work.lkey, 0x01020304u);
  EXPECT_EQ(ring.work.local, 0x99aabbccddeeff00u);
  EXPECT_EQ(ring.work.blocks, 1u);
  EXPECT_TRUE(ring.work.reports);
}

TEST(ProxyDecode, OfInlineWritesOfAllLengths) {
  Ring ring;
  ASSERT_EQ(decoded(ring, "00000508 12345603 00000004 00000000" + kRemote +
                              "80000008 61626364 65666768 00000000"),
            Syndrome::kNone);
  EXPECT_EQ(ring.work.kind, Kind::kInlineWrite);
  EXPECT_EQ(ring.work.bytes, 8u);
  EXPECT_EQ(std::memcmp(ring.work.in_place, "abcdefgh", 8), 0);
  EXPECT_FALSE(ring.work.reports);
  ASSERT_EQ(
      decoded(ring, "00000508 12345604 00000008 00000000" + kRemote +
                        "8000001c 61626364 65666768 696a6b6c 6d6e6f70 71727374 75767778 797a3031"),
      Syndrome::kNone);
  EXPECT_EQ(ring.work.bytes, 28u);
  EXPECT_EQ(std::memcmp(ring.work.in_place, "abcdefghijklmnopqrstuvwxyz01", 28), 0);
}

TEST(ProxyDecode, OfReadNopAndDump) {
  Ring ring;
  ASSERT_EQ(decoded(ring, "00000510 12345603 00000048 00000000" + kRemote +
                              "00012345 01020304 99aabbcc ddeeff00"),
            Syndrome::kNone);
  EXPECT_EQ(ring.work.kind, Kind::kRead);
  EXPECT_EQ(ring.work.fence, mlx5::Fence::kFence);
  ASSERT_EQ(decoded(ring, "00000500 12345601 00000008 00000000"), Syndrome::kNone);
  EXPECT_EQ(ring.work.kind, Kind::kNothing);
  ASSERT_EQ(
      decoded(ring, "00000523 12345602 00000008 00000000 00000001 01020304 99aabbcc ddeeff00"),
      Syndrome::kNone);
  EXPECT_EQ(ring.work.kind, Kind::kNothing);
}

TEST(ProxyDecode, OfAtomicsThatEveryNicHas) {
  Ring ring;
  const std::string result = " 00000008 01020304 99aabbcc ddeeff00";
  ASSERT_EQ(decoded(ring, "00000512 12345604 00000008 00000000" + kRemote +
                              "01020304 05060708 00000000 00000000" + result),
            Syndrome::kNone);
  EXPECT_EQ(ring.work.kind, Kind::kFetchAdd);
  EXPECT_EQ(ring.work.swap_or_add, 0x0102030405060708u);
  ASSERT_EQ(decoded(ring, "00000511 12345604 00000008 00000000" + kRemote +
                              "01020304 05060708 11121314 15161718" + result),
            Syndrome::kNone);
  EXPECT_EQ(ring.work.kind, Kind::kCompareSwap);
  EXPECT_EQ(ring.work.swap_or_add, 0x0102030405060708u);
  EXPECT_EQ(ring.work.compare, 0x1112131415161718u);
  // A masked addition without boundaries is one too.
  ASSERT_EQ(decoded(ring, "09000515 12345604 00000008 00000000" + kRemote +
                              "01020304 05060708 00000000 00000000" + result),
            Syndrome::kNone);
  EXPECT_EQ(ring.work.kind, Kind::kFetchAdd);
  EXPECT_EQ(ring.work.swap_or_add, 0x0102030405060708u);
}

TEST(ProxyDecode, OfMaskedAtomics) {
  Ring ring;
  // On 4 bytes, at the upper half of the 8.
  ASSERT_EQ(decoded(ring,
                    "08000514 12345604 00000008 00000000 11223344 5566778c aabbccdd 00000000 "
                    "00000007 00000005 0000000f 000000ff 00000004 01020304 99aabbcc ddeeff00"),
            Syndrome::kNone);
  EXPECT_EQ(ring.work.kind, Kind::kMasked);
  EXPECT_EQ(ring.work.masked.bytes, 4);
  EXPECT_EQ(ring.work.masked.operand, 7u);
  EXPECT_EQ(ring.work.masked.compare, 5u);
  EXPECT_EQ(ring.work.masked.swap_mask, 0xfu);
  EXPECT_EQ(ring.work.masked.compare_mask, 0xffu);
  ASSERT_EQ(decoded(ring,
                    "08000515 12345604 00000008 00000000 11223344 55667788 aabbccdd 00000000 "
                    "00000007 ffffffff 00000000 00000000 00000004 01020304 99aabbcc ddeeff00"),
            Syndrome::kNone);
  EXPECT_EQ(ring.work.masked.kind, MaskedAtomic::Kind::kFetchAdd);
  EXPECT_EQ(ring.work.masked.boundary, 0xffffffffu);
}

// On 8 bytes it takes two blocks, the second of which may lie at the ring's beginning.
TEST(ProxyDecode, OfAMaskedSwapAroundTheRingsEnd) {
  Ring ring;
  ring.write(15,
             "09000f14 12345605 00000008 00000000 11223344 55667788 aabbccdd 00000000 "
             "00000000 00000007 00000000 00000005 00000000 0000000f 00000000 000000ff "
             "00000008 01020304 99aabbcc ddeeff00");
  EXPECT_EQ(ring.decode(15, 16), Syndrome::kLocalQpOperation) << "half of it is posted";
  EXPECT_EQ(ring.work.blocks, 2u);
  ASSERT_EQ(ring.decode(15, 17), Syndrome::kNone);
  EXPECT_EQ(ring.work.kind, Kind::kMasked);
  EXPECT_EQ(ring.work.masked.swap_mask, 0xfu);
  EXPECT_EQ(ring.work.local, 0x99aabbccddeeff00u);
}

TEST(ProxyDecode, RefusesAnotherLapAndAnotherQueue) {
  Ring ring;
  const std::string rest = " 12345601 00000008 00000000";
  EXPECT_EQ(decoded(ring, "00000500" + rest), Syndrome::kNone);
  EXPECT_EQ(ring.decode(5 + kDepth, 6 + kDepth), Syndrome::kLocalQpOperation)
      << "of the lap before";
  EXPECT_EQ(decoded(ring, "00001500" + rest), Syndrome::kLocalQpOperation) << "of the next lap";
  EXPECT_EQ(ring.decode(5 + kDepth, 6 + kDepth), Syndrome::kNone);
  EXPECT_EQ(ring.decode(5 + kDepth + 0x10000, 6 + kDepth + 0x10000), Syndrome::kNone)
      << "16 bits are all there is";
  EXPECT_EQ(decoded(ring, "00000500 12345701 00000008 00000000"), Syndrome::kLocalQpOperation);
}

struct Malformed {
  const char* what;
  const char* words;
  Syndrome syndrome = Syndrome::kLocalQpOperation;
};

TEST(ProxyDecode, RefusesWhatKernelsDoNotCompose) {
  const std::string data = "00000008 01020304 99aabbcc ddeeff00";
  const Malformed kCases[] = {
      {"no segments", "00000508 12345600 00000008 00000000"},
      {"reserved bits of ds", "00000500 12345641 00000008 00000000"},
      {"more than two blocks", "00000508 12345609 00000008 00000000"},
      {"an unknown fence", "00000500 12345601 000000a8 00000000"},
      {"SEND", "0000050a 12345602 00000008 00000000 00000008 01020304 99aabbcc ddeeff00"},
      {"WAIT", "0000050f 12345602 00000008 00000000 00000000 00000000 00000001 00000001"},
      {"a write without address", "00000508 12345601 00000008 00000000"},
      {"a write with an opmod",
       "01000508 12345603 00000008 00000000 11223344 55667788 aabbccdd 00000000 "
       "00000008 01020304 99aabbcc ddeeff00"},
      {"two data segments",
       "00000508 12345604 00000008 00000000 11223344 55667788 aabbccdd 00000000 "
       "00000008 01020304 99aabbcc ddeeff00 00000008 01020304 99aabbcc ddeeff00"},
      {"an inline read",
       "00000510 12345603 00000008 00000000 11223344 55667788 aabbccdd 00000000 "
       "80000008 61626364 65666768 00000000"},
      {"no inline bytes",
       "00000508 12345603 00000008 00000000 11223344 55667788 aabbccdd 00000000 "
       "80000000 61626364 65666768 00000000"},
      {"inline bytes beyond ds",
       "00000508 12345603 00000008 00000000 11223344 55667788 aabbccdd "
       "00000000 8000000d 61626364 65666768 00000000"},
      {"29 inline bytes",
       "00000508 12345605 00000008 00000000 11223344 55667788 aabbccdd 00000000 "
       "8000001d 61626364 65666768 00000000"},
      {"2 GiB",
       "00000508 12345603 00000008 00000000 11223344 55667788 aabbccdd 00000000 "
       "00000000 01020304 99aabbcc ddeeff00",
       Syndrome::kLocalLength},
      {"1 GiB and a byte",
       "00000508 12345603 00000008 00000000 11223344 55667788 aabbccdd 00000000 "
       "40000001 01020304 99aabbcc ddeeff00",
       Syndrome::kLocalLength},
      {"a result of 4 bytes",
       "00000512 12345604 00000008 00000000 11223344 55667788 aabbccdd 00000000 "
       "00000000 00000001 00000000 00000000 00000004 01020304 99aabbcc ddeeff00"},
      {"an atomic on 2 bytes",
       "07000515 12345604 00000008 00000000 11223344 55667788 aabbccdd "
       "00000000 00000000 00000001 00000000 00000000 "
       "00000008 01020304 99aabbcc ddeeff00"},
      {"a masked swap cut short",
       "09000514 12345604 00000008 00000000 11223344 55667788 aabbccdd "
       "00000000 00000000 00000001 00000000 00000000 "
       "00000008 01020304 99aabbcc ddeeff00"},
      {"a word across words",
       "00000512 12345604 00000008 00000000 11223344 55667784 aabbccdd 00000000 "
       "00000000 00000001 00000000 00000000 00000008 01020304 99aabbcc ddeeff00",
       Syndrome::kRemoteInvalidRequest},
  };
  for (const Malformed& one : kCases) {
    Ring ring;
    EXPECT_EQ(decoded(ring, one.words), one.syndrome) << one.what;
    EXPECT_GE(ring.work.blocks, 1u) << one.what;
  }
}

/// Bit by bit, as the manual says it.
uint64_t add_bit_by_bit(uint64_t a, uint64_t b, uint64_t boundary, int bits) {
  uint64_t sum = 0;
  unsigned carry = 0;
  for (int i = 0; i < bits; ++i) {
    const unsigned digits = static_cast<unsigned>((a >> i & 1) + (b >> i & 1)) + carry;
    sum |= uint64_t{digits & 1} << i;
    carry = (boundary >> i & 1) != 0 ? 0 : digits >> 1;
  }
  return sum;
}

TEST(MaskedAtomic, AddsInFields) {
  uint64_t state = 1;
  const auto next = [&state] {
    return state = state * 6364136223846793005u + 1442695040888963407u;
  };
  for (int i = 0; i < 2000; ++i) {
    const uint64_t boundary = i % 3 == 0   ? next()
                              : i % 3 == 1 ? ~uint64_t{0}
                                           : next() & next() & next();
    MaskedAtomic add{MaskedAtomic::Kind::kFetchAdd, 8, next(), 0, 0, 0, boundary};
    const uint64_t old = next();
    ASSERT_EQ(add.apply(old), add_bit_by_bit(old, add.operand, boundary, 64)) << i;
    add.bytes = 4;
    add.operand &= 0xffffffff;
    add.boundary &= 0xffffffff;
    ASSERT_EQ(add.apply(old & 0xffffffff),
              add_bit_by_bit(old & 0xffffffff, add.operand, add.boundary, 32))
        << i;
  }
}

TEST(MaskedAtomic, SwapsOnlyWhereItMayAndIfItMay) {
  const MaskedAtomic swap{MaskedAtomic::Kind::kCompareSwap, 8, 0xabcd, 0x12, 0xff00, 0xff, 0};
  EXPECT_EQ(swap.apply(0x7777777777777712u), 0x777777777777ab12u);
  EXPECT_EQ(swap.apply(0x7777777777777713u), 0x7777777777777713u) << "compares unequal";
}

TEST(MaskedAtomic, TouchesOneHalfOnly) {
  const MaskedAtomic swap{MaskedAtomic::Kind::kCompareSwap, 4, 5, 0, 0xffffffff, 0, 0};
  EXPECT_EQ(swap.apply_around(0x1111111122222222u, 0x1000), 0x1111111100000005u);
  EXPECT_EQ(swap.apply_around(0x1111111122222222u, 0x1004), 0x0000000522222222u);
  EXPECT_EQ(swap.word_in(0x1111111122222222u, 0x1000), 0x22222222u);
  EXPECT_EQ(swap.word_in(0x1111111122222222u, 0x1004), 0x11111111u);
  const MaskedAtomic add{MaskedAtomic::Kind::kFetchAdd, 4, 0xffffffff, 0, 0, 0, 0};
  EXPECT_EQ(add.apply_around(0x1111111100000002u, 0x1000), 0x1111111100000001u) << "no carry";
}

}  // namespace
}  // namespace peal
