// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>

namespace peal {

/// What memory a block of the symmetric heap lies in: the kernels' own (a GPU's where they run on
/// one), or the host's, which kernels on a GPU load and store over the bus. Where kernels run on a
/// CPU the two are one.
enum class HeapKind : uint64_t { kDevice, kHost };

/// A block of the symmetric heap, where this PE has it.
struct HeapBlock {
  void* address;
  size_t bytes;  // as they were asked for
  HeapKind kind;
};

}  // namespace peal
