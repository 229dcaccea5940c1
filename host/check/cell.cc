// SPDX-License-Identifier: Apache-2.0
#include "host/check/cell.h"

#include <algorithm>

namespace peal::checking {

// An access of its PE and kind, else any that it stands for, so that a PE has one read and one
// write in a cell; else an empty slot, else a read's.
int place_in(const Cell& cell, ShadowSlot mine, const Known& known) {
  int empty = -1;
  int read = -1;
  int other = -1;
  for (int i = 0; i < kSlots; ++i) {
    const ShadowSlot slot{cell[static_cast<size_t>(i)]};
    if (slot.bits == 0) {
      if (empty < 0) empty = i;
    } else if (stands_for(mine, slot, known)) {
      if (slot.pe() == mine.pe() && slot.write() == mine.write()) return i;
      if (other < 0 || slot.pe() == mine.pe()) other = i;
    } else if (!slot.write()) {
      read = i;
    }
  }
  if (other >= 0) return other;
  if (empty >= 0) return empty;
  return read >= 0 ? read : static_cast<int>(mine.stamp() % kSlots);
}

// Each leaves itself before it looks at the others for the last time.
Cell enter(std::atomic<uint64_t>* cell, ShadowSlot mine, const Known& known) {
  constexpr int kTries = 64;
  Cell seen = load(cell);
  for (int i = 0; i < kTries; ++i) {
    if (std::find(seen.begin(), seen.end(), mine.bits) != seen.end()) break;  // there already
    const auto at = static_cast<size_t>(place_in(seen, mine, known));
    uint64_t expected = seen[at];
    if (cell[at].compare_exchange_strong(expected, mine.bits)) {
      seen = load(cell, std::memory_order_seq_cst);
      seen[at] = expected;
      return seen;
    }
    seen = load(cell);
  }
  return seen;
}

}  // namespace peal::checking
