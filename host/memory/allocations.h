// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>

#include "host/memory/gpu.h"

namespace peal {

/// Calls `body(driver, at, base, bytes)` for each allocation or mapping that a range lies in, in
/// their order, until it answers false: `at` is the range's first byte in it, `base` its own.
/// Answers whether it never did, and CUDA knew all of the range.
template <class Body>
bool for_each_allocation(const Gpu& gpu, const std::byte* address, size_t bytes, const Body& body) {
  const cuda::Address end = device_address(address) + bytes;
  return gpu.within([&](const cuda::Driver& driver) {
    for (cuda::Address at = device_address(address); at < end;) {
      cuda::Address base = 0;
      size_t size = 0;
      if (driver.address_range(&base, &size, at) != cuda::kSuccess || base + size <= at ||
          !body(driver, at, base, size)) {
        return false;
      }
      at = base + size;
    }
    return true;
  });
}

}  // namespace peal
