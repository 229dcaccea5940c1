// SPDX-License-Identifier: Apache-2.0
//
// Three unsigned extents or indices, as CUDA's dim3 and uint3.
#pragma once

#include <cstdint>

namespace peal::simt {

/// An extent (every component at least 1) or an index. One number means {n, 1, 1}.
struct Dim3 {
  unsigned x = 1, y = 1, z = 1;

  constexpr Dim3() = default;
  constexpr Dim3(unsigned width, unsigned height = 1, unsigned depth = 1)
      : x(width), y(height), z(depth) {}

  /// Product of the three. Exact for every grid that launch() accepts.
  constexpr uint64_t count() const { return uint64_t{x} * y * z; }

  friend constexpr bool operator==(const Dim3&, const Dim3&) = default;
};

}  // namespace peal::simt
