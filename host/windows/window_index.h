// SPDX-License-Identifier: Apache-2.0
//
// The contents of a WindowIndex: which windows hold which addresses, for kernels that look one up.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "device/context.h"

namespace peal {

/// A window's part of this PE, which is not empty.
struct IndexedWindow {
  uint64_t begin;
  uint64_t bytes;
  uint32_t number;  // not 0
  bool peer;        // all PEs registered it
  WindowNearAt near = {};
};

/// What is copied to a WindowIndex.
struct IndexImage {
  uint32_t shift;
  std::vector<WindowSlot> slots;   // a power of two of them
  std::vector<WindowNearAt> near;  // by slot
  std::vector<WindowSpan> spans;   // by their beginnings; empty spans between windows among them

  /// PublishedIndex::drop.
  uint32_t drop() const;
};

/// Which window an address is of WindowSpan says. Granules are as small as the table has slots for,
/// so that most have one span. Of a granule with several windows the largest one that has a
/// WindowNearAt is near, of those that all their addresses are of. Takes less than kMaxWindows
/// windows; O(n log n).
IndexImage make_index(std::span<const IndexedWindow> windows);

}  // namespace peal
