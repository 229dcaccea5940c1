// SPDX-License-Identifier: Apache-2.0
#include "host/windows/own_memory.h"

#include <fmt/format.h>

#include "host/base/error.h"

namespace peal {

const Windows::Range& OwnMemory::holding(const char* call, const void* at, size_t bytes) const {
  const auto block = heap.block_around(at);
  const auto* const from = static_cast<const std::byte*>(at);
  const size_t offset = block ? static_cast<size_t>(from - block->begin) : 0;
  if (block && (offset > block->bytes || bytes > block->bytes - offset)) {
    fail(ErrorCode::kInvalidArgument,
         "{}: {} bytes at {} leave the block of {} bytes that begins at {}", call, bytes,
         fmt::ptr(at), block->bytes, fmt::ptr(block->begin));
  }
  const bool none = detail::names_window(at) || (!block && heap.contains(at));
  const Windows::Range* const range = none ? nullptr : windows.find(at, bytes).range;
  if (range == nullptr) {
    fail(ErrorCode::kInvalidArgument,
         "{}: {} bytes at {} lie in no block of the heap and in no window; use malloc(), or "
         "register_window() first",
         call, bytes, fmt::ptr(at));
  }
  return *range;
}

}  // namespace peal
