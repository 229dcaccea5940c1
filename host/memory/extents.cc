// SPDX-License-Identifier: Apache-2.0
#include "host/memory/extents.h"

#include <fmt/format.h>

#include <algorithm>

namespace peal {
namespace {

constexpr auto kOffset = [](const auto& block) { return block.offset; };

uint64_t units_of(uint64_t bytes) { return (bytes + Extents::kUnit - 1) / Extents::kUnit; }

}  // namespace

// What copy_ has of the range, to the kernels' memory.
void Extents::show(uint64_t offset, uint64_t bytes) {
  const uint64_t first = offset / kUnit;
  memory_.copy_in(memory_.address() + first, copy_.data() + first, units_of(bytes));
}

void Extents::allocate(uint64_t offset, uint64_t bytes) {
  const uint64_t first = offset / kUnit;
  const uint64_t whole = bytes / kUnit;
  std::fill_n(copy_.begin() + static_cast<ptrdiff_t>(first), whole, static_cast<uint8_t>(kUnit));
  if (bytes % kUnit != 0) copy_[first + whole] = static_cast<uint8_t>(bytes % kUnit);
  blocks_.insert(std::ranges::lower_bound(blocks_, offset, {}, kOffset), {offset, bytes, false});
  show(offset, bytes);
}

void Extents::free(uint64_t offset) {
  Block& block = *std::ranges::lower_bound(blocks_, offset, {}, kOffset);
  block.freed = true;
  std::fill_n(copy_.begin() + static_cast<ptrdiff_t>(offset / kUnit), units_of(block.bytes),
              CheckTable::kFreed);
  show(offset, block.bytes);
}

void Extents::forget(uint64_t offset) {
  const auto block = std::ranges::lower_bound(blocks_, offset, {}, kOffset);
  const uint64_t bytes = block->bytes;
  std::fill_n(copy_.begin() + static_cast<ptrdiff_t>(offset / kUnit), units_of(bytes), uint8_t{0});
  blocks_.erase(block);
  show(offset, bytes);
}

void Extents::reserve(uint64_t bytes) {
  std::fill_n(copy_.begin(), units_of(bytes), CheckTable::kInternal);
  show(0, bytes);
  reserved_ = bytes;
}

bool Extents::begins(uint64_t offset) const {
  const auto block = std::ranges::lower_bound(blocks_, offset, {}, kOffset);
  return block != blocks_.end() && block->offset == offset && !block->freed;
}

uint64_t Extents::bytes_at(uint64_t offset) const {
  return std::ranges::lower_bound(blocks_, offset, {}, kOffset)->bytes;
}

std::string Extents::describe(uint64_t offset) const {
  if (offset < reserved_) return fmt::format("heap offset {:#x}, the runtime's own memory", offset);
  const auto next = std::ranges::upper_bound(blocks_, offset, {}, kOffset);
  if (next != blocks_.begin()) {
    const Block& block = *std::prev(next);
    const std::string at = fmt::format("the {}{} bytes at heap offset {:#x}",
                                       block.freed ? "freed " : "", block.bytes, block.offset);
    const uint64_t into = offset - block.offset;
    if (into < block.bytes) return fmt::format("byte {} of {}", into, at);
    const bool nearer = next == blocks_.end() || into - block.bytes <= next->offset - offset;
    if (nearer) return fmt::format("{} bytes behind {}", into - block.bytes, at);
  }
  if (next == blocks_.end()) return fmt::format("heap offset {:#x}, not allocated", offset);
  return fmt::format("{} bytes ahead of the {}{} bytes at heap offset {:#x}", next->offset - offset,
                     next->freed ? "freed " : "", next->bytes, next->offset);
}

}  // namespace peal
