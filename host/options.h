// SPDX-License-Identifier: Apache-2.0
//
// What programs may ask of a context, a team, a window, and of a job that is rejoined.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>

namespace peal {

/// What a context of one's own may differ in. 0 = as configured.
struct ContextOptions {
  uint32_t queues_per_peer = 0;
  uint32_t depth = 0;                     // WQEBBs per queue, power of two
  std::chrono::microseconds timeout{-1};  // of every wait; 0 = none, negative = as configured
};

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

/// What the PEs agree on when they register a window; the same on all.
struct WindowOptions {
  /// Parts of different sizes; a PE without one registers nullptr and 0 bytes. Operations are
  /// checked against the size of the part that they are for.
  bool any_size = false;

  /// Memory that was registered so before is found again, and its window answered, in one exchange
  /// among the PEs. A window ends by itself once memory of it has been freed on some PE: in the
  /// next registration after that, of whatever memory. For memory whose owner peal cannot ask, such
  /// as tensors of a framework; kUnsupported where CUDA does not know the memory, for nothing tells
  /// when that is freed.
  bool cached = false;

  bool operator==(const WindowOptions&) const = default;
};

/// What outlives the end of a PE; the same on all PEs that live.
struct RejoinOptions {
  /// The heap stays, with its blocks and what they hold; a new process has the same blocks, of
  /// zeros (Runtime::blocks). Transfers that were under way when the PE ended may have arrived, in
  /// part too; none arrives after rejoin().
  bool keep_heap = false;
};

}  // namespace peal
