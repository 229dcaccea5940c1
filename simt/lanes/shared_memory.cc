// SPDX-License-Identifier: Apache-2.0
#include "simt/lanes/shared_memory.h"

#include <bit>
#include <memory>
#include <string>
#include <utility>

#include "simt/lanes/launch.h"

namespace peal::simt {

void* SharedMemory::find(const void* key, size_t bytes, size_t align) {
  if (const auto found = pieces_.find(key); found != pieces_.end()) {
    const Piece& piece = found->second;
    if (piece.bytes == bytes && piece.align == align) return piece.start;
    throw LaneError("block_shared of " + std::to_string(bytes) + " bytes aligned to " +
                    std::to_string(align) + ", but the first call with this key had " +
                    std::to_string(piece.bytes) + " aligned to " + std::to_string(piece.align));
  }
  if (!std::has_single_bit(align)) {
    throw LaneError("block_shared aligned to " + std::to_string(align) + ", not a power of two");
  }
  size_t room = bytes + align;
  Piece piece{std::vector<std::byte>(room, std::byte{0xa5}), nullptr, bytes, align};
  piece.start = piece.memory.data();
  std::align(align, bytes, piece.start, room);
  void* const start = piece.start;
  pieces_.emplace(key, std::move(piece));  // moving a vector keeps its storage in place
  return start;
}

}  // namespace peal::simt
