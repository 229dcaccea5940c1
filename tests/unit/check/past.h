// SPDX-License-Identifier: Apache-2.0
//
// A list of everything that ever happened, which shadows are compared with.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <random>
#include <vector>

#include "host/check/cell.h"

namespace peal::checking {

/// The memory is that of a PE that takes no part, so that all writes are transfers.
inline Known nothing() {
  Known known;
  known.owner = 7;
  return known;
}

inline ShadowSlot slot(int pe, bool write, uint32_t stamp = 1) {
  return ShadowSlot::of(write ? ShadowSlot::kWrite : 0, pe, static_cast<uint16_t>(pe + 1), stamp);
}

struct Bytes {
  uint64_t begin, end;
};

/// Two PEs access what `choose(random)` answers, and at times one learns of all the other did.
/// `conflicts(bytes, slot, known)` says whether the shadow finds one. With `exact` no cell has more
/// accesses than it can remember.
template <class Choose, class Conflicts>
void compare_with_past(unsigned seed, bool exact, const Choose& choose,
                       const Conflicts& conflicts) {
  struct Past {
    Bytes at;
    int pe;
    bool write;
    uint32_t stamp;
  };
  std::mt19937 random(seed);
  std::vector<Past> past;
  std::array<uint32_t, 2> clock{1, 1};
  std::array<Known, 2> known{nothing(), nothing()};
  for (int step = 0; step < 400; ++step) {
    const auto me = static_cast<size_t>(random() % 2);
    const size_t other = 1 - me;
    if (random() % 4 == 0) {
      known[me].done[other] = known[me].transferred[other] = clock[other]++;
      continue;
    }
    const Bytes at = choose(random);
    const bool write = random() % 2 == 0;
    const auto meets = [&](const Past& p) {
      return p.pe != static_cast<int>(me) && (p.write || write) && p.at.begin < at.end &&
             at.begin < p.at.end && p.stamp > known[me].done[other];
    };
    const bool expected = std::any_of(past.begin(), past.end(), meets);
    const bool got = conflicts(at, slot(static_cast<int>(me), write, clock[me]), known[me]);
    if (exact || got) {
      ASSERT_EQ(got, expected) << "seed " << seed << ", step " << step;
    }
    past.push_back({at, static_cast<int>(me), write, clock[me]});
  }
}

}  // namespace peal::checking
