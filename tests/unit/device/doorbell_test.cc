// SPDX-License-Identifier: Apache-2.0
//
// The two words by which the NIC hears of work, as they lie in memory.
#include "device/mlx5/doorbell.h"

#include "gtest/gtest.h"
#include "tests/support/fake_nic.h"

namespace peal::mlx5 {
namespace {

std::string record_after(uint64_t posted) {
  DoorbellRecord record{};
  write_doorbell_record(&record, posted_count(posted));
  return testing::hex(&record, sizeof record);
}

std::string register_after(uint64_t posted, uint32_t qpn) {
  uint64_t reg = 0;
  ring_doorbell(&reg, posted_count(posted), Be32{qpn << 8});
  return testing::hex(&reg, sizeof reg);
}

TEST(Doorbell, RecordHoldsTheSendCountInItsSecondWord) {
  EXPECT_EQ(record_after(0x1234), "00000000 00001234");
}

TEST(Doorbell, RecordHolds16Bits) {
  EXPECT_EQ(record_after(0xffff), "00000000 0000ffff");
  EXPECT_EQ(record_after(0x10000), "00000000 00000000");
  EXPECT_EQ(record_after(0x100000007), "00000000 00000007");
}

TEST(Doorbell, RecordLeavesTheReceiveCountAlone) {
  DoorbellRecord record{Be32{0x55u}, Be32{0u}};
  write_doorbell_record(&record, posted_count(3));
  EXPECT_EQ(testing::hex(&record, sizeof record), "00000055 00000003");
}

TEST(Doorbell, RegisterNamesIndexAndQueuePair) {
  EXPECT_EQ(register_after(0x1234, 0xabcdef), "00123400 abcdef00");
}

TEST(Doorbell, RegisterTakesTheExtremesOfBothFields) {
  EXPECT_EQ(register_after(0, 0), "00000000 00000000");
  EXPECT_EQ(register_after(0xffff, 0xffffff), "00ffff00 ffffff00");
  EXPECT_EQ(register_after(0x10000, 1), "00000000 00000100");
  EXPECT_EQ(register_after(0x100000005, 0x800000), "00000500 80000000");
}

}  // namespace
}  // namespace peal::mlx5
