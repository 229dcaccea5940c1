// SPDX-License-Identifier: Apache-2.0
#include "host/check/shadow.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <barrier>
#include <random>
#include <thread>
#include <vector>

#include "tests/unit/check/past.h"

namespace peal::checking {
namespace {

constexpr uint64_t kGranules = 64;
constexpr uint64_t kBytes = kGranules * kGranule;

struct Cells {
  std::vector<std::atomic<uint64_t>> words = std::vector<std::atomic<uint64_t>>(kGranules * kSlots);
  std::atomic<uint64_t>* data() { return words.data(); }
};

int conflicts(Cells& cells, uint64_t begin, uint64_t end, ShadowSlot mine, const Known& known) {
  Conflicts found;
  access(cells.data(), begin, end, mine, known, found);
  return found.count;
}

TEST(ShadowSlot, KeepsItsFields) {
  const ShadowSlot made =
      ShadowSlot::of(ShadowSlot::kWrite | ShadowSlot::kWord, 63, 0xfffe, kMaxStamp).with(0xff);
  EXPECT_EQ(made.mask(), 0xffu);
  EXPECT_TRUE(made.write());
  EXPECT_TRUE(made.word());
  EXPECT_EQ(made.pe(), 63);
  EXPECT_EQ(made.site(), 0xfffe);
  EXPECT_EQ(made.stamp(), kMaxStamp);
}

TEST(Shadow, FindsTheBytesThatTwoWrite) {
  Cells cells;
  EXPECT_EQ(conflicts(cells, 3, 200, slot(0, true), nothing()), 0);
  Conflicts found;
  access(cells.data(), 190, 300, slot(1, true), nothing(), found);
  ASSERT_EQ(found.count, 1);
  EXPECT_EQ(found.list[0].begin, 190u);
  EXPECT_EQ(found.list[0].end, 200u);
  EXPECT_EQ(found.list[0].other.pe(), 0);
}

TEST(Shadow, NeighboursDoNotConflict) {
  for (uint64_t border = 1; border < 40; ++border) {
    Cells cells;
    EXPECT_EQ(conflicts(cells, 0, border, slot(0, true), nothing()), 0);
    EXPECT_EQ(conflicts(cells, border, 40, slot(1, true), nothing()), 0) << border;
  }
}

TEST(Shadow, ReadsDoNotConflictAndNothingIsEmpty) {
  Cells cells;
  EXPECT_EQ(conflicts(cells, 0, kBytes, slot(0, false), nothing()), 0);
  EXPECT_EQ(conflicts(cells, 0, kBytes, slot(1, false), nothing()), 0);
  EXPECT_EQ(conflicts(cells, 8, 8, slot(2, true), nothing()), 0);
  EXPECT_EQ(conflicts(cells, 8, 9, slot(2, true), nothing()), 2);
}

TEST(Shadow, TransfersWantMoreThanWhatIsDoneAtHome) {
  Known known = nothing();
  known.done[0] = 5;
  for (const int owner : {0, 1}) {
    Cells cells;
    known.owner = owner;
    EXPECT_EQ(conflicts(cells, 0, 8, slot(0, true, 5), known), 0);
    EXPECT_EQ(conflicts(cells, 0, 8, slot(1, true), known), owner == 0 ? 0 : 1);
  }
}

TEST(Shadow, ForgetsARange) {
  Cells cells;
  EXPECT_EQ(conflicts(cells, 0, kBytes, slot(0, true), nothing()), 0);
  forget(cells.data(), 8, 24);
  EXPECT_EQ(conflicts(cells, 8, 24, slot(1, true), nothing()), 0);
  EXPECT_EQ(conflicts(cells, 24, 25, slot(1, true), nothing()), 1);
}

TEST(Shadow, OfTwoAtATimeOneSeesTheOther) {
  constexpr int kRounds = 5000;
  std::vector<Cells> cells(kRounds);
  std::atomic<int> found{0};
  std::barrier together(2);
  const auto run = [&](int pe) {
    for (Cells& mine : cells) {
      together.arrive_and_wait();
      if (conflicts(mine, 0, 8, slot(pe, true), nothing()) != 0) found.fetch_add(1);
      together.arrive_and_wait();
      if (pe == 0) {
        EXPECT_GE(found.exchange(0), 1);
      }
      together.arrive_and_wait();
    }
  };
  std::thread other(run, 1);
  run(0);
  other.join();
}

// ---- against a list of everything that ever happened

// Ranges of whole units.
void compare(uint64_t unit, bool exact, unsigned seed) {
  Cells cells;
  compare_with_past(
      seed, exact,
      [unit](std::mt19937& random) {
        const uint64_t begin = random() % (kBytes / unit) * unit;
        return Bytes{begin, std::min(kBytes, begin + (random() % 40 + 1) * unit)};
      },
      [&](const Bytes& at, ShadowSlot mine, const Known& known) {
        return conflicts(cells, at.begin, at.end, mine, known) != 0;
      });
}

TEST(Shadow, FindsWhatAListOfAllAccessesFinds) {
  for (unsigned seed = 1; seed <= 300; ++seed) compare(kGranule, true, seed);
}

TEST(Shadow, MakesNothingUpWhereItForgets) {
  for (unsigned seed = 1; seed <= 300; ++seed) compare(1, false, seed);
}

}  // namespace
}  // namespace peal::checking
