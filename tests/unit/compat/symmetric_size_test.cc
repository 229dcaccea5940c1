// SPDX-License-Identifier: Apache-2.0
#include "compat/detail/symmetric_size.h"

#include <gtest/gtest.h>

namespace peal::compat {
namespace {

// The examples of NVSHMEM's guide.
TEST(SymmetricSize, IsAsTheGuideSays) {
  EXPECT_EQ(symmetric_size("1073741824"), 1u << 30);
  EXPECT_EQ(symmetric_size("20m"), 20971520u);
  EXPECT_EQ(symmetric_size("3.1M"), 3250586u);
  EXPECT_EQ(symmetric_size("20kk"), symmetric_size("20k"));
  EXPECT_EQ(symmetric_size("200kk"), 200u << 10);
  EXPECT_EQ(symmetric_size(".5m"), symmetric_size("0.5m"));
  EXPECT_EQ(symmetric_size("1.5G"), uint64_t{3} << 29);
  EXPECT_EQ(symmetric_size("2t"), uint64_t{2} << 40);
}

TEST(SymmetricSize, OfASmallProgramIsTheLeast) {
  EXPECT_EQ(symmetric_size("0"), 64u << 10);
  EXPECT_EQ(symmetric_size("2270"), 64u << 10);
  EXPECT_EQ(symmetric_size("65537"), 65537u);
}

TEST(SymmetricSize, IsRefused) {
  for (const char* text :
       {"", ".", "m", "-1", "+1", " 1", "2 buckets", "1x", "inf", "nan", "17T"}) {
    EXPECT_EQ(symmetric_size(text), std::nullopt) << text;
  }
}

}  // namespace
}  // namespace peal::compat
