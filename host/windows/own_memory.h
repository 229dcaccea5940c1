// SPDX-License-Identifier: Apache-2.0
//
// Memory of this PE as calls from the host may name it: what one allocation of the heap holds, or
// one window or registered range beside the heap. A range that leaves it would take along what lies
// next to it.
#pragma once

#include <cstddef>

#include "host/memory/symmetric_heap.h"
#include "host/windows/windows.h"

namespace peal {

struct OwnMemory {
  const SymmetricHeap& heap;
  const Windows& windows;

  /// Throws kInvalidArgument, naming `call`, unless [at, at + bytes) is such memory; else answers
  /// the window that it lies in. `bytes` is not 0.
  const Windows::Range& holding(const char* call, const void* at, size_t bytes) const;
};

}  // namespace peal
