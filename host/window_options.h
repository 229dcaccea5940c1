// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace peal {

/// What the PEs agree on when they register a window; the same on all.
struct WindowOptions {
  /// Parts of different sizes; a PE without one registers nullptr and 0 bytes. Operations are
  /// checked against the size of the part that they are for.
  bool any_size = false;

  bool operator==(const WindowOptions&) const = default;
};

}  // namespace peal
