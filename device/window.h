// SPDX-License-Identifier: Apache-2.0
//
// Windows by number: where the parts of a window differ in size, or have no address of this PE's,
// operations name a byte of the peer's part by the window and its offset.
//
//   const WindowHandle window = pe.register_window(mine, bytes);
//   put(ctx, window.at<float>(4096), source, 32, peer);      // from byte 4096 of the peer's part
#pragma once

#include <cstddef>
#include <cstdint>

#include "device/base/target.h"

namespace peal {
namespace detail {

// An address that no memory has (its upper bits are neither all 0 nor all 1):
// [63] 1 | [62:48] number of the window | [47:0] offset.
inline constexpr uint64_t kNamesWindow = uint64_t{1} << 63;
inline constexpr uint32_t kOffsetBits = 48;
inline constexpr uint64_t kOffsetMask = (uint64_t{1} << kOffsetBits) - 1;

PEAL_HD bool names_window(const void* address) {
  return reinterpret_cast<uint64_t>(address) >> 63 != 0;
}
PEAL_HD uint32_t window_number(const void* address) {
  return static_cast<uint32_t>(reinterpret_cast<uint64_t>(address) >> kOffsetBits & 0x7fff);
}
PEAL_HD uint64_t window_offset(const void* address) {
  return reinterpret_cast<uint64_t>(address) & kOffsetMask;
}

}  // namespace detail

/// Names a window on the PE that registered it; another PE's handle of the same window may have
/// another number. Plain data: kernels take it as an argument. Void after unregister_window().
struct WindowHandle {
  uint32_t number = 0;  // 0: no window

  bool operator==(const WindowHandle&) const = default;

  /// Stands for byte `offset` of the window's part at whatever PE an operation names, wherever an
  /// operation takes symmetric memory: destinations of puts, sources of gets, words of atomics and
  /// signals. Not an address: nothing is loaded or stored by it, and at home (sources of puts,
  /// destinations of gets, words of waits) operations take memory by its own address. Offsets are
  /// in bytes, below 2^48, and may be reckoned with: at<float>(0) + 2 is at<float>(8).
  template <class T = std::byte>
  PEAL_HD T* at(uint64_t offset = 0) const {
    return reinterpret_cast<T*>(detail::kNamesWindow | uint64_t{number} << detail::kOffsetBits |
                                (offset & detail::kOffsetMask));
  }
};

}  // namespace peal
