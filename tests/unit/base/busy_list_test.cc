// SPDX-License-Identifier: Apache-2.0
//
// Who is advanced how often.
#include "base/busy_list.h"

#include <gtest/gtest.h>

#include <map>

namespace peal {
namespace {

// Items are numbers; what has work loses one of it at each advance.
struct Items {
  bool round() {
    return list.round(
        [&](int item) {
          ++advances[item];
          return work[item] > 0 && work[item]-- > 0;
        },
        [&](int item) { return work[item] > 0; });
  }
  BusyList<int> list;
  std::map<int, int> work;
  std::map<int, int> advances;
};

TEST(BusyList, AdvancesEachOnceARoundHoweverOftenAdded) {
  Items items;
  for (int i = 0; i < 3; ++i) items.list.add(7);
  items.list.add(8);
  items.work[8] = 1;
  EXPECT_TRUE(items.round());
  EXPECT_FALSE(items.round());
  EXPECT_EQ(items.advances[7], 2);
  EXPECT_EQ(items.advances[8], 2);
}

TEST(BusyList, AnIdleItemIsLeftAloneUntilItHasWork) {
  Items items;
  items.list.add(7);
  for (int i = 0; i < 5000; ++i) items.round();
  const int before = items.advances[7];
  EXPECT_LT(before, 5000);
  items.round();
  EXPECT_EQ(items.advances[7], before);
  items.work[7] = 2;
  EXPECT_TRUE(items.round());
  EXPECT_TRUE(items.round());
  EXPECT_EQ(items.work[7], 0);
}

// Among more idle items than one round looks at, each has its turn.
TEST(BusyList, EveryIdleItemIsLookedAtInTime) {
  constexpr int kItems = 1000;
  Items items;
  for (int i = 0; i < kItems; ++i) items.list.add(i);
  for (int i = 0; i < 5000; ++i) items.round();
  items.work[kItems - 1] = 1;
  int rounds = 1;
  while (!items.round() && rounds < kItems) ++rounds;
  EXPECT_LT(rounds, kItems / 10);
}

TEST(BusyList, WhatWasRemovedIsNotTouched) {
  Items items;
  items.list.add(1);
  items.list.add(2);
  items.list.remove(1);
  for (int i = 0; i < 5000; ++i) items.round();
  items.list.remove(2);
  items.work[1] = items.work[2] = 1;
  EXPECT_FALSE(items.round());
  EXPECT_EQ(items.advances[1], 0);
}

}  // namespace
}  // namespace peal
