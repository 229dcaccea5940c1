// SPDX-License-Identifier: Apache-2.0
//
// Storage of one block, found by key. Fresh storage holds 0xa5, so that nobody comes to rely on
// zero. A block that begins behind another has its memory, but not what is in it.
#pragma once

#include <cstddef>
#include <vector>

namespace peal::simt {

class SharedMemory {
 public:
  /// The storage of `key`; the first call makes it. Throws Error when `bytes` or `align` differ
  /// from the first call's, or when `align` is not a power of two.
  void* find(const void* key, size_t bytes, size_t align);

  /// Makes the storage ready for another block, as if it were fresh.
  void renew() {
    for (Piece& piece : pieces_) piece.fresh = true;
  }

 private:
  struct Piece {
    const void* key;
    std::vector<std::byte> memory;
    void* start;
    size_t bytes;
    size_t align;
    bool fresh;
  };
  Piece& make(const void* key, size_t bytes, size_t align);

  std::vector<Piece> pieces_;  // a kernel has few
};

}  // namespace peal::simt
