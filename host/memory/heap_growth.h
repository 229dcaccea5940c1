// SPDX-License-Identifier: Apache-2.0
//
// What the symmetric heap grows by. The heap deals out memory and knows nothing of GPUs, NICs and
// mappings; whoever does fills this in.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>

#include "host/memory/backing.h"
#include "host/memory/heap_kind.h"

namespace peal {

struct HeapGrowth {
  uint64_t step;   // bytes of a segment, at least; alike on all PEs
  uint64_t limit;  // bytes of all segments of one kind, the first included; likewise

  /// This PE's part of a segment, zeroed; not collective.
  std::function<Backing(size_t bytes, HeapKind kind)> make;
  /// Collective. Makes it a window, and answers its number on this PE; ends that.
  std::function<uint32_t(const Backing& memory)> publish;
  std::function<void(uint32_t window)> hide;
};

}  // namespace peal
