// SPDX-License-Identifier: Apache-2.0
//
// Big-endian words: what lies in memory, byte for byte.
#include "device/base/endian.h"

#include <cstring>
#include <type_traits>

#include "gtest/gtest.h"
#include "tests/support/fake_nic.h"

namespace peal {
namespace {

TEST(Endian, SixteenBitsLieMostSignificantByteFirst) {
  const Be16 word{uint16_t{0x1234}};
  EXPECT_EQ(testing::hex(&word, sizeof word), "1234");
}

TEST(Endian, ThirtyTwoBitsLieMostSignificantByteFirst) {
  const Be32 word{0x12345678u};
  EXPECT_EQ(testing::hex(&word, sizeof word), "12345678");
}

TEST(Endian, SixtyFourBitsLieMostSignificantByteFirst) {
  const Be64 word{uint64_t{0x1122334455667788}};
  EXPECT_EQ(testing::hex(&word, sizeof word), "11223344 55667788");
}

TEST(Endian, HostReadsBackWhatWentIn) {
  for (const uint32_t value : {0u, 1u, 0x80000000u, 0xdeadbeefu, 0xffffffffu}) {
    EXPECT_EQ(Be32{value}.host(), value);
    EXPECT_EQ(Be64{uint64_t{value} << 17}.host(), uint64_t{value} << 17);
  }
}

TEST(Endian, RawBytesAreTakenAsTheyAre) {
  const uint8_t bytes[4] = {0xaa, 0xbb, 0xcc, 0xdd};
  uint32_t raw;
  std::memcpy(&raw, bytes, 4);
  EXPECT_EQ(Be32::from_raw(raw).host(), 0xaabbccddu);
}

TEST(Endian, ShiftsUpAsTheHostDoes) {
  EXPECT_TRUE(shifted_up(Be32{0x123456u}) == Be32{0x12345600u});
}

TEST(Endian, EqualMeansSameBytes) {
  EXPECT_TRUE(Be32{7u} == Be32{7u});
  EXPECT_FALSE(Be32{7u} == Be32::from_raw(7u));
}

TEST(Endian, NoConversionHappensUnasked) {
  EXPECT_FALSE((std::is_convertible_v<uint32_t, Be32>));
  EXPECT_FALSE((std::is_convertible_v<Be32, uint32_t>));
  EXPECT_FALSE((std::is_constructible_v<Be32, Be64>));
}

TEST(Endian, WorksInConstantExpressions) {
  static_assert(Be32{0x01020304u}.raw == 0x04030201u);
  static_assert(swap_bytes(uint16_t{0x0102}) == 0x0201);
  static_assert(swap_bytes(uint64_t{1}) == uint64_t{1} << 56);
}

}  // namespace
}  // namespace peal
