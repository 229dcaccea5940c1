// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>

#include "device/detail/resolve.h"

namespace peal::detail {

/// Where the near lines say that a range, or what its address names, is mapped of near PE `slot`;
/// null if they do not.
inline std::byte* near_to(const WindowTable* table, const void* address, uint64_t bytes,
                          uint32_t slot) {
  ContextFields ctx{};
  ctx.windows = table;
  const AtHand at = find_near_window(ctx, {address, bytes, static_cast<int>(slot)}, slot);
  return at.here ? at.address : nullptr;
}

}  // namespace peal::detail
