// SPDX-License-Identifier: Apache-2.0
//
// What the windows of a PE are asked for: the one that holds an address, and what is told of one.

#include <fmt/format.h>

#include "base/ranges.h"
#include "host/base/error.h"
#include "host/windows/windows.h"

namespace peal {

// Looks where kernels look: into the heap, then into the window that the index has for the address.
// A window of all PEs comes first, for peers need such a one.
const Windows::Range* Windows::around(const std::byte* address, size_t bytes) const {
  const auto holding = [&](uint32_t number) -> const Range* {
    const auto entry = entries_.find(number);
    if (entry == entries_.end()) return nullptr;
    const Range& range = entry->second.range;
    const auto offset = static_cast<size_t>(address - range.begin);
    return bytes <= range.bytes && offset <= range.bytes - bytes ? &range : nullptr;
  };
  if (const Range* const heap = holding(0)) return heap;
  for (const bool peer : {true, false}) {
    const uint32_t number = published_.number_at(address, peer);
    const Range* const range = number == 0 ? nullptr : holding(number);
    if (range != nullptr) return range;
  }
  return nullptr;
}

Windows::Location Windows::find(const void* address, size_t bytes) const {
  const auto* const at = static_cast<const std::byte*>(address);
  if (!detail::names_window(address)) {
    const Range* const range = around(at, bytes);
    return {range, range == nullptr ? 0 : static_cast<uint64_t>(at - range->begin)};
  }
  const auto entry = entries_.find(detail::window_number(address));
  const bool symmetric = entry != entries_.end() && entry->second.serial != 0;
  return {symmetric ? &entry->second.range : nullptr, detail::window_offset(address)};
}

WindowHandle Windows::handle_of(const std::byte* address) const {
  WindowHandle newest;
  uint64_t serial = 0;
  const auto [begin, end] = by_begin_.equal_range(address);
  for (auto at = begin; at != end; ++at) {
    const Entry& entry = entries_.at(at->second);
    if (entry.serial > serial) {
      serial = entry.serial;
      newest.number = at->second;
    }
  }
  return newest;
}

std::string Windows::MappedHeaps::describe(const void* address) const {
  for (size_t of = 0; of < direct.size(); ++of) {
    const auto offset = static_cast<size_t>(static_cast<const std::byte*>(address) - direct[of]);
    if (direct[of] == nullptr || static_cast<int>(of) == pe || offset >= bytes) continue;
    return fmt::format(
        "PE {}'s {}, seen from here (ptr()): operations take the address that it has in this PE's "
        "own heap, and the number of the PE",
        of, fmt::ptr(base + offset));
  }
  return "";
}

Windows::MappedHeaps Windows::mapped_heaps() const {
  const auto heap = entries_.find(0);
  if (heap == entries_.end()) return {};
  const Range& range = heap->second.range;
  return {range.begin, range.bytes, group_.rank(), range.direct};
}

std::string Windows::describe_registration() const {
  const auto heap = entries_.find(0);
  if (heap == entries_.end() || heap->second.regions.empty()) return "";
  return heap->second.regions.front().registration().describe();
}

std::string Windows::describe(const WindowHandle& window) const {
  const auto found = entries_.find(window.number);
  if (found == entries_.end()) return fmt::format("window {}: none", window.number);
  const Entry& entry = found->second;
  std::string text = fmt::format("window {}: nothing here", window.number);
  if (entry.range.bytes != 0) {
    text = fmt::format(
        "window {}: {} bytes at {}, {}", window.number, entry.range.bytes,
        fmt::ptr(entry.range.begin),
        transports_.gpu ? transports_.gpu->describe_memory(entry.range.begin) : "host memory");
  }
  const auto way = [&](size_t pe) {
    if (pe == static_cast<size_t>(group_.rank())) return std::string("itself");
    const bool direct = !entry.range.direct.empty() && entry.range.direct[pe] != nullptr;
    return direct ? entry.mapped.how[pe] : std::string("by the NIC");
  };
  const auto alike = [&](size_t a, size_t b) { return way(a) == way(b); };
  for_each_run(static_cast<size_t>(group_.size()), alike, [&](size_t first, size_t last) {
    if (way(first) != "itself") text += fmt::format("; {}: {}", name_pes(first, last), way(first));
  });
  if (!entry.regions.empty()) {
    text += "; the NIC knows it as " + entry.regions.front().registration().describe();
  }
  return text;
}

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
