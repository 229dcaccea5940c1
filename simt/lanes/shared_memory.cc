// SPDX-License-Identifier: Apache-2.0
#include "simt/lanes/shared_memory.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <memory>
#include <string>
#include <utility>

#include "simt/lanes/launch.h"

namespace peal::simt {

void* SharedMemory::find(const void* key, size_t bytes, size_t align) {
  const auto found = std::ranges::find(pieces_, key, &Piece::key);
  Piece& piece = found != pieces_.end() ? *found : make(key, bytes, align);
  if (piece.bytes != bytes || piece.align != align) {
    throw LaneError("block_shared of " + std::to_string(bytes) + " bytes aligned to " +
                    std::to_string(align) + ", but the first call with this key had " +
                    std::to_string(piece.bytes) + " aligned to " + std::to_string(piece.align));
  }
  if (piece.fresh) std::memset(piece.start, 0xa5, bytes);
  piece.fresh = false;
  return piece.start;
}

SharedMemory::Piece& SharedMemory::make(const void* key, size_t bytes, size_t align) {
  if (!std::has_single_bit(align)) {
    throw LaneError("block_shared aligned to " + std::to_string(align) + ", not a power of two");
  }
  size_t room = bytes + align;
  Piece piece{key, std::vector<std::byte>(room), nullptr, bytes, align, true};
  piece.start = piece.memory.data();
  std::align(align, bytes, piece.start, room);
  pieces_.push_back(std::move(piece));  // moving a vector keeps its storage in place
  return pieces_.back();
}

}  // namespace peal::simt
