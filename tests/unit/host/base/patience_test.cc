// SPDX-License-Identifier: Apache-2.0
//
// When a thread that looks for work naps, and for how long.
#include "host/base/patience.h"

#include <gtest/gtest.h>

namespace peal {
namespace {

using Nap = Patience::Nap;

TEST(Patience, NapsAfterLongIdlenessOnly) {
  for (const uint32_t rounds : {0u, 1u, 63u, 64u, 1023u}) {
    EXPECT_EQ(Patience::nap_after(rounds, Nap{320}), Nap::zero()) << rounds;
  }
  EXPECT_EQ(Patience::nap_after(1024, Nap{320}), Nap{20});
}

TEST(Patience, NapsGrowToTheLongest) {
  for (const Nap longest : {Nap{50}, Nap{320}, Nap{1000}}) {
    Nap last{0};
    for (uint32_t rounds = 1024; rounds < 1024 + 16 * 40; ++rounds) {
      const Nap nap = Patience::nap_after(rounds, longest);
      EXPECT_GE(nap, last);
      EXPECT_LE(nap, longest);
      last = nap;
    }
    EXPECT_EQ(last, longest);
    EXPECT_EQ(Patience::nap_after(~0u, longest), longest);
  }
}

TEST(Patience, WorkEndsIt) {
  Patience patience(Nap{320});
  const auto begin = std::chrono::steady_clock::now();
  for (int i = 0; i < 100'000; ++i) patience.after(i % 32 == 0);
  // Had it ever napped, it would have done so some 99,000 times, for more than a second.
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(1));
}

}  // namespace
}  // namespace peal
