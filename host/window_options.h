// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace peal {

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

}  // namespace peal
