// SPDX-License-Identifier: Apache-2.0
//
// Numbers of PEs as text.
#include "base/ranges.h"

#include <gtest/gtest.h>

#include <vector>

namespace peal {
namespace {

TEST(Ranges, NeighboursAreOneRange) {
  EXPECT_EQ(ranges(std::vector<size_t>{}), "");
  EXPECT_EQ(ranges(std::vector<size_t>{4}), "4");
  EXPECT_EQ(ranges(std::vector<size_t>{1, 2, 3, 7}), "1-3, 7");
  EXPECT_EQ(ranges(std::vector<int>{0, 2, 4, 5}), "0, 2, 4-5");
}

TEST(Ranges, RunsCoverAllAndAreTheLongest) {
  const std::vector<int> values = {5, 5, 6, 5, 5, 5};
  std::string seen;
  for_each_run(
      values.size(), [&](size_t a, size_t b) { return values[a] == values[b]; },
      [&](size_t first, size_t last) { seen += name_pes(first, last) + ";"; });
  EXPECT_EQ(seen, "PEs 0-1;PE 2;PEs 3-5;");
}

}  // namespace
}  // namespace peal
