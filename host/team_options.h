// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>

namespace peal {

/// What a team has memory for.
struct TeamOptions {
  /// Contexts that collective calls of it may be made on: those with the lowest numbers, of which
  /// the default context has 0.
  uint32_t contexts = 4;
  /// Blocks of a grid that take part in a call of a grid.
  uint32_t blocks = 16;
  /// Bytes of each context's workspace: the longest message that goes through it has a quarter of
  /// its share of a member where all are mapped, half of it by the NIC. Rounded up to 128.
  size_t workspace = 64u << 10;
  /// The same for calls from the host over mapped memory, which are made by a grid: longer messages
  /// are worth it. The team of all PEs has 8 MiB on GPUs.
  size_t grid_workspace = 64u << 10;

  bool operator==(const TeamOptions&) const = default;
};

}  // namespace peal
