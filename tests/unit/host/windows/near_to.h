// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>

#include "device/detail/lookup.h"

namespace peal::detail {

/// Where the near lines say that a range, or what its address names, is mapped of near PE `slot`;
/// null if they do not.
inline std::byte* near_to(const WindowTable* table, const void* address, uint64_t bytes,
                          uint32_t slot) {
  ContextFields ctx{};
  ctx.windows = table;
  std::byte heap{};
  for (std::byte*& near : ctx.near) near = &heap;
  const Asked asked{address, bytes, static_cast<int>(slot)};
  return find_near_window(
      ctx, asked, find_near(ctx, asked), [](std::byte* at) { return at; },
      [] { return static_cast<std::byte*>(nullptr); });
}

}  // namespace peal::detail
